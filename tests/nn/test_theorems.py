"""Theorem 1 (an MLP is asynchronous message passing) and Theorem 2 (an MLP is a GNM), and which GNMs are MLPs."""

from __future__ import annotations

import warnings

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tabgnm.nn import GNM, MLP, AsyncMLP, Edge, MLPShape, NotMultipartite, mlp_graph
from tests.nn.strategies import mlp_shapes, seeds


def random_mlp(shape: MLPShape, seed: int) -> MLP:
    torch.manual_seed(seed)
    return MLP(shape.n_inputs, shape.n_outputs, shape.hidden, activation=shape.activation, dtype=torch.float64)


def rows_for(net: MLP, n_rows: int = 7) -> torch.Tensor:
    return torch.randn(n_rows, net.shape.n_inputs, dtype=torch.float64)


def sequential(mlp: MLP) -> torch.nn.Sequential:
    """The same MLP from torch's own layers, as an independent reference."""
    functions = {
        "relu": torch.nn.ReLU,
        "leaky_relu": torch.nn.LeakyReLU,
        "elu": torch.nn.ELU,
        "gelu": torch.nn.GELU,
        "silu": torch.nn.SiLU,
        "mish": torch.nn.Mish,
        "softplus": torch.nn.Softplus,
        "tanh": torch.nn.Tanh,
        "sigmoid": torch.nn.Sigmoid,
        "identity": torch.nn.Identity,
    }
    layers: list[torch.nn.Module] = []
    for layer in range(1, mlp.shape.n_layers + 1):
        weight, bias = getattr(mlp, f"weight_{layer}"), getattr(mlp, f"bias_{layer}")
        linear = torch.nn.Linear(*weight.shape, dtype=torch.float64)
        with torch.no_grad():
            linear.weight.copy_(weight.T)
            linear.bias.copy_(bias)
        layers += [linear, functions[mlp.shape.activation]()]
    return torch.nn.Sequential(*layers[:-1])


@given(mlp_shapes(), seeds)
@settings(max_examples=100)
def test_the_mlp_is_torchs_mlp(shape: MLPShape, seed: int) -> None:
    mlp = random_mlp(shape, seed)
    x = rows_for(mlp)
    torch.testing.assert_close(mlp(x), sequential(mlp)(x), rtol=1e-12, atol=1e-12)


@given(mlp_shapes(), seeds)
@settings(max_examples=100)
def test_theorem_1_an_mlp_is_asynchronous_message_passing(shape: MLPShape, seed: int) -> None:
    mlp = random_mlp(shape, seed)
    asynchronous = AsyncMLP.from_mlp(mlp)
    x = rows_for(mlp)
    torch.testing.assert_close(asynchronous(x), mlp(x), rtol=1e-10, atol=1e-10)
    widths = shape.widths
    assert asynchronous.n_parameters() == mlp_graph(widths).number_of_edges() == mlp.n_parameters()


