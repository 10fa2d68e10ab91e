"""Recipes: how each encoded column is computed from a raw one, in terms that can be exported to other languages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tabgnm.table.layout import EncodedLayout
from tabgnm.table.numbers import NumberMap
from tabgnm.table.plans import ColumnPlan, Kind

What = Literal["number", "missing", "level", "two-level", "unknown", "code", "nothing"]


@dataclass(frozen=True, eq=False)
class Recipe:
    """How one encoded column is computed.

    Attributes
    ----------
    name : str
        The name of the encoded column.
    column : int
        The position of the raw column.
    column_name : str
    kind : Kind
        The kind of the raw column.
    what : {"number", "missing", "level", "two-level", "unknown", "code", "nothing"}
        - "number": `map` of the number, of a part of the date, or of the rank of a level; `map.fill` if it is missing;
        - "missing": 1 if the cell is missing, otherwise 0;
        - "level": 1 if the cell is `levels[0]`, otherwise 0;
        - "two-level": -1 for `levels[0]`, 1 for `levels[1]`, otherwise 0;
        - "unknown": 1 if the cell is missing or none of `levels`, otherwise 0;
        - "code": 0 if the cell is missing; the position in `levels`, counted from 1; for any other level,
          len(levels) + 1 if `rare`, otherwise 0;
        - "nothing": always 0, for a table without usable columns.
    part : str
        A part of a date (one of `DATE_PARTS`), "rank" of an ordered category, or "".
    map : NumberMap or None
    levels : tuple of str
        The texts of levels, as `tabgnm.table.cells.canonical` returns them; for "rank", all levels in order.
    rare : bool
    span : (float, float) or None
        The smallest and the largest number of the training rows, for dates in days since 1970; None if not known.
    """

    name: str
    column: int
    column_name: str
    kind: Kind
    what: What
    part: str = ""
    map: NumberMap | None = None
    levels: tuple[str, ...] = ()
    rare: bool = False
    span: tuple[float, float] | None = None


def recipes(plans: Sequence[ColumnPlan], layout: EncodedLayout) -> list[Recipe]:
    """Return the recipe of every encoded column, in their order."""
    found: dict[int, Recipe] = {}

    def add(target: int, column: int, what: What, **more: object) -> None:
        plan = plans[column]
        found[target] = Recipe(layout.names[target], column, plan.name, plan.kind, what, span=plan.span, **more)  # type: ignore[arg-type]

    for slot in layout.features:
        if slot.target is not None:
            part, order = slot.feature.part, plans[slot.column].order
            levels = order if part == "rank" and order is not None else ()
            add(slot.target, slot.column, "number", part=part, map=slot.feature.map, levels=levels)
    for feature, target in layout.indicators:
        add(target, layout.features[feature].column, "missing")
    for own in layout.categories:
        names = own.levels.names
        if own.encoding == "embedding":
            add(own.targets.start, own.column, "code", levels=names, rare=own.levels.rare)
        elif own.encoding == "two-level":
            add(own.targets.start, own.column, "two-level", levels=names)
        elif own.encoding == "one-hot":
            for target, level in zip(own.targets, names, strict=True):
                add(target, own.column, "level", levels=(level,))
        if own.indicator is not None:
            add(own.indicator, own.column, "unknown", levels=names)
    if layout.is_empty:
        add(0, 0, "nothing")
    return [found[target] for target in range(layout.n_encoded)]
