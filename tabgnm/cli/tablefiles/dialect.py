"""The delimiter and the header of delimited text, found from its first rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

from tabgnm.cli.tablefiles.errors import TableFileError, TableOptionError, listed, quoted
from tabgnm.cli.tablefiles.quoting import QuoteProblem, Row, rows_of
from tabgnm.cli.tablefiles.text_lines import Piece

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}

_FURTHER_DELIMITERS = " :^~"  # which may as well be part of a text
_SAMPLE_ROWS = 50
_LONGEST_WHOLE = 19  # digits of a name; the time to read a number is quadratic in them
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True)
class Dialect:
    """How the cells of a file are found.

    Attributes
    ----------
    delimiter : bytes
    columns : list of str
    start : int
        Where in the first piece the rows begin, after the header.
    trailing : bool
        Whether each line ends with a delimiter, after which nothing comes.
    spaced : bool
        Whether a space follows each delimiter, as in "39, Private, 13".
    """

    delimiter: bytes
    columns: list[str]
    start: int
    trailing: bool
    spaced: bool


def dialect_of(piece: Piece, name: str, delimiter: str | None, preferred: str | None, *, header: bool) -> Dialect:
    """Return the dialect of a file from its first piece.

    Parameters
    ----------
    piece : Piece
    name : str
        Of the file, for messages.
    delimiter : str or None
        As the user gives it.
    preferred : str or None
        Taken if it is in the first row, whatever other delimiters are.
    header : bool
        Whether the first row has the names of the columns.
    """
    chosen = checked_delimiter(delimiter) if delimiter is not None else _detected(piece, preferred)
    sample = _sample(piece, chosen.encode())
    if isinstance(sample, QuoteProblem):
        raise quote_error(name, sample)
    if not sample:
        raise TableFileError(f"{name} has only blank lines; expected a table")
    if all(len(row.cells) == 1 for row in sample):
        _refuse_wrong_delimiter(sample, name, chosen if delimiter is not None else None)
    trailing = header and len(sample[0].cells) > 1 and all(not row.cells[-1].strip() for row in sample)
    names = [cell.decode().strip() for cell in sample[0].cells[: -1 if trailing else None]]
    if header:
        where = f"{name}, line {sample[0].line}"
        _refuse_data(names, sample, where)
        refuse_bad_names(names, where, remedy=", or use --no-header if the first line has no names")
    else:
        names = [f"x{column}" for column in range(len(names))]
    rows = sample[1:] if header else sample
    return Dialect(chosen.encode(), names, sample[0].end if header else 0, trailing, _are_spaced(rows))


def _are_spaced(rows: Sequence[Row]) -> bool:
    """Whether all cells but the first of each row begin with a space, if they are not empty."""
    later = [cell for row in rows for cell in row.cells[1:] if cell]
    return bool(later) and all(cell.startswith(b" ") for cell in later)


def quote_error(name: str, problem: QuoteProblem) -> TableFileError:
    """Return the error of a quoted cell."""
    if problem.is_open:
        said = "a quote is opened and never closed; close it, or double it if it belongs to the text"
    else:
        said = 'text goes on after a closing quote; write quotes within a quoted cell twice, like "5"" pipe"'
    return TableFileError(f"{name}, line {problem.line:,}: {said}")


def is_number(text: str) -> bool:
    """Whether a text is written like a number with a decimal point."""
    return _NUMBER.fullmatch(text) is not None


def checked_delimiter(delimiter: str) -> str:
    """Return the character that an option stands for; raise if it cannot delimit cells."""
    chosen = {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)
    if len(chosen) != 1 or not chosen.isascii() or chosen in '"\r\n\0' or chosen.isalnum():
        raise TableOptionError(
            f"--delimiter {quoted(delimiter)} cannot be used; expected one character, such as ',' or ';', or tab"
        )
    return chosen


def _sample(piece: Piece, delimiter: bytes) -> list[Row] | QuoteProblem:
    rows: list[Row] = []
    try:
        rows.extend(islice(rows_of(piece, delimiter), _SAMPLE_ROWS))
    except QuoteProblem as problem:
        # A quote may be closed after the piece; if it is not, this is found with all rows.
        return rows if rows and problem.is_open else problem
    return rows


def _detected(piece: Piece, preferred: str | None) -> str:
    """Return the delimiter that gives the first rows equally many cells, the more the better; a comma if none does."""
    best, best_score = preferred or ",", (0.0, 0)
    for delimiter in DELIMITERS:
        sample = _sample(piece, delimiter.encode())
        if isinstance(sample, QuoteProblem) or not sample:
            continue
        n_cells = len(sample[0].cells)
        if n_cells == 1:
            continue
        if delimiter == preferred:
            return delimiter
        score = (sum(len(row.cells) == n_cells for row in sample) / len(sample), n_cells)
        if score > best_score:
            best, best_score = delimiter, score
    return best


def _refuse_wrong_delimiter(sample: Sequence[Row], name: str, given: str | None) -> None:
    """Raise where there is one column, and another delimiter would make several."""
    lines = [row.cells[0].decode() for row in sample]
    if given is not None:
        others = [own for own in DELIMITERS if all(own in line for line in lines)]
        said = f"the delimiter {quoted(given)} is not in it, but"
    else:
        others = [own for own in _FURTHER_DELIMITERS if _are_tables(lines, own)]
        said = "no comma, semicolon, tab or pipe is in it, but"
    if others:
        use = "tab" if others[0] == "\t" else quoted(others[0])
        raise TableFileError(f"{name}, line {sample[0].line}: {said} {quoted(others[0])} is; use --delimiter {use}")


def _are_tables(lines: Sequence[str], delimiter: str) -> bool:
    """Whether a delimiter divides all lines into equally many cells, and numbers are among them."""
    rows = [line.split(delimiter) for line in lines]
    if len(rows) < 2 or len(rows[0]) < 2 or any(len(row) != len(rows[0]) for row in rows):
        return False
    return any(all(map(is_number, column)) for column in zip(*rows[1:], strict=True))


def refuse_bad_names(names: Sequence[str], where: str, remedy: str = "") -> None:
    """Raise if a column has no name, or two have the same; `remedy` is what else to do about it."""
    unnamed = [place for place, own in enumerate(names, start=1) if not own.strip()]
    if unnamed:
        hint = " (pandas writes its index like this unless index=False is given)" if unnamed == [1] else ""
        raise TableFileError(f"{where}: column {unnamed[0]:,} has no name{hint}; name it or delete it{remedy}")
    repeated = [own for own, count in Counter(names).items() if count > 1]
    if repeated:
        places = [str(place) for place, own in enumerate(names, start=1) if own == repeated[0]]
        raise TableFileError(
            f"{where}: {len(places):,} columns have the name {quoted(repeated[0])} (columns {', '.join(places[:5])}); "
            f"rename all but one{remedy}"
        )


def _refuse_data(names: Sequence[str], sample: Sequence[Row], where: str) -> None:
    numbers = [own for own in names if is_number(own)]
    if not numbers:
        return
    whole = [int(own) for own in numbers if own.isdecimal() and len(own) < _LONGEST_WHOLE]
    counted = len(whole) == len(numbers) and all(b > a for a, b in pairwise(whole))
    if counted and len(numbers) == len(names):  # 0, 1, 2, ... or years are names, any other numbers are not
        counted = len(whole) > 1 and whole == list(range(whole[0], whole[0] + len(whole)))
    if counted:
        return
    # A name that is a number stands above numbers in data, too.
    second = sample[1].cells if len(sample) > 1 else []
    alike = len(second) >= len(names) and all(
        is_number(cell.decode()) or not cell.strip() for own, cell in zip(names, second, strict=False) if is_number(own)
    )
    if alike or len(numbers) == len(names):
        raise TableFileError(
            f"{where}: the first line looks like data, not like names of columns ({listed(numbers, 3)}); "
            "add a line with names, or use --no-header"
        )
