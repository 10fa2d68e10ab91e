"""Sources of the cells of a table: one array, a sparse matrix, or separate columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from tabgnm.table.cells import in_microseconds, refuse_containers
from tabgnm.table.errors import CellTypeError
from tabgnm.table.rows import RowChoice, row_number, taken
from tabgnm.table.values import Floats, Values, values_of_array

_NOT_IN_NUMPY = (nw.Decimal, nw.Int128, nw.UInt128)
_REMEMBERED_ROWS = 2**14  # typed cells of larger parts are not cached: they would take as much memory as the table


class Source(Protocol):
    """The interface of sources. Columns are identified by position, and data is never modified."""

    n_rows: int
    n_columns: int

    def take(self, rows: RowChoice) -> Source:
        """Return these rows."""

    def select(self, columns: Sequence[int]) -> Source:
        """Return these columns, in this order."""

    def values(self, column: int, name: str) -> Values:
        """Return the cells of a column, typed."""

    def cells(self, column: int) -> Iterable[Any]:
        """Return the cells of a column as Python objects, for categories."""

    def order(self, column: int) -> tuple[Any, ...] | None:
        """Return all levels of an ordered category in their order; None for any other column."""

    def is_category(self, column: int) -> bool:
        """Whether a column has the type of a category."""

    def block(self, columns: Sequence[int]) -> Floats | None:
        """Return a new float64 array (columns, rows) if all cells are numbers in one array, otherwise None."""

    def row(self, position: int) -> int:
        """Return the row of the original table at this position, for messages."""


class ArraySource:
    """A 2-D array of booleans or real numbers."""

    def __init__(self, array: NDArray[Any], rows: RowChoice | None = None) -> None:
        self.array = array
        self.n_rows, self.n_columns = array.shape
        self._rows = rows

    def take(self, rows: RowChoice) -> ArraySource:
        """Return these rows: a view for a slice, a copy otherwise."""
        return ArraySource(self.array[rows], taken(self._rows, self.n_rows, rows))

    def select(self, columns: Sequence[int]) -> ArraySource:
        """Return these columns."""
        return ArraySource(self.array[:, list(columns)], self._rows)

    def values(self, column: int, name: str) -> Values:
        """Return the cells of a column."""
        return values_of_array(self.array[:, column], name, self._rows)

    def cells(self, column: int) -> Sequence[Any]:
        """Return the cells of a column as Python objects."""
        return list(self.array[:, column].tolist())

    def order(self, column: int) -> None:  # noqa: ARG002 - the other sources need it
        """Return None: numbers are not categories."""
        return

    def is_category(self, column: int) -> bool:  # noqa: ARG002 - the other sources need it
        """Return False: numbers are not categories."""
        return False

    def block(self, columns: Sequence[int]) -> Floats:
        """Return columns as a new array."""
        # Indexing makes a copy, even if nothing has to be converted.
        return self.array.T[np.asarray(columns, dtype=np.intp)].astype(np.float64, order="C", copy=False)

    def row(self, position: int) -> int:
        """Return the row of the table at this position."""
        return row_number(self._rows, position)


class SparseSource:
    """A scipy sparse matrix in CSR format; only a few columns or rows at a time are made dense."""

    def __init__(self, matrix: Any, rows: RowChoice | None = None) -> None:
        self.matrix = matrix
        self.n_rows, self.n_columns = matrix.shape
        self._rows = rows
        self._by_column: Any = None

    def take(self, rows: RowChoice) -> SparseSource:
        """Return these rows, still sparse."""
        return SparseSource(self.matrix[rows], taken(self._rows, self.n_rows, rows))

    def select(self, columns: Sequence[int]) -> SparseSource:
        """Return these columns, still sparse."""
        return SparseSource(self.matrix[:, list(columns)], self._rows)

    def _column(self, column: int) -> NDArray[Any]:
        if self._by_column is None:
            self._by_column = self.matrix.tocsc()  # a copy, so duplicates can be summed in place
            self._by_column.sum_duplicates()
        entries = slice(self._by_column.indptr[column], self._by_column.indptr[column + 1])
        dense = np.zeros(self.n_rows, dtype=self._by_column.dtype)
        dense[self._by_column.indices[entries]] = self._by_column.data[entries]
        return dense

    def values(self, column: int, name: str) -> Values:
        """Return the cells of a column, dense."""
        return values_of_array(self._column(column), name, self._rows)

    def cells(self, column: int) -> Sequence[Any]:
        """Return the cells of a column as Python objects."""
        return list(self._column(column).tolist())

    def order(self, column: int) -> None:  # noqa: ARG002 - the other sources need it
        """Return None: numbers are not categories."""
        return

    def is_category(self, column: int) -> bool:  # noqa: ARG002 - the other sources need it
        """Return False: numbers are not categories."""
        return False

    def block(self, columns: Sequence[int]) -> Floats:
        """Return columns as a new dense array."""
        return ArraySource(self.matrix.toarray()).block(columns)

    def row(self, position: int) -> int:
        """Return the row of the table at this position."""
        return row_number(self._rows, position)


class Column:
    """One column with its own type. It is read on first use, once for all parts of a table.

    Parameters
    ----------
    data : 1-D array or narwhals series
    name : str
    """

    def __init__(self, data: NDArray[Any] | nw.Series[Any], name: str) -> None:
        self._data = data
        self._name = name
        # Values if the column has a type. An array if the type depends on the cells or cells may be invalid: the result
        # for some rows must depend only on these rows.
        self._values: Values | NDArray[Any] | None = None
        self._cells: NDArray[Any] | None = None
        self._said: dict[str, dict[str, Any]] = {}

    def values(self, rows: RowChoice | None, name: str) -> Values:
        """Return the cells in these rows (if None, in all rows), typed."""
        if self._values is None:
            self._values = self._read()
        known = self._values
        if isinstance(known, Values):
            if known.kind == "text":
                return Values("text", self.cells(rows), rows, self._said)
            return Values(known.kind, known.data if rows is None else known.data[rows], rows)
        return replace(values_of_array(known if rows is None else known[rows], name, rows), said=self._said)

    def cells(self, rows: RowChoice | None) -> NDArray[Any]:
        """Return the cells in these rows as Python objects, unchanged; containers are refused."""
        everything = self._all_cells()
        cells = everything if rows is None else everything[rows]
        refuse_containers(cells, self._name, rows)
        return cells

    def order(self) -> tuple[Any, ...] | None:
        """Return all levels in their order if the column is an ordered category, otherwise None."""
        data = self._data
        if not isinstance(data, nw.Series):
            return None
        if isinstance(data.dtype, nw.Enum):  # also the type in narwhals of an ordered pandas category
            return tuple(data.dtype.categories)
        native = data.to_native()
        is_arrow = data.dtype == nw.Categorical and nw.dependencies.is_pyarrow_chunked_array(native)
        if is_arrow and native.type.ordered and native.num_chunks:
            return tuple(native.unify_dictionaries().chunk(0).dictionary.to_pylist())
        return None

    def is_category(self) -> bool:
        """Whether the column has the type of a category."""
        return isinstance(self._data, nw.Series) and self._data.dtype in (nw.Categorical, nw.Enum)

    def _all_cells(self) -> NDArray[Any]:
        if self._cells is None:
            self._cells = self._read_cells()
        return self._cells

    def _read_cells(self) -> NDArray[Any]:
        data = self._data
        if isinstance(data, nw.Series):
            _refuse_nested(data.dtype, self._name)
            return _object_array(data.to_list())
        if data.dtype.kind in "Mm":
            micros, too_far = in_microseconds(data)
            if too_far is not None:
                return _object_array(list(data))
            data = micros  # numpy would convert nanoseconds to integers
        return data if data.dtype.kind == "O" else data.astype(object)

    def _read(self) -> Values | NDArray[Any]:
        data = self._data
        if not isinstance(data, nw.Series):
            return data if data.dtype.kind in "OMm" else values_of_array(data, self._name)
        dtype = data.dtype
        if dtype.is_numeric():
            array = (data.cast(nw.Float64) if dtype in _NOT_IN_NUMPY else data).to_numpy()
            return Values("number", array if array.dtype.kind in "iuf" else data.cast(nw.Float64).to_numpy())
        if dtype == nw.Boolean:
            return Values("boolean", data.cast(nw.Float64).to_numpy())
        if isinstance(dtype, nw.Datetime | nw.Date | nw.Duration):
            array = data.to_numpy()
            if array.dtype.kind in "Mm":
                return array
        if dtype in (nw.String, nw.Categorical, nw.Enum):
            return Values("text", self._all_cells())
        return self._all_cells()


class ColumnsSource:
    """Columns of different types, from a frame or from an array that does not consist of numbers."""

    def __init__(self, columns: Sequence[Column], n_rows: int, rows: RowChoice | None = None) -> None:
        self._columns = columns
        self._rows = rows
        self.n_rows = n_rows
        self.n_columns = len(columns)
        self._values: dict[int, Values] = {}

    def take(self, rows: RowChoice) -> ColumnsSource:
        """Return these rows; the columns are shared by all parts of a table and read only once."""
        chosen = taken(self._rows, self.n_rows, rows)
        n_rows = chosen.stop - chosen.start if isinstance(chosen, slice) else len(chosen)
        return ColumnsSource(self._columns, n_rows, chosen)

    def select(self, columns: Sequence[int]) -> ColumnsSource:
        """Return these columns."""
        return ColumnsSource([self._columns[column] for column in columns], self.n_rows, self._rows)

    def values(self, column: int, name: str) -> Values:
        """Return the typed cells of a column, which all encoders of a model share, including parsed values."""
        values = self._values.get(column)
        if values is None:
            values = self._columns[column].values(self._rows, name)
            if self.n_rows <= _REMEMBERED_ROWS:
                self._values[column] = values
        return values

    def cells(self, column: int) -> NDArray[Any]:
        """Return the cells of a column as Python objects."""
        return self._columns[column].cells(self._rows)

    def order(self, column: int) -> tuple[Any, ...] | None:
        """Return all levels of an ordered category in their order; None for any other column."""
        return self._columns[column].order()

    def is_category(self, column: int) -> bool:
        """Whether a column has the type of a category."""
        return self._columns[column].is_category()

    def block(self, columns: Sequence[int]) -> None:  # noqa: ARG002 - the other sources need it
        """Return None: columns are read one by one."""
        return

    def row(self, position: int) -> int:
        """Return the row of the table at this position."""
        return row_number(self._rows, position)


def _object_array(cells: Sequence[Any]) -> NDArray[Any]:
    array = np.empty(len(cells), dtype=object)
    array[:] = cells  # np.array would convert cells that are lists
    return array


def _refuse_nested(dtype: Any, name: str) -> None:
    if dtype.is_nested() or dtype == nw.Binary:
        raise CellTypeError(
            f"column {name!r} has the type {dtype}, but each cell of the argument must be a string or a number; split "
            "it into several columns, drop it, or use the kind 'ignore' in fit"
        )
