"""Every network is a graph: its matrices and its networkx graphs hold the same edges, with names."""

from __future__ import annotations

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tabgnm.nn import GNM, MLP, EmbeddedNetwork, GNMShape, InputEmbedding, MLPShape, NodeNames
from tabgnm.nn.network import Network
from tabgnm.nn.shapes import EmbeddedShape, Shape
from tests.nn.strategies import any_shapes, embedded_shapes, mlp_shapes, random_columns, seeds

EMBEDDING = InputEmbedding(n_plain=1, n_numeric=2, numeric_dim=2, levels=(4,), level_dim=3)


def network(shape: Shape, seed: int = 0) -> GNM | MLP | EmbeddedNetwork:
    make = {GNMShape: GNM, MLPShape: MLP, EmbeddedShape: EmbeddedNetwork}[type(shape)]
    return make(**shape.settings(), dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).eval()


@given(any_shapes)
def test_the_graphs_have_exactly_the_edges_of_the_matrices(shape: Shape) -> None:
    net = network(shape)
    matrices, graphs = net.adjacency(), net.graphs()
    assert matrices.shape == (shape.n_layers, net.layout.n_nodes, net.layout.n_nodes)
    matrices[:, net.layout.bias] = 0  # the bias node keeps its 1, which is not an edge
    for matrix, graph in zip(matrices, graphs, strict=True):
        found = {(u, v): weight for u, v, weight in graph.edges(data="weight")}
        expected = {(u, v): float(matrix[v, u]) for v, u in matrix.nonzero().tolist()}
        assert found == expected
        assert list(graph) == list(range(net.layout.n_nodes))


@given(embedded_shapes(), seeds)
def test_the_matrices_of_an_embedded_network_are_those_of_its_body(shape: EmbeddedShape, seed: int) -> None:
    net = network(shape, seed)
    body = network(shape.body)
    body.load_state_dict({name: value for name, value in net.state_dict().items() if not name.startswith("embed_")})
    assert torch.equal(net.adjacency(), body.adjacency()) and net.layout == body.layout
    x = random_columns(shape, 3, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(body(net.embed(x)), net(x))


@given(mlp_shapes())
def test_the_graphs_of_an_mlp_make_one_layered_graph(shape: MLPShape) -> None:
    net = network(shape)
    together = nx.compose_all(net.graphs())
    assert nx.is_directed_acyclic_graph(together)
    assert together.number_of_edges() == int(sum((value != 0).sum() for value in net.state_dict().values()))
    layer_of = nx.get_node_attributes(together, "layer")
    for layer, graph in enumerate(net.graphs(), start=1):
        assert all(layer_of[v] == layer and (u == net.layout.bias or layer_of[u] == layer - 1) for u, v in graph.edges)


def test_nodes_say_what_they_are() -> None:
    net = EmbeddedNetwork(EMBEDDING, GNMShape(EMBEDDING.n_outputs, 2, n_nodes=14, n_layers=2))
    nodes = net.graphs()[0].nodes
    inputs = ["x0", "x1[0]", "x1[1]", "x1[2]", "x2[0]", "x2[1]", "x2[2]", "x3[0]", "x3[1]", "x3[2]"]
    assert [nodes[v]["name"] for v in nodes] == [*inputs, "n0", "bias", "y0", "y1"]
    assert [nodes[v]["kind"] for v in nodes] == ["input"] * 10 + ["hidden", "bias", "output", "output"]
    assert [nodes[v]["column"] for v in range(10)] == ["x0"] + ["x1"] * 3 + ["x2"] * 3 + ["x3"] * 3
    assert "column" not in nodes[10]
    named = net.graphs(names=NodeNames.of_columns("abcd", "abcd", ["no", "yes"], EMBEDDING))[1].nodes
    assert [named[v]["name"] for v in (0, 1, 9, 13)] == ["a", "b[0]", "d[2]", "yes"]


@given(st.integers(1, 40), st.floats(0, 0.5))
def test_only_the_strongest_edges_are_kept_where_asked_for(max_edges: int, threshold: float) -> None:
    net = GNM(3, 2, n_nodes=9, n_layers=3, init="kaiming", generator=torch.Generator().manual_seed(0))
    for graph, full in zip(net.graphs(threshold, max_edges=max_edges), net.graphs(), strict=True):
        weights = sorted((abs(weight) for *_, weight in full.edges(data="weight")), reverse=True)
        expected = [weight for weight in weights if weight > threshold][:max_edges]
        assert sorted((abs(weight) for *_, weight in graph.edges(data="weight")), reverse=True) == expected
        assert graph.number_of_nodes() == full.number_of_nodes()


@pytest.mark.parametrize(
    "shape", [GNMShape(3, 2, 9, 3), MLPShape(3, 2, (4,)), EmbeddedShape(EMBEDDING, MLPShape(10, 1))]
)
def test_pruned_and_gated_edges_are_not_in_the_graph(shape: Shape) -> None:
    from torch.nn.utils import prune

    net = network(shape)
    before = sum(graph.number_of_edges() for graph in net.graphs())
    prune.l1_unstructured(net, "weight_1", amount=5)
    assert sum(graph.number_of_edges() for graph in net.graphs()) == before - 5
    gated: Network = type(net)(**shape.settings(), l0_gates=True)
    with torch.no_grad():
        gated.get_parameter("log_alpha_weight_1").fill_(-10.0)  # closed
    [first, *_] = gated.graphs()
    assert {u for u, _ in first.edges} <= {gated.layout.bias}
    assert first.number_of_edges() == (gated.adjacency()[0] != 0).sum() - 1


def test_bad_limits_of_a_graph_are_named() -> None:
    with pytest.raises(ValueError, match="max_edges=0 is too small; expected an integer >= 1"):
        MLP(2, 1).graphs(max_edges=0)
    for wrong in (-1.0, float("nan"), "a"):
        with pytest.raises(ValueError, match=r"threshold=.* is out of range; expected a finite number >= 0"):
            MLP(2, 1).graphs(threshold=wrong)  # type: ignore[arg-type]
