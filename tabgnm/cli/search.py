"""``tabgnm search``: settings compared by cross-validation, and the best model written."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich import box
from rich.table import Table

from tabgnm import FleetSearchCV
from tabgnm.cli.fit import (
    INTERRUPTED_TRAINING,
    chosen_task,
    fitted,
    scores_beside_baselines,
    tell_next_commands,
    tell_scores,
)
from tabgnm.cli.progress import showing_progress, showing_steps
from tabgnm.cli.score_tables import score_names, score_records
from tabgnm.cli.tablefiles import TableFileError
from tabgnm.cli.terminal import Output, UsageProblem, table_is_to_blame
from tabgnm.cli.training_table import Columns, TrainingTable, one_or_all, read_training_table
from tabgnm.estimators.metrics import scorer_of
from tabgnm.training.progress_display import clock

if TYPE_CHECKING:
    from tabgnm.cli.options import Reading
    from tabgnm.cli.settings import FitSettings, Grid

_MAX_ROWS = 20  # of the table of settings


def run_search(
    source: str,
    reading: Reading,
    columns: Columns,
    settings: FitSettings,
    grid: Grid,
    output: Path,
    *,
    n_folds: int,
    quiet: bool,
    as_json: bool,
) -> None:
    """Search, tell what came out and write the best model."""
    out = Output(as_json=as_json)
    grid.check(settings.task, settings.values)
    began = time.monotonic()
    with out.showing_warnings():
        with showing_steps("reading the table", wanted=not quiet):
            table = read_training_table(source, reading, columns, task=settings.task)
        task, said = chosen_task(settings.task, table, columns.targets)
        grid.check(task, settings.values)
        out.text(said)
        out.text(f"{grid.n_settings} settings on {n_folds} folds each.")
        search = _searched(settings, task, table, grid, n_folds, quiet=quiet)
        best = replace(settings, values={**settings.values, **search.best_params_})
        model, _, interrupted = fitted(best, task, table, quiet=quiet)
        model.save(output)
        with showing_steps("fitting simple models to compare with", wanted=not quiet):
            rows = scores_beside_baselines(model, table)
    results = _results(search)
    metric = score_names(model)[0] if settings.values["metric"] == "auto" else str(settings.values["metric"])
    out.show(_table(results, metric))
    out.text(f"Mean and standard deviation over {n_folds} folds.")
    if interrupted:
        out.text(INTERRUPTED_TRAINING)
    out.text(f"Best: {', '.join(f'{name}={value}' for name, value in search.best_params_.items())}")
    tell_scores(out, model, rows, len(table.X))
    out.text(f"Searched in {clock(time.monotonic() - began)}. Model: {output}")
    tell_next_commands(out, output, source)
    out.finish(
        {
            "task": task,
            "target": one_or_all(columns.targets),
            "rows": len(table.X),
            "metric": metric,
            "best": dict(search.best_params_),
            "results": results,
            "scores": score_records(rows, score_names(model)),
            "interrupted": interrupted,
            "model": str(output),
        }
    )


def _searched(
    settings: FitSettings, task: str, table: TrainingTable, grid: Grid, n_folds: int, *, quiet: bool
) -> FleetSearchCV:
    given = settings.values["metric"]
    scoring = None
    if given != "auto":
        n_classes = table.y.nunique() if task == "classification" and table.y.ndim == 1 else 2
        scoring = scorer_of(given, n_classes)
    _check_folds(task, table, n_folds)
    cv: Any = n_folds
    parameters = {} if table.weights is None else {"sample_weight": table.weights}
    with showing_progress(wanted=not quiet) as verbose, table_is_to_blame():
        if table.groups is not None:
            from sklearn.model_selection import GroupKFold

            cv = list(GroupKFold(n_folds).split(table.X, groups=table.groups.astype(str)))
        search = FleetSearchCV(
            settings.estimator(task),
            {name: list(values) for name, values in grid.values.items()},
            cv=cv,
            scoring=scoring,
            refit=False,  # it would leave out the groups
            verbose=verbose,
            error_score="raise",
        )
        return search.fit(table.X, table.y, **parameters)


def _check_folds(task: str, table: TrainingTable, n_folds: int) -> None:
    """Raise if there are not enough rows, groups or rows of a class for the folds."""
    if table.groups is not None:
        n, what = table.groups.nunique(), "different values of --group"
    elif task == "classification" and table.y.ndim == 1:
        n, what = int(table.y.value_counts().max()), "rows of the most frequent class"
    else:
        n, what = len(table.X) // 2, "times two rows, which scores need in each fold"
    if n < 2:
        raise TableFileError(f"the table has {n} {what}; a search needs at least 2: add rows, or use tabgnm fit")
    if n < n_folds:
        raise UsageProblem(f"the table has {n} {what}; use --folds {n} or fewer")


def _results(search: FleetSearchCV) -> list[dict[str, Any]]:
    """Return settings and scores, the best first."""
    found = search.cv_results_
    order = np.argsort(found["rank_test_score"], kind="stable")
    return [
        {
            "settings": dict(found["params"][place]),
            "score": float(found["mean_test_score"][place]),
            "score_std": float(found["std_test_score"][place]),
        }
        for place in order
    ]


def _table(results: list[dict[str, Any]], metric: str) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    names = list(results[0]["settings"])
    for name in names:
        table.add_column(name)
    table.add_column(metric, justify="right", no_wrap=True)
    for row in results[:_MAX_ROWS]:
        table.add_row(*(str(row["settings"][name]) for name in names), f"{row['score']:.4g} ± {row['score_std']:.2g}")
    if len(results) > _MAX_ROWS:
        table.add_row("...")
    return table
