"""The learned graph of a network: one networkx graph per layer, with named nodes."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tabgnm._printable import shown
from tabgnm.nn.adjacency import edge_blocks
from tabgnm.nn.checks import positive_integer
from tabgnm.nn.node_names import NodeNames
from tabgnm.nn.shapes import GNMShape, MLPShape, Shape, body_of

if TYPE_CHECKING:
    import networkx as nx


def learned_graphs(
    shape: Shape,
    parameters: Mapping[str, Tensor],
    threshold: float = 0.0,
    max_edges: int | None = None,
    names: NodeNames | None = None,
) -> list[nx.DiGraph]:
    """Return the graph of each layer; see `Network.graphs`.

    `parameters` are those of one network, multiplied by their gates. No (n, n) matrices are created.
    """
    import networkx as nx

    if isinstance(threshold, bool) or not isinstance(threshold, numbers.Real) or not 0 <= threshold < math.inf:
        raise ValueError(
            f"threshold={shown(threshold)} is out of range; expected a finite number >= 0, where 0 keeps all edges"
        )
    if max_edges is not None:
        max_edges = positive_integer("max_edges", max_edges)
    names = NodeNames.numbered(shape) if names is None else names
    body = body_of(shape)
    nodes = _node_attributes(body, names)
    graphs = []
    for layer in range(1, body.n_layers + 1):
        sources, targets, weights = _edges(body, parameters, layer, float(threshold), max_edges)
        graph = nx.DiGraph()
        graph.add_nodes_from(nodes)
        graph.add_weighted_edges_from(zip(sources.tolist(), targets.tolist(), weights.tolist(), strict=True))
        graphs.append(graph)
    return graphs


def _node_attributes(body: GNMShape | MLPShape, names: NodeNames) -> list[tuple[int, dict[str, Any]]]:
    layout = body.layout
    nodes: list[tuple[int, dict[str, Any]]] = [
        (node, {"kind": layout.kind(node), "name": names.of_node(layout, node)}) for node in range(layout.n_nodes)
    ]
    for node, column in zip(layout.inputs, names.columns, strict=True):
        nodes[node][1]["column"] = column
    if isinstance(body, MLPShape):
        layers = [layer for layer, width in enumerate(body.widths) for _ in range(width)]
        layers.insert(layout.bias, 0)
        for (_, attributes), layer in zip(nodes, layers, strict=True):
            attributes["layer"] = layer
    return nodes


def _edges(
    body: GNMShape | MLPShape, parameters: Mapping[str, Tensor], layer: int, threshold: float, max_edges: int | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return sources, targets and weights of the selected edges, ordered by target, then by source."""
    parts = []
    for name, rows, columns, sources, targets in edge_blocks(body, layer):
        values = parameters[name].detach().cpu()
        values = values[columns].unsqueeze(0) if values.dim() == 1 else values[rows, columns]  # (sources, targets)
        source, target = (values.abs() > threshold).nonzero(as_tuple=True)
        parts.append((torch.tensor(sources)[source], torch.tensor(targets)[target], values[source, target]))
    source, target, weight = (torch.cat(part) for part in zip(*parts, strict=True))
    if max_edges is not None and max_edges < len(weight):
        strongest = weight.abs().argsort(descending=True, stable=True)[:max_edges]
        source, target, weight = source[strongest], target[strongest], weight[strongest]
    order = (target * body.layout.n_nodes + source).argsort()
    return source[order], target[order], weight[order]
