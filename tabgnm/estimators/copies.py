"""Copies of rows, such as those of oversampling, which must not be on both sides of a fold.

A network that is validated on copies of its training rows looks perfect, whatever it learns. But equal rows are not
always copies: in a table of few different rows, new rows will be equal to known ones, too, and keeping equal rows
together would hide from each network what it will be asked. So rows only count as copies if there is no other
explanation.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabgnm.table.raw import RawTable

Array = NDArray[Any]

_log = logging.getLogger("tabgnm")

_FEW = 0.01  # fraction of the rows: fewer copies hardly matter
_MIN_DISTINCT = 100  # rows; any column, such as an age, may have fewer different values
_CONTINUOUS = 0.5  # a column of numbers or dates with at least this fraction of different values among distinct rows
_MAX_COLUMNS = 100  # that are searched for such a column
_MAX_CONFLICTS = 0.01  # fraction of the repeated rows that have several targets
_OVERSAMPLED, _NOT_OVERSAMPLED = 0.5, 0.1  # fraction of the rows of a class that are repeated
_MAX_COINCIDENCES = 0.01  # expected pairs of equal rows, as a fraction of the distinct rows


def copies_of_rows(
    raw: RawTable, y: Array, ignored: Collection[str | int] = (), classes: Array | None = None
) -> Array | None:
    """Return the number of the distinct row that each row is a copy of, or None if there are hardly any copies.

    Rows are copies if all their cells and targets are equal, except in the columns `ignored` (names or positions), and
    if rows with equal cells do not have different targets, as repeated observations have. Besides, equality must not
    be a coincidence: a column has very many different values, or nearly only some of the `classes` (integers) have
    equal rows, although the columns have enough values.
    """
    n_rows = raw.n_rows
    groups = np.zeros(n_rows, np.int64)
    largest = 0  # the most different values of a column that is not text
    log_coincidence = 0.0  # of the probability that two rows are equal, if the columns are independent
    for column, name in enumerate(raw.names):
        if name in ignored or column in ignored:
            continue
        if column >= _MAX_COLUMNS and largest < _CONTINUOUS * _count(groups):
            return None
        try:
            values = raw.source.values(column, name)
            is_text = values.kind == "text"
            codes = _codes(np.array(list(map(str, values.data)), dtype=object) if is_text else values.data)
        except Exception:  # cells may be any objects; the encoder, which knows the kind of the column, reports errors
            return None
        largest = largest if is_text else max(largest, _count(codes))
        log_coincidence += float(np.log(np.square(np.bincount(codes) / n_rows).sum()))
        groups = _refined(groups, codes)
        if n_rows - _count(groups) < _FEW * n_rows:
            return None
    n_distinct = _count(groups)
    if n_distinct < _MIN_DISTINCT:
        return None
    with_targets = groups
    for target in y.reshape(n_rows, -1).T:
        with_targets = _refined(with_targets, _codes(target))
    n_copies = n_rows - _count(with_targets)
    n_repeated = int((np.bincount(groups) > 1).sum())
    n_targets = np.bincount(groups[np.unique(with_targets, return_index=True)[1]])  # of each distinct row
    if n_copies < _FEW * n_rows or (n_targets > 1).sum() > _MAX_CONFLICTS * n_repeated:
        return None
    is_rare = log_coincidence + np.log(n_distinct / 2) < np.log(_MAX_COINCIDENCES)
    if largest < _CONTINUOUS * n_distinct and not (is_rare and _some_are_oversampled(with_targets, classes)):
        return None
    _log.info("%d of %d rows are copies of others; copies are in the same fold", n_copies, n_rows)
    return with_targets


def _some_are_oversampled(groups: Array, classes: Array | None) -> bool:
    """Whether many rows of some classes are repeated, but hardly any rows of other classes."""
    if classes is None:
        return False
    is_repeated = np.bincount(groups)[groups] > 1
    shares = np.bincount(classes, weights=is_repeated) / np.maximum(1, np.bincount(classes))
    return bool(shares.max() >= _OVERSAMPLED and shares[np.bincount(classes) > 0].min() <= _NOT_OVERSAMPLED)


def _codes(values: Array) -> Array:
    """Return integers from 0 on that are equal where values are equal; NaN equals NaN."""
    if values.dtype == object:
        places: dict[Any, int] = {}
        return np.array([places.setdefault(value, len(places)) for value in values.tolist()], np.int64)
    return np.asarray(np.unique(values, return_inverse=True)[1].reshape(-1))


def _refined(groups: Array, codes: Array) -> Array:
    """Divide groups into those with equal codes."""
    return _codes(groups * _count(codes) + codes)


def _count(codes: Array) -> int:
    return int(codes.max()) + 1
