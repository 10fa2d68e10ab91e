"""Reading and encoding columns of tables with NumPy; exported Python files contain this code.

The code below the line of dashes is copied into files unchanged, after `python_cells_runtime`.
"""

from __future__ import annotations

import math
from typing import Any

from tabgnm.export.python_cells_runtime import _LARGEST, Row, _refused

# ----------------------------------------------------------------------------------------------------------------------
try:
    import numpy as np
except ImportError:  # a single row needs no NumPy
    np = None  # type: ignore[assignment]

Array = Any
_ERF: list[Array] = []


def _side_by_side(columns: Any) -> Any:
    """Return columns of labels as one array, in which labels of different types keep their types."""
    mixed = len({own.dtype.kind for own in columns}) > 1
    return np.column_stack([own.astype(object) if mixed else own for own in columns])


def _columns_of(rows: Any, names: Any, unnamed: Any) -> tuple[dict[str, Any], int]:
    """Return the columns by name, and the number of rows, of a list of dicts, a dict of columns or a frame.

    `unnamed` are the names that were given to the columns of a training table without names, else it is empty. If
    there are some, arrays, lists of lists and frames with other names are read by position.
    """
    if np is None:
        raise ImportError("predictions for several rows require NumPy; install it, or use predict_row")
    if isinstance(rows, (list, tuple)) and all(hasattr(row, "keys") for row in rows):
        return {name: [row[name] for row in rows] for name in names}, len(rows)
    own = _names_of(rows)
    if unnamed and (own is None or (not isinstance(rows, dict) and not set(names) <= set(own))):
        table = _in_order(rows, own)
        if table is not None:
            if len(table) != len(unnamed):
                raise ValueError(f"rows has {len(table)} columns; expected {len(unnamed)}, as in training")
            return {name: table[unnamed.index(name)] for name in names}, len(rows)
    if own is None:
        what = f"a {rows.ndim}-D array" if isinstance(rows, np.ndarray) else f"a {type(rows).__name__}"
        array = f", or a 2-D array or list of lists with {len(unnamed)} columns" if unnamed else ""
        raise TypeError(
            f"rows is {what}; expected a list of dicts, a dict of columns or a frame, with the columns {list(names)}"
            f"{array}"
        )
    columns = {name: rows[name] for name in names}
    for name, values in columns.items() if isinstance(rows, dict) else ():
        if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
            raise TypeError(
                f"column {name!r} is {values!r:.60}; expected a list or array with one cell per row: to predict a "
                "single row, pass a list with this dict"
            )
    some = next(iter(columns.values()), None)
    if some is not None:
        return columns, len(some)
    return columns, len(next(iter(rows.values()))) if isinstance(rows, dict) else len(rows)


def _names_of(rows: Any) -> Any:
    """Return the names of the columns of a dict, a frame or a structured array; None for other objects."""
    if isinstance(rows, dict):
        return list(rows)
    if isinstance(rows, np.ndarray):
        return rows.dtype.names
    names = getattr(rows, "column_names", None)  # pyarrow
    return getattr(rows, "columns", None) if names is None else names


def _in_order(rows: Any, names: Any) -> Any:
    """Return the columns of a frame, a 2-D array or a list of lists in their order; None for other objects."""
    if names is not None:
        return [rows.iloc[:, i] if hasattr(rows, "iloc") else rows[name] for i, name in enumerate(names)]
    if isinstance(rows, np.ndarray):
        return list(rows.T) if rows.ndim == 2 else None
    if isinstance(rows, (list, tuple)) and all(isinstance(row, (list, tuple, np.ndarray)) for row in rows):
        return [list(column) for column in zip(*rows)] if len(set(map(len, rows))) == 1 else None  # noqa: B905
    return None


def _known(values: Any) -> Any:
    """Return a column as an array of numbers, dates or durations, or otherwise as a list of its cells."""
    array = values if isinstance(values, np.ndarray) else getattr(values, "to_numpy", lambda: None)()
    if array is not None and array.dtype.kind in "biufMm":
        return array
    return list(values if array is None else array)


