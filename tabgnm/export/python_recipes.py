"""Recipes as calls of functions in exported Python files."""

from __future__ import annotations

from typing import Any

import numpy as np

from tabgnm.export.level_tables import level_table
from tabgnm.table.numbers import unit_of_knots
from tabgnm.table.recipes import Recipe

# The functions that read cells of each kind.
READERS = {
    "number": "number",
    "boolean": "boolean",
    "category": "text",
    "datetime": "moment",
    "duration": "seconds",
    "time": "seconds",
}


def part_of(recipe: Recipe) -> str:
    """Return the part of a date that a recipe reads; "" for other columns."""
    return recipe.part or "days" if recipe.kind == "datetime" else ""


def call_of(recipe: Recipe, dtype: str) -> tuple[str, list[Any]]:
    """Return the function that computes an encoded column from a cell, and its further arguments.

    Numbers are clipped to the range of `dtype`, the type of the estimator's encoded rows. Arguments may be lists of
    knots and tables of levels.
    """
    if recipe.what == "missing":
        return "missing", []
    if recipe.kind == "category":
        numbers, other = level_table(recipe)
        return "picked", [numbers, other]
    own = recipe.map
    assert own is not None
    limit = [] if dtype == "float64" else [float(np.finfo(dtype).max)]
    if own.method == "identity":
        return "unscaled", [float(own.fill), *limit]
    if own.method == "linear":
        return "scaled", [float(own.centre), float(own.scale), float(own.fill), *limit]
    if own.method == "smooth":
        return "smooth", [float(own.centre), float(own.scale), float(own.fill)]
    unit = unit_of_knots(own)
    arguments = [(own.knots * unit).tolist(), own.targets.tolist(), float(own.fill)]
    return "joined_lines", arguments if unit == 1 else [*arguments, float(unit)]
