"""Elementwise GPU kernels (the optimizer's step, gathering rows), and functions for other kernels.

In small networks, operations take so little time that the number of kernels and of passes over memory matters most.
Each kernel here replaces two to six operations of torch.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import libdevice

from tabgnm.nn.losses.deviances import LARGEST_LOG
from tabgnm.training.counter_random import STREAM_FACTOR, STREAM_STEP

_BLOCK = 1024
_LARGEST_LOG = tl.constexpr(LARGEST_LOG)
_STREAM_FACTOR, _STREAM_STEP = tl.constexpr(STREAM_FACTOR), tl.constexpr(STREAM_STEP)


class OptimizerBuffers(NamedTuple):
    """The buffers that `adam` reads and writes, besides gradients and rates; those that are not needed are None."""

    flat: Tensor  # weights and their moments, (M, P)
    moment: Tensor
    square: Tensor
    l2: Tensor | None = None  # penalties, (M, 1)
    l1: Tensor | None = None
    decay: Tensor | None = None
    threshold: Tensor | None = None


@triton.jit
def adam(grad, columns, inside, step):
    """Update the weights at `columns` of a model's row with their gradient; `step` has the model, buffers and rates.

    The quotient and the root may be off by a unit in the last place. Exact ones take as long as reading the memory.
    """
    model, buffers, flat_model, rates_ptr, rates_stride, beta_1, beta_2 = step
    places = model * flat_model + columns
    weight = tl.load(buffers.flat + places, mask=inside, other=0.0)
    moment = tl.load(buffers.moment + places, mask=inside, other=0.0)
    square = tl.load(buffers.square + places, mask=inside, other=0.0)
    if buffers.l2 is not None:
        grad += tl.load(buffers.l2 + model) * weight
    if buffers.l1 is not None:
        l1 = tl.load(buffers.l1 + model)
        grad += tl.where(weight > 0, l1, tl.where(weight < 0, -l1, 0.0))
    moment += (1 - beta_1) * (grad - moment)
    square = square * beta_2 + (1 - beta_2) * grad * grad
    scale, offset = tl.load(rates_ptr + model), tl.load(rates_ptr + rates_stride + model)
    rate = tl.load(rates_ptr + 2 * rates_stride + model)
    change = moment / (tl.sqrt(square) * scale + offset)
    if buffers.decay is not None:
        weight *= 1 - rate * tl.load(buffers.decay + model)
    weight -= change
    if buffers.threshold is not None:
        limit = rate * tl.load(buffers.threshold + model)
        weight -= tl.maximum(tl.minimum(weight, limit), -limit)
    tl.store(buffers.flat + places, weight, mask=inside)
    tl.store(buffers.moment + places, moment, mask=inside)
    tl.store(buffers.square + places, square, mask=inside)


@triton.jit(do_not_specialize=["first", "last", "rates_stride"], do_not_specialize_on_alignment=["rates_ptr"])
def _adam_kernel(
    grad_ptr, buffers, rates_ptr, first, last, flat_model, rates_stride,
    BETA_1: tl.constexpr, BETA_2: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    model = tl.program_id(1).to(tl.int64)
    columns = first + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < last
    grad = tl.load(grad_ptr + model * flat_model + columns, mask=inside, other=0.0)
    adam(grad, columns, inside, (model, buffers, flat_model, rates_ptr, rates_stride, BETA_1, BETA_2))


def adam_step(
    flat: Tensor,
    grad: Tensor,
    moment: Tensor,
    square: Tensor,
    rates: Tensor,
    betas: tuple[float, float],
    n_edges: int,
    *,
    l2: Tensor | None = None,
    l1: Tensor | None = None,
    decay: Tensor | None = None,
    threshold: Tensor | None = None,
) -> None:
    """Update the first n models, given `flat` (n, P); `rates` (3, M, 1) are those of the step."""
    n_models, n_columns = flat.shape
    edges = OptimizerBuffers(flat, moment, square, l2, l1, decay, threshold)
    others = OptimizerBuffers(flat, moment, square)  # penalties only apply to edges, which come first
    for first, last, buffers in ((0, n_edges, edges), (n_edges, n_columns, others)):
        if first < last:
            _adam_kernel[(triton.cdiv(last - first, _BLOCK), n_models)](
                grad, buffers, rates, first, last, flat.stride(0), rates.stride(0),
                BETA_1=betas[0], BETA_2=betas[1], BLOCK=_BLOCK,
            )  # fmt: skip


@triton.jit(do_not_specialize=["n_rows"])
def _gather_kernel(table_ptr, ids_ptr, out_ptr, n_rows, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (rows < n_rows)[:, None] & (columns < width)[None, :]
    ids = tl.load(ids_ptr + rows, mask=rows < n_rows, other=0)
    values = tl.load(table_ptr + ids[:, None] * width + columns[None, :], mask=inside, other=0.0)
    tl.store(out_ptr + rows[:, None] * width + columns[None, :], values, mask=inside)


def gather_rows(table: Tensor, ids: Tensor) -> Tensor:
    """Return table[ids] for a table (N, w), faster than torch, which uses a block of threads for each short row."""
    out = torch.empty(len(ids), table.shape[1], dtype=table.dtype, device=table.device)
    columns = min(64, triton.next_power_of_2(table.shape[1]))
    rows = 2048 // columns
    _gather_kernel[(triton.cdiv(len(ids), rows), triton.cdiv(table.shape[1], columns))](
        table, ids, out, len(ids), table.shape[1], ROWS=rows, COLUMNS=columns
    )
    return out


@triton.jit
def stream_numbers(places, inside):
    """Advance the random streams at these pointers, like `counter_random.Streams`, and return their states."""
    numbers = tl.load(places, mask=inside, other=0) * _STREAM_FACTOR + _STREAM_STEP
    tl.store(places, numbers, mask=inside)
    return numbers


@triton.jit
def activate(z, ACTIVATION: tl.constexpr):
    """Return f(z) and f'(z). NaN stays NaN, so that diverging models are detected."""
    if ACTIVATION == "relu":
        return tl.maximum(z, 0.0, propagate_nan=tl.PropagateNan.ALL), tl.where(z > 0, 1.0, 0.0)
    elif ACTIVATION == "leaky_relu":
        slope = tl.where(z > 0, 1.0, 0.01)
        return z * slope, slope
    elif ACTIVATION == "silu":
        gate = tl.sigmoid(z)
        return z * gate, gate * (1 + z * (1 - gate))
    elif ACTIVATION == "gelu":
        below = 0.5 + 0.5 * tl.erf(z * 0.7071067811865476)  # the normal distribution function
        density = 0.3989422804014327 * tl.exp(-0.5 * z * z)
        return z * below, below + z * density
    elif ACTIVATION == "tanh":
        state = libdevice.tanh(z)
        return state, 1 - state * state
    else:  # identity
        return z, tl.full(z.shape, 1.0, tl.float32)


