"""Recognition of text that looks like numbers or dates but cannot be read as such, so that users can be warned."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tabgnm.table.cells import is_missing, kind_of_type
from tabgnm.table.text import USUAL_READING, TextKind, says_nothing

MIN_SHARE = 0.8  # the minimum fraction of the cells that look like numbers or dates
MIN_TEXTS = 10  # the minimum number of distinct texts; fewer are ordinary levels, such as "5 doors"
MAX_UNITS = 4

# A sign or currency, a number and a unit; the sign or the unit must be present.
_MEASURED = re.compile(r"(\(|[<>≤≥~≈]=?|[A-Z]{3}|[^\w\s.,:;#+-])?\s*[+-]?\d[\d.,]*\s*([^\d\s.,:;#+-][^\d\s]{0,5})?")
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATED = re.compile(
    rf"\d{{1,2}}[-/. ]{_MONTH}[-/., ]+\d{{2,4}}.*"
    rf"|{_MONTH}[ -]\d{{1,2}},?[ -]\d{{2,4}}.*"
    r"|\d{1,2}([-/])\d{1,2}\1\d{2}(\d{2})?(\s.*)?"
    r"|\d{4}-\d{1,2}-\d{1,2}[ T].*"
    r"|\d{1,2}:\d{2}(:\d{2})?(\s*[ap]\.?m\.?)?",
    re.IGNORECASE,
)


def resemblance(cells: Iterable[Any]) -> tuple[TextKind, str] | None:
    """Return the kind that most cells of a category resemble, and a text that cannot be read; None for other columns.

    Examples
    --------
    >>> resemblance(f"{weight} kg" for weight in range(30))
    ('number', '0 kg')
    >>> resemblance(["red", "green", "blue"] * 10)
    """
    texts: Counter[str] = Counter()
    n_numbers = 0
    for cell in cells:
        if isinstance(cell, str):
            if not says_nothing(cell):
                texts[cell.strip()] += 1
        elif not is_missing(cell):
            n_numbers += kind_of_type(type(cell)) == "number"
    if len(texts) + n_numbers <= MIN_TEXTS or not texts:
        return None
    return _measured(texts, n_numbers) or _dated(texts)


def _measured(texts: Counter[str], n_numbers: int) -> tuple[TextKind, str] | None:
    """Recognize numbers with units, or mixed with too many words to treat these as missing values."""
    n_cells, n_alike = texts.total() + n_numbers, n_numbers
    units, others, n_distinct = Counter[tuple[str | None, ...]](), [], n_numbers
    for text, count in texts.items():
        found = None
        if USUAL_READING["number"].parse(text) is None:
            others.append(text)
            found = _MEASURED.fullmatch(text)
            if found is None or not any(found.groups()):
                continue
            units[found.groups()] += 1
        n_alike += count
        n_distinct += 1
    if not others or len(units) > MAX_UNITS or n_distinct <= MIN_TEXTS or n_alike < MIN_SHARE * n_cells:
        return None
    return "number", others[0]


def _dated(texts: Counter[str]) -> tuple[TextKind, str] | None:
    alike = [text for text in texts if _DATED.fullmatch(text)]
    if len(alike) <= MIN_TEXTS or sum(texts[text] for text in alike) < MIN_SHARE * texts.total():
        return None
    return "datetime", alike[0]
