"""Learned embeddings of the columns of an encoded table.

For a number x, its coordinate u among n_basis bins, and the code t of a category, the embeddings are:

    periodic    [x, cos(2 pi f_k x + b_k) W + c]      f, b, W, c learned for each column
    piecewise   clamp(u - k, 0, 1) W + c              W, c learned for each column
    category    row t of a learned table

`embed` and `embed_backward` are called by `message_passing` and also accept single or stacked networks.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch
from torch import Tensor

from tabgnm._printable import shown
from tabgnm.nn.checks import check_choice, finite_number, positive_integer
from tabgnm.nn.initializers import Initializer

NumericEmbedding = Literal["periodic", "piecewise"]
NUMERIC_EMBEDDINGS = ("periodic", "piecewise")


@dataclass(frozen=True)
class InputEmbedding:
    """The embedding of an encoded table with plain, numeric and categorical columns, in this order.

    Parameters
    ----------
    n_plain : int
        The number of columns that are passed through unchanged.
    n_numeric : int, default=0
        The number of embedded numeric columns.
    numeric : {"periodic", "piecewise"}, default="periodic"
        How numbers are embedded. "periodic": the number itself and a linear map of cosines with learned frequencies and
        phases (as in RealMLP). "piecewise": a piecewise linear function of the coordinate of the number among `n_basis`
        bins, which the column contains: 2.25 is a quarter into the third bin.
    n_basis : int, default=16
        The number of frequencies or bins per embedded number.
    numeric_dim : int, default=4
        The number of learned features per embedded number.
    frequency_scale : float, default=0.1
        The standard deviation of the initial frequencies. Larger values suit targets with jumps, smaller values smooth
        targets.
    levels : tuple of int, default=()
        The number of levels of each embedded category. Its column contains codes from 0 to levels - 1, as floats.
    level_dim : int, default=8
        The number of learned features per level.

    Examples
    --------
    >>> embedding = InputEmbedding(n_plain=1, n_numeric=1, numeric_dim=2, levels=(3,), level_dim=2)
    >>> embedding.n_columns, embedding.n_outputs, embedding.owners()
    (3, 6, (0, 1, 1, 1, 2, 2))
    """

    n_plain: int
    n_numeric: int = 0
    numeric: NumericEmbedding = "periodic"
    n_basis: int = 16
    numeric_dim: int = 4
    frequency_scale: float = 0.1
    levels: tuple[int, ...] = ()
    level_dim: int = 8

    def __post_init__(self) -> None:
        for name in ("n_plain", "n_numeric"):
            object.__setattr__(self, name, positive_integer(name, getattr(self, name), smallest=0))
        for name in ("n_basis", "numeric_dim", "level_dim"):
            object.__setattr__(self, name, positive_integer(name, getattr(self, name)))
        check_choice("numeric", self.numeric, NUMERIC_EMBEDDINGS)
        scale = finite_number("frequency_scale", self.frequency_scale, positive=True)
        object.__setattr__(self, "frequency_scale", scale)
        if isinstance(self.levels, str) or not isinstance(self.levels, Sequence):
            raise TypeError(
                f"levels={shown(self.levels)} is not a sequence; expected the number of levels of each category, e.g. "
                "levels=(3,)"
            )
        levels = tuple(positive_integer(f"levels[{i}]", n) for i, n in enumerate(self.levels))
        object.__setattr__(self, "levels", levels)
        if self.n_columns == 0:
            raise ValueError("n_plain=0, n_numeric=0 and levels=() define no columns; expected at least one column")

    @property
    def n_columns(self) -> int:
        """The number of columns of the table."""
        return self.n_plain + self.n_numeric + len(self.levels)

    @property
    def first_category(self) -> int:
        """The first column with codes of a category."""
        return self.n_plain + self.n_numeric

    @property
    def numeric_width(self) -> int:
        """The number of outputs per embedded number. The first output of a periodic embedding is the number itself."""
        return self.numeric_dim + (self.numeric == "periodic")

    @property
    def n_outputs(self) -> int:
        """The number of embedded features."""
        return self.n_plain + self.n_numeric * self.numeric_width + len(self.levels) * self.level_dim

    def owners(self) -> tuple[int, ...]:
        """Return the column of the table that each output comes from."""
        widths = [1] * self.n_plain + [self.numeric_width] * self.n_numeric + [self.level_dim] * len(self.levels)
        return tuple(column for column, width in enumerate(widths) for _ in range(width))

    @property
    def activations_per_row(self) -> int:
        """The number of values that a forward pass keeps per row: angles, basis, and outputs twice."""
        return 2 * self.n_numeric * self.n_basis + 2 * self.n_outputs

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each parameter by name."""
        shapes: dict[str, tuple[int, ...]] = {}
        if self.n_numeric:
            if self.numeric == "periodic":
                shapes["embed_frequency"] = (self.n_numeric, self.n_basis)
                shapes["embed_phase"] = (self.n_numeric, self.n_basis)
            shapes["embed_weight"] = (self.n_numeric, self.n_basis, self.numeric_dim)
            shapes["embed_bias"] = (self.n_numeric, self.numeric_dim)
        if self.levels:
            shapes["embed_level"] = (sum(self.levels), self.level_dim)
        return shapes

    def initializers(self) -> dict[str, Initializer]:
        """Return the initializer of each parameter."""
        initializers = {
            "embed_frequency": Initializer("normal", self.frequency_scale),
            "embed_phase": Initializer("uniform", math.pi),
            "embed_weight": Initializer("uniform", self.n_basis**-0.5),
            "embed_bias": Initializer("uniform", self.n_basis**-0.5),
            "embed_level": Initializer("uniform", self.level_dim**-0.5),
        }
        return {name: initializers[name] for name in self.parameter_shapes()}

    def n_parameters(self) -> int:
        """Return the number of parameters."""
        return sum(math.prod(size) for size in self.parameter_shapes().values())

    def check_codes(self, x: Tensor) -> None:
        """Raise ValueError if a categorical column of x (..., n_columns) contains an invalid code."""
        for column, n_levels in enumerate(self.levels, start=self.first_category):
            codes = x[..., column]
            wrong = ~((codes >= 0) & (codes < n_levels) & (codes == codes.floor()))
            if wrong.any():
                raise ValueError(
                    f"column {column} of x contains {codes[wrong][0].item():g}; expected the codes 0 to {n_levels - 1} "
                    f"of a category with {n_levels} levels; encode all its values, including unknown ones, as such "
                    "codes"
                )


