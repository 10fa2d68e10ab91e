"""Columns of Python values (from JSON lines or SQLite) as columns of a frame, each value as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tabgnm._extras import import_extra

_EXACT = 2**53  # up to here, float64 has every whole number


def frame_of(columns: Sequence[str], cells: Sequence[list[Any]]) -> Any:
    """Return a frame of columns of None, booleans, numbers and text."""
    pd = import_extra("pandas", "cli", "reading tables")
    return pd.DataFrame(dict(zip(columns, map(_array, cells), strict=True)), columns=list(columns))


def _array(cells: list[Any]) -> Any:
    kinds = set(map(type, cells))
    if kinds == {int} and all(-(2**63) <= cell < 2**63 for cell in cells):
        return np.array(cells, dtype=np.int64)
    are_numbers = kinds <= {int, float, type(None)} and kinds != {type(None)}
    if are_numbers and all(type(cell) is not int or -_EXACT <= cell <= _EXACT for cell in cells):
        return np.array(cells, dtype=np.float64)  # None becomes NaN
    if kinds == {bool}:
        return np.array(cells, dtype=np.bool_)
    array = np.empty(len(cells), dtype=object)
    array[:] = cells
    return array
