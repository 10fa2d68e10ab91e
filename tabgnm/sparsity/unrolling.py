"""Conversion of networks to machines: one unit per node and layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from tabgnm.nn.node_names import NodeNames
from tabgnm.sparsity.machine import Machine, Unit, weighted
from tabgnm.sparsity.simplifying import with_short_names, without_dead

if TYPE_CHECKING:
    from tabgnm.nn import GNM, MLP


class NoMachine(ValueError):
    """The network multiplies values with each other, which the units of a machine cannot do."""


def unrolled(
    network: GNM | MLP, input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None
) -> Machine:
    """Convert a network to a machine, with the edges of nonzero weight that affect an output.

    Parameters
    ----------
    network : GNM or MLP
    input_names, output_names : sequence of str or None, default=None
        The names. If None, "x0", "x1", ... and "y0", "y1", ... Hidden nodes are named "n0", "n1", ..., as in the graph
        of the network. A node that is updated in several layers has a unit for each of them: "n0_1", "n0_2", ...

    Raises
    ------
    NoMachine
        If `combine="gated"`, because gates multiply values.

    Examples
    --------
    >>> import torch
    >>> from tabgnm.nn import GNM
    >>> network = GNM(n_inputs=2, n_outputs=1, n_nodes=6, n_layers=2)
    >>> adjacency = torch.zeros(2, 6, 6)
    >>> adjacency[0, 2, 1], adjacency[1, 5, 2] = 3.0, -1.0
    >>> network.set_adjacency(adjacency)
    >>> machine = unrolled(network, ["age", "height"], ["weight"])
    >>> [(unit.name, [machine.name(source) for source in unit.sources], unit.weights) for unit in machine.units]
    [('n0', ['height'], (3.0,)), ('weight', ['n0'], (-1.0,))]
    """
    from tabgnm.nn import GNM

    gnm = network if isinstance(network, GNM) else GNM.from_mlp(network)
    shape = gnm.shape
    if shape.combine == "gated":
        raise NoMachine(
            "combine='gated' multiplies values with each other, which the units of a machine cannot do; use "
            "combine='none' or 'residual'"
        )
    inputs = [f"x{i}" for i in range(shape.n_inputs)] if input_names is None else list(input_names)
    outputs = [f"y{i}" for i in range(shape.n_outputs)] if output_names is None else list(output_names)
    if len(inputs) != shape.n_inputs or len(outputs) != shape.n_outputs:
        raise ValueError(
            f"there are {len(inputs)} input names and {len(outputs)} output names; expected {shape.n_inputs} and "
            f"{shape.n_outputs}"
        )
    return _Unrolling(gnm, inputs, outputs).machine()


class _Unrolling:
    """The units of a GNM, layer after layer."""

    def __init__(self, gnm: GNM, input_names: list[str], output_names: list[str]) -> None:
        self.shape, self.layout = gnm.shape, gnm.layout
        matrices = gnm.adjacency()
        self.matrices = matrices.to("cpu", torch.float64).numpy()
        self.dtype = "float64" if matrices.dtype == torch.float64 else "float32"
        self.names = NodeNames(tuple(input_names), tuple(input_names), tuple(output_names))
        self.units: list[Unit] = []
        # The content of each node: a value of the machine, or None for 0 (and for the bias node, which is always 1).
        self.held: list[int | None] = [None] * self.layout.n_nodes
        for node in self.layout.inputs:
            self.held[node] = node
        if gnm.shape.learn_initial:
            initial = gnm.effective_parameters()["initial"].detach().to("cpu", torch.float64)
            places = [node for node in self.layout.updated if node >= self.shape.n_inputs]
            for node, value in zip(places, initial.tolist(), strict=True):
                self.held[node] = self._add(node, 0, [], [], value, "identity")

    def machine(self) -> Machine:
        """Return the machine, without units that no output depends on."""
        for layer in range(1, self.shape.n_layers + 1):
            self._pass_messages(layer)
        ends = []
        for node in self.layout.outputs:
            value = self.held[node]
            ends.append(self._add(node, self.shape.n_layers, [], [], 0.0, "identity") if value is None else value)
        machine = Machine(self.names.inputs, tuple(self.units), tuple(ends), self.names.outputs, self.dtype)
        return with_short_names(without_dead(machine))

    def _pass_messages(self, layer: int) -> None:
        shape, before = self.shape, list(self.held)
        last = layer == shape.n_layers
        for node in self.layout.updated:
            is_output = node in self.layout.outputs
            if (shape.clamp_inputs and node in self.layout.inputs) or (last and not is_output):
                continue
            row = self.matrices[layer - 1, node].tolist()
            edges = [(value, row[source]) for source, value in enumerate(before) if value is not None and row[source]]
            sources, weights = [value for value, _ in edges], [weight for _, weight in edges]
            bias = row[self.layout.bias]
            old = before[node]
            persists = shape.persistent_outputs and is_output
            function = "identity" if last or persists else shape.activation
            if persists:
                if old is not None:
                    sources, weights = [*sources, old], [*weights, 1.0]
                self.held[node] = self._add(node, layer, sources, weights, bias, function)
            elif shape.combine == "residual" and old is not None:
                added = self._add(node, layer, sources, weights, bias, function, suffix="_update")
                self.held[node] = self._add(node, layer, [old, added], [1.0, 1.0], 0.0, "identity")
            else:
                self.held[node] = self._add(node, layer, sources, weights, bias, function)

    def _add(
        self,
        node: int,
        layer: int,
        sources: list[int],
        weights: list[float],
        bias: float,
        function: str,
        suffix: str = "",
    ) -> int:
        own, factors = weighted(sources, weights)
        name = self.names.of_node(self.layout, node)
        is_result = node in self.layout.outputs and layer == self.shape.n_layers
        unique = name if is_result else f"{name}_{layer}"
        self.units.append(Unit(unique + suffix, layer, own, factors, bias, function, node=name))
        return self.shape.n_inputs + len(self.units) - 1