class Rows:
    """Functions for many rows: those of `Row` for arrays instead of numbers."""

    @staticmethod
    def _each(rows: Any, name: str, read: Any, kinds: str) -> Array:
        """Return the cells of a column as floats; `read` converts cells unless they are an array of these kinds."""
        values = _known(rows[name])
        if isinstance(values, list) or values.dtype.kind not in kinds:
            return np.array([read({name: value}, name) for value in values], dtype=np.float64)
        numbers = values.astype(np.float64)
        if values.dtype.kind == "m":
            numbers = values.astype("timedelta64[us]").astype(np.float64) / 1e6
            numbers[np.isnat(values)] = np.nan
        if np.isinf(numbers).any():
            raise _refused(numbers[np.isinf(numbers)][0], name, "finite numbers")
        return numbers

    @staticmethod
    def number(rows: Any, name: str) -> Array:
        return Rows._each(rows, name, Row.number, "biuf")

    @staticmethod
    def boolean(rows: Any, name: str) -> Array:
        return Rows._each(rows, name, Row.boolean, "b")

    @staticmethod
    def seconds(rows: Any, name: str) -> Array:
        return Rows._each(rows, name, Row.seconds, "miuf")

    @staticmethod
    def text(rows: Any, name: str) -> list[str | None]:
        return [Row.text({name: value}, name) for value in _known(rows[name])]

    @staticmethod
    def moment(rows: Any, name: str) -> Array:
        values = _known(rows[name])
        if not isinstance(values, list) and values.dtype.kind == "M":
            return values.astype("datetime64[us]")
        return np.array([Row.moment({name: value}, name) for value in values], dtype="datetime64[us]")

    @staticmethod
    def date_part(moments: Array, part: str) -> Array:
        micros, days, months = (
            moments.astype(np.int64),
            moments.astype("datetime64[D]"),
            moments.astype("datetime64[M]"),
        )
        if part == "days":
            numbers = micros / 86_400_000_000
        elif part == "hour":
            numbers = (micros % 86_400_000_000) / 3.6e9
        elif part == "weekday":
            numbers = (days.astype(np.int64) + 3) % 7
        elif part == "day":
            numbers = (days - months.astype("datetime64[D]")).astype(np.int64) + 1
        elif part == "month":
            numbers = months.astype(np.int64) % 12 + 1
        else:
            numbers = moments.astype("datetime64[Y]").astype(np.int64) + 1970
        return np.where(np.isnat(moments), np.nan, numbers)

    @staticmethod
    def unscaled(values: Array, fill: float, largest: float = _LARGEST) -> Array:
        return np.where(np.isnan(values), fill, np.clip(values, -largest, largest))

    @staticmethod
    def scaled(values: Array, center: float, scale: float, fill: float, largest: float = _LARGEST) -> Array:
        with np.errstate(over="ignore", under="ignore"):
            return np.where(np.isnan(values), fill, np.clip((values - center) / scale, -largest, largest))

    @staticmethod
    def smooth(values: Array, center: float, scale: float, fill: float) -> Array:
        with np.errstate(over="ignore", under="ignore"):
            z = np.clip((values - center) / scale, -1e9, 1e9)
            return np.where(np.isnan(values), fill, z / np.sqrt(1 + (z / 3) ** 2))

    @staticmethod
    def joined_lines(values: Array, knots: Any, targets: Any, fill: float, unit: float = 1.0) -> Array:
        with np.errstate(over="ignore"):
            return np.where(np.isnan(values), fill, np.interp(values * unit, knots, targets))

    @staticmethod
    def missing(values: Array) -> Array:
        return np.isnan(values).astype(np.float64)

    @staticmethod
    def picked(texts: list[str | None], numbers: Any, other: float) -> Array:
        return np.array([numbers.get(text, other) for text in texts], dtype=np.float64)

    @staticmethod
    def identity(z: Array) -> Array:
        return z

    @staticmethod
    def relu(z: Array) -> Array:
        return np.maximum(z, 0.0)

    @staticmethod
    def leaky_relu(z: Array) -> Array:
        return np.where(z > 0, z, 0.01 * z)

    @staticmethod
    def elu(z: Array) -> Array:
        return np.where(z > 0, z, np.expm1(np.minimum(z, 0.0)))

    @staticmethod
    def gelu(z: Array) -> Array:
        return 0.5 * z * (1.0 + _erf(z * math.sqrt(0.5)))

    @staticmethod
    def sigmoid(z: Array) -> Array:
        e = np.exp(-np.abs(z))
        return np.where(z >= 0, 1.0, e) / (1.0 + e)

    @staticmethod
    def silu(z: Array) -> Array:
        return z * Rows.sigmoid(z)

    @staticmethod
    def softplus(z: Array) -> Array:
        return np.where(z > 20, z, np.log1p(np.exp(np.minimum(z, 20.0))))

    @staticmethod
    def mish(z: Array) -> Array:
        return z * np.tanh(Rows.softplus(z))

    @staticmethod
    def tanh(z: Array) -> Array:
        return np.tanh(z)


def _erf(z: Array) -> Array:
    """Return the error function, which NumPy lacks, by cubic interpolation with an error below 1e-13."""
    if not _ERF:
        grid = np.arange(6 * 1024 + 2) / 1024
        _ERF.extend([np.array([math.erf(x) for x in grid]), 2 / math.sqrt(math.pi) * np.exp(-(grid**2)) / 1024])
    values, slopes = _ERF
    place = np.minimum(np.abs(z), 6.0) * 1024
    i = place.astype(np.int64)
    t = place - i
    rise = values[i + 1] - values[i]
    bend = (slopes[i] - rise) * (1 - t) - (slopes[i + 1] - rise) * t
    return np.sign(z) * (values[i] + t * rise + t * (1 - t) * bend)
