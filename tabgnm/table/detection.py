"""Detection of numbers and dates in columns of text, from the training rows; docs/tables.md lists the rules."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tabgnm.table.cells import CellKind, is_missing, kind_of_type
from tabgnm.table.errors import TableError
from tabgnm.table.text import (
    LONGEST_TEXT,
    TEXT_FORMATS,
    USUAL_READING,
    TextFormat,
    TextKind,
    TextReading,
    says_nothing,
    tidy_number,
)

# A column of numbers may have a few other texts, such as "unknown"; they are treated as missing values.
MAX_STRANGE_TEXTS = 3
MAX_STRANGE_CELLS = 0.05
# Columns with few distinct integers, or with integers of one length, are more likely codes.
FEW_NUMBERS = 10
SHORTEST_CODE = 5

NUMBER_REMEDY = "for instance with the arguments thousands and decimal of pandas.read_csv"
DATE_REMEDY = "for instance with the argument format of pandas.to_datetime"

_LEADING_ZERO = re.compile(r"[+-]?0\d")
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_OBJECT_KINDS: dict[TextKind, frozenset[CellKind]] = {
    "number": frozenset({"number"}),
    "datetime": frozenset({"datetime"}),
}


@dataclass(frozen=True)
class Ambiguous:
    """Text that can be read in several formats, with different results.

    Attributes
    ----------
    kind : {"number", "datetime"}
    formats : tuple of str
        Names of the formats.
    """

    kind: TextKind
    formats: tuple[str, ...]

    def __str__(self) -> str:
        return " or ".join(self.formats)


@dataclass(frozen=True)
class Codes:
    """Text of digits that is more likely a code, such as a postal code, than a number."""


class _Texts:
    """The distinct texts of a column, stripped, and the kinds of its other cells."""

    def __init__(self, cells: Iterable[Any]) -> None:
        others = []
        written: Counter[str] = Counter()
        for cell in cells:
            if isinstance(cell, str):
                written[cell] += 1
            elif not is_missing(cell):
                others.append(cell)
        self.counts: Counter[str] = Counter()
        for text, count in written.items():
            if not says_nothing(text):
                self.counts[text.strip()] += count
        self.other_kinds = {kind_of_type(kind) for kind in set(map(type, others))}
        self.are_there = bool(written)
        self.n_texts = sum(self.counts.values())
        self.n_present = len(others) + self.n_texts

    def strange(self, known: TextFormat, most: int | None) -> list[str] | None:
        """Return the texts that a format cannot read; None if there are more than `most`, or its sign never occurs."""
        if known.sign and not any(known.sign in text for text in self.counts):
            return None
        found = []
        for text in self.counts:
            if len(text) > LONGEST_TEXT or known.parse(text) is None:
                found.append(text)
                if most is not None and len(found) > most:
                    return None
        return found

    def readings(self, kind: TextKind, most: int | None) -> list[tuple[TextFormat, list[str]]]:
        """Return the formats that leave the fewest cells unread, and the texts of these cells.

        A format that cannot read any text is returned only if there are cells that are numbers or dates themselves.
        """
        possible = []
        for known in TEXT_FORMATS[kind]:
            strange = self.strange(known, most)
            if strange is not None and (len(strange) < len(self.counts) or self.n_present > self.n_texts):
                possible.append((self.n_cells(strange), known, strange))
        fewest = min((n_strange for n_strange, _, _ in possible), default=0)
        return [(known, strange) for n_strange, known, strange in possible if n_strange == fewest]

    def n_cells(self, texts: Iterable[str]) -> int:
        """Return the number of cells that have one of these texts."""
        return sum(self.counts[text] for text in texts)

    def are_few(self, strange: list[str]) -> bool:
        """Whether texts that cannot be read are rare enough to be treated as missing values."""
        return len(strange) <= MAX_STRANGE_TEXTS and self.n_cells(strange) <= MAX_STRANGE_CELLS * self.n_present

    def agree(self, formats: Iterable[TextFormat]) -> bool:
        """Whether all texts have the same value in each of these formats."""
        first, *others = formats
        return all(other.parse(text) == first.parse(text) for text in self.counts for other in others)


def detected_reading(cells: Iterable[Any]) -> TextReading | Ambiguous | Codes | None:
    """Return how to read a column of text as numbers or dates; None if it is neither."""
    texts = _Texts(cells)
    for kind in ("number", "datetime"):
        if not texts.are_there or texts.n_present == 0 or not texts.other_kinds <= _OBJECT_KINDS[kind]:
            continue
        best = texts.readings(kind, MAX_STRANGE_TEXTS)
        if not best:
            continue
        formats, strange = [known for known, _ in best], best[0][1]
        if not texts.are_few(strange):
            continue
        numbers = [tidy_number(text) for text in texts.counts if text not in strange]
        if kind == "number" and _are_codes(numbers, among_numbers=bool(texts.other_kinds)):
            return Codes()
        if not texts.agree(formats):
            return Ambiguous(kind, tuple(known.name for known in formats))
        return TextReading(kind, formats[0].name, tuple(sorted(strange)))
    return None


def _are_codes(numbers: list[str], *, among_numbers: bool) -> bool:
    if any(_LEADING_ZERO.match(text) for text in numbers):
        return True
    if among_numbers or not all(_WHOLE.fullmatch(text) for text in numbers):
        return False
    lengths = {len(text) for text in numbers}
    of_one_length = len(lengths) == 1 and min(lengths) >= SHORTEST_CODE and all(map(str.isdigit, numbers))
    return len(numbers) <= FEW_NUMBERS or of_one_length


def declared_reading(cells: Iterable[Any], kind: TextKind, column: str) -> TextReading:
    """Return how to read a column of text that the user has declared as numbers or dates.

    If the format cannot read a few texts, they are missing values, as in columns that were not declared. If there are
    more, they raise an error that names the row when they are read.
    """
    texts = _Texts(cells)
    best = texts.readings(kind, None)
    if not best:
        return USUAL_READING[kind]
    formats, strange = [known for known, _ in best], best[0][1]
    if not strange and not texts.agree(formats):
        what, how = ("numbers", NUMBER_REMEDY) if kind == "number" else ("dates", DATE_REMEDY)
        raise TableError(
            f"the {what} in column {column!r} are ambiguous: the text can be read as "
            f"{Ambiguous(kind, tuple(known.name for known in formats))}; convert the column first, {how}"
        )
    return TextReading(kind, formats[0].name, tuple(sorted(strange)) if texts.are_few(strange) else ())
