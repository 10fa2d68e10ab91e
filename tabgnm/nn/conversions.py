"""Conversions between MLPs and GNMs: Theorem 5.1 of the paper and its converse for layered graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from tabgnm.nn.activations import get_activation
from tabgnm.nn.mlp import MLP

if TYPE_CHECKING:
    from tabgnm.nn.gnm import GNM


class Edge(NamedTuple):
    """An edge of one layer (counted from 1) and its weight."""

    layer: int
    source: int
    target: int
    weight: float


class NotMultipartite(ValueError):
    """Raised if a GNM has no equivalent MLP: its graph is not layered, or MLPs do not have the variant.

    Attributes
    ----------
    edges : list of Edge
        The edges that would have to be removed to make the graph layered.
    """

    def __init__(self, reason: str, edges: list[Edge]) -> None:
        self.edges = edges
        shown = ", ".join(f"{e.source}->{e.target} in layer {e.layer} ({e.weight:.3g})" for e in edges[:5])
        more = f" and {len(edges) - 5} more" if len(edges) > 5 else ""
        listed = f"; offending edges: {shown}{more}" if edges else ""
        super().__init__(reason + listed)


def gnm_from_mlp(mlp: MLP) -> GNM:
    """Return the GNM of Theorem 5.1, with one node per neuron (including inputs and outputs) and a bias node."""
    from tabgnm.nn.gnm import GNM  # GNM.from_mlp calls this function

    if not isinstance(mlp, MLP):  # a GNM has the same parameters, but variants would be lost
        raise TypeError(f"mlp is a {type(mlp).__name__}; expected an MLP")
    some = mlp.effective_parameters()["weight_1"]
    gnm = GNM(
        mlp.shape.n_inputs,
        mlp.shape.n_outputs,
        n_nodes=mlp.layout.n_nodes,
        n_layers=mlp.shape.n_layers,
        dropout=mlp.dropout,
        activation=mlp.shape.activation,
        device=some.device,
        dtype=some.dtype,
    )
    gnm.set_adjacency(mlp.adjacency())
    return gnm


def mlp_from_gnm(gnm: GNM) -> MLP:
    """Return the equivalent MLP of a layered GNM; edges that cannot affect an output are ignored."""
    shape = gnm.shape
    if shape.combine != "none":
        raise NotMultipartite(
            f"combine={shape.combine!r} keeps the state of every node from layer to layer, so each node is updated in "
            "every layer; only a GNM with combine='none' can be an MLP",
            [],
        )
    if shape.learn_initial:
        raise NotMultipartite(
            "learn_initial=True sets hidden and output nodes to learned values before the first layer, which MLPs do "
            "not have; only a GNM with learn_initial=False can be an MLP",
            [],
        )
    matrices = gnm.adjacency()
    live = live_edges(gnm, matrices)
    layout, n_layers = gnm.layout, shape.n_layers
    layer_of = dict.fromkeys(layout.inputs, 0) | dict.fromkeys(layout.outputs, n_layers)
    offending = []
    for layer in range(1, n_layers + 1):
        for target, source in live[layer - 1].nonzero().tolist():
            fits = layer_of.setdefault(target, layer) == layer
            # A live source without incoming edges, which is possible if f(0) != 0, is a neuron of the previous layer.
            follows = source == layout.bias or layer_of.setdefault(source, layer - 1) == layer - 1
            if not (fits and follows):
                offending.append(Edge(layer, source, target, float(matrices[layer - 1, target, source])))
    if offending:
        raise NotMultipartite(
            f"the graph of this machine is not layered ({len(offending)} of {int(live.sum())} live edges do not "
            "connect one layer to the next); remove these edges, e.g. with l1 and pruning",
            offending,
        )
    members = [[node for node in layout.updated if layer_of.get(node) == k] for k in range(n_layers + 1)]
    empty = [k for k in range(1, n_layers) if not members[k]]
    if empty:
        # The outputs depend on biases only. A neuron with zero weights keeps the number of layers.
        members = [nodes or [-1] for nodes in members]
    mlp = MLP(
        shape.n_inputs,
        shape.n_outputs,
        [len(nodes) for nodes in members[1:-1]],
        dropout=gnm.dropout,
        activation=shape.activation,
        device=matrices.device,
        dtype=matrices.dtype,
    )
    kept = torch.where(live, matrices, 0)
    with torch.no_grad():
        for layer in range(1, n_layers + 1):
            unconnected = members[layer] == [-1] or members[layer - 1] == [-1]
            targets, sources = torch.tensor(members[layer]), torch.tensor(members[layer - 1])
            weight, bias = getattr(mlp, f"weight_{layer}"), getattr(mlp, f"bias_{layer}")
            weight.zero_() if unconnected else weight.copy_(kept[layer - 1][targets[:, None], sources].T)
            bias.zero_() if members[layer] == [-1] else bias.copy_(kept[layer - 1][targets, layout.bias])
    return mlp


def live_edges(gnm: GNM, matrices: Tensor) -> Tensor:
    """Return a mask (K, n, n) of the edges that can affect an output: nonzero sources, on a path to an output.

    Only valid with `combine="none"` and `learn_initial=False`.
    """
    layout, n_layers = gnm.layout, gnm.shape.n_layers
    present = matrices != 0
    present[:, layout.bias] = False
    inputs, outputs = list(layout.inputs), list(layout.outputs)
    # Nodes that can be nonzero before each layer. If f(0) != 0 (e.g. sigmoid), so are nodes without incoming edges.
    zero_at_zero = bool(get_activation(gnm.shape.activation).forward(torch.zeros(())) == 0)
    nonzero = torch.zeros(n_layers + 1, layout.n_nodes, dtype=torch.bool)
    nonzero[0, inputs] = True
    nonzero[:, layout.bias] = True
    for k in range(n_layers):
        nonzero[k + 1] |= (present[k].cpu() & nonzero[k]).any(dim=1)
        if not zero_at_zero and k + 1 < n_layers:
            nonzero[k + 1] = True
        if gnm.shape.clamp_inputs:
            nonzero[k + 1, inputs] = True
        if gnm.shape.persistent_outputs:
            nonzero[k + 1, outputs] |= nonzero[k, outputs]
    used = torch.zeros(n_layers + 1, layout.n_nodes, dtype=torch.bool)
    used[n_layers, outputs] = True
    live = torch.zeros_like(present, device="cpu")
    for k in range(n_layers - 1, -1, -1):
        targets = used[k + 1].clone()
        if gnm.shape.clamp_inputs:
            targets[inputs] = False
        live[k] = present[k].cpu() & nonzero[k] & targets[:, None]
        used[k] = live[k].any(dim=0)
        if gnm.shape.persistent_outputs:
            used[k, outputs] = True
    return live.to(matrices.device)
