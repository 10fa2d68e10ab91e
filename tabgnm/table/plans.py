"""Plans: how each raw column is encoded, based on its training rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from tabgnm.table.advice import Advice, Topic
from tabgnm.table.categories import Levels, count_levels, frequent_levels, ranks
from tabgnm.table.cells import canonical_cells
from tabgnm.table.detection import Ambiguous, Codes, declared_reading, detected_reading
from tabgnm.table.errors import TableError
from tabgnm.table.numbers import NumberMap, fit_bins, fit_scaling, is_constant, is_two_valued, untouched
from tabgnm.table.resemblance import resemblance
from tabgnm.table.settings import TableSettings
from tabgnm.table.sources import Source
from tabgnm.table.text import USUAL_READING, TextReading, says_nothing
from tabgnm.table.values import DATE_PARTS, Floats, Values, as_booleans, as_moments, as_numbers, as_seconds, date_parts

Kind = Literal["number", "boolean", "category", "datetime", "duration", "time", "ignore"]
COLUMN_KINDS: tuple[Kind, ...] = ("number", "boolean", "category", "datetime", "duration", "time", "ignore")
CategoryEncoding = Literal["", "indicator", "two-level", "one-hot", "embedding"]
CATEGORY_ENCODINGS: tuple[CategoryEncoding, ...] = ("", "indicator", "two-level", "one-hot", "embedding")
RANK = "rank"  # the part of an ordered category that is encoded as a number

# A category with at least this many levels looks like an identifier if most rows have a level with few rows.
MIN_IDENTIFIERS = 50
ROWS_OF_AN_IDENTIFIER = 5


@dataclass(frozen=True, eq=False)
class Feature:
    """A number that is computed from a raw column.

    Attributes
    ----------
    part : str
        "" for the number itself, otherwise one of `DATE_PARTS`, or `RANK`.
    role : {"plain", "embedded", "indicator only"}
        Whether the network uses the number directly or embeds it, or it is read only to find missing cells.
    map : NumberMap
    """

    part: str
    role: Literal["plain", "embedded", "indicator only"]
    map: NumberMap


ROLES = ("plain", "embedded", "indicator only")


@dataclass(frozen=True, eq=False)
class ColumnPlan:
    """How one raw column is encoded.

    Attributes
    ----------
    name : str
    kind : Kind
    n_missing : int
        The number of missing cells in the training rows.
    n_levels : int or None
        The number of distinct levels of a category in the training rows.
    features : tuple of Feature
        The numbers that are computed from the column.
    indicator : bool
        Whether an encoded column indicates cells that are missing (numbers), or missing or unknown (categories).
    encoding : CategoryEncoding
        How a category is encoded; "" for other kinds, and if the category is not used.
    levels : Levels or None
    note : str
        A remark for users.
    reading : TextReading or None
        How text was read in fit; None if the column was not text.
    order : tuple of str or None
        All levels of an ordered category, in their order.
    span : (float, float) or None
        The smallest and the largest number of the training rows, for dates in days since 1970. None for categories, for
        columns that are not used, and in early model files, which do not contain it.
    advice : Advice or None
        A warning that fit issues; not part of model files.
    """

    name: str
    kind: Kind
    n_missing: int = 0
    n_levels: int | None = None
    features: tuple[Feature, ...] = ()
    indicator: bool = False
    encoding: CategoryEncoding = ""
    levels: Levels | None = None
    note: str = ""
    reading: TextReading | None = None
    order: tuple[str, ...] | None = None
    span: tuple[float, float] | None = None
    advice: Advice | None = None


def inferred_kind(values: Values) -> Kind:
    """Return the kind of a column, based on its type."""
    if values.kind == "text" or values.kind == "empty":
        return "category"
    return values.kind


def numbers_of(source: Source, column: int, plan: ColumnPlan, *, declared: bool, strict: bool = False) -> Floats:
    """Return all numbers of a column: (1, rows), or (6, rows) for the parts of dates.

    `declared` tells whether the user has set the kind. A few texts that cannot be read become missing, with a warning,
    unless `strict`. Callers must not write to the result: it is shared by the encoders of a model.
    """
    if plan.kind == "category":
        return ranks(source.cells(column), plan.order or ())[None]
    values = source.values(column, plan.name)
    way = (plan.kind, plan.reading, declared, strict)
    if way not in values.numbers:
        values.numbers[way] = _numbers_of_values(values, plan, declared=declared, strict=strict)
    return values.numbers[way]


def _numbers_of_values(values: Values, plan: ColumnPlan, *, declared: bool, strict: bool) -> Floats:
    name, kind = plan.name, plan.kind
    if kind == "datetime":
        return date_parts(as_moments(values, name, plan.reading or USUAL_READING["datetime"], strict=strict))
    if kind == "boolean":
        return as_booleans(values, name)[None]
    if kind == "number":
        reading = plan.reading or USUAL_READING["number"]
        return as_numbers(values, name, declared=declared, reading=reading, strict=strict)[None]
    return as_seconds(values, name, kind)[None]


def refuse_infinity(numbers: Floats, name: str, row_of: Callable[[int], int]) -> None:
    """Raise if a column has an infinite number; `row_of` maps a position to the row of the table."""
    infinite = np.isinf(numbers)
    if infinite.any():
        place = int(infinite.argmax())
        raise TableError(
            f"Input X contains infinity or a value too large for dtype('float64'): column {name!r} has "
            f"{numbers[place]} in row {row_of(place)}; replace it with a number, or with NaN if the value is missing"
        )


def plan_column(source: Source, column: int, name: str, settings: TableSettings, override: str | None) -> ColumnPlan:
    """Return the plan of a column, based on all rows of `source`."""
    if override == "ignore":
        return ColumnPlan(name, "ignore", note="left out as asked")
    if override == "category":
        asked = _plan_category(source.cells(column), name, settings)
        return asked if asked.encoding == "" else replace(asked, advice=None)
    values = source.values(column, name)
    kind: Any = override or inferred_kind(values)
    plan = ColumnPlan(name, kind)
    if values.kind == "text" and (kind == "number" or kind == "datetime"):
        reading = declared_reading(values.data, kind, name)
        plan = replace(plan, reading=reading, note=_missing_texts(reading))
    if values.kind == "text" and kind == "category":
        plan = _plan_text(source, column, values, name)
    if plan.kind == "category":
        return _with_rank(source, column, _merged(_plan_category(values.data, name, settings), plan), settings)
    numbers = numbers_of(source, column, plan, declared=override is not None, strict=True)
    refuse_infinity(numbers[0], name, values.row)
    return _merged(_plan_numbers(numbers, name, plan.kind, settings), plan)


def _plan_text(source: Source, column: int, values: Values, name: str) -> ColumnPlan:
    """Return the kind of a column of text: numbers, dates or a category, which may be ordered."""
    levels = source.order(column)
    if levels is not None:
        texts = dict.fromkeys(text for text in canonical_cells(levels) if text is not None)  # 1 and "1" are one level
        return ColumnPlan(name, "category", order=tuple(texts))
    if source.is_category(column):  # as declared by the user
        return ColumnPlan(name, "category")
    reading = detected_reading(values.data)
    if isinstance(reading, Ambiguous):
        return ColumnPlan(name, "category", note=f"{reading}?", advice=Advice("ambiguous", name, str(reading)))
    if isinstance(reading, Codes):
        return ColumnPlan(name, "category", note="digits, taken as codes")
    if reading is None:
        return ColumnPlan(name, "category", advice=_resemblance(values.data, name))
    detail = [] if reading.format == USUAL_READING[reading.kind].format else [f"written like {reading.format}"]
    if reading.missing:
        detail.append(_missing_texts(reading))
    topic: Topic = "read as numbers" if reading.kind == "number" else "read as dates"
    if all(not isinstance(cell, str) or says_nothing(cell) for cell in values.data):
        return ColumnPlan(name, reading.kind, reading=reading)  # the only text is for missing numbers or dates
    note = ", ".join([f"text {topic}", *detail])
    return ColumnPlan(name, reading.kind, note=note, reading=reading, advice=Advice(topic, name, ", ".join(detail)))


def _resemblance(cells: Any, name: str) -> Advice | None:
    found = resemblance(cells)
    if found is None:
        return None
    kind, example = found
    return Advice("like numbers" if kind == "number" else "like dates", name, f"such as {example!r:.40}")


def _missing_texts(reading: TextReading) -> str:
    texts = reading.missing
    return f"{', '.join(map(repr, texts))} {'is' if len(texts) == 1 else 'are'} missing" if texts else ""


def _merged(plan: ColumnPlan, text: ColumnPlan) -> ColumnPlan:
    """Return the plan of a column, completed by the plan for its text."""
    return replace(
        plan,
        note="; ".join(note for note in (text.note, plan.note) if note),
        reading=text.reading,
        order=text.order,
        advice=text.advice or plan.advice,
    )


def _with_rank(source: Source, column: int, plan: ColumnPlan, settings: TableSettings) -> ColumnPlan:
    """Add the rank of the levels of an ordered category, unless there are only two or the column is not used."""
    if plan.order is None:
        return plan
    ordered = _plan_numbers(numbers_of(source, column, plan, declared=False), plan.name, "number", settings)
    if plan.encoding not in ("one-hot", "embedding") or len(plan.order) > settings.max_levels or not ordered.features:
        return replace(plan, order=None)
    features = tuple(replace(feature, part=RANK) for feature in ordered.features)
    return replace(plan, features=features)


def _plan_numbers(numbers: Floats, name: str, kind: Kind, settings: TableSettings) -> ColumnPlan:
    missing = np.isnan(numbers[0])
    n_missing = int(missing.sum())
    if n_missing == len(missing):
        return ColumnPlan(name, kind, n_missing, note="all missing: not used")
    features = []
    for part, row in zip(DATE_PARTS if kind == "datetime" else ("",), numbers, strict=True):
        present = np.sort(row[~missing] if n_missing else row)
        if is_constant(present):
            continue
        plain = settings.numeric_embedding is None or kind == "boolean" or is_two_valued(present)
        if kind == "boolean":
            fitted = untouched(present)
        elif not plain and settings.numeric_embedding == "piecewise":
            fitted = fit_bins(settings.n_basis, present)
        else:
            fitted = fit_scaling(settings.scaling, present)
        features.append(Feature(part, "plain" if plain else "embedded", fitted))
    indicator = n_missing > 0
    note = ""
    if not features:
        note = "constant: only whether it is missing is used" if indicator else "constant: not used"
        if indicator:
            part = DATE_PARTS[0] if kind == "datetime" else ""
            features = [Feature(part, "indicator only", NumberMap("identity"))]
    used = bool(features) and kind != "boolean"
    span = (float(np.nanmin(numbers[0])), float(np.nanmax(numbers[0]))) if used else None
    return ColumnPlan(name, kind, n_missing, features=tuple(features), indicator=indicator, note=note, span=span)


def _plan_category(cells: Any, name: str, settings: TableSettings) -> ColumnPlan:
    counts, n_missing = count_levels(cells)
    n_levels, indicator = len(counts), n_missing > 0
    if n_levels == 0:
        return ColumnPlan(name, "category", n_missing, 0, note="all missing: not used")
    encoding: CategoryEncoding
    note, advice = "", None
    if n_levels == 1 or n_levels <= settings.max_one_hot:
        levels = Levels(sorted(counts))
        if n_levels == 1:
            encoding = "indicator" if indicator else ""
            note = "constant: only whether it is missing is used" if indicator else "constant: not used"
        else:
            encoding = "two-level" if n_levels == 2 else "one-hot"
    elif settings.level_dim == 0 and settings.max_one_hot > 1:
        levels = Levels(sorted(frequent_levels(counts, 1, settings.max_one_hot).names))
        encoding = "two-level" if len(levels.names) == 2 else "one-hot"
        note = f"{n_levels - len(levels.names):,} less frequent levels have no encoded column"
    else:
        levels = frequent_levels(counts, settings.min_level_count, settings.max_levels)
        encoding = "embedding"
        n_rare = n_levels - len(levels.names)
        if n_rare:
            note = f"{n_rare:,} rare levels share one" if n_rare > 1 else "1 rare level"
        if not levels.names:
            note = f"no level has {settings.min_level_count} rows: "
            encoding = "indicator" if indicator else ""
            note += "only whether it is missing is used" if indicator else "not used"
            # Leaving out an identifier is right, but the column may contain numbers or dates written as text.
            advice = Advice("only gaps used" if indicator else "not used", name)
    if advice is None and _are_identifiers(counts):
        advice = Advice("identifiers", name)
    return ColumnPlan(
        name,
        "category",
        n_missing,
        n_levels,
        indicator=indicator and encoding != "embedding",  # an embedded category has a code for missing cells
        encoding=encoding,
        levels=levels if encoding else None,
        note=note,
        advice=advice,
    )


def _are_identifiers(counts: Counter[str]) -> bool:
    """Whether most rows have a level that hardly any other row shares, such as a customer number or free text."""
    if len(counts) < MIN_IDENTIFIERS:
        return False
    n_rows = sum(counts.values())
    return sum(count for count in counts.values() if count <= ROWS_OF_AN_IDENTIFIER) > n_rows / 2
