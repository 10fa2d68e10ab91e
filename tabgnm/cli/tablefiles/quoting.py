"""Rows of delimited text and their quoted cells: where rows end, and what they contain, line by line."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from tabgnm.cli.tablefiles.text_lines import Piece, end_of_lines, n_lines

_QUOTED = rb'"[^"]*(?:""[^"]*)*'  # without the closing quote


@dataclass(frozen=True)
class Row:
    """The cells of a row, the line in which it begins, and where in its piece it ends."""

    line: int
    cells: list[bytes]
    end: int


class QuoteProblem(Exception):
    """A quoted cell that is not closed, or that goes on after its closing quote.

    Attributes
    ----------
    line : int
    is_open : bool
        Whether the quote is never closed.
    """

    def __init__(self, line: int, *, is_open: bool) -> None:
        super().__init__()
        self.line, self.is_open = line, is_open


@lru_cache
def _quoted_cells(delimiter: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"(?:(?<=[\r\n" + re.escape(delimiter) + rb"])|\A)" + _QUOTED + rb'("|\Z)')


@lru_cache
def _cell(delimiter: bytes) -> re.Pattern[bytes]:
    end = re.escape(delimiter)
    return re.compile(rb"(?:(" + _QUOTED + rb')"|([^' + end + rb"\r\n]*))(" + end + rb"|\r\n|\n|\r|\Z)")


def end_of_rows(text: bytes, delimiter: bytes) -> int:
    r"""Return where the last complete row of a text ends; line ends in quoted cells end no row.

    Examples
    --------
    >>> end_of_rows(b'1,2\n3,"4\n5', b","), end_of_rows(b'1,2\n3,"4\n5"\n', b",")
    (4, 12)
    """
    end = end_of_lines(text)
    if b'"' not in text:
        return end
    starts, ends = [], []
    for found in _quoted_cells(delimiter).finditer(text):
        starts.append(found.start())
        ends.append(found.end() if found[1] else len(text) + 1)
    while end:
        before = bisect_right(starts, end - 1) - 1
        if before < 0 or ends[before] < end:
            return end
        end = end_of_lines(text[: starts[before]])
    return 0


def rows_of(piece: Piece, delimiter: bytes) -> Iterator[Row]:
    """Yield the rows of a text that are not blank; slow, for headers, samples and the search for errors."""
    pattern, text = _cell(delimiter), piece.text
    line, place, cells = piece.line, 0, list[bytes]()
    first_line = line
    while place < len(text):
        found = pattern.match(text, place)
        if found is None or (found[2] or b"").startswith(b'"'):
            raise QuoteProblem(line, is_open=_is_open(text, place))
        within_quotes, cell, after = found.groups()
        if cell is None:
            cell = within_quotes[1:].replace(b'""', b'"')
        cells.append(cell)
        line += n_lines(cell)
        place = found.end()
        if after != delimiter:
            if cells != [b""]:
                yield Row(first_line, cells, place)
            line += after != b""
            first_line, cells = line, []
        elif place == len(text):
            yield Row(first_line, [*cells, b""], place)


def _is_open(text: bytes, place: int) -> bool:
    found = re.compile(_QUOTED + rb'("|\Z)').match(text, place)
    return found is not None and not found[1]


def quote_problem(piece: Piece, delimiter: bytes) -> QuoteProblem | None:
    """Return the first quoted cell of a piece that is not closed, or goes on after its closing quote."""
    if b'"' not in piece.text:
        return None
    ends = (b"", delimiter, b"\n", b"\r")
    for found in _quoted_cells(delimiter).finditer(piece.text):
        if not found[1] or piece.text[found.end() : found.end() + 1] not in ends:
            return QuoteProblem(piece.line_at(found.start()), is_open=not found[1])
    return None
