"""Fused GPU kernels for what stands between the matrix products of a step.

Small matrix products are over before the next kernel has been launched, so what counts is the number of kernels and of
passes over memory. Each kernel here takes the place of two to six of torch's operations:

- `activate`: bias, ReLU and dropout of a layer;
- `loss_gradient`: bias of the last layer, gradient of the loss, gradient of that bias;
- `deactivate`: backward through dropout and ReLU, gradient of the layer's bias;
- `adam_step`: penalties, optimiser, soft threshold;
- `gather_rows`: fetches the rows of an epoch.

Nothing depends on them: where Triton or the compiler it needs is missing, torch's operations are used.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from tabgnm.training.fused import LOSS_KINDS

_ADAM_BLOCK = 1024
_STREAM_FACTOR = tl.constexpr(6364136223846793005)  # as in `counter_random`
_STREAM_STEP = tl.constexpr(1442695040888963407)


# A product and a sum may become one operation that rounds once; whether they do must not depend on which penalties the
# other models of a fleet have.
ADAM_OPTIONS = {"enable_fp_fusion": False}


@triton.jit
def adam(
    weight, grad, moment, square, inside, factor_ptr, model,
    rates_ptr, rates_stride, l2_ptr, l1_ptr, decay_ptr, threshold_ptr,
    BETA_1: tl.constexpr, BETA_2: tl.constexpr, HAS_L2: tl.constexpr, HAS_L1: tl.constexpr, HAS_DECAY: tl.constexpr,
    HAS_THRESHOLD: tl.constexpr, HAS_FACTORS: tl.constexpr,
):  # fmt: skip
    """Step weights of a model with their gradients; gives the new weights and moments.

    Quotient and root are those that may be off by a unit in the last place: nothing depends on that, and the exact ones
    take as long as the memory does.
    """
    if HAS_L2:
        grad += tl.load(l2_ptr + model) * weight
    if HAS_L1:
        l1 = tl.load(l1_ptr + model)
        grad += tl.where(weight > 0, l1, tl.where(weight < 0, -l1, 0.0))
    moment += (1 - BETA_1) * (grad - moment)
    square = square * BETA_2 + (1 - BETA_2) * grad * grad
    scale, offset = tl.load(rates_ptr + model), tl.load(rates_ptr + rates_stride + model)
    change = moment / (tl.sqrt(square) * scale + offset)
    rate = tl.load(rates_ptr + 2 * rates_stride + model)
    if HAS_FACTORS:
        factor = tl.load(factor_ptr, mask=inside, other=1.0)
        change *= factor
        rate *= factor
    if HAS_DECAY:
        weight *= 1 - rate * tl.load(decay_ptr + model)
    weight -= change
    if HAS_THRESHOLD:
        limit = rate * tl.load(threshold_ptr + model)
        weight -= tl.maximum(tl.minimum(weight, limit), -limit)
    return weight, moment, square


@triton.jit(do_not_specialize=["rates_stride"])
def _adam_kernel(
    flat_ptr, grad_ptr, moment_ptr, square_ptr, rates_ptr, l2_ptr, l1_ptr, decay_ptr, threshold_ptr, factors_ptr,
    first, last, stride, rates_stride,
    BETA_1: tl.constexpr, BETA_2: tl.constexpr, HAS_L2: tl.constexpr, HAS_L1: tl.constexpr, HAS_DECAY: tl.constexpr,
    HAS_THRESHOLD: tl.constexpr, HAS_FACTORS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    model = tl.program_id(1).to(tl.int64)
    columns = first + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < last
    places = model * stride + columns
    weight, moment, square = adam(
        tl.load(flat_ptr + places, mask=inside, other=0.0), tl.load(grad_ptr + places, mask=inside, other=0.0),
        tl.load(moment_ptr + places, mask=inside, other=0.0), tl.load(square_ptr + places, mask=inside, other=0.0),
        inside, factors_ptr + columns, model,
        rates_ptr, rates_stride, l2_ptr, l1_ptr, decay_ptr, threshold_ptr,
        BETA_1, BETA_2, HAS_L2, HAS_L1, HAS_DECAY, HAS_THRESHOLD, HAS_FACTORS,
    )  # fmt: skip
    tl.store(flat_ptr + places, weight, mask=inside)
    tl.store(moment_ptr + places, moment, mask=inside)
    tl.store(square_ptr + places, square, mask=inside)


@triton.jit(do_not_specialize=["n_rows"])
def _gather_kernel(table_ptr, ids_ptr, out_ptr, n_rows, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (rows < n_rows)[:, None] & (columns < width)[None, :]
    ids = tl.load(ids_ptr + rows, mask=rows < n_rows, other=0)
    values = tl.load(table_ptr + ids[:, None] * width + columns[None, :], mask=inside, other=0.0)
    tl.store(out_ptr + rows[:, None] * width + columns[None, :], values, mask=inside)


def gather_rows(table: Tensor, ids: Tensor) -> Tensor:
    """Return table[ids] for a table (N, w): torch's kernel takes a block of threads for each short row."""
    out = torch.empty(len(ids), table.shape[1], dtype=table.dtype, device=table.device)
    columns = min(64, triton.next_power_of_2(table.shape[1]))
    rows = 2048 // columns
    _gather_kernel[(triton.cdiv(len(ids), rows), triton.cdiv(table.shape[1], columns))](
        table, ids, out, len(ids), table.shape[1], ROWS=rows, COLUMNS=columns
    )
    return out


