"""GPU kernels of learned input embeddings, in float32: one for all columns forward, one for gradients and their step.

They compute what `tabgnm.nn.embeddings.embed` and `embed_backward` define. The cosines of periodic embeddings are
computed again in the backward pass, which takes less time than reading them. Gradients are sums over rows in a fixed
order: one program has all rows of a column of numbers, or of a tile of levels, and takes the optimizer's step at the
end.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import torch
import triton
import triton.language as tl
from torch import Tensor

from tabgnm.nn.embeddings import InputEmbedding
from tabgnm.training.kernels import MOST_EMBEDDED
from tabgnm.training.kernels.elementwise import OptimizerBuffers, adam
from tabgnm.training.kernels.layers import product, tile_side

_COLUMNS = tl.constexpr(32)  # plain columns that a program copies
_LEVELS, _LEVEL_ROWS = tl.constexpr(32), tl.constexpr(64)  # levels that a program steps, and rows it reads at once
_TWO_PI = tl.constexpr(2 * math.pi)
_NOT_SPECIALIZED = [
    "n_rows", "n_plain", "n_numeric", "n_categories", "n_basis", "numeric_dim", "level_dim",
    "frequency_at", "phase_at", "weight_at", "bias_at", "level_at", "x_model",
]  # fmt: skip
_PARAMETERS = ("embed_frequency", "embed_phase", "embed_weight", "embed_bias", "embed_level")


@triton.jit
def _cos_sin(turns):
    """Return cosine and sine of 2 pi turns, off by at most two units in the last place of 1."""
    # The quarter that an angle lies in is exact however large the angle; a quarter is left for Taylor series. Adding
    # and subtracting 1.5 * 2^23 rounds to an integer, and leaves it in the low bits.
    turns -= tl.floor(turns + 0.5)
    rounded = 4 * turns + 12582912.0
    quarter = rounded.to(tl.int32, bitcast=True) & 3
    angle = (turns - 0.25 * (rounded - 12582912.0)) * _TWO_PI
    square = angle * angle
    sine = angle + angle * square * (-1 / 6 + square * (1 / 120 + square * (-1 / 5040 + square * (1 / 362880))))
    cosine = 1 + square * (-0.5 + square * (1 / 24 + square * (-1 / 720 + square * (1 / 40320))))
    swapped, negative = quarter % 2 == 1, quarter >= 2
    first, second = tl.where(swapped, -sine, cosine), tl.where(swapped, cosine, sine)
    return tl.where(negative, -first, first), tl.where(negative, -second, second)


@triton.jit
def _basis(x, k, places, inside, frequency_ptr, phase_ptr, PERIODIC: tl.constexpr):
    """Return the basis functions k of numbers x, and the sines that belong to periodic ones."""
    if PERIODIC:
        frequency = tl.load(frequency_ptr + places, mask=inside, other=0.0)
        phase = tl.load(phase_ptr + places, mask=inside, other=0.0)
        return _cos_sin(x * frequency + phase / _TWO_PI)
    else:
        basis = tl.minimum(tl.maximum(x - k, 0.0), 1.0)
        return basis, basis


@triton.jit
def _embed_numbers(
    x, flat_ptr, out_ptr, column, row_inside, n_basis, numeric_dim, frequency_at, phase_at, weight_at, bias_at,
    PERIODIC: tl.constexpr, ROWS: tl.constexpr, BASIS: tl.constexpr, DIM: tl.constexpr,
):  # fmt: skip
    k, d = tl.arange(0, BASIS), tl.arange(0, DIM)
    places, basis_inside, dim_inside = column * n_basis + k, k < n_basis, d < numeric_dim
    basis, _ = _basis(
        x[:, None], k[None, :], places[None, :], basis_inside[None, :], flat_ptr + frequency_at, flat_ptr + phase_at,
        PERIODIC,
    )  # fmt: skip
    weight_ptr = flat_ptr + weight_at + places[:, None] * numeric_dim + d[None, :]
    weight = tl.load(weight_ptr, mask=basis_inside[:, None] & dim_inside[None, :], other=0.0)
    bias = tl.load(flat_ptr + bias_at + column * numeric_dim + d, mask=dim_inside, other=0.0)
    mixed = product(basis, weight, tl.zeros((ROWS, DIM), tl.float32), 3) + bias[None, :]
    if PERIODIC:
        tl.store(out_ptr, x, mask=row_inside)
        out_ptr += 1
    tl.store(out_ptr[:, None] + d[None, :], mixed, mask=row_inside[:, None] & dim_inside[None, :])


@triton.jit(do_not_specialize=_NOT_SPECIALIZED)
def _forward_kernel(
    x_ptr, flat_ptr, out_ptr, first_level_ptr,
    n_rows, n_plain, n_numeric, n_categories, n_basis, numeric_dim, level_dim,
    frequency_at, phase_at, weight_at, bias_at, level_at, x_model, x_row, flat_model, out_model, out_row,
    PERIODIC: tl.constexpr, ROWS: tl.constexpr, BASIS: tl.constexpr, DIM: tl.constexpr, LEVEL_DIM: tl.constexpr,
):  # fmt: skip
    """Embed a column of numbers, look up the levels of a category, or copy some plain columns."""
    part, model = tl.program_id(0), tl.program_id(2).to(tl.int64)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    row_inside = rows < n_rows
    x_ptr += model * x_model + rows * x_row
    flat_ptr += model * flat_model
    out_ptr += model * out_model + rows * out_row
    width = numeric_dim + (1 if PERIODIC else 0)
    if part < n_numeric:
        _embed_numbers(
            tl.load(x_ptr + n_plain + part, mask=row_inside, other=0.0), flat_ptr, out_ptr + n_plain + part * width,
            part, row_inside, n_basis, numeric_dim, frequency_at, phase_at, weight_at, bias_at,
            PERIODIC, ROWS, BASIS, DIM,
        )  # fmt: skip
    elif part < n_numeric + n_categories:
        category, d = part - n_numeric, tl.arange(0, LEVEL_DIM)
        level_inside = row_inside[:, None] & (d < level_dim)[None, :]
        code = tl.load(x_ptr + n_plain + part, mask=row_inside, other=0.0).to(tl.int32)
        level = tl.load(first_level_ptr + category) + code
        row = tl.load(flat_ptr + level_at + level[:, None] * level_dim + d[None, :], mask=level_inside, other=0.0)
        first_column = n_plain + n_numeric * width + category * level_dim
        tl.store(out_ptr[:, None] + first_column + d[None, :], row, mask=level_inside)
    else:
        columns = (part - n_numeric - n_categories) * _COLUMNS + tl.arange(0, _COLUMNS)
        inside = row_inside[:, None] & (columns < n_plain)[None, :]
        plain = tl.load(x_ptr[:, None] + columns[None, :], mask=inside, other=0.0)
        tl.store(out_ptr[:, None] + columns[None, :], plain, mask=inside)


@triton.jit
def _step_numbers(
    x_ptr, grad_ptr, column, model, rates_ptr, flat_ptr, moment_ptr, square_ptr, factor_ptr,
    n_rows, n_basis, numeric_dim, frequency_at, phase_at, weight_at, bias_at, x_row, grad_row, flat_model, rates_stride,
    BETA_1: tl.constexpr, BETA_2: tl.constexpr,
    PERIODIC: tl.constexpr, ROWS: tl.constexpr, BASIS: tl.constexpr, DIM: tl.constexpr,
):  # fmt: skip
    k, d = tl.arange(0, BASIS), tl.arange(0, DIM)
    places, basis_inside, dim_inside = column * n_basis + k, k < n_basis, d < numeric_dim
    weight_places, weight_inside = (
        places[None, :] * numeric_dim + d[:, None],
        dim_inside[:, None] & basis_inside[None, :],
    )
    own_ptr = flat_ptr + model * flat_model
    weight = tl.load(own_ptr + weight_at + weight_places, mask=weight_inside, other=0.0)
    # Learned numbers stand first: Triton gives a thread all of them, so that sums over them are within a thread.
    by_weight, by_bias = tl.zeros((DIM, ROWS, BASIS), tl.float32), tl.zeros((DIM, ROWS), tl.float32)
    by_phase, by_frequency = tl.zeros((ROWS, BASIS), tl.float32), tl.zeros((ROWS, BASIS), tl.float32)
    for start in range(0, n_rows, ROWS):
        rows = start + tl.arange(0, ROWS)
        row_inside = rows < n_rows
        x = tl.load(x_ptr + rows * x_row, mask=row_inside, other=0.0)
        grad_places = grad_ptr + rows[None, :] * grad_row + d[:, None]
        grad = tl.load(grad_places, mask=dim_inside[:, None] & row_inside[None, :], other=0.0)
        basis, sine = _basis(
            x[:, None], k[None, :], places[None, :], basis_inside[None, :], own_ptr + frequency_at, own_ptr + phase_at,
            PERIODIC,
        )  # fmt: skip
        by_weight += grad[:, :, None] * basis[None, :, :]
        by_bias += grad
        if PERIODIC:
            by_angle = -sine * tl.sum(grad[:, :, None] * weight[:, None, :], axis=0)
            by_phase += by_angle
            by_frequency += by_angle * x[:, None]
    adam(
        tl.sum(by_weight, axis=1), weight_at + weight_places, weight_inside, model, rates_ptr, flat_ptr, moment_ptr, square_ptr,
        factor_ptr, None, None, None, None, flat_model, rates_stride, BETA_1, BETA_2,
    )  # fmt: skip
    adam(
        tl.sum(by_bias, axis=1), bias_at + column * numeric_dim + d, dim_inside, model, rates_ptr, flat_ptr, moment_ptr, square_ptr,
        factor_ptr, None, None, None, None, flat_model, rates_stride, BETA_1, BETA_2,
    )  # fmt: skip
    if PERIODIC:
        adam(
            tl.sum(by_phase, axis=0), phase_at + places, basis_inside, model, rates_ptr, flat_ptr, moment_ptr, square_ptr,
            factor_ptr, None, None, None, None, flat_model, rates_stride, BETA_1, BETA_2,
        )  # fmt: skip
        adam(
            _TWO_PI * tl.sum(by_frequency, axis=0), frequency_at + places, basis_inside, model, rates_ptr, flat_ptr, moment_ptr,
            square_ptr, factor_ptr, None, None, None, None, flat_model, rates_stride, BETA_1, BETA_2,
        )  # fmt: skip


@triton.jit
def _step_levels(
    x_ptr, grad_ptr, first_place, first_level, n_levels, model, rates_ptr, flat_ptr, moment_ptr, square_ptr, factor_ptr,
    n_rows, level_dim, x_row, grad_row, flat_model, rates_stride,
    BETA_1: tl.constexpr, BETA_2: tl.constexpr, LEVEL_DIM: tl.constexpr,
):  # fmt: skip
    levels, d = first_level + tl.arange(0, _LEVELS), tl.arange(0, LEVEL_DIM)
    by_level = tl.zeros((_LEVELS, LEVEL_DIM), tl.float32)
    for start in range(0, n_rows, _LEVEL_ROWS):
        rows = start + tl.arange(0, _LEVEL_ROWS)
        row_inside = rows < n_rows
        code = tl.load(x_ptr + rows * x_row, mask=row_inside, other=-1.0).to(tl.int32)
        grad_places = grad_ptr + rows[:, None] * grad_row + d[None, :]
        grad = tl.load(grad_places, mask=row_inside[:, None] & (d < level_dim)[None, :], other=0.0)
        by_level = product((code[None, :] == levels[:, None]).to(tl.float32), grad, by_level, 3)
    adam(
        by_level, first_place + levels[:, None] * level_dim + d[None, :],
        (levels < n_levels)[:, None] & (d < level_dim)[None, :], model, rates_ptr, flat_ptr, moment_ptr, square_ptr,
        factor_ptr, None, None, None, None, flat_model, rates_stride, BETA_1, BETA_2,
    )  # fmt: skip


@triton.jit(do_not_specialize=[*_NOT_SPECIALIZED, "rates_stride"], do_not_specialize_on_alignment=["rates_ptr"])
def _step_kernel(
    x_ptr, grad_ptr, tile_ptr, rates_ptr, flat_ptr, moment_ptr, square_ptr, factor_ptr,
    n_rows, n_plain, n_numeric, n_categories, n_basis, numeric_dim, level_dim,
    frequency_at, phase_at, weight_at, bias_at, level_at, x_model, x_row, grad_model, grad_row, flat_model, rates_stride,
    BETA_1: tl.constexpr, BETA_2: tl.constexpr,
    PERIODIC: tl.constexpr, ROWS: tl.constexpr, BASIS: tl.constexpr, DIM: tl.constexpr, LEVEL_DIM: tl.constexpr,
):  # fmt: skip
    """Step the parameters of a column of numbers, or of some levels of a category."""
    part, model = tl.program_id(0), tl.program_id(1).to(tl.int64)
    x_ptr += model * x_model + n_plain
    grad_ptr += model * grad_model + n_plain
    width = numeric_dim + (1 if PERIODIC else 0)
    if part < n_numeric:
        _step_numbers(
            x_ptr + part, grad_ptr + part * width + (1 if PERIODIC else 0), part, model,
            rates_ptr, flat_ptr, moment_ptr, square_ptr, factor_ptr, n_rows, n_basis, numeric_dim,
            frequency_at, phase_at, weight_at, bias_at, x_row, grad_row, flat_model, rates_stride,
            BETA_1, BETA_2, PERIODIC, ROWS, BASIS, DIM,
        )  # fmt: skip
    else:
        tile_ptr += (part - n_numeric) * 4
        category, first_place = tl.load(tile_ptr), level_at + tl.load(tile_ptr + 1) * level_dim
        _step_levels(
            x_ptr + n_numeric + category, grad_ptr + n_numeric * width + category * level_dim,
            first_place, tl.load(tile_ptr + 2), tl.load(tile_ptr + 3), model,
            rates_ptr, flat_ptr, moment_ptr, square_ptr, factor_ptr, n_rows, level_dim,
            x_row, grad_row, flat_model, rates_stride, BETA_1, BETA_2, LEVEL_DIM,
        )  # fmt: skip


class Embedding:
    """Embeds the columns of M models, and steps the parameters of the embeddings.

    Parameters
    ----------
    embedding : InputEmbedding
    buffers : OptimizerBuffers
    betas : (float, float)
    offsets : mapping from str to int
        Where each parameter begins in a row of `buffers.flat`.
    """

    def __init__(
        self,
        embedding: InputEmbedding,
        buffers: OptimizerBuffers,
        betas: tuple[float, float],
        offsets: Mapping[str, int],
    ) -> None:
        self._buffers, self._betas = buffers, betas
        n_plain, n_numeric, levels = embedding.n_plain, embedding.n_numeric, embedding.levels
        first_levels = [0, *itertools.accumulate(levels)]
        tiles = [
            [category, first_levels[category], first, n_levels]
            for category, n_levels in enumerate(levels)
            for first in range(0, n_levels, _LEVELS.value)
        ]
        self._first_levels, self._tiles = (
            torch.tensor(table, dtype=torch.int32, device=buffers.flat.device) for table in (first_levels, tiles)
        )
        self._n_forward = n_numeric + len(levels) + triton.cdiv(n_plain, _COLUMNS.value)
        self._n_step = n_numeric + len(tiles)
        counts = [n_plain, n_numeric, len(levels), embedding.n_basis, embedding.numeric_dim, embedding.level_dim]
        self._numbers = [*counts, *(offsets.get(name, 0) for name in _PARAMETERS)]
        sides = embedding.n_basis, embedding.numeric_dim
        self._periodic = embedding.numeric == "periodic"
        # How many numbers a program holds at once decides whether they stay in registers.
        basis, dim = (tile_side(side) for side in sides)
        self._rows, self._sizes = min(128, 4096 // basis), {"BASIS": basis, "DIM": dim}
        basis, dim = (triton.next_power_of_2(side) for side in sides)
        self._step_sizes = {"BASIS": basis, "DIM": dim, "ROWS": min(64, 2 * MOST_EMBEDDED // (basis * dim))}
        self._level_side = tile_side(embedding.level_dim)

    def forward(self, flat: Tensor, x: Tensor, out: Tensor) -> None:
        """Embed `x` (n, B, columns) with the parameters in `flat` (n, P) into `out` (n, B, at least the outputs)."""
        n_models, n_rows, _ = x.shape
        _forward_kernel[(self._n_forward, triton.cdiv(n_rows, self._rows), n_models)](
            x, flat, out, self._first_levels, n_rows, *self._numbers,
            x.stride(0), x.stride(1), flat.stride(0), out.stride(0), out.stride(1),
            PERIODIC=self._periodic, LEVEL_DIM=self._level_side, ROWS=self._rows, **self._sizes,
        )  # fmt: skip

    def step(self, x: Tensor, grad: Tensor, rates: Tensor) -> None:
        """Step the first models, as many as `x` (n, B, columns) has, with the gradient by what `forward` computed."""
        n_models, n_rows, _ = x.shape
        flat, *others = self._buffers[:4]
        if self._n_step:
            _step_kernel[(self._n_step, n_models)](
                x, grad, self._tiles, rates, flat, *others, n_rows, *self._numbers,
                x.stride(0), x.stride(1), grad.stride(0), grad.stride(1), flat.stride(0), rates.stride(0),
                BETA_1=self._betas[0], BETA_2=self._betas[1],
                PERIODIC=self._periodic, LEVEL_DIM=self._level_side, **self._step_sizes,
            )  # fmt: skip
