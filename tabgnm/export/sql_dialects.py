"""Differences between SQLite, DuckDB and PostgreSQL, and safe quoting of names and values."""

from __future__ import annotations

import math
import string
from collections.abc import Collection, Iterable, Sequence

from tabgnm._printable import brief
from tabgnm.export.program import ExportError
from tabgnm.table.cells import canonical

_MAX_ARGUMENTS = 100  # of a function; SQLite allows 127
_LONGEST_NAME = 63  # significant bytes of a name in PostgreSQL
# Numbers between these have the same digits in all databases, without an exponent.
_SMALLEST_USUAL, _LARGEST_USUAL = 1e-4, 1e15
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def literal(value: float) -> str:
    """Return a literal of type double.

    It has an exponent, because DuckDB would otherwise read a decimal, and negative numbers are in parentheses.

    Examples
    --------
    >>> literal(0.1), literal(-2), literal(1e-300)
    ('0.1e0', '(-2.0e0)', '1e-300')
    """
    text = repr(float(value))
    text = text if "e" in text else f"{text}e0"
    return f"({text})" if text.startswith("-") else text


def double(expression: str) -> str:
    """Return an expression cast to double, because literals are decimals in PostgreSQL."""
    return f"CAST({expression} AS DOUBLE PRECISION)"


class Dialect:
    """The SQL of one database; arguments `x` are references to columns.

    The methods here are those of DuckDB and PostgreSQL.
    """

    name: str
    least = "LEAST"
    greatest = "GREATEST"

    # Names and values

    def quoted(self, name: str) -> str:
        """Return a name as a quoted identifier."""
        _check_text(name, "name")
        if not name:
            raise ExportError(
                f"{self.name} does not support columns or tables with an empty name; rename the column before fit"
            )
        return '"' + name.replace('"', '""') + '"'

    def string(self, text: str) -> str:
        """Return a text as a literal."""
        _check_text(text, "text")
        return "'" + text.replace("'", "''") + "'"

    def same(self, name: str) -> str:
        """Return a text that is equal for names that the database does not distinguish."""
        return name.translate(_LOWER)

    def check_names(self, names: Iterable[str]) -> None:
        """Raise if the database does not distinguish two names."""
        known: dict[str, str] = {}
        for name in names:
            other = known.setdefault(self.same(name), name)
            if other != name:
                raise ExportError(
                    f"{self.name} does not distinguish the columns {brief(other)!a} and {brief(name)!a}; rename one of "
                    "them before fit"
                )

    def distinct(self, names: Sequence[str]) -> list[str]:
        """Return names for new columns, shortened, and numbered if the database would not distinguish them."""
        found: dict[str, str] = {}
        for name in names:
            short = own = name.encode()[: _LONGEST_NAME - 8].decode(errors="ignore")
            number = 1
            while self.same(own) in found:
                number += 1
                own = f"{short}_{number}"
            found[self.same(own)] = own
        return list(found.values())

    # Functions of numbers

    def largest(self, numbers: Sequence[str]) -> str:
        """Return the largest of any number of numbers."""
        while len(numbers) > 1:  # with one argument, SQLite's function is an aggregate
            parts = [numbers[i : i + _MAX_ARGUMENTS] for i in range(0, len(numbers), _MAX_ARGUMENTS)]
            numbers = [f"{self.greatest}({', '.join(own)})" if len(own) > 1 else own[0] for own in parts]
        return numbers[0]

    def clamped(self, number: str, low: float | None, high: float | None) -> str:
        """Return a number within limits."""
        if low is not None:
            number = f"{self.greatest}({number}, {literal(low)})"
        return number if high is None else f"{self.least}({number}, {literal(high)})"

    # Columns

    def number(self, x: str) -> str:
        """Return a number as double; NULL for NaN."""
        return f"NULLIF({double(x)}, {double(self.string('NaN'))})"

    def boolean(self, x: str) -> str:
        """Return 1, 0 or NULL for booleans, numbers and texts, which each database converts to text differently."""
        text = f"LOWER(CAST({x} AS TEXT))"
        return double(
            f"CASE WHEN {text} IN ('true', '1', '1.0') THEN 1 WHEN {text} IN ('false', '0', '0.0') THEN 0 END"
        )

    def level(self, x: str, levels: Collection[str]) -> str:
        """Return the text of a level, as `tabgnm.table.cells.canonical` does; `levels` are the known ones."""
        raise NotImplementedError

    def _number_levels(self, levels: Collection[str]) -> list[tuple[str, str]]:
        """Return numbers and texts of levels that are numbers so large or small that databases write them differently.

        Examples
        --------
        >>> SQLite()._number_levels(["a", "0.5", "3", "1e-07"])
        [('1e-07', "'1e-07'")]
        """
        found = []
        for level in sorted(levels):
            try:
                number = float(level)
            except ValueError:
                continue
            is_usual = number == 0 or _SMALLEST_USUAL <= abs(number) < _LARGEST_USUAL
            if math.isfinite(number) and not is_usual and canonical(number) == level:
                found.append((literal(number), self.string(level)))
        return found

    def seconds(self, x: str, kind: str) -> str:
        """Return the seconds of a "datetime" since 1970 in UTC, of a "time" since midnight, or of a "duration"."""
        del kind  # all are the same
        return double(f"EXTRACT(EPOCH FROM {x})")

    def calendar(self, part: str, day: str) -> str:
        """Return the "year", "month" or "day" of a whole number of days since 1970."""
        return double(f"EXTRACT({part.upper()} FROM (DATE '1970-01-01' + CAST({day} AS INTEGER)))")