def adam_step(
    flat: Tensor,
    grad: Tensor,
    moment: Tensor,
    square: Tensor,
    rates: Tensor,
    betas: tuple[float, float],
    n_edges: int,
    *,
    l2: Tensor | None,
    l1: Tensor | None,
    decay: Tensor | None,
    threshold: Tensor | None,
    factors: Tensor | None,
) -> None:
    """One step of the first models, as many as `flat` (n, P) has; `rates` (3, M, 1) are those of the step."""
    n_models, n_columns = flat.shape
    none = flat  # a pointer for what is not there; the kernel does not follow it
    # Penalties act on edges only, which come first; most networks have nothing else.
    for first, last, penalties in ((0, n_edges, True), (n_edges, n_columns, False)):
        if first == last:
            continue
        own = [each if penalties else None for each in (l2, l1, decay, threshold)]
        _adam_kernel[(triton.cdiv(last - first, _ADAM_BLOCK), n_models)](
            flat, grad, moment, square, rates, *(none if each is None else each for each in own),
            none if factors is None else factors, first, last, flat.stride(0), rates.stride(0),
            BETA_1=betas[0], BETA_2=betas[1],
            HAS_L2=own[0] is not None, HAS_L1=own[1] is not None, HAS_DECAY=own[2] is not None,
            HAS_THRESHOLD=own[3] is not None, HAS_FACTORS=factors is not None, BLOCK=_ADAM_BLOCK, **ADAM_OPTIONS,
        )  # fmt: skip


@triton.jit
def stream_numbers(places, inside):
    """Advance the streams behind the pointers and give their numbers."""
    numbers = tl.load(places, mask=inside, other=0) * _STREAM_FACTOR + _STREAM_STEP
    tl.store(places, numbers, mask=inside)
    return numbers


