"""G_GNM and G_MLP have the nodes and edges that the paper gives them."""

from __future__ import annotations

import itertools

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tabgnm.nn import GNM, NodeLayout, gnm_graph, in_neighbors, mlp_graph, out_neighbors


def test_the_layout_of_the_papers_sparse_experiment() -> None:
    layout = NodeLayout(n_inputs=2, n_outputs=1, n_nodes=50)
    assert [layout.kind(v) for v in (0, 1, 2, 47, 48, 49)] == ["input", "input", "hidden", "hidden", "bias", "output"]


@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 6))
def test_the_gnm_graph_is_complete_but_for_edges_into_the_bias(m: int, c: int, n_hidden: int) -> None:
    layout = NodeLayout(m, c, m + c + n_hidden + 1)
    graph = gnm_graph(layout)
    n = layout.n_nodes
    assert graph.number_of_edges() == n * (n - 1)
    assert in_neighbors(graph, layout.bias) == set()
    assert out_neighbors(graph, layout.bias) == set(layout.updated)
    for node in layout.updated:
        assert in_neighbors(graph, node) == set(range(n)) and node in out_neighbors(graph, node)


@given(st.lists(st.integers(1, 6), min_size=2, max_size=5))
def test_the_mlp_graph_is_layered_with_a_bias_per_layer(widths: list[int]) -> None:
    graph = mlp_graph(widths)
    n_layers = len(widths) - 1
    assert nx.is_directed_acyclic_graph(graph)
    assert graph.number_of_nodes() == sum(widths) + n_layers
    kinds = [kind for _, kind in graph.nodes(data="kind")]
    assert kinds.count("bias") == n_layers and kinds.count("input") == widths[0] and kinds.count("output") == widths[-1]
    layer_of = nx.get_node_attributes(graph, "layer")
    assert all(layer_of[v] == layer_of[u] + 1 for u, v in graph.edges)
    assert graph.number_of_edges() == sum((a + 1) * b for a, b in itertools.pairwise(widths))


def test_the_learned_graphs_hold_the_weights() -> None:
    net = GNM(2, 1, n_nodes=6, n_layers=2)
    matrices = net.adjacency()
    graphs = net.graphs(threshold=0.1)
    for matrix, graph in zip(matrices, graphs, strict=True):
        kept = {(u, v) for v in range(6) for u in range(6) if v != net.layout.bias and matrix[v, u].abs() > 0.1}
        assert set(graph.edges) == kept
        assert all(graph.edges[u, v]["weight"] == pytest.approx(float(matrix[v, u])) for u, v in kept)
    assert sum(graph.number_of_edges() for graph in net.graphs()) == net.n_effective_parameters()


def test_bad_widths_and_nodes_are_named() -> None:
    with pytest.raises(ValueError, match=r"widths=\[3\] has 1 entries"):
        mlp_graph([3])
    with pytest.raises(ValueError, match=r"widths\[1\]=0 is too small"):
        mlp_graph([3, 0, 1])
    with pytest.raises(ValueError, match="node=7 does not exist"):
        NodeLayout(2, 1, 5).kind(7)
    assert torch.equal(GNM(2, 1, n_nodes=4).adjacency()[:, 2], torch.tensor([[0.0, 0, 1, 0]] * 2))
