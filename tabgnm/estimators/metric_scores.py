"""Scores of given predictions, and a check that a metric can score the targets."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabgnm.estimators.metrics import Predicted, needs_numbers, needs_positive, scorer_of, takes_weights
from tabgnm.estimators.targets import ClassTargets, NumberTargets
from tabgnm.nn.losses import LogLinkLoss, Tweedie

Array = NDArray[Any]

_MAX_CHECKED_ROWS = 1000  # rows for the check of a metric


def score(
    metric: Any, targets: ClassTargets | NumberTargets, predictions: Array, y: Array, weights: Array | None
) -> float:
    """Return the score of predictions by a metric other than "auto"."""
    n_classes = len(targets.classes[0]) if isinstance(targets, ClassTargets) else 2
    power = targets.loss.power if isinstance(targets.loss, LogLinkLoss) else Tweedie.power
    scorer = scorer_of(metric, n_classes, power)
    arguments = {"sample_weight": weights} if weights is not None and takes_weights(scorer) else {}
    return float(scorer(_as_model(targets, predictions, y), None, y, **arguments))


def check_metric_fits(
    metric: Any, targets: ClassTargets | NumberTargets, y: Array, *, all_logarithms: bool = False
) -> None:
    """Raise if a metric cannot score these targets; called before training.

    `all_logarithms` means that all candidates learn the logarithm of the target.
    """
    if isinstance(targets, ClassTargets):
        if targets.kind == "one":
            return  # a single class is always predicted, regardless of the metric
        if needs_numbers(metric):
            raise ValueError(
                f"metric={metric!r:.80} cannot score these targets (it compares numbers, but y has classes); use "
                "metric='auto', or a metric for this type of target"
            )
        codes = targets.codes(y).reshape(len(y), -1)
        _, rows = np.unique(codes, axis=0, return_index=True)
        rows = np.sort(rows)[:_MAX_CHECKED_ROWS]
        parts = []
        for column, classes in zip(codes[rows].T, targets.classes, strict=True):
            part = np.full((len(rows), len(classes)), 0.5 / len(classes))
            part[np.arange(len(rows)), column] += 0.5
            parts.append(part)
        predictions = np.concatenate(parts, axis=1)
    else:
        is_positive = isinstance(targets.loss, LogLinkLoss) or all_logarithms
        if needs_positive(metric) and not is_positive:
            raise ValueError(
                f"metric={metric!r} requires positive predictions, which loss={targets.loss.name!r} does not "
                "guarantee; use loss='poisson', 'gamma' or 'tweedie', or another metric"
            )
        rows = np.arange(min(len(y), _MAX_CHECKED_ROWS))
        predictions = y[rows].reshape(len(rows), -1) + 1.0
        if targets.quantiles is not None:
            predictions = np.repeat(predictions, len(targets.quantiles), axis=1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about so few rows
            score(metric, targets, predictions, y[rows], None)
    except Exception as error:  # of a scorer, which may be the user's own
        raise ValueError(
            f"metric={metric!r:.80} cannot score these targets ({type(error).__name__}: {error!s:.200}); use "
            "metric='auto', or a metric for this type of target"
        ) from error


def _as_model(targets: ClassTargets | NumberTargets, predictions: Array, y: Array) -> Predicted:
    """Return predictions in a form that scorers accept as a fitted model, with the classes that y has."""
    if isinstance(targets, NumberTargets):
        numbers = predictions[:, 0] if targets.one_dimensional and targets.quantiles is None else predictions
        return Predicted("regressor", {"predict": numbers})
    parts = targets.parts(predictions)
    labels = [classes[np.argmax(part, axis=1)] for classes, part in zip(targets.classes, parts, strict=True)]
    if targets.kind == "multilabel":
        ones = np.column_stack([part[:, 1] for part in parts])
        methods = {"predict": np.column_stack(labels), "predict_proba": ones, "decision_function": ones}
        return Predicted("classifier", methods, list(targets.classes))
    if targets.kind == "joint":
        return Predicted("classifier", {"predict": np.column_stack(labels), "predict_proba": parts}, targets.classes)
    probabilities, classes = parts[0], targets.classes[0]
    if targets.kind == "multiclass":
        present = np.unique(targets.codes(y))
        probabilities, classes = probabilities[:, present], classes[present]
        sums = probabilities.sum(axis=1, keepdims=True)
        probabilities = np.divide(
            probabilities, sums, out=np.full_like(probabilities, 1 / len(present)), where=sums > 0
        )
    methods = {"predict": labels[0], "predict_proba": probabilities}
    if targets.kind == "binary":
        methods["decision_function"] = probabilities[:, 1]
    return Predicted("classifier", methods, classes)
