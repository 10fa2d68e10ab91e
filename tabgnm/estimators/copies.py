"""Copies of rows, such as those of oversampling, which must not be on both sides of a fold.

A network that is validated on copies of its training rows looks perfect, whatever it learns.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabgnm.table.raw import RawTable

Array = NDArray[Any]

_log = logging.getLogger("tabgnm")

_FEW = 0.01  # fraction of the rows: fewer copies hardly matter
_CONTINUOUS = 0.5  # a column of numbers or dates with at least this fraction of different values among distinct rows
_MAX_COLUMNS = 100  # that are searched for such a column


def copies_of_rows(raw: RawTable, y: Array) -> Array | None:
    """Return the number of the distinct row that each row is a copy of, or None if there are hardly any copies.

    Rows are copies if all their cells and targets are equal. In a table without a column of continuous values, equal
    rows may be different cases, as they will be in new data, so they are not copies.
    """
    source, n_rows = raw.source, raw.n_rows
    groups = np.zeros(n_rows, np.int64)
    for target in y.reshape(n_rows, -1).T:
        groups = _refined(groups, _codes(target))
    texts, largest = [], 0  # `largest`: the most different values of a column that is not text
    for column, name in enumerate(raw.names):
        if column >= _MAX_COLUMNS and largest < _CONTINUOUS * (groups.max() + 1):
            return None
        values = source.values(column, name)
        if values.kind == "text":
            texts.append(values)
            continue
        codes = _codes(values.data)
        largest = max(largest, int(codes.max()) + 1)
        groups = _refined(groups, codes)
        if _n_copies(groups) < _FEW * n_rows:
            return None
    if largest < _CONTINUOUS * (groups.max() + 1):  # further columns can only tell more rows apart
        return None
    for values in texts:
        groups = _refined(groups, _codes(np.array(list(map(str, values.data)), dtype=object)))
    if _n_copies(groups) < _FEW * n_rows or largest < _CONTINUOUS * (groups.max() + 1):
        return None
    _log.info("%d of %d rows are copies of others; copies are in the same fold", _n_copies(groups), n_rows)
    return groups


def _codes(values: Array) -> Array:
    """Return integers from 0 on that are equal where values are equal; NaN equals NaN."""
    if values.dtype == object:
        places: dict[Any, int] = {}
        return np.array([places.setdefault(value, len(places)) for value in values.tolist()], np.int64)
    return np.asarray(np.unique(values, return_inverse=True)[1].reshape(-1))


def _refined(groups: Array, codes: Array) -> Array:
    """Divide groups into those with equal codes."""
    return _codes(groups * (int(codes.max()) + 1) + codes)


def _n_copies(groups: Array) -> int:
    return len(groups) - (int(groups.max()) + 1)
