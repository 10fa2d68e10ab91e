"""The pages of the experiments: each result as tables, rows and remarks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median

from tabgnm.datasets import xor_bayes_accuracy
from tabgnm.paper import pictures
from tabgnm.paper.completeness import gaps
from tabgnm.paper.curves import Curve
from tabgnm.paper.output import Page, TextTable, whole_file
from tabgnm.paper.protocol import MAX_EPOCHS, N_FOLDS, Setting
from tabgnm.paper.run import ExperimentPlan
from tabgnm.paper.runtime import Runtime
from tabgnm.paper.sparse import LARGEST_GAP, MAX_EDGES, SparseMachine
from tabgnm.paper.sparse import MAX_EPOCHS as SPARSE_EPOCHS
from tabgnm.paper.summary import Cell, compare, summarize
from tabgnm.paper.work import Result

_TASKS = {"classification": "Table 1: accuracy and macro F1 (%)", "regression": "Table 2: mean squared error and R²"}


def setting_remarks(setting: Setting, folds: Sequence[int] | None = None) -> list[str]:
    """Return remarks on settings that differ from the paper's."""
    remarks = []
    if setting.max_epochs != MAX_EPOCHS:
        remarks.append(f"A slice: {setting.max_epochs} epochs, not the paper's {MAX_EPOCHS}.")
    if folds is not None and len(set(folds)) < N_FOLDS:
        remarks.append(f"A slice: folds {', '.join(map(str, sorted(set(folds))))} of {N_FOLDS}.")
    if setting.scaling != "none":
        remarks.append("Features (and numeric targets) are standardised; in the paper, they are raw.")
    return remarks


def missing_remarks(missing: Mapping[str, str]) -> list[str]:
    """Return a remark on each data set that is not in the result, with the reason."""
    return [f"Not included: {name}: {reason}" for name, reason in missing.items()]


def tables_page(plan: ExperimentPlan, results: Sequence[Result], setting: Setting, folds: Sequence[int] | None) -> Page:
    """Return the page of tables 1 and 2, with a comparison of GNM and MLP."""
    cells = summarize(plan.sources, results)
    remarks = [*setting_remarks(setting, folds), *gaps(plan, results)]
    for name, left_out in plan.skipped.items():
        widths = sorted({own.body.width for own in left_out})
        remarks.append(f"Left out of the grid of {name}: {widths} ({left_out[0].reason.split(' are ')[-1]}).")
    remarks += missing_remarks(plan.missing)
    origins = Counter(result.origin for result in results)
    remarks += [f"Trained on {name}: {n:,} trainings." for name, n in sorted(origins.items())]
    tables = [_results_table(task, [cell for cell in cells if cell.task == task]) for task in _TASKS]
    comparisons, verdicts = compare(cells)
    if comparisons:
        remarks.append(
            "The folds of a cross-validation share most of their training rows, so their gains are not independent and "
            "p-values tend to be too small. The p-values are not corrected for the number of tests."
        )
        rows = [(own.label, _gain(own.gain, own.task), str(own.n_folds), _p_value(own.p_value)) for own in comparisons]
        rows += [
            (
                f"{own.n_data_sets} data sets of {own.task} (published: better in {own.n_better_published})",
                f"better in {own.n_better}, equal in {own.n_equal}",
                "",
                _p_value(own.p_value),
            )
            for own in verdicts
            if own.n_data_sets > 1
        ]
        columns = ("data set", "gain of the GNM", "folds", "p (Wilcoxon)")
        tables.append(TextTable("GNM against MLP, fold by fold", columns, rows))
    content = {
        "setting": asdict(setting),
        "origins": dict(sorted(origins.items())),
        "cells": [cell.as_dict() for cell in cells],
        "comparisons": [asdict(own) for own in comparisons],
        "verdicts": [asdict(own) for own in verdicts],
    }
    draw = partial(pictures.draw_tables, list(cells)) if cells else None
    shown = [table for table in tables if table.rows]
    return Page("tables", "Tables 1 and 2", remarks, shown, [cell.as_dict() for cell in cells], content, draw)


