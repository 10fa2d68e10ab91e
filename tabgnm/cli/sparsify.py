"""``tabgnm sparsify``: a small machine that a model teaches, as text, picture and model file."""

from __future__ import annotations

import inspect
import io
import shlex
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

from tabgnm._files import paths
from tabgnm.cli.machine_text import machine_table
from tabgnm.cli.models import inputs_of, load_model, read_inputs, read_targets, targets_of
from tabgnm.cli.progress import in_terminal, showing_progress
from tabgnm.cli.settings import named_value, value_of
from tabgnm.cli.tablefiles import TableFileError, check_target, require_columns
from tabgnm.cli.terminal import Output, UnusableModel, UsageProblem, table_is_to_blame
from tabgnm.cli.wording import in_file_terms
from tabgnm.estimators import small_machines
from tabgnm.estimators.machines import MachineMethods, check_teaching
from tabgnm.estimators.parameters import GNMParameters

if TYPE_CHECKING:
    from tabgnm.cli.options import Reading
    from tabgnm.estimators.base import TabularEstimator

_MAX_EQUATIONS = 60  # lines; more than two screens are not read
DIGITS = 4


def run_sparsify(
    model_path: Path,
    source: str,
    reading: Reading,
    target: Sequence[str],
    output: Path,
    *,
    n_edges: int | None,
    tolerance: float | None,
    assignments: list[str],
    picture: Path | None,
    seed: int,
    quiet: bool,
    as_json: bool,
) -> None:
    """Distill a model, show the small machine and write it."""
    out = Output(as_json=as_json)
    if picture is not None:
        require_pictures(picture)
    options = _options(assignments)
    with out.showing_warnings():
        model = load_model(model_path)
        if not isinstance(model, GNMParameters):
            raise UnusableModel(
                f"the model {str(model_path)!r} is a {type(model).__name__}, whose layers are fixed, so it cannot be "
                "made sparse; fit a GNM with `tabgnm fit`"
            )
        _check_options(model, options)
        names = targets_of(model, target, required=False)
        frame = read_inputs(source, reading, model, names)
        _check_rows(model, options, len(frame), source)
        labels = _labels(frame, model, names, bool(target), source)
        wanted = not quiet and not as_json and in_terminal()
        with showing_progress(wanted=wanted) as verbose, table_is_to_blame():
            options |= {"n_edges": n_edges, "tolerance": tolerance, "random_state": seed}
            small = _distilled(model.set_params(verbose=verbose), frame[inputs_of(model)], labels, options)
        small.set_params(verbose=0)
        small._set_target_names(names)
        small.save(output)
        if picture is not None:
            draw(small, picture)
    judged = "the target" if labels is not None else "the predictions of the model (the table has no usable target)"
    out.text(f"Sizes, evaluated against {judged} on held-out rows:")
    out.show(path_table(small))
    tell_machine(out, small)
    out.text()
    if picture is not None:
        out.text(f"Picture: {picture}")
    out.text(f"Model: {output}")
    out.text("Next:")
    out.text(f"  tabgnm export {shlex.quote(str(output))} model.c        # or .sql, .py, .onnx")
    machine = small.machine_
    out.finish(
        {
            "edges": machine.n_edges,
            "hidden": machine.n_hidden,
            "judged_by": "target" if labels is not None else "model",
            "path": [dict(own) for own in small._path],
            "description": small.describe(),
            "equations": small.equations(digits=DIGITS),
            "picture": None if picture is None else str(picture),
            "model": str(output),
        }
    )


def _distilled(model: MachineMethods, X: Any, labels: Any, options: dict[str, Any]) -> Any:
    """Return the small machine; that all sizes have more edges than wanted is known only after the training."""
    try:
        return model.distill(X, labels, **options)
    except ValueError as error:
        if str(error).startswith("n_edges="):
            raise UsageProblem(in_file_terms(str(error))) from error
        raise


def _options(assignments: list[str]) -> dict[str, Any]:
    """Return the options of `distill` that `--set` has."""
    parameters = inspect.signature(MachineMethods.distill).parameters.values()
    own = {"n_edges", "tolerance", "random_state"}  # which have options of their own
    known = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY and each.name not in own]
    listed = f"`tabgnm sparsify` has the parameters {', '.join(sorted(known))}"
    named = (named_value(text, "--set", "n_layers=2", known, listed) for text in assignments)
    return {name: value_of(value) for name, value in named}


