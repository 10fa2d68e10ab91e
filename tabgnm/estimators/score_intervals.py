"""95 % confidence intervals of scores over rows, for the command line, reports and plots."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabgnm.estimators.metrics import d2_of_quantiles, quantile_parts
from tabgnm.estimators.targets import NumberTargets

Array = NDArray[Any]

_LEVEL = 0.95
_Z = 1.959964  # of this level
_MIN_RESAMPLES, _MAX_RESAMPLES, _MAX_DRAWN = 100, 1000, 6 * 10**6  # the latter: rows of all resamples
_MIN_ROWS = 5


def wilson_interval(share: float, n: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of a proportion of n independent rows (Wilson, 1927).

    Examples
    --------
    >>> low, high = wilson_interval(0.9, 100)
    >>> round(low, 3), round(high, 3)
    (0.826, 0.945)
    """
    center = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2)) / (1 + _Z**2 / n)
    return max(0.0, min(center - half, share)), min(1.0, max(center + half, share))  # also with rounding errors


class Bootstrap:
    """Bootstrap resamples of rows: 1000, or fewer for large tables, whose intervals are narrow.

    Iterating yields, for each resample, how often each row is drawn.

    Parameters
    ----------
    n_rows : int
    seed : int, default=0

    Examples
    --------
    >>> bootstrap = Bootstrap(100)
    >>> low, high = bootstrap.interval(bootstrap.means(np.arange(100.0)))
    >>> 42 < low < 46 and 53 < high < 57
    True
    """

    def __init__(self, n_rows: int, seed: int = 0) -> None:
        self.n_rows = n_rows
        self.n_resamples = min(max(_MAX_DRAWN // n_rows, _MIN_RESAMPLES), _MAX_RESAMPLES)
        self._seed = seed
        self._kept = list(self._drawn()) if n_rows * self.n_resamples <= _MAX_DRAWN else None

    def __iter__(self) -> Iterator[Array]:
        return self._drawn() if self._kept is None else iter(self._kept)

    def _drawn(self) -> Iterator[Array]:
        random = np.random.default_rng(self._seed)
        for _ in range(self.n_resamples):
            yield np.bincount(random.integers(self.n_rows, size=self.n_rows), minlength=self.n_rows).astype(np.uint8)

    def means(self, values: Array) -> Array:
        """Return the mean over the rows of each resample, (resamples,), or (resamples, k) of (rows, k) values."""
        values = np.asarray(values, dtype=np.float64)
        return np.stack([counts.astype(np.float64) @ values for counts in self]) / self.n_rows

    def interval(self, resampled: Array) -> tuple[float, float] | None:
        """Return the 2.5 % and 97.5 % quantiles of the scores of the resamples.

        None if there are fewer than 5 rows, if most scores are not finite, or if all are equal, for instance because
        all predictions are correct.
        """
        found = np.asarray(resampled, dtype=np.float64)
        found = found[np.isfinite(found)]
        if self.n_rows < _MIN_ROWS or len(found) < self.n_resamples // 2:
            return None
        low, high = np.quantile(found, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
        return (float(low), float(high)) if low < high else None


def r2_of_resamples(y: Array, predicted: Array, bootstrap: Bootstrap) -> Array:
    """Return R² of each resample, averaged over targets (rows, targets); NaN if all values of a target are equal."""
    unit = np.abs(y - y.mean(axis=0)).max(axis=0)
    unit = np.where(unit > 0, unit, 1.0)  # so that no square overflows
    centered, error = (y - y.mean(axis=0)) / unit, (y - predicted) / unit
    means, squares, errors = np.split(bootstrap.means(np.hstack([centered, centered**2, error**2])), 3, axis=1)
    spread = squares - means**2
    return np.asarray(np.mean(1 - errors / np.where(spread > 0, spread, np.nan), axis=1))


def scores_of_resamples(targets: NumberTargets, y: Array, predicted: Array, bootstrap: Bootstrap) -> Array:
    """Return what `score` of a regressor would return for each resample: R², or D² of quantiles."""
    shape = (len(y), -1)
    if not targets.predicted_quantiles:
        return r2_of_resamples(y.reshape(shape), predicted.reshape(shape), bootstrap)
    found = []
    for own, of_own, levels in quantile_parts(targets, y, predicted):
        order = np.argsort(own, kind="stable")  # so that sorting takes hardly any time in each resample
        own, of_own = own[order], of_own[order]
        found.append([d2_of_quantiles(own, of_own, levels, counts[order].astype(np.float64)) for counts in bootstrap])
    return np.asarray(np.mean(found, axis=0))


def number_interval(targets: NumberTargets, y: Array, predicted: Array, seed: int) -> tuple[float, float] | None:
    """Return the 95 % bootstrap interval of the score of a regressor; None for fewer than 5 rows."""
    bootstrap = Bootstrap(len(y), seed)
    return bootstrap.interval(scores_of_resamples(targets, y, predicted, bootstrap))
