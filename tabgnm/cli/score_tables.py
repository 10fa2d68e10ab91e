"""Scores beside those of simple models, and columns in short, as tables of the terminal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.table import Table

from tabgnm._printable import brief, printable
from tabgnm.estimators.score_intervals import number_interval, wilson_interval

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator
    from tabgnm.estimators.baselines import Baseline

_MAX_NAMES = 6  # of columns of one kind
_LONGEST_NAME = 30
_IMBALANCED = 1.4  # times the share of the majority class if all classes were equally frequent
READABLE = {
    "r2": "R²",
    "rmse": "RMSE",
    "mae": "MAE",
    "log_loss": "log-loss",
    "d2": "D²",
    "quantile_loss": "quantile loss",
    "balanced_accuracy": "balanced accuracy",
    "roc_auc": "ROC AUC",
}


@dataclass(frozen=True)
class ScoreRow:
    """The score and the error of one model; `interval` is a 95 % confidence interval of the score."""

    name: str
    score: float
    error: float
    interval: tuple[float, float] | None = None


def is_classification(model: TabularEstimator) -> bool:
    """Whether the model predicts classes."""
    return hasattr(model, "predict_proba")


def score_names(model: TabularEstimator) -> tuple[str, str]:
    """Return what `score` is, and what the error beside it is."""
    if is_classification(model):
        return "accuracy", "log_loss"
    return ("d2", "quantile_loss") if model.fitted_.targets.metric_name == "d2" else ("r2", "rmse")


def meaning_of_score(model: TabularEstimator) -> str:
    """Return a sentence, after a space, on how the score of several targets is computed; "" for one target."""
    targets: Any = model.fitted_.targets
    if is_classification(model):
        return " A row counts as right if all targets are." if len(targets.classes) > 1 else ""
    return f" {READABLE[targets.metric_name]} is the mean over the targets." if targets.n_targets > 1 else ""


def no_better_than_majority(model: Any, rows: Sequence[ScoreRow]) -> str | None:
    """Return what to say and try if a classifier of one target is no better than the most frequent class."""
    score = {row.name: row.score for row in rows}
    majority = score.get("majority class", math.nan)
    if not is_classification(model) or not score.get("this model", math.nan) <= majority:
        return None
    classes = model.fitted_.targets.classes
    if len(classes) > 1 or model.class_weight is not None or majority * len(classes[0]) < _IMBALANCED:
        return "The model is no better than the majority class."
    return (
        "The model is no better than the majority class. If rare classes matter, try --set class_weight=balanced, and "
        "compare the balanced accuracy in `tabgnm evaluate`."
    )


def out_of_fold_rows(model: TabularEstimator) -> NDArray[np.bool_]:
    """Return which rows of `fit` a model has out-of-fold predictions for."""
    of_targets = model.oof_prediction_
    predicted = np.column_stack(of_targets if isinstance(of_targets, list) else [of_targets])
    scored: NDArray[np.bool_] = ~np.isnan(predicted).any(axis=1)
    return scored


def out_of_fold_row(model: TabularEstimator, y: Any, *, weighted: bool) -> ScoreRow | None:
    """Return the scores of a model on rows that its networks were not trained on; None if there are none.

    Parameters
    ----------
    model : estimator
        Just fitted.
    y : array-like
        The target in `fit`.
    weighted : bool
        Whether the rows had weights; there is no interval then.
    """
    if not model.fitted_.scores:
        return None
    scores = model.oof_scores_
    interval = None if weighted else _out_of_fold_interval(model, y)
    error = {"accuracy": lambda: scores["log_loss"], "d2": lambda: scores["quantile"]}
    score = score_names(model)[0]
    return ScoreRow("this model", model.oof_score_, error.get(score, lambda: math.sqrt(scores["mse"]))(), interval)


def _out_of_fold_interval(model: TabularEstimator, y: Any) -> tuple[float, float] | None:
    scored = out_of_fold_rows(model)
    if is_classification(model):
        return wilson_interval(model.oof_score_, int(scored.sum()))
    targets: Any = model.fitted_.targets
    numbers, predicted = np.asarray(y, dtype=np.float64)[scored], np.asarray(model.oof_prediction_)[scored]
    return number_interval(targets, numbers, predicted, seed=0)


def baseline_row(own: Baseline, *, squared: bool) -> ScoreRow:
    """Return the scores of a simple model."""
    return ScoreRow(own.name, own.score, math.sqrt(own.loss) if squared else own.loss)


def score_table(rows: Sequence[ScoreRow], names: tuple[str, str]) -> Table:
    """Return the table of models, the best first."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    with_intervals = any(row.interval is not None for row in rows)
    score, error = (READABLE.get(name, name) for name in names)
    headings = [score, "95 % interval", error] if with_intervals else [score, error]
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in sorted(rows, key=lambda own: -own.score):
        interval = "" if row.interval is None else " to ".join(shown_score(end, names[0]) for end in row.interval)
        cells = [shown_score(row.score, names[0]), *([interval] if with_intervals else []), f"{row.error:,.4g}"]
        table.add_row(row.name, *cells, style="bold" if row.name == "this model" else None)
    return table


def score_records(rows: Sequence[ScoreRow], names: tuple[str, str]) -> list[dict[str, Any]]:
    """Return the same for JSON."""
    return [
        {"model": row.name, names[0]: row.score, names[1]: row.error}
        | ({} if row.interval is None else {"interval": list(row.interval)})
        for row in rows
    ]


def shown_score(value: float, name: str) -> str:
    """Return a score of that name as text."""
    return f"{value:.1%}" if name.endswith("accuracy") else f"{value:.3f}"


def columns_in_short(model: TabularEstimator) -> list[str]:
    """Return a line for each kind of column, with some of the names."""
    columns = list(model.columns_)
    lines = []
    for kind, n in Counter(column.kind for column in columns).most_common():
        own = [column for column in columns if column.kind == kind]
        names = [brief(printable(column.name), _LONGEST_NAME) for column in own[:_MAX_NAMES]]
        more = "" if n <= _MAX_NAMES else f" and {n - _MAX_NAMES} more"
        n_missing = sum(column.n_missing for column in own)
        missing = f"; {n_missing:,} cells are missing" if n_missing else ""
        lines.append(f"{n} {_kind(kind, n)}: {', '.join(names)}{more}{missing}")
    return lines


def _kind(kind: str, n: int) -> str:
    if kind == "ignore":
        return "not used"
    word = {"datetime": "date"}.get(kind, kind)
    return word if n == 1 else f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"


def column_records(model: TabularEstimator) -> list[dict[str, Any]]:
    """Return the columns for JSON."""
    return [
        {"name": own.name, "kind": own.kind, "levels": own.n_levels, "missing": own.n_missing} for own in model.columns_
    ]
