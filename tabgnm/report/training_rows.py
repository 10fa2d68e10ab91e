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

_COMPARED_ROWS = 512
_SAME_SCORE = 1e-6
_SAME_PREDICTION = 1e-3  # of a probability, or of the standard deviation of the target


def out_of_fold(model: TabularEstimator, raw: RawTable, y: Array) -> Array | None:
    """Return the out-of-fold predictions (rows, outputs) if these are the rows of `fit` in their order, or else None.

    They are those rows if the out-of-fold predictions have the same score for these targets as in `fit`, and if they
    lie between the predictions of the networks, of which they are means, for many rows of the table.
    """
    values, scores = getattr(model, "_oof_values", None), model.fitted_.scores
    if values is None or len(values) != len(y) or not scores:
        return None
    rows = np.flatnonzero(~np.isnan(values).any(axis=1))
    if not len(rows) or not _same_score(model, values[rows], y[rows]):
        return None
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, _COMPARED_ROWS).round().astype(np.intp))]
    low, high = model._predicted(raw.take(rows), lambda outputs: _ends(model, outputs))
    own, targets, unit = values[rows], model.fitted_.targets, 1.0
    if isinstance(targets, ClassTargets):
        # The mean of the networks comes first, and is calibrated then.
        parts = [scaled_by(part, 1 / model.fitted_.temperature) for part in targets.parts(own)]
        own = np.concatenate(parts, axis=1)
    else:
        unit = float(np.std(y)) or 1.0
    room = _SAME_PREDICTION * unit
    return values if bool(((low - room <= own) & (own <= high + room)).all()) else None


def _same_score(model: TabularEstimator, predicted: Array, y: Array) -> bool:
    targets, scores = model.fitted_.targets, model.fitted_.scores
    if not isinstance(targets, ClassTargets):
        own = model._score_numbers(predicted, y, None)
        return bool(abs(own - scores[targets.metric_name]) <= _SAME_SCORE)
    if targets.kind == "one":
        return False
    try:
        codes = torch.as_tensor(targets.codes(y))
    except ValueError:  # labels that were not in fit
        return False
    loss = float(targets.row_losses(predicted, codes).mean()) / len(targets.classes)
    return abs(loss - scores["log_loss"]) <= _SAME_SCORE * max(1.0, loss)


def _ends(model: TabularEstimator, outputs: list[Tensor]) -> list[Array]:
    """Return the lowest and the highest predictions of the networks, (rows, outputs)."""
    groups, base = model.fitted_.groups, model.fitted_.targets
    of_groups = []
    for group, own in zip(groups, outputs, strict=True):
        if isinstance(base, ClassTargets):
            parts = base.log_probabilities(own.to(torch.float64))
            of_groups.append(np.concatenate([part.exp().numpy() for part in parts], axis=2))
        else:
            assert isinstance(group.targets, NumberTargets)
            of_groups.append(group.targets.numbers(own))
    of_networks = np.concatenate(of_groups)  # (networks, rows, outputs)
    return [of_networks.min(axis=0), of_networks.max(axis=0)]
