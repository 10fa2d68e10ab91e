"""The structure of machines: layers, skip edges, nodes that are updated in several layers."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from tabgnm.sparsity.machine import Machine, Unit

if TYPE_CHECKING:
    from tabgnm.nn import MLP

_LINE = 100  # characters of a line of a description


class NotAnMLP(ValueError):
    """The machine is not a layered network with one activation function.

    Attributes
    ----------
    edges : list of (str, str)
        The names of source and target of the edges that do not connect one layer to the next.
    """

    def __init__(self, reason: str, edges: Sequence[tuple[str, str]] = ()) -> None:
        self.edges = list(edges)
        listed = f": {listed_names([f'{source} -> {target}' for source, target in self.edges])}" if self.edges else ""
        super().__init__(f"this machine is not an MLP, because {reason}{listed}")


@dataclass(frozen=True)
class Structure:
    """The structure of a machine.

    Attributes
    ----------
    widths : tuple of int
        The number of used inputs, then the number of units at each depth, which is the length of the longest path from
        an input. Outputs that no unit reads are all in the last layer.
    n_edges : int
        The number of edges between inputs and units, without biases.
    n_biases : int
    skip_edges : tuple of (int, int)
        Pairs of values (source, target) whose depths differ by more than one.
    functions : tuple of str
        Activation functions of the hidden units, the most frequent first.
    constant_outputs : tuple of int
        Positions of the outputs that depend on no input.
    inner_outputs : tuple of int
        Positions of the outputs that are inputs, or that other units read.
    output_functions : tuple of str
        Activation functions of the outputs, except "identity".
    units_of_nodes : tuple of tuples of str
        The names of the units of each node of the graph that is updated in more than one layer.
    """

    widths: tuple[int, ...]
    n_edges: int
    n_biases: int
    skip_edges: tuple[tuple[int, int], ...]
    functions: tuple[str, ...]
    constant_outputs: tuple[int, ...]
    inner_outputs: tuple[int, ...]
    output_functions: tuple[str, ...]
    units_of_nodes: tuple[tuple[str, ...], ...]

    @property
    def is_constant(self) -> bool:
        """Whether no output depends on an input."""
        return self.widths[0] == 0

    @property
    def is_mlp(self) -> bool:
        """Whether the machine is an MLP: layered, with one activation function and linear outputs."""
        layered = not (self.is_constant or self.skip_edges or self.inner_outputs)
        return layered and len(self.functions) <= 1 and not self.output_functions


def depths(machine: Machine) -> list[int]:
    """Return the length of the longest path from an input to each value; 0 for inputs and hidden constants.

    All outputs that no unit reads get the depth of the deepest of them, as in a layered network.
    """
    depth = [0] * machine.n_values
    for value, unit in enumerate(machine.units, start=machine.n_inputs):
        depth[value] = max((1 + depth[source] for source in unit.sources), default=0)
    inner = _inner_values(machine)
    ends = [value for value in machine.outputs if value not in inner]
    deepest = max((depth[value] for value in ends), default=0)
    for value in ends:
        depth[value] = deepest
    return depth


def _inner_values(machine: Machine) -> set[int]:
    """Return the inputs and all values that units read."""
    return set(range(machine.n_inputs)) | {source for unit in machine.units for source in unit.sources}


def recognized(machine: Machine) -> Structure:
    """Return the structure of a (simplified) machine.

    Examples
    --------
    >>> from tabgnm.sparsity import Machine, Unit
    >>> hidden = Unit("h", 1, (0,), (1.0,), 0.5, "relu")
    >>> output = Unit("y", 2, (0, 2), (1.0, 2.0), 0.0, "identity")
    >>> structure = recognized(Machine(("a", "b"), (hidden, output), (3,), ("y",)))
    >>> structure.widths, structure.is_mlp, structure.skip_edges
    ((1, 1, 1), False, ((0, 3),))
    """
    depth, inner = depths(machine), _inner_values(machine)
    units = range(machine.n_inputs, machine.n_values)
    counted = Counter(depth[value] for value in units)
    skips = [
        (source, value)
        for value in units
        for source in machine.unit(value).sources
        if depth[value] - depth[source] != 1
    ]
    functions = Counter(machine.unit(value).function for value in units if value not in machine.outputs)
    of_outputs = {machine.unit(value).function for value in machine.outputs if value in units} - {"identity"}
    by_node: dict[str, list[Unit]] = {}
    for unit in machine.units:
        by_node.setdefault(unit.node or unit.name, []).append(unit)
    return Structure(
        widths=(len(machine.used_inputs), *(counted[own] for own in range(1, max(depth, default=0) + 1))),
        n_edges=sum(len(unit.sources) for unit in machine.units),
        n_biases=sum(unit.bias != 0 for unit in machine.units),
        skip_edges=tuple(skips),
        functions=tuple(name for name, _ in functions.most_common()),
        constant_outputs=tuple(
            place for place, value in enumerate(machine.outputs) if value in units and not machine.unit(value).sources
        ),
        inner_outputs=tuple(place for place, value in enumerate(machine.outputs) if value in inner),
        output_functions=tuple(sorted(of_outputs)),
        units_of_nodes=tuple(
            tuple(unit.name for unit in own) for own in by_node.values() if len({unit.layer for unit in own}) > 1
        ),
    )


def described(machine: Machine) -> str:
    """Describe a machine in words.

    Examples
    --------
    >>> from tabgnm.sparsity import Machine, Unit
    >>> hidden = Unit("h", 1, (0,), (1.0,), 0.5, "relu")
    >>> output = Unit("y", 2, (2,), (2.0,), 0.0, "identity")
    >>> print(described(Machine(("a", "b"), (hidden, output), (3,), ("y",))))
    An MLP with 1 input, 1 hidden unit (relu) and 1 output.
    It has 2 edges and 1 bias.
    It uses 1 of 2 inputs: a.
    It does not use: b.
    """
    structure = recognized(machine)
    lines = [
        _kind(machine, structure),
        f"It has {_count(structure.n_edges, 'edge')} and {_count(structure.n_biases, 'bias', 'biases')}.",
    ]
    if structure.skip_edges and machine.n_hidden:
        edges = [f"{machine.name(source)} -> {machine.name(value)}" for source, value in structure.skip_edges]
        lines.append(f"{_count(len(edges), 'edge skips', 'edges skip')} a layer: {listed_names(edges)}.")
    if structure.units_of_nodes:
        same = [" and ".join(names) for names in structure.units_of_nodes]
        lines.append(
            "A node of the graph has a unit in each layer that updates it. Units of the same node: "
            f"{listed_names(same)}."
        )
    if structure.constant_outputs and not structure.is_constant:
        names = [machine.output_names[place] for place in structure.constant_outputs]
        lines.append(f"Outputs that are constant: {listed_names(names)}.")
    used = machine.used_inputs
    unused = [name for place, name in enumerate(machine.input_names) if place not in set(used)]
    if used:
        names = [machine.input_names[place] for place in used]
        lines.append(f"It uses {len(used)} of {_count(machine.n_inputs, 'input')}: {listed_names(names)}.")
    if unused:
        lines.append(f"It does not use: {listed_names(unused)}.")
    return "\n".join(
        textwrap.fill(line, _LINE, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        for line in lines
    )


def _kind(machine: Machine, structure: Structure) -> str:
    if structure.is_constant:
        return "A constant: no output depends on an input."
    inputs = _count(structure.widths[0], "input")
    outputs = _count(len(machine.outputs), "output")
    if not machine.n_hidden and not structure.output_functions:
        return f"A linear function with {inputs} and {outputs}."
    outputs += f" ({', '.join(structure.output_functions)})" if structure.output_functions else ""
    functions = f" ({', '.join(structure.functions)})" if structure.functions else ""
    of = f"with {inputs}, {_count(machine.n_hidden, 'hidden unit')}{functions} and {outputs}"
    if len(structure.widths) > 3:
        *first, last = map(str, structure.widths[1:-1])
        of = f"with {inputs}, hidden layers of {', '.join(first)} and {last} units{functions}, and {outputs}"
    if structure.is_mlp:
        return f"An MLP {of}."
    if structure.inner_outputs or structure.output_functions or len(structure.functions) > 1:
        return f"A network {of}."
    return f"An MLP {of}, and with skip edges."


def to_mlp(machine: Machine) -> MLP:
    """Convert a machine to an MLP with the same inputs.

    Raises
    ------
    NotAnMLP
        If the machine is not an MLP. The error lists the edges that skip a layer.
    """
    from tabgnm.nn import MLP

    structure = recognized(machine)
    if not structure.is_mlp:
        raise _not_an_mlp(machine, structure)
    depth = depths(machine)
    n_layers = max(depth)
    units = range(machine.n_inputs, machine.n_values)
    hidden = [[value for value in units if depth[value] == layer] for layer in range(1, n_layers)]
    members = [list(range(machine.n_inputs)), *hidden, list(machine.outputs)]
    function = structure.functions[0] if structure.functions else "relu"
    dtype = torch.float64 if machine.dtype == "float64" else torch.float32
    mlp = MLP(machine.n_inputs, len(machine.outputs), list(map(len, hidden)), activation=function, dtype=dtype)
    with torch.no_grad():
        for layer in range(1, n_layers + 1):
            weight, bias = getattr(mlp, f"weight_{layer}"), getattr(mlp, f"bias_{layer}")
            weight.zero_()
            place = {value: row for row, value in enumerate(members[layer - 1])}
            for column, value in enumerate(members[layer]):
                unit = machine.unit(value)
                bias[column] = unit.bias
                for source, factor in zip(unit.sources, unit.weights, strict=True):
                    weight[place[source], column] = factor
    return mlp


def _not_an_mlp(machine: Machine, structure: Structure) -> NotAnMLP:
    if structure.is_constant:
        return NotAnMLP("none of its outputs depends on an input")
    if structure.skip_edges:
        edges = [(machine.name(source), machine.name(value)) for source, value in structure.skip_edges]
        return NotAnMLP("some edges do not connect one layer to the next", edges)
    if structure.inner_outputs:
        place = structure.inner_outputs[0]
        value, name = machine.outputs[place], machine.output_names[place]
        if value < machine.n_inputs:
            return NotAnMLP(f"its output {name} is the input {machine.name(value)}")
        readers = [(machine.name(value), unit.name) for unit in machine.units if value in unit.sources]
        return NotAnMLP(f"other units read its output {name}", readers)
    if structure.output_functions:
        return NotAnMLP(f"its outputs have an activation function ({', '.join(structure.output_functions)})")
    return NotAnMLP(f"its hidden units have different activation functions ({', '.join(structure.functions)})")


def _count(n: int, one: str, many: str | None = None) -> str:
    return f"{n} {one}" if n == 1 else f"{n:,} {many or one + 's'}"


def listed_names(names: Sequence[str], longest: int = 12) -> str:
    """Return names joined by commas; a long list is shortened and ends with the number of further names."""
    shown = ", ".join(names[:longest])
    return shown if len(names) <= longest else f"{shown} and {len(names) - longest:,} more"
