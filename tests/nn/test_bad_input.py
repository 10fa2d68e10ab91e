"""Bad input gets an error that names the value, the expectation and the remedy."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import pytest
import torch

from tabgnm.nn import GNM, MLP, AsyncMLP, mlp_graph


def cyclic() -> nx.DiGraph:
    graph = mlp_graph([2, 2, 1])
    graph.add_edge(3, 4)
    graph.add_edge(4, 3)
    return graph


def graph_with(change: Callable[[nx.DiGraph], object]) -> nx.DiGraph:
    graph = mlp_graph([2, 2, 1])
    change(graph)
    return graph


def adjacency_with(k: int, v: int, u: int, value: float) -> torch.Tensor:
    matrices = GNM(2, 1, n_nodes=6).adjacency()
    matrices[k, v, u] = value
    return matrices


NAN, INF = float("nan"), float("inf")

# what is done, the error, a part of its message
TABLE: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: GNM(42, 3, n_nodes=45), ValueError, r"n_nodes=45 is too small: 42 inputs \+ 3 outputs \+ 1 bias.*n_nodes>=46"),
    (lambda: GNM(0, 1), ValueError, "n_inputs=0 is too small; expected an integer >= 1"),
    (lambda: GNM(2, 0), ValueError, "n_outputs=0 is too small"),
    (lambda: GNM(2, 1, n_layers=0), ValueError, "n_layers=0 is too small; expected an integer >= 1"),
    (lambda: GNM(2, 1, n_layers=-3), ValueError, "n_layers=-3 is too small"),
    (lambda: GNM(2.5, 1), TypeError, "n_inputs=2.5 has type float; expected an integer"),  # type: ignore[arg-type]
    (lambda: GNM(2, 1, n_nodes="auto"), TypeError, "n_nodes='auto' has type str"),  # type: ignore[arg-type]
    (lambda: GNM(2, True), TypeError, "n_outputs=True has type bool"),
    (lambda: GNM(2, 1, activation="swish"), ValueError, "activation='swish' is not known; use one of relu, leaky_relu"),
    (lambda: GNM(2, 1, init="xavier"), ValueError, "init='xavier' is not known; use one of 'paper', 'kaiming'"),
    (lambda: GNM(2, 1, combine="sum"), ValueError, "combine='sum' is not known; use one of 'none', 'residual'"),  # type: ignore[arg-type]
    (lambda: GNM(2, 1, tied="yes"), TypeError, "tied='yes' is not a bool"),  # type: ignore[arg-type]
    (lambda: GNM(2, 1, dropout=1.0), ValueError, r"dropout=1.0 is not a rate; expected a number in \[0, 1\)"),
    (lambda: GNM(2, 1, dropout=-0.1), ValueError, "dropout=-0.1 is not a rate"),
    (lambda: GNM(2, 1, dropout=NAN), ValueError, "dropout=nan is not a rate"),
    (lambda: GNM(2, 1, dropout="a"), ValueError, "dropout='a' is not a rate"),  # type: ignore[arg-type]
    (lambda: GNM(2, 1)(torch.zeros(5, 3)), ValueError, r"x has shape \(5, 3\); expected \(..., 2\)"),
    (lambda: GNM(2, 1)(torch.tensor(1.0)), ValueError, r"x has shape \(\)"),
    (lambda: GNM(2, 1)(torch.zeros(5, 2, dtype=torch.int64)), TypeError, r"x has dtype torch.int64.*x.float\(\)"),
    (lambda: GNM(2, 1).anytime(torch.zeros(5, 2)), ValueError, "anytime requires persistent_outputs=True"),
    (lambda: GNM.from_mlp(GNM(2, 1, combine="residual")), TypeError, "mlp is a GNM; expected an MLP"),  # type: ignore[arg-type]
    (lambda: GNM(2, 1, n_nodes=6).set_adjacency(torch.zeros(2, 5, 5)), ValueError, r"shape \(2, 5, 5\); expected \(2, 6, 6\)"),
    (lambda: GNM(2, 1, n_nodes=6).set_adjacency([[0]]), TypeError, "adjacency is a list; expected a torch.Tensor"),  # type: ignore[arg-type]
    (lambda: GNM(2, 1, n_nodes=6).set_adjacency(adjacency_with(1, 5, 0, NAN)), ValueError, r"adjacency\[1, 5, 0\] is nan"),
    (lambda: GNM(2, 1, n_nodes=6).set_adjacency(adjacency_with(0, 2, 1, INF)), ValueError, r"adjacency\[0, 2, 1\] is inf"),
    (lambda: GNM(2, 1, n_nodes=6).set_adjacency(adjacency_with(0, 4, 1, 1.0)), ValueError, "row 4 of the adjacency belongs to the bias"),
    (lambda: GNM(2, 1, n_nodes=6).set_adjacency(adjacency_with(0, 4, 4, 7.0)), ValueError, "row 4 of the adjacency belongs to the bias"),
    (
        lambda: GNM(2, 1, n_nodes=6, n_layers=3, tied=True).set_adjacency(GNM(2, 1, n_nodes=6, n_layers=3).adjacency()),
        ValueError,
        "tied=True requires the same weights in all layers",
    ),
    (lambda: MLP(2, 1, (0,)), ValueError, r"hidden\[0\]=0 is too small"),
    (lambda: MLP(2, 1, 64), TypeError, r"hidden=64 is not a sequence of widths; use e.g. hidden=\(64, 64\)"),  # type: ignore[arg-type]
    (lambda: MLP(2, 1, "64"), TypeError, "hidden='64' is not a sequence of widths"),  # type: ignore[arg-type]
    (lambda: MLP(2, 1, init="paper"), ValueError, "init='paper' is not known; use one of 'torch', 'kaiming'"),
    (lambda: GNM(2, 1)([[0.0, 1.0]]), TypeError, r"x is a list; expected a torch.Tensor, e.g. torch.as_tensor"),  # type: ignore[arg-type]
    (lambda: GNM(2, 1, n_nodes=6).set_adjacency(adjacency_with(0, 2, 1, 1.0).double() * 1e300), ValueError, "expected finite weights"),
    (lambda: MLP.from_linears([torch.nn.Linear(2, 3), torch.nn.ReLU()]), TypeError, "linears contains a ReLU"),  # type: ignore[list-item]
    (lambda: MLP(2, 1)(torch.zeros(3)), ValueError, r"x has shape \(3,\)"),
    (lambda: MLP.from_linears([]), ValueError, "linears is empty"),
    (
        lambda: MLP.from_linears([torch.nn.Linear(2, 3), torch.nn.Linear(4, 1)]),
        ValueError,
        "3 outputs is followed by a layer with 4 inputs",
    ),
    (lambda: AsyncMLP(cyclic()), ValueError, "graph has the cycle .*->.*requires an acyclic graph"),
    (lambda: AsyncMLP(nx.Graph()), TypeError, "graph is a Graph; expected a networkx.DiGraph"),
    (lambda: AsyncMLP(nx.MultiDiGraph()), TypeError, "graph is a MultiDiGraph"),
    (lambda: AsyncMLP(nx.DiGraph()), ValueError, "graph has no input node"),
    (lambda: AsyncMLP(graph_with(lambda g: g.add_node(99))), ValueError, "node 99 has kind=None; expected one of 'input'"),
    (lambda: AsyncMLP(graph_with(lambda g: g.add_edge(0, 1))), ValueError, "input node 1 has incoming edges from 0"),
    (lambda: AsyncMLP(graph_with(lambda g: g.edges[0, 3].update(weight=1.0))), ValueError, "has no weight, but other edges have"),
    (lambda: AsyncMLP(mlp_graph([2, 2, 1]))(torch.zeros(1, 3)), ValueError, "the graph has 2 input nodes"),
    (lambda: AsyncMLP(mlp_graph([2, 2, 1]), "swish"), ValueError, "activation='swish' is not known"),
]  # fmt: skip


@pytest.mark.parametrize(("action", "error", "message"), TABLE, ids=[row[2][:50] for row in TABLE])
def test_bad_input_is_explained(action: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        action()
