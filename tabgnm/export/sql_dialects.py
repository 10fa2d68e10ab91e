"""What differs between SQLite, DuckDB and PostgreSQL; names and values as text of SQL that nothing can break out of."""

from __future__ import annotations

import string
from collections.abc import Collection, Iterable, Sequence

from tabgnm._printable import brief
from tabgnm.export.program import ExportError

_MOST_ARGUMENTS = 100  # of a function; SQLite allows 127
_LONGEST_NAME = 63  # bytes of a name that PostgreSQL tells apart
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def literal(value: float) -> str:
    """Return a double; the exponent tells DuckDB that it is no decimal, and a sign never follows another one.

    Examples
    --------
    >>> literal(0.1), literal(-2), literal(1e-300)
    ('0.1e0', '(-2.0e0)', '1e-300')
    """
    text = repr(float(value))
    text = text if "e" in text else f"{text}e0"
    return f"({text})" if text.startswith("-") else text


def double(expression: str) -> str:
    """Return an expression as double: PostgreSQL would take literals for decimals."""
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
        """Return a name as identifier."""
        _check_text(name, "name")
        if not name:
            raise ExportError(
                f"{self.name} does not support columns or tables with an empty name; rename the column before fit"
            )
        return '"' + name.replace('"', '""') + '"'

    def string(self, text: str) -> str:
        """Return a text as literal."""
        _check_text(text, "text")
        return "'" + text.replace("'", "''") + "'"

    def same(self, name: str) -> str:
        """Return a text that is equal for names that the database takes for one."""
        return name.translate(_LOWER)

    def check_names(self, names: Iterable[str]) -> None:
        """Raise if the database takes two names for one."""
        known: dict[str, str] = {}
        for name in names:
            other = known.setdefault(self.same(name), name)
            if other != name:
                raise ExportError(
                    f"{self.name} does not distinguish the columns {brief(other)!a} and {brief(name)!a}; rename one of "
                    "them before fit"
                )

    def distinct(self, names: Sequence[str]) -> list[str]:
        """Return names for new columns, shortened and numbered where the database would take two for one."""
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
        while len(numbers) > 1:  # of one argument SQLite's function is an aggregate
            parts = [numbers[i : i + _MOST_ARGUMENTS] for i in range(0, len(numbers), _MOST_ARGUMENTS)]
            numbers = [f"{self.greatest}({', '.join(own)})" if len(own) > 1 else own[0] for own in parts]
        return numbers[0]

    def clamped(self, number: str, low: float | None, high: float | None) -> str:
        """Return a number within limits."""
        if low is not None:
            number = f"{self.greatest}({number}, {literal(low)})"
        return number if high is None else f"{self.least}({number}, {literal(high)})"

    # Columns

    def number(self, x: str) -> str:
        """Return a number as double, NULL for NaN."""
        return f"NULLIF({double(x)}, {double(self.string('NaN'))})"

    def boolean(self, x: str) -> str:
        """Return 1, 0 or NULL; booleans, numbers and texts are written differently by each database."""
        text = f"LOWER(CAST({x} AS TEXT))"
        return double(
            f"CASE WHEN {text} IN ('true', '1', '1.0') THEN 1 WHEN {text} IN ('false', '0', '0.0') THEN 0 END"
        )

    def level(self, x: str, levels: Collection[str]) -> str:
        """Return the text that a level is known by, as `tabgnm.table.cells.canonical`; `levels` are those known."""
        raise NotImplementedError

    def seconds(self, x: str, kind: str) -> str:
        """Return seconds since 1970 in UTC of a "datetime", since midnight of a "time", or of a "duration"."""
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
        del levels
        text = f"CAST({x} AS TEXT)"
        is_number = f"typeof({x}) IN ('FLOAT', 'DOUBLE') OR typeof({x}) LIKE 'DECIMAL%'"
        return (
            f"(CASE WHEN {x} IS NULL THEN NULL WHEN typeof({x}) = 'BOOLEAN' THEN "
            f"CASE {text} WHEN 'true' THEN 'True' ELSE 'False' END "
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
    """PostgreSQL from version 13 on."""

    name = "postgresql"

    def string(self, text: str) -> str:
        """Return a text as literal, whose backslashes mean the same for every standard_conforming_strings."""
        plain = super().string(text)
        return "E" + plain.replace("\\", "\\\\") if "\\" in text else plain

    def same(self, name: str) -> str:
        """Return what PostgreSQL keeps of a name."""
        return name.encode(errors="surrogatepass")[:_LONGEST_NAME].decode(errors="ignore")

    def level(self, x: str, levels: Collection[str]) -> str:
        """Return the text of a level: "True" for booleans, "3" for 3.0."""
        del levels
        text = f"CAST({x} AS TEXT)"
        return (
            f"(CASE pg_typeof({x}) WHEN CAST('boolean' AS regtype) THEN INITCAP({text}) "
            f"WHEN CAST('real' AS regtype) THEN NULLIF({text}, 'NaN') "
            f"WHEN CAST('double precision' AS regtype) THEN NULLIF({text}, 'NaN') "
            f"WHEN CAST('numeric' AS regtype) THEN CAST(TRIM_SCALE(CAST(NULLIF({text}, 'NaN') AS NUMERIC)) AS TEXT) "
            f'ELSE {text} END) COLLATE "C"'
        )


class SQLite(Dialect):
    """SQLite from version 3.35 on, with its mathematical functions.

    Every cell has a type of its own there. Text that is no number or date is taken for missing, as SQLite has no error
    for it.
    """

    name = "sqlite"
    least = "MIN"
    greatest = "MAX"

    def number(self, x: str) -> str:
        """Return a number as double."""
        return f"CASE WHEN typeof({x}) IN ('integer', 'real') OR {x} = {double(x)} THEN {double(x)} END"

    def level(self, x: str, levels: Collection[str]) -> str:
        """Return the text of a level: "3" for 3.0; "True" for 1 if that is a level and "1" is not."""
        logical = ""
        if {"True", "False"} & set(levels) and not {"0", "1"} & set(levels):
            logical = f"WHEN {x} = 1 AND typeof({x}) = 'integer' THEN 'True' "
            logical += f"WHEN {x} = 0 AND typeof({x}) = 'integer' THEN 'False' "
        return (
            f"(CASE {logical}WHEN typeof({x}) = 'real' AND {x} = CAST({x} AS INTEGER) "
            f"THEN CAST(CAST({x} AS INTEGER) AS TEXT) ELSE CAST({x} AS TEXT) END) COLLATE BINARY"
        )

    def seconds(self, x: str, kind: str) -> str:
        """Return seconds, to the millisecond; of a duration, which is a number of them, exactly."""
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
