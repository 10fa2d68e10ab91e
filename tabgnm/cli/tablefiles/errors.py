"""The error of table files, and how their names and content appear in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

_LONGEST_SHOWN = 60
_SIMILAR = 0.66  # "aeg" and "age" have two of three letters in common; more than half is true of many pairs of words


class TableFileError(ValueError):
    """A table cannot be read from a file or written to one; the message is one line with the cause and the remedy."""


class TableOptionError(TableFileError):
    """An option is invalid, or not one of the format of the file; no fault of the table."""


class OutputClosedError(TableFileError):
    """The program that reads standard output has ended, as `head` does; not a fault of the table."""


def quoted(text: str, longest: int = _LONGEST_SHOWN) -> str:
    r"""Return text from a file in quotes, on one line, without characters that a terminal would act on.

    Examples
    --------
    >>> quoted("red\x1b[31m\n")
    "'red\\x1b[31m\\n'"
    """
    return repr(text) if len(text) <= longest else f"{text[:longest]!r}..."


def listed(names: Sequence[str], longest: int = 10) -> str:
    """Return names as text that stays readable when there are very many."""
    shown = ", ".join(map(quoted, names[:longest]))
    return shown if len(names) <= longest else f"{shown}, ... ({len(names):,} in all)"


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return '; did you mean ...?' where a known name is close to this one, else an empty text.

    Examples
    --------
    >>> suggestion("Prise", ["price", "size"]), suggestion("nope", ["income"])
    ("; did you mean 'price'?", '')
    """
    close = similar(name, known)
    return "" if close is None else f"; did you mean {quoted(close)}?"


def similar(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that may be meant, None if none is close."""
    by_lower = {own.casefold().strip(): own for own in known}
    close = get_close_matches(name.casefold().strip(), by_lower, n=1, cutoff=_SIMILAR)
    return by_lower[close[0]] if close else None
