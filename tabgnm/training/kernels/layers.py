"""GPU kernels that do all the work of a layer at once: its product, the operations around it, the optimizer's step.

- `forward_layer`: product, bias, activation and dropout;
- `output_layer`: product and bias of the last layer, gradient of the loss;
- `backward_layer`: product, backward through dropout and activation;
- `Update`: gradients of all weights and biases, and the optimizer's step.

Gradients of weights are never written to memory. A step of K layers takes 2K kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from tabgnm.nn.losses import Loss
from tabgnm.training.kernels import loss_kind
from tabgnm.training.kernels.elementwise import OptimizerBuffers, activate, adam, stream_numbers
from tabgnm.training.kernels.losses import loss_and_slope
from tabgnm.training.kernels.products import PARTS, product, tile_side

_FEW_PROGRAMS, _SOME_PROGRAMS = 24, 132  # with fewer, most or some multiprocessors of a GPU are idle
_FEW_UPDATES = 192  # the same for the optimizer's step, which is limited by memory


@triton.jit
def _times_weights(
    source_ptr, weight_ptr, row_inside, target_inside, n_sources, n_targets,
    PARTS: tl.constexpr, ROWS: tl.constexpr, SOURCES: tl.constexpr, TARGETS: tl.constexpr,
):  # fmt: skip
    """Return the product of rows of sources with columns of weights, given as pointers (ROWS, 1) and (1, TARGETS)."""
    total = tl.zeros((ROWS, TARGETS), dtype=tl.float32)
    for start in range(0, n_sources, SOURCES):
        sources = start + tl.arange(0, SOURCES)
        inside = sources < n_sources
        source = tl.load(source_ptr + sources[None, :], mask=row_inside & inside[None, :], other=0.0)
        weight = tl.load(weight_ptr + sources[:, None] * n_targets, mask=target_inside & inside[:, None], other=0.0)
        total = product(source, weight, total, PARTS)
    return total


@triton.jit(do_not_specialize=["n_rows", "n_nodes", "stream_model"])
def _forward_kernel(
    source_ptr, weight_ptr, bias_ptr, state_ptr, slope_ptr, stream_ptr, threshold_ptr, scale_ptr,
    n_rows, n_sources, n_targets, n_nodes, source_model, source_row, flat_model, state_model, state_row, stream_model,
    PARTS: tl.constexpr, ACTIVATION: tl.constexpr, ROWS: tl.constexpr, SOURCES: tl.constexpr, TARGETS: tl.constexpr,
):  # fmt: skip
    model = tl.program_id(2).to(tl.int64)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    targets = tl.program_id(0) * TARGETS + tl.arange(0, TARGETS)
    row_inside, target_inside = (rows < n_rows)[:, None], (targets < n_targets)[None, :]
    total = _times_weights(
        source_ptr + model * source_model + rows[:, None] * source_row,
        weight_ptr + model * flat_model + targets[None, :],
        row_inside, target_inside, n_sources, n_targets, PARTS, ROWS, SOURCES, TARGETS,
    )  # fmt: skip
    bias = tl.load(bias_ptr + model * flat_model + targets, mask=targets < n_targets, other=0.0)
    state, slope = activate(total + bias[None, :], ACTIVATION)
    if stream_ptr is not None:
        places = stream_ptr + model * stream_model + rows[:, None] * n_nodes + targets[None, :]
        numbers = stream_numbers(places, row_inside & (targets < n_nodes)[None, :])
        factor = tl.where(numbers >= tl.load(threshold_ptr + model), tl.load(scale_ptr + model), 0.0)
        state *= factor
        slope *= factor
    places = model * state_model + rows[:, None] * state_row + targets[None, :]
    tl.store(state_ptr + places, state, mask=row_inside & target_inside)
    if slope_ptr is not None:
        tl.store(slope_ptr + places, slope, mask=row_inside & target_inside)


@triton.jit(
    do_not_specialize=["n_rows", "n_outputs", "setting", "kept_model", "kept_row", "target_model", "share_model"],
    do_not_specialize_on_alignment=["target_ptr", "share_ptr", "kept_ptr"],
)
def _output_kernel(
    source_ptr, weight_ptr, bias_ptr, target_ptr, share_ptr, kept_ptr, grad_ptr, setting,
    n_rows, n_sources, n_targets, n_outputs, source_model, source_row, flat_model, target_model, target_row,
    share_model, kept_model, kept_row, grad_model, grad_row,
    PARTS: tl.constexpr, KIND: tl.constexpr, ROWS: tl.constexpr, SOURCES: tl.constexpr, TARGETS: tl.constexpr,
):  # fmt: skip
    model = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    targets = tl.arange(0, TARGETS)
    row_inside, target_inside = (rows < n_rows)[:, None], (targets < n_targets)[None, :]
    output = _times_weights(
        source_ptr + model * source_model + rows[:, None] * source_row,
        weight_ptr + model * flat_model + targets[None, :],
        row_inside, target_inside, n_sources, n_targets, PARTS, ROWS, SOURCES, TARGETS,
    )  # fmt: skip
    output += tl.load(bias_ptr + model * flat_model + targets, mask=targets < n_targets, other=0.0)[None, :]
    kept_ptr += model * kept_model + rows[:, None] * kept_row + targets[None, :]
    tl.store(kept_ptr, output, mask=row_inside & (targets < n_outputs)[None, :])
    _, grad = loss_and_slope(
        output, target_ptr + model * target_model, target_row, setting, rows, targets, n_rows, n_outputs, KIND
    )  # fmt: skip
    share = tl.load(share_ptr + model * share_model + rows, mask=rows < n_rows, other=0.0)
    grad_ptr += model * grad_model + rows[:, None] * grad_row + targets[None, :]
    tl.store(grad_ptr, grad * share[:, None], mask=row_inside & target_inside)


@triton.jit(do_not_specialize=["n_rows"])
def _backward_kernel(
    weight_ptr, grad_ptr, grad_source_ptr, state_ptr, slope_ptr, scale_ptr,
    n_rows, n_sources, n_targets, flat_model, grad_model, grad_row, state_model, state_row,
    ADDS: tl.constexpr, PARTS: tl.constexpr, ROWS: tl.constexpr, SOURCES: tl.constexpr, TARGETS: tl.constexpr,
):  # fmt: skip
    model = tl.program_id(2).to(tl.int64)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    sources = tl.program_id(0) * SOURCES + tl.arange(0, SOURCES)
    row_inside, source_inside = (rows < n_rows)[:, None], sources < n_sources
    grad_ptr += model * grad_model + rows[:, None] * grad_row
    weight_ptr += model * flat_model + sources[:, None] * n_targets
    total = tl.zeros((ROWS, SOURCES), dtype=tl.float32)
    for start in range(0, n_targets, TARGETS):
        targets = start + tl.arange(0, TARGETS)
        target_inside = (targets < n_targets)[None, :]
        grad = tl.load(grad_ptr + targets[None, :], mask=row_inside & target_inside, other=0.0)
        weight = tl.load(weight_ptr + targets[None, :], mask=source_inside[:, None] & target_inside, other=0.0)
        total = product(grad, tl.trans(weight), total, PARTS)
    inside = row_inside & source_inside[None, :]
    places = model * state_model + rows[:, None] * state_row + sources[None, :]
    if state_ptr is not None:  # ReLU: a state that was not dropped is positive if and only if the slope is 1
        state = tl.load(state_ptr + places, mask=inside, other=0.0)
        if scale_ptr is not None:
            total *= tl.load(scale_ptr + model)
        total = tl.where(state > 0, total, 0.0)
    if slope_ptr is not None:
        total *= tl.load(slope_ptr + places, mask=inside, other=0.0)
    # The gradients of all layers are side by side in one buffer, so they have the same strides.
    grad_source_ptr += model * grad_model + rows[:, None] * grad_row + sources[None, :]
    if ADDS:
        total += tl.load(grad_source_ptr, mask=inside, other=0.0)
    tl.store(grad_source_ptr, total, mask=inside)


@triton.jit
def _fetch_to_cache(places):
    """Prefetch memory that will be read soon; unlike a load, this does not occupy registers."""
    tl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.u32 $0, 0;", "=r,l", [places.to(tl.int64)], dtype=tl.int32, is_pure=False, pack=1
    )


@triton.jit(do_not_specialize=["n_rows", "rates_stride"], do_not_specialize_on_alignment=["rates_ptr"])
def _update_kernel(
    tile_ptr, x_ptr, state_ptr, grad_ptr, buffers, rates_ptr,
    n_rows, x_model, x_row, state_model, state_row, grad_model, grad_row, flat_model, rates_stride,
    PARTS: tl.constexpr, BETA_1: tl.constexpr, BETA_2: tl.constexpr,
    ROWS: tl.constexpr, SOURCES: tl.constexpr, TARGETS: tl.constexpr,
):  # fmt: skip
    """Update one tile of the weights of one layer, and the biases of its targets if the tile is their first."""
    model = tl.program_id(1).to(tl.int64)
    tile_ptr += tl.program_id(0) * 8
    is_first_layer = tl.load(tile_ptr) != 0
    first_source = tl.multiple_of(tl.load(tile_ptr + 1), 16)
    first_target = tl.multiple_of(tl.load(tile_ptr + 2), 16)
    n_sources = tl.multiple_of(tl.load(tile_ptr + 3), 16)
    n_targets = tl.multiple_of(tl.load(tile_ptr + 4), 16)
    source_column = tl.multiple_of(tl.load(tile_ptr + 5), 16)
    grad_column = tl.multiple_of(tl.load(tile_ptr + 6), 16)
    weight_column = tl.multiple_of(tl.load(tile_ptr + 7), 16)
    sources, targets = first_source + tl.arange(0, SOURCES), first_target + tl.arange(0, TARGETS)
    source_inside, target_inside = (sources < n_sources)[None, :], (targets < n_targets)[None, :]
    # The two ends of each row of the tile: a row is at most as long as a cache line, but may extend over two.
    ends = tl.minimum(first_target + tl.arange(0, 2) * (TARGETS - 1), n_targets - 1)
    ends = weight_column + tl.minimum(sources, n_sources - 1)[:, None] * n_targets + ends[None, :]
    _fetch_to_cache(buffers.flat + model * flat_model + ends)
    _fetch_to_cache(buffers.moment + model * flat_model + ends)
    _fetch_to_cache(buffers.square + model * flat_model + ends)

    source_ptr, source_row = state_ptr + model * state_model + source_column, state_row
    if is_first_layer:
        source_ptr, source_row = x_ptr + model * x_model, x_row
    source_ptr, source_row = tl.multiple_of(source_ptr, 16), tl.multiple_of(source_row, 16)
    slope = tl.zeros((SOURCES, TARGETS), dtype=tl.float32)
    bias_slope = tl.zeros((TARGETS,), dtype=tl.float32)
    for start in range(0, n_rows, ROWS):
        rows = start + tl.arange(0, ROWS)
        row_inside = (rows < n_rows)[:, None]
        source_places = source_ptr + rows[:, None] * source_row + sources[None, :]
        source = tl.load(source_places, mask=row_inside & source_inside, other=0.0)
        grad_places = grad_ptr + model * grad_model + rows[:, None] * grad_row + grad_column + targets[None, :]
        grad = tl.load(grad_places, mask=row_inside & target_inside, other=0.0)
        slope = product(tl.trans(source), grad, slope, PARTS)
        if first_source == 0:
            bias_slope += tl.sum(grad, axis=0)

    # Weights and moments are read only now: before the product they would occupy registers, which would halve the
    # number of programs that run at once.
    columns = weight_column + sources[:, None] * n_targets + targets[None, :]
    step = model, buffers, flat_model, rates_ptr, rates_stride, BETA_1, BETA_2
    adam(slope, columns, (sources < n_sources)[:, None] & target_inside, step)
    if first_source == 0:  # a bias follows its weights
        adam(bias_slope, weight_column + n_sources * n_targets + targets, targets < n_targets, step)


def _tile(n_models: int, n_rows: int, n_columns: int) -> tuple[int, int, int, dict[str, int]]:
    """Return the rows and columns that a program computes, the numbers it adds at once, and options of Triton.

    Large tiles save work; small ones keep more multiprocessors busy.
    """
    n_programs = n_models * triton.cdiv(n_rows, 64) * triton.cdiv(n_columns, 64)
    if n_programs < _FEW_PROGRAMS:
        return 16, 32, 64, {}
    if n_programs < _SOME_PROGRAMS or n_columns <= 32:
        return 64, min(32, tile_side(n_columns)), 32, {}
    return 64, 64, 32, {"maxnreg": 128}  # so that four programs fit on a multiprocessor


Dropout = tuple[Tensor, Tensor, Tensor]  # stream states (M, B, nodes), thresholds and scales (M, 1, 1)


def forward_layer(
    source: Tensor,
    weight: Tensor,
    bias: Tensor,
    state: Tensor,
    n_parts: int,
    activation: str,
    slope: Tensor | None = None,
    dropout: Dropout | None = None,
) -> None:
    """Compute the states (n, B, t) of a layer from those of the previous layer (n, B, s), and optionally slopes.

    A slope is the derivative of a state with respect to its message, including dropout. `weight` and `bias` are parts
    of one buffer. Rows of `weight` beyond s, and columns beyond the nodes of dropout, are padding.
    """
    n_models, n_rows, n_targets = state.shape
    n_sources = source.shape[2]
    streams, thresholds, scales = (None, None, None) if dropout is None else dropout
    n_nodes, stream_model = (0, 0) if streams is None else (streams.shape[2], streams.stride(0))
    rows, targets, sources, options = _tile(n_models, n_rows, n_targets)
    _forward_kernel[(triton.cdiv(n_targets, targets), triton.cdiv(n_rows, rows), n_models)](
        source, weight, bias, state, slope, streams, thresholds, scales,
        n_rows, n_sources, n_targets, n_nodes, source.stride(0), source.stride(1), weight.stride(0),
        state.stride(0), state.stride(1), stream_model,
        PARTS=n_parts, ACTIVATION=activation, ROWS=rows, SOURCES=min(sources, tile_side(n_sources)), TARGETS=targets,
        num_warps=4, num_stages=3, **options,
    )  # fmt: skip


def output_layer(
    loss: Loss,
    source: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    shares: Tensor,
    kept: Tensor,
    grad: Tensor,
    n_parts: int,
) -> None:
    """Compute outputs (n, B, c) into `kept`, and their gradient (n, B, padded c) into `grad`.

    `targets` are (n, B) or (n, B, c); `shares` (n, B) are the weights of the rows.
    """
    n_models, n_rows, n_outputs = kept.shape
    n_sources, n_targets = source.shape[2], weight.shape[2]
    rows, sources = min(64, tile_side(n_rows)), 64 if n_targets <= 64 else 32
    _output_kernel[(triton.cdiv(n_rows, rows), n_models)](
        source, weight, bias, targets, shares, kept, grad, loss.setting,
        n_rows, n_sources, n_targets, n_outputs, source.stride(0), source.stride(1), weight.stride(0),
        targets.stride(0), targets.stride(1), shares.stride(0), kept.stride(0), kept.stride(1),
        grad.stride(0), grad.stride(1),
        PARTS=n_parts, KIND=loss_kind(loss), ROWS=rows, SOURCES=min(sources, tile_side(n_sources)),
        TARGETS=tile_side(n_targets), num_warps=4, num_stages=3,
    )  # fmt: skip


def backward_layer(
    weight: Tensor,
    grad: Tensor,
    grad_source: Tensor,
    n_parts: int,
    state: Tensor | None = None,
    slope: Tensor | None = None,
    scales: Tensor | None = None,
    *,
    adds: bool = False,
) -> None:
    """Write the gradient of the messages of the previous layer (or of x), (n, B, s), into `grad_source`, or add it.

    `grad` (n, B, t) is the gradient of the messages of this layer; both gradients are parts of one buffer. If the
    activation is ReLU, `state` and the `scales` of dropout describe the previous layer, otherwise `slope`.
    """
    n_models, n_rows, n_targets = grad.shape
    n_sources = weight.shape[1]
    rows, sources, targets, options = _tile(n_models, n_rows, n_sources)
    known = state if slope is None else slope
    strides = (0, 0) if known is None else known.stride()[:2]
    _backward_kernel[(triton.cdiv(n_sources, sources), triton.cdiv(n_rows, rows), n_models)](
        weight, grad, grad_source, state, slope, scales,
        n_rows, n_sources, n_targets, weight.stride(0), grad.stride(0), grad.stride(1), *strides,
        ADDS=adds, PARTS=n_parts, ROWS=rows, SOURCES=sources, TARGETS=min(targets, tile_side(n_targets)),
        num_warps=4, num_stages=3 if sources < 64 else 2, **options,
    )  # fmt: skip


class LayerSize(NamedTuple):
    """How many sources and targets a layer has, multiples of 16, and the first column of its sources in `states`."""

    n_sources: int
    n_targets: int
    source_column: int = 0  # not used for the first layer, whose sources are `x`


class Update:
    """The optimizer's step of all weights and biases of M models.

    The rows of `buffers` begin with the weights and biases of all layers, one layer after the other.
    """

    def __init__(self, layers: Sequence[LayerSize], buffers: OptimizerBuffers, betas: tuple[float, float]) -> None:
        flat = buffers.flat
        self._buffers, self._betas = buffers, betas
        # With at most 128 registers per thread, four programs fit on a multiprocessor.
        self._sources, self._targets, self._options = 64, 32, {"maxnreg": 128}
        if len(flat) * len(self._cut(layers)) < _FEW_UPDATES:
            self._sources, self._options = 16, {}
        self._tiles = torch.tensor(self._cut(layers), dtype=torch.int32, device=flat.device)

    def _cut(self, layers: Sequence[LayerSize]) -> list[list[int]]:
        """Return the description of each tile that `_update_kernel` reads."""
        tiles, grad_column, weight_column = [], 0, 0
        for number, (n_sources, n_targets, source_column) in enumerate(layers):
            for source in range(0, n_sources, self._sources):
                for target in range(0, n_targets, self._targets):
                    columns = [source_column, grad_column, weight_column]
                    tiles.append([int(number == 0), source, target, n_sources, n_targets, *columns])
            grad_column += n_targets
            weight_column += (n_sources + 1) * n_targets
        return tiles

    def __call__(self, x: Tensor, states: Tensor, grads: Tensor, rates: Tensor, n_parts: int) -> None:
        """Update the first n models, given `x` (n, B, padded m).

        `states` (M, B, ...) has the sources of all layers except the first, with the type of `x`; `grads` (M, B, ...)
        begins with the gradients of the messages of all layers, side by side.
        """
        n_models, n_rows, _ = x.shape
        _update_kernel[(len(self._tiles), n_models)](
            self._tiles, x, states, grads, self._buffers, rates,
            n_rows, x.stride(0), x.stride(1), states.stride(0), states.stride(1), grads.stride(0), grads.stride(1),
            self._buffers.flat.stride(0), rates.stride(0),
            PARTS=n_parts, BETA_1=self._betas[0], BETA_2=self._betas[1],
            ROWS=64, SOURCES=self._sources, TARGETS=self._targets, num_warps=4, num_stages=1, **self._options,
        )  # fmt: skip


def self_check(like: Tensor) -> None:
    """Run the kernels once; raise if their results are wrong on the device of `like` or with this version of Triton."""
    # Enough models for the large tiles of all kernels.
    ones, n_parts = like.new_ones(_FEW_UPDATES, 64, 64), PARTS["float32"]
    flat, state = like.new_full((_FEW_UPDATES, 65 * 64), 1 / 3), torch.empty_like(ones)  # needs all parts
    forward_layer(ones, flat[:, : 64 * 64].view(ones.shape), flat[:, 64 * 64 :], state, n_parts, "relu")
    if not torch.allclose(state, 65 * ones / 3, rtol=1e-6):
        raise RuntimeError("a product is wrong")
    buffers = OptimizerBuffers(flat, torch.zeros_like(flat), torch.zeros_like(flat))
    Update([LayerSize(64, 64)], buffers, (0.5, 0.5))(ones, ones, ones, like.new_ones(3, _FEW_UPDATES, 1), n_parts)
    if not bool((buffers.moment == 32).all()):
        raise RuntimeError("a gradient is wrong")