@given(mlp_shapes(), seeds)
@settings(max_examples=25)
def test_theorem_1_against_pytorch_geometric(shape: MLPShape, seed: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # its import compiles with torch.jit.script
        from torch_geometric.nn import MessagePassing

    class WeightedSum(MessagePassing):  # type: ignore[misc]
        def forward(self, h: torch.Tensor, edges: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            return self.propagate(edges, x=h, weight=weight)

        def message(self, x_j: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            return weight[:, None] * x_j

    mlp = random_mlp(shape, seed)
    x = rows_for(mlp, n_rows=3)
    graph = mlp_graph(shape.widths)
    layer_of = nx.get_node_attributes(graph, "layer")
    kind_of = nx.get_node_attributes(graph, "kind")
    weights = nx.get_edge_attributes(AsyncMLP.from_mlp(mlp).graph(), "weight")
    h = torch.zeros(graph.number_of_nodes(), len(x), dtype=torch.float64)
    h[[v for v in graph if kind_of[v] == "input"]] = x.T
    h[[v for v in graph if kind_of[v] == "bias"]] = 1
    activation = sequential(mlp)[1]
    aggregate = WeightedSum(aggr="sum")
    for layer in range(1, shape.n_layers + 1):
        into = [edge for edge in graph.edges if layer_of[edge[1]] == layer]
        edge_index = torch.tensor(into).T
        edge_weight = torch.tensor([weights[edge] for edge in into], dtype=torch.float64)
        message = aggregate(h, edge_index, edge_weight)
        updated = [v for v in graph if layer_of[v] == layer and kind_of[v] != "bias"]
        h[updated] = message[updated] if layer == shape.n_layers else activation(message[updated])
    outputs = h[[v for v in graph if kind_of[v] == "output"]].T
    torch.testing.assert_close(AsyncMLP.from_mlp(mlp)(x), outputs, rtol=1e-10, atol=1e-10)


@given(mlp_shapes(), seeds)
@settings(max_examples=100)
def test_theorem_2_an_mlp_is_a_gnm_with_one_node_per_neuron_and_back(shape: MLPShape, seed: int) -> None:
    mlp = random_mlp(shape, seed)
    gnm = GNM.from_mlp(mlp)
    x = rows_for(mlp)
    assert gnm.shape.n_nodes == sum(shape.widths) + 1
    torch.testing.assert_close(gnm(x), mlp(x), rtol=1e-10, atol=1e-10)
    back = gnm.to_mlp()
    assert back.shape.widths == shape.widths
    for name, parameter in mlp.named_parameters():
        torch.testing.assert_close(getattr(back, name), parameter, rtol=0, atol=0)


@given(mlp_shapes(), seeds, st.floats(0.3, 1.0))
@settings(max_examples=100)
def test_sparse_mlps_survive_the_way_there_and_back(shape: MLPShape, seed: int, dropped: float) -> None:
    mlp = random_mlp(shape, seed)
    with torch.no_grad():
        for parameter in mlp.parameters():
            parameter.mul_(torch.rand_like(parameter) > dropped)
    x = rows_for(mlp)
    torch.testing.assert_close(GNM.from_mlp(mlp).to_mlp()(x), mlp(x), rtol=1e-10, atol=1e-10)


def small_machine() -> tuple[GNM, torch.Tensor]:
    """Two inputs (0, 1), two hidden nodes (2, 3), the bias (4), one output (5); an MLP 2-1-1-1 over three layers."""
    gnm = GNM(2, 1, n_nodes=6, n_layers=3, dtype=torch.float64)
    matrices = torch.zeros(3, 6, 6, dtype=torch.float64)
    matrices[:, 4, 4] = 1
    matrices[0, 2, 0], matrices[0, 2, 1], matrices[0, 2, 4] = 1.0, -2.0, 0.5
    matrices[1, 3, 2] = 1.5
    matrices[2, 5, 3], matrices[2, 5, 4] = 2.0, -1.0
    return gnm, matrices


def test_a_layered_machine_is_its_mlp() -> None:
    gnm, matrices = small_machine()
    gnm.set_adjacency(matrices)
    mlp = gnm.to_mlp()
    assert mlp.shape.widths == (2, 1, 1, 1)
    x = torch.randn(5, 2, dtype=torch.float64)
    torch.testing.assert_close(mlp(x), gnm(x))


@pytest.mark.parametrize(
    ("why", "added"),
    [
        ("a neuron that is updated twice", [(2, 2, 2), (3, 2, 5)]),
        ("an edge inside a layer", [(1, 1, 3), (2, 3, 3)]),
        ("two neurons that update each other", [(1, 1, 3), (2, 3, 2), (3, 2, 5)]),
        ("an input that is updated", [(1, 0, 0), (2, 0, 3)]),
        ("an output that is updated before the last layer", [(2, 2, 5), (3, 5, 5)]),
    ],
)
def test_strict_inclusion_what_no_layered_mlp_can_do_is_refused(why: str, added: list[tuple[int, int, int]]) -> None:
    gnm, matrices = small_machine()
    for layer, source, target in added:
        matrices[layer - 1, target, source] = 0.7
    gnm.set_adjacency(matrices)
    with pytest.raises(NotMultipartite, match="offending edges") as caught:
        gnm.to_mlp()
    assert caught.value.edges, why
    for edge in caught.value.edges:
        assert matrices[edge.layer - 1, edge.target, edge.source] == edge.weight != 0
        matrices[edge.layer - 1, edge.target, edge.source] = 0
    gnm.set_adjacency(matrices)
    gnm.to_mlp()  # removing the named edges makes the graph layered


def test_the_offending_edge_is_named() -> None:
    gnm, matrices = small_machine()
    matrices[1, 2, 2], matrices[2, 5, 2] = 3.0, 0.25
    gnm.set_adjacency(matrices)
    with pytest.raises(NotMultipartite) as caught:
        gnm.to_mlp()
    assert caught.value.edges == [Edge(2, 2, 2, 3.0), Edge(3, 2, 5, 0.25)]
    assert "2->2 in layer 2" in str(caught.value)


def test_no_assignment_of_layers_makes_an_edge_inside_a_layer_layered() -> None:
    """The paper's strict inclusion, by brute force: over all assignments of the hidden nodes to layers."""
    gnm, matrices = small_machine()
    matrices[1, 2, 3] = 1.0  # 3 -> 2 while 2 -> 3: an edge inside the block of the two hidden nodes
    matrices[0, 3, 1] = matrices[2, 5, 2] = 1.0
    edges = {(k + 1, int(u), int(v)) for k in range(3) for v, u in matrices[k].nonzero().tolist() if v != 4}
    possible = []
    for first in (1, 2):
        for second in (1, 2):
            layer_of = {0: 0, 1: 0, 2: first, 3: second, 5: 3}
            possible.append(all(layer_of[v] == k and (u == 4 or layer_of[u] == k - 1) for k, u, v in edges))
    assert not any(possible)
    gnm.set_adjacency(matrices)
    with pytest.raises(NotMultipartite):
        gnm.to_mlp()


@pytest.mark.parametrize("option", [{"combine": "residual"}, {"combine": "gated"}, {"learn_initial": True}])
def test_variants_that_carry_state_are_no_mlps(option: dict[str, object]) -> None:
    with pytest.raises(NotMultipartite, match="can be an MLP"):
        GNM(2, 1, n_nodes=8, **option).to_mlp()  # type: ignore[arg-type]


@pytest.mark.parametrize("option", [{"clamp_inputs": True}, {"persistent_outputs": True}])
def test_clamped_and_persistent_machines_are_mlps_when_they_use_neither(option: dict[str, bool]) -> None:
    gnm, matrices = small_machine()
    variant = GNM(2, 1, n_nodes=6, n_layers=3, dtype=torch.float64, **option)  # type: ignore[arg-type]
    variant.set_adjacency(matrices)
    gnm.set_adjacency(matrices)
    x = torch.randn(5, 2, dtype=torch.float64)
    torch.testing.assert_close(variant.to_mlp()(x), gnm(x))
    uses_it = matrices.clone()
    if "clamp_inputs" in option:
        uses_it[2, 5, 0] = 1.0  # a skip connection from an input
    else:
        uses_it[0, 5, 0] = 1.0  # the output collects something in layer 1
    variant.set_adjacency(uses_it)
    with pytest.raises(NotMultipartite):
        variant.to_mlp()


def test_asynchronous_message_passing_on_a_dag_that_is_not_layered() -> None:
    graph = nx.DiGraph()
    graph.add_nodes_from(["x1", "x2"], kind="input")
    graph.add_node("b", kind="bias")
    graph.add_nodes_from(["h1", "h2"], kind="hidden")
    graph.add_node("y", kind="output")
    edges = [
        ("x1", "h1", 2.0),
        ("b", "h1", -1.0),
        ("h1", "h2", 1.0),
        ("x2", "h2", 1.0),
        ("h2", "y", 3.0),
        ("x1", "y", 0.5),
    ]
    graph.add_weighted_edges_from(edges)
    net = AsyncMLP(graph, dtype=torch.float64)
    x = torch.randn(9, 2, dtype=torch.float64)
    h1 = torch.relu(2 * x[:, 0] - 1)
    h2 = torch.relu(h1 + x[:, 1])
    torch.testing.assert_close(net(x)[:, 0], 3 * h2 + 0.5 * x[:, 0], rtol=1e-12, atol=1e-12)
    net(x).sum().backward()
    assert net.weight.grad is not None and net.weight.grad.abs().sum() > 0
