"""The columns that a small machine reads, and how its inputs are computed from them, as JSON values for the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tabgnm.export.formula_inputs import raw_fill
from tabgnm.export.levels import level_values
from tabgnm.table import read_table
from tabgnm.table.cells import canonical_cells
from tabgnm.table.numbers import unit_of_knots
from tabgnm.table.plans import ColumnPlan, numbers_of
from tabgnm.table.recipes import Recipe

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator

_DIGITS = 3  # of a typical number, within the range of its column


def column_data(position: int, plan: ColumnPlan, recipes: Sequence[Recipe]) -> dict[str, Any]:
    """Describe a column: kind, levels, range of the training rows and a typical cell.

    Parameters
    ----------
    position : int
        Of the column in the table.
    plan : ColumnPlan
    recipes : sequence of Recipe
        Of the inputs that come from this column.
    """
    levels = plan.order or (plan.levels.names if plan.levels is not None else ())
    has_time = plan.span is not None and any(not float(end).is_integer() for end in plan.span)
    return {
        "position": position,
        "name": plan.name,
        "kind": plan.kind,
        "ordered": plan.order is not None,
        "levels": list(levels),
        "span": None if plan.span is None else list(plan.span),
        "has_time": has_time or any(recipe.part == "hour" for recipe in recipes),
        "had_missing": plan.n_missing > 0,
        "typical": _typical(plan, recipes),
    }


def _typical(plan: ColumnPlan, recipes: Sequence[Recipe]) -> Any:
    """Return the first level, the middle one of ordered levels, or the mean or median of numbers."""
    if plan.kind == "category":
        if plan.order:
            return plan.order[len(plan.order) // 2]
        return plan.levels.names[0] if plan.levels is not None and plan.levels.names else None
    low, high = plan.span or (0.0, 1.0)
    middle = low / 2 + high / 2
    for recipe in recipes:
        if recipe.what == "number" and recipe.map is not None and recipe.part in ("", "days"):
            middle = raw_fill(recipe.map)
    if plan.kind == "boolean":
        return middle >= 0.5
    if plan.kind == "datetime":
        return date_text(math.floor(middle))
    return _rounded(middle, high - low)


def _rounded(number: float, width: float) -> float:
    """Round to a number with few digits within the width of a range."""
    if not 0 < width < math.inf:
        return number
    return round(number, max(-300, min(300, _DIGITS - 1 - math.floor(math.log10(width)))))


def date_text(days: float) -> str:
    """Return days since 1970 as a date, with the time if there is one.

    Examples
    --------
    >>> date_text(19782.0), date_text(19782.5)
    ('2024-02-29', '2024-02-29T12:00:00')
    """
    moment = np.datetime64(round(days * 86_400_000_000), "us")
    if float(days).is_integer():
        return str(moment.astype("datetime64[D]"))
    has_fraction = moment != moment.astype("datetime64[s]")
    return str(moment if has_fraction else moment.astype("datetime64[s]"))


def input_data(recipe: Recipe, column: int, *, single: bool) -> dict[str, Any]:
    """Describe how an input is computed; `column` is its place among the columns of the page.

    "what" is "number" (a map of a number or of a part of a date), "table" (a number for each level), "missing",
    "unknown" (missing, or none of the levels of the column) or "nothing".
    """
    common = {"column": column, "detail": _detail(recipe)}
    if recipe.what in ("missing", "nothing"):
        return common | {"what": recipe.what}
    if recipe.what == "unknown":
        return common | {"what": "unknown"}
    if recipe.kind == "category":
        values = level_values(recipe, single=single)
        return common | {
            "what": "table",
            "levels": list(values.levels),
            "numbers": list(values.levels.values()),
            "missing": values.missing,
            "other": values.other,
        }
    own = recipe.map
    assert own is not None
    part = recipe.part or ("days" if recipe.kind == "datetime" else "")
    found = common | {"what": "number", "part": part, "method": own.method, "fill": float(own.fill)}
    if own.method in ("linear", "smooth"):
        return found | {"center": float(own.centre), "scale": float(own.scale)}
    if own.method == "knots":
        unit = float(unit_of_knots(own))
        return found | {"knots": (own.knots * unit).tolist(), "targets": own.targets.tolist(), "unit": unit}
    return found


def _detail(recipe: Recipe) -> str:
    """Say what an input is beside the name of its column; "" where it is the column itself."""
    if recipe.what == "level":
        return f"= {recipe.levels[0]}"
    if recipe.what == "two-level":
        return f"{recipe.levels[0]} (−1) or {recipe.levels[1]} (+1)"
    if recipe.what == "missing":
        return "is missing"
    if recipe.what == "unknown":
        return "is missing or unknown"
    return recipe.part


def example_rows(model: TabularEstimator, columns: Sequence[dict[str, Any]], X: Any) -> list[list[Any]]:
    """Return the cells of some rows of a table as JSON values, one per column of the page."""
    raw = model._matched(read_table(X))
    plans = model.fitted_.groups[0].encoder.plans
    cells = [_cells(raw.source, column["position"], plans[column["position"]]) for column in columns]
    return [list(row) for row in zip(*cells, strict=True)]


def _cells(source: Any, position: int, plan: ColumnPlan) -> list[Any]:
    if plan.kind == "category":
        return list(canonical_cells(source.cells(position)))
    numbers = numbers_of(source, position, plan, declared=True)[0]
    if plan.kind == "datetime":
        return [None if math.isnan(own) else date_text(own) for own in numbers.tolist()]
    if plan.kind == "boolean":
        return [None if math.isnan(own) else own == 1 for own in numbers.tolist()]
    return [own if math.isfinite(own) else None for own in numbers.tolist()]
