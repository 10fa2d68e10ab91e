"""GNN_MLP of section 4 of the paper: asynchronous message passing on a directed acyclic graph."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from tabgnm.nn.activations import get_activation
from tabgnm.nn.graphs import mlp_graph
from tabgnm.nn.mlp import MLP

if TYPE_CHECKING:
    import networkx as nx

_KINDS = ("input", "hidden", "bias", "output")


class AsyncMLP(nn.Module):
    """Asynchronous message passing on a directed acyclic graph: each node is updated once, after all its in-neighbours.

    With G_MLP as the graph, this is an MLP (Theorem 4.1 of the paper). Other directed acyclic graphs may have skip
    connections, hidden nodes without layers, or biases for some nodes only.

    Parameters
    ----------
    graph : networkx.DiGraph
        An acyclic graph. Every node has the attribute `kind`: "input" (a feature, in the order of the nodes), "bias"
        (always 1), "hidden" (weighted sum of the in-neighbours, with activation) or "output" (the same without
        activation). The edge attribute `weight`, if given for all edges, is the initial weight.
    activation : str, default="relu"
        The activation function of the hidden nodes.
    generator, device, dtype
        As in other PyTorch modules. The generator is used for the initialization.

    Shape
    -----
    - input: (..., m), where m is the number of input nodes
    - output: (..., c), where c is the number of output nodes

    Examples
    --------
    >>> import torch
    >>> from tabgnm.nn import AsyncMLP, mlp_graph
    >>> net = AsyncMLP(mlp_graph([4, 8, 3]))
    >>> net(torch.zeros(5, 4)).shape, net.n_parameters()
    (torch.Size([5, 3]), 67)
    """

    def __init__(
        self,
        graph: nx.DiGraph,
        activation: str = "relu",
        *,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        import networkx as nx

        super().__init__()
        _check_graph(graph)
        get_activation(activation)
        self.activation = activation
        kinds = nx.get_node_attributes(graph, "kind")
        self._kinds = dict(kinds)
        self.input_nodes = [node for node in graph if kinds[node] == "input"]
        self.output_nodes = [node for node in graph if kinds[node] == "output"]
        biases = [node for node in graph if kinds[node] == "bias"]
        self._n_biases = len(biases)

        # The order of node values: inputs, biases, then each topological generation.
        order: list[Hashable] = [*self.input_nodes, *biases]
        fixed = set(order)
        edges: list[tuple[Hashable, Hashable]] = []
        self._steps: list[tuple[int, int, int]] = []  # n_targets, first and end edge of each generation
        places: list[tuple[int, int]] = []  # row and column of each edge in the matrix of its generation
        hidden: list[bool] = []
        for generation in nx.topological_generations(graph):
            targets = [node for node in generation if node not in fixed]
            if not targets:
                continue
            position = {node: i for i, node in enumerate(order)}
            first = len(edges)
            for column, target in enumerate(targets):
                for source in graph.predecessors(target):
                    edges.append((source, target))
                    places.append((position[source], column))
            self._steps.append((len(targets), first, len(edges)))
            hidden += [kinds[target] == "hidden" for target in targets]
            order += targets
        self.edges = edges
        position = {node: i for i, node in enumerate(order)}
        self.register_buffer(
            "_places", torch.tensor(places, dtype=torch.int64, device=device).reshape(-1, 2), persistent=False
        )
        self.register_buffer("_hidden", torch.tensor(hidden, dtype=torch.bool, device=device), persistent=False)
        outputs = [position[node] for node in self.output_nodes]
        self.register_buffer("_outputs", torch.tensor(outputs, device=device), persistent=False)
        self._places: Tensor
        self._hidden: Tensor
        self._outputs: Tensor
        self.weight = nn.Parameter(torch.empty(len(edges), device=device, dtype=dtype))
        self._initialize(graph, generator)

    def _initialize(self, graph: nx.DiGraph, generator: torch.Generator | None) -> None:
        """Set the weights of the graph, or draw from the normal distribution of He et al. with in-degrees as fan-in."""
        given = [graph.edges[edge].get("weight") for edge in self.edges]
        with torch.no_grad():
            if given and all(weight is not None for weight in given):
                self.weight.copy_(torch.tensor(given, dtype=torch.float64))
            else:
                degrees = torch.tensor([float(graph.in_degree(target)) for _, target in self.edges])
                self.weight.normal_(generator=generator).mul_((2 / degrees).sqrt().to(self.weight))

    def forward(self, x: Tensor) -> Tensor:
        """Return the values of the output nodes."""
        n_inputs = len(self.input_nodes)
        if x.dim() == 0 or x.shape[-1] != n_inputs:
            raise ValueError(
                f"x has shape {tuple(x.shape)}; expected (..., {n_inputs}): the graph has {n_inputs} input nodes"
            )
        function = get_activation(self.activation).forward
        rows = x.reshape(-1, n_inputs)
        states = torch.cat([rows, rows.new_ones(rows.shape[0], self._n_biases)], dim=1)
        done = 0
        for n_targets, first, end in self._steps:
            places = self._places[first:end]
            matrix = self.weight.new_zeros(states.shape[1], n_targets)
            matrix = matrix.index_put((places[:, 0], places[:, 1]), self.weight[first:end])
            messages = states @ matrix
            hidden = self._hidden[done : done + n_targets]
            states = torch.cat([states, torch.where(hidden, function(messages), messages)], dim=1)
            done += n_targets
        return states[:, self._outputs].reshape(*x.shape[:-1], len(self.output_nodes))

    def n_parameters(self) -> int:
        """Return the number of parameters: one per edge."""
        return self.weight.numel()

    def graph(self) -> nx.DiGraph:
        """Return the graph with the current weights, from which the same network can be created."""
        import networkx as nx

        graph = nx.DiGraph()
        for node, kind in self._kinds.items():
            graph.add_node(node, kind=kind)
        for (source, target), weight in zip(self.edges, self.weight.tolist(), strict=True):
            graph.add_edge(source, target, weight=weight)
        return graph

    @classmethod
    def from_mlp(cls, mlp: MLP) -> AsyncMLP:
        """Create the network on G_MLP that computes the same function as `mlp` (Theorem 4.1)."""
        widths = mlp.shape.widths
        graph = mlp_graph(widths)
        parameters = mlp.effective_parameters()
        first_before = 0
        for layer in range(1, len(widths)):
            first = first_before + widths[layer - 1] + 1
            matrix = torch.cat([parameters[f"weight_{layer}"], parameters[f"bias_{layer}"][None]]).tolist()
            for source, row in enumerate(matrix, start=first_before):
                for target, weight in enumerate(row, start=first):
                    graph.edges[source, target]["weight"] = weight
            first_before = first
        some = parameters["weight_1"]
        return cls(graph, mlp.shape.activation, device=some.device, dtype=some.dtype)

    def extra_repr(self) -> str:
        """Return a summary for `repr`."""
        return (
            f"inputs={len(self.input_nodes)}, outputs={len(self.output_nodes)}, edges={len(self.edges)}, "
            f"generations={len(self._steps)}, activation={self.activation!r}"
        )


def _check_graph(graph: nx.DiGraph) -> None:
    """Raise if a graph is not valid for asynchronous message passing."""
    import networkx as nx

    if not isinstance(graph, nx.DiGraph) or graph.is_multigraph():
        raise TypeError(f"graph is a {type(graph).__name__}; expected a networkx.DiGraph")
    if not nx.is_directed_acyclic_graph(graph):
        edges = nx.find_cycle(graph)
        cycle = [*(edge[0] for edge in edges), edges[0][0]]
        raise ValueError(
            f"graph has the cycle {' -> '.join(map(str, cycle))}; asynchronous message passing requires an acyclic "
            "graph; use GNM for cyclic graphs"
        )
    for node, kind in graph.nodes(data="kind"):
        if kind not in _KINDS:
            raise ValueError(f"node {node!r} has kind={kind!r}; expected one of {', '.join(map(repr, _KINDS))}")
        if kind in ("input", "bias") and graph.in_degree(node):
            sources = _some(graph.predecessors(node))
            raise ValueError(
                f"{kind} node {node!r} has incoming edges from {sources}, but it is never updated; remove these edges"
            )
    kinds = [kind for _, kind in graph.nodes(data="kind")]
    for kind in ("input", "output"):
        if kind not in kinds:
            raise ValueError(f"graph has no {kind} node; expected at least one node with kind={kind!r}")
    weighted = [edge[:2] for edge in graph.edges(data="weight") if edge[2] is not None]
    if 0 < len(weighted) < graph.number_of_edges():
        missing = next(edge[:2] for edge in graph.edges(data="weight") if edge[2] is None)
        raise ValueError(
            f"edge {missing} has no weight, but other edges have one; set `weight` for all edges or for none"
        )


def _some(nodes: Iterable[Hashable], most: int = 5) -> str:
    listed = list(nodes)
    return ", ".join(map(repr, listed[:most])) + (", ..." if len(listed) > most else "")
