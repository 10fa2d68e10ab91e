"""GPU kernels for computations that are done once per epoch or block: random numbers and losses.

With torch's operations, these are dozens of kernels of one or two microseconds, which take as long as several steps.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from tabgnm.nn.losses import CrossEntropy, Loss
from tabgnm.training.counter_random import GOLDEN, MIX
from tabgnm.training.kernels import loss_kind
from tabgnm.training.kernels.losses import loss_and_slope

_BLOCK = 1024
# Multiplication wraps around, so signed integers can be used.
_GOLDEN, _MIX_1, _MIX_2 = (tl.constexpr(factor - 2**64) for factor in (GOLDEN, *MIX))


@triton.jit
def _shift(values, BITS: tl.constexpr):
    """Shift right without copying the sign."""
    return (values >> BITS) & ((1 << (64 - BITS)) - 1)


@triton.jit
def _hash_kernel(key_ptr, out_ptr, n, BLOCK: tl.constexpr):
    model = tl.program_id(1).to(tl.int64)
    columns = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(key_ptr + model) + (columns + 1) * _GOLDEN
    values = (values ^ _shift(values, 30)) * _MIX_1
    values = (values ^ _shift(values, 27)) * _MIX_2
    values = values ^ _shift(values, 31)
    tl.store(out_ptr + model * n + columns, values, mask=columns < n)


def hashes(keys: Tensor, n: int) -> Tensor:
    """Return (M, n) random 64-bit integers: entry (i, j) depends only on keys[i] and j."""
    out = torch.empty(len(keys), n, dtype=torch.int64, device=keys.device)
    _hash_kernel[(triton.cdiv(n, _BLOCK), len(keys))](keys, out, n, BLOCK=_BLOCK)
    return out


@triton.jit(
    do_not_specialize=["n_rows", "n_outputs", "setting", "output_model", "target_model", "weight_model"],
    do_not_specialize_on_alignment=["target_ptr", "weight_ptr"],
)
def _loss_kernel(
    output_ptr, target_ptr, weight_ptr, total_ptr, setting, n_rows, n_outputs,
    output_model, output_row, target_model, target_row, weight_model,
    KIND: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    model = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, COLUMNS)
    is_output = (columns < n_outputs)[None, :]
    output_ptr += model * output_model + columns[None, :]
    target_ptr += model * target_model
    sums = tl.zeros((ROWS,), dtype=tl.float32)
    for start in range(0, n_rows, ROWS):
        rows = (start + tl.arange(0, ROWS)).to(tl.int64)  # rows of a whole block, so offsets may exceed 32 bits
        row_inside = rows < n_rows
        output = tl.load(output_ptr + rows[:, None] * output_row, mask=row_inside[:, None] & is_output, other=0.0)
        loss, _ = loss_and_slope(output, target_ptr, target_row, setting, rows, columns, n_rows, n_outputs, KIND)
        weight = tl.load(weight_ptr + model * weight_model + rows, mask=row_inside, other=0.0)
        # 0 x infinity is NaN, so rows without weight must be excluded.
        sums += tl.where(weight > 0, loss * weight, 0.0)
    tl.store(total_ptr + model, tl.load(total_ptr + model) + tl.sum(sums, axis=0))


def add_losses(loss: Loss, outputs: Tensor, targets: Tensor, weights: Tensor, total: Tensor) -> None:
    """Add the weighted losses of the rows of each model, outputs (n, L, c), to `total` (n,)."""
    n_models, n_rows, n_outputs = outputs.shape
    columns = triton.next_power_of_2(n_outputs)
    rows = max(1, 2048 // columns)
    _loss_kernel[(n_models,)](
        outputs, targets, weights, total, loss.setting, n_rows, n_outputs,
        outputs.stride(0), outputs.stride(1), targets.stride(0), targets.stride(1), weights.stride(0),
        KIND=loss_kind(loss), ROWS=rows, COLUMNS=columns, num_warps=16,
    )  # fmt: skip


def self_check(like: Tensor) -> None:
    """Run the kernels once; raise if their results are wrong on the device of `like` or with this version of Triton."""
    # The first two numbers of splitmix64 with seed 0.
    expected = like.new_tensor([[0xE220A8397B1DCDAF - 2**64, 0x6E789E6AA1B965F4]], dtype=torch.int64)
    if not torch.equal(hashes(like.new_zeros(1, dtype=torch.int64), 2), expected):
        raise RuntimeError("random numbers are wrong")
    total = like.new_ones(1)
    outputs, targets = like.new_zeros(1, 3, 4), like.new_zeros(1, 3, dtype=torch.int64)
    add_losses(CrossEntropy(), outputs, targets, like.new_ones(1, 3), total)
    if not torch.allclose(total, 1 + 3 * torch.log(torch.full_like(total, 4.0))):
        raise RuntimeError("losses are wrong")
