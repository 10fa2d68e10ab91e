"""Single cells of any type: whether they are missing, their kind, and the string that identifies a level."""

from __future__ import annotations

import datetime
import decimal
import numbers
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tabgnm.table.errors import CellTypeError, TableError
from tabgnm.table.rows import RowChoice, row_number

CellKind = Literal["empty", "number", "boolean", "datetime", "duration", "time", "text"]

_CONTAINERS = (dict, list, set, frozenset, tuple, np.ndarray, bytes, bytearray, memoryview)

# The missing values of pandas, identified by the names of their types so that pandas need not be installed.
_MISSING_TYPES = ("NAType", "NaTType")

_MAX_DIGITS = 1000
_MAX_BITS = 4096


def is_missing(value: Any) -> bool:
    """Whether a cell is None, NaN, pandas.NA, NaT or the like."""
    if value is None or type(value).__name__ in _MISSING_TYPES:
        return True
    if isinstance(value, decimal.Decimal):  # a signalling NaN must not be compared
        return value.is_nan()
    if isinstance(value, float | np.floating):
        return bool(value != value)
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return value is np.ma.masked


def kind_of_type(kind: type) -> CellKind | None:
    """Return the kind of cells of a Python type; None if they can be only levels of a category."""
    if issubclass(kind, bool | np.bool_):
        return "boolean"
    if issubclass(kind, np.timedelta64 | datetime.timedelta):  # before numbers: timedelta64 is a numpy integer
        return "duration"
    if issubclass(kind, numbers.Real | decimal.Decimal | np.number) and not issubclass(kind, np.complexfloating):
        return "number"
    if issubclass(kind, datetime.date | np.datetime64):
        return "datetime"
    return "time" if issubclass(kind, datetime.time) else None


def refuse_containers(cells: Iterable[Any], column: str, rows: RowChoice | None = None) -> None:
    """Raise if a cell is a container or binary data; `rows` are the positions of the cells in the table, for messages.

    Raises
    ------
    CellTypeError
        Names the column and the row.
    """
    for kind in set(map(type, cells)):
        if issubclass(kind, _CONTAINERS):
            place, cell = next((place, cell) for place, cell in enumerate(cells) if type(cell) is kind)
            raise CellTypeError(
                f"column {column!r} has a {kind.__name__} in row {row_number(rows, place)} ({cell!r:.60}). Each cell "
                "of the argument must be a string or a number; split the column into several columns, or drop it"
            )


def kind_of_cells(cells: Sequence[Any] | NDArray[Any], column: str, rows: RowChoice | None = None) -> CellKind:
    """Return the kind of a column of Python objects; `rows` are the positions of the cells in the table, for messages.

    A mixture of numbers and booleans has the kind "number"; any other mixture is text, which becomes a category.

    Raises
    ------
    CellTypeError
        If a cell is a container or binary data, which is neither a number nor a category.
    """
    refuse_containers(cells, column, rows)
    kinds: set[CellKind] = set()
    for kind in set(map(type, cells)):
        if kind is type(None) or kind.__name__ in _MISSING_TYPES:
            continue
        if issubclass(kind, complex | np.complexfloating):
            raise TableError(
                f"Complex data not supported\ncolumn {column!r} has complex numbers; split it into real and imaginary "
                "parts"
            )
        known = kind_of_type(kind)
        if known in ("number", "datetime", "duration") and all(is_missing(c) for c in cells if type(c) is kind):
            continue  # NaN among strings
        kinds.add(known or "text")
    if not kinds:
        return "empty"
    if kinds == {"number", "boolean"}:
        return "number"
    return kinds.pop() if len(kinds) == 1 else "text"


