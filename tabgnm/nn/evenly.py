"""Arithmetic that rounds alike wherever a number stands, so that a network trained alone is the one trained in a fleet.

Several things depend on what stands beside a network in a stack. On a CPU torch computes element-wise functions for as
many numbers at once as a vector register holds, and for those left over at the end one by one, some of them by another
formula; and products with vectors are different routines for a single pair and for several, where NumPy calls the same
one for each pair. On a GPU cuBLAS and torch choose by the size of everything in which order products and sums are
added up; the trainer has kernels of its own for them.

All of this is for the trainer, within `in_training`; elsewhere it would only take time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

_AT_ONCE = 64  # a multiple of what torch's loops take at once, in all types and on all processors
_OF_ONE_THREAD = 16_384  # numbers; several threads would share more, and each would have an end of its own
_of_thread = threading.local()


@contextmanager
def in_training() -> Iterator[None]:
    """Within this, in this thread: compute without autograd, and round alike."""
    before, _of_thread.trains = getattr(_of_thread, "trains", False), True
    try:
        with torch.inference_mode():
            yield
    finally:
        _of_thread.trains = before


def _trains() -> bool:
    return not torch.compiler.is_compiling() and getattr(_of_thread, "trains", False)


def evenly(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """Return function(*tensors), computed element by element."""
    first = tensors[0]
    if not (first.is_cpu and _trains()):
        return function(*tensors)
    missing = -first.numel() % _AT_ONCE
    flat = [F.pad(tensor.reshape(-1), (0, missing)) if missing else tensor.reshape(-1) for tensor in tensors]
    results = [
        function(*piece) for piece in zip(*(torch.split(tensor, _OF_ONE_THREAD) for tensor in flat), strict=True)
    ]
    whole = results[0] if len(results) == 1 else torch.cat(results)
    return whole[: first.numel()].view(first.shape)


class GpuKernels(Protocol):
    """Products and sums of stacks on a GPU, see `tabgnm.training.triton_products`."""

    def product(self, left: Tensor, right: Tensor, total: Tensor | None = None) -> Tensor:
        """Return left @ right, plus `total` if given."""
        ...

    def product_into(self, left: Tensor, right: Tensor, out: Tensor) -> None:
        """Write left @ right into `out`."""
        ...

    def sum_rows(self, values: Tensor, out: Tensor | None = None) -> Tensor:
        """Return the sums over the rows, (..., B, n) -> (..., n), or write (M, n) into `out`."""
        ...


_gpu_kernels: dict[torch.device, GpuKernels] = {}


def use_kernels(device: torch.device, kernels: GpuKernels) -> None:
    """Compute with these kernels on a GPU from now on."""
    _gpu_kernels[device] = kernels


def _kernels_for(tensor: Tensor) -> GpuKernels | None:
    if not tensor.is_cuda or tensor.dim() < 3 or tensor.dtype != torch.float32:
        return None
    return _gpu_kernels.get(tensor.device) if _trains() else None


def _is_for_numpy(left: Tensor, right: Tensor) -> bool:
    """Whether one of two stacks on a CPU holds vectors."""
    if left.shape[-2] > 1 and left.shape[-1] > 1 and right.shape[-1] > 1:
        return False
    return left.dim() > 2 and left.is_cpu and _trains()


def product(left: Tensor, right: Tensor) -> Tensor:
    """Return left @ right, (s, k) @ (k, t), or stacks of them."""
    kernels = _kernels_for(left) if left.is_cuda else None
    if kernels is not None:
        return kernels.product(left, right)
    if _is_for_numpy(left, right):
        with np.errstate(all="ignore"):  # the trainer notices a model that diverges
            return torch.from_numpy(np.matmul(left.numpy(), right.numpy()))
    return torch.bmm(left, right) if left.dim() == right.dim() == 3 else left @ right  # the second finds out more first


def add_product(total: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Return total + left @ right of stacks (M, ...)."""
    kernels = _kernels_for(left)
    if kernels is not None:
        return kernels.product(left, right, total)
    return product(left, right).add_(total) if _is_for_numpy(left, right) else torch.baddbmm(total, left, right)


def product_into(left: Tensor, right: Tensor, out: Tensor) -> None:
    """Write left @ right of stacks (M, ...) into `out`."""
    kernels = _kernels_for(left)
    if kernels is not None:
        kernels.product_into(left, right, out)
    else:  # on a CPU torch would write into parts of a buffer one matrix at a time
        out.copy_(product(left, right))


def sum_rows(values: Tensor) -> Tensor:
    """Return the sums over the rows, (..., B, n) -> (..., n)."""
    kernels = _kernels_for(values)
    return values.sum(dim=-2) if kernels is None else kernels.sum_rows(values)


def sum_rows_into(values: Tensor, out: Tensor) -> None:
    """Write the sums over the rows of a matrix, or of stacks (M, B, n), into `out`."""
    kernels = _kernels_for(values)
    if kernels is not None:
        kernels.sum_rows(values, out)
    else:
        torch.sum(values, dim=-2, out=out)