def _results_table(task: str, cells: Sequence[Cell]) -> TextTable:
    rows = [
        (
            cell.label,
            cell.model.upper(),
            _mean(cell.mean1, cell.std1, len(cell.folds)),
            _pair(cell.paper.mean1, cell.paper.std1) if cell.paper else "other data",
            _difference(cell.difference),
            _mean(cell.mean2, cell.std2, len(cell.folds)),
            _pair(cell.paper.mean2, cell.paper.std2) if cell.paper else "other data",
            str(len(cell.folds)),
        )
        for cell in cells
    ]
    first, second = ("accuracy", "macro F1") if task == "classification" else ("MSE", "R²")
    columns = ("data set", "model", f"our {first}", "paper's", "better by (σ)", f"our {second}", "paper's ", "folds")
    return TextTable(_TASKS[task], columns, rows)


def curves_page(curves: Sequence[Curve], setting: Setting, missing: Mapping[str, str]) -> Page:
    """Return the page of figure 3 and appendix D."""
    remarks = [*setting_remarks(setting), *missing_remarks(missing)]
    rows = [
        (
            f"{curve.task.source.name} {curve.task.size}",
            curve.task.body.model.upper(),
            f"{curve.task.n_parameters:,}",
            _number(curve.history.train_loss[-1]),
            _number(curve.history.val_loss[-1]),
            _number(min(curve.history.val_loss)),
            str(curve.history.best_epoch),
        )
        for curve in curves
    ]
    columns = ("data set, size", "model", "parameters", "last training loss", "last validation loss", "lowest", "epoch")
    table = TextTable("Losses on the first split", columns, rows)
    dicts = [curve.as_dict() for curve in curves]
    draw = partial(pictures.draw_curves, list(curves)) if curves else None
    content = {"setting": asdict(setting), "curves": dicts}
    return Page("curves", "Training curves (figure 3, appendix D)", remarks, [table], dicts, content, draw)


def runtime_page(runtimes: Sequence[Runtime], n_epochs: int | None, missing: Mapping[str, str]) -> Page:
    """Return the page of appendix C."""
    remarks = [
        "Time per epoch of one model trained alone, including validation: the mean of "
        + (f"{n_epochs} epochs." if n_epochs else "as many epochs as fit into half a second."),
        "The paper shows its times only in figures, without numbers. On its GPU, a GNM takes 1.2 to 1.3 times as long "
        "as an MLP on Car, Wireless and Letter, and more on Connect4.",
        *missing_remarks(missing),
    ]
    mlps = {(own.task.dataset, own.task.size): own for own in runtimes if own.task.body.model == "mlp"}
    rows = []
    for own in runtimes:
        mlp = mlps.get((own.task.dataset, own.task.size)) if own.task.body.model == "gnm" else None
        rows.append(
            (
                f"{own.task.dataset} {own.task.size}".strip(),
                f"{own.task.body.model.upper()} {own.task.body.width}",
                f"{own.n_parameters:,}",
                f"{own.n_effective_parameters:,}",
                f"{1000 * own.seconds:.1f}",
                f"{own.seconds / mlp.seconds:.2f}" if mlp and mlp.seconds else "",
            )
        )
    columns = ("data set, size", "model, width", "parameters", "of them effective", "ms per epoch", "times the MLP's")
    table = TextTable("Time per epoch", columns, rows)
    dicts = [own.as_dict() for own in runtimes]
    draw = partial(pictures.draw_runtimes, list(runtimes)) if runtimes else None
    return Page("runtime", "Running times (appendix C)", remarks, [table], dicts, {"runtimes": dicts}, draw)


