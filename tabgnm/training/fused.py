"""Whether the fused GPU kernels can be used on a device; asked once per process."""

from __future__ import annotations

import functools
import logging
from types import ModuleType

import torch

from tabgnm.training.gpu_turns import whole_device

_log = logging.getLogger("tabgnm.training")


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


def fused_epochs(device: torch.device) -> ModuleType | None:
    """Return the module with kernels for what happens once in an epoch, or None where they cannot be used."""
    if fused_kernels(device) is None:
        return None
    from tabgnm.training import triton_epochs

    return triton_epochs
