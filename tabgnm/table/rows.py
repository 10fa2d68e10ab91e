"""Which rows of the table that was read a part of it has; errors name them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# A slice has step 1 and ends that are not negative, once it went through `taken`.
RowChoice = slice | NDArray[np.integer[Any]]


def taken(before: RowChoice | None, n_rows: int, rows: RowChoice) -> RowChoice:
    """Return where `rows` of a part stand in the table; the part has `n_rows` rows, those of `before` (None: all)."""
    if isinstance(rows, slice) and not isinstance(before, np.ndarray):
        span = range(n_rows)[rows]
        if span.step == 1:  # stays a slice, of which arrays are views
            first = span.start + (0 if before is None else before.start)
            return slice(first, first + len(span))
    if before is None:
        before = slice(0, n_rows)
    numbers = np.arange(before.start, before.stop) if isinstance(before, slice) else before
    return numbers[rows]


def row_number(rows: RowChoice | None, position: int) -> int:
    """Return the row of the table at a position of the part that has `rows` of it."""
    if rows is None:
        return position
    return int(rows.start + position if isinstance(rows, slice) else rows[position])