@triton.jit
def deviance_slope(logs, target, power):
    """Return the derivative of a deviance with respect to the logarithm of its prediction."""
    return 2 * (tl.exp((2 - power) * logs) - target * tl.exp((1 - power) * logs))


@triton.jit
def loss_slope(
    output, target_ptr, target_row, weight_ptr, setting, rows, columns, n_rows, n_outputs, KIND: tl.constexpr
):  # fmt: skip
    """Return the weighted gradient of the loss for outputs (rows, columns); 0 outside the rows and outputs."""
    row_inside, column_inside = rows < n_rows, columns < n_outputs
    inside = row_inside[:, None] & column_inside[None, :]
    if KIND == 0:
        target = tl.load(target_ptr + rows * target_row, mask=row_inside, other=0)
        shifted = tl.where(column_inside[None, :], output, float("-inf"))
        shifted -= tl.max(shifted, axis=1)[:, None]
        powers = tl.exp(shifted)
        gradient = powers / tl.sum(powers, axis=1)[:, None]
        hit = columns[None, :] == target[:, None]
        gradient = gradient - tl.where(hit, 1 - setting, 0.0) - setting / n_outputs
    else:
        target = tl.load(target_ptr + rows[:, None] * target_row + columns[None, :], mask=inside, other=0.0)
        gradient = output - target
        if KIND == 1:
            gradient = 2 * gradient
        elif KIND == 2:
            gradient = tl.minimum(tl.maximum(gradient, -setting), setting)
        elif KIND == 3:
            sign = tl.where(gradient > 0, 0.5, tl.where(gradient < 0, -0.5, 0.0))
            gradient = sign + (0.5 - setting)
        elif KIND == 4:
            gradient = tl.sigmoid(output) - target
        elif KIND == 5:
            gradient = tl.where(gradient > 0, 1.0, tl.where(gradient < 0, -1.0, 0.0))
        else:
            gradient = deviance_slope(tl.minimum(tl.maximum(output, -_LARGEST_LOG), _LARGEST_LOG), target, setting)
    weight = tl.load(weight_ptr + rows, mask=row_inside, other=0.0)
    return tl.where(inside, gradient * weight[:, None], 0.0)


def self_check(like: Tensor) -> None:
    """Run the kernels once; raise if their results are wrong on the device of `like` or with this version of Triton."""
    flat, rates = like.new_ones(2, 8), like.new_ones(3, 2, 1)
    moment, square = torch.zeros_like(flat), torch.zeros_like(flat)
    # With all rates 1: m = 0.5, v = 0.75, w = 1 - m / (sqrt(v) + 1).
    adam_step(flat, torch.ones_like(flat), moment, square, rates, (0.5, 0.25), 8)
    if not torch.allclose(flat, torch.full_like(flat, 1 - 0.5 / (0.75**0.5 + 1))):
        raise RuntimeError("the optimizer's step is wrong")
    table, ids = (
        torch.arange(12.0, dtype=like.dtype, device=like.device).view(3, 4),
        like.new_tensor([2, 0], dtype=torch.int64),
    )
    if not torch.equal(gather_rows(table, ids), table[ids]):
        raise RuntimeError("gathered rows are wrong")
