"""Screening: a test for columns without a measurable relation to the target, which a candidate can leave out.

Unlike trees, networks find it hard to ignore hundreds of columns of noise. The test uses only the training rows of a
network: choosing columns on held-out rows would make the scores on these too optimistic.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[Any]

SCREENED_FROM = 50  # encoded columns (numbers, and levels as one-hot columns); networks can ignore noise in fewer
MAX_COPIED_NUMBERS = 2 * 10**7  # encoded numbers of a table, for screening by default: each network requires a copy
MAX_RELATED = 500  # columns of a network; networks with more are slow, and not more accurate
MAX_ROWS = 10_000  # of a test, enough to detect any relation that a network could use
MIN_ROWS = 1_000  # of a test, no matter how many columns there are
_LEVEL = 0.02  # of the test: with hundreds of rows, about this fraction of the unrelated columns is kept
_BY_CHANCE = 0.01  # the probability that a test of unrelated columns seems to tell something
_MIN_KEPT = 10
_N_BINS = 10
_MAX_PRODUCTS = 2 * 10**10  # multiply-adds of the test, about a second on a single core
_MAX_CORRELATED = 1_000  # aspects; the eigenvalues for more would take seconds
_ROUNDING = 1e-9
_BLOCK = 500  # columns tested at a time, which limits the memory


def unrelated_columns(x: Array, y: Array, weights: Array | None = None) -> Array:
    """Return the positions of columns whose relation to the targets is not significant.

    Parameters are those of `log_p_values`.
    """
    return unrelated(log_p_values(x, y, weights))


def unrelated(log_p: Array) -> Array:
    """Return the positions of the columns that are left out, given the logarithms of the p-values of all columns.

    At least the ten columns with the smallest p-values are kept, and at most `MAX_RELATED` columns.
    """
    ranked = np.argsort(log_p, kind="stable")
    stays = log_p < np.log(_LEVEL)
    stays[ranked[:_MIN_KEPT]] = True
    stays[ranked[MAX_RELATED:]] = False
    return np.flatnonzero(~stays)


def is_informative(log_p: Array) -> bool:
    """Whether the test found more than chance would.

    Otherwise, the columns are noise or matter only together with others, so the test cannot choose among them.
    """
    n_columns, n_significant = len(log_p), int((log_p < np.log(_LEVEL)).sum())
    more_than_chance = stats.binom.sf(n_significant - 1, n_columns, _LEVEL) < _BY_CHANCE
    return bool(more_than_chance or log_p.min() < np.log(_BY_CHANCE / n_columns))


def log_p_values(x: Array, y: Array, weights: Array | None = None) -> Array:
    """Return the logarithm of a p-value for each column: the probability of such a relation to the targets by chance.

    An F-test compares the means of the targets (see `_aspects`) between ten bins of a column. Call it within
    `single_threaded_math`: its many small matrix products take several times as long on several threads.

    Parameters
    ----------
    x : array of shape (rows, columns)
    y : array of shape (rows,) or (rows, outputs)
        Integers are classes, other types are numbers.
    weights : array of shape (rows,) or None, default=None
        The weights of the rows.

    Returns
    -------
    array of float
    """
    rows = sample_of_rows(len(x), MAX_ROWS)
    aspects = _aspects(y[rows])
    fitting = _MAX_PRODUCTS // (_N_BINS * max(1, x.shape[1] * aspects.shape[1]))
    kept = sample_of_rows(len(rows), max(MIN_ROWS, fitting))
    rows, aspects = rows[kept], aspects[kept]
    weights = np.ones(len(rows)) if weights is None else weights[rows] / weights[rows].max()
    weights *= weights.sum() / np.square(weights).sum()  # so that their sum is the effective number of rows
    aspects = _standardised(aspects, weights)
    if not (aspects.shape[1] and x.shape[1]):
        return np.zeros(x.shape[1])
    blocks = [
        _smallest_log_p(x[rows, first : first + _BLOCK], aspects, weights) for first in range(0, x.shape[1], _BLOCK)
    ]
    return np.asarray(np.minimum(np.concatenate(blocks) + np.log(_n_tests(aspects, weights)), 0.0))


def sample_of_rows(n_rows: int, most: int) -> Array:
    """Return the sorted positions of all rows, or of a reproducible random sample of `most` rows."""
    if n_rows <= most:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(0).choice(n_rows, most, replace=False))


def _aspects(y: Array) -> Array:
    """Return the variables that a column may be related to, (rows, aspects).

    For two values, an indicator of one of them. For classes, an indicator of each class. For numbers, the number, its
    normal score (for targets with a long tail), and the square of this score (for columns that affect only the spread).
    """
    aspects = []
    for own in y.reshape(len(y), -1).T:
        values = np.unique(own)
        if len(values) <= 2 or np.issubdtype(y.dtype, np.integer):
            aspects.append(own[:, None] == (values[1:] if len(values) <= 2 else values))
        else:
            scores = stats.norm.ppf(stats.rankdata(own) / (len(own) + 1))
            aspects.append(np.stack([own, scores, scores**2], axis=1))
    return np.concatenate(aspects, axis=1).astype(np.float64)


def _standardised(aspects: Array, weights: Array) -> Array:
    """Standardize columns to mean 0 and variance 1; drop constant columns."""
    total = weights.sum()
    aspects = aspects / np.maximum(np.abs(aspects).max(axis=0), np.finfo(np.float64).tiny)  # squares do not overflow
    aspects = aspects - weights @ aspects / total
    spread = np.sqrt(weights @ aspects**2 / total)
    varies = spread > _ROUNDING
    return np.asarray(aspects[:, varies] / spread[varies])


def _n_tests(aspects: Array, weights: Array) -> float:
    """Return the effective number of independent tests, for a Bonferroni correction, which is otherwise too strict.

    It is that of Galwey (2009), for squared correlations, because the F-statistics of aspects have these correlations.
    """
    n_aspects = aspects.shape[1]
    if n_aspects > _MAX_CORRELATED:
        return float(n_aspects)
    correlations = (aspects * weights[:, None]).T @ aspects / weights.sum()
    return float(np.sqrt(np.maximum(np.linalg.eigvalsh(correlations**2), 0.0)).sum() ** 2 / n_aspects)


def _smallest_log_p(x: Array, aspects: Array, weights: Array) -> Array:
    """Return the logarithm of the smallest p-value of each column over all aspects, without correction."""
    n_rows, n_columns = weights.sum(), x.shape[1]
    inner = np.quantile(x, np.linspace(0, 1, _N_BINS + 1)[1:-1], axis=0)
    largest = x.max(axis=0)
    bins = np.zeros(x.shape, dtype=np.int8)
    for ends in inner:
        bins += np.where(ends < largest, x > ends, x == largest)  # most rows may have the largest number
    weighted = aspects * weights[:, None]
    n_bins, between = np.zeros(n_columns, dtype=np.int64), np.zeros((n_columns, aspects.shape[1]))
    for number in range(_N_BINS):
        inside = (bins == number).astype(np.float64)
        sizes = weights @ inside
        n_bins += sizes > 0
        between += (inside.T @ weighted) ** 2 / np.where(sizes > 0, sizes, 1.0)[:, None]
    # The total sum of squares is n_rows, because the aspects have variance 1.
    within = np.maximum(n_rows - between, 1e-12)
    free, rest = np.maximum(n_bins - 1, 1)[:, None], np.maximum(n_rows - n_bins, 1)[:, None]
    log_p = stats.f.logsf(between / free / (within / rest), free, rest).min(axis=1)
    return np.where((n_bins < 2) | (n_rows <= n_bins), 0.0, log_p)
