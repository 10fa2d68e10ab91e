"""Encoded columns of categories as tables that map the text of a cell to a number."""

from __future__ import annotations

import numpy as np

from tabgnm.table.numbers import NumberMaps
from tabgnm.table.recipes import Recipe


def level_table(recipe: Recipe) -> tuple[dict[str | None, float], float]:
    """Return the recipe of a category as a table from texts to numbers, and the number of any other text.

    The key None stands for missing cells. It is in the table only if their number differs from that of unknown texts.

    Examples
    --------
    >>> level_table(Recipe("town", 0, "town", "category", "code", levels=("Bern", "Chur"), rare=True))
    ({'Bern': 1.0, 'Chur': 2.0, None: 0.0}, 3.0)
    """
    levels = recipe.levels
    if recipe.what == "level":
        return {levels[0]: 1.0}, 0.0
    if recipe.what == "two-level":
        return {levels[0]: -1.0, levels[1]: 1.0}, 0.0
    if recipe.what == "unknown":
        return dict.fromkeys(levels, 0.0), 1.0
    if recipe.what == "code":
        codes: dict[str | None, float] = {level: float(code) for code, level in enumerate(levels, start=1)}
        return (codes | {None: 0.0}, len(levels) + 1.0) if recipe.rare else (codes, 0.0)
    if recipe.what == "number" and recipe.map is not None:  # the rank of an ordered category
        ranks = np.arange(len(levels), dtype=np.float64)[None]
        NumberMaps([recipe.map]).apply(ranks, None)
        return dict(zip(levels, ranks[0].tolist(), strict=True)), float(recipe.map.fill)
    raise ValueError(f"recipe {recipe.what!r} of column {recipe.column_name!r} is not for a category")
