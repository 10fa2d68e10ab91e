"""Targets from files: their text as numbers, or as labels of the type that a model knows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tabgnm.cli.tablefiles import TableFileError
from tabgnm.cli.tablefiles.errors import quoted
from tabgnm.cli.tablefiles.targets import data_row, target_in
from tabgnm.table.cells import canonical
from tabgnm.table.detection import declared_reading
from tabgnm.table.errors import TableError
from tabgnm.table.text import USUAL_READING, TextReading

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

_BOOLEANS = {"true": True, "false": False}


class _NotOfThisType(Exception):
    """A cell cannot be a label of this type."""


def has_text(column: pd.Series) -> bool:
    """Whether some cells of a column are text, rather than numbers, booleans or dates."""
    if getattr(column.dtype, "kind", "O") in "biufMm":
        return False
    return any(isinstance(cell, str) for cell in column)


def refuse_dates(column: pd.Series, source: str) -> None:
    """Raise if a file says that a column has dates or durations."""
    if getattr(column.dtype, "kind", "O") in "Mm":
        raise TableFileError(
            f"{target_in(source, column.name)} has dates or durations; write a number into the file instead, such as "
            "the days until then"
        )


def parsed(column: pd.Series, reading: TextReading) -> pd.Series:
    """Return a target of text as numbers; NaN for cells that cannot be read."""
    import pandas as pd

    known: dict[Any, float] = {}
    for cell in set(column):
        try:
            number = reading.parse(cell) if isinstance(cell, str) else float(cell)
        except (TypeError, ValueError):
            number = None
        known[cell] = math.nan if number is None else number
    return pd.Series([known[cell] for cell in column], index=column.index, name=column.name, dtype=np.float64)


def ambiguous_numbers(column: pd.Series, source: str) -> TableFileError:
    """Return the error of numbers that mean one thing with a decimal comma, and another with commas for thousands."""
    example = next(cell for cell in column if isinstance(cell, str) and "," in cell)
    return TableFileError(
        f"{target_in(source, column.name)} has numbers such as {quoted(example)}, whose comma may be a decimal comma "
        "or separate thousands; write them like 1234.5 in the file"
    )


def as_numbers(column: pd.Series, source: str, remedy: str) -> tuple[pd.Series, TextReading | None]:
    """Return a target as numbers, however they are written, and how its text was read.

    Raises
    ------
    TableFileError
        Names the first cell that is not a number; ends with the remedy.
    """
    refuse_dates(column, source)
    if not has_text(column):
        refuse_infinite(column, source)
        return column, None
    try:
        reading = declared_reading(column, "number", str(column.name))
    except TableError:
        raise ambiguous_numbers(column, source) from None
    return readable_numbers(column, reading, source, remedy), reading


def readable_numbers(column: pd.Series, reading: TextReading, source: str, remedy: str) -> pd.Series:
    """Return a target of text as numbers; raise if a cell cannot be read."""
    numbers = parsed(column, reading)
    unreadable = numbers.isna().to_numpy()
    if unreadable.any():
        place = int(unreadable.argmax())
        like = "" if reading.format == USUAL_READING["number"].format else f" written like {reading.format}"
        raise TableFileError(
            f"{target_in(source, column.name)} has {quoted(str(column.iloc[place]))} in {data_row(column, place)}, "
            f"which is not a number{like}; {remedy}"
        )
    refuse_infinite(numbers, source)
    return numbers


def refuse_infinite(numbers: pd.Series, source: str) -> None:
    """Raise if a target has an infinite number, or one that is too large."""
    if getattr(numbers.dtype, "kind", "O") != "f":
        return
    infinite = np.isinf(numbers.to_numpy(dtype=np.float64, na_value=np.nan))
    if infinite.any():
        raise TableFileError(
            f"{target_in(source, numbers.name)} has an infinite number in {data_row(numbers, int(infinite.argmax()))}; "
            "correct the cell or delete the row"
        )


def as_labels(column: pd.Series, classes: NDArray[Any], source: str) -> pd.Series:
    """Return a target as labels of the type of a model's classes, whatever the rows of this file look like.

    Raises
    ------
    TableFileError
        If a cell cannot be a label of this type. A label that the model does not know is no error.
    """
    import pandas as pd

    expected, label_of = _reader_of(classes)
    known: dict[Any, Any] = {}
    labels = []
    for place, cell in enumerate(column):
        key = (type(cell), cell)
        if key not in known:
            try:
                known[key] = label_of(cell)
            except _NotOfThisType:
                raise TableFileError(
                    f"{target_in(source, column.name)} has {quoted(str(cell))} in {data_row(column, place)}, but the "
                    f"classes of the model are {expected} such as {classes[:1].tolist()[0]!r}; correct the cell, or "
                    "name another column with --target"
                ) from None
        labels.append(known[key])
    dtype = object if expected == "labels" or any(isinstance(own, str) for own in labels) else None
    return pd.Series(labels, index=column.index, name=column.name, dtype=dtype)


def _reader_of(classes: NDArray[Any]) -> tuple[str, Callable[[Any], Any]]:
    """Return what the classes are, and a function from a cell to a label."""
    known = classes.tolist()
    if all(isinstance(own, str) for own in known):
        by_lower: dict[str, str] = {own.casefold(): own for own in known}

        def text_of(cell: Any) -> str:
            if isinstance(cell, bool | np.bool_):  # a file may have a type for what was text in the training rows
                return by_lower.get(str(cell).casefold(), str(cell))
            return str(canonical(cell))

        return "text", text_of
    if all(isinstance(own, bool) for own in known):
        return "booleans", _boolean
    if all(isinstance(own, int | float) for own in known):
        return "numbers", lambda cell: _number(cell, booleans=set(known) <= {0, 1})
    by_text = {canonical(own): own for own in known}
    return "labels", lambda cell: by_text.get(canonical(cell), cell)


def _boolean(cell: Any) -> bool:
    if isinstance(cell, str) and cell.strip().casefold() in _BOOLEANS:
        return _BOOLEANS[cell.strip().casefold()]
    if isinstance(cell, bool | np.bool_):
        return bool(cell)
    number = _number(cell, booleans=False)
    if number not in (0, 1):
        raise _NotOfThisType
    return bool(number)


def _number(cell: Any, *, booleans: bool) -> int | float:
    """Return the number of a cell; `booleans` may stand for 0 and 1."""
    if isinstance(cell, str):
        text = cell.strip()
        if booleans and text.casefold() in _BOOLEANS:
            return int(_BOOLEANS[text.casefold()])
        number = USUAL_READING["number"].parse(text)
        if number is None or not math.isfinite(number):
            raise _NotOfThisType
        whole = text.lstrip("+-")
        return int(text) if whole.isascii() and whole.isdecimal() else float(number)
    if isinstance(cell, bool | np.bool_) and not booleans:
        raise _NotOfThisType
    try:
        return int(cell) if int(cell) == cell else float(cell)
    except (TypeError, ValueError, OverflowError):
        raise _NotOfThisType from None
