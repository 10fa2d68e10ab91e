"""Which columns have no measurable relation to the target, so that a candidate can do without them.

Networks find it hard to ignore hundreds of columns of noise, which trees do by construction. The test looks only at the
training rows of a network: columns that were chosen with the help of left-out rows would make these look too good.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[Any]

SCREENED_FROM = 50  # encoded columns (numbers, and levels as one-hot columns); with fewer of them networks cope
MOST_NUMBERS = 2 * 10**7  # of a table, of which every fold gets a copy
_LEVEL = 0.02  # of the test: in the mean, this share of the unrelated columns stays
_FEWEST_KEPT = 10
_N_BINS = 10
_MOST_ROWS = 10_000
_MOST_TARGETS = 20


def unrelated_columns(x: Array, y: Array) -> Array:
    """Return the positions of columns whose relation to the targets could be chance.

    The target, its square (for columns that change its spread only) or the indicators of its classes are compared
    between ten bins of a column by an F-test. The ten columns with the smallest p-values always stay.

    Parameters
    ----------
    x : array of shape (rows, columns)
    y : array of shape (rows,) of class numbers, or (rows, outputs) of numbers

    Returns
    -------
    array of int
    """
    step = -(-len(x) // _MOST_ROWS)
    x, targets = x[::step], _standardised(y[::step])
    p_values = np.array([_p_value(column, targets) for column in x.T])
    stays = p_values < _LEVEL
    stays[np.argsort(p_values, kind="stable")[:_FEWEST_KEPT]] = True
    return np.flatnonzero(~stays)


def _standardised(y: Array) -> Array:
    """Return columns of mean 0 and variance 1 that a column of the table may be related to."""
    if y.ndim == 1:
        numbers, counts = np.unique(y, return_counts=True)
        frequent = numbers[np.argsort(-counts, kind="stable")[:_MOST_TARGETS]]
        columns = (y[:, None] == frequent).astype(np.float64)
    else:
        numbers = y[:, :_MOST_TARGETS].astype(np.float64)
        columns = np.concatenate([numbers, (numbers - numbers.mean(axis=0)) ** 2], axis=1)
    columns = columns - columns.mean(axis=0)
    spread = columns.std(axis=0)
    return np.asarray(columns[:, spread > 0] / spread[spread > 0])


def _p_value(column: Array, targets: Array) -> float:
    """Return the smallest p-value over the targets, times their number (Bonferroni)."""
    inner = np.unique(np.quantile(column, np.linspace(0, 1, _N_BINS + 1)[1:-1]))
    _, bins = np.unique(np.searchsorted(inner, column, side="left"), return_inverse=True)
    counts = np.bincount(bins)
    n_rows, n_bins = len(column), len(counts)
    if n_bins < 2 or n_rows <= n_bins or not targets.shape[1]:
        return 1.0
    sums = np.stack([np.bincount(bins, weights=target) for target in targets.T])
    between = (sums**2 / counts).sum(axis=1)  # of n_rows in all, as the targets have variance 1
    within = np.maximum(n_rows - between, 1e-12)
    ratio = (between / (n_bins - 1)) / (within / (n_rows - n_bins))
    return float(min(1.0, stats.f.sf(ratio, n_bins - 1, n_rows - n_bins).min() * targets.shape[1]))
