"""Rows of delimited text and their quoted cells: where rows end, and what they contain, line by line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tabgnm.cli.tablefiles.text_lines import Piece, end_of_lines, n_lines

_LINE_WITHOUT_QUOTES = re.compile(rb'([^"\r\n]*)(\r\n|\n|\r|\Z)')
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
    starts, ends = _quoted_spans(text, delimiter)
    while end:
        before = int(np.searchsorted(starts, end, "left")) - 1
        if before < 0 or ends[before] < end:
            return end
        end = end_of_lines(text[: starts[before]])
    return 0


def _quoted_spans(text: bytes, delimiter: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where quoted cells begin and end; one that is not closed ends after the text."""
    paired = _pairs(text, delimiter)
    if paired is not None:
        starts, ends = paired[::2], paired[1::2] + 1
        return starts, ends if len(ends) == len(starts) else np.append(ends, len(text) + 1)
    found = [(own.start(), own.end() if own[1] else len(text) + 1) for own in _quoted_cells(delimiter).finditer(text)]
    spans = np.array(found, dtype=np.int64).reshape(-1, 2)
    return spans[:, 0], spans[:, 1]


def _pairs(text: bytes, delimiter: bytes) -> NDArray[np.int64] | None:
    """Return where all quotes are if every second one closes what the one before opened, as is usual; else None.

    A quote that is written twice within a cell closes it and opens it again.
    """
    content = np.frombuffer(text, dtype=np.uint8)
    quotes = np.flatnonzero(content == ord('"'))
    opening, closing = quotes[::2], quotes[1::2]
    is_end = np.zeros(256, dtype=np.bool_)
    is_end[[delimiter[0], ord("\n"), ord("\r")]] = True
    again = closing[: len(opening) - 1] + 1 == opening[1:]
    opened = is_end[content[np.maximum(opening - 1, 0)]] | (opening == 0)
    opened[1:] |= again
    closed = is_end[content[np.minimum(closing + 1, len(content) - 1)]] | (closing == len(content) - 1)
    closed[: len(again)] |= again
    return quotes if opened.all() and closed.all() else None


def rows_of(piece: Piece, delimiter: bytes) -> Iterator[Row]:
    """Yield the rows of a text that are not blank; slow, for headers, samples and the search for errors."""
    pattern, text = _cell(delimiter), piece.text
    line, place, cells = piece.line, 0, list[bytes]()
    first_line = line
    while place < len(text):
        plain = None if cells else _LINE_WITHOUT_QUOTES.match(text, place)
        if plain is not None:
            place = plain.end()
            if plain[1]:
                yield Row(line, plain[1].split(delimiter), place)
            line += plain[2] != b""
            first_line = line
            continue
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
    paired = _pairs(piece.text, delimiter)
    if paired is not None and len(paired) % 2 == 0:
        return None
    ends = (b"", delimiter, b"\n", b"\r")
    for found in _quoted_cells(delimiter).finditer(piece.text):
        if not found[1] or piece.text[found.end() : found.end() + 1] not in ends:
            return QuoteProblem(piece.line_at(found.start()), is_open=not found[1])
    return None
