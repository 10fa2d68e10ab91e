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

from tabgnm.training.counter_random import STREAM_FACTOR, STREAM_STEP

_BLOCK = 1024
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


def adam_step(edges: OptimizerBuffers, grad: Tensor, rates: Tensor, betas: tuple[float, float], n_edges: int) -> None:
    """Update the first n models, given `grad` (n, P); `rates` (3, M, 1) are those of the step."""
    n_models, n_columns = grad.shape
    others = OptimizerBuffers(*edges[:3])  # penalties only apply to edges, which come first
    for first, last, buffers in ((0, n_edges, edges), (n_edges, n_columns, others)):
        if first < last:
            _adam_kernel[(triton.cdiv(last - first, _BLOCK), n_models)](
                grad, buffers, rates, first, last, grad.stride(0), rates.stride(0),
                BETA_1=betas[0], BETA_2=betas[1], BLOCK=_BLOCK,
            )  # fmt: skip


@triton.jit(do_not_specialize=["n_positions", "batch_size", "y_width", "n_ids", "n_out"])
def _gather_kernel(
    x_ptr, y_ptr, id_ptr, step_weight_ptr, epoch_weight_ptr, step_ptr, x_out_ptr, y_out_ptr, weight_out_ptr,
    n_positions, batch_size, x_width, y_width, n_ids, n_out, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    model = tl.program_id(2).to(tl.int64)
    positions = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = positions < n_positions
    places = model * n_ids + tl.load(step_ptr) * batch_size + positions
    ids = tl.load(id_ptr + places, mask=inside, other=0)
    positions += model * n_positions
    both_inside = inside[:, None] & (columns < x_width)[None, :]
    values = tl.load(x_ptr + ids[:, None] * x_width + columns[None, :], mask=both_inside, other=0.0)
    tl.store(x_out_ptr + positions[:, None] * x_width + columns[None, :], values, mask=both_inside)
    if tl.program_id(1) == 0:
        for column in range(y_width):
            target = tl.load(y_ptr + ids * y_width + column, mask=inside, other=0)
            tl.store(y_out_ptr + positions * y_width + column, target, mask=inside)
        step_weight = tl.load(step_weight_ptr + places, mask=inside, other=0.0)
        epoch_weight = tl.load(epoch_weight_ptr + places, mask=inside, other=0.0)
        tl.store(weight_out_ptr + positions, step_weight, mask=inside)
        tl.store(weight_out_ptr + n_out + positions, epoch_weight, mask=inside)


def gather_block(
    tables: tuple[Tensor, Tensor],
    ids: Tensor,
    weights: tuple[Tensor, Tensor],
    step: Tensor,
    batch_size: int,
    out: tuple[Tensor, Tensor, Tensor],
) -> None:
    """Gather the rows of consecutive steps, the first of which is `step`.

    `tables` are x and y of all rows, `ids` (M, N) the rows of an epoch, and `weights` two tables of the same size.
    `out` are x and y of the first n models, (n, L, ...), and both weights, (2, n, L).
    """
    x, y, own_weights = out
    n_models, n_positions, width = x.shape
    columns = min(64, triton.next_power_of_2(width))
    rows = 2048 // columns
    _gather_kernel[(triton.cdiv(n_positions, rows), triton.cdiv(width, columns), n_models)](
        *tables, ids, *weights, step, x, y, own_weights, n_positions, batch_size, width, y[0, 0].numel(),
        ids.shape[1], own_weights[0].numel(), ROWS=rows, COLUMNS=columns,
    )  # fmt: skip


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
    else:
        tl.static_assert(ACTIVATION == "identity", "this activation has no formula here")
        return z, tl.full(z.shape, 1.0, tl.float32)


def self_check(like: Tensor) -> None:
    """Run the kernels once; raise if their results are wrong on the device of `like` or with this version of Triton."""
    flat, rates = like.new_ones(2, 8), like.new_ones(3, 2, 1)
    # With all rates 1: m = 0.5, v = 0.75, w = 1 - m / (sqrt(v) + 1).
    buffers = OptimizerBuffers(flat, torch.zeros_like(flat), torch.zeros_like(flat))
    adam_step(buffers, torch.ones_like(flat), rates, (0.5, 0.25), 8)
    if not torch.allclose(flat, torch.full_like(flat, 1 - 0.5 / (0.75**0.5 + 1))):
        raise RuntimeError("the optimizer's step is wrong")
    table = torch.arange(12.0, dtype=like.dtype, device=like.device).view(3, 4)
    ids, weights = like.new_tensor([[1, 2, 0]], dtype=torch.int64), like.new_tensor([[1.0, 2.0, 3.0]])
    x, y, own_weights = like.new_empty(1, 2, 4), like.new_empty(1, 2, 4), like.new_empty(2, 1, 2)
    gather_block((table, table), ids, (weights, weights), ids[0, 0], 1, (x, y, own_weights))
    if not (torch.equal(x[0], table[[2, 0]]) and torch.equal(y, x) and torch.equal(own_weights[1], weights[:, 1:])):
        raise RuntimeError("gathered rows are wrong")