def sparse_page(machines: Sequence[SparseMachine], max_epochs: int, seconds: float) -> Page:
    """Return the page of section 6.5."""
    bayes = 100 * xor_bayes_accuracy()
    n_good = sum(machine.success for machine in machines)
    edges = sorted(machine.n_edges for machine in machines)
    remarks = [f"A slice: {max_epochs} epochs, not {SPARSE_EPOCHS}."] if max_epochs != SPARSE_EPOCHS else []
    remarks += [
        f"{n_good} of {len(machines)} machines have at most {MAX_EDGES} edges and are within {LARGEST_GAP} points of "
        f"the best possible accuracy, {bayes:.1f} % (all seeds in {seconds:.0f} s, {max_epochs} epochs).",
        f"Edges: {edges[0]} to {edges[-1]}, median {median(edges):g}. The paper's machine has 14 edges and an accuracy "
        "of 100 % on 20 test points; as the four Gaussians overlap, 20 points are too few to tell.",
        "The strength of the penalty was chosen on validation rows; neither test rows nor fresh points were used.",
    ]
    rows = [
        (
            str(machine.seed),
            f"{machine.l1:g}",
            str(machine.n_edges),
            f"{machine.accuracy:.2f}",
            f"{machine.accuracy - bayes:+.2f}",
            f"{machine.test_accuracy:.0f}",
            machine.mlp,
        )
        for machine in machines
    ]
    columns = ("seed", "l1", "edges", "accuracy (%)", "to the best", "20 test points", "equivalent MLP")
    shown = typical(machines)
    names = {48: "bias", 49: "output", 0: "input 0", 1: "input 1"}
    learned = [
        (
            str(edge.layer),
            names.get(edge.source, str(edge.source)),
            names.get(edge.target, str(edge.target)),
            f"{edge.weight:+.3f}",
        )
        for edge in shown.edges
    ]
    tables = [
        TextTable("Sparse machines for XOR", columns, rows),
        TextTable(f"The learned edges of seed {shown.seed}", ("layer", "from", "to", "weight"), learned),
    ]
    dicts = [machine.as_dict() for machine in machines]
    content = {"bayes_accuracy": bayes, "n_success": n_good, "seconds": seconds, "machines": dicts}
    draw = partial(pictures.draw_sparse, shown, list(machines))
    return Page("sparse", "Sparse machines (section 6.5)", remarks, tables, dicts, content, draw)


def typical(machines: Sequence[SparseMachine]) -> SparseMachine:
    """Return the machine to show: if possible a success that is an MLP, with few edges."""

    def merit(machine: SparseMachine) -> tuple[bool, bool, int, int]:
        return machine.success, not machine.mlp.startswith("not"), -machine.n_edges, -machine.seed

    return max(machines, key=merit)


def _format(value: float) -> str:
    """Return a format with as many decimals as the paper's tables use for numbers of this size."""
    size = abs(value)
    if 0 < size < 5e-5:
        return ".1e"
    return f",.{5 if 0 < size < 0.01 else 3 if size < 1 else 2 if size < 1000 else 1}f"


def _number(value: float, *, signed: bool = False) -> str:
    return f"{value:{'+' if signed else ''}{_format(value)}}" if math.isfinite(value) else "not finite"


def _gain(value: float, task: str) -> str:
    """Format a gain in points of accuracy, or in units of the error."""
    return f"{value:+.2f}" if task == "classification" and math.isfinite(value) else _number(value, signed=True)


def _mean(mean: float, deviation: float, n_folds: int) -> str:
    """Format a mean with the standard deviation over the folds, if there are several folds."""
    if not math.isfinite(mean):
        return "not finite"
    return _pair(mean, deviation) if n_folds > 1 else _number(mean)


def _pair(mean: float, deviation: float) -> str:
    return f"{mean:{_format(mean)}} ± {deviation:{_format(mean)}}"


def _difference(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:+.2f}" if math.isfinite(value) else "σ is 0"


def _p_value(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if value >= 0.0005 else "< 0.001"


def write_index(pages: Sequence[Page], folder: Path) -> None:
    """Write an index of pages."""
    lines = ["# The paper's experiments", "", *(f"- [{page.title}]({page.name}.md)" for page in pages), ""]
    with whole_file(folder / "index.md") as part:
        part.write_text("\n".join(lines), encoding="utf-8")
