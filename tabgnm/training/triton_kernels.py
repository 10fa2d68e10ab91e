"""Two fused GPU kernels: the optimiser's step, and the gradient of the loss.

They do what `Adam.step` and `Loss.gradient` do with torch's operations, in one pass over memory and one launch each.
Nothing depends on them: where Triton or the compiler it needs is missing, torch's operations are used.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 1024
LOSS_KINDS = {"cross_entropy": 0, "mse": 1, "huber": 2, "quantile": 3, "binary_cross_entropy": 4}


@triton.jit
def _adam_kernel(
    flat_ptr, grad_ptr, moment_ptr, square_ptr, rates_ptr, l2_ptr, l1_ptr, decay_ptr, threshold_ptr, factors_ptr,
    n_columns, n_edges, stride, rates_stride,
    BETA_1: tl.constexpr, BETA_2: tl.constexpr,
    HAS_L2: tl.constexpr, HAS_L1: tl.constexpr, HAS_DECAY: tl.constexpr,
    HAS_THRESHOLD: tl.constexpr, HAS_FACTORS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    model = tl.program_id(1).to(tl.int64)
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < n_columns
    edge = columns < n_edges
    places = model * stride + columns
    weight = tl.load(flat_ptr + places, mask=inside, other=0.0)
    grad = tl.load(grad_ptr + places, mask=inside, other=0.0)
    if HAS_L2:
        grad += tl.where(edge, weight * tl.load(l2_ptr + model), 0.0)
    if HAS_L1:
        sign = tl.where(weight > 0, 1.0, tl.where(weight < 0, -1.0, 0.0))
        grad += tl.where(edge, sign * tl.load(l1_ptr + model), 0.0)
    scale = tl.load(rates_ptr + model)
    offset = tl.load(rates_ptr + rates_stride + model)
    rate = tl.load(rates_ptr + 2 * rates_stride + model)
    if HAS_DECAY:
        weight = tl.where(edge, weight * (1 - rate * tl.load(decay_ptr + model)), weight)
    moment = tl.load(moment_ptr + places, mask=inside, other=0.0)
    square = tl.load(square_ptr + places, mask=inside, other=0.0)
    moment += (1 - BETA_1) * (grad - moment)
    square = square * BETA_2 + (1 - BETA_2) * grad * grad
    update = tl.div_rn(moment, tl.sqrt_rn(square) * scale + offset)
    factor = 1.0
    if HAS_FACTORS:
        factor = tl.load(factors_ptr + columns, mask=inside, other=1.0)
        update *= factor
    weight -= update
    if HAS_THRESHOLD:
        threshold = rate * tl.load(threshold_ptr + model) * factor
        shrunk = weight - tl.maximum(tl.minimum(weight, threshold), -threshold)
        weight = tl.where(edge, shrunk, weight)
    tl.store(flat_ptr + places, weight, mask=inside)
    tl.store(moment_ptr + places, moment, mask=inside)
    tl.store(square_ptr + places, square, mask=inside)


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
    _adam_kernel[(triton.cdiv(n_columns, _BLOCK), n_models)](
        flat, grad, moment, square, rates,
        none if l2 is None else l2, none if l1 is None else l1,
        none if decay is None else decay, none if threshold is None else threshold,
        none if factors is None else factors,
        n_columns, n_edges, flat.stride(0), rates.stride(0),
        BETA_1=betas[0], BETA_2=betas[1],
        HAS_L2=l2 is not None, HAS_L1=l1 is not None, HAS_DECAY=decay is not None,
        HAS_THRESHOLD=threshold is not None, HAS_FACTORS=factors is not None, BLOCK=_BLOCK,
    )  # fmt: skip


@triton.jit
def _loss_kernel(
    output_ptr, target_ptr, weight_ptr, kept_ptr, grad_ptr, setting, n_rows, n_outputs,
    target_model, target_row, weight_model, kept_model, kept_row,
    KIND: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    model = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)
    row_inside = rows < n_rows
    inside = row_inside[:, None] & (columns < n_outputs)[None, :]
    places = (model * n_rows + rows)[:, None] * n_outputs + columns[None, :]
    output = tl.load(output_ptr + places, mask=inside, other=0.0)
    weight = tl.load(weight_ptr + model * weight_model + rows, mask=row_inside, other=0.0)
    tl.store(kept_ptr + model * kept_model + rows[:, None] * kept_row + columns[None, :], output, mask=inside)
    if KIND == 0:
        target = tl.load(target_ptr + model * target_model + rows * target_row, mask=row_inside, other=0)
        shifted = tl.where(inside, output, float("-inf"))
        shifted -= tl.max(shifted, axis=1)[:, None]
        powers = tl.where(inside, tl.exp(shifted), 0.0)
        gradient = tl.div_rn(powers, tl.sum(powers, axis=1)[:, None] + tl.zeros_like(powers))
        hit = columns[None, :] == target[:, None]
        gradient = gradient - tl.where(hit, 1 - setting, 0.0) - setting / n_outputs
    else:
        where = model * target_model + rows[:, None] * target_row + columns[None, :]
        target = tl.load(target_ptr + where, mask=inside, other=0.0)
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
    tl.store(grad_ptr + places, gradient * weight[:, None], mask=inside)


def loss_gradient(
    kind: str, setting: float, output: Tensor, targets: Tensor, weights: Tensor, kept: Tensor, dtype: torch.dtype
) -> Tensor:
    """Weighted gradient of the loss by `output` (n, B, c), which is also copied to `kept`.

    `weights` (n, B), `targets` (n, B) or (n, B, c) and `kept` (n, B, c) may be parts of larger tensors.
    """
    n_models, n_rows, n_outputs = output.shape
    gradient = torch.empty(output.shape, dtype=dtype, device=output.device)
    columns = triton.next_power_of_2(n_outputs)
    rows = min(triton.next_power_of_2(n_rows), max(1, 4096 // columns))
    _loss_kernel[(triton.cdiv(n_rows, rows), n_models)](
        output, targets, weights, kept, gradient, setting, n_rows, n_outputs,
        targets.stride(0), targets.stride(1), weights.stride(0), kept.stride(0), kept.stride(1),
        KIND=LOSS_KINDS[kind], ROWS=rows, COLUMNS=columns,
    )  # fmt: skip
    return gradient


def self_check(device: torch.device) -> Any:
    """Compile and run both kernels once; an exception here means that they cannot be used on this machine."""
    flat = torch.ones(2, 8, device=device)
    rates = torch.ones(3, 2, 1, device=device)
    nothing: dict[str, Any] = dict.fromkeys(("l2", "l1", "decay", "threshold", "factors"))
    adam_step(flat, flat.clone(), flat.clone(), flat.clone(), rates, (0.9, 0.999), 8, **nothing)
    output = torch.zeros(2, 3, 4, device=device)
    targets = torch.zeros(2, 3, dtype=torch.int64, device=device)
    weights, kept = torch.ones(2, 3, device=device), torch.empty_like(output)
    return loss_gradient("cross_entropy", 0.0, output, targets, weights, kept, output.dtype)