def canonical(value: Any) -> str | None:
    """Return the string that identifies the level of a category; None for a missing cell.

    Equal values of different types are one level: the integer 3, the float 3.0 (which it becomes in a column with
    missing values) and the string "3"; 0.1 in float32 and in float64; and dates and durations of any type, rounded down
    to microseconds.

    Examples
    --------
    >>> canonical(3), canonical(3.0), canonical("3"), canonical(2.5), canonical(True), canonical(float("nan"))
    ('3', '3', '3', '2.5', 'True', None)
    """
    if isinstance(value, str):
        return _text_of(value)
    if type(value) is float:  # the most frequent case; the checks below take longer than the conversion
        return None if value != value else _number_text(_shortest(value))
    if is_missing(value):
        return None
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, np.datetime64 | np.timedelta64):
        micros, too_far = in_microseconds(value)
        return canonical(micros.item()) if too_far is None else str(value)
    if isinstance(value, datetime.timedelta):
        return _duration_text(value)
    if isinstance(value, numbers.Integral):
        # Python refuses to convert integers with more than 4300 digits to text, because that takes long.
        return str(int(value)) if int(value).bit_length() <= _MAX_BITS else hex(value)
    if isinstance(value, float | np.floating):
        return _number_text(_shortest(float(value)))
    if isinstance(value, decimal.Decimal) and value.is_finite():
        if abs(value.adjusted()) > _MAX_DIGITS:  # all digits together could fill the memory
            return str(value)
        return str(int(value)) if value == value.to_integral_value() else format(value.normalize(), "f")
    if isinstance(value, datetime.datetime):
        whole: Any = value  # a Timestamp of pandas has nanoseconds
        return _moment_text(whole.replace(nanosecond=0) if getattr(value, "nanosecond", 0) else value)
    return _text_of(value)


def _text_of(value: Any) -> str:
    try:
        return str(value)
    except Exception as error:  # the user's object may raise anything
        raise CellTypeError(
            f"a cell of type {type(value).__name__} cannot be converted to a string ({type(error).__name__}: "
            f"{error!s:.100}); replace it with a string or a number"
        ) from error


def _number_text(number: float) -> str:
    return str(int(number)) if number.is_integer() and abs(number) < 2.0**63 else repr(number)


def _duration_text(duration: datetime.timedelta) -> str:
    try:  # str of a pandas Timedelta has another format
        return str(datetime.timedelta(duration.days, duration.seconds, duration.microseconds))
    except OverflowError:
        return str(duration)


def _moment_text(moment: datetime.datetime) -> str:
    return naive(moment).isoformat(" ").removesuffix(" 00:00:00")  # midnight is written as a date


def _shortest(number: float) -> float:
    """Undo the rounding of a fraction to float32: 0.10000000149011612 becomes 0.1. Other numbers do not change."""
    if number.is_integer():
        return number
    try:
        narrow = struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        return number
    return float(str(np.float32(number))) if narrow == number else number


def former_text(value: Any) -> str | None:
    """Return the text of a level in the first version of model files if it may differ from `canonical`, else None."""
    if isinstance(value, float | np.floating):
        return _number_text(float(value))
    if isinstance(value, datetime.datetime):
        return _moment_text(value)
    return str(value) if isinstance(value, np.datetime64 | np.timedelta64 | datetime.timedelta) else None


def in_microseconds(values: Any) -> tuple[Any, Any]:
    """Return NumPy dates or durations (an array or a scalar) in microseconds, and which of them are out of range.

    NumPy returns arbitrary numbers for values that are out of range, so the result is converted back and compared.

    Returns
    -------
    datetime64[us] or timedelta64[us], like `values`
    bool, like `values`, or None if all are in range
    """
    micros = values.astype(f"{values.dtype.kind}8[us]")
    if np.datetime_data(values.dtype)[0] not in ("Y", "M", "W", "D", "h", "m", "s", "ms"):
        return micros, None
    too_far = (micros.astype(values.dtype) != values) & ~np.isnat(values)
    return micros, too_far if too_far.any() else None


def naive(moment: datetime.datetime) -> datetime.datetime:
    """Return a moment in UTC without its time zone; a moment without a time zone is returned unchanged."""
    return moment if moment.tzinfo is None else moment.astimezone(datetime.timezone.utc).replace(tzinfo=None)


def canonical_cells(cells: Iterable[Any], text_of: Callable[[Any], str | None] = canonical) -> list[str | None]:
    """Return the text of each cell, computed once for each distinct cell."""
    # The type is part of the key: 1, 1.0 and True are equal, but True is a different level.
    known: dict[Any, Any] = {}
    result: list[str | None] = []
    for cell in cells:
        if type(cell) is str:
            result.append(cell)
            continue
        key = (type(cell), cell)
        try:
            level = known.get(key, key)
        except Exception:  # an object that cannot be hashed or compared
            result.append(text_of(cell))
            continue
        if level is key:
            known[key] = level = text_of(cell)
        result.append(level)
    return result
