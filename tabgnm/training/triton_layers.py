"""GPU kernels that do all the work of a layer at once: its product, what stands around it, and the optimiser's step.

- `forward_layer`: product, bias, ReLU and dropout;
- `output_layer`: product and bias of the last layer, gradient of the loss;
- `backward_layer`: product, backward through dropout and ReLU;
- `Update`: gradients of all weights and biases, and the optimiser's step.

No gradient of a weight ever goes to memory. A step of K layers takes 2K kernels.

Products of float32 numbers are computed on tensor cores: each number is split into three bfloat16 numbers that together
hold all its 24 bits, and the six products that matter are added up in float32 ("bf16x6"). That is as accurate as
float32 arithmetic, and faster than the units for float32.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from tabgnm.training.fused import LOSS_KINDS
from tabgnm.training.triton_kernels import ADAM_OPTIONS, adam, loss_slope, stream_numbers

MOST_OUTPUTS = 128  # a kernel holds all outputs of some rows at once
# How products are computed, by the precision asked for. Two bfloat16 numbers hold more bits than TF32 does.
PRODUCTS = {"float32": "bf16x6", "tf32": "bf16x3", "bf16": "bf16"}
_FEW_PROGRAMS, _SOME_PROGRAMS = 24, 132  # so few leave most multiprocessors of a GPU idle, or some
_AT_ONCE = 32
_FEW_UPDATES = 192  # the same for the optimiser's step, which waits for memory


@triton.jit
def _product(left, right, total, HOW: tl.constexpr):
    if HOW == "bf16":
        return tl.dot(left.to(tl.bfloat16), right.to(tl.bfloat16), total)
    else:
        return tl.dot(left, right, total, input_precision=HOW)


@triton.jit(do_not_specialize=["n_rows", "n_nodes", "stream_model"])
def _forward_kernel(
    source_ptr, weight_ptr, bias_ptr, state_ptr, stream_ptr, threshold_ptr, scale_ptr,
    n_rows, n_sources, n_targets, n_nodes, source_model, source_row, flat_model, state_model, state_row, stream_model,
    HOW: tl.constexpr, RELU: tl.constexpr, DROPOUT: tl.constexpr,
    ROWS: tl.constexpr, SOURCES: tl.constexpr, TARGETS: tl.constexpr,
):  # fmt: skip
    model = tl.program_id(2).to(tl.int64)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    targets = tl.program_id(0) * TARGETS + tl.arange(0, TARGETS)
    row_inside, target_inside = (rows < n_rows)[:, None], (targets < n_targets)[None, :]
    source_ptr += model * source_model + rows[:, None] * source_row
    weight_ptr += model * flat_model + targets[None, :]
    total = tl.zeros((ROWS, TARGETS), dtype=tl.float32)
    for start in range(0, n_sources, SOURCES):
        sources = start + tl.arange(0, SOURCES)
        inside = sources < n_sources
        source = tl.load(source_ptr + sources[None, :], mask=row_inside & inside[None, :], other=0.0)
        weight = tl.load(weight_ptr + sources[:, None] * n_targets, mask=target_inside & inside[:, None], other=0.0)
        total = _product(source.to(tl.float32), weight, total, HOW)
    bias = tl.load(bias_ptr + model * flat_model + targets, mask=targets < n_targets, other=0.0)
    state = total + bias[None, :]
    if RELU:  # a model that diverges has to be noticed, so NaN stays NaN
        state = tl.maximum(state, 0.0, propagate_nan=tl.PropagateNan.ALL)
    if DROPOUT:
        places = stream_ptr + model * stream_model + rows[:, None] * n_nodes + targets[None, :]
        numbers = stream_numbers(places, row_inside & (targets < n_nodes)[None, :])
        kept = numbers >= tl.load(threshold_ptr + model)
        state = tl.where(kept, state * tl.load(scale_ptr + model), 0.0)
    places = state_ptr + model * state_model + rows[:, None] * state_row + targets[None, :]
    tl.store(places, state, mask=row_inside & target_inside)


@triton.jit(do_not_specialize=["n_rows", "n_outputs", "setting", "kept_model", "kept_row", "target_model"])
def _output_kernel(
    source_ptr, weight_ptr, bias_ptr, target_ptr, share_ptr, kept_ptr, grad_ptr, setting,
    n_rows, n_sources, n_targets, n_outputs, source_model, source_row, flat_model, target_model, target_row,
    share_model, kept_model, kept_row, grad_model, grad_row,
    HOW: tl.constexpr, KIND: tl.constexpr, ROWS: tl.constexpr, SOURCES: tl.constexpr, TARGETS: tl.constexpr,
):  # fmt: skip
    model = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    targets = tl.arange(0, TARGETS)
    row_inside, target_inside = (rows < n_rows)[:, None], (targets < n_targets)[None, :]
    source_ptr += model * source_model + rows[:, None] * source_row
    weight_ptr += model * flat_model + targets[None, :]
    output = tl.zeros((ROWS, TARGETS), dtype=tl.float32)
    for start in range(0, n_sources, SOURCES):
        sources = start + tl.arange(0, SOURCES)
        inside = sources < n_sources
        source = tl.load(source_ptr + sources[None, :], mask=row_inside & inside[None, :], other=0.0)
        weight = tl.load(weight_ptr + sources[:, None] * n_targets, mask=target_inside & inside[:, None], other=0.0)
        output = _product(source.to(tl.float32), weight, output, HOW)
    output += tl.load(bias_ptr + model * flat_model + targets, mask=targets < n_targets, other=0.0)[None, :]
    kept_ptr += model * kept_model + rows[:, None] * kept_row + targets[None, :]
    tl.store(kept_ptr, output, mask=row_inside & (targets < n_outputs)[None, :])
    grad = loss_slope(
        output, target_ptr + model * target_model, target_row, share_ptr + model * share_model, setting,
        rows, targets, n_rows, n_outputs, KIND,
    )  # fmt: skip
    grad_ptr += model * grad_model + rows[:, None] * grad_row + targets[None, :]
    tl.store(grad_ptr, grad, mask=row_inside & target_inside)


@triton.jit(do_not_specialize=["n_rows"])
def _backward_kernel(
    source_ptr, weight_ptr, grad_ptr, grad_source_ptr, scale_ptr,
    n_rows, n_sources, n_targets, source_model, source_row, flat_model, grad_model, grad_row,
    HOW: tl.constexpr, DROPOUT: tl.constexpr, ROWS: tl.constexpr, SOURCES: tl.constexpr, TARGETS: tl.constexpr,
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
        total = _product(grad, tl.trans(weight), total, HOW)
    inside = row_inside & source_inside[None, :]
    source_ptr += model * source_model + rows[:, None] * source_row + sources[None, :]
    if DROPOUT:
        total *= tl.load(scale_ptr + model)
    total = tl.where(tl.load(source_ptr, mask=inside, other=0.0) > 0, total, 0.0)
    # Gradients of all layers lie side by side, so this one's are found as those read are.
    grad_source_ptr += model * grad_model + rows[:, None] * grad_row + sources[None, :]
    tl.store(grad_source_ptr, total, mask=inside)


@triton.jit
def _fetch_to_cache(places):
    """Ask for memory that will be read soon; unlike a load it holds no registers meanwhile."""
    tl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.u32 $0, 0;", "=r,l", [places.to(tl.int64)], dtype=tl.int32, is_pure=False, pack=1
    )


@triton.jit(do_not_specialize=["n_rows", "rates_stride"])
def _update_kernel(
    tile_ptr, x_ptr, state_ptr, grad_ptr, flat_ptr, moment_ptr, square_ptr, factor_ptr,
    rates_ptr, l2_ptr, l1_ptr, decay_ptr, threshold_ptr,
    n_rows, x_model, x_row, state_model, state_row, grad_model, grad_row, flat_model, rates_stride,
    HOW: tl.constexpr, BETA_1: tl.constexpr, BETA_2: tl.constexpr, HAS_L2: tl.constexpr, HAS_L1: tl.constexpr,
    HAS_DECAY: tl.constexpr, HAS_THRESHOLD: tl.constexpr, HAS_FACTORS: tl.constexpr,
    ROWS: tl.constexpr, SOURCES: tl.constexpr, TARGETS: tl.constexpr,
):  # fmt: skip
    """Step one tile of the weights of one layer, and the biases of its targets if the tile is the first for them."""
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
    inside = (sources < n_sources)[:, None] & target_inside
    # The two ends of each row of the tile: a row is at most a line of the cache long, but may lie in two.
    ends = tl.minimum(first_target + tl.arange(0, 2) * (TARGETS - 1), n_targets - 1)
    ends = weight_column + tl.minimum(sources, n_sources - 1)[:, None] * n_targets + ends[None, :]
    _fetch_to_cache(flat_ptr + model * flat_model + ends)
    _fetch_to_cache(moment_ptr + model * flat_model + ends)
    _fetch_to_cache(square_ptr + model * flat_model + ends)

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
        source = tl.load(source_places, mask=row_inside & source_inside, other=0.0).to(tl.float32)
        grad_places = grad_ptr + model * grad_model + rows[:, None] * grad_row + grad_column + targets[None, :]
        grad = tl.load(grad_places, mask=row_inside & target_inside, other=0.0)
        slope = _product(tl.trans(source), grad, slope, HOW)
        bias_slope += tl.sum(grad, axis=0)

    # Read only now: before the product they would take registers, and with them half of the programs that run at once.
    columns = weight_column + sources[:, None] * n_targets + targets[None, :]
    places = model * flat_model + columns
    weight = tl.load(flat_ptr + places, mask=inside, other=0.0)
    moment = tl.load(moment_ptr + places, mask=inside, other=0.0)
    square = tl.load(square_ptr + places, mask=inside, other=0.0)
    weight, moment, square = adam(
        weight, slope, moment, square, inside, factor_ptr + columns, model,
        rates_ptr, rates_stride, l2_ptr, l1_ptr, decay_ptr, threshold_ptr,
        BETA_1, BETA_2, HAS_L2, HAS_L1, HAS_DECAY, HAS_THRESHOLD, HAS_FACTORS,
    )  # fmt: skip
    tl.store(flat_ptr + places, weight, mask=inside)
    tl.store(moment_ptr + places, moment, mask=inside)
    tl.store(square_ptr + places, square, mask=inside)

    if first_source == 0:
        bias_columns = weight_column + n_sources * n_targets + targets  # a bias follows its weights
        bias_places, bias_inside = model * flat_model + bias_columns, targets < n_targets
        bias, bias_moment, bias_square = adam(
            tl.load(flat_ptr + bias_places, mask=bias_inside, other=0.0), bias_slope,
            tl.load(moment_ptr + bias_places, mask=bias_inside, other=0.0),
            tl.load(square_ptr + bias_places, mask=bias_inside, other=0.0),
            bias_inside, factor_ptr + bias_columns, model,
            rates_ptr, rates_stride, l2_ptr, l1_ptr, decay_ptr, threshold_ptr,
            BETA_1, BETA_2, HAS_L2, HAS_L1, HAS_DECAY, HAS_THRESHOLD, HAS_FACTORS,
        )  # fmt: skip
        tl.store(flat_ptr + bias_places, bias, mask=bias_inside)
        tl.store(moment_ptr + bias_places, bias_moment, mask=bias_inside)
        tl.store(square_ptr + bias_places, bias_square, mask=bias_inside)


def _tile(n_models: int, n_rows: int, n_columns: int) -> tuple[int, int, int, int]:
    """Rows and columns of states or gradients that a program computes, how many numbers it adds up at once, and stages.

    Large tiles spare work, small ones keep more multiprocessors busy. How many numbers are added up at once is always
    the same, so that a sum is rounded alike whatever the tile: a model alone is to the bit the one in a fleet.
    """
    n_programs = n_models * triton.cdiv(n_rows, 64) * triton.cdiv(n_columns, 64)
    if n_programs < _FEW_PROGRAMS:
        return 16, 32, _AT_ONCE, 3
    if n_programs < _SOME_PROGRAMS:
        return 64, 32, _AT_ONCE, 3
    return 64, 64, _AT_ONCE, 2


def forward_layer(
    source: Tensor,
    weight: Tensor,
    bias: Tensor,
    state: Tensor,
    dropout: tuple[Tensor, Tensor, Tensor] | None,
    how: str,
    *,
    relu: bool = True,
) -> None:
    """Compute states (n, B, t) of a layer from those before it (n, B, s); without ReLU for outputs.

    `dropout` holds stream states (M, B, t without what was added to align it), thresholds and scales (M, 1, 1).
    """
    n_models, n_rows, n_targets = state.shape
    n_sources = weight.shape[1]
    streams, thresholds, scales = (state, state, state) if dropout is None else dropout
    rows, targets, sources, _ = _tile(n_models, n_rows, n_targets)
    _forward_kernel[(triton.cdiv(n_targets, targets), triton.cdiv(n_rows, rows), n_models)](
        source, weight, bias, state, streams, thresholds, scales,
        n_rows, n_sources, n_targets, streams.shape[2], source.stride(0), source.stride(1), weight.stride(0),
        state.stride(0), state.stride(1), streams.stride(0),
        HOW=how, RELU=relu, DROPOUT=dropout is not None,
        ROWS=rows, SOURCES=min(sources, max(16, triton.next_power_of_2(n_sources))), TARGETS=targets,
        num_warps=4, num_stages=3,
    )  # fmt: skip


def output_layer(
    kind: str,
    setting: float,
    source: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    shares: Tensor,
    kept: Tensor,
    grad: Tensor,
    how: str,
) -> None:
    """Compute outputs (n, B, c) into `kept` and the gradient by them (n, B, aligned c) into `grad`.

    `targets` are (n, B) or (n, B, c); `shares` (n, B) is what rows count.
    """
    n_models, n_rows, n_outputs = kept.shape
    n_sources, n_targets = weight.shape[1:]
    rows = min(64, max(16, triton.next_power_of_2(n_rows)))
    _output_kernel[(triton.cdiv(n_rows, rows), n_models)](
        source, weight, bias, targets, shares, kept, grad, setting,
        n_rows, n_sources, n_targets, n_outputs, source.stride(0), source.stride(1), weight.stride(0),
        targets.stride(0), targets.stride(1), shares.stride(0), kept.stride(0), kept.stride(1),
        grad.stride(0), grad.stride(1),
        HOW=how, KIND=LOSS_KINDS[kind], ROWS=rows, SOURCES=64, TARGETS=triton.next_power_of_2(n_targets),
        num_warps=4, num_stages=3,
    )  # fmt: skip


def backward_layer(
    source: Tensor, weight: Tensor, grad: Tensor, grad_source: Tensor, scales: Tensor | None, how: str
) -> None:
    """Write the gradient by the messages of the layer before into `grad_source` (n, B, s).

    `source` (n, B, s) are the states before the layer, `grad` (n, B, t) is the gradient by the messages of the layer;
    both gradients are parts of one buffer. `scales` (M, 1, 1) are those of dropout in the layer before.
    """
    n_models, n_rows, n_targets = grad.shape
    n_sources = weight.shape[1]
    rows, sources, targets, stages = _tile(n_models, n_rows, n_sources)
    targets = min(targets, max(16, triton.next_power_of_2(n_targets)))
    _backward_kernel[(triton.cdiv(n_sources, sources), triton.cdiv(n_rows, rows), n_models)](
        source, weight, grad, grad_source, grad if scales is None else scales,
        n_rows, n_sources, n_targets, source.stride(0), source.stride(1), weight.stride(0),
        grad.stride(0), grad.stride(1),
        HOW=how, DROPOUT=scales is not None, ROWS=rows, SOURCES=sources, TARGETS=targets,
        num_warps=4, num_stages=stages,
    )  # fmt: skip


class Update:
    """The optimiser's step of all weights and biases of M models.

    Parameters
    ----------
    widths : sequence of (int, int)
        Sources and targets of each layer.
    flat, moment, square : Tensor
        Weights and moments (M, P): those of each layer, and its biases, one after the other.
    betas : (float, float)
    l2, l1, decay, threshold : Tensor or None
        Penalties, (M, 1) each.
    factors : Tensor or None
        Factors of the learning rate, (P,).
    """

    def __init__(
        self,
        widths: Sequence[tuple[int, int]],
        flat: Tensor,
        moment: Tensor,
        square: Tensor,
        betas: tuple[float, float],
        l2: Tensor | None,
        l1: Tensor | None,
        decay: Tensor | None,
        threshold: Tensor | None,
        factors: Tensor | None,
    ) -> None:
        self._buffers = flat, moment, square, flat if factors is None else factors
        penalties = l2, l1, decay, threshold
        self._penalties = [flat if each is None else each for each in penalties]  # what is not there is not read
        names = ("HAS_L2", "HAS_L1", "HAS_DECAY", "HAS_THRESHOLD")
        self._constants: dict[str, float] = {
            name: each is not None for name, each in zip(names, penalties, strict=True)
        }
        self._constants |= {"HAS_FACTORS": factors is not None, "BETA_1": betas[0], "BETA_2": betas[1]}
        # With so many registers per thread five programs fit on a multiprocessor instead of four.
        self._sources, self._targets, self._options = 64, 32, {"maxnreg": 96}
        if len(flat) * len(self._cut(widths)) < _FEW_UPDATES:
            self._sources, self._options = 16, {}
        self._tiles = torch.tensor(self._cut(widths), dtype=torch.int32, device=flat.device)

    def _cut(self, widths: Sequence[tuple[int, int]]) -> list[list[int]]:
        """What `_update_kernel` wants to know of each tile, in its order."""
        tiles, source_column, grad_column, weight_column = [], 0, 0, 0
        for layer, (n_sources, n_targets) in enumerate(widths):
            for source in range(0, n_sources, self._sources):
                for target in range(0, n_targets, self._targets):
                    columns = [source_column, grad_column, weight_column]
                    tiles.append([int(layer == 0), source, target, n_sources, n_targets, *columns])
            source_column += n_sources if layer else 0  # states begin with those that the second layer reads
            grad_column += n_targets
            weight_column += (n_sources + 1) * n_targets
        return tiles

    def __call__(self, x: Tensor, states: Tensor, grads: Tensor, rates: Tensor, how: str) -> None:
        """Step the first models, as many as `x` (n, B, aligned m) has.

        `states` and `grads` (M, B, widths of the layers side by side) are the states of all layers but the last, and
        the gradients by the messages of all layers.
        """
        n_models, n_rows, _ = x.shape
        flat = self._buffers[0]
        _update_kernel[(len(self._tiles), n_models)](
            self._tiles, x, states, grads, *self._buffers, rates, *self._penalties,
            n_rows, x.stride(0), x.stride(1), states.stride(0), states.stride(1), grads.stride(0), grads.stride(1),
            flat.stride(0), rates.stride(0),
            HOW=how, **self._constants, ROWS=32, SOURCES=self._sources, TARGETS=self._targets,
            num_warps=4, num_stages=1, **self._options, **ADAM_OPTIONS,
        )  # fmt: skip


def self_check(device: torch.device) -> None:
    """Compile and run kernels once; an exception here means that this GPU or this Triton cannot do what they need."""
    source, weight = torch.ones(1, 2, 16, device=device), torch.ones(1, 16, 16, device=device)
    state = torch.empty(1, 2, 16, device=device)
    forward_layer(source, weight, torch.zeros(1, 16, device=device), state, None, PRODUCTS["float32"])
    if not bool((state == 16).all()):
        raise RuntimeError("a product of ones is wrong")
    # As many models as it takes for the larger tiles of the optimiser's step. Gradients are 2 everywhere.
    flat = torch.zeros(_FEW_UPDATES, 17 * 16, device=device)
    moment, square = flat.clone(), flat.clone()
    update = Update([(16, 16)], flat, moment, square, (0.5, 0.5), None, None, None, None, None)
    ones = torch.ones(_FEW_UPDATES, 2, 16, device=device)
    update(ones, ones, ones, torch.ones(3, _FEW_UPDATES, 1, device=device), PRODUCTS["float32"])
    if not bool((moment == 1).all()):
        raise RuntimeError("a gradient of ones is wrong")
