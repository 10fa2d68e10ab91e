"""Networks in ONNX: the units of a small machine level by level, and stacked networks layer by layer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabgnm.export.onnx_graph import GraphBuilder
from tabgnm.export.pack_program import Combination, PackGroup, PackLayer
from tabgnm.sparsity import Machine

Array = NDArray[Any]


class Arithmetic:
    """Operations on tensors of one type.

    Activations consist of operators that onnxruntime supports for float and double, except for erf, which it supports
    only for float.

    Parameters
    ----------
    graph : GraphBuilder
    dtype : {"float32", "float64"}
    """

    def __init__(self, graph: GraphBuilder, dtype: str) -> None:
        self.graph, self.dtype = graph, dtype
        self.op = graph.op

    def constant(self, values: Any) -> str:
        """Return a constant."""
        return self.graph.constant(values, self.dtype)

    def activation(self, name: str, z: str) -> str:
        """Return an activation function of a tensor."""
        return _ACTIVATIONS[name](self, z)

    def _leaky_relu(self, z: str) -> str:
        return self.op("Max", z, self.op("Mul", z, self.constant(0.01)))

    def _elu(self, z: str) -> str:
        below = self.op("Sub", self.op("Exp", self.op("Min", z, self.constant(0.0))), self.constant(1.0))
        return self.op("Where", self.op("Greater", z, self.constant(0.0)), z, below)

    def _gelu(self, z: str) -> str:
        scaled = self.op("Mul", z, self.constant(math.sqrt(0.5)))
        erf = self.op("Erf", scaled if self.dtype == "float32" else self.graph.cast(scaled, "float32"))
        erf = erf if self.dtype == "float32" else self.graph.cast(erf, self.dtype)
        return self.op("Mul", self.op("Mul", z, self.constant(0.5)), self.op("Add", erf, self.constant(1.0)))

    def _softplus(self, z: str) -> str:
        small = self.op("Exp", self.op("Neg", self.op("Abs", z)))
        return self.op("Add", self.op("Relu", z), self.op("Log", self.op("Add", small, self.constant(1.0))))

    def _mish(self, z: str) -> str:
        return self.op("Mul", z, self.op("Tanh", self._softplus(z)))

    # Small machines

    def machine(self, machine: Machine, inputs: str) -> str:
        """Return the outputs of a machine, (rows, outputs); `inputs` has at least one column."""
        level_of = dict.fromkeys(range(machine.n_inputs), 0)
        levels: list[list[int]] = []
        for value, unit in enumerate(machine.units, start=machine.n_inputs):
            level = level_of[value] = 1 + max((level_of[source] for source in unit.sources), default=0)
            levels += [[] for _ in range(level - len(levels))]
            levels[level - 1].append(value)
        place = {value: value for value in range(machine.n_inputs)}  # position of each value among all values so far
        values, n_values = inputs, max(machine.n_inputs, 1)
        for own in levels:
            own.sort(key=lambda value: machine.unit(value).function)
            values = self.graph.joined([values, self._level(machine, own, place, values, n_values)])
            place |= {value: n_values + i for i, value in enumerate(own)}
            n_values += len(own)
        return self.op("Gather", values, self.graph.constant([place[v] for v in machine.outputs], np.int64), axis=1)

    def _level(self, machine: Machine, own: list[int], place: dict[int, int], values: str, n_values: int) -> str:
        units = [machine.unit(value) for value in own]
        read = sorted({place[source] for unit in units for source in unit.sources}) or [0]
        if len(read) < n_values:
            values = self.op("Gather", values, self.graph.constant(read, np.int64), axis=1)
        row = {value: i for i, value in enumerate(read)}
        weight = np.zeros((len(read), len(units)))
        for column, unit in enumerate(units):
            weight[[row[place[source]] for source in unit.sources], column] = unit.weights
        z = self.op("MatMul", values, self.constant(weight))
        z = self.op("Add", z, self.constant([[unit.bias for unit in units]]))
        functions = [unit.function for unit in units]
        if len(set(functions)) == 1:
            return self.activation(functions[0], z)
        parts = []
        for name in dict.fromkeys(functions):
            first = functions.index(name)
            parts.append(self.activation(name, self.graph.columns(z, first, first + functions.count(name))))
        return self.graph.joined(parts)

    # Stacked networks

    def outputs(self, group: PackGroup, rows: str) -> str:
        """Return the outputs of all networks of a group, (networks, rows, outputs), for encoded rows."""
        inputs = self._embedded(group, rows)
        held = {"inputs": inputs}
        for layer in group.layers:
            self._layer(group, layer, held)
        return held["outputs" if group.layers[-1].n_persistent else "state"]

    def _layer(self, group: PackGroup, layer: PackLayer, held: dict[str, str]) -> None:
        """Replace the state and the persistent outputs with those after a layer."""
        message = ""
        for source, weight in zip(layer.sources, layer.weights, strict=True):
            product = self.op("MatMul", held[source], self.constant(weight))
            message = self.op("Add", message, product) if message else product
        message = self.op("Add", message, self.constant(layer.bias))
        n_nodes = layer.bias.shape[-1]
        if layer.n_persistent:
            added = self.graph.columns(message, n_nodes - layer.n_persistent, n_nodes)
            outputs = self.op("Add", held["outputs"], added) if "outputs" in held else added
            message = self.graph.columns(message, 0, n_nodes - layer.n_persistent)
            held["outputs"] = outputs
        if n_nodes > layer.n_persistent:
            candidate = message if layer.is_last else self.activation(group.activation, message)
            held["state"] = self._combined(layer.combination, candidate, message, held)

    def _combined(self, how: Combination | None, candidate: str, message: str, held: dict[str, str]) -> str:
        if how is None:
            return candidate
        previous = held[how.source]
        if how.first:
            previous = self.graph.columns(previous, how.first, np.iinfo(np.int32).max)
        if how.n_zeros:
            pads = self.graph.constant([0, 0, 0, 0, 0, how.n_zeros], np.int64)
            previous = self.op("Pad", previous, pads)
        if how.initial is not None:
            previous = self.op("Add", previous, self.constant(how.initial))
        if how.gates is None:
            return self.op("Add", previous, candidate)
        by_state, by_message, constant = map(self.constant, how.gates)
        logit = self.op("Add", self.op("Mul", by_state, previous), self.op("Mul", by_message, message))
        gate = self.op("Sigmoid", self.op("Add", logit, constant))
        return self.op("Add", previous, self.op("Mul", gate, self.op("Sub", candidate, previous)))

    def _embedded(self, group: PackGroup, rows: str) -> str:
        """Return the inputs of the body, (networks, rows, inputs), or (1, rows, inputs) if all networks share them."""
        embedding, learned, graph, n_networks = (
            group.embedding,
            group.embedding_parameters,
            self.graph,
            len(group.shares),
        )
        if embedding is None:
            return self.op("Unsqueeze", rows, graph.constant([0], np.int64))
        parts = []
        if embedding.n_plain:
            plain = graph.columns(rows, 0, embedding.n_plain)
            parts.append(self.op("Expand", plain, graph.constant([n_networks, 1, 1], np.int64)))
        if embedding.n_numeric:
            parts.append(
                self._embedded_numbers(group, graph.columns(rows, embedding.n_plain, embedding.first_category))
            )
        if embedding.levels:
            codes = graph.cast(graph.columns(rows, embedding.first_category, embedding.n_columns), "int64")
            starts = np.cumsum([0, *embedding.levels[:-1]])
            codes = self.op("Add", codes, graph.constant([starts], np.int64))
            chosen = self.op("Gather", self.constant(learned["embed_level"]), codes, axis=1)
            shape = graph.constant([0, 0, len(embedding.levels) * embedding.level_dim], np.int64)
            parts.append(self.op("Reshape", chosen, shape))
        return graph.joined(parts)

    def _embedded_numbers(self, group: PackGroup, numbers: str) -> str:
        """Embed numbers (rows, columns); return an array (networks, rows, columns x width)."""
        embedding, learned, graph = group.embedding, group.embedding_parameters, self.graph
        assert embedding is not None
        x = self.op("Unsqueeze", self.op("Transpose", numbers, perm=[1, 0]), graph.constant([2], np.int64))
        if embedding.numeric == "periodic":
            frequency = self.constant(2 * math.pi * learned["embed_frequency"][:, :, None])
            angle = self.op("Add", self.op("Mul", x, frequency), self.constant(learned["embed_phase"][:, :, None]))
            basis = self.op("Cos", angle)  # (networks, columns, rows, basis)
        else:
            coordinates = self.op("Sub", x, self.constant(np.arange(embedding.n_basis)))
            basis = self.op("Clip", coordinates, self.constant(0.0), self.constant(1.0))  # (columns, rows, basis)
        mixed = self.op("MatMul", basis, self.constant(learned["embed_weight"]))
        mixed = self.op("Add", mixed, self.constant(learned["embed_bias"][:, :, None]))
        if embedding.numeric == "periodic":
            every = self.op("Expand", x, graph.constant([len(group.shares), 1, 1, 1], np.int64))
            mixed = graph.joined([every, mixed])
        by_row = self.op("Transpose", mixed, perm=[0, 2, 1, 3])
        width = embedding.n_numeric * embedding.numeric_width
        return self.op("Reshape", by_row, graph.constant([0, 0, width], np.int64))


_ACTIVATIONS: dict[str, Callable[[Arithmetic, str], str]] = {
    "identity": lambda own, z: z,
    "relu": lambda own, z: own.op("Relu", z),
    "leaky_relu": Arithmetic._leaky_relu,
    "elu": Arithmetic._elu,
    "gelu": Arithmetic._gelu,
    "silu": lambda own, z: own.op("Mul", z, own.op("Sigmoid", z)),
    "mish": Arithmetic._mish,
    "softplus": Arithmetic._softplus,
    "tanh": lambda own, z: own.op("Tanh", z),
    "sigmoid": lambda own, z: own.op("Sigmoid", z),
}
