"""The two graphs of the paper as networkx graphs: G_MLP (layered, acyclic) and G_GNM (nearly complete).

Nodes have the attribute `kind` ("input", "hidden", "bias" or "output"); those of G_MLP also have `layer`. networkx is
imported by the functions that create graphs, because most programs do not need it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from tabgnm.nn.checks import positive_integer
from tabgnm.nn.layout import NodeLayout

if TYPE_CHECKING:
    import networkx as nx


def gnm_graph(layout: NodeLayout) -> nx.DiGraph:
    """Return G_GNM, the graph of a GNM.

    It has edges from all nodes to all nodes except the bias node, including self-loops.

    Examples
    --------
    >>> graph = gnm_graph(NodeLayout(n_inputs=2, n_outputs=1, n_nodes=6))
    >>> graph.number_of_nodes(), graph.number_of_edges()
    (6, 30)
    """
    import networkx as nx

    graph = nx.DiGraph()
    for node in range(layout.n_nodes):
        graph.add_node(node, kind=layout.kind(node))
    graph.add_edges_from((source, target) for target in layout.updated for source in range(layout.n_nodes))
    return graph


def mlp_graph(widths: Sequence[int]) -> nx.DiGraph:
    """Return G_MLP, the layered graph of an MLP; `widths` include inputs and outputs.

    Each layer except the last has a bias node. The m + n_1 + ... + c + K nodes are numbered layer by layer, with the
    bias of each layer after its neurons.

    Examples
    --------
    >>> graph = mlp_graph([2, 3, 1])
    >>> graph.number_of_nodes(), graph.number_of_edges()
    (8, 13)
    """
    import networkx as nx

    if len(widths) < 2:
        raise ValueError(
            f"widths={list(widths)!r} has {len(widths)} entries; expected at least the numbers of inputs and outputs"
        )
    checked = [positive_integer(f"widths[{i}]", width) for i, width in enumerate(widths)]
    graph = nx.DiGraph()
    before: list[int] = []
    for layer, width in enumerate(checked):
        last = layer == len(checked) - 1
        kind = "input" if layer == 0 else "output" if last else "hidden"
        first = graph.number_of_nodes()
        neurons = list(range(first, first + width))
        graph.add_nodes_from(neurons, kind=kind, layer=layer)
        graph.add_edges_from((source, target) for target in neurons for source in before)
        before = neurons
        if not last:
            graph.add_node(first + width, kind="bias", layer=layer)
            before = [*neurons, first + width]
    return graph


def in_neighbors(graph: nx.DiGraph, node: Hashable) -> set[Hashable]:
    """Return the sources of the edges into `node` (N with a left arrow in the paper)."""
    return set(graph.predecessors(node))


def out_neighbors(graph: nx.DiGraph, node: Hashable) -> set[Hashable]:
    """Return the targets of the edges out of `node` (N with a right arrow in the paper)."""
    return set(graph.successors(node))
