"""Categories in terms of every target language: texts, and a number for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tabgnm.table.numbers import NumberMap, NumberMaps
from tabgnm.table.recipes import Recipe


@dataclass(frozen=True)
class LevelValues:
    """An encoded column of a category: a number for each level.

    Attributes
    ----------
    missing : float
        The number of missing cells.
    levels : dict of str to float
        The number of each level, by its text.
    other : float
        The number of any other level.
    """

    missing: float
    levels: Mapping[str, float]
    other: float


def level_values(recipe: Recipe, *, single: bool = False) -> LevelValues:
    """Return the numbers that the recipe of a category computes; with `single`, in the precision of float32.

    Examples
    --------
    >>> recipe = Recipe("x: a or b", 0, "x", "category", "two-level", levels=("a", "b"))
    >>> level_values(recipe)
    LevelValues(missing=0.0, levels={'a': -1.0, 'b': 1.0}, other=0.0)
    """
    levels = recipe.levels
    if recipe.what == "level":
        return LevelValues(0.0, {levels[0]: 1.0}, 0.0)
    if recipe.what == "two-level":
        return LevelValues(0.0, {levels[0]: -1.0, levels[1]: 1.0}, 0.0)
    if recipe.what == "unknown":
        return LevelValues(1.0, dict.fromkeys(levels, 0.0), 1.0)
    if recipe.what == "missing":
        return LevelValues(1.0, {}, 0.0)
    if recipe.what == "code":
        other = len(levels) + 1.0 if recipe.rare else 0.0
        return LevelValues(0.0, {level: place + 1.0 for place, level in enumerate(levels)}, other)
    if recipe.what == "number" and recipe.map is not None:  # the rank of an ordered category
        fill, *values = _mapped(recipe.map, len(levels), single=single)
        return LevelValues(fill, dict(zip(levels, values, strict=True)), fill)
    raise ValueError(f"a category has no recipe {recipe.what!r}")


def _mapped(own: NumberMap, n_ranks: int, *, single: bool) -> list[float]:
    """Return the number of a missing rank, then those of all ranks."""
    ranks = np.arange(-1, n_ranks, dtype=np.float64)[None]
    NumberMaps([own]).apply(ranks, ranks < 0)
    return [float(value) for value in ranks[0].astype(np.float32 if single else np.float64)]
