"""GPU kernels of learned input embeddings, always in float32: one embeds, the other computes gradients and updates.

They compute what `tabgnm.nn.embeddings.embed` and `embed_backward` define. The backward pass computes the basis of
numbers again, which is faster than reading it. Gradients are sums over rows in a fixed order: one program processes all
rows of a column of numbers, or of some levels of a category, and performs the optimizer's step at the end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
import triton
import triton.language as tl
from torch import Tensor

from tabgnm.nn.embeddings import InputEmbedding
from tabgnm.training.kernels.elementwise import OptimizerBuffers, adam
from tabgnm.training.kernels.products import product, tile_side

_TWO_PI, _TURNS_PER_RADIAN = tl.constexpr(2 * math.pi), tl.constexpr(0.5 / math.pi)
_COLUMNS = tl.constexpr(32)  # plain columns that a program copies
_LEVELS, _LEVEL_ROWS = tl.constexpr(32), tl.constexpr(64)  # levels that a program updates, and rows it reads at once
# A program reads its task from a row of a table: the kind, the first column in x, the first column in the outputs, and
# the offsets of its parameters.
_NUMBERS, _CATEGORY, _PLAIN = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
_PART_SIZE = tl.constexpr(8)


@triton.jit
def _cos_sin(turns):
    """Return cosine and sine of 2 pi turns."""
    # Whole turns are subtracted exactly, however many there are. Adding 1.5 * 2^23 rounds to an integer, the nearest
    # quarter turn, which is then in the low bits. The remaining angle is at most an eighth of a turn.
    turns -= tl.floor(turns + 0.5)
    rounded = 4 * turns + 12582912.0
    quarter = rounded.to(tl.int32, bitcast=True)
    angle = (turns - 0.25 * (rounded - 12582912.0)) * _TWO_PI
    square = angle * angle
    sine = angle + angle * square * (-1 / 6 + square * (1 / 120 + square * (-1 / 5040 + square * (1 / 362880))))
    cosine = 1 + square * (-0.5 + square * (1 / 24 + square * (-1 / 720 + square * (1 / 40320))))
    swapped, negative = (quarter & 1) != 0, (quarter & 2) != 0
    first, second = tl.where(swapped, -sine, cosine), tl.where(swapped, cosine, sine)
    return tl.where(negative, -first, first), tl.where(negative, -second, second)


@triton.jit
def _basis(x, k, n_basis, frequency_ptr, phase_ptr, PERIODIC: tl.constexpr):
    """Return the basis (ROWS, BASIS) of numbers x, and the sines that correspond to a periodic basis."""
    if PERIODIC:
        frequency = tl.load(frequency_ptr + k, mask=k < n_basis, other=0.0)
        phase = tl.load(phase_ptr + k, mask=k < n_basis, other=0.0)
        return _cos_sin(x[:, None] * frequency[None, :] + (phase * _TURNS_PER_RADIAN)[None, :])
    else:
        basis = tl.minimum(tl.maximum(x[:, None] - k[None, :], 0.0), 1.0)
        return basis, basis


@triton.jit
def _embed_numbers(
    x, flat_ptr, out_ptr, part_ptr, row_inside, n_basis, numeric_dim,
    PERIODIC: tl.constexpr, ROWS: tl.constexpr, BASIS: tl.constexpr, DIM: tl.constexpr,
):  # fmt: skip
    k, d = tl.arange(0, BASIS), tl.arange(0, DIM)
    frequency_ptr, phase_ptr = flat_ptr + tl.load(part_ptr + 3), flat_ptr + tl.load(part_ptr + 4)
    basis, _ = _basis(x, k, n_basis, frequency_ptr, phase_ptr, PERIODIC)
    weight_ptr = flat_ptr + tl.load(part_ptr + 5) + k[:, None] * numeric_dim + d[None, :]
    weight = tl.load(weight_ptr, mask=(k < n_basis)[:, None] & (d < numeric_dim)[None, :], other=0.0)
    bias = tl.load(flat_ptr + tl.load(part_ptr + 6) + d, mask=d < numeric_dim, other=0.0)
    mixed = product(basis, weight, tl.zeros((ROWS, DIM), tl.float32), 3) + bias[None, :]
    tl.store(out_ptr[:, None] + d[None, :], mixed, mask=row_inside[:, None] & (d < numeric_dim)[None, :])
    if PERIODIC:
        tl.store(out_ptr - 1, x, mask=row_inside)


@triton.jit(do_not_specialize=["n_rows", "n_basis", "numeric_dim", "level_dim", "x_model", "x_row"])
def _forward_kernel(
    part_ptr, x_ptr, flat_ptr, out_ptr, n_rows, n_basis, numeric_dim, level_dim,
    x_model, x_row, flat_model, out_model, out_row,
    PERIODIC: tl.constexpr, ROWS: tl.constexpr, BASIS: tl.constexpr, DIM: tl.constexpr, LEVEL_DIM: tl.constexpr,
):  # fmt: skip
    """Embed a column of numbers, look up the levels of a category, or copy some plain columns."""
    part_ptr += tl.program_id(0) * _PART_SIZE
    kind, model = tl.load(part_ptr), tl.program_id(2).to(tl.int64)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    row_inside = rows < n_rows
    x_ptr += model * x_model + rows * x_row + tl.load(part_ptr + 1)
    out_ptr += model * out_model + rows * out_row + tl.load(part_ptr + 2)
    flat_ptr += model * flat_model
    if kind == _NUMBERS:
        x = tl.load(x_ptr, mask=row_inside, other=0.0)
        _embed_numbers(
            x, flat_ptr, out_ptr, part_ptr, row_inside, n_basis, numeric_dim, PERIODIC, ROWS, BASIS, DIM
        )  # fmt: skip
    elif kind == _CATEGORY:
        code, d = tl.load(x_ptr, mask=row_inside, other=0.0).to(tl.int32), tl.arange(0, LEVEL_DIM)
        inside = row_inside[:, None] & (d < level_dim)[None, :]
        level_ptr = flat_ptr + tl.load(part_ptr + 3) + code[:, None] * level_dim + d[None, :]
        tl.store(out_ptr[:, None] + d[None, :], tl.load(level_ptr, mask=inside, other=0.0), mask=inside)
    else:
        column = tl.arange(0, _COLUMNS)
        plain_inside = row_inside[:, None] & (column < tl.load(part_ptr + 3))[None, :]
        plain = tl.load(x_ptr[:, None] + column[None, :], mask=plain_inside, other=0.0)
        tl.store(out_ptr[:, None] + column[None, :], plain, mask=plain_inside)


@triton.jit
def _step_numbers(
    x_ptr, x_row, grad_ptr, grad_row, own_ptr, part_ptr, n_rows, n_basis, numeric_dim, step,
    PERIODIC: tl.constexpr, ROWS: tl.constexpr, BASIS: tl.constexpr, DIM: tl.constexpr,
):  # fmt: skip
    k, d = tl.arange(0, BASIS), tl.arange(0, DIM)
    basis_inside, dim_inside = k < n_basis, d < numeric_dim
    frequency_at, phase_at, bias_at = tl.load(part_ptr + 3), tl.load(part_ptr + 4), tl.load(part_ptr + 6)
    weight_at = tl.load(part_ptr + 5) + k[None, :] * numeric_dim + d[:, None]
    weight_inside = dim_inside[:, None] & basis_inside[None, :]
    weight = tl.load(own_ptr + weight_at, mask=weight_inside, other=0.0)
    # The embedding dimension comes first: Triton assigns all of it to one thread, so sums over it are within a thread.
    by_weight, by_bias = tl.zeros((DIM, ROWS, BASIS), tl.float32), tl.zeros((DIM, ROWS), tl.float32)
    by_phase, by_frequency = tl.zeros((ROWS, BASIS), tl.float32), tl.zeros((ROWS, BASIS), tl.float32)
    for start in range(0, n_rows, ROWS):
        rows = start + tl.arange(0, ROWS)
        row_inside = rows < n_rows
        x = tl.load(x_ptr + rows * x_row, mask=row_inside, other=0.0)
        grad_places = grad_ptr + rows[None, :] * grad_row + d[:, None]
        grad = tl.load(grad_places, mask=dim_inside[:, None] & row_inside[None, :], other=0.0)
        basis, sine = _basis(x, k, n_basis, own_ptr + frequency_at, own_ptr + phase_at, PERIODIC)
        by_weight += grad[:, :, None] * basis[None, :, :]
        by_bias += grad
        if PERIODIC:
            by_angle = -sine * tl.sum(grad[:, :, None] * weight[:, None, :], axis=0)
            by_phase += by_angle
            by_frequency += by_angle * x[:, None]
    adam(tl.sum(by_weight, axis=1), weight_at, weight_inside, step)
    adam(tl.sum(by_bias, axis=1), bias_at + d, dim_inside, step)
    if PERIODIC:
        adam(tl.sum(by_phase, axis=0), phase_at + k, basis_inside, step)
        adam(tl.sum(by_frequency, axis=0) * _TWO_PI, frequency_at + k, basis_inside, step)


@triton.jit
def _step_levels(x_ptr, x_row, grad_ptr, grad_row, part_ptr, n_rows, level_dim, step, LEVEL_DIM: tl.constexpr):
    level, d = tl.load(part_ptr + 4) + tl.arange(0, _LEVELS), tl.arange(0, LEVEL_DIM)
    by_level = tl.zeros((_LEVELS, LEVEL_DIM), tl.float32)
    for start in range(0, n_rows, _LEVEL_ROWS):
        rows = start + tl.arange(0, _LEVEL_ROWS)
        row_inside = rows < n_rows
        code = tl.load(x_ptr + rows * x_row, mask=row_inside, other=-1.0).to(tl.int32)
        grad_places = grad_ptr + rows[:, None] * grad_row + d[None, :]
        grad = tl.load(grad_places, mask=row_inside[:, None] & (d < level_dim)[None, :], other=0.0)
        by_level = product((level[:, None] == code[None, :]).to(tl.float32), grad, by_level, 3)
    columns = tl.load(part_ptr + 3) + level[:, None] * level_dim + d[None, :]
    inside = (level < tl.load(part_ptr + 5))[:, None] & (d < level_dim)[None, :]
    adam(by_level, columns, inside, step)


@triton.jit(
    do_not_specialize=["n_rows", "n_basis", "numeric_dim", "level_dim", "x_model", "x_row", "rates_stride"],
    do_not_specialize_on_alignment=["rates_ptr"],
)
def _step_kernel(
    part_ptr, x_ptr, grad_ptr, buffers, rates_ptr, n_rows, n_basis, numeric_dim, level_dim,
    x_model, x_row, grad_model, grad_row, flat_model, rates_stride, BETA_1: tl.constexpr, BETA_2: tl.constexpr,
    PERIODIC: tl.constexpr, ROWS: tl.constexpr, BASIS: tl.constexpr, DIM: tl.constexpr, LEVEL_DIM: tl.constexpr,
):  # fmt: skip
    """Update the parameters of a column of numbers, or of some levels of a category."""
    part_ptr += tl.program_id(0) * _PART_SIZE
    model = tl.program_id(1).to(tl.int64)
    x_ptr += model * x_model + tl.load(part_ptr + 1)
    grad_ptr += model * grad_model + tl.load(part_ptr + 2)
    step = model, buffers, flat_model, rates_ptr, rates_stride, BETA_1, BETA_2
    if tl.load(part_ptr) == _NUMBERS:
        own_ptr = buffers.flat + model * flat_model
        _step_numbers(
            x_ptr, x_row, grad_ptr, grad_row, own_ptr, part_ptr, n_rows, n_basis, numeric_dim, step,
            PERIODIC, ROWS, BASIS, DIM,
        )  # fmt: skip
    else:
        _step_levels(x_ptr, x_row, grad_ptr, grad_row, part_ptr, n_rows, level_dim, step, LEVEL_DIM)


class Embedding:
    """Embeds the columns of M models, and updates the parameters of the embeddings.

    `offsets` are those of the parameters in a row of `buffers.flat`.
    """

    def __init__(
        self,
        embedding: InputEmbedding,
        buffers: OptimizerBuffers,
        betas: tuple[float, float],
        offsets: Mapping[str, int],
    ) -> None:
        self._buffers, self._betas = OptimizerBuffers(*buffers[:3]), betas  # penalties only apply to the body
        n_plain, n_numeric, width = embedding.n_plain, embedding.n_numeric, embedding.numeric_width
        n_basis, dim, level_dim = embedding.n_basis, embedding.numeric_dim, embedding.level_dim
        periodic = embedding.numeric == "periodic"
        lengths = {"embed_frequency": n_basis, "embed_phase": n_basis, "embed_weight": n_basis * dim, "embed_bias": dim}
        numbers = []
        for i in range(n_numeric):
            places = [offsets.get(name, 0) + i * length for name, length in lengths.items()]
            numbers.append([_NUMBERS.value, n_plain + i, n_plain + i * width + periodic, *places])
        categories, levels = [], []
        place, output = offsets.get("embed_level", 0), n_plain + n_numeric * width
        for i, n_levels in enumerate(embedding.levels):
            category = [_CATEGORY.value, embedding.first_category + i, output + i * level_dim, place]
            categories.append(category)
            levels += [[*category, level, n_levels] for level in range(0, n_levels, _LEVELS.value)]
            place += n_levels * level_dim
        plain = [[_PLAIN.value, first, first, n_plain - first] for first in range(0, n_plain, _COLUMNS.value)]
        self._forward_parts, self._step_parts = self._table(numbers + categories + plain), self._table(numbers + levels)
        self._counts = n_basis, dim, level_dim
        self._constants = {"PERIODIC": periodic, "LEVEL_DIM": tile_side(level_dim)}
        # Limits how many numbers a program holds at once, so that they fit into registers.
        basis = tile_side(n_basis)
        self._sizes = {"ROWS": min(128, 4096 // basis), "BASIS": basis, "DIM": tile_side(dim)}
        basis, dim = triton.next_power_of_2(n_basis), triton.next_power_of_2(dim)
        self._step_sizes = {"ROWS": min(64, max(1, 8192 // (basis * dim))), "BASIS": basis, "DIM": dim}

    def _table(self, parts: list[list[int]]) -> Tensor:
        rows = [part + [0] * (_PART_SIZE.value - len(part)) for part in parts]
        return torch.tensor(rows, dtype=torch.int32, device=self._buffers.flat.device)

    def forward(self, flat: Tensor, x: Tensor, out: Tensor) -> None:
        """Embed `x` (n, B, columns) with the parameters in `flat` (n, P) into `out` (n, B, outputs or more)."""
        n_models, n_rows, _ = x.shape
        grid = len(self._forward_parts), triton.cdiv(n_rows, self._sizes["ROWS"]), n_models
        _forward_kernel[grid](
            self._forward_parts, x, flat, out, n_rows, *self._counts,
            x.stride(0), x.stride(1), flat.stride(0), out.stride(0), out.stride(1), **self._sizes, **self._constants,
        )  # fmt: skip

    def step(self, x: Tensor, grad: Tensor, rates: Tensor) -> None:
        """Update the first n models, given `x` (n, B, columns) and the gradient of the outputs of `forward`."""
        n_models, n_rows, _ = x.shape
        if len(self._step_parts):
            _step_kernel[(len(self._step_parts), n_models)](
                self._step_parts, x, grad, self._buffers, rates, n_rows, *self._counts, x.stride(0), x.stride(1),
                grad.stride(0), grad.stride(1), self._buffers.flat.stride(0), rates.stride(0),
                BETA_1=self._betas[0], BETA_2=self._betas[1], **self._step_sizes, **self._constants,
            )  # fmt: skip


def self_check(like: Tensor) -> None:
    """Run the kernels once; raise if their results are wrong on the device of `like` or with this version of Triton."""
    embedding = InputEmbedding(1, 1, n_basis=2, numeric_dim=1, levels=(2,), level_dim=1)
    offsets = {"embed_frequency": 0, "embed_phase": 2, "embed_weight": 4, "embed_bias": 6, "embed_level": 7}
    flat, x = like.new_ones(1, 9), like.new_tensor([[[3.0, 0.5, 1.0]]])
    buffers = OptimizerBuffers(flat, torch.zeros_like(flat), torch.zeros_like(flat))
    out, own = like.new_zeros(1, 1, 16), Embedding(embedding, buffers, (0.5, 0.5), offsets)
    own.forward(flat, x, out)
    cosine, sine = math.cos(math.pi + 1), math.sin(math.pi + 1)
    if not torch.allclose(out[0, 0, :4], like.new_tensor([3, 0.5, 2 * cosine + 1, 1])):
        raise RuntimeError("an embedding is wrong")
    own.step(x, torch.ones_like(out), like.new_ones(3, 1, 1))
    expected = [-math.pi * sine, -math.pi * sine, -sine, -sine, cosine, cosine, 1, 0, 1]
    if not torch.allclose(buffers.moment[0], 0.5 * like.new_tensor(expected), atol=1e-6):
        raise RuntimeError("a gradient of an embedding is wrong")