def _check_rows(model: TabularEstimator, options: dict[str, Any], n_rows: int, source: str) -> None:
    """Raise if there are fewer rows than folds to compare sizes on."""
    n_folds = options.get("n_folds", inspect.signature(model.distill).parameters["n_folds"].default)
    if n_rows < n_folds:
        fewer = f", or use --set n_folds={n_rows}" if n_rows > 1 else ""
        raise TableFileError(
            f"{source!r} has {n_rows} rows, but sizes are compared on {n_folds} folds; add rows{fewer}"
        )


def _check_options(model: TabularEstimator, options: dict[str, Any]) -> None:
    """Raise if a value is invalid, before the table is read."""
    defaults = {name: own.default for name, own in inspect.signature(model.distill).parameters.items()}
    values = defaults | options
    names = ("penalty", "n_hidden", "n_layers", "activation", "n_edges", "tolerance", "n_folds", "n_starts")
    try:
        model._path_settings(*(values[name] for name in names))
        check_teaching(values["label_share"], values["n_augmented"])
    except (ValueError, TypeError) as error:
        raise UsageProblem(f"--set: {error}") from None


def _labels(frame: Any, model: TabularEstimator, names: Sequence[str], asked_for: bool, source: str) -> Any:
    """Return the targets to learn from and to choose the size by, if the table has them."""
    if not names or (not asked_for and not set(names) <= set(frame.columns)):
        return None
    require_columns(list(frame.columns), names, source)
    try:
        for name in names:
            check_target(frame, name, source)
        return read_targets(frame, source, model, names)
    except TableFileError as error:
        if asked_for:
            raise
        warnings.warn(
            f"{error}; the target is not used, and the machine learns from predictions of the model only", stacklevel=2
        )
        return None


def path_table(small: TabularEstimator) -> Table:
    """Return the sizes of the path, each once and with the chosen one marked."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    score = small_machines.score_name(small)
    for heading in ("edges", "columns", "hidden units", "loss", score, ""):
        table.add_column(heading, justify="right", no_wrap=heading != score)
    for own in _one_of_each_size(small._path):
        chosen = bool(own["chosen"])
        cells = [
            f"{own['edges']:,}",
            f"{own['columns']}",
            f"{own['hidden']}",
            f"{own['loss']:,.4g}",
            f"{own['score']:.3f}",
        ]
        table.add_row(*cells, "◀ chosen" if chosen else "", style="bold" if chosen else None)
    return table


def _one_of_each_size(path: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the machine with the lowest loss of each size, or the one that is chosen, in the order of the path."""

    def size(own: Mapping[str, Any]) -> tuple[int, int, int]:
        return own["edges"], own["columns"], own["hidden"]

    shown: dict[tuple[int, int, int], Mapping[str, Any]] = {}
    for own in sorted(path, key=lambda each: (not each["chosen"], each["loss"])):
        shown.setdefault(size(own), own)
    return [own for own in path if shown[size(own)] is own]


def tell_machine(out: Output, small: MachineMethods) -> None:
    """Show a machine in words, as a drawing, and as equations."""
    out.text(small.describe())
    drawing = machine_table(small.machine_)
    if drawing is not None:
        out.show(drawing)
    equations = small.equations(digits=DIGITS)
    lines = equations.count("\n") + 1
    if lines <= _MAX_EQUATIONS:
        out.text(equations)
    else:
        out.text(f"The equations take {lines:,} lines; a smaller machine (--edges 50) is easier to read.")


def require_pictures(path: Path) -> None:
    """Raise before the work if the picture cannot be drawn."""
    from tabgnm._extras import import_extra

    import_extra("matplotlib", "plot", "drawing the machine")
    if path.suffix.lower() not in (".svg", ".png", ".pdf"):
        raise UsageProblem(f"--picture {str(path)!r} has an unknown extension; use .svg, .png or .pdf")


def draw(small: TabularEstimator, path: Path) -> None:
    """Write the picture of a machine; an existing file is replaced once the new one is complete."""
    import matplotlib as mpl

    from tabgnm.plots import plot_graph

    content = io.BytesIO()
    # No date in the file: the same machine gives the same bytes.
    metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
    with mpl.rc_context({"svg.hashsalt": "tabgnm"}):
        plot_graph(small).figure.savefig(content, format=path.suffix[1:].lower(), metadata=metadata)
    paths.replace(path, [content.getvalue()])
