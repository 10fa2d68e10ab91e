"""Recognize the training rows, so that a report evaluates the model on out-of-fold predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabgnm.estimators.base import TabularEstimator
from tabgnm.estimators.targets import ClassTargets
from tabgnm.table import RawTable

Array = NDArray[Any]


def out_of_fold(model: TabularEstimator, raw: RawTable, y: Array) -> Array | None:
    """Return the out-of-fold predictions (rows, outputs) if these are the rows of `fit` in their order, or else None.

    They are those rows if there are as many, and if cells and targets match the marks of some of them.
    """
    values, targets = getattr(model, "_oof_values", None), model.fitted_.targets
    if values is None or len(values) != len(y) or np.isnan(values).any(axis=1).all():
        return None
    if isinstance(targets, ClassTargets) and targets.kind == "one":  # there is nothing to predict
        return None
    return values if model._oof_rows is not None and model._oof_rows.match(model.fitted_, raw, y) else None
