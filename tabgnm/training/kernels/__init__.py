"""Triton kernels for GPUs, and a check whether they can be used on a device, done once per process.

- `elementwise`: the optimizer's step and gathering rows;
- `products`: matrix products on tensor cores, and `losses`, used by `layers`, `embedding` and `epochs`;
- `layers`: whole layers of a network, including activation, dropout and the optimizer's step;
- `embedding`: learned embeddings of the inputs, forward and backward;
- `epochs`: computations that are done once per epoch.

They are optional: if Triton or the compiler it needs is missing, torch's operations are used.
"""

from __future__ import annotations

import functools
import importlib
import logging
from types import ModuleType

import torch

from tabgnm.nn.losses import (
    AbsoluteError,
    BinaryCrossEntropy,
    CrossEntropy,
    Gamma,
    Huber,
    Loss,
    Pinball,
    Poisson,
    SquaredError,
    Tweedie,
)
from tabgnm.training.gpu_sharing import whole_device

_log = logging.getLogger("tabgnm.training")

# The losses, which kernels identify by numbers, and the activations and embeddings that the kernels support.
# Activations must be 0 at 0, so that the padding of a layer stays 0.
_LOSS_KINDS: dict[type, int] = {
    CrossEntropy: 0,
    SquaredError: 1,
    Huber: 2,
    Pinball: 3,
    BinaryCrossEntropy: 4,
    AbsoluteError: 5,
    Poisson: 6,
    Gamma: 7,
    Tweedie: 8,
}
ACTIVATIONS = frozenset({"relu", "leaky_relu", "silu", "gelu", "tanh", "identity"})
NUMERIC_KINDS = ("periodic", "piecewise")
MAX_OUTPUTS = 128  # a kernel holds all outputs of some rows at once
MAX_EMBEDDED = 2048  # and all weights of an embedded number


def loss_kind(loss: Loss) -> int | None:
    """Return the number of a loss in the kernels, or None; a subclass may compute something else, so it has none."""
    return _LOSS_KINDS.get(type(loss))


@functools.cache
def kernels_for(device: torch.device, name: str) -> ModuleType | None:
    """Return a module of kernels, such as `elementwise`, or None if they do not give correct results on a device."""
    if device.type != "cuda":
        return None
    try:
        module = importlib.import_module(f"tabgnm.training.kernels.{name}")
        with whole_device:
            module.self_check(torch.zeros((), dtype=torch.float32, device=device))
            torch.cuda.synchronize(device)
    except Exception as error:  # many causes: Triton is not installed, no C compiler, an older or unknown GPU
        _log.info("the kernels in %s cannot be used (%s: %s)", name, type(error).__name__, error)
        return None
    return module
