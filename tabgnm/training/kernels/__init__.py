"""Triton kernels for GPUs, and whether they can be used on a device; asked once per process.

- `elementwise`: the optimizer's step and gathering rows;
- `layers`: whole layers of a network with everything around their products;
- `embedding`: learned embeddings of the inputs, forward and backward;
- `epochs`: what happens once in an epoch.

Nothing depends on them: where Triton or the compiler it needs is missing, torch's operations are used.
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

# What the kernels can do. They know losses by numbers. Activations are 0 at 0: what was added to align a layer has to
# stay 0.
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
MOST_OUTPUTS = 128  # A kernel holds all outputs of some rows at once,
MOST_EMBEDDED = 2048  # and all weights of an embedded number.


def loss_kind(loss: Loss) -> int | None:
    """Return the number of a loss that the kernels have, or None; one derived from it may compute something else."""
    return _LOSS_KINDS.get(type(loss))


@functools.cache
def _usable(name: str, device: torch.device) -> ModuleType | None:
    """Return a module of kernels if they compile and compute what they should on a device."""
    if device.type != "cuda":
        return None
    try:
        module = importlib.import_module(f"tabgnm.training.kernels.{name}")
        with whole_device:
            module.self_check(device)
            torch.cuda.synchronize(device)
    except Exception as error:  # in many ways: Triton not installed, no C compiler, an older or unknown GPU
        _log.info("the kernels in %s cannot be used (%s: %s)", name, type(error).__name__, error)
        return None
    return module


def elementwise_kernels(device: torch.device) -> ModuleType | None:
    """Return the module `elementwise`, or None where it cannot be used."""
    return _usable("elementwise", device)


def epoch_kernels(device: torch.device) -> ModuleType | None:
    """Return the module `epochs`, or None where it cannot be used."""
    return _usable("epochs", device)


def layer_kernels(device: torch.device) -> ModuleType | None:
    """Return the module `layers`, or None where it cannot be used."""
    return _usable("layers", device)


def embedding_kernels(device: torch.device) -> ModuleType | None:
    """Return the module `embedding`, or None where it cannot be used."""
    return _usable("embedding", device)
