"""Numbers and dates written as text: the supported formats, and how to parse a text in each of them."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

TextKind = Literal["number", "datetime"]

# Texts that mean a missing number or date; compared without case and surrounding spaces.
MISSING_TEXTS = frozenset(
    {"", "-", "--", ".", "?", "na", "n/a", "#n/a", "#na", "<na>", "nan", "nat", "null", "none", "missing"}
)
CURRENCIES = ("$", "€", "£", "¥")

_POINT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_GROUPED_POINT = re.compile(r"[+-]?(\d+|[1-9]\d{0,2}(,\d{3})+)(\.\d*)?", re.ASCII)
_GROUPED_COMMA = re.compile(r"[+-]?(\d+|[1-9]\d{0,2}(\.\d{3})+)(,\d*)?", re.ASCII)
# A comma before a point or another comma cannot be a decimal comma.
_CERTAIN_GROUPS = re.compile(r",.*[.,]")
_SEPARATOR = re.compile("[ '\N{RIGHT SINGLE QUOTATION MARK}\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{THIN SPACE}]")
_GROUPED = re.compile(rf"[+-]?[1-9]\d{{0,2}}({_SEPARATOR.pattern}\d{{3}})+(?!\d)", re.ASCII)
_TIME = r"(?:[T ]+(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?)?"
_ZONE = r"\s*(Z|[+-]\d{2}(?::?\d{2})?)?"
_MINUS = ("-", "\N{MINUS SIGN}")
_YEAR_FIRST = re.compile(
    r"(\d{4})(?:([-/.])(\d{1,2})\2(\d{1,2})|(\d{2})(\d{2}))" + _TIME + _ZONE, re.ASCII | re.IGNORECASE
)
_YEAR_LAST = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4})" + _TIME, re.ASCII | re.IGNORECASE)


LONGEST_TEXT = 1000  # characters of a number or date; longer texts are not parsed


def says_nothing(text: str) -> bool:
    """Whether a text means a missing number or date.

    Examples
    --------
    >>> [says_nothing(text) for text in ("", " NA ", "?", "-", "null", "0", "unknown")]
    [True, True, True, True, True, False, False]
    """
    return text.strip().casefold() in MISSING_TEXTS


def tidy_number(text: str) -> str:
    """Return the text of a number with an ASCII minus sign, and without spaces or apostrophes between thousands.

    Examples
    --------
    >>> tidy_number("\N{MINUS SIGN}1'234 567.5"), tidy_number("12 34")
    ('-1234567.5', '12 34')
    """
    if text.isascii() and " " not in text and "'" not in text:  # the most frequent case
        return text
    text = text.replace("\N{MINUS SIGN}", "-")
    grouped = _GROUPED.match(text)
    return text if grouped is None else _SEPARATOR.sub("", grouped[0]) + text[grouped.end() :]


def _with_point(text: str) -> float | None:
    text = tidy_number(text)
    return float(text) if _POINT.fullmatch(text) or _INFINITE.fullmatch(text) else None


def _with_comma_groups(text: str) -> float | None:
    text = tidy_number(text)
    return float(text.replace(",", "")) if _GROUPED_POINT.fullmatch(text) else None


def _with_decimal_comma(text: str) -> float | None:
    text = tidy_number(text)
    return float(text.replace(".", "").replace(",", ".")) if _GROUPED_COMMA.fullmatch(text) else None


def _percent(parse: Callable[[str], float | None]) -> Callable[[str], float | None]:
    def parse_percent(text: str) -> float | None:
        number = parse(text[:-1].rstrip()) if text.endswith("%") else None
        return None if number is None else number / 100

    return parse_percent


def _with_currency(sign: str, parse: Callable[[str], float | None]) -> Callable[[str], float | None]:
    def parse_amount(text: str) -> float | None:
        minus, text = ("-", text[1:].lstrip()) if text[:1] in _MINUS else ("", text)
        if text.startswith(sign):
            text = text[len(sign) :].lstrip()
            if not minus and text[:1] in _MINUS:
                minus, text = "-", text[1:]
        elif text.endswith(sign):
            text = text[: -len(sign)].rstrip()
        return parse(minus + text) if text[:1] not in _MINUS else None

    return parse_amount


def _moment(
    year: str, month: str, day: str, hour: str | None, minute: str | None, second: str | None, fraction: str | None
) -> datetime.datetime | None:
    micros = int((fraction or "0").ljust(6, "0")[:6])
    try:
        return datetime.datetime(
            int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0), micros
        )
    except ValueError:  # there is no such day or time
        return None


def _year_first(text: str) -> datetime.datetime | None:
    found = _YEAR_FIRST.fullmatch(text)
    if found is None:
        return None
    year, _, month, day, compact_month, compact_day, *time, zone = found.groups()
    moment = _moment(year, month or compact_month, day or compact_day, *time)
    if moment is None or zone is None:
        return moment
    offset = datetime.timedelta(0)
    if zone not in "Zz":
        digits = zone[1:].replace(":", "").ljust(4, "0")
        offset = datetime.timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    try:
        return moment + offset if zone[0] == "-" else moment - offset
    except OverflowError:
        return None


def _day_first(text: str) -> datetime.datetime | None:
    found = _YEAR_LAST.fullmatch(text)
    if found is None:
        return None
    day, _, month, year, *time = found.groups()
    return _moment(year, month, day, *time)


def _month_first(text: str) -> datetime.datetime | None:
    found = _YEAR_LAST.fullmatch(text)
    if found is None:
        return None
    month, _, day, year, *time = found.groups()
    return _moment(year, month, day, *time)


@dataclass(frozen=True)
class TextFormat:
    """One way to write numbers or dates.

    Attributes
    ----------
    name : str
        An example of the format, which is also its name in model files.
    kind : {"number", "datetime"}
    parse : callable
        Returns the number, or the date in UTC without a time zone, of a stripped text; None if it does not have this
        format.
    sign : str
        A character that some text of a column must contain for the column to be in this format.
    """

    name: str
    kind: TextKind
    parse: Callable[[str], Any]
    sign: str = ""


# The first format of a kind is the default: it is used if the column had numbers or dates in fit, but now has text.
TEXT_FORMATS: dict[TextKind, tuple[TextFormat, ...]] = {
    "number": (
        TextFormat("1234.5", "number", _with_point),
        TextFormat("1,234.5", "number", _with_comma_groups, ","),
        TextFormat("1.234,5", "number", _with_decimal_comma, ","),
        TextFormat("12.5%", "number", _percent(_with_point), "%"),
        TextFormat("1,234.5%", "number", _percent(_with_comma_groups), ","),
        TextFormat("12,5%", "number", _percent(_with_decimal_comma), ","),
        # One format for each currency, so that amounts in different currencies are not mixed.
        *(
            TextFormat(f"{sign}{name}", "number", _with_currency(sign, parse), sign)
            for sign in CURRENCIES
            for name, parse in (
                ("1234.5", _with_point),
                ("1,234.5", _with_comma_groups),
                ("1.234,5", _with_decimal_comma),
            )
        ),
    ),
    "datetime": (
        TextFormat("year-month-day", "datetime", _year_first),
        TextFormat("day/month/year", "datetime", _day_first),
        TextFormat("month/day/year", "datetime", _month_first),
    ),
}


@dataclass(frozen=True)
class TextReading:
    """How the text of a column is read.

    Attributes
    ----------
    kind : {"number", "datetime"}
    format : str
        The name of a `TextFormat`.
    missing : tuple of str
        Texts that are missing values in this column, in addition to `MISSING_TEXTS`.

    Examples
    --------
    >>> TextReading("number", "1.234,5", ("unknown",)).parse(" 1.250,75 ")
    1250.75
    """

    kind: TextKind
    format: str
    missing: tuple[str, ...] = ()

    def is_missing(self, text: str) -> bool:
        """Whether a text is a missing value in this column."""
        return says_nothing(text) or text.strip() in self.missing

    def parse(self, text: str) -> Any:
        """Return the number or date of a text; None if it cannot be read."""
        text = text.strip()
        if len(text) > LONGEST_TEXT:
            return None
        said = _FORMATS[self.format].parse(text)
        if said is None and self.format in _GROUPED_FORMATS and _CERTAIN_GROUPS.search(text):
            # Numbers with thousands separators may occur only after fit.
            return _FORMATS[_GROUPED_FORMATS[self.format]].parse(text)
        return said


_FORMATS = {known.name: known for formats in TEXT_FORMATS.values() for known in formats}
_GROUPED_FORMATS = {f"{sign}1234.5": f"{sign}1,234.5" for sign in ("", *CURRENCIES)}
USUAL_READING: dict[TextKind, TextReading] = {
    kind: TextReading(kind, formats[0].name) for kind, formats in TEXT_FORMATS.items()
}
