"""GPU kernels for products of stacked matrices and for sums over rows, rounded alike in a stack of any size.

cuBLAS and torch choose how to add up by the size of everything, the number of stacked matrices included. Here a sum
goes through its numbers `_AT_ONCE` at a time, in their order, always. Products of float32 numbers are those of
`triton_layers`.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from tabgnm.training.triton_layers import PRODUCTS

_AT_ONCE = 32
_FEW_PROGRAMS = 132  # so few leave some multiprocessors of a GPU idle


# What is not specialised costs no compilation of its own; whether neighbours in a row or a column are neighbours in
# memory has to be known.
_PRODUCT_SIZES = [
    "n_rows", "n_inner", "n_columns", "left_stack", "right_stack",
    "total_stack", "total_row", "total_column", "out_stack", "out_row",
]  # fmt: skip
_PRODUCT_STRIDES = ["left_row", "left_inner", "right_inner", "right_column", "out_column"]
_POINTERS = ["left_ptr", "right_ptr", "total_ptr", "out_ptr"]


@triton.jit(do_not_specialize=_PRODUCT_SIZES, do_not_specialize_on_alignment=[*_PRODUCT_STRIDES, *_POINTERS])
def _product_kernel(
    left_ptr, right_ptr, total_ptr, out_ptr, n_rows, n_inner, n_columns,
    left_stack, left_row, left_inner, right_stack, right_inner, right_column,
    total_stack, total_row, total_column, out_stack, out_row, out_column,
    HOW: tl.constexpr, ADD: tl.constexpr, ROWS: tl.constexpr, INNER: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    stack = tl.program_id(2).to(tl.int64)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    row_inside, column_inside = (rows < n_rows)[:, None], (columns < n_columns)[None, :]
    left_ptr += stack * left_stack + rows[:, None].to(tl.int64) * left_row
    right_ptr += stack * right_stack + columns[None, :] * right_column
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, n_inner, INNER):
        inner = start + tl.arange(0, INNER)
        inside = inner < n_inner
        left = tl.load(left_ptr + inner[None, :] * left_inner, mask=row_inside & inside[None, :], other=0.0)
        right = tl.load(right_ptr + inner[:, None] * right_inner, mask=inside[:, None] & column_inside, other=0.0)
        total = tl.dot(left, right, total, input_precision=HOW)
    inside = row_inside & column_inside
    if ADD:
        places = stack * total_stack + rows[:, None].to(tl.int64) * total_row + columns[None, :] * total_column
        total += tl.load(total_ptr + places, mask=inside, other=0.0)
    places = stack * out_stack + rows[:, None].to(tl.int64) * out_row + columns[None, :] * out_column
    tl.store(out_ptr + places, total, mask=inside)


def product(left: Tensor, right: Tensor, total: Tensor | None = None) -> Tensor:
    """Return left (..., s, k) @ right (..., k, t) of stacks of float32 matrices, plus `total` (..., s, t) if given."""
    out = torch.empty(*left.shape[:-1], right.shape[-1], device=left.device)
    stacked = out.view(-1, *out.shape[-2:])
    left, right = left.reshape(-1, *left.shape[-2:]), right.reshape(-1, *right.shape[-2:])
    _multiply(left, right, stacked, None if total is None else total.reshape(stacked.shape))
    return out


def product_into(left: Tensor, right: Tensor, out: Tensor) -> None:
    """Write left (M, s, k) @ right (M, k, t) into `out`."""
    _multiply(left, right, out, None)


def _multiply(left: Tensor, right: Tensor, out: Tensor, total: Tensor | None) -> None:
    n_stacked, n_rows, n_inner = left.shape
    n_columns = right.shape[2]
    if out.numel() == 0:
        return
    added = out if total is None else total
    rows, columns = 64, 64
    if n_stacked * triton.cdiv(n_rows, rows) * triton.cdiv(n_columns, columns) < _FEW_PROGRAMS:
        rows, columns = 16, 32
    columns = min(columns, max(16, triton.next_power_of_2(n_columns)))
    precise = torch.get_float32_matmul_precision() == "highest"
    _product_kernel[(triton.cdiv(n_columns, columns), triton.cdiv(n_rows, rows), n_stacked)](
        left, right, added, out, n_rows, n_inner, n_columns,
        *left.stride(), *right.stride(), *added.stride(), *out.stride(),
        HOW=PRODUCTS["float32" if precise else "tf32"], ADD=total is not None,
        ROWS=rows, INNER=_AT_ONCE, COLUMNS=columns, num_warps=4, num_stages=3,
    )  # fmt: skip


@triton.jit(
    do_not_specialize=["n_rows", "n_columns", "value_stack", "value_row", "out_stack"],
    do_not_specialize_on_alignment=["value_ptr", "out_ptr", "value_column"],
)
def _sum_kernel(
    value_ptr, out_ptr, n_rows, n_columns, value_stack, value_row, value_column, out_stack,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    stack = tl.program_id(1).to(tl.int64)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    column_inside = columns < n_columns
    value_ptr += stack * value_stack + columns[None, :] * value_column
    total = tl.zeros((COLUMNS,), dtype=tl.float32)
    for start in range(0, n_rows, ROWS):
        rows = start + tl.arange(0, ROWS)
        places = value_ptr + rows[:, None].to(tl.int64) * value_row
        total += tl.sum(tl.load(places, mask=(rows < n_rows)[:, None] & column_inside[None, :], other=0.0), axis=0)
    tl.store(out_ptr + stack * out_stack + columns, total, mask=column_inside)


def sum_rows(values: Tensor, out: Tensor | None = None) -> Tensor:
    """Return the sums over the rows of stacks of float32 matrices, (..., B, n) -> (..., n); (M, n) can be `out`."""
    *stack, n_rows, n_columns = values.shape
    flat = values.reshape(-1, n_rows, n_columns)
    total = torch.empty(len(flat), n_columns, device=values.device) if out is None else out
    if total.numel():
        columns = min(64, triton.next_power_of_2(n_columns))
        _sum_kernel[(triton.cdiv(n_columns, columns), len(flat))](
            flat, total, n_rows, n_columns, *flat.stride(), total.stride(0),
            ROWS=_AT_ONCE, COLUMNS=columns, num_warps=4,
        )  # fmt: skip
    return total.view(*stack, n_columns) if out is None else out


def self_check(device: torch.device) -> None:
    """Compile and run kernels once; an exception here means that this GPU or this Triton cannot do what they need."""
    ones = torch.ones(2, 3, 5, device=device)
    if not bool((product(ones, ones.mT, ones.new_ones(2, 3, 3)) == 6).all() and (sum_rows(ones) == 3).all()):
        raise RuntimeError("a sum of ones is wrong")
