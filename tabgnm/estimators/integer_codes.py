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
from tabgnm.table.detection import detected_reading
from tabgnm.table.text import USUAL_READING
from tabgnm.table.values import Values, as_numbers

if TYPE_CHECKING:
    from tabgnm.estimators.fitting import PreparedRows

Array = NDArray[Any]

_N_PIECES = 32  # of the piecewise linear functions that candidates learn, which can represent as many codes
_MAX_CODES = 2_000
MIN_ROWS_PER_CODE = 5  # of half of the codes; amounts usually have many values that occur once
_LEVEL = 1e-6  # of the test, for all columns and targets together
_MIN_GAIN = 0.02  # of the explained share of the target's variance
_MIN_ROUGHNESS = 0.5  # of this gain and of what a piecewise linear function explains, relative to numbers without order
_MAX_MISSED = 0.01  # fraction of columns of few codes without order that this condition may miss
_MAX_CLASSES = 10  # that are tested, the most frequent ones
_MIN_KNOWN = 0.5  # fraction of the numbers in validation rows that training rows must have, unlike those of later days


def integer_codes(rows: PreparedRows, declared: set[str | int], min_rows: int, *, tested: bool) -> tuple[int, ...]:
    """Return the positions of columns to encode as categories.

    Parameters
    ----------
    rows : PreparedRows
    declared : set of str and int
        Names or positions of columns whose kind is given; they are left out.
    min_rows : int
        The number of rows that half of the codes must have.
    tested : bool
        Whether to return only columns whose effect on the target differs from a piecewise linear function, and whose
        numbers in validation rows also occur in training rows.
    """
    train = np.arange(rows.n_rows) if rows.trained_on is None else rows.trained_on
    sample = train if rows.units is None else train[np.unique(rows.units[train], return_index=True)[1]]
    targets = _targets(rows, sample) if tested else None
    found: dict[int, float] = {}
    for column, name in enumerate(rows.raw.names):
        if name in declared or column in declared:
            continue
        all_numbers = _numbers(rows.raw.source.values(column, name), name, sample)
        if all_numbers is None:
            continue
        numbers = all_numbers[sample]
        present = np.isfinite(numbers)
        codes, index, counts = np.unique(numbers[present], return_inverse=True, return_counts=True)
        if not _N_PIECES < len(codes) <= _MAX_CODES or (codes != np.round(codes)).any():
            continue
        if np.median(counts) >= min_rows:
            found[column] = 0.0 if targets is None else _p_value(index.reshape(-1), targets[present])
    level = _LEVEL / max(1, len(found) * (1 if targets is None else targets.shape[1]))
    significant = (column for column, p_value in found.items() if p_value < level)
    return tuple(column for column in significant if not tested or _share_known(rows, column) >= _MIN_KNOWN)


def _numbers(values: Values, name: str, sample: Array) -> Array | None:
    """Return a column that is encoded as a number unless its kind is given; None for other columns and amounts."""
    if values.kind == "text" and detected_reading(values.data[sample]) != USUAL_READING["number"]:
        return None
    return as_numbers(values, name, strict=False) if values.kind in ("number", "text") else None


def _share_known(rows: PreparedRows, column: int) -> float:
    """Return the fraction of the numbers in validation rows that also occur in training rows; 1 if there are none."""
    name = rows.raw.names[column]
    given = [raw.source.values(column, name) for raw in (rows.raw, rows.raw_val) if raw is not None]
    if any(values.kind not in ("number", "text", "empty") for values in given):
        return 1.0
    numbers = np.concatenate([as_numbers(values, name, strict=False) for values in given])
    n_known = n_present = 0
    for fold in rows.folds:
        val = numbers[[] if fold.val is None else fold.val.numpy()]
        val = val[np.isfinite(val)]
        n_known += int(np.isin(val, numbers[fold.train.numpy()]).sum())
        n_present += len(val)
    return n_known / n_present if n_present else 1.0


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


def _p_value(index: Array, targets: Array) -> float:
    """Return the smallest p-value of targets in an F-test of lack of fit; 1 if numbers say more than their codes do.

    The test compares the means of the codes with a piecewise linear function of their order. If the order of the codes
    has no meaning, such a function explains a share of their variance that is its number of knots by that of codes in
    the mean. This share varies most if there are few codes. Its distribution for normal effects is a beta distribution.
    """
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
        return 1.0
    with np.errstate(divide="ignore", invalid="ignore"):  # of constant targets
        variance = within / n_left
        p_values = stats.f.sf(lack / n_free / variance, n_free, n_left)
        rough = (lack - n_free * variance) / total
        linear = (counts[:, None] * (smooth - targets.mean(axis=0)) ** 2).sum(axis=0)
        explained = rough + np.maximum(0, linear - (len(knots) - 1) * variance) / total
        usual = stats.beta.ppf(_MAX_MISSED, n_free / 2, (len(knots) - 1) / 2)
        least = min(_MIN_ROUGHNESS * n_free / n_codes, usual)
        is_code = (rough > _MIN_GAIN) & (rough > least * explained)
    return float(np.where(is_code, p_values, 1.0).min())
