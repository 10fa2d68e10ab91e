"""The paper's formula word for word, on full n x n matrices: slow, plain, and what the compact code is held against."""

from __future__ import annotations

import torch
from torch import Tensor

from tabgnm.nn.activations import get_activation
from tabgnm.nn.adjacency import full_adjacency
from tabgnm.nn.shapes import GNMShape


def live_edges(shape: GNMShape) -> Tensor:
    """Return a mask (K, n, n) of the edges that have a parameter."""
    ones = {name: torch.ones(size) for name, size in shape.parameter_shapes().items()}
    live = full_adjacency(shape, ones) != 0
    live[:, shape.layout.bias] = False
    return live


def literal_forward(shape: GNMShape, adjacency: Tensor, x: Tensor, extra: dict[str, Tensor]) -> list[Tensor]:
    """Output nodes after every layer; `extra` holds what variants add, by the names of the compact code."""
    layout, K = shape.layout, shape.n_layers
    X, Y, b = list(layout.inputs), list(layout.outputs), layout.bias
    f = get_activation(shape.activation).forward
    h = torch.zeros(len(x), layout.n_nodes, dtype=x.dtype)
    h[:, X] = x
    h[:, b] = 1
    if shape.learn_initial:
        h[:, [*layout.hidden, *Y]] = extra["initial"]
    readouts = []
    for k in range(1, K + 1):
        z = h @ adjacency[k - 1].T
        candidate = f(z) if k < K else z
        if shape.combine == "none":
            new = candidate
        elif shape.combine == "residual":
            new = h + candidate
        else:
            s, t, r = (_full_gate(shape, extra, part, k) for part in ("state", "message", "bias"))
            gate = torch.sigmoid(s * h + t * z + r)
            new = gate * candidate + (1 - gate) * h
        new = new.clone()
        if shape.persistent_outputs:
            new[:, Y] = h[:, Y] + z[:, Y]
        if shape.clamp_inputs:
            new[:, X] = x
        new[:, b] = 1
        h = new
        readouts.append(h[:, Y])
    return readouts


def _full_gate(shape: GNMShape, extra: dict[str, Tensor], part: str, k: int) -> Tensor:
    """A gate parameter for all n nodes; nodes that no gate acts on get 0."""
    layout = shape.layout
    full = torch.zeros(layout.n_nodes, dtype=torch.float64)
    free = [
        v
        for v in layout.updated
        if not (shape.clamp_inputs and v in layout.inputs) and not (shape.persistent_outputs and v in layout.outputs)
    ]
    if k == shape.n_layers:
        free = [v for v in free if v in layout.outputs]
    name = f"gate_{part}_{k}"
    if name in extra:
        full[free] = extra[name]
    return full