class EmbeddingTrace:
    """The tensors that `embed` records for `embed_backward`."""

    __slots__ = ("angle", "basis", "codes", "x")

    def __init__(self) -> None:
        self.x: Tensor
        self.angle: Tensor  # (..., n_numeric, B, n_basis), only of periodic embeddings
        self.basis: Tensor  # (..., n_numeric, B, n_basis)
        self.codes: Tensor  # (..., B * categories), row numbers in embed_level


def embed(
    embedding: InputEmbedding, parameters: Mapping[str, Tensor], x: Tensor, trace: EmbeddingTrace | None = None
) -> Tensor:
    """Embed the columns of `x`; record what `embed_backward` needs in `trace`, if given.

    Shape
    -----
    - x: (B, n_columns), or (M, B, n_columns) for M stacked networks
    - output: (B, n_outputs) or (M, B, n_outputs)
    """
    trace = EmbeddingTrace() if trace is None else trace
    trace.x = x
    parts = [x[..., : embedding.n_plain]] if embedding.n_plain else []
    if embedding.n_numeric:
        parts.append(_embed_numbers(embedding, parameters, trace))
    if embedding.levels:
        parts.append(_look_up(embedding, parameters["embed_level"], trace))
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


def embed_backward(
    embedding: InputEmbedding,
    parameters: Mapping[str, Tensor],
    trace: EmbeddingTrace,
    grad: Tensor,
    gradients: Mapping[str, Tensor],
) -> None:
    """Write the gradient of each parameter into `gradients`, given that of the output of `embed`."""
    end_numeric = embedding.n_plain + embedding.n_numeric * embedding.numeric_width
    if embedding.n_numeric:
        _numbers_backward(embedding, parameters, trace, grad[..., embedding.n_plain : end_numeric], gradients)
    if embedding.levels:
        _sum_by_level(embedding, trace.codes, grad[..., end_numeric:], gradients["embed_level"])


def _embed_numbers(embedding: InputEmbedding, parameters: Mapping[str, Tensor], trace: EmbeddingTrace) -> Tensor:
    """Return the embedded numbers, (..., B, n_numeric * width)."""
    # Columns before rows, for one matrix product per column.
    x = trace.x[..., embedding.n_plain : embedding.first_category].mT.unsqueeze(-1)  # (..., n_numeric, B, 1)
    if embedding.numeric == "periodic":
        frequency = 2 * math.pi * parameters["embed_frequency"]
        trace.angle = torch.addcmul(parameters["embed_phase"].unsqueeze(-2), x, frequency.unsqueeze(-2))
        trace.basis = torch.cos(trace.angle)
    else:
        bins = torch.arange(embedding.n_basis, dtype=x.dtype, device=x.device)
        trace.basis = (x - bins).clamp(0, 1)
    mixed = torch.matmul(trace.basis, parameters["embed_weight"]) + parameters["embed_bias"].unsqueeze(-2)
    if embedding.numeric == "periodic":
        mixed = torch.cat([x.expand(*mixed.shape[:-1], 1), mixed], dim=-1)
    return mixed.transpose(-3, -2).flatten(-2)


