"""The inputs of a program as linear combinations of quantities of the table: columns, levels, parts of dates."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tabgnm._printable import printable
from tabgnm.export.formulas import Call, Identifiers, Interpolation, Line, Name, Note, Sum, note, number_text
from tabgnm.export.program import ExportError, Program
from tabgnm.table.numbers import NumberMap
from tabgnm.table.recipes import Recipe

FLOAT32_ROUNDING = 2.0**-24  # encoded rows are float32
_PARTS = {
    "days": "days since 1970-01-01, with fractions",
    "year": "the year",
    "month": "the month, 1 to 12",
    "day": "the day of the month, 1 to 31",
    "weekday": "the day of the week, 0 for Monday to 6 for Sunday",
    "hour": "the hour of the day, with fractions",
}
_UNITS = {
    "boolean": "1 for true, 0 for false",
    "duration": "in seconds",
    "time": "in seconds since midnight",
}
_MISREAD = {"none", "nan", "nat", "na", "null", "true", "false"}  # texts that read like missing cells or booleans
_PART_RANGES = {"month": (1.0, 12.0), "day": (1.0, 31.0), "weekday": (0.0, 6.0), "hour": (0.0, 24.0)}


@dataclass(frozen=True)
class Quantity:
    """A quantity in a formula, the range of its values, and their maximum error.

    Attributes
    ----------
    name : Name
    low, high : float
        The smallest and the largest value over the range of the training data.
    error : float
        The largest difference between the value that a reader computes and the exact one.
    """

    name: Name
    low: float
    high: float
    error: float = 0.0

    @property
    def middle(self) -> float:
        """The middle of the range."""
        return self.low / 2 + self.high / 2

    @property
    def half_width(self) -> float:
        """The largest distance from the middle."""
        return self.high / 2 - self.low / 2


@dataclass(frozen=True)
class Combination:
    """A constant plus multiples of quantities."""

    terms: tuple[tuple[float, Quantity], ...]
    constant: float = 0.0


@dataclass(frozen=True)
class Rounding:
    """The number of significant digits; None for exact numbers."""

    digits: int | None

    def significant(self, number: float) -> float:
        """Round a number to `digits` significant digits."""
        return number if self.digits is None else float(f"{number:.{self.digits - 1}e}")

    def relative_to(self, number: float, size: float) -> float:
        """Round a number to the decimal place of the last of `digits` + 1 significant digits of `size`."""
        if self.digits is None or size == 0 or not math.isfinite(size):
            return number
        n_decimals = self.digits - math.floor(math.log10(size))
        return round(number, n_decimals) if n_decimals < 300 else number


@dataclass
class FormulaInputs:
    """Creates the quantities of a program, and collects lines and notes about them.

    Attributes
    ----------
    lines : list of Line
        Scaled columns that are not linear functions of the column.
    fills : list of (Name, float)
        The values to use for missing ones.
    notes : list of Note
    """

    identifiers: Identifiers
    rounding: Rounding
    lines: list[Line] = field(default_factory=list)
    fills: list[tuple[Name, float]] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    _columns: dict[int, str] = field(default_factory=dict)
    _names: dict[int, str] = field(default_factory=dict)
    _quantities: dict[object, Quantity] = field(default_factory=dict)

    def combinations(self, program: Program) -> list[Combination]:
        """Return each input of the program in terms of quantities."""
        for column in program.columns:
            self._names[column.position] = column.name
            self._columns[column.position] = own = self.identifiers.new(column.name, f"x{column.position}")
            if own != column.name:
                self.notes.append(note(f"{own}: column {in_quotes(column.name)}", of_text=True))
            if column.kind in _UNITS:
                self.notes.append(note(Name(own, latex_text(column.name)), f": {_UNITS[column.kind]}"))
        found = [self._combination(recipe) for recipe in program.recipes]
        if any(recipe.part in _PARTS for recipe in program.recipes):
            self.notes.append(note("Dates with a time zone are converted to UTC first; their parts are those in UTC"))
        if any(recipe.what not in ("number", "nothing") for recipe in program.recipes):
            self.notes.append(note("[...] is 1 if the condition holds, and 0 otherwise"))
        if self.fills:
            uses = [part for name, fill in self.fills for part in (", ", name, f" = {number_text(fill)}")]
            self.notes.append(note("Where a value is missing, use ", *uses[1:]))
        return found

    def _combination(self, recipe: Recipe) -> Combination:
        if recipe.what == "number":
            assert recipe.map is not None
            return self._number(recipe, recipe.map)
        if recipe.what == "missing":
            return Combination(((1.0, self._condition(recipe, "is missing", r"\text{ is missing}")),))
        if recipe.what == "unknown":
            quantity = self._condition(recipe, "is unknown", r"\text{ is unknown}")
            levels = ", ".join(map(_quoted, recipe.levels))
            self.notes.append(note(quantity.name, f": missing, or none of {levels}"))
            return Combination(((1.0, quantity),))
        if recipe.what == "level":
            return Combination(((1.0, self._level(recipe, recipe.levels[0])),))
        if recipe.what == "two-level":
            first, second = (self._level(recipe, level) for level in recipe.levels)
            return Combination(((-1.0, first), (1.0, second)))
        if recipe.what == "nothing":
            return Combination(())
        raise ExportError(
            f"column {recipe.column_name!r} has a learned embedding, which cannot be written as a formula; use distill "
            "or fit_sparse first"
        )

    def _level(self, recipe: Recipe, level: str) -> Quantity:
        return self._condition(recipe, f"= {_quoted(level)}", f" = {latex_text(visible(level))}")

    def _condition(self, recipe: Recipe, text: str, latex: str) -> Quantity:
        key = (recipe.column, text)
        if key not in self._quantities:
            name = Name(f"[{self._columns[recipe.column]} {text}]", f"[{latex_text(recipe.column_name)}{latex}]")
            self._quantities[key] = Quantity(name, 0.0, 1.0)
        return self._quantities[key]

    def _number(self, recipe: Recipe, own: NumberMap) -> Combination:
        name = self._number_name(recipe)
        low, high = _range(recipe, own)
        fill = self.rounding.relative_to(raw_fill(own), high / 2 - low / 2)
        self.fills.append((name, fill))
        scale, centre = (1.0, 0.0) if own.method in ("identity", "knots") else (own.scale, own.centre)
        # Rows are rounded to float32 after scaling; the value for missing cells may be rounded here.
        largest = max(abs(low - centre), abs(high - centre)) if own.method in ("identity", "linear") else 0.0
        raw = Quantity(name, low, high, max(largest * FLOAT32_ROUNDING, abs(fill - raw_fill(own))))
        linear = Combination(((1 / scale, raw),), -centre / scale)
        if own.method in ("identity", "linear"):
            return linear
        scaled = Name(self.identifiers.new(f"{name.text}_scaled"), rf"\operatorname{{scaled}}({name.latex})")
        if own.method == "smooth":
            argument, off = rounded_sum(linear, self.rounding)
            self.lines.append(Line(scaled, Call("smooth", (argument,))))
            return Combination(((1.0, Quantity(scaled, -3.0, 3.0, off + 3 * FLOAT32_ROUNDING)),))
        knots, values = np.asarray(own.knots, float), np.asarray(own.targets, float)
        steepest = float(np.max(np.diff(values) / np.diff(knots)))
        shown_knots = tuple(self.rounding.relative_to(float(knot), 1 / steepest) for knot in knots)
        shown = tuple(self.rounding.relative_to(float(value), 1.0) for value in values)
        self.lines.append(Line(scaled, Interpolation(name, shown_knots, shown)))
        off = steepest * (float(np.abs(np.subtract(shown_knots, knots)).max()) + raw.error)
        off += float(np.abs(np.subtract(shown, values)).max()) + float(np.abs(values).max()) * FLOAT32_ROUNDING
        return Combination(((1.0, Quantity(scaled, float(values[0]), float(values[-1]), off)),))

    def _number_name(self, recipe: Recipe) -> Name:
        column = Name(self._columns[recipe.column], latex_text(recipe.column_name))
        if not recipe.part:
            return column
        latex = rf"\operatorname{{{recipe.part}}}({column.latex})"
        name = Name(self.identifiers.new(f"{column.text}_{recipe.part}"), latex)
        if recipe.part == "rank":
            ranks = ", ".join(f"{rank} for {_quoted(level)}" for rank, level in enumerate(recipe.levels))
            self.notes.append(note(name, ": rank of ", column, f" in the order of its levels: {ranks}"))
        else:
            self.notes.append(note(name, ": of ", column, f", {_PARTS[recipe.part]}"))
        return name


def rounded_sum(exact: Combination, rounding: Rounding) -> tuple[Sum, float]:
    """Return a sum with rounded numbers, and the maximum error of its value.

    The effect of rounding a factor, at the middle of the range, is added to the constant. So a column such as a year,
    whose range is small compared to its values, does not need more digits than others.
    """
    terms, constant, error, largest = [], exact.constant, 0.0, 0.0
    for factor, quantity in exact.terms:
        shown = rounding.significant(factor)
        constant += (factor - shown) * quantity.middle
        error += abs(factor - shown) * quantity.half_width + abs(factor) * quantity.error
        largest = max(largest, abs(factor) * quantity.half_width)
        terms.append((shown, quantity.name))
    shown_constant = rounding.relative_to(constant, largest or abs(constant))
    return Sum(tuple(terms), shown_constant), error + abs(constant - shown_constant)


def collected(parts: Iterable[tuple[float, Combination]], constant: float) -> Combination:
    """Return a constant plus multiples of combinations, with each quantity only once."""
    total: dict[Name, tuple[float, Quantity]] = {}
    for weight, own in parts:
        constant += weight * own.constant
        for factor, quantity in own.terms:
            before = total[quantity.name][0] if quantity.name in total else 0.0
            total[quantity.name] = (before + weight * factor, quantity)
    return Combination(tuple(own for own in total.values() if own[0] != 0), constant)


def latex_text(text: str) -> str:
    r"""Return any text for the math mode of LaTeX.

    Examples
    --------
    >>> print(latex_text("50% of a_b"))
    \text{50\% of a\_b}
    """
    return rf"\text{{{latex_escaped(text)}}}"


def latex_escaped(text: str) -> str:
    """Return any text for LaTeX's text mode."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    special |= {own: f"\\{own}" for own in "{}$&#_%"}
    return "".join(special.get(own, own) for own in printable(text))


