"""Whether the fused GPU kernels can be used on a device; asked once per process."""

from __future__ import annotations

import functools
import importlib
import logging
from types import ModuleType

import torch

from tabgnm.training.gpu_turns import whole_device

_log = logging.getLogger("tabgnm.training")

# The losses that kernels know, with the numbers by which they know them.
LOSS_KINDS = {"cross_entropy": 0, "mse": 1, "huber": 2, "quantile": 3, "binary_cross_entropy": 4}


def _usable(name: str, what: str, device: torch.device) -> ModuleType | None:
    """Return a module of kernels if they compile and give what they should on a device."""
    try:
        module = importlib.import_module(f"tabgnm.training.{name}")
        with whole_device:
            module.self_check(device)
            torch.cuda.synchronize(device)
    except Exception as error:  # in many ways: Triton or NVRTC not installed, no C compiler, an older or unknown GPU
        _log.info("%s are not available (%s: %s); using others", what, type(error).__name__, error)
        return None
    return module


@functools.cache
def fused_kernels(device: torch.device) -> ModuleType | None:
    """Return the module with Triton kernels, or None where they cannot be used."""
    return _usable("triton_kernels", "fused kernels", device) if device.type == "cuda" else None


@functools.cache
def fused_layers(device: torch.device) -> ModuleType | None:
    """Return the module with kernels for whole layers, or None where they cannot be used."""
    return None if fused_kernels(device) is None else _usable("triton_layers", "kernels for whole layers", device)


@functools.cache
def fused_products(device: torch.device) -> ModuleType | None:
    """Return the module with kernels for products and sums of stacks, or None where they cannot be used."""
    return None if fused_layers(device) is None else _usable("triton_products", "kernels for products", device)


@functools.cache
def fused_networks(device: torch.device) -> ModuleType | None:
    """Return the module with the kernel for all steps of small networks, or None where it cannot be used."""
    return None if fused_layers(device) is None else _usable("cuda_networks", "kernels for small networks", device)


def fused_epochs(device: torch.device) -> ModuleType | None:
    """Return the module with kernels for what happens once in an epoch, or None where they cannot be used."""
    if fused_kernels(device) is None:
        return None
    from tabgnm.training import triton_epochs

    return triton_epochs
