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

_MIN_COPIES = 0.01  # fraction of the rows: fewer copies hardly matter
_MIN_REPEATED = 100  # distinct rows with copies: fewer may be frequent cases, such as an attack in a log
_MAX_CONFLICTS = 0.01  # fraction of the repeated rows that have several targets
_MAX_COINCIDENCES = 0.01  # expected pairs of equal rows, as a fraction of the distinct rows
_MAX_UNEVENNESS = 1.5  # variance of the numbers of copies, relative to their mean: 1 if they are drawn at random
_CONTINUOUS = 0.5  # fraction of different values, above which numbers that are not whole count as continuous


def copies_of_rows(
    raw: RawTable, y: Array, ignored: Collection[str | int] = (), classes: Array | None = None
) -> Array | None:
    """Return, for each row, the index of its distinct row, or None if equal rows are not copies.

    Rows are equal if all their cells and targets are, except in the columns `ignored` (names or positions). They are
    copies if there are many, and there is no other explanation:

    - rows with equal cells hardly ever have different targets, as repeated observations have;
    - equality is no coincidence: two different cases would hardly be equal in all columns;
    - within each of the `classes` (integers; None for numbers), distinct rows have about the same number of copies,
      whereas cases that occur repeatedly have very different frequencies.
    """
    columns = [(i, name) for i, name in enumerate(raw.names) if name not in ignored and i not in ignored]
    try:
        cells = _hashes([_bits(raw, i, name) for i, name in columns], raw.n_rows)
    except Exception:  # cells may be any objects; the encoder, which knows the kind of the column, reports errors
        return None
    n_rows, n_different = raw.n_rows, len(np.unique(cells))
    if n_rows - n_different < _MIN_COPIES * n_rows:
        return None
    rows = _hashes([cells, *(_bits_of(target) for target in y.reshape(n_rows, -1).T)], n_rows)
    _, first, index, counts = np.unique(rows, return_index=True, return_inverse=True, return_counts=True)
    n_repeated = int((counts > 1).sum())
    if (
        n_rows - len(first) < _MIN_COPIES * n_rows
        or n_repeated < _MIN_REPEATED
        or len(first) - n_different > _MAX_CONFLICTS * n_repeated
        or not _are_even(counts, None if classes is None else classes[first])
        or not _are_hardly_equal_by_chance(raw.take(first), columns)
    ):
        return None
    _log.info("%d of %d rows are copies of others; copies are in the same fold", n_rows - len(first), n_rows)
    order = np.argsort(np.argsort(first))  # in the order of the rows, so that it does not depend on types of columns
    return np.asarray(order[index.reshape(-1)])


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
        _, first, counts = np.unique(values, return_index=True, return_counts=True)
        if len(first) >= _CONTINUOUS * distinct.n_rows and _is_fractional(distinct, i, name):
            return True
        log_probability += math.log(np.square(counts / distinct.n_rows).sum())
        if log_probability < largest:
            return True
    return False


def _is_fractional(raw: RawTable, column: int, name: str) -> bool:
    """Whether a column has numbers that are not whole, also as text; integers and days may be codes of cases."""
    values = raw.source.values(column, name)
    if values.kind == "datetime":
        days = values.data.astype("datetime64[D]")
        return bool(((values.data != days) & ~np.isnat(values.data)).any())
    try:
        numbers = np.asarray(values.data, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    numbers = numbers[np.isfinite(numbers)]
    return bool((numbers != np.round(numbers)).any())


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
