"""Reading tables from arrays, frames of several libraries, sparse matrices and lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tabgnm.table.errors import CellTypeError, TableError
from tabgnm.table.raw import RawTable, shortened
from tabgnm.table.sources import ArraySource, Column, ColumnsSource, SparseSource

_RESHAPE = (
    "Reshape your data either using array.reshape(-1, 1) if your data has a single feature or array.reshape(1, -1) "
    "if it contains a single sample."
)


def read_table(X: Any) -> RawTable:
    """Return X as a table, converting and copying as little as possible.

    Parameters
    ----------
    X : array, frame, sparse matrix or list of rows
        A 2-D NumPy array (of numbers, strings, dates or objects); a DataFrame of pandas, polars (including lazy
        frames), pyarrow or another library supported by narwhals; a SciPy sparse matrix of any format; a list of rows;
        or anything that NumPy can convert to a 2-D array. A `RawTable` is returned unchanged.

    Returns
    -------
    RawTable

    Raises
    ------
    TableError
        If X is not two-dimensional, is empty, or has several columns with the same name. It is a `ValueError`, with
        scikit-learn's message if there is one.
    TypeError
        If X has a type that cannot be a table, or only some of the column names are strings.
    """
    if isinstance(X, np.ndarray):
        return _of_array(X)
    if isinstance(X, RawTable):
        return X
    if sparse.issparse(X):
        return _of_sparse(X)
    if isinstance(X, list | tuple):
        return _of_rows(X)
    if X is None or isinstance(X, str | bytes | Mapping | set | frozenset):
        raise CellTypeError(
            f"X has type {type(X).__name__}; expected a table with rows and columns: an array, a DataFrame, a sparse "
            "matrix or a list of rows; use pandas.DataFrame(X) for a dict of columns"
        )
    _refuse_duplicates(X)
    frame = nw.from_native(X, allow_series=True, pass_through=True)
    if isinstance(frame, nw.Series):
        raise TableError(
            f"Expected a 2-dimensional container but got {type(X)} instead. Pass a DataFrame containing a single row "
            "(i.e. single sample) or a single column (i.e. single feature) instead."
        )
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if isinstance(frame, nw.DataFrame):
        return _of_frame(frame, X if nw.dependencies.is_pandas_dataframe(X) else None)
    if hasattr(X, "__arrow_c_stream__"):  # such as a pyarrow RecordBatch
        return _of_frame(nw.from_arrow(X, backend="pyarrow"))
    return _of_array(_as_array(X))


def _as_array(X: Any) -> NDArray[Any]:
    try:
        return np.asarray(X)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TableError(
            f"X of type {type(X).__name__} cannot be converted to a table with rows and columns: {error}"
        ) from error


def _refuse_empty(n_rows: int, n_columns: int) -> None:
    for count, what in ((n_rows, "sample"), (n_columns, "feature")):
        if count == 0:
            raise TableError(
                f"Found array with 0 {what}(s) (shape=({n_rows}, {n_columns})) while a minimum of 1 is required."
            )


def _of_array(array: NDArray[Any]) -> RawTable:
    if isinstance(array, np.matrix):
        raise TypeError("np.matrix is not supported. Please convert to a numpy array with np.asarray.")
    if array.dtype.names is not None:
        raise TableError(
            f"X is a structured array with the fields {shortened(array.dtype.names)}; convert it to a DataFrame, for "
            "instance with pandas.DataFrame(X)"
        )
    if array.dtype.kind == "c":
        raise TableError(f"Complex data not supported\n{array}\n")
    if array.ndim == 0:
        raise TableError(f"Expected 2D array, got scalar array instead:\narray={array}.\n{_RESHAPE}")
    if array.ndim == 1:
        raise TableError(f"Expected 2D array, got 1D array instead:\narray={array}.\n{_RESHAPE}")
    if array.ndim > 2:
        raise TableError(f"Found array with dim {array.ndim}, while dim <= 2 is required.")
    _refuse_empty(*array.shape)
    if isinstance(array, np.ma.MaskedArray):
        array = _without_mask(array)
    if array.dtype.kind in "biuf":
        return RawTable(ArraySource(array))
    if array.dtype.kind == "V":
        raise CellTypeError(f"X has the type {array.dtype}; expected numbers, strings, dates or objects")
    if array.dtype.kind == "S":  # text of a fixed width; in contrast, bytes in object arrays are refused as binary data
        array = np.char.decode(array, "utf-8", "backslashreplace")
    columns = [Column(array[:, column], f"x{column}") for column in range(array.shape[1])]
    return RawTable(ColumnsSource(columns, len(array)))


def _without_mask(array: np.ma.MaskedArray[Any, Any]) -> NDArray[Any]:
    mask = np.ma.getmaskarray(array)
    if not mask.any():
        return np.asarray(array.data)
    bare = np.array(array.data, dtype=np.float64 if array.dtype.kind in "iuf" else object)
    bare[mask] = np.nan if bare.dtype.kind == "f" else None
    return bare


def _of_sparse(matrix: Any) -> RawTable:
    if matrix.ndim != 2:
        raise TableError(
            f"Expected 2D array, got {matrix.ndim}D array instead:\nsparse container={matrix!r}.\n{_RESHAPE}"
        )
    if matrix.dtype.kind == "c":
        raise TableError(f"Complex data not supported\n{matrix!r}\n")
    if matrix.dtype.kind not in "biuf":
        raise CellTypeError(f"X is a sparse matrix of type {matrix.dtype}; expected numbers")
    _refuse_empty(*matrix.shape)
    return RawTable(SparseSource(matrix.tocsr()))


def _of_rows(rows: Sequence[Any]) -> RawTable:
    first = rows[0] if rows else None
    if isinstance(first, Mapping):
        raise CellTypeError("X is a list of dicts; convert it to a DataFrame, for instance with pandas.DataFrame(X)")
    if not rows or not all(isinstance(row, list | tuple) for row in rows):
        return _of_array(_as_array(rows))
    lengths = set(map(len, rows))
    if len(lengths) > 1:
        row = next(row for row, cells in enumerate(rows) if len(cells) != len(rows[0]))
        raise TableError(
            f"the rows of X have different lengths: row 0 has {len(rows[0])} cells, row {row} has {len(rows[row])}; "
            "expected the same number of cells in each row; use None for missing cells"
        )
    # Cells keep their own types: numpy would convert the numbers in [["red", 1]] to strings.
    array = np.array(rows, dtype=object)
    return _of_array(array)


def _of_frame(frame: nw.DataFrame[Any], pandas_frame: Any = None) -> RawTable:
    names: list[Any] = list(frame.columns)
    _refuse_empty(len(frame), len(names))
    types = sorted({type(name).__qualname__ for name in names})
    if len(types) > 1 and "str" in types:
        raise TypeError(
            "Feature names are only supported if all input features have string names, but your input has "
            f"{types} as feature name / column name types. If you want feature names to be stored and validated, you "
            "must convert them all to strings, by using X.columns = X.columns.astype(str) for example. Otherwise you "
            "can remove feature / column names from your input data, or convert them all to a non-string data type."
        )
    integers = _are_labels(names)
    own = types == ["str"] or integers
    names = [str(name) for name in names] if integers else names
    shown = names if own else [f"x{column}" for column in range(len(names))]
    dtypes = set() if pandas_frame is None else set(pandas_frame.dtypes)
    if len(dtypes) == 1 and _is_plain(only := dtypes.pop()) and only.kind in "biuf":
        return RawTable(ArraySource(pandas_frame.to_numpy()), shown if own else None, integers=integers)
    series = frame.iter_columns() if pandas_frame is None else map(_pandas_column, pandas_frame.items())
    columns = [Column(data, name) for data, name in zip(series, shown, strict=True)]
    return RawTable(ColumnsSource(columns, len(frame)), shown if own else None, integers=integers)


def _are_labels(names: Sequence[Any]) -> bool:
    """Whether names are integers other than 0, 1, 2, ..., which pandas uses when columns have no names."""
    if not isinstance(names[0], int | np.integer) or names == list(range(len(names))):
        return False
    return all(isinstance(name, int | np.integer) and not isinstance(name, bool) for name in names)


def _is_plain(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind in "biufMm"


def _pandas_column(item: tuple[Any, Any]) -> Any:
    # Numpy arrays in a pandas frame do not need narwhals, which would take most of the time to predict a single row.
    _, series = item
    return series.to_numpy() if _is_plain(series.dtype) else nw.from_native(series, series_only=True)


def _refuse_duplicates(X: Any) -> None:
    # Checked before narwhals reads the table: its error does not name a remedy.
    if nw.dependencies.is_pandas_like_dataframe(X):
        names = list(X.columns)
    elif nw.dependencies.is_pyarrow_table(X):
        names = list(X.column_names)
    else:
        return
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise TableError(f"X has several columns with the same name: {shortened(repeated)}; rename or drop all but one")
