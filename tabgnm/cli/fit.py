"""``tabgnm fit``: from a table to a model file, with the score beside simple models."""

from __future__ import annotations

import shlex
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

from tabgnm._printable import brief
from tabgnm.cli.progress import showing_progress, showing_steps
from tabgnm.cli.score_tables import (
    ScoreRow,
    baseline_row,
    column_records,
    columns_in_short,
    meaning_of_score,
    no_better_than_majority,
    out_of_fold_row,
    out_of_fold_rows,
    score_names,
    score_records,
    score_table,
)
from tabgnm.cli.terminal import Output, table_is_to_blame
from tabgnm.cli.training_table import (
    Columns,
    TrainingTable,
    names_in_words,
    one_or_all,
    read_training_table,
    task_of_all,
)
from tabgnm.estimators.baselines import baselines
from tabgnm.training.progress_display import clock

if TYPE_CHECKING:
    from tabgnm.cli.options import Reading
    from tabgnm.cli.settings import FitSettings
    from tabgnm.estimators.base import TabularEstimator

__all__ = ["Columns", "run_fit"]

_MAX_LABELS, _LONGEST_LABEL = 5, 30  # of classes in a warning
INTERRUPTED_TRAINING = "Training was interrupted; this is the best model so far."


def run_fit(
    source: str,
    reading: Reading,
    columns: Columns,
    settings: FitSettings,
    output: Path,
    *,
    only_settings: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Read a table, fit, tell what came out and write the model."""
    out = Output(as_json=as_json)
    with out.showing_warnings():
        with showing_steps("reading the table", wanted=not quiet):
            table = read_training_table(source, reading, columns, task=settings.task)
        task, said = chosen_task(settings.task, table, columns.targets)
        if only_settings:
            _show_settings(out, settings, task, len(table.X))
            return
        out.text(said)
        model, seconds, interrupted = fitted(settings, task, table, quiet=quiet)
        model.save(output)
        with showing_steps("fitting simple models to compare with", wanted=not quiet):
            rows = scores_beside_baselines(model, table)
    if interrupted:
        out.text(INTERRUPTED_TRAINING)
    tell_scores(out, model, rows, len(table.X))
    out.text()
    for line in columns_in_short(model):
        out.text(line)
    out.text(f"Trained in {clock(seconds)}. Model: {output}")
    tell_next_commands(out, output, source)
    out.finish(
        {
            "task": task,
            "target": one_or_all(columns.targets),
            "rows": len(table.X),
            "scores": score_records(rows, score_names(model)),
            "out_of_fold": dict(model.fitted_.scores),
            "columns": column_records(model),
            "seconds": seconds,
            "interrupted": interrupted,
            "model": str(output),
        }
    )


def chosen_task(given: str | None, table: TrainingTable, targets: Sequence[str]) -> tuple[str, str]:
    """Return the task, and what to say about it; warn of classes that cannot be validated."""
    task, reason = (given, "") if given is not None else task_of_all(table.y)
    one = len(targets) == 1
    n_classes = f", {table.y.nunique():,} classes" if task == "classification" and one else ""
    other = "regression" if task == "classification" else "classification"
    remedy = f"; use --task {other} if that is wrong" if "whole numbers" in reason else ""
    why = f" ({reason}{remedy})" if reason else ""
    n_columns = table.X.shape[1]
    shape = f"{len(table.X):,} rows, {n_columns:,} {'column' if n_columns == 1 else 'columns'}"
    if task == "classification":
        for name in targets:
            _warn_of_spellings(table.y if one else table.y[name], name)
    if task == "classification" and one and table.groups is None:  # whose folds leave all rows out
        _warn_of_single_rows(table.y)
    return task, f"{task.capitalize()} of {names_in_words(targets)}{n_classes}{why}: {shape}."


def _warn_of_spellings(y: Any, name: str) -> None:
    """Warn of classes that differ only in case or spaces, which are often meant to be the same."""
    by_meaning: dict[str, list[str]] = {}
    for label in y.unique():
        if isinstance(label, str):
            by_meaning.setdefault(" ".join(label.casefold().split()), []).append(label)
    alike = [sorted(own) for own in by_meaning.values() if len(own) > 1]
    if alike:
        groups = [" and ".join(brief(repr(label), _LONGEST_LABEL) for label in own) for own in alike[:_MAX_LABELS]]
        more = f" and {len(alike) - _MAX_LABELS:,} more" if len(alike) > _MAX_LABELS else ""
        warnings.warn(
            f"classes of {names_in_words([name])} differ only in case or spaces: {', '.join(groups)}{more}; they are "
            "learned as different classes: write them alike in the file if they mean the same",
            stacklevel=2,
        )


def _warn_of_single_rows(y: Any) -> None:
    """Warn of classes with one row, which no network can learn and be scored on."""
    counts = y.value_counts()
    single = [brief(repr(own), _LONGEST_LABEL) for own in counts.index[counts == 1].tolist()]
    if single:
        more = f" and {len(single) - _MAX_LABELS:,} more" if len(single) > _MAX_LABELS else ""
        warnings.warn(
            "classes with a single row are left out of the scores, as none remains to learn them from: "
            f"{', '.join(single[:_MAX_LABELS])}{more}; add rows, or merge rare classes",
            stacklevel=2,
        )


def fitted(
    settings: FitSettings, task: str, table: TrainingTable, *, quiet: bool
) -> tuple[TabularEstimator, float, bool]:
    """Return a fitted estimator, the seconds it took, and whether Ctrl-C ended training."""
    began = time.monotonic()
    with showing_progress(wanted=not quiet) as verbose:
        model = settings.estimator(task, verbose=verbose)
        try:
            with table_is_to_blame():
                model.fit(table.X, table.y, sample_weight=table.weights, groups=table.groups)
        except KeyboardInterrupt:
            if not hasattr(model, "fitted_"):
                raise
            interrupted = True
        else:
            interrupted = False
    model.set_params(verbose=0)  # progress is a matter of this command, not of the model
    return model, time.monotonic() - began, interrupted


def scores_beside_baselines(model: TabularEstimator, table: TrainingTable) -> list[ScoreRow]:
    """Return the out-of-fold scores of a model and of simple ones on the same rows."""
    names = score_names(model)
    own = out_of_fold_row(model, table.y, weighted=table.weights is not None)
    found = baselines(model, table.X, table.y, table.weights, cv=_folds_of(table))
    return [*([] if own is None else [own]), *(baseline_row(each, squared=names[1] == "rmse") for each in found)]


def _folds_of(table: TrainingTable) -> Any:
    """Return folds of whole groups, if there are groups."""
    if table.groups is None:
        return 5
    from sklearn.model_selection import GroupKFold

    n_folds = min(5, table.groups.nunique())
    return list(GroupKFold(n_folds).split(table.X, groups=table.groups.astype(str)))


def tell_scores(out: Output, model: TabularEstimator, rows: list[ScoreRow], n_rows: int) -> None:
    """Show a model's out-of-fold scores beside the baselines."""
    if any(row.name == "this model" for row in rows):
        n_scored = int(out_of_fold_rows(model).sum())
        scored = f"{n_rows:,}" if n_scored == n_rows else f"{n_scored:,} of {n_rows:,}"
        caption = f"Out-of-fold scores on {scored} rows: each is predicted by networks that were not trained on it."
        caption += meaning_of_score(model)
    else:
        caption = (
            "This model was not validated (--set n_folds=0, or too few rows of each class), so it has no out-of-fold "
            "score."
        )
    if rows:
        out.show(score_table(rows, score_names(model)))
    out.text(caption)
    advice = no_better_than_majority(model, rows)
    if advice is not None:
        out.text(advice)


def tell_next_commands(out: Output, model: Path, source: str) -> None:
    """Say what to try next."""
    name, data = shlex.quote(str(model)), "DATA.csv" if source == "-" else shlex.quote(source)
    out.text("Next:")
    out.text(f"  tabgnm predict {name} NEW.csv -o predictions.csv")
    out.text(f"  tabgnm sparsify {name} {data}        # a small, readable machine")
    out.text(f"  tabgnm report {name} --data TEST.csv        # rows that it was not fitted to")


def _show_settings(out: Output, settings: FitSettings, task: str, n_rows: int) -> None:
    explained = settings.explained(task, n_rows)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("setting", "value", "source", "resolved value"):
        table.add_column(heading)
    for row in explained:
        shown = "none" if row["value"] is None else str(row["value"])
        table.add_row(row["name"], shown, row["source"], str(row.get("resolved", "")))
    out.show(table)
    out.finish({"task": task, "settings": explained})
