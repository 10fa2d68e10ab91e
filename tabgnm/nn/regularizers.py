"""Penalties on the edges of a network: l1, l2, elastic net, and the expected l0 of hard-concrete gates.

The penalties are sums over the incoming edges of all updated nodes, including edges from the bias (section 6.5 of the
paper). Weights that tied layers share count once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tabgnm.nn.hard_concrete import open_probability
from tabgnm.nn.network import Network


def _edges(net: Network) -> list[Tensor]:
    parameters = net.effective_parameters()
    return [parameters[name] for name in net.shape.edge_parameters()]


def l1_penalty(net: Network) -> Tensor:
    """Return the sum of the absolute edge weights."""
    return torch.stack([edge.abs().sum() for edge in _edges(net)]).sum()


def l2_penalty(net: Network) -> Tensor:
    """Return the sum of the squared edge weights."""
    return torch.stack([edge.square().sum() for edge in _edges(net)]).sum()


def elastic_penalty(net: Network, l1: float, l2: float) -> Tensor:
    """Return the elastic net penalty: l1 * `l1_penalty` + l2 * `l2_penalty`."""
    return l1 * l1_penalty(net) + l2 * l2_penalty(net)


def expected_l0(net: Network) -> Tensor:
    """Return the expected number of open gates in training; requires `l0_gates=True`."""
    if not net.l0_gates:
        raise ValueError("expected_l0 requires a network with gates; create it with l0_gates=True")
    gates = [getattr(net, f"log_alpha_{name}") for name in net.shape.edge_parameters()]
    return torch.stack([open_probability(gate).sum() for gate in gates]).sum()
