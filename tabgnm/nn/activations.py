"""Activation functions by name, with their derivatives for the hand-derived backward pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tabgnm._printable import shown

_aten = torch.ops.aten


@dataclass(frozen=True)
class Activation:
    """An element-wise function f and its vector-Jacobian product.

    `backward(grad, z, a)` returns the gradient with respect to z, given the gradient with respect to a = f(z), z and a.
    """

    forward: Callable[[Tensor], Tensor]
    backward: Callable[[Tensor, Tensor, Tensor], Tensor]
    in_place: Callable[[Tensor], Tensor] | None = None  # overwrites z; only valid if `backward` ignores z


# The backward functions are those that autograd calls: one fused kernel each.
_ACTIVATIONS = {
    "relu": Activation(torch.relu, lambda g, z, a: _aten.threshold_backward(g, a, 0), torch.relu_),
    "leaky_relu": Activation(F.leaky_relu, lambda g, z, a: _aten.leaky_relu_backward(g, z, 0.01, False)),
    "elu": Activation(F.elu, lambda g, z, a: _aten.elu_backward(g, 1.0, 1.0, 1.0, False, z)),
    "gelu": Activation(F.gelu, lambda g, z, a: _aten.gelu_backward(g, z)),
    "silu": Activation(F.silu, lambda g, z, a: _aten.silu_backward(g, z)),
    "mish": Activation(F.mish, lambda g, z, a: _aten.mish_backward(g, z)),
    "softplus": Activation(F.softplus, lambda g, z, a: _aten.softplus_backward(g, z, 1.0, 20.0)),
    "tanh": Activation(torch.tanh, lambda g, z, a: _aten.tanh_backward(g, a)),
    "sigmoid": Activation(torch.sigmoid, lambda g, z, a: _aten.sigmoid_backward(g, a)),
    "identity": Activation(lambda z: z, lambda g, z, a: g),
}


def activation_names() -> list[str]:
    """Return the valid names of activation functions."""
    return list(_ACTIVATIONS)


def get_activation(name: str) -> Activation:
    """Return the activation function with this name; raise ValueError if it is unknown."""
    if not isinstance(name, str) or name not in _ACTIVATIONS:
        raise ValueError(f"activation={shown(name)} is not known; use one of {', '.join(_ACTIVATIONS)}")
    return _ACTIVATIONS[name]
