"""Recognise the rows of `fit`, so that a report judges a model by out-of-fold predictions of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tabgnm.estimators.base import TabularEstimator
from tabgnm.estimators.targets import ClassTargets
from tabgnm.table import RawTable

Array = NDArray[Any]

_SAME_SCORE = 1e-6


def out_of_fold(model: TabularEstimator, raw: RawTable, y: Array) -> Array | None:
    """Return the out-of-fold predictions (rows, outputs) if these are the rows of `fit` in their order, or else None.

    They are those rows if the out-of-fold predictions have the same score for these targets as in `fit`, and if the
    table has the rows that `fit` has marked.
    """
    values, scores = getattr(model, "_oof_values", None), model.fitted_.scores
    if values is None or len(values) != len(y) or not scores:
        return None
    rows = np.flatnonzero(~np.isnan(values).any(axis=1))
    if not len(rows) or not _same_score(model, values[rows], y[rows]):
        return None
    return values if model._oof_rows is not None and model._oof_rows.match(model.fitted_, raw) else None


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
