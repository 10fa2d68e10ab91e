"""Synthetic tables with the sizes of real ones; for timing, only the sizes matter."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Rows(NamedTuple):
    """A table and its split into training and validation rows."""

    x: Tensor  # (N, m) float32
    y: Tensor  # (N,) int64 class numbers, or (N, 1) float32
    train: Tensor  # row numbers
    val: Tensor


def classification(n_train: int, n_val: int, n_inputs: int, n_classes: int, seed: int = 0) -> Rows:
    """Generate zeros and ones like those of one-hot encoding, and classes that depend on them."""
    generator = torch.Generator().manual_seed(seed)
    n_rows = n_train + n_val
    x = (torch.rand(n_rows, n_inputs, generator=generator) < 0.3).float()
    y = (x @ torch.randn(n_inputs, n_classes, generator=generator)).argmax(dim=1)
    return Rows(x, y, torch.arange(n_train), torch.arange(n_train, n_rows))


def numbers_and_categories(n_train: int, n_val: int, n_numeric: int, levels: tuple[int, ...], seed: int = 0) -> Rows:
    """Generate standard normal numbers, codes of categories, and two classes that depend on all of them."""
    generator = torch.Generator().manual_seed(seed)
    n_rows = n_train + n_val
    numbers = torch.randn(n_rows, n_numeric, generator=generator)
    score = numbers.sin().sum(dim=1)
    codes = []
    for n_levels in levels:
        code = torch.randint(n_levels, (n_rows,), generator=generator)
        score += torch.randn(n_levels, generator=generator)[code]
        codes.append(code.float())
    y = (score > score.median()).long()
    return Rows(
        torch.stack([*numbers.unbind(dim=1), *codes], dim=1), y, torch.arange(n_train), torch.arange(n_train, n_rows)
    )


def regression(n_train: int, n_val: int, n_inputs: int, seed: int = 0) -> Rows:
    """Generate standard normal inputs, and a linear target with noise."""
    generator = torch.Generator().manual_seed(seed)
    n_rows = n_train + n_val
    x = torch.randn(n_rows, n_inputs, generator=generator)
    y = x @ torch.randn(n_inputs, 1, generator=generator) + torch.randn(n_rows, 1, generator=generator)
    return Rows(x, y, torch.arange(n_train), torch.arange(n_train, n_rows))


def car_sized() -> Rows:
    """Generate rows, inputs and classes in the numbers of Car Evaluation in one fold of the paper's protocol."""
    return classification(n_train=1400, n_val=156, n_inputs=21, n_classes=4)
