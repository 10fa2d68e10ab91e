"""What is drawn of a machine or of a learned graph: nodes in layers, and the strongest edges between them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tabgnm.nn.shapes import body_of
from tabgnm.sparsity import Machine
from tabgnm.sparsity.structure import depths

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator

Array = NDArray[Any]
Kind = Literal["input", "hidden", "output"]

_CONSIDERED = 20_000  # strongest edges of each layer of a large network, among which those to draw are chosen


@dataclass(frozen=True)
class DrawnNode:
    """A node.

    Attributes
    ----------
    name : str
    kind : {"input", "hidden", "output"}
    layer : int
        0 for inputs.
    function : str
        "" if it is not known.
    """

    name: str
    kind: Kind
    layer: int
    function: str = ""


@dataclass(frozen=True)
class DrawnEdge:
    """An edge between two nodes, by their positions."""

    source: int
    target: int
    weight: float


@dataclass(frozen=True)
class DrawnGraph:
    """Nodes and edges; `n_left_out` edges are too weak to be drawn."""

    nodes: tuple[DrawnNode, ...]
    edges: tuple[DrawnEdge, ...]
    n_left_out: int = 0

    @property
    def n_layers(self) -> int:
        """Layers, that of the inputs included."""
        return 1 + max((node.layer for node in self.nodes), default=0)


def graph_of_machine(machine: Machine, max_edges: int) -> DrawnGraph:
    """Return the strongest paths through a machine, its outputs, and the inputs and units that these paths join."""
    depth = depths(machine)
    last = max(1, *depth)
    nodes: dict[Hashable, DrawnNode] = {}
    for value in range(machine.n_inputs):
        nodes[value] = DrawnNode(machine.name(value), "input", 0)
    for value, unit in enumerate(machine.units, start=machine.n_inputs):
        nodes[value] = DrawnNode(unit.name, "hidden", max(1, depth[value]), unit.function)
    for value, name in zip(machine.outputs, machine.output_names, strict=True):
        if value >= machine.n_inputs:
            nodes[value] = DrawnNode(name, "output", depth[value] or last, machine.unit(value).function)
    edges = [
        (source, value, weight)
        for value in range(machine.n_inputs, machine.n_values)
        for source, weight in zip(machine.unit(value).sources, machine.unit(value).weights, strict=True)
    ]
    return _strongest(nodes, edges, max_edges, always=set(machine.outputs))


def graph_of_estimator(estimator: TabularEstimator, max_edges: int) -> DrawnGraph:
    """Return the strongest paths through the network with the largest weight, from its inputs to its outputs.

    Inputs are encoded columns, or learned features of them. Edges of different layers lead to different copies of a
    node, one per layer.
    """
    graphs = estimator.graph(max_edges=_CONSIDERED)
    position = int(np.argmax(estimator.fitted_.network_weights))
    for group in estimator.fitted_.groups:
        if position < group.n_networks:
            break
        position -= group.n_networks
    shape = group.shape
    body = body_of(shape)
    n_layers = len(graphs)
    nodes: dict[Hashable, DrawnNode] = {}
    edges: list[tuple[Hashable, Hashable, float]] = []
    for layer, graph in enumerate(graphs, start=1):
        data = graph.nodes

        def copied(node: int, at: int, data: Any = data) -> Hashable:
            own = data[node]
            if own["kind"] == "input" and (at == 0 or body.clamp_inputs):
                at = 0
            kind: Kind = "hidden"
            if at == 0:
                kind = "input"
            elif own["kind"] == "output" and at == n_layers:
                kind = "output"
            nodes[(node, at)] = DrawnNode(own["name"], kind, at, "" if kind != "hidden" else body.activation)
            return (node, at)

        for source, target, weight in graph.edges(data="weight"):
            if data[source]["kind"] != "bias":
                edges.append((copied(source, layer - 1), copied(target, layer), weight))
        if layer == n_layers:
            outputs = {copied(node, layer) for node in graph if data[node]["kind"] == "output"}
    n_all = sum(int((values != 0).sum()) for values in _weights(group.network(position), body))
    drawn = _strongest(nodes, edges, max_edges, always=outputs)
    return DrawnGraph(drawn.nodes, drawn.edges, n_all - len(drawn.edges))


def _weights(parameters: Any, body: Any) -> list[Any]:
    return [parameters[name] for name in body.edge_parameters() if not name.startswith("bias")]


def _strongest(
    nodes: dict[Hashable, DrawnNode],
    edges: Sequence[tuple[Hashable, Hashable, float]],
    max_edges: int,
    always: set[Any],
) -> DrawnGraph:
    """Keep the edges on the strongest paths from inputs to outputs, and what they join; the strongest edges first."""
    number = {key: place for place, key in enumerate(nodes)}
    kinds = [node.kind for node in nodes.values()]
    layers = np.array([node.layer for node in nodes.values()])
    ends = np.array([(number[source], number[target]) for source, target, _ in edges], dtype=np.intp).reshape(-1, 2)
    weights = np.array([weight for _, _, weight in edges])
    kept = np.arange(len(edges))
    if len(edges) > max_edges:
        kept = _on_strong_paths(ends, np.abs(weights), layers, kinds, max_edges)
    kept = kept[np.argsort(-np.abs(weights[kept]), kind="stable")]
    used = set(ends[kept].ravel().tolist()) | {number[key] for key in always}
    place = {old: new for new, old in enumerate(sorted(used))}
    all_nodes = list(nodes.values())
    drawn = tuple(DrawnEdge(place[ends[own, 0]], place[ends[own, 1]], float(weights[own])) for own in kept.tolist())
    return DrawnGraph(tuple(all_nodes[old] for old in place), drawn, len(edges) - len(drawn))


def _on_strong_paths(ends: Array, sizes: Array, layers: Array, kinds: Sequence[Kind], max_edges: int) -> Array:
    """Return at most so many edges, each on a path from an input to an output whose edges are all returned.

    The strength of an edge is the sum over all paths through it of the product of their absolute weights. Of the
    strongest edges, as many are taken as possible; those on no such path are left out. The strongest path to each
    output comes first, so that no output looks constant.
    """
    from_inputs = np.array([kind == "input" for kind in kinds], dtype=float)
    to_outputs = np.array([kind == "output" for kind in kinds], dtype=float)
    source, target = ends.T
    for layer in range(1, int(layers.max()) + 1):
        own = layers[target] == layer
        np.add.at(from_inputs, target[own], sizes[own] * from_inputs[source[own]])
        from_inputs[layers == layer] /= max(from_inputs[layers == layer].max(), 1e-300)
    for layer in range(int(layers.max()) - 1, -1, -1):
        own = layers[source] == layer
        np.add.at(to_outputs, source[own], sizes[own] * to_outputs[target[own]])
        to_outputs[layers == layer] /= max(to_outputs[layers == layer].max(), 1e-300)
    strongest = np.argsort(-(from_inputs[source] * sizes * to_outputs[target]), kind="stable")
    paths = _path_to_each_output(ends, sizes, layers, kinds)
    strongest = np.concatenate([paths, strongest[~np.isin(strongest, paths)]])
    low, high = 0, len(ends)  # numbers of strongest edges of which few enough (perhaps too many) are on a path
    while low < high:
        middle = (low + high + 1) // 2
        if len(_connected(strongest[:middle], ends, layers, kinds)) <= max_edges:
            low = middle
        else:
            high = middle - 1
    return _connected(strongest[:low], ends, layers, kinds)


def _path_to_each_output(ends: Array, sizes: Array, layers: Array, kinds: Sequence[Kind]) -> Array:
    """Return the edges of the path with the largest product of absolute weights to each output, strong paths first."""
    strength = np.array([1.0 if kind == "input" else 0.0 for kind in kinds])
    last_edge = np.full(len(kinds), -1)
    source, target = ends.T
    for layer in range(1, int(layers.max()) + 1):
        own = np.flatnonzero(layers[target] == layer)
        products = strength[source[own]] * sizes[own]
        rising = np.argsort(products, kind="stable")  # of several edges to a node, the strongest is assigned last
        strength[target[own[rising]]], last_edge[target[own[rising]]] = products[rising], own[rising]
    outputs = [node for node, kind in enumerate(kinds) if kind == "output" and strength[node] > 0]
    found: dict[int, None] = {}  # in order, each edge once
    for node in sorted(outputs, key=lambda node: -strength[node]):
        while last_edge[node] >= 0:
            found[int(last_edge[node])] = None
            node = source[last_edge[node]]
    return np.array(list(found), dtype=np.intp)


def _connected(kept: Array, ends: Array, layers: Array, kinds: Sequence[Kind]) -> Array:
    """Return the edges on a path from an input to an output."""
    reached = np.array([kind == "input" for kind in kinds])
    leads = np.array([kind == "output" for kind in kinds])
    source, target = ends[kept].T
    for layer in range(1, int(layers.max()) + 1):
        own = layers[target] == layer
        reached[target[own][reached[source[own]]]] = True
    for layer in range(int(layers.max()) - 1, -1, -1):
        own = layers[source] == layer
        leads[source[own][leads[target[own]]]] = True
    return np.asarray(kept[reached[source] & leads[target]])
