"""A machine as a list of units: a network with only the edges that it needs, unrolled over its layers.

A sparse network is converted to a `Machine` to describe, draw, compile or export it. The values of a machine are
numbered: first the inputs, then the units, each after all units that it reads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tabgnm._printable import shown
from tabgnm.sparsity.functions import FUNCTIONS

Array = NDArray[Any]


@dataclass(frozen=True)
class Unit:
    """One node of one layer: function(bias + weights . values of the sources).

    Attributes
    ----------
    name : str
        A unique name among all units and inputs.
    layer : int
        The layer, starting at 1; inputs and learned initial values are in layer 0.
    sources : tuple of int
        The numbers of the values that the unit reads, in ascending order.
    weights : tuple of float
        One per source.
    bias : float
    function : str
        One of `tabgnm.nn.activation_names()`; "identity" for outputs.
    node : str, default=""
        The name of the graph node that the unit updates; "" if it is the name of the unit. A node that is updated in
        several layers has one unit per layer.
    """

    name: str
    layer: int
    sources: tuple[int, ...]
    weights: tuple[float, ...]
    bias: float
    function: str
    node: str = ""

    @property
    def n_edges(self) -> int:
        """The number of incoming edges; a nonzero bias counts as an edge from the bias node."""
        return len(self.sources) + (self.bias != 0)


@dataclass(frozen=True)
class Machine:
    """A sparse network: inputs, units in order of computation, and outputs.

    Parameters
    ----------
    input_names : sequence of str
    units : sequence of Unit
    outputs : sequence of int
        The numbers of the values that are outputs; an input may be an output.
    output_names : sequence of str
    dtype : {"float64", "float32"}, default="float64"
        The floating-point type that `run` uses.

    Examples
    --------
    >>> hidden = Unit("h1", 1, (0, 1), (1.0, -1.0), 0.5, "relu")
    >>> output = Unit("y", 2, (2,), (2.0,), -1.0, "identity")
    >>> machine = Machine(("a", "b"), (hidden, output), (3,), ("y",))
    >>> machine.run([[1.0, 0.25], [0.0, 3.0]])
    array([[ 1.5],
           [-1. ]])
    >>> machine.n_edges, machine.n_hidden, machine.n_layers
    (5, 1, 2)
    """

    input_names: tuple[str, ...]
    units: tuple[Unit, ...]
    outputs: tuple[int, ...]
    output_names: tuple[str, ...]
    dtype: str = field(default="float64")

    def __post_init__(self) -> None:
        for name in ("input_names", "units", "outputs", "output_names"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.dtype not in ("float32", "float64"):
            raise ValueError(f"dtype={shown(self.dtype)} is not known; use 'float32' or 'float64'")
        if len(self.outputs) != len(self.output_names) or not self.outputs:
            raise ValueError(
                f"there are {len(self.outputs)} outputs and {len(self.output_names)} output names; expected one name "
                "per output, and at least one output"
            )
        for number, unit in enumerate(self.units, start=self.n_inputs):
            _check_unit(unit, number)
        wrong = [value for value in self.outputs if not 0 <= value < self.n_values]
        if wrong:
            raise ValueError(
                f"output {wrong[0]} is not a value of this machine; expected numbers from 0 to {self.n_values - 1}"
            )

    @property
    def n_inputs(self) -> int:
        """The number of inputs, including unused ones."""
        return len(self.input_names)

    @property
    def n_values(self) -> int:
        """The number of values: inputs and units."""
        return len(self.input_names) + len(self.units)

    @property
    def n_edges(self) -> int:
        """The number of edges of all units, including those from the bias node."""
        return sum(unit.n_edges for unit in self.units)

    @property
    def n_hidden(self) -> int:
        """The number of units that are not outputs."""
        return len(self.units) - len({value for value in self.outputs if value >= self.n_inputs})

    @property
    def n_layers(self) -> int:
        """The number of layers; 0 if there are no units."""
        return max((unit.layer for unit in self.units), default=0)

    @property
    def used_inputs(self) -> tuple[int, ...]:
        """The positions of the inputs that are used."""
        read = self._read | set(self.outputs)
        return tuple(value for value in range(self.n_inputs) if value in read)

    def unit(self, value: int) -> Unit:
        """Return the unit with this number among the values."""
        if not self.n_inputs <= value < self.n_values:
            raise ValueError(f"value {value} is not a unit; expected {self.n_inputs} <= value < {self.n_values}")
        return self.units[value - self.n_inputs]

    def name(self, value: int) -> str:
        """Return the name of an input or a unit."""
        return self.input_names[value] if value < self.n_inputs else self.unit(value).name

    def is_only_output(self, value: int) -> bool:
        """Whether a value is a unit that is one output and nothing else: neither a hidden unit nor several outputs."""
        return value >= self.n_inputs and value not in self._read and self.outputs.count(value) == 1

    @cached_property
    def _read(self) -> set[int]:
        return {source for unit in self.units for source in unit.sources}

    @cached_property
    def _steps(self) -> list[tuple[Array, Array, float, Any]]:
        dtype = np.dtype(self.dtype)
        return [
            (
                np.array(unit.sources, dtype=np.intp),
                np.array(unit.weights, dtype=dtype),
                dtype.type(unit.bias),
                FUNCTIONS[unit.function].numpy,
            )
            for unit in self.units
        ]

    def values(self, x: ArrayLike) -> Array:
        """Compute the values of all inputs and units.

        Shape
        -----
        - x: (rows, inputs)
        - output: (rows, values)
        """
        rows = np.asarray(x, dtype=self.dtype)
        if rows.ndim != 2 or rows.shape[1] != self.n_inputs:
            raise ValueError(f"x has shape {rows.shape}; expected (rows, {self.n_inputs})")
        # One value per row of the array, as units read all rows of a value at once.
        values = np.empty((self.n_values, len(rows)), dtype=self.dtype)
        values[: self.n_inputs] = rows.T
        for number, (sources, weights, bias, function) in enumerate(self._steps, start=self.n_inputs):
            values[number] = function(weights @ values[sources] + bias if len(sources) else np.full(len(rows), bias))
        return values.T

    def run(self, x: ArrayLike) -> Array:
        """Compute the outputs.

        Shape
        -----
        - x: (rows, inputs)
        - output: (rows, outputs)
        """
        return np.ascontiguousarray(self.values(x)[:, list(self.outputs)])


def _check_unit(unit: Unit, number: int) -> None:
    if len(unit.sources) != len(unit.weights):
        raise ValueError(
            f"unit {shown(unit.name)} has {len(unit.sources)} sources and {len(unit.weights)} weights; expected one "
            "weight per source"
        )
    if any(not 0 <= source < number for source in unit.sources):
        raise ValueError(
            f"unit {shown(unit.name)} reads values {unit.sources}; expected values before it, with numbers below "
            f"{number}"
        )
    if any(a >= b for a, b in zip(unit.sources, unit.sources[1:], strict=False)):
        raise ValueError(
            f"unit {shown(unit.name)} reads values {unit.sources}; expected distinct values in ascending order"
        )
    if not all(map(math.isfinite, (*unit.weights, unit.bias))):
        raise ValueError(f"unit {shown(unit.name)} has a weight or bias that is not finite; expected finite numbers")
    if unit.function not in FUNCTIONS:
        raise ValueError(f"function={shown(unit.function)} is not known; use one of {', '.join(FUNCTIONS)}")


def weighted(sources: Sequence[int], weights: Sequence[float]) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return sources in ascending order with the sum of their weights; those with a sum of 0 are left out."""
    total: dict[int, float] = {}
    for source, weight in zip(sources, weights, strict=True):
        total[source] = total.get(source, 0.0) + weight
    kept = sorted((source, weight) for source, weight in total.items() if weight != 0)
    return tuple(source for source, _ in kept), tuple(weight for _, weight in kept)
