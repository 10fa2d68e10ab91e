"""Whether the fused GPU kernels can be used on a device; asked once per process."""

from __future__ import annotations

import functools
import logging
from types import ModuleType

import torch

from tabgnm.training.gpu_turns import whole_device

_log = logging.getLogger("tabgnm.training")

# The losses that kernels know, with the numbers by which they know them.
LOSS_KINDS = {"cross_entropy": 0, "mse": 1, "huber": 2, "quantile": 3, "binary_cross_entropy": 4}


@functools.cache
def fused_kernels(device: torch.device) -> ModuleType | None:
    """Return the module with Triton kernels, or None where they cannot be used."""
    if device.type != "cuda":
        return None
    try:
        from tabgnm.training import triton_kernels

        with whole_device:
            triton_kernels.self_check(device)
            torch.cuda.synchronize(device)
    except Exception as error:  # Triton fails in many ways: not installed, no C compiler, an unknown GPU
        _log.info("fused kernels are not available (%s: %s); using torch's own", type(error).__name__, error)
        return None
    return triton_kernels


@functools.cache
def fused_layers(device: torch.device) -> ModuleType | None:
    """Return the module with kernels for whole layers, or None where they cannot be used."""
    if fused_kernels(device) is None:
        return None
    try:
        from tabgnm.training import triton_layers

        triton_layers.self_check(device)
    except Exception as error:  # an older Triton or GPU
        _log.info("kernels for whole layers are not available (%s: %s)", type(error).__name__, error)
        return None
    return triton_layers


@functools.cache
def fused_products(device: torch.device) -> ModuleType | None:
    """Return the module with kernels for products and sums of stacks, or None where they cannot be used."""
    if fused_layers(device) is None:
        return None
    try:
        from tabgnm.training import triton_products

        triton_products.self_check(device)
    except Exception as error:
        _log.info("kernels for stacked products are not available (%s: %s)", type(error).__name__, error)
        return None
    return triton_products


@functools.cache
def fused_networks(device: torch.device) -> ModuleType | None:
    """Return the module with the kernel for all steps of small networks, or None where it cannot be used."""
    if fused_layers(device) is None:
        return None
    try:
        from tabgnm.training import cuda_networks

        with whole_device:
            cuda_networks.self_check(device)
    except Exception as error:  # no NVRTC, or none for this GPU
        _log.info("the kernel for small networks is not available (%s: %s)", type(error).__name__, error)
        return None
    return cuda_networks


def fused_epochs(device: torch.device) -> ModuleType | None:
    """Return the module with kernels for what happens once in an epoch, or None where they cannot be used."""
    if fused_kernels(device) is None:
        return None
    from tabgnm.training import triton_epochs

    return triton_epochs
