"""Prediction intervals by CV+ (Barber et al., 2021): predictions of each fold plus and minus its held-out errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_BISECTIONS = 40


def cv_plus(centers: Array, residuals: Sequence[Array], coverage: float, n_rows: int) -> Array:
    """Return the lower and upper ends of intervals.

    The upper end is a quantile, over all held-out rows, of the absolute error on the held-out row plus the prediction
    of the networks that were not trained on it. The lower end is computed likewise.

    Parameters
    ----------
    centers : array of shape (folds, rows)
        The predictions of the networks of each fold.
    residuals : sequence of arrays
        The sorted absolute errors on the held-out rows of each fold. All folds have equal weight.
    coverage : float
        The fraction of the targets that should lie within the interval.
    n_rows : int
        The number of different held-out rows.

    Returns
    -------
    array of shape (rows, 2)
    """
    level = np.ceil(coverage * (n_rows + 1)) / n_rows
    if level > 1:
        most = n_rows / (n_rows + 1)
        raise ValueError(
            f"coverage={coverage:g} requires more than {n_rows} rows that networks were not trained on; use "
            f"coverage<={most:.3g}, or more rows or folds"
        )
    upper = _quantile(centers, residuals, level)
    lower = -_quantile(-centers, residuals, level)
    # If the coverage is low and the folds disagree, the lower end may exceed the upper end.
    middle = (lower + upper) / 2
    return np.stack([np.minimum(lower, middle), np.maximum(upper, middle)], axis=1)


def _quantile(centers: Array, residuals: Sequence[Array], level: float) -> Array:
    """Return the quantile of centers[k] + residuals[k] over all folds k, for each row, by bisection."""
    low = np.min([center + own[0] for center, own in zip(centers, residuals, strict=True)], axis=0)
    high = np.max([center + own[-1] for center, own in zip(centers, residuals, strict=True)], axis=0)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        below = np.zeros_like(middle)
        for center, own in zip(centers, residuals, strict=True):
            below += np.searchsorted(own, middle - center, side="right") / len(own)
        enough = below / len(residuals) >= level
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.asarray(high)
