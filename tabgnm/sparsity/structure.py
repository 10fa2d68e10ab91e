"""What kind of network a machine is: layers, skip edges, nodes that are updated twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from tabgnm.sparsity.machine import Machine

if TYPE_CHECKING:
    from tabgnm.nn import MLP


class NotAnMLP(ValueError):
    """Some edge of the machine does not lead from one layer to the next."""


@dataclass(frozen=True)
class Structure:
    """What was recognized in a machine.

    Attributes
    ----------
    widths : tuple of int
        Units by depth, the used inputs first: depth is the longest path from an input.
    n_edges : int
        Without those of biases.
    n_biases : int
    skip_edges : tuple of (int, int)
        Pairs of values (source, reader) whose depths differ by more than one.
    functions : tuple of str
        Of the hidden units, the most frequent first.
    constant_outputs : tuple of int
        Positions of the outputs that depend on no input.
    nodes_updated_twice : tuple of str
        Nodes of the graph that have a unit in more than one layer.
    """

    widths: tuple[int, ...]
    n_edges: int
    n_biases: int
    skip_edges: tuple[tuple[int, int], ...]
    functions: tuple[str, ...]
    constant_outputs: tuple[int, ...]
    nodes_updated_twice: tuple[str, ...]

    @property
    def is_mlp(self) -> bool:
        """Whether every edge leads from one layer to the next, and all hidden units have the same function."""
        return not self.skip_edges and not self.constant_outputs and len(self.functions) <= 1 and len(self.widths) > 1


def depths(machine: Machine) -> list[int]:
    """Return for every value the length of the longest path from an input; 0 for inputs and constants.

    Outputs that depend on an input are all as deep as the deepest of them, as in a layered network.
    """
    depth = [0] * machine.n_values
    for value, unit in enumerate(machine.units, start=machine.n_inputs):
        depth[value] = max((1 + depth[source] for source in unit.sources), default=0)
    read = {source for unit in machine.units for source in unit.sources}
    ends = [value for value in machine.outputs if value >= machine.n_inputs and value not in read and depth[value]]
    deepest = max((depth[value] for value in ends), default=0)
    for value in ends:
        depth[value] = deepest
    return depth


def recognized(machine: Machine) -> Structure:
    """Return what kind of network a (simplified) machine is.

    Examples
    --------
    >>> from tabgnm.sparsity import Machine, Unit
    >>> hidden = Unit("h", 1, (0,), (1.0,), 0.5, "relu")
    >>> output = Unit("y", 2, (0, 2), (1.0, 2.0), 0.0, "identity")
    >>> structure = recognized(Machine(("a", "b"), (hidden, output), (3,), ("y",)))
    >>> structure.widths, structure.is_mlp, structure.skip_edges
    ((1, 1, 1), False, ((0, 3),))
    """
    depth = depths(machine)
    used = set(machine.used_inputs)
    units = range(machine.n_inputs, machine.n_values)
    constant = [place for place, value in enumerate(machine.outputs) if value in units and depth[value] == 0]
    counted = Counter(depth[value] for value in units if depth[value])
    widths = (len(used), *(counted[own] for own in range(1, max(counted, default=0) + 1)))
    skips = [
        (source, value)
        for value in units
        for source in machine.unit(value).sources
        if depth[value] - depth[source] != 1
    ]
    functions = Counter(machine.unit(value).function for value in units if value not in machine.outputs)
    nodes = Counter(unit.name.rsplit("_", 1)[0] for unit in machine.units if "_" in unit.name)
    return Structure(
        widths,
        sum(len(unit.sources) for unit in machine.units),
        sum(unit.bias != 0 for unit in machine.units),
        tuple(skips),
        tuple(name for name, _ in functions.most_common()),
        tuple(constant),
        tuple(sorted(name for name, count in nodes.items() if count > 1)),
    )


def described(machine: Machine) -> str:
    """Return in words what a machine is.

    Examples
    --------
    >>> from tabgnm.sparsity import Machine, Unit
    >>> hidden = Unit("h", 1, (0,), (1.0,), 0.5, "relu")
    >>> output = Unit("y", 2, (2,), (2.0,), 0.0, "identity")
    >>> print(described(Machine(("a", "b"), (hidden, output), (3,), ("y",))))
    An MLP with 1 hidden unit (relu): widths 1-1-1.
    2 edges and 1 bias. Of 2 inputs it uses 1: a. Not used: b.
    """
    structure = recognized(machine)
    widths = "-".join(map(str, structure.widths))
    n_hidden = machine.n_hidden
    hidden = _count(n_hidden, "hidden unit") + (f" ({', '.join(structure.functions)})" if structure.functions else "")
    n_skips = len(structure.skip_edges)
    if len(structure.widths) == 1:
        kind = "A constant: no output depends on an input."
    elif not n_hidden:
        kind = "A linear function of its inputs."
    elif structure.is_mlp:
        kind = f"An MLP with {hidden}: widths {widths}."
    elif n_skips == 0:
        kind = f"A layered network with {hidden}: widths {widths}."
    else:
        kind = f"An MLP with {hidden}, widths {widths}, and {_count(n_skips, 'skip edge')} past a layer."
    lines = [kind]
    if structure.nodes_updated_twice:
        lines.append(f"Updated in more than one layer: {', '.join(structure.nodes_updated_twice)}.")
    if structure.constant_outputs and len(structure.widths) > 1:
        names = [machine.output_names[place] for place in structure.constant_outputs]
        lines.append(f"Constant: {', '.join(names)}.")
    used = machine.used_inputs
    unused = [name for place, name in enumerate(machine.input_names) if place not in set(used)]
    said = f"{_count(structure.n_edges, 'edge')} and {_count(structure.n_biases, 'bias', 'biases')}. "
    said += f"Of {_count(machine.n_inputs, 'input')} it uses {len(used)}"
    said += f": {_listed([machine.input_names[place] for place in used])}." if used else "."
    said += f" Not used: {_listed(unused)}." if unused else ""
    return "\n".join([*lines, said])


def to_mlp(machine: Machine) -> MLP:
    """Return the MLP that a machine is; its inputs are all of the machine's.

    Raises
    ------
    NotAnMLP
        With the edges that do not fit.
    """
    from tabgnm.nn import MLP

    structure = recognized(machine)
    if not structure.is_mlp:
        shown = [f"{machine.name(source)} -> {machine.name(value)}" for source, value in structure.skip_edges[:5]]
        listed = f"; edges past a layer: {', '.join(shown)}" if shown else ""
        listed += " ..." if len(structure.skip_edges) > 5 else ""
        raise NotAnMLP(f"this machine is no layered network with one activation function{listed}")
    depth = depths(machine)
    n_layers = max(depth)
    members = [list(range(machine.n_inputs))]
    for layer in range(1, n_layers):
        members.append([v for v in range(machine.n_inputs, machine.n_values) if depth[v] == layer])
    members.append(list(machine.outputs))
    function = structure.functions[0] if structure.functions else "relu"
    dtype = torch.float64 if machine.dtype == "float64" else torch.float32
    mlp = MLP(
        machine.n_inputs, len(machine.outputs), [len(own) for own in members[1:-1]], activation=function, dtype=dtype
    )
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


def _count(n: int, one: str, many: str | None = None) -> str:
    return f"{n} {one}" if n == 1 else f"{n:,} {many or one + 's'}"


def _listed(names: list[str], longest: int = 12) -> str:
    shown = ", ".join(names[:longest])
    return shown if len(names) <= longest else f"{shown} and {len(names) - longest} more"
