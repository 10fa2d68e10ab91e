"""Tables before encoding, with one interface for all types of input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tabgnm.table.errors import TableError
from tabgnm.table.sources import Source


class RawTable:
    """The rows and columns of any input, before encoding. Created by `read_table`.

    Parameters
    ----------
    source : Source
        Where the cells come from.
    names : sequence of str or None, default=None
        The names of the columns. If None, the input has no names, and the columns are called "x0", "x1", ...
    integers : bool, default=False
        Whether the names are integers, written as text.

    Attributes
    ----------
    source : Source
    n_rows, n_columns : int
    has_names : bool
        Whether the input has column names that are strings, as scikit-learn requires.
    has_integer_names : bool
        Whether the column names are integers other than 0, 1, 2, ..., which are equivalent to positions.

    Examples
    --------
    >>> from tabgnm.table import read_table
    >>> raw = read_table([[1, "red"], [2, "blue"]])
    >>> raw.n_rows, raw.names, raw.has_names
    (2, ['x0', 'x1'], False)
    """

    def __init__(self, source: Source, names: Sequence[str] | None = None, *, integers: bool = False) -> None:
        self.source = source
        self.n_rows = source.n_rows
        self.n_columns = source.n_columns
        self.has_names = names is not None and not integers
        self.has_integer_names = integers
        # Default names are created only when needed: a single row may have thousands of columns.
        self._names = None if names is None else list(names)

    @property
    def names(self) -> list[str]:
        """The names of the columns; "x0", "x1", ... if the input has no names."""
        if self._names is None:
            self._names = [f"x{column}" for column in range(self.n_columns)]
        return list(self._names)

    def take(self, rows: slice | ArrayLike) -> RawTable:
        """Return a table of these rows (a slice or positions); errors name the rows of the original table."""
        if not isinstance(rows, slice):
            rows = np.asarray(rows)
            rows = rows.astype(np.intp) if rows.shape == (0,) else rows  # numpy converts an empty list to floats
            if rows.ndim != 1 or rows.dtype.kind not in "iu":
                raise TypeError(
                    f"rows have shape {rows.shape} and type {rows.dtype}; expected a slice or a 1-D array of integers "
                    "(use numpy.flatnonzero for a mask)"
                )
        part = RawTable(self.source.take(rows), self._names, integers=self.has_integer_names)
        part.has_names = self.has_names
        return part

    def select(self, names: Sequence[str]) -> RawTable:
        """Return a table of these columns, in this order."""
        position = {name: column for column, name in enumerate(self.names)}
        unknown = [name for name in names if name not in position]
        if unknown:
            raise TableError(f"there are no columns {unknown}; expected names among {shortened(self.names)}")
        chosen = self.source.select([position[name] for name in names])
        part = RawTable(chosen, names, integers=self.has_integer_names)
        part.has_names = self.has_names
        return part

    def __repr__(self) -> str:
        return f"RawTable({self.n_rows} rows, {self.n_columns} columns: {shortened(self.names)})"


def shortened(names: Sequence[Any], longest: int = 20) -> str:
    """Return a list of names as text, abbreviated if there are many."""
    shown = ", ".join(repr(name) for name in names[:longest])
    return shown if len(names) <= longest else f"{shown}, ... ({len(names)} in all)"
