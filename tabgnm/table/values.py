"""Conversion of columns of any type to numbers, moments or booleans."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabgnm.table.cells import CellKind, canonical_cells, in_microseconds, is_missing, kind_of_cells, naive
from tabgnm.table.errors import TableError, warn_caller
from tabgnm.table.rows import RowChoice, row_number
from tabgnm.table.text import USUAL_READING, TextReading, says_nothing

Floats = NDArray[np.float64]

# Parts of a moment, in the order in which they are encoded.
DATE_PARTS = ("days", "year", "month", "day", "weekday", "hour")
_DAY = 86_400_000_000  # microseconds
_LAST_YEAR = 290_000  # the range of NumPy's microseconds ends slightly later

# After fit, up to this many cells of a column that cannot be read, or up to half of the cells that are not missing,
# become missing values. More are an error: the column is probably a different one or has another format.
MAX_UNREADABLE_CELLS = 3

_REMEDY = "; convert the column to its type in fit, or fit again"
_READING_REMEDY = {
    "number": "write it like {like}, or replace it with None if the value is missing",
    "datetime": "convert the column first, for instance with pandas.to_datetime, or replace the cell with None if the "
    "value is missing",
}
_PLAIN_CHARACTERS = frozenset("0123456789.+-eE")
_BOOLEANS = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}


@dataclass(frozen=True)
class Values:
    """The cells of one column.

    Attributes
    ----------
    kind : str
        The content of `data`: "number" and "boolean" (real or bool arrays, NaN is missing), "datetime" (datetime64[us]
        in UTC), "duration" and "time" (seconds as floats), "text" (Python objects) or "empty" (only missing cells).
    data : 1-D array
    rows : RowChoice or None
        The rows of the table, for messages; None for all rows.
    said : dict
        A cache of parsed texts by format, because the encoders of a model read the same columns.
    numbers : dict
        A cache of the numbers of these cells, by the way of reading them.
    """

    kind: CellKind
    data: NDArray[Any]
    rows: RowChoice | None = None
    said: dict[str, dict[str, Any]] = field(default_factory=dict, compare=False)
    numbers: dict[Any, Floats] = field(default_factory=dict, compare=False)

    def row(self, position: int) -> int:
        """Return the row of the table that contains a cell."""
        return row_number(self.rows, position)


def values_of_cells(cells: NDArray[Any], column: str, rows: RowChoice | None = None) -> Values:
    """Return the values of a column of Python objects (1-D object array); their types determine the kind."""
    kind = kind_of_cells(cells, column, rows)
    if kind in ("number", "boolean"):
        return Values(kind, _floats(Values(kind, cells, rows), column), rows)
    if kind in ("datetime", "duration", "time"):
        is_moment = kind == "datetime"
        data = np.empty(len(cells), dtype="datetime64[us]" if is_moment else np.float64)
        place = 0
        try:
            for place, cell in enumerate(cells):
                data[place] = _moment(cell) if is_moment else _seconds(cell)
        except OverflowError:
            raise _too_far(cells[place], column, row_number(rows, place)) from None
        return Values(kind, data, rows)
    return Values(kind, cells, rows)


def values_of_array(array: NDArray[Any], column: str, rows: RowChoice | None = None) -> Values:
    """Return the values of a column that is a 1-D array of any dtype."""
    kind = array.dtype.kind
    if kind == "b":
        return Values("boolean", array, rows)
    if kind in "iuf":
        return Values("number", array, rows)
    if kind in "Mm":
        micros, too_far = in_microseconds(array)
        if too_far is not None:
            place = int(too_far.argmax())
            raise _too_far(array[place], column, row_number(rows, place))
        return Values("datetime", micros, rows) if kind == "M" else Values("duration", _seconds_of(micros), rows)
    if kind == "c":
        raise TableError(
            f"Complex data not supported\ncolumn {column!r} has complex numbers; split it into real and imaginary parts"
        )
    if kind in "UT":
        return Values("text", array.astype(object), rows)
    return values_of_cells(array, column, rows)


def _too_far(cell: Any, column: str, row: int) -> TableError:
    return TableError(
        f"column {column!r} has {cell} in row {row}, which is out of range for 64-bit microseconds (about 290,000 "
        "years); replace it with a date or duration in that range, or with None if the value is missing"
    )


def _seconds_of(durations: NDArray[Any]) -> Floats:
    """Convert an array of timedelta64[us] to seconds; NaN for NaT."""
    seconds: Floats = durations.astype(np.float64) / 1e6
    seconds[np.isnat(durations)] = np.nan
    return seconds


def _floats(values: Values, column: str) -> Floats:
    cells = values.data
    if not any(issubclass(kind, np.datetime64 | np.timedelta64) for kind in set(map(type, cells))):
        try:
            return np.asarray(cells, dtype=np.float64)  # fast; accepts None but not pandas.NA, and NaT is excluded
        except (TypeError, ValueError, OverflowError):
            pass
    numbers = np.empty(len(cells))
    row = 0
    try:
        for row, cell in enumerate(cells):
            numbers[row] = np.nan if is_missing(cell) else float(cell)
    except OverflowError:
        raise TableError(
            f"column {column!r} contains infinity or a value too large for float64 in row {values.row(row)}: "
            f"{cells[row]!r:.40}; replace it with a number, or with None if the value is missing"
        ) from None
    return numbers


def _moment(cell: Any) -> Any:
    if is_missing(cell):
        return np.datetime64("NaT")
    if isinstance(cell, np.datetime64):
        return _in_range(cell)
    if isinstance(cell, datetime.datetime):
        if abs(cell.year) > _LAST_YEAR:  # possible only in pandas
            raise OverflowError
        return np.datetime64(naive(cell).replace(fold=0), "us")
    return np.datetime64(cell, "us")


def _in_range(cell: Any) -> Any:
    micros, too_far = in_microseconds(cell)
    if too_far is not None:
        raise OverflowError
    return micros


def _seconds(cell: Any) -> float:
    if is_missing(cell):
        return np.nan
    if isinstance(cell, np.timedelta64):
        return float(_in_range(cell).astype(np.int64)) / 1e6
    if isinstance(cell, datetime.timedelta):
        return cell.total_seconds()
    return float(cell.hour * 3600.0 + cell.minute * 60.0 + cell.second + cell.microsecond / 1e6)


def _all_missing(values: Values) -> bool:
    """Whether all cells are missing, regardless of the type, because columns of frames have a type even if empty."""
    if values.kind == "text":
        return all(map(is_missing, values.data))
    return values.kind == "empty" or bool(np.isnan(values.data).all())


def as_numbers(
    values: Values,
    column: str,
    *,
    declared: bool = False,
    expected: str = "numbers",
    reading: TextReading = USUAL_READING["number"],
    strict: bool = True,
) -> Floats:
    """Return a column as float64 numbers with NaN for missing cells; text is read according to `reading`.

    A few texts that cannot be read become missing, with a warning, unless `strict`.

    Durations and times of day become seconds if the user has `declared` them as numbers. Otherwise they are refused:
    the numbers in fit may have been hours.

    The result may share memory with the caller's data and must not be modified.
    """
    in_seconds = values.kind in ("duration", "time")
    if values.kind in ("number", "boolean") or (in_seconds and declared):
        return np.asarray(values.data, dtype=np.float64)
    if _all_missing(values):
        return np.full(len(values.data), np.nan)
    if in_seconds:
        remedy = "convert them to numbers in the unit of fit, for instance to seconds with .dt.total_seconds()"
        if expected == "booleans":
            remedy = "pass the column as it was in fit"
        raise TableError(f"column {column!r} has {values.kind} values, but {expected} are expected; {remedy}")
    if values.kind == "datetime":
        raise TableError(
            f"column {column!r} has dates, but numbers are expected; convert them to numbers, or fit the column as "
            "dates"
        )
    if reading.format == USUAL_READING["number"].format:
        plain = _plain_numbers(values.data)
        if plain is not None:
            return plain
    return np.array(_read_text(values, column, reading, _number_of, "number", strict=strict), dtype=np.float64)


def _plain_numbers(cells: NDArray[Any]) -> Floats | None:
    """Return the numbers of a column whose cells are all missing or text such as "-12.5e3"; None for other columns.

    This is a fast path for most columns; parsing each text by its format would take several times as long.
    """
    present = np.array([isinstance(cell, str) for cell in cells], dtype=np.bool_)
    texts = cells[present].tolist()
    # With only these characters, `float` accepts the same texts as the default format; it also accepts 1_000.
    if not _PLAIN_CHARACTERS.issuperset("".join(texts)) or not all(map(is_missing, cells[~present])):
        return None
    numbers = np.full(len(cells), np.nan)
    try:
        numbers[present] = list(map(float, texts))
    except ValueError:
        return None
    return numbers


def as_booleans(values: Values, column: str) -> Floats:
    """Return a column as 0, 1 and NaN; raise for other numbers, and for strings that are not booleans."""
    if values.kind == "text":
        numbers = np.empty(len(values.data))
        for row, cell in enumerate(canonical_cells(values.data)):
            if cell is not None and says_nothing(cell):
                numbers[row] = np.nan
                continue
            if cell is not None and cell.lower() not in _BOOLEANS:
                raise TableError(
                    f"column {column!r} was boolean in fit, but has {cell!r:.60} in row {values.row(row)}{_REMEDY}"
                )
            numbers[row] = np.nan if cell is None else _BOOLEANS[cell.lower()]
        return numbers
    numbers = as_numbers(values, column, expected="booleans")
    check_booleans(numbers, column, values.row)
    return numbers


def check_booleans(numbers: Floats, column: str, row_of: Callable[[int], int]) -> None:
    """Raise if a column that was boolean in fit has a number other than 0 or 1."""
    other = (numbers != 0) & (numbers != 1) & ~np.isnan(numbers)
    if other.any():
        place = int(other.argmax())
        raise TableError(
            f"column {column!r} was boolean in fit, but has {numbers[place]} in row {row_of(place)}{_REMEDY}"
        )


def as_seconds(values: Values, column: str, kind: str) -> Floats:
    """Return a column of durations or times as seconds."""
    if _all_missing(values):
        return np.full(len(values.data), np.nan)
    if values.kind != kind:
        raise TableError(f"column {column!r} has {values.kind} values, but {kind} values are expected{_REMEDY}")
    return np.asarray(values.data, dtype=np.float64)


def as_moments(
    values: Values, column: str, reading: TextReading = USUAL_READING["datetime"], *, strict: bool = True
) -> NDArray[np.datetime64]:
    """Return a column of dates as datetime64[us]; text is read according to `reading`.

    A few texts that cannot be read become missing, with a warning, unless `strict`.
    """
    if values.kind == "datetime":
        return values.data
    if _all_missing(values):
        return np.full(len(values.data), "NaT", dtype="datetime64[us]")
    if values.kind != "text":
        raise TableError(
            f"column {column!r} has {values.kind} values, but dates are expected; convert it first, for instance with "
            "pandas.to_datetime and its argument unit"
        )
    read = _read_text(values, column, reading, _moment_of, "date", strict=strict)
    return np.array(read, dtype="datetime64[us]")


def _read_text(
    values: Values, column: str, reading: TextReading, of_object: Callable[[Any], Any], what: str, *, strict: bool
) -> list[Any]:
    """Return the value of each cell of a column of text; None if it is missing. `of_object` converts other cells."""
    known = values.said.setdefault(reading.format, {})
    result: list[Any] = []
    unreadable: list[int] = []
    for place, cell in enumerate(values.data):
        if not isinstance(cell, str):
            try:
                result.append(None if is_missing(cell) else of_object(cell))
            except (TypeError, ValueError, OverflowError):
                raise _unreadable(values, place, column, reading, what) from None
            continue
        if cell not in known:
            known[cell] = reading.parse(cell)
        result.append(known[cell])
        if known[cell] is None and not reading.is_missing(cell):
            unreadable.append(place)
    if unreadable:
        n_read = sum(said is not None for said in result)
        if strict or len(unreadable) > max(MAX_UNREADABLE_CELLS, n_read):
            raise _unreadable(values, unreadable[0], column, reading, what)
        n_cells = "1 cell" if len(unreadable) == 1 else f"{len(unreadable):,} cells"
        place = unreadable[0]
        warn_caller(
            f"column {column!r} has {n_cells} that cannot be read as a {what}{_expected_format(reading)}, such as "
            f"{values.data[place]!r:.60} in row {values.row(place)}; {'it is' if len(unreadable) == 1 else 'they are'} "
            "treated as missing"
        )
    return result


def _unreadable(values: Values, place: int, column: str, reading: TextReading, what: str) -> TableError:
    return TableError(
        f"column {column!r} has {values.data[place]!r:.60} in row {values.row(place)}, which is not a {what}"
        f"{_expected_format(reading)}; {_READING_REMEDY[reading.kind].format(like=_example(reading))}"
    )


def _example(reading: TextReading) -> str:
    return "12.5" if reading.format == USUAL_READING["number"].format else reading.format


def _expected_format(reading: TextReading) -> str:
    if reading.format == "year-month-day":
        return " in ISO format such as '2024-02-29 13:30'"
    return "" if reading.format == USUAL_READING["number"].format else f" written like {reading.format}"


def _number_of(cell: Any) -> float:
    if isinstance(cell, np.datetime64 | np.timedelta64 | datetime.date):
        raise TypeError
    return float(cell)


def _moment_of(cell: Any) -> Any:
    if isinstance(cell, bool | float | int | np.number):
        raise TypeError
    return _moment(cell)


def date_parts(moments: NDArray[np.datetime64]) -> Floats:
    """Return the numbers of `DATE_PARTS` for each moment.

    Shape
    -----
    moments : (N,) of datetime64[us]
    result : (6, N): days since 1970, year, month 1-12, day 1-31, weekday 0-6 from Monday to Sunday, hour 0-24; days
        since 1970 and hours include fractions; NaN for NaT.
    """
    micros = moments.astype(np.int64)
    days = moments.astype("datetime64[D]")
    months = moments.astype("datetime64[M]")
    parts = np.empty((len(DATE_PARTS), len(moments)))
    parts[0] = micros / _DAY
    parts[1] = moments.astype("datetime64[Y]").astype(np.int64) + 1970
    parts[2] = months.astype(np.int64) % 12 + 1
    parts[3] = (days - months.astype("datetime64[D]")).astype(np.int64) + 1
    parts[4] = (days.astype(np.int64) + 3) % 7  # 1970-01-01 was a Thursday
    parts[5] = (micros % _DAY) / 3.6e9
    parts[:, np.isnat(moments)] = np.nan
    return parts
