"""Packs as Python source: weights encoded as text, and the code that uses them."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabgnm.export import python_arrays_runtime, python_cells_runtime, python_pack_runtime
from tabgnm.export.labels import plain_labels
from tabgnm.export.pack_program import Combination, PackGroup, PackProgram
from tabgnm.export.python_names import copied_source, literal
from tabgnm.export.python_recipes import READERS, call_of, part_of
from tabgnm.table.recipes import Recipe

Array = NDArray[Any]


class _Buffers:
    """Concatenates arrays and encodes them as text."""

    def __init__(self) -> None:
        self._arrays: dict[str, list[Array]] = {"<f4": [], "<f8": []}
        self._sizes = dict.fromkeys(self._arrays, 0)

    def add(self, array: Array | None) -> tuple[str, int, tuple[int, ...]] | None:
        """Add an array and return its place: type, position of its first number, shape."""
        if array is None:
            return None
        kind = "<f4" if array.dtype == np.float32 else "<f8"
        place = (kind, self._sizes[kind], array.shape)
        self._arrays[kind].append(array.astype(kind).ravel())
        self._sizes[kind] += array.size
        return place

    def source(self, name: str, kind: str) -> str:
        """Return the definition of a constant that contains all arrays of a type."""
        every = np.concatenate([np.zeros(0, kind), *self._arrays[kind]])
        text = base64.b85encode(every.tobytes()).decode("ascii")  # contains neither quotes nor backslashes
        lines = [text[start : start + 118] for start in range(0, len(text), 118)]
        return f'{name} = """\n' + "\n".join(lines) + '\n"""\n'


def pack_source(program: PackProgram, unnamed: list[str]) -> str:
    """Return the source after the docstring; `unnamed` as in `_columns_of`."""
    buffers = _Buffers()
    model = {
        "kind": program.kind,
        "dtype": program.dtype,
        "temperature": float(program.temperature),
        "is_sorted": program.is_sorted,
        "one_dimensional": program.one_dimensional,
        "largest": float(program.largest),
        "readers": {own.name: READERS[own.kind] for own in program.columns},
        "encoders": [[_step(own, program.dtype) for own in recipes] for recipes in program.recipes],
        "groups": [_group(own, buffers) for own in program.groups],
    }
    entries = ",\n".join(f"    {literal(name)}: {literal(value)}" for name, value in model.items())
    constants = [
        f"COLUMNS = {literal({own.name: own.kind for own in program.columns})}",
        f"UNNAMED: Any = {literal(unnamed)}",
        f"CLASSES: Any = {literal([plain_labels(own)[1] for own in program.classes])}",
        f"_MODEL: Any = {{\n{entries},\n}}",
        buffers.source("_FLOAT32", "<f4") + buffers.source("_FLOAT64", "<f8"),
    ]
    parts = [
        copied_source(python_cells_runtime),
        copied_source(python_arrays_runtime),
        "\n".join(constants),
        copied_source(python_pack_runtime),
    ]
    return "\n\n".join(parts)


def _step(recipe: Recipe, dtype: str) -> list[Any]:
    """Return the function, column, part of a date and arguments that compute one encoded column."""
    if recipe.what == "nothing":
        return ["nothing", "", "", []]
    function, arguments = call_of(recipe, dtype)
    return [function, recipe.column_name, part_of(recipe), arguments]


def _group(group: PackGroup, buffers: _Buffers) -> dict[str, Any]:
    link = group.link
    return {
        "encoder": group.encoder,
        "shares": buffers.add(group.shares),
        "activation": group.activation,
        "embedding": _embedding(group, buffers),
        "layers": [
            {
                "sources": list(layer.sources),
                "weights": [buffers.add(weight) for weight in layer.weights],
                "bias": buffers.add(layer.bias),
                "n_persistent": layer.n_persistent,
                "is_last": layer.is_last,
                "combination": _combination(layer.combination, buffers),
            }
            for layer in group.layers
        ],
        "scale": None if link is None else buffers.add(link.scale),
        "offset": None if link is None else buffers.add(link.offset),
        "most": None if link is None or link.most is None else float(link.most),
    }


def _embedding(group: PackGroup, buffers: _Buffers) -> dict[str, Any] | None:
    own, learned = group.embedding, group.embedding_parameters
    if own is None:
        return None
    return {
        "n_plain": own.n_plain,
        "n_numeric": own.n_numeric,
        "starts": np.cumsum([0, *own.levels[:-1]]).tolist() if own.levels else [],
        "frequency": buffers.add(learned.get("embed_frequency")),
        "phase": buffers.add(learned.get("embed_phase")),
        "weight": buffers.add(learned.get("embed_weight")),
        "bias": buffers.add(learned.get("embed_bias")),
        "levels": buffers.add(learned.get("embed_level")),
    }


def _combination(how: Combination | None, buffers: _Buffers) -> dict[str, Any] | None:
    if how is None:
        return None
    return {
        "source": how.source,
        "first": how.first,
        "n_zeros": how.n_zeros,
        "initial": buffers.add(how.initial),
        "gates": None if how.gates is None else [buffers.add(gate) for gate in how.gates],
    }
