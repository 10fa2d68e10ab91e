"""Recipes as calls of the functions that exported Python files contain."""

from __future__ import annotations

from typing import Any

import numpy as np

from tabgnm.export.level_tables import level_table
from tabgnm.table.numbers import unit_of_knots
from tabgnm.table.recipes import Recipe

# How cells of each kind are read.
READERS = {
    "number": "number",
    "boolean": "boolean",
    "category": "text",
    "datetime": "moment",
    "duration": "seconds",
    "time": "seconds",
}


def part_of(recipe: Recipe) -> str:
    """Return which part of a date a recipe reads; "" for other columns."""
    return recipe.part or "days" if recipe.kind == "datetime" else ""


def call_of(recipe: Recipe, dtype: str) -> tuple[str, list[Any]]:
    """Return the function that computes an encoded column from a cell, and its further arguments.

    Numbers are clipped to the range of `dtype`, that of the encoded rows of the estimator. Lists of knots and tables of
    levels are arguments like others.
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