def _quoted(level: str) -> str:
    """Return a level unchanged if it is a single word that cannot be misread, otherwise as a JSON string."""
    return visible(level) if re.fullmatch(r"[\w.+-]+", level) else in_quotes(level)


def visible(label: Any) -> str:
    """Return a level or label as text, in quotes if nothing of it could be seen or if it reads like another value.

    Examples
    --------
    >>> print(visible("Oslo"), visible(" "), visible("None"), visible(True), visible("True"))
    Oslo " " "None" True "True"
    """
    is_clear = not isinstance(label, str) or (label.strip() and label.casefold() not in _MISREAD)
    return str(label) if is_clear else in_quotes(label)


def in_quotes(text: str) -> str:
    """Return a text as a JSON string."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


def raw_fill(own: NumberMap) -> float:
    """Return the number that has the same encoding as a missing one."""
    if own.method == "identity":
        return own.fill
    if own.method == "knots":
        return float(np.interp(own.fill, own.targets, own.knots))
    fill = own.fill / math.sqrt(1 - (own.fill / 3) ** 2) if own.method == "smooth" else own.fill
    return own.centre + own.scale * fill


def _range(recipe: Recipe, own: NumberMap) -> tuple[float, float]:
    if recipe.part == "rank":
        return 0.0, float(len(recipe.levels) - 1)
    if recipe.part in _PART_RANGES:
        return _PART_RANGES[recipe.part]
    if recipe.kind == "boolean":
        return 0.0, 1.0
    if recipe.span is not None:
        low, high = recipe.span
        return (1970 + low // 366, 1971 + high // 365) if recipe.part == "year" else (low, high)
    if own.method == "knots":
        return float(own.knots[0]), float(own.knots[-1])
    centre, scale = (own.fill, max(1.0, abs(own.fill))) if own.method == "identity" else (own.centre, own.scale)
    return centre - 10 * scale, centre + 10 * scale  # files of early versions do not have the range