class DuckDB(Dialect):
    """DuckDB, tested with version 2.0."""

    name = "duckdb"

    def level(self, x: str, levels: Collection[str]) -> str:
        """Return the text of a level: "True" for booleans, "3" for 3.0."""
        text = f"CAST({x} AS TEXT)"
        is_number = f"typeof({x}) IN ('FLOAT', 'DOUBLE') OR typeof({x}) LIKE 'DECIMAL%'"
        unusual = "".join(
            f"WHEN ({is_number}) AND TRY_CAST({text} AS DOUBLE) = {number} THEN {own} "
            for number, own in self._number_levels(levels)
        )
        return (
            f"(CASE WHEN {x} IS NULL THEN NULL WHEN typeof({x}) = 'BOOLEAN' THEN "
            f"CASE {text} WHEN 'true' THEN 'True' ELSE 'False' END {unusual}"
            f"WHEN ({is_number}) AND {text} LIKE '%.%' AND {text} NOT LIKE '%e%' THEN RTRIM(RTRIM({text}, '0'), '.') "
            f"WHEN {is_number} THEN NULLIF({text}, 'nan') ELSE {text} END) COLLATE C"
        )

    def seconds(self, x: str, kind: str) -> str:
        """Return seconds; dates may also be text in ISO 8601.

        They are read as text, as DuckDB binds a function to the type of the column, which is not known here. It takes a
        text without an offset for a time in the zone of the session, but only as TIMESTAMPTZ.
        """
        if kind != "datetime":
            return super().seconds(x, kind)
        text = f"CAST({x} AS TEXT)"
        has_offset = f"regexp_matches({text}, ':.*([Zz]|[+-][0-9][0-9](:?[0-9][0-9])*)$')"
        zoned, plain = (f"EXTRACT(EPOCH FROM CAST({text} AS {own}))" for own in ("TIMESTAMPTZ", "TIMESTAMP"))
        return double(f"CASE WHEN {has_offset} THEN {zoned} ELSE {plain} END")