def _numbers_backward(
    embedding: InputEmbedding,
    parameters: Mapping[str, Tensor],
    trace: EmbeddingTrace,
    grad: Tensor,
    gradients: Mapping[str, Tensor],
) -> None:
    """Write the gradients of the parameters of embedded numbers."""
    periodic = embedding.numeric == "periodic"
    by_column = grad.reshape(*grad.shape[:-1], embedding.n_numeric, embedding.numeric_width)
    by_column = by_column.transpose(-3, -2)  # (..., n_numeric, B, width)
    by_mixed = by_column[..., 1:] if periodic else by_column
    gradients["embed_weight"].copy_(torch.matmul(trace.basis.mT, by_mixed))
    gradients["embed_bias"].copy_(by_mixed.sum(dim=-2))
    if periodic:
        by_basis = torch.matmul(by_mixed, parameters["embed_weight"].mT)
        by_angle = by_basis.mul_(torch.sin(trace.angle)).neg_()
        gradients["embed_phase"].copy_(by_angle.sum(dim=-2))
        # The sum over rows as a matrix product, which needs no buffer for x * by_angle.
        x = trace.x[..., embedding.n_plain : embedding.first_category].mT.unsqueeze(-2)  # (..., n_numeric, 1, B)
        gradients["embed_frequency"].copy_(torch.matmul(x, by_angle).squeeze(-2)).mul_(2 * math.pi)


def _look_up(embedding: InputEmbedding, table: Tensor, trace: EmbeddingTrace) -> Tensor:
    """Return the embedded categories, (..., B, categories * level_dim)."""
    columns = trace.x[..., embedding.first_category :]
    trace.codes = (columns.long() + _offsets(embedding.levels, columns.device)).flatten(-2)
    chosen = table.gather(-2, trace.codes.unsqueeze(-1).expand(*trace.codes.shape, embedding.level_dim))
    return chosen.reshape(*columns.shape[:-1], len(embedding.levels) * embedding.level_dim)


def _offsets(levels: tuple[int, ...], device: torch.device) -> Tensor:
    """Return the first row of each category in the stacked table of levels."""
    # torch.compile must trace the creation of the tensor. Otherwise it is cached, because a copy to the device during a
    # step would prevent the capture of a CUDA graph.
    return _new_offsets(levels, device) if torch.compiler.is_compiling() else _cached_offsets(levels, device)


def _new_offsets(levels: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.tensor([0, *itertools.accumulate(levels[:-1])], device=device)


@cache  # unbounded: captured graphs keep reading these tensors, so none may be freed
def _cached_offsets(levels: tuple[int, ...], device: torch.device) -> Tensor:
    with torch.inference_mode(False):
        return _new_offsets(levels, device)


def _sum_by_level(embedding: InputEmbedding, codes: Tensor, grad: Tensor, out: Tensor) -> None:
    """Write the sum of the gradients of each level into `out` (..., levels, level_dim).

    The order of summation is fixed, so that results are reproducible to the bit. On a CPU, `scatter_add_` adds rows in
    order. On a GPU it does not, and `index_put_`, which sorts, cannot be captured in a CUDA graph, so the sum is a
    matrix product with one-hot codes.
    """
    grad = grad.reshape(*codes.shape, embedding.level_dim)  # (..., lookups, level_dim)
    if out.device.type == "cpu":
        out.zero_()
        out.scatter_add_(-2, codes.unsqueeze(-1).expand_as(grad), grad)
    else:
        sum_by_product(codes, grad, out)


_ONE_HOT_ELEMENTS = 2**26  # the size of the one-hot matrices that are created at a time


def sum_by_product(codes: Tensor, grad: Tensor, out: Tensor) -> None:
    """Write the sum of `grad` (..., lookups, level_dim) over equal codes into `out` (..., levels, level_dim)."""
    n_levels, n_lookups = out.shape[-2], codes.shape[-1]
    codes, grad = codes.reshape(-1, n_lookups), grad.reshape(-1, *grad.shape[-2:])  # (M or 1, lookups, ...)
    total = out if out.dim() == 3 else out.unsqueeze(0)
    levels = torch.arange(n_levels, device=codes.device).view(-1, 1)
    at_once = max(1, _ONE_HOT_ELEMENTS // (n_levels * n_lookups))
    for first in range(0, len(codes), at_once):
        some = slice(first, first + at_once)
        one_hot = (codes[some].unsqueeze(-2) == levels).to(grad.dtype)  # (some, levels, lookups)
        total[some].copy_(torch.matmul(one_hot, grad[some]))
