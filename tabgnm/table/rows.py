"""Conversion of row numbers of a part of a table to those of the original table, for error messages."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# A slice that `taken` returns has step 1, and its ends are not negative.
RowChoice = slice | NDArray[np.integer[Any]]


def taken(before: RowChoice | None, n_rows: int, rows: RowChoice) -> RowChoice:
    """Return the rows of the table that correspond to `rows` of a part of it.

    The part consists of `n_rows` rows, whose positions in the table are `before`; None means all rows of the table.
    """
    if isinstance(rows, slice) and not isinstance(before, np.ndarray):
        span = range(n_rows)[rows]
        if span.step == 1:  # keep a slice, for views instead of copies of arrays
            first = span.start + (0 if before is None else before.start)
            return slice(first, first + len(span))
    if before is None:
        before = slice(0, n_rows)
    numbers = np.arange(before.start, before.stop) if isinstance(before, slice) else before
    return numbers[rows]


def row_number(rows: RowChoice | None, position: int) -> int:
    """Return the row of the table at a position of a part that consists of `rows` of the table."""
    if rows is None:
        return position
    return int(rows.start + position if isinstance(rows, slice) else rows[position])
