"""Checks of a table's columns that commands make before they train or predict."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tabgnm.cli.tablefiles.errors import TableFileError, listed, quoted, similar, suggestion
from tabgnm.cli.tablefiles.input_bytes import shown_name

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]


def require_columns(found: Sequence[str], wanted: Iterable[str], source: str | os.PathLike[str]) -> None:
    """Raise unless a table has all the wanted columns; it may have others.

    Parameters
    ----------
    found : sequence of str
        The columns of the table.
    wanted : iterable of str
    source : path or str
        The file, for the message.

    Raises
    ------
    TableFileError
        Names the missing columns, and those that may be meant.

    Examples
    --------
    >>> require_columns(["Price", "size"], ["price", "size"], "homes.csv")
    Traceback (most recent call last):
        ...
    tabgnm.cli.tablefiles.errors.TableFileError: 'homes.csv' has no column 'price'; did you mean 'Price'?
    """
    known = set(found)
    missing = [name for name in wanted if name not in known]
    if not missing:
        return
    name = shown_name(os.fspath(source))
    if len(missing) == 1:
        said = suggestion(missing[0], found) or f"; it has {listed(found)}"
        raise TableFileError(f"{name} has no column {quoted(missing[0])}{said}")
    near = [(own, similar(own, found)) for own in missing[:10]]
    hints = [f"{quoted(close)} instead of {quoted(own)}" for own, close in near if close is not None]
    said = f"; did you mean {', '.join(hints)}?" if hints else f"; it has {listed(found)}"
    raise TableFileError(f"{name} has no columns {listed(missing)}{said}")


def target_in(source: str | os.PathLike[str], name: object) -> str:
    """Return a file and its target as the start of a message."""
    return f"{shown_name(os.fspath(source))}: the target {quoted(str(name))}"


def data_row(column: pd.Series | pd.DataFrame, place: int) -> str:
    """Return a row for a message, counted from 1 without the header; also if rows before it have been dropped."""
    return f"data row {int(column.index[place]) + 1:,}"


def without_missing_targets(frame: pd.DataFrame, names: Sequence[str], source: str | os.PathLike[str]) -> pd.DataFrame:
    """Return the rows that have all targets, and warn how many others there are; each row keeps its index.

    A table where no row has all targets is returned as it is.
    """
    present = frame[list(names)].notna().all(axis=1).to_numpy()
    n_missing = int((~present).sum())
    if n_missing in (0, len(frame)):
        return frame
    warnings.warn(
        f"{shown_name(os.fspath(source))}: {n_missing:,} of {len(frame):,} rows are skipped, as "
        f"{'the target' if len(names) == 1 else 'a target'} is missing",
        stacklevel=2,
    )
    return frame[present]


def check_target(frame: pd.DataFrame, name: str, source: str | os.PathLike[str], *, droppable: bool = False) -> None:
    """Raise unless a column can be learned: it is there, has no missing cells, and has several values.

    Parameters
    ----------
    frame : pandas.DataFrame
    name : str
        The column.
    source : path or str
        The file, for the message.
    droppable : bool, default=False
        Whether the command has --drop-missing-target, which the message then names.

    Raises
    ------
    TableFileError
    """
    require_columns(list(frame.columns), [name], source)
    where = target_in(source, name)
    target = frame[name]
    n_missing = int(target.isna().sum())
    meaning = 'empty cells, NA, NaN, null and None are missing; in numeric columns, so are "?", "-" and similar'
    if n_missing == len(target):
        raise TableFileError(f"{where} has no value in any row ({meaning}); choose another target")
    if n_missing:
        row = data_row(target, int(target.isna().to_numpy().argmax()))
        option = ", or skip them with --drop-missing-target" if droppable else ""
        raise TableFileError(
            f"{where} is missing in {n_missing:,} of {len(target):,} rows, first in {row} ({meaning}); fill these "
            f"cells or delete the rows{option}"
        )
    if len(target) == 1:
        raise TableFileError(f"{shown_name(os.fspath(source))} has a single row; expected at least 2 to learn from")
    values = target.unique()
    if len(values) == 1:
        raise TableFileError(
            f"{where} has the same value {quoted(str(values[0]))} in all {len(target):,} rows; there is nothing to "
            "learn"
        )
