"""Prediction intervals by CV+ (Barber et al., 2021): errors of left-out rows around the predictions of their folds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_BISECTIONS = 40


def cv_plus(centers: Array, residuals: Sequence[Array], coverage: float) -> Array:
    """Return the lower and upper ends of intervals.

    The upper end is the quantile of prediction + error over all left-out rows, where the prediction is that of the
    networks which the row was left out of; the lower end likewise.

    Parameters
    ----------
    centers : array of shape (folds, rows)
        Predictions of the networks of each fold.
    residuals : sequence of arrays
        Sorted absolute errors of the rows that each fold left out. Folds count equally.
    coverage : float
        Share of the targets that should lie within the interval.

    Returns
    -------
    array of shape (rows, 2)
    """
    n_errors = sum(map(len, residuals))
    level = min(1.0, np.ceil(coverage * (n_errors + 1)) / n_errors)
    upper = _quantile(centers, residuals, level)
    lower = -_quantile(-centers, residuals, level)
    return np.stack([lower, upper], axis=1)


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
