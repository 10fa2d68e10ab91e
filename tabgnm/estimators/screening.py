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
MOST_RELATED = 500  # columns of a network; networks with more are slow, and no better
_LEVEL = 0.02  # of the test: in the mean, this share of the unrelated columns stays
_FEWEST_KEPT = 10
_N_BINS = 10
_MOST_ROWS = 10_000
_MOST_TARGETS = 20
_BLOCK = 500  # columns that are compared at a time


def unrelated_columns(x: Array, y: Array, most: int = MOST_RELATED) -> Array:
    """Return the positions of columns whose relation to the targets could be chance.

    The target, its square (for columns that change its spread only) or the indicators of its classes are compared
    between ten bins of a column by an F-test. The ten columns with the smallest p-values always stay.

    Parameters
    ----------
    x : array of shape (rows, columns)
    y : array of shape (rows,) of class numbers, or (rows, outputs) of numbers
    most : int
        Columns that stay, at most: those with the smallest p-values.

    Returns
    -------
    array of int
    """
    step = -(-len(x) // _MOST_ROWS)
    x, targets = x[::step], _standardised(y[::step])
    log_p = np.zeros(x.shape[1])
    for first in range(0, len(log_p), _BLOCK):
        log_p[first : first + _BLOCK] = _log_p_values(x[:, first : first + _BLOCK], targets)
    ranked = np.argsort(log_p, kind="stable")
    stays = log_p < np.log(_LEVEL)
    stays[ranked[:_FEWEST_KEPT]] = True
    stays[ranked[most:]] = False
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


def _log_p_values(x: Array, targets: Array) -> Array:
    """Return the logarithm of the smallest p-value of each column over the targets, times their number (Bonferroni)."""
    n_rows, n_columns = x.shape
    if not targets.shape[1]:
        return np.zeros(n_columns)
    inner = np.quantile(x, np.linspace(0, 1, _N_BINS + 1)[1:-1], axis=0)
    bins = np.zeros(x.shape, dtype=np.int8)
    for ends in inner:
        bins += x > ends
    n_bins, between = np.zeros(n_columns, dtype=np.int64), np.zeros((n_columns, targets.shape[1]))
    for number in range(_N_BINS):
        inside = bins == number
        counts = inside.sum(axis=0)
        n_bins += counts > 0
        between += (inside.T.astype(np.float64) @ targets) ** 2 / np.maximum(counts, 1)[:, None]
    # Of n_rows in all, as the targets have variance 1.
    within = np.maximum(n_rows - between, 1e-12)
    free, rest = np.maximum(n_bins - 1, 1)[:, None], np.maximum(n_rows - n_bins, 1)[:, None]
    log_p = stats.f.logsf(between / free / (within / rest), free, rest).min(axis=1) + np.log(targets.shape[1])
    return np.where((n_bins < 2) | (n_rows <= n_bins), 0.0, np.minimum(log_p, 0.0))
