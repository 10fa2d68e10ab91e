"""Numbers, names and cells of the user's table as short texts for people."""

from __future__ import annotations

import datetime
import math
from typing import Any

import numpy as np

from tabgnm._printable import printable
from tabgnm._printable import shortened as shortened

MISSING = "–"


def number(value: float, digits: int = 3, *, trimmed: bool = True) -> str:
    """Return a number with so many significant digits, and separators of thousands; `trimmed`: no zeros at the end.

    Examples
    --------
    >>> number(0.98418), number(1234.5), number(-0.00001234), number(3.0)
    ('0.984', '1,234', '−1.23e-05', '3')
    >>> number(0.85, trimmed=False), number(2.0, trimmed=False)
    ('0.850', '2.00')
    """
    value = float(value)
    if not math.isfinite(value):
        return MISSING if math.isnan(value) else ("∞" if value > 0 else "−∞")
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if size < -4 or size >= 9:
        text = f"{value:.{digits - 1}e}"
    else:
        text = f"{value:,.{max(0, digits - 1 - size)}f}"
        text = text.rstrip("0").rstrip(".") if trimmed and "." in text else text
    return text.replace("-", "−", 1) if value < 0 else text


def with_spread(value: float, spread: float) -> tuple[str, str]:
    """Return a number and its spread with the same decimals: three digits of the larger one.

    Examples
    --------
    >>> with_spread(0.02, 0.0058), with_spread(-0.000376, 0.0047), with_spread(1234.5, 56)
    (('0.0200', '0.0058'), ('−0.00038', '0.00470'), ('1,234', '56'))
    """
    largest = max(abs(value), abs(spread))
    if not (math.isfinite(largest) and 1e-6 <= largest < 1e9):  # powers of ten, which have no common decimals
        return number(value, trimmed=False), number(spread, 2, trimmed=False)
    n = max(0, 2 - math.floor(math.log10(largest)))
    return decimals(value, n), decimals(spread, n)


def percent(share: float, decimals: int = 1, *, trimmed: bool = True) -> str:
    r"""Return a share as a percentage, which no line break separates; `trimmed`: without zeros at the end.

    Examples
    --------
    >>> percent(0.98418), percent(0.77), percent(0.77, trimmed=False), percent(1.0, trimmed=False)
    ('98.4\xa0%', '77\xa0%', '77.0\xa0%', '100\xa0%')
    """
    if not math.isfinite(share):
        return MISSING
    text = f"{100 * share:.{decimals}f}"
    if "." in text and (trimmed or share in (0, 1)):
        text = text.rstrip("0").rstrip(".")
    return f"{text}\u00a0%"


def decimals(value: float, n: int = 3) -> str:
    """Return a number with so many decimals.

    Examples
    --------
    >>> decimals(0.85), decimals(-0.0066)
    ('0.850', '−0.007')
    """
    if not math.isfinite(value):
        return number(value)
    return f"{round(value, n) + 0.0:,.{n}f}".replace("-", "−", 1)


def count(n: int, noun: str, plural: str | None = None) -> str:
    """Return a number of things.

    Examples
    --------
    >>> count(1, "row"), count(2000, "row"), count(2, "class", "classes")
    ('1 row', '2,000 rows', '2 classes')
    """
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def text(value: Any) -> str:
    """Return a name, a label or a cell of the user as a text on one line, without control characters."""
    if value is None or value is np.ma.masked:
        return MISSING
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, float | np.floating):
        return number(float(value), 4)
    if isinstance(value, np.datetime64):
        value = str(value.astype("datetime64[s]")).replace("T", " ")
    if isinstance(value, datetime.datetime):
        value = value.isoformat(sep=" ", timespec="seconds")
    shown = str(value)
    if shown in ("NaT", "<NA>", "nan"):
        return MISSING
    return printable(" ".join(shown.removesuffix(" 00:00:00").split()))
