"""Arithmetic that rounds alike wherever a number stands, so that a network trained alone is the one trained in a fleet.

On a CPU, two things depend on what stands beside a network in a stack. torch computes element-wise functions for as
many numbers at once as a vector register holds, and for those left over at the end one by one, some of them by another
formula. And the product of a single pair of matrices is another routine than that of several pairs, if one of the two
is a vector.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

_AT_ONCE = 64  # a multiple of what torch's loops take at once, in all types and on all processors


def evenly(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """Return function(*tensors), element by element; for the trainer, which runs in inference mode, rounded alike."""
    first = tensors[0]
    if torch.compiler.is_compiling() or not (torch.is_inference_mode_enabled() and first.is_cpu):
        return function(*tensors)
    missing = -first.numel() % _AT_ONCE
    if not missing and all(tensor.is_contiguous() for tensor in tensors):
        return function(*tensors)
    padded = [F.pad(tensor.reshape(-1), (0, missing)) for tensor in tensors]
    return function(*padded)[: first.numel()].view(first.shape)


def _is_another_routine(left: Tensor, right: Tensor) -> bool:
    if left.dim() < 3 or not left.is_cpu or (left.shape[-2] > 1 and right.shape[-1] > 1):
        return False
    return left.shape[:-2].numel() == 1


def product(left: Tensor, right: Tensor) -> Tensor:
    """Return left @ right, (s, k) @ (k, t), or stacks of them, rounded as in a stack of any size."""
    if _is_another_routine(left, right):
        return torch.matmul(_twice(left), _twice(right))[:1]
    return left @ right


def add_product(total: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Return total + left @ right of stacks (M, ...), rounded as in a stack of any size."""
    if _is_another_routine(left, right):
        return torch.baddbmm(_twice(total), _twice(left), _twice(right))[:1]
    return torch.baddbmm(total, left, right)


def _twice(stack: Tensor) -> Tensor:
    return stack.expand(2, *stack.shape[1:])