@triton.jit(do_not_specialize=["n_rows"])
def _activate_kernel(
    state_ptr, bias_ptr, stream_ptr, threshold_ptr, scale_ptr,
    n_rows, n_columns, n_nodes, state_model, state_row, bias_model, stream_model,
    DROPOUT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    model = tl.program_id(2).to(tl.int64)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (rows < n_rows)[:, None] & (columns < n_columns)[None, :]
    places = state_ptr + model * state_model + rows[:, None] * state_row + columns[None, :]
    bias = tl.load(bias_ptr + model * bias_model + columns, mask=columns < n_columns, other=0.0)
    state = tl.load(places, mask=inside, other=0.0) + bias[None, :]
    state = tl.maximum(state, 0.0, propagate_nan=tl.PropagateNan.ALL)  # a model that diverges has to be noticed
    if DROPOUT:
        real = (rows < n_rows)[:, None] & (columns < n_nodes)[None, :]
        streams = stream_ptr + model * stream_model + rows[:, None] * n_nodes + columns[None, :]
        kept = stream_numbers(streams, real) >= tl.load(threshold_ptr + model)
        state = tl.where(kept, state * tl.load(scale_ptr + model), 0.0)
    tl.store(places, state, mask=inside)


def activate(state: Tensor, bias: Tensor, dropout: tuple[Tensor, Tensor, Tensor] | None) -> None:
    """Turn products (n, B, t) into states: add the bias (n, t), ReLU, dropout.

    `dropout` holds stream states (M, B, t without what was added to align it), thresholds and scales (M, 1, 1).
    """
    n_models, n_rows, n_columns = state.shape
    streams, thresholds, scales = (state, state, state) if dropout is None else dropout
    rows, columns = 32, min(64, triton.next_power_of_2(n_columns))
    _activate_kernel[(triton.cdiv(n_columns, columns), triton.cdiv(n_rows, rows), n_models)](
        state, bias, streams, thresholds, scales,
        n_rows, n_columns, streams.shape[2], state.stride(0), state.stride(1), bias.stride(0), streams.stride(0),
        DROPOUT=dropout is not None, ROWS=rows, COLUMNS=columns,
    )  # fmt: skip


@triton.jit(do_not_specialize=["n_rows"])
def _deactivate_kernel(
    grad_ptr, state_ptr, grad_bias_ptr, scale_ptr,
    n_rows, n_columns, grad_model, grad_row, state_model, state_row, bias_model,
    DROPOUT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    model = tl.program_id(1).to(tl.int64)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    column_inside = columns < n_columns
    total = tl.zeros((COLUMNS,), dtype=tl.float32)
    scale = tl.load(scale_ptr + model) if DROPOUT else 1.0
    for start in range(0, n_rows, ROWS):
        rows = start + tl.arange(0, ROWS)
        inside = (rows < n_rows)[:, None] & column_inside[None, :]
        places = grad_ptr + model * grad_model + rows[:, None] * grad_row + columns[None, :]
        states = state_ptr + model * state_model + rows[:, None] * state_row + columns[None, :]
        grad = tl.load(places, mask=inside, other=0.0) * scale
        grad = tl.where(tl.load(states, mask=inside, other=0.0) > 0, grad, 0.0)
        tl.store(places, grad, mask=inside)
        total += tl.sum(grad, axis=0)
    tl.store(grad_bias_ptr + model * bias_model + columns, total, mask=column_inside)


def deactivate(grad: Tensor, state: Tensor, grad_bias: Tensor, scales: Tensor | None) -> None:
    """Turn the gradient by states (n, B, t) into that by messages, in place, and write the bias's (n, t)."""
    n_models, n_rows, n_columns = grad.shape
    columns = min(16 if n_models < 64 else 32, triton.next_power_of_2(n_columns))
    _deactivate_kernel[(triton.cdiv(n_columns, columns), n_models)](
        grad, state, grad_bias, grad if scales is None else scales,
        n_rows, n_columns, grad.stride(0), grad.stride(1), state.stride(0), state.stride(1), grad_bias.stride(0),
        DROPOUT=scales is not None, ROWS=64, COLUMNS=columns,
    )  # fmt: skip


@triton.jit
def loss_slope(
    output, target_ptr, target_row, weight_ptr, setting, rows, columns, n_rows, n_outputs, KIND: tl.constexpr
):  # fmt: skip
    """Weighted gradient of the loss by outputs (rows, columns) of a model; 0 where there is no row or output."""
    row_inside, column_inside = rows < n_rows, columns < n_outputs
    inside = row_inside[:, None] & column_inside[None, :]
    if KIND == 0:
        target = tl.load(target_ptr + rows * target_row, mask=row_inside, other=0)
        shifted = tl.where(column_inside[None, :], output, float("-inf"))
        shifted -= tl.max(shifted, axis=1)[:, None]
        powers = tl.exp(shifted)
        gradient = tl.div_rn(powers, tl.sum(powers, axis=1)[:, None] + tl.zeros_like(powers))
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
        else:
            gradient = tl.sigmoid(output) - target
    weight = tl.load(weight_ptr + rows, mask=row_inside, other=0.0)
    return tl.where(inside, gradient * weight[:, None], 0.0)


@triton.jit(do_not_specialize=["n_rows", "n_outputs", "bias_model", "grad_bias_model", "setting"])
def _loss_kernel(
    output_ptr, target_ptr, weight_ptr, kept_ptr, grad_ptr, bias_ptr, grad_bias_ptr, setting, n_rows, n_outputs,
    output_model, output_row, target_model, target_row, weight_model, kept_model, kept_row, grad_model, grad_row,
    bias_model, grad_bias_model,
    KIND: tl.constexpr, BIAS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    model = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, COLUMNS)
    column_inside = columns < n_outputs
    bias = tl.zeros((COLUMNS,), dtype=tl.float32)
    if BIAS:
        bias = tl.load(bias_ptr + model * bias_model + columns, mask=column_inside, other=0.0)
    total = tl.zeros((COLUMNS,), dtype=tl.float32)
    for start in range(0, n_rows, ROWS):
        rows = start + tl.arange(0, ROWS)
        inside = (rows < n_rows)[:, None] & column_inside[None, :]
        places = output_ptr + model * output_model + rows[:, None] * output_row + columns[None, :]
        output = tl.load(places, mask=inside, other=0.0) + bias[None, :]
        tl.store(kept_ptr + model * kept_model + rows[:, None] * kept_row + columns[None, :], output, mask=inside)
        gradient = loss_slope(
            output, target_ptr + model * target_model, target_row, weight_ptr + model * weight_model, setting,
            rows, columns, n_rows, n_outputs, KIND,
        )  # fmt: skip
        tl.store(grad_ptr + model * grad_model + rows[:, None] * grad_row + columns[None, :], gradient, mask=inside)
        total += tl.sum(gradient, axis=0)
    if BIAS:
        tl.store(grad_bias_ptr + model * grad_bias_model + columns, total, mask=column_inside)


def loss_gradient(
    kind: str,
    setting: float,
    output: Tensor,
    targets: Tensor,
    weights: Tensor,
    kept: Tensor,
    grad: Tensor,
    bias: Tensor | None = None,
    grad_bias: Tensor | None = None,
) -> None:
    """Write the weighted gradient of the loss by `output` (n, B, c) into `grad`, and the output into `kept`.

    With a `bias` (n, c), it is added to the output first, and its gradient written to `grad_bias`. All tensors may be
    parts of larger ones; `targets` are (n, B) or (n, B, c), `weights` (n, B).
    """
    n_models, n_rows, n_outputs = output.shape
    columns = triton.next_power_of_2(n_outputs)
    rows = min(triton.next_power_of_2(n_rows), max(1, 2048 // columns))
    some_bias, some_grad_bias = (grad[:, 0], grad[:, 0]) if bias is None or grad_bias is None else (bias, grad_bias)
    _loss_kernel[(n_models,)](
        output, targets, weights, kept, grad, some_bias, some_grad_bias, setting, n_rows, n_outputs,
        output.stride(0), output.stride(1), targets.stride(0), targets.stride(1), weights.stride(0),
        kept.stride(0), kept.stride(1), grad.stride(0), grad.stride(1), some_bias.stride(0), some_grad_bias.stride(0),
        KIND=LOSS_KINDS[kind], BIAS=bias is not None, ROWS=rows, COLUMNS=columns,
    )  # fmt: skip


def self_check(device: torch.device) -> None:
    """Compile and run kernels once; an exception here means that they cannot be used on this machine."""
    flat = torch.ones(2, 8, device=device)
    rates = torch.ones(3, 2, 1, device=device)
    nothing: dict[str, Any] = dict.fromkeys(("l2", "l1", "decay", "threshold", "factors"))
    adam_step(flat, flat.clone(), flat.clone(), flat.clone(), rates, (0.9, 0.999), 8, **nothing)
    output = torch.zeros(2, 3, 4, device=device)
    targets = torch.zeros(2, 3, dtype=torch.int64, device=device)
    weights, kept = torch.ones(2, 3, device=device), torch.empty_like(output)
    loss_gradient("cross_entropy", 0.0, output, targets, weights, kept, torch.empty_like(output))
