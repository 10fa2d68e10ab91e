"""Confidence intervals of scores."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import r2_score

Array = NDArray[Any]

_Z = 1.959964  # of 95 %
_FEWEST_RESAMPLES, _MOST_RESAMPLES, _MOST_DRAWN = 100, 1000, 2 * 10**7  # the latter: rows of all resamples


def wilson_interval(share: float, n: int) -> tuple[float, float]:
    """Return the 95 % interval of a share of n independent rows (Wilson, 1927).

    Examples
    --------
    >>> low, high = wilson_interval(0.9, 100)
    >>> round(low, 3), round(high, 3)
    (0.826, 0.945)
    """
    center = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2)) / (1 + _Z**2 / n)
    return max(0.0, center - half), min(1.0, center + half)


def bootstrap_interval(score: Callable[[Array], float], n: int, seed: int) -> tuple[float, float] | None:
    """Return the 95 % percentile interval of a score of rows; None for fewer than 3 rows.

    There are 1000 resamples, and fewer of large tables, whose intervals are narrow anyway.

    Parameters
    ----------
    score : callable
        From positions of rows, some of them several times, to the score.
    n : int
        Number of rows.
    seed : int

    Examples
    --------
    >>> values = np.arange(100.0)
    >>> low, high = bootstrap_interval(lambda rows: float(values[rows].mean()), 100, seed=0)
    >>> 42 < low < 46 and 53 < high < 57
    True
    """
    if n < 3:
        return None
    random = np.random.default_rng(seed)
    n_resamples = min(max(_MOST_DRAWN // n, _FEWEST_RESAMPLES), _MOST_RESAMPLES)
    scores = [score(random.integers(n, size=n)) for _ in range(n_resamples)]
    finite = [own for own in scores if math.isfinite(own)]
    if not finite:
        return None
    low, high = np.percentile(finite, [2.5, 97.5])
    return float(low), float(high)


def r2_interval(y: Array, predicted: Array, seed: int) -> tuple[float, float] | None:
    """Return the 95 % bootstrap interval of R²; None for fewer than 3 rows, or if all targets are the same."""
    return bootstrap_interval(lambda rows: _r2(y[rows], predicted[rows]), len(y), seed)


def _r2(y: Array, predicted: Array) -> float:
    return float(r2_score(y, predicted)) if np.ptp(y) > 0 else float("nan")
