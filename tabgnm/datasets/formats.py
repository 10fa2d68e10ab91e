"""Readers of the text formats in which tables are published.

Rows are converted block by block, so a large file takes the memory of its numbers, not of its text.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tabgnm._printable import brief
from tabgnm.datasets.errors import GET_AGAIN, DatasetContentError

Kind = Literal["number", "integer", "category"]
# Column name -> values: float64 with NaN for missing numbers, int64, or objects with text, and NaN if it is missing.
Columns: TypeAlias = dict[str, NDArray[Any]]

MISSING = frozenset({"", "?"})
BLOCK_ROWS = 20_000
LARGEST_INTEGER = 2.0**53  # floats represent all integers up to this one exactly
SHOWN_CHARS = 400  # of a list of columns
QUOTED_OR_WORD = re.compile(r'"([^"]*)"|(\S+)')
ARFF_ATTRIBUTE = re.compile(r"""@attribute\s+(?:'([^']*)'|"([^"]*)"|(\S+))""", re.IGNORECASE)


@dataclass(frozen=True)
class Delimited:
    """A table with one row per line and a separator between the cells.

    Parameters
    ----------
    columns : tuple of str, optional
        The names of the columns; None if they are in the first line of the file.
    separator : str, optional
        The character between two cells; None for any run of spaces and tabs.
    comment : str, optional
        Lines that begin with this text are skipped.
    """

    columns: tuple[str, ...] | None = None
    separator: str | None = ","
    comment: str | None = None

    def table(self, lines: Iterable[str]) -> tuple[tuple[str, ...], Iterator[list[str]]]:
        """Return the names of the columns and an iterator over the rows."""
        rows = (row for row in self._split(self._data_lines(lines)) if row)
        if self.columns is not None:
            return self.columns, rows
        return tuple(name.strip() for name in next(rows, [])), rows

    def _data_lines(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            if line.strip() and not (self.comment and line.startswith(self.comment)):
                yield line

    def _split(self, lines: Iterator[str]) -> Iterator[list[str]]:
        if self.separator is not None:
            return csv.reader(lines, delimiter=self.separator, skipinitialspace=True)
        return ([quoted or word for quoted, word in QUOTED_OR_WORD.findall(line)] for line in lines)


@dataclass(frozen=True)
class Arff:
    """The attribute-relation file format of Weka, in its dense form."""

    def table(self, lines: Iterable[str]) -> tuple[tuple[str, ...], Iterator[list[str]]]:
        """Return the names of the attributes and an iterator over the rows."""
        remaining = iter(lines)
        names: list[str] = []
        for line in remaining:
            if line.strip().lower() == "@data":
                break
            if attribute := ARFF_ATTRIBUTE.match(line.strip()):
                names.append(next(name for name in attribute.groups() if name is not None))
        return Delimited(tuple(names), comment="%").table(remaining)


def read_columns(
    text: Iterable[str],
    file_format: Delimited | Arff,
    kinds: Mapping[str, Kind],
    *,
    where: str,
    max_rows: int | None,
    row_limit: int | None = None,
) -> Columns:
    """Read columns of a table.

    Parameters
    ----------
    text : iterable of str
        The lines of the file.
    file_format : Delimited or Arff
        The format of the file.
    kinds : mapping
        The columns to read, with their kinds. Other columns of the file are skipped.
    where : str
        The name of the file in errors.
    max_rows : int, optional
        The number of rows after which reading stops.
    row_limit : int, optional
        The maximum number of rows; a table with more rows is refused.

    Returns
    -------
    dict
        The columns, in the order of `kinds`.

    Raises
    ------
    DatasetContentError
        If a column is missing, a row has too few or too many cells, a cell does not have the kind of its column, or
        there are more rows than `row_limit`.

    Examples
    --------
    >>> read_columns(["a;b", "1;x", "?;y"], Delimited(separator=";"), {"a": "number"}, where="t.csv", max_rows=None)
    {'a': array([ 1., nan])}
    """
    with _not_a_table_told(where):
        names, rows = file_format.table(text)
    absent = [name for name in kinds if name not in names]
    if absent:
        columns = brief(", ".join(names), SHOWN_CHARS) or "none"
        raise DatasetContentError(f"{where} has no column {absent[0]!r}; its columns are {columns}")
    position = {name: names.index(name) for name in kinds}
    blocks: list[list[NDArray[Any]]] = []
    n_rows = 0
    rows = islice(_checked(rows, len(names), row_limit, where), max_rows)
    while block := list(islice(rows, BLOCK_ROWS)):
        cells = list(zip(*block, strict=True))
        blocks.append(
            [_values(cells[position[name]], kind, f"column {name!r} of {where}") for name, kind in kinds.items()]
        )
        n_rows += len(block)
    if not blocks:
        raise DatasetContentError(f"{where} has no rows, so the file is damaged; {GET_AGAIN}")
    return {name: np.concatenate(parts) for name, parts in zip(kinds, zip(*blocks, strict=True), strict=True)}


def _checked(rows: Iterator[list[str]], n_cells: int, row_limit: int | None, where: str) -> Iterator[list[str]]:
    """Yield rows; raise at the first row with a wrong number of cells."""
    with _not_a_table_told(where):
        for number, row in enumerate(rows, 1):
            if len(row) != n_cells:
                raise DatasetContentError(
                    f"row {number} of {where} has {len(row)} cells instead of {n_cells}, "
                    f"so the file is damaged or a different version; {GET_AGAIN}"
                )
            if row_limit is not None and number > row_limit:
                raise DatasetContentError(
                    f"{where} has more than {row_limit:,} rows, far more than the data set, so it is damaged or a "
                    f"different file; {GET_AGAIN}"
                )
            yield row


@contextmanager
def _not_a_table_told(where: str) -> Iterator[None]:
    try:
        yield
    except csv.Error as error:
        raise DatasetContentError(f"{where} is not a table ({error}), so the file is damaged; {GET_AGAIN}") from error


def _values(cells: Sequence[str], kind: Kind, where: str) -> NDArray[Any]:
    if kind == "category":
        texts = [cell.strip() for cell in cells]
        return np.array([np.nan if text in MISSING else text for text in texts], dtype=object)
    numbers = _numbers(cells, where)
    if kind == "number":
        return numbers
    is_integer = (numbers == np.floor(numbers)) & (np.abs(numbers) <= LARGEST_INTEGER)  # NaN equals nothing
    if not is_integer.all():
        wrong = cells[int(np.argmin(is_integer))]
        raise DatasetContentError(f"{where} holds {brief(wrong)!r}, which is not an integer")
    return numbers.astype(np.int64)


def _numbers(cells: Sequence[str], where: str) -> NDArray[np.float64]:
    try:
        return np.array(cells, dtype=np.float64)  # fast, but only if no number is missing
    except ValueError:
        numbers = np.full(len(cells), np.nan)
        for row, cell in enumerate(cells):
            if cell.strip() not in MISSING:
                try:
                    numbers[row] = float(cell)
                except ValueError:
                    raise DatasetContentError(f"{where} holds {brief(cell)!r}, which is not a number") from None
        return numbers