class PostgreSQL(Dialect):
    """PostgreSQL, version 13 or later."""

    name = "postgresql"

    def string(self, text: str) -> str:
        """Return a text as a literal that does not depend on the setting standard_conforming_strings."""
        plain = super().string(text)
        return "E" + plain.replace("\\", "\\\\") if "\\" in text else plain

    def same(self, name: str) -> str:
        """Return the significant part of a name."""
        return name.encode(errors="surrogatepass")[:_LONGEST_NAME].decode(errors="ignore")

    def level(self, x: str, levels: Collection[str]) -> str:
        """Return the text of a level: "True" for booleans, "3" for 3.0."""
        text = f"CAST({x} AS TEXT)"
        number = f"NULLIF({text}, 'NaN')"
        decimal = f"CAST(TRIM_SCALE(CAST({number} AS NUMERIC)) AS TEXT)"
        if unusual := self._number_levels(levels):
            cases = " ".join(f"WHEN {double(own)} THEN {level}" for own, level in unusual)
            number, decimal = (f"CASE {double(text)} {cases} ELSE {usual} END" for usual in (number, decimal))
        return (
            f"(CASE pg_typeof({x}) WHEN CAST('boolean' AS regtype) THEN INITCAP({text}) "
            f"WHEN CAST('real' AS regtype) THEN {number} "
            f"WHEN CAST('double precision' AS regtype) THEN {number} "
            f"WHEN CAST('numeric' AS regtype) THEN {decimal} "
            f'ELSE {text} END) COLLATE "C"'
        )


class SQLite(Dialect):
    """SQLite, version 3.35 or later, with its mathematical functions.

    In SQLite, every cell has its own type. Text that is not a number or date is treated as missing, because SQLite does
    not raise an error for it.
    """

    name = "sqlite"
    least = "MIN"
    greatest = "MAX"

    def number(self, x: str) -> str:
        """Return a number as double."""
        return f"CASE WHEN typeof({x}) IN ('integer', 'real') OR {x} = {double(x)} THEN {double(x)} END"

    def level(self, x: str, levels: Collection[str]) -> str:
        """Return the text of a level: "3" for 3.0; "True" for 1 if that is a level and "1" is not."""
        special = ""
        if {"True", "False"} & set(levels) and not {"0", "1"} & set(levels):
            special = f"WHEN {x} = 1 AND typeof({x}) = 'integer' THEN 'True' "
            special += f"WHEN {x} = 0 AND typeof({x}) = 'integer' THEN 'False' "
        for number, level in self._number_levels(levels):
            special += f"WHEN {x} = {number} AND typeof({x}) = 'real' THEN {level} "
        return (
            f"(CASE {special}WHEN typeof({x}) = 'real' AND {x} = CAST({x} AS INTEGER) "
            f"THEN CAST(CAST({x} AS INTEGER) AS TEXT) ELSE CAST({x} AS TEXT) END) COLLATE BINARY"
        )

    def seconds(self, x: str, kind: str) -> str:
        """Return seconds with a precision of milliseconds; durations, which are numbers of seconds, are exact."""
        if kind == "duration":
            return self.number(x)
        of = {letter: double(f"strftime('%{letter}', {x})") for letter in "sSfHM"}
        if kind == "time":
            return f"{of['H']} * 3600 + {of['M']} * 60 + {of['f']}"
        return f"{of['s']} + {of['f']} - {of['S']}"

    def calendar(self, part: str, day: str) -> str:
        """Return the "year", "month" or "day" of a whole number of days since 1970."""
        letter = {"year": "Y", "month": "m", "day": "d"}[part]
        return double(f"strftime('%{letter}', {day} * 86400, 'unixepoch')")


DIALECTS: dict[str, Dialect] = {own.name: own for own in (SQLite(), DuckDB(), PostgreSQL())}


def _check_text(text: str, what: str) -> None:
    if "\0" in text:
        raise ExportError(
            f"the {what} {brief(text)!a} contains a null character, which SQL does not support; replace it before fit"
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ExportError(
            f"the {what} {brief(text)!a} cannot be encoded in UTF-8, which SQL requires; replace it before fit"
        ) from None
