"""Activation functions of arrays in place, as calls with fixed arguments; `tabgnm.nn.activations` defines them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tabgnm.nn.activations import get_activation

Array = NDArray[Any]
Call = Callable[[], object]

_aten = torch.ops.aten


def activation_call(name: str, z: Array, out: Array) -> Call:
    """Return a call that writes f(z) to `out`, which is `z` itself if the function works in place."""
    argument, result = torch.from_numpy(z), torch.from_numpy(out)
    activation = get_activation(name)
    if activation.in_place is not None:
        return partial(activation.in_place, argument)
    if name == "tanh":  # NumPy takes a seventh of the time of torch
        return partial(np.tanh, z, out)
    if name == "silu":
        return partial(_aten.silu.out, argument, out=result)
    # torch's GELU in single precision does not write to an `out` that is not contiguous, and raises no error.

    def compute() -> None:
        result.copy_(activation.forward(argument))

    return compute


def gradient_call(name: str, grad: Array, z: Array, a: Array) -> Call:
    """Return a call that replaces the gradient with respect to a = f(z) by that with respect to z."""
    gradient, argument, result = (torch.from_numpy(array) for array in (grad, z, a))
    if name == "relu":
        return partial(_aten.threshold_backward.grad_input, gradient, result, 0, grad_input=gradient)
    if name == "tanh":
        return partial(_aten.tanh_backward.grad_input, gradient, result, grad_input=gradient)
    if name == "silu":
        return partial(_aten.silu_backward.grad_input, gradient, argument, grad_input=gradient)
    activation = get_activation(name)

    def compute() -> None:
        gradient.copy_(activation.backward(gradient, argument, result))

    return compute
