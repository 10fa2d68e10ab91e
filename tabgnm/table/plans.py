"""What is done with one raw column, decided from its training rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tabgnm.table.categories import Levels, count_levels, frequent_levels
from tabgnm.table.errors import TableError, warn_caller
from tabgnm.table.numbers import NumberMap, fit_bins, fit_scaling, is_constant, is_two_valued, untouched
from tabgnm.table.settings import TableSettings
from tabgnm.table.sources import Source
from tabgnm.table.values import DATE_PARTS, Floats, Values, as_booleans, as_moments, as_numbers, as_seconds, date_parts

Kind = Literal["number", "boolean", "category", "datetime", "duration", "time", "ignore"]
COLUMN_KINDS: tuple[Kind, ...] = ("number", "boolean", "category", "datetime", "duration", "time", "ignore")
CategoryEncoding = Literal["", "indicator", "two-level", "one-hot", "embedding"]
CATEGORY_ENCODINGS: tuple[CategoryEncoding, ...] = ("", "indicator", "two-level", "one-hot", "embedding")


@dataclass(frozen=True, eq=False)
class Feature:
    """One number that a raw column gives.

    Attributes
    ----------
    part : str
        "" for the number itself, else one of `DATE_PARTS`.
    role : {"plain", "embedded", "indicator only"}
        Whether it goes to the network as it is, is embedded there, or is only read to see where it is missing.
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
        Missing cells in the training rows.
    n_levels : int or None
        Distinct levels of a category in the training rows.
    features : tuple of Feature
        For numbers and what becomes numbers.
    indicator : bool
        Whether a column says where cells are missing (numbers), or missing or unknown (categories).
    encoding : CategoryEncoding
        Of a category; "" for everything else and where the column gives no encoded one.
    levels : Levels or None
    note : str
        What a user should know.
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


def inferred_kind(values: Values) -> Kind:
    """Return what a column is by its type."""
    if values.kind == "text" or values.kind == "empty":
        return "category"
    return values.kind


def numbers_of(values: Values, name: str, kind: Kind, *, declared: bool) -> Floats:
    """Return all numbers of a column: (1, rows), or (6, rows) for the parts of dates.

    `declared` says whether the kind is the user's word, not what the type of the column told.
    """
    if kind == "datetime":
        return date_parts(as_moments(values, name))
    if kind == "boolean":
        return as_booleans(values, name)[None]
    if kind == "number":
        return as_numbers(values, name, declared=declared)[None]
    return as_seconds(values, name, kind)[None]


def refuse_infinity(numbers: Floats, name: str, row_of: Callable[[int], int]) -> None:
    """Raise where a column has a number that is infinite; `row_of` gives the table's row for a position."""
    infinite = np.isinf(numbers)
    if infinite.any():
        place = int(infinite.argmax())
        raise TableError(
            f"Input X contains infinity or a value too large for dtype('float64'): column {name!r} has "
            f"{numbers[place]} in row {row_of(place)}; replace it by a number, or by NaN where it means a missing value"
        )


def plan_column(source: Source, column: int, name: str, settings: TableSettings, override: str | None) -> ColumnPlan:
    """Decide how to encode a column, from all rows of `source`."""
    if override == "ignore":
        return ColumnPlan(name, "ignore", note="left out as asked")
    kind: Any = override
    if kind != "category":
        values = source.values(column, name)
        kind = kind or inferred_kind(values)
    if kind == "category":
        return _plan_category(source.cells(column), name, settings)
    numbers = numbers_of(values, name, kind, declared=override is not None)
    refuse_infinity(numbers[0], name, values.row)
    return _plan_numbers(numbers, name, kind, settings)


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
    return ColumnPlan(name, kind, n_missing, features=tuple(features), indicator=indicator, note=note)


def _plan_category(cells: Any, name: str, settings: TableSettings) -> ColumnPlan:
    counts, n_missing = count_levels(cells)
    n_levels, indicator = len(counts), n_missing > 0
    if n_levels == 0:
        return ColumnPlan(name, "category", n_missing, 0, note="all missing: not used")
    encoding: CategoryEncoding
    note = ""
    if n_levels == 1 or n_levels <= settings.max_one_hot:
        levels = Levels(sorted(counts))
        if n_levels == 1:
            encoding = "indicator" if indicator else ""
            note = "constant: only whether it is missing is used" if indicator else "constant: not used"
        else:
            encoding = "two-level" if n_levels == 2 else "one-hot"
    else:
        levels = frequent_levels(counts, settings.min_level_count, settings.max_levels)
        encoding = "embedding"
        n_rare = n_levels - len(levels.names)
        if n_rare:
            note = f"{n_rare:,} rare levels share one" if n_rare > 1 else "1 rare level"
        if not levels.names:
            note = f"no level has {settings.min_level_count} rows: "
            encoding = "indicator" if indicator else ""
            what = "only whether it is missing is used" if indicator else "not used"
            note += what
            # An identifier is rightly left out, but so would be numbers or dates that came as text.
            warn_caller(
                f"no level of the category {name!r} has min_level_count={settings.min_level_count} training rows: "
                f"{what}; leave the column out, say that its text is numbers or dates, or use a smaller min_level_count"
            )
    return ColumnPlan(
        name,
        "category",
        n_missing,
        n_levels,
        indicator=indicator and encoding != "embedding",  # an embedded category has a code for it
        encoding=encoding,
        levels=levels if encoding else None,
        note=note,
    )
