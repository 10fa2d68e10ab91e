"""Columns of whole numbers that are codes of categories, such as the numbers of shops.

Embedded numbers are smooth functions with a limited number of pieces, so networks cannot learn an effect that differs
from one number to the next, if there are many numbers. Whether there is such an effect is tested on the target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tabgnm.estimators.targets import ClassTargets

if TYPE_CHECKING:
    from tabgnm.estimators.fitting import PreparedRows

Array = NDArray[Any]

_N_PIECES = 32  # of the piecewise linear functions that candidates learn, which can represent as many codes
_MAX_CODES = 2_000
_MIN_ROWS_PER_CODE = 5  # of half of the codes; amounts usually have many values that occur once
_LEVEL = 1e-6  # of the test, for all columns and targets together
_MIN_GAIN = 0.02  # of the explained share of the target's variance
_MAX_CLASSES = 10  # that are tested, the most frequent ones


def integer_codes(rows: PreparedRows, declared: set[str | int], *, tested: bool) -> tuple[int, ...]:
    """Return the positions of columns to encode as categories.

    Parameters
    ----------
    rows : PreparedRows
    declared : set of str and int
        Names or positions of columns whose kind is given; they are left out.
    tested : bool
        Whether to return only columns whose effect on the target differs from a piecewise linear function.
    """
    train = np.arange(rows.n_rows) if rows.trained_on is None else rows.trained_on
    found: list[tuple[int, Array, Array]] = []
    for column, name in enumerate(rows.raw.names):
        if name in declared or column in declared:
            continue
        values = rows.raw.source.values(column, name)
        if values.kind != "number":
            continue
        numbers = np.asarray(values.data[train], dtype=np.float64)
        present = np.isfinite(numbers)
        codes, index, counts = np.unique(numbers[present], return_inverse=True, return_counts=True)
        if not _N_PIECES < len(codes) <= _MAX_CODES or (codes != np.round(codes)).any():
            continue
        if np.median(counts) < _MIN_ROWS_PER_CODE:
            continue
        found.append((column, present, index.reshape(-1)))
    if not tested or not found:
        return tuple(column for column, _, _ in found)
    targets = _targets(rows, train)
    level = _LEVEL / (len(found) * targets.shape[1])
    return tuple(column for column, present, index in found if _is_rough(index, targets[present], level))


def _targets(rows: PreparedRows, train: Array) -> Array:
    """Return the targets as numbers without outliers, or indicators of the most frequent classes, (rows, targets)."""
    y = rows.y[train]
    if not isinstance(rows.targets, ClassTargets):
        numbers = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        return np.clip(numbers, *np.quantile(numbers, [0.01, 0.99], axis=0))
    indicators = []
    for column in rows.targets.codes(y).reshape(len(y), -1).T:
        counts = np.bincount(column.astype(np.int64))
        indicators += [column == code for code in np.argsort(-counts, kind="stable")[:_MAX_CLASSES] if counts[code]]
    return np.stack(indicators, axis=1).astype(np.float64)


def _is_rough(index: Array, targets: Array, level: float) -> bool:
    """Whether means differ from a piecewise linear function of the order of codes, by an F-test of lack of fit."""
    n_rows, counts = len(index), np.bincount(index)
    n_codes = len(counts)
    means = np.stack([np.bincount(index, column) for column in targets.T], axis=1) / counts[:, None]
    # Knots with equal numbers of rows between them; hat functions are a basis of these functions.
    places = np.arange(n_codes)
    knots = np.unique(np.searchsorted(np.cumsum(counts), np.linspace(0, n_rows, _N_PIECES + 1)[1:-1]))
    knots = np.unique([0, *knots, n_codes - 1])
    basis = np.stack([np.interp(places, knots, hat) for hat in np.eye(len(knots))], axis=1)
    weights = np.sqrt(counts)[:, None]
    smooth = basis @ np.linalg.lstsq(weights * basis, weights * means, rcond=None)[0]
    lack = (counts[:, None] * (means - smooth) ** 2).sum(axis=0)
    total = ((targets - targets.mean(axis=0)) ** 2).sum(axis=0)
    within = np.maximum((targets**2).sum(axis=0) - (counts[:, None] * means**2).sum(axis=0), 1e-12 * total)
    n_free, n_left = n_codes - len(knots), n_rows - n_codes
    if n_free < 1:
        return False
    with np.errstate(divide="ignore", invalid="ignore"):  # of constant targets
        significant = stats.f.sf(lack / n_free / (within / n_left), n_free, n_left) < level
        gain = (lack - n_free * within / n_left) / total
    return bool((significant & (gain > _MIN_GAIN)).any())
