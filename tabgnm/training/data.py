"""Training data: tables of numbers, and the rows and weights of each model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tabgnm.nn.losses import Loss, LossWithMetric
from tabgnm.training.kernels import loss_kind
from tabgnm.training.settings import Member


@dataclass(frozen=True, eq=False)
class Table:
    """Training data: rows `x` (N, m) and targets `y`, which are class indices (N,) or numbers (N, c)."""

    x: Tensor
    y: Tensor

    def __post_init__(self) -> None:
        for name in ("x", "y"):
            given = getattr(self, name)
            if isinstance(given, np.ndarray) and not given.flags.writeable:  # torch warns of such arrays
                given = given.copy()
            object.__setattr__(self, name, torch.as_tensor(given))
        if self.x.dim() != 2:
            raise ValueError(f"x has shape {tuple(self.x.shape)}; expected (rows, features)")
        if len(self.x) == 0:
            raise ValueError("x has no rows; expected at least one")
        if self.y.dim() == 0 or len(self.y) != len(self.x):
            n_targets = len(self.y) if self.y.dim() else 0
            raise ValueError(f"x has {len(self.x)} rows, but y has {n_targets} targets; expected one target per row")
        if self.x.is_complex():
            raise ValueError(f"x has dtype {self.x.dtype}; expected real numbers")
        if not torch.isfinite(self.x).all():
            row, column = (int(i) for i in (~torch.isfinite(self.x)).nonzero()[0])
            value = self.x[row, column].item()
            raise ValueError(f"x[{row}, {column}] is {value}; expected finite numbers; impute or drop such rows first")


def check_loss(loss: Loss, n_outputs: int, table: Table, dtype: torch.dtype) -> None:
    """Raise if the targets do not match the loss, or if the results of a user-defined loss have wrong shapes."""
    loss.check(n_outputs, table.y)
    if loss_kind(loss) is not None:
        return
    y = table.y[:2].unsqueeze(0)
    y = y.to(dtype) if y.is_floating_point() else y
    outputs = torch.ones(1, y.shape[1], n_outputs, dtype=dtype, device=y.device)
    given = outputs.clone(), y.clone()
    by_row = outputs.shape[:2]
    shapes = {"per_row": by_row, "gradient": outputs.shape}
    shapes |= {"metric_per_row": by_row} if isinstance(loss, LossWithMetric) else {}
    for name, expected in shapes.items():
        result = getattr(loss, name)(*given)
        shape = tuple(result.shape) if isinstance(result, Tensor) else type(result).__name__
        if shape != tuple(expected):
            raise ValueError(
                f"{type(loss).__name__}.{name} returned {shape} for outputs of shape {tuple(outputs.shape)}; expected "
                f"a tensor of shape {tuple(expected)}"
            )
    # A loss may use NaN to mark targets.
    if not all(torch.allclose(*pair, rtol=0, atol=0, equal_nan=True) for pair in zip(given, (outputs, y), strict=True)):
        raise ValueError(
            f"{type(loss).__name__} changes its arguments in place; use operations that return new tensors"
        )


def row_weights(member: Member, table: Table, rows: Tensor) -> Tensor | None:
    """Return the weights of a model's rows, scaled to a mean of 1; None if it has no sample weights."""
    if member.sample_weight is None:
        return None
    given = torch.as_tensor(member.sample_weight, dtype=torch.float64)
    if given.shape != (len(table.x),):
        raise ValueError(
            f"sample_weight has shape {tuple(given.shape)}; expected ({len(table.x)},): one weight per row"
        )
    weights = given[rows]
    if not torch.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("sample_weight has weights that are negative or not finite; expected numbers >= 0")
    largest = weights.max()
    if largest == 0:
        raise ValueError("all rows of a model have weight 0; expected at least one positive weight")
    weights = weights / largest  # their sum is finite
    return weights * (len(rows) / weights.sum())


def member_rows(member: Member, table: Table, which: str) -> Tensor:
    """Validate and return the training or validation rows of a model."""
    given = getattr(member, which)
    if given is None:
        return torch.arange(len(table.x) if which == "train" else 0)
    rows = torch.as_tensor(given)
    if rows.numel() == 0:
        remedy = "; use val=None for no validation" if which == "val" else ""
        raise ValueError(f"a model has no {which} rows; expected at least one{remedy}")
    if rows.dtype == torch.bool or rows.is_floating_point() or rows.is_complex() or rows.dim() != 1:
        raise ValueError(
            f"{which} rows have dtype {rows.dtype} and shape {tuple(rows.shape)}; expected a 1-D tensor of integers"
        )
    if int(rows.min()) < 0 or int(rows.max()) >= len(table.x):
        raise ValueError(
            f"{which} rows are in [{int(rows.min())}, {int(rows.max())}]; expected 0 to {len(table.x) - 1}, the rows "
            "of the table"
        )
    return rows.long()
