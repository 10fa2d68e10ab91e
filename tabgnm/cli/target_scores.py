"""Scores of a model with several targets: of all of them together, and of each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.table import Table
from sklearn.metrics import mean_absolute_error, r2_score

from tabgnm._printable import brief, printable
from tabgnm.cli.score_tables import READABLE, ScoreRow, shown_score
from tabgnm.estimators.class_targets import MIN_PROBABILITY
from tabgnm.estimators.metrics import d2_of_quantiles, quantile_losses, quantile_parts, quantile_scores
from tabgnm.estimators.score_intervals import number_interval, wilson_interval

Array = NDArray[Any]

_LONGEST_NAME = 30

TargetScores = list[dict[str, Any]]  # the name of each target, and its scores


def numbers_of_targets(model: Any, names: list[str], X: Any, y: Array, seed: int) -> tuple[ScoreRow, TargetScores]:
    """Return R² or D² averaged over the targets, and the scores of each target."""
    predicted = model.predict(X)
    scores: TargetScores
    if model.fitted_.targets.predicted_quantiles:
        scores = [
            {"target": name, "d2": d2_of_quantiles(*own, None), "quantile_loss": float(quantile_losses(*own, None)[0])}
            for name, own in zip(names, quantile_parts(model.fitted_.targets, y, predicted), strict=True)
        ]
        return row_of_numbers(model, y, predicted, seed), scores
    scores = [
        {
            "target": name,
            "r2": float(r2_score(own, of_own)) if len(own) > 1 and np.ptp(own) > 0 else float("nan"),
            "rmse": float(np.sqrt(np.mean((own - of_own) ** 2))),
            "mae": float(mean_absolute_error(own, of_own)),
        }
        for name, own, of_own in zip(names, y.T, predicted.T, strict=True)
    ]
    return row_of_numbers(model, y, predicted, seed), scores


def row_of_numbers(model: Any, y: Array, predicted: Array, seed: int) -> ScoreRow:
    """Return the score of a regressor with its interval, and its error: the quantile loss or the RMSE."""
    targets = model.fitted_.targets
    error = (
        quantile_scores(targets, y, predicted, None)["quantile"]
        if targets.predicted_quantiles
        else float(np.sqrt(np.mean((y - predicted) ** 2)))
    )
    interval = number_interval(targets, y, predicted, seed)
    return ScoreRow("this model", model._score_numbers(predicted, y, None), error, interval)


def classes_of_targets(model: Any, names: list[str], X: Any, labels: Array) -> tuple[ScoreRow, TargetScores]:
    """Return the share of rows of which all labels are right, and the scores of each target."""
    targets = model.fitted_.targets
    probabilities = model.predict_proba(X)
    if targets.kind == "multilabel":
        probabilities = [np.column_stack([1 - own, own]) for own in probabilities.T]
    right, losses, scores = [], [], []
    for name, classes, part, own in zip(names, targets.classes, probabilities, labels.T, strict=True):
        right.append(np.asarray(classes[part.argmax(axis=1)] == own))
        losses.append(log_losses(classes, part, own))
        scores.append({"target": name, "accuracy": float(right[-1].mean()), "log_loss": float(losses[-1].mean())})
    accuracy = float(np.all(right, axis=0).mean())
    return ScoreRow("this model", accuracy, float(np.mean(losses)), wilson_interval(accuracy, len(labels))), scores


def log_losses(classes: Array, probabilities: Array, labels: Array) -> Array:
    """Return the log-loss of each row; a class that the model does not know has probability 0."""
    places = {label: place for place, label in enumerate(classes.tolist())}
    own = np.array([places.get(label, -1) for label in labels.tolist()])
    of_true = np.where(own >= 0, probabilities[np.arange(len(own)), own], 0.0)
    return np.asarray(-np.log(np.maximum(of_true, MIN_PROBABILITY)))


def table_of_targets(scores: TargetScores) -> Table:
    """Return a line for each target."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    names = [name for name in scores[0] if name != "target"]
    table.add_column("target")
    for name in names:
        table.add_column(READABLE.get(name, name), justify="right", no_wrap=True)
    for own in scores:
        cells = [
            shown_score(own[name], name) if name in ("accuracy", "r2", "d2") else f"{own[name]:,.4g}" for name in names
        ]
        table.add_row(brief(printable(own["target"]), _LONGEST_NAME), *cells)
    return table
