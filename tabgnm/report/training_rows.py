"""Recognise the rows of `fit`, so that a report judges a model by out-of-fold predictions of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tabgnm.estimators.base import TabularEstimator
from tabgnm.estimators.out_of_fold import scaled_by
from tabgnm.estimators.targets import ClassTargets, NumberTargets
from tabgnm.table import RawTable

Array = NDArray[Any]

_COMPARED_ROWS = 64
_SAME_SCORE = 1e-6
_SAME_PREDICTION = 1e-3  # of a probability, or of the standard deviation of the target


def out_of_fold(model: TabularEstimator, raw: RawTable, y: Array) -> Array | None:
    """Return the out-of-fold predictions (rows, outputs) if these are the rows of `fit` in their order, or else None.

    They are those rows if the out-of-fold predictions have the same score for these targets as in `fit`, and if for
    some rows of the table they are what the networks of a fold predict.
    """
    values, scores = getattr(model, "_oof_values", None), model.fitted_.scores
    if values is None or len(values) != len(y) or not scores:
        return None
    rows = np.flatnonzero(~np.isnan(values).any(axis=1))
    if not len(rows) or not _same_score(model, values[rows], y[rows]):
        return None
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, _COMPARED_ROWS).round().astype(np.intp))]
    predicted = model._predicted(raw.take(rows), lambda outputs: [_of_folds(model, outputs)])[0]
    distance = np.abs(predicted - values[rows][:, None]).max(axis=2).min(axis=1)
    unit = 1.0 if isinstance(model.fitted_.targets, ClassTargets) else float(np.std(y)) or 1.0
    return values if bool((distance <= _SAME_PREDICTION * unit).all()) else None


def _same_score(model: TabularEstimator, predicted: Array, y: Array) -> bool:
    targets, scores = model.fitted_.targets, model.fitted_.scores
    if not isinstance(targets, ClassTargets):
        own = model._score_numbers(predicted, y, None)  # type: ignore[attr-defined] # of regressors
        return bool(abs(own - scores[targets.metric_name]) <= _SAME_SCORE)
    if targets.kind == "one":
        return False
    try:
        codes = torch.as_tensor(targets.codes(y))
    except ValueError:  # labels that were not in fit
        return False
    loss = float(targets.row_losses(predicted, codes).mean()) / len(targets.classes)
    return abs(loss - scores["log_loss"]) <= _SAME_SCORE * max(1.0, loss)


def _of_folds(model: TabularEstimator, outputs: list[Tensor]) -> Array:
    """Return what the networks of each fold predict, (rows, folds, outputs)."""
    fitted = model.fitted_
    base = fitted.targets
    if isinstance(base, ClassTargets):
        of_networks = np.concatenate(
            [
                np.concatenate([part.exp().numpy() for part in base.log_probabilities(own.to(torch.float64))], axis=2)
                for own in outputs
            ]
        )
    else:
        of_networks = np.concatenate(
            [
                group.targets.numbers(own)
                for group, own in zip(fitted.groups, outputs, strict=True)
                if isinstance(group.targets, NumberTargets)
            ]
        )
    folds = np.array([fold for group in fitted.groups for fold in group.folds])
    weights = fitted.network_weights
    means = []
    for fold in np.unique(folds):
        own = np.average(of_networks[folds == fold], axis=0, weights=weights[folds == fold])
        if isinstance(base, ClassTargets):
            if fitted.temperature != 1.0:
                own = np.concatenate([scaled_by(part, fitted.temperature) for part in base.parts(own)], axis=1)
        else:
            own = base.ordered(own)
        means.append(own)
    return np.stack(means, axis=1)
