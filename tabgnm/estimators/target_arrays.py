"""Conversion of targets and classes in any container to NumPy arrays without missing values."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_array

from tabgnm.table.cells import is_missing

Array = NDArray[Any]


def as_target_array(y: Any, name: str = "y") -> Array:
    """Return targets as a NumPy array of one or two dimensions; raise if any is missing.

    Objects that are all booleans, integers or real numbers become an array of that type.
    """
    if y is None:
        raise ValueError(f"requires y to be passed, but the target {name} is None")
    if type(y) is np.ndarray and y.dtype.kind in "biu" and y.ndim in (1, 2) and y.size:
        return y  # a fast path: these types have no missing or infinite values
    array: Array = check_array(
        _with_rows(_as_array(y), name),
        ensure_2d=False,
        dtype=None,
        ensure_all_finite=False,
        input_name=name,
        ensure_min_samples=1,
    )
    if array.ndim > 2:
        raise ValueError(f"{name} has {array.ndim} dimensions; expected (rows,) or (rows, outputs)")
    if array.ndim == 2 and array.shape[1] == 0:
        raise ValueError(f"{name} has shape {array.shape}, without columns; expected (rows,) or (rows, outputs)")
    missing = _missing(array)
    if missing.any():
        raise ValueError(f"Input {name} contains NaN in row {first_row(missing)}; drop rows with missing targets")
    array = np.asarray(array) if array.dtype.kind != "O" else _without_objects(array, name)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = first_row(~np.isfinite(array))
        raise ValueError(f"Input {name} contains infinity or a value too large in row {row}; drop such rows")
    return array


_CONTAINERS = (list, tuple, dict, set, frozenset, np.ndarray)


def _as_array(y: Any) -> Any:
    if sparse.issparse(y):
        return y.toarray()
    if hasattr(y, "collect"):  # a lazy frame
        y = y.collect()
    if isinstance(y, np.ma.MaskedArray):
        cells = y.data.astype(object)
        cells[np.ma.getmaskarray(y)] = None
        return cells if np.ma.getmaskarray(y).any() else y.data
    if isinstance(y, list | tuple) and any(map(_has_text, y)):
        return np.array(y, dtype=object)  # NumPy would convert numbers among strings to strings
    if hasattr(y, "to_pylist") and hasattr(y, "type"):  # pyarrow, whose arrays may have categories and missing values
        plain = not y.null_count and "dictionary" not in str(y.type)
        return y.to_numpy(zero_copy_only=False) if plain else _objects(y)
    if hasattr(y, "to_pylist") and hasattr(y, "columns"):  # pyarrow's Table
        return np.column_stack([_as_array(column) for column in y.columns])
    if hasattr(y, "to_numpy") and not isinstance(y, np.ndarray):  # frames and series of pandas and polars
        return y.to_numpy()
    return y


def _with_rows(y: Any, name: str) -> Any:
    """Return y as an array with rows; raise if it has none, or rows of different lengths."""
    try:
        array = y if hasattr(y, "ndim") else np.asarray(y)
    except ValueError:
        lengths = [np.shape(row)[:1] for row in y]
        row = next(row for row, length in enumerate(lengths) if length != lengths[0])
        raise ValueError(
            f"{name} has rows of different lengths: row {row} differs from row 0; expected the same number of labels "
            "or numbers in each row"
        ) from None
    if array.ndim == 0:
        raise TypeError(
            f"{name}={y!r:.60} has type {type(y).__name__}; expected an array or list with one label or number per row"
        )
    return array


def _objects(y: Any) -> Array:
    cells = np.empty(len(y), dtype=object)
    cells[:] = y.to_pylist()
    return cells


def _has_text(label: Any) -> bool:
    return isinstance(label, str) or (isinstance(label, list | tuple) and any(isinstance(part, str) for part in label))


def _without_objects(y: Array, name: str) -> Array:
    """Convert objects that are all numbers of one kind to an array of numbers."""
    kinds = set(map(type, y.ravel()))
    if kinds == {str}:
        return y
    containers = sorted(kind.__name__ for kind in kinds if issubclass(kind, _CONTAINERS))
    if containers:
        raise TypeError(
            f"{name} contains values of type {', '.join(containers)}; expected one label or number per row, or the "
            "same number of them in each row"
        )
    if all(issubclass(kind, bool | np.bool_) for kind in kinds):
        return y.astype(bool)
    if any(issubclass(kind, bool | np.bool_) for kind in kinds):
        return y
    if all(issubclass(kind, numbers.Integral) for kind in kinds):
        try:
            return y.astype(np.int64)
        except OverflowError:
            return y
    return y.astype(np.float64) if all(issubclass(kind, numbers.Real) for kind in kinds) else y


def _missing(y: Array) -> Array:
    if y.dtype.kind == "f":
        return np.isnan(y)
    if y.dtype.kind in "Mm":
        return np.isnat(y)
    if y.dtype.kind != "O":
        return np.zeros(y.shape, dtype=bool)
    return np.array([is_missing(value) for value in y.ravel()], dtype=bool).reshape(y.shape)


def first_row(marked: Array) -> int:
    """Return the first row with a marked entry."""
    return int(np.argmax(marked.reshape(len(marked), -1).any(axis=1)))


def sort_classes(y: Array, name: str = "y") -> tuple[Array, Array]:
    """Return the sorted distinct labels, and the class number of each row."""
    kinds = sorted({type(value).__name__ for value in y.ravel()}) if y.dtype.kind == "O" else []
    try:
        if "bool" in kinds and len(kinds) > 1:  # True and 1 would be one label
            raise TypeError
        classes, codes = np.unique(y, return_inverse=True)
    except TypeError:
        said = f"of several types ({', '.join(kinds)})" if len(kinds) > 1 else f"of the type {kinds[0]}"
        raise TypeError(
            f"labels in {name} are {said}, which cannot be sorted; convert them to a single sortable type, such as str"
        ) from None
    return classes, codes.reshape(-1)


def _listed(classes: Any) -> Any:
    if isinstance(classes, str | bytes | Mapping) or not isinstance(classes, Iterable):
        raise TypeError(
            f"classes={classes!r:.100} has type {type(classes).__name__}; expected a list of all labels that may "
            "occur, for instance [0, 1]"
        )
    return classes


def list_of_labels(classes: Any) -> Array:
    """Return the `classes` of one target."""
    known = as_target_array(_listed(classes), "classes")
    if known.ndim != 1:
        raise ValueError(f"classes has shape {known.shape}; expected a single list of labels, because y has one column")
    return known


def lists_of_labels(classes: Any, n_targets: int) -> list[Array] | None:
    """Return the labels of each target, or None if `classes` are the column numbers of a multilabel target."""
    given = list(_listed(classes))
    if all(np.ndim(own) == 0 for own in given) and given == list(range(n_targets)):
        return None
    if len(given) != n_targets or any(np.ndim(own) != 1 for own in given):
        raise ValueError(
            f"classes={classes!r:.100} does not match y with {n_targets} columns; expected a list of {n_targets} lists "
            f"of labels, one per column, or range({n_targets}) for columns of 0 and 1"
        )
    return [as_target_array(own, "classes") for own in given]


def names_of_targets(y: Any) -> list[str]:
    """Return the name of a series of targets, or the column names of a table of targets; empty if there are none.

    Supports series and tables of pandas, polars and pyarrow. Column names 0, 1, ... are positions, not names; other
    integers are names.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"height": [1.0], "width": [2.0]})
    >>> names_of_targets(frame), names_of_targets(frame["width"]), names_of_targets([1.0])
    (['height', 'width'], ['width'], [])
    """
    # Accessing `columns` of a lazy frame of polars issues a warning.
    names = y.collect_schema().names() if hasattr(y, "collect_schema") else getattr(y, "columns", None)
    if names is None:
        names = [getattr(y, "name", None)]
    elif isinstance(names, list) and hasattr(y, "column_names"):  # of pyarrow, whose columns are arrays
        names = y.column_names
    if list(names) == list(range(len(names))):
        return []
    found = [str(name) for name in names if isinstance(name, str | numbers.Integral) and str(name)]
    return found if len(found) == len(names) else []
