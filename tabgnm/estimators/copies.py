"""Copies of rows, such as those of oversampling or of a bootstrap sample, which must be in the same fold.

A network that is validated on copies of its training rows looks perfect, whatever it learns. But equal rows are not
always copies: if a table has few distinct rows, or some very frequent ones, new rows will also be equal to training
rows. Keeping such rows in one fold would validate each network on combinations that it has never seen.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabgnm.table.raw import RawTable

Array = NDArray[Any]

_log = logging.getLogger("tabgnm")

_MIN_REPEATED_SHARE = 0.5  # fraction of the rows of a class; natural tables have fewer equal rows
_MAX_CONFLICTS = 0.01  # fraction of the repeated rows that have several targets
_UNIQUE = 0.9  # fraction of the repeated rows with a number that proves that they are copies
_MAX_FREQUENCY = 0.05  # fraction of the rows that are equal: more frequent ones are a case of its own
# Without such numbers:
_MIN_REPEATED = 100  # distinct rows with copies: fewer may be frequent cases, such as an attack in a log
_MAX_COINCIDENCES = 0.01  # expected pairs of equal rows, as a fraction of the distinct rows
_MAX_UNEVENNESS = 1.5  # variance of the numbers of copies, relative to their mean: 1 if they are drawn at random


def copies_of_rows(
    raw: RawTable, y: Array, ignored: Collection[str | int] = (), classes: Array | None = None
) -> Array | None:
    """Return, for each row, the index of its distinct row, or None if equal rows are not copies.

    Rows are equal if all their cells and targets are, except in the columns `ignored` (names or positions). They are
    copies if most rows of one of the `classes` (integers; None for numbers) are repeated, no row is very frequent, rows
    with equal cells hardly ever have different targets, as repeated observations have, and one of the following holds:

    - nearly all repeated rows have a number that is not whole and that no other distinct row has;
    - equality is no coincidence, as two different cases would hardly be equal in all columns, and within each class,
      distinct rows have about the same number of copies, whereas cases that occur repeatedly have very different
      frequencies.
    """
    columns = [(i, name) for i, name in enumerate(raw.names) if name not in ignored and i not in ignored]
    try:
        cells = _hashes([_bits(raw, i, name) for i, name in columns], raw.n_rows)
    except Exception:  # cells may be any objects; the encoder, which knows the kind of the column, reports errors
        return None
    n_rows, n_different = raw.n_rows, len(np.unique(cells))
    if 2 * n_different > (2 - _MIN_REPEATED_SHARE * _smallest_share(classes)) * n_rows:
        return None  # too few equal rows, as at least half of the repeated ones are copies
    rows = _hashes([cells, *(_bits_of(target) for target in y.reshape(n_rows, -1).T)], n_rows)
    _, first, index, counts = np.unique(rows, return_index=True, return_inverse=True, return_counts=True)
    index = index.reshape(-1)
    n_conflicts, is_repeated = len(first) - n_different, counts > 1
    if (
        n_conflicts > _MAX_CONFLICTS * is_repeated.sum()
        or _largest_share(is_repeated[index], classes) < _MIN_REPEATED_SHARE
        or counts.max() > max(2, _MAX_FREQUENCY * n_rows)
    ):
        return None
    distinct = raw.take(first)
    if not _have_unique_numbers(distinct, columns, is_repeated) and (
        is_repeated.sum() < _MIN_REPEATED
        or not _are_even(counts, None if classes is None else classes[first])
        or not _are_hardly_equal_by_chance(distinct, columns)
    ):
        return None
    _log.info("%d of %d rows are copies of others; copies are in the same fold", n_rows - len(first), n_rows)
    order = np.argsort(np.argsort(first))  # in the order of the rows, so that it does not depend on types of columns
    return np.asarray(order[index])


def _smallest_share(classes: Array | None) -> float:
    """Return the share of the rarest class."""
    if classes is None:
        return 1.0
    counts = np.bincount(classes)
    return float(counts[counts > 0].min() / len(classes))


def _largest_share(is_repeated: Array, classes: Array | None) -> float:
    """Return the largest share of repeated rows in a class."""
    classes = np.zeros(len(is_repeated), np.int64) if classes is None else classes
    return float((np.bincount(classes, is_repeated) / np.maximum(1, np.bincount(classes))).max())


def _have_unique_numbers(distinct: RawTable, columns: list[tuple[int, str]], is_repeated: Array) -> bool:
    """Whether nearly all repeated rows have a number that is not whole and that no other distinct row has."""
    is_unique = np.zeros(distinct.n_rows, dtype=bool)
    for i, name in columns:
        numbers = _fractional(distinct, i, name)
        if numbers is not None:
            _, index, counts = np.unique(numbers, return_inverse=True, return_counts=True)
            is_unique |= (counts[index.reshape(-1)] == 1) & (numbers != np.round(numbers))
        if is_unique[is_repeated].mean() >= _UNIQUE:
            return True
    return False


def _are_even(counts: Array, classes: Array | None) -> bool:
    """Whether distinct rows of the same class have about the same number of copies."""
    classes = np.zeros(len(counts), np.int64) if classes is None else classes
    n = np.maximum(1, np.bincount(classes))
    mean = np.bincount(classes, counts) / n
    variance = np.bincount(classes, np.square(counts - mean[classes])) / n
    return bool((variance <= _MAX_UNEVENNESS * mean).all())


def _are_hardly_equal_by_chance(distinct: RawTable, columns: list[tuple[int, str]]) -> bool:
    """Whether few of as many cases as these would be equal, if columns were independent."""
    largest = math.log(2 * _MAX_COINCIDENCES / distinct.n_rows)
    log_probability = 0.0  # that two cases are equal
    for i, name in columns:
        values = _bits(distinct, i, name)
        _, counts = np.unique(values, return_counts=True)
        log_probability += math.log(np.square(counts / distinct.n_rows).sum())
        if log_probability < largest:
            return True
    return False


def _fractional(raw: RawTable, column: int, name: str) -> NDArray[np.float64] | None:
    """Return the numbers of a column, also if they are text, or days; None if they are no numbers or all are whole."""
    values = raw.source.values(column, name)
    try:
        if values.kind == "datetime":
            numbers = values.data.astype("datetime64[us]").astype(np.float64) / 86_400e6
        else:
            numbers = np.asarray(values.data, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    numbers = np.where(np.isfinite(numbers), numbers, 0.0)
    return None if (numbers == np.round(numbers)).all() else numbers


def _bits(raw: RawTable, column: int, name: str) -> NDArray[np.uint64]:
    values = raw.source.values(column, name)
    if values.kind == "empty":
        return np.zeros(len(values.data), np.uint64)
    return _bits_of(np.array(list(map(str, values.data)), dtype=object) if values.kind == "text" else values.data)


def _bits_of(values: Array) -> NDArray[np.uint64]:
    """Return integers that are equal where values are equal; NaN equals NaN."""
    if values.dtype == object:
        places: dict[Any, int] = {}
        return np.array([places.setdefault(value, len(places)) for value in values.tolist()], np.uint64)
    if values.dtype.kind in "US":
        return np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.uint64)
    if values.dtype.kind == "f":
        numbers = values.astype(np.float64) + 0.0  # 0.0 instead of -0.0
        numbers[np.isnan(numbers)] = np.nan
        return numbers.view(np.uint64)
    return values.astype(np.int64).view(np.uint64)


def _hashes(columns: list[NDArray[np.uint64]], n_rows: int) -> NDArray[np.uint64]:
    """Return one hash for each row of some columns."""
    hashes = np.zeros(n_rows, np.uint64)
    for values in columns:
        hashes = (hashes ^ values) * np.uint64(0x9E3779B97F4A7C15)
        hashes ^= hashes >> np.uint64(29)
        hashes *= np.uint64(0xBF58476D1CE4E5B9)
        hashes ^= hashes >> np.uint64(32)
    return hashes
