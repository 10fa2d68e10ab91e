"""Raw columns in ONNX: the inputs of the graph, and their encoding by recipes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabgnm.export.level_tables import level_table
from tabgnm.export.onnx_dates import date_part, split_moments
from tabgnm.export.onnx_graph import GraphBuilder
from tabgnm.export.program import RawColumn
from tabgnm.table.numbers import NumberMap, unit_of_knots
from tabgnm.table.recipes import Recipe

Array = NDArray[Any]

MATRIX = "X"


@dataclass(frozen=True)
class ColumnInput:
    """The input of a graph that a raw column is read from.

    Attributes
    ----------
    column : RawColumn
    input : str
        The name of the input, which is the same for all columns of a matrix.
    type : str
        "double", "float", "bool", "int64" or "string".
    """

    column: RawColumn
    input: str
    type: str


class ColumnReader:
    """Reads raw columns and encodes them.

    Parameters
    ----------
    graph : GraphBuilder
        The graph, to which the inputs have already been added.
    inputs : sequence of ColumnInput
    known_levels : dict of int to list of str
        For each category, the texts that occur in recipes.
    is_matrix : bool
        Whether all columns are in one input.
    """

    def __init__(
        self, graph: GraphBuilder, inputs: Sequence[ColumnInput], known_levels: dict[int, list[str]], *, is_matrix: bool
    ) -> None:
        self._graph, self._known_levels, self._is_matrix = graph, known_levels, is_matrix
        self._inputs = {own.column.position: own for own in inputs}
        self._features: dict[tuple[int, str], str] = {}
        self._codes: dict[int, str] = {}
        self._moments: dict[int, Any] = {}

    def encoded(self, recipes: Sequence[Recipe], dtype: str) -> str:
        """Return encoded columns, (rows, columns) in double, clipped to the range of `dtype`."""
        parts: list[str] = []
        order: list[int] = []

        def add(places: Sequence[int], tensor: str) -> None:
            parts.append(tensor)
            order.extend(places)

        for method in ("identity", "linear", "smooth", "knots"):
            places = [place for place, own in enumerate(recipes) if _method(own) == method]
            if places:
                add(places, self._mapped([recipes[place] for place in places], method, dtype))
        places = [place for place, own in enumerate(recipes) if own.what == "missing"]
        if places:
            missing = self._graph.op("IsNaN", self._numbers([recipes[place] for place in places]))
            add(places, self._graph.cast(missing, "float64"))
        for column in self._known_levels:
            places = [i for i, own in enumerate(recipes) if own.column == column and own.what != "nothing"]
            if places:
                add(places, self._looked_up(column, [recipes[place] for place in places]))
        places = [place for place, own in enumerate(recipes) if own.what == "nothing"]
        if places or not recipes:
            add(places or [0], self.zeros())
        joined = self._graph.joined(parts, axis=1)
        if order == sorted(order):
            return joined
        return self._graph.op("Gather", joined, self._graph.constant(np.argsort(order), np.int64), axis=1)

    def zeros(self) -> str:
        """Return zeros, (rows, 1) in double, with the number of rows of the inputs."""
        graph = self._graph
        rows = graph.op(
            "Slice", graph.op("Shape", graph.inputs[0].name), *(graph.constant([i], np.int64) for i in (0, 1))
        )
        shape = graph.op("Concat", rows, graph.constant([1], np.int64), axis=0)
        return graph.op("Expand", graph.constant([[0.0]]), shape)

    # Numbers

    def _feature(self, column: int, part: str) -> str:
        """Return the numbers of a column, (rows, 1) in double; NaN if missing."""
        key = (column, part)
        if key not in self._features:
            own = self._inputs[column]
            if own.column.kind != "datetime":
                self._features[key] = own.input if own.type == "double" else self._graph.cast(own.input, "float64")
            else:
                if column not in self._moments:
                    self._moments[column] = split_moments(self._graph, own.input)
                self._features[key] = date_part(self._graph, self._moments[column], part)
        return self._features[key]

    def _numbers(self, recipes: Sequence[Recipe]) -> str:
        """Return the numbers that recipes read, (rows, recipes) in double."""
        if not self._is_matrix:
            return self._graph.joined(
                [self._feature(own.column, own.part or _first_part(own)) for own in recipes], axis=1
            )
        where = self._graph.constant([own.column for own in recipes], np.int64)
        chosen = self._graph.op("Gather", MATRIX, where, axis=1)
        is_double = self._inputs[recipes[0].column].type == "double"
        return chosen if is_double else self._graph.cast(chosen, "float64")

    def _mapped(self, recipes: Sequence[Recipe], method: str, dtype: str) -> str:
        graph, maps = self._graph, [own.map for own in recipes if own.map is not None]
        x = self._numbers(recipes)
        missing = graph.op("IsNaN", x)
        y = x
        if method in ("linear", "smooth"):
            y = graph.op("Sub", x, graph.constant([[own.centre for own in maps]]))
            y = graph.op("Div", y, graph.constant([[own.scale for own in maps]]))
        if method == "smooth":
            y = graph.op("Clip", y, graph.constant(-1e9), graph.constant(1e9))
            third = graph.op("Div", y, graph.constant(3.0))
            root = graph.op("Sqrt", graph.op("Add", graph.op("Mul", third, third), graph.constant(1.0)))
            y = graph.op("Div", y, root)
        elif method == "knots":
            y = _interpolated(graph, x, maps)
        else:
            largest = float(np.finfo(dtype).max)
            y = graph.op("Clip", y, graph.constant(-largest), graph.constant(largest))
        return graph.op("Where", missing, graph.constant([[own.fill for own in maps]]), y)

    # Categories

    def _looked_up(self, column: int, recipes: Sequence[Recipe]) -> str:
        """Apply recipes to the texts of a category, by looking up a row of a table for each text."""
        graph, known = self._graph, self._known_levels[column]
        if column not in self._codes:
            texts, codes = [missing_text(known), *known], [0, *range(2, len(known) + 2)]
            encoded = graph.op(
                "LabelEncoder",
                self._inputs[column].input,
                domain="ai.onnx.ml",
                keys_strings=texts,
                values_int64s=codes,
                default_int64=1,
            )
            self._codes[column] = graph.op("Squeeze", encoded, graph.constant([1], np.int64))
        table = np.empty((len(known) + 2, len(recipes)))  # missing, unknown, then the known levels
        for place, recipe in enumerate(recipes):
            by_text, other = level_table(recipe)
            table[:, place] = [by_text.get(None, other), other, *(by_text.get(text, other) for text in known)]
        return graph.op("Gather", graph.constant(table), self._codes[column], axis=0)


def known_levels(recipes: Sequence[Recipe]) -> dict[int, list[str]]:
    """Return for each category the texts that occur in recipes, in order of their first use."""
    found: dict[int, dict[str, None]] = {}
    for own in recipes:
        if own.kind == "category" and own.what != "nothing":
            found.setdefault(own.column, {}).update(dict.fromkeys(own.levels))
    return {column: list(texts) for column, texts in found.items()}


def missing_text(known: Sequence[str]) -> str:
    """Return the text of a missing cell, as ONNX has no missing texts: "", or "<missing>" if "" is a level.

    Examples
    --------
    >>> missing_text(["Bern"]), missing_text(["", "Bern"]), missing_text(["", "<missing>"])
    ('', '<missing>', '<<missing>>')
    """
    text = "<missing>" if "" in known else ""
    while text in known:
        text = f"<{text}>"
    return text


def _method(recipe: Recipe) -> str | None:
    """Return how a recipe maps numbers; None for categories and for indicators."""
    return recipe.map.method if recipe.kind != "category" and recipe.map is not None else None


def _first_part(recipe: Recipe) -> str:
    return "days" if recipe.kind == "datetime" else ""


def _interpolated(graph: GraphBuilder, x: str, maps: Sequence[NumberMap]) -> str:
    """Interpolate linearly between knots, for all features at once, by a binary search in padded rows of knots."""
    units = [unit_of_knots(own) for own in maps]
    size = 1 << (max(len(own.knots) for own in maps) - 1).bit_length()
    knots = np.full((len(maps), size), np.inf)
    targets, slopes = np.zeros_like(knots), np.zeros_like(knots)
    for row, (own, unit) in enumerate(zip(maps, units, strict=True)):
        n = len(own.knots)
        knots[row, :n], targets[row, :n] = own.knots * unit, own.targets
        slopes[row, : n - 1] = np.diff(own.targets) / np.diff(own.knots * unit)
    if any(unit != 1 for unit in units):
        x = graph.op("Mul", x, graph.constant([units]))
    ends = [[own.knots[end] * unit for own, unit in zip(maps, units, strict=True)] for end in (0, -1)]
    x = graph.op("Min", graph.op("Max", x, graph.constant([ends[0]])), graph.constant([ends[1]]))
    all_knots = graph.constant(knots.ravel())
    place = graph.constant([np.arange(len(maps)) * size], np.int64)
    step = size // 2
    while step:
        further = graph.op("Add", place, graph.constant(step, np.int64))
        reached = graph.op("GreaterOrEqual", x, graph.op("Gather", all_knots, further, axis=0))
        place = graph.op("Where", reached, further, place)
        step //= 2
    knot, target, slope = (
        graph.op("Gather", own, place, axis=0)
        for own in (all_knots, graph.constant(targets.ravel()), graph.constant(slopes.ravel()))
    )
    return graph.op("Add", target, graph.op("Mul", graph.op("Sub", x, knot), slope))
