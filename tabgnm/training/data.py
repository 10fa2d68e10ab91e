"""Training data: tables of numbers, and the rows and weights of each model."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tabgnm.nn.losses import BinaryCrossEntropy, CrossEntropy, Loss
from tabgnm.training.settings import Member


@dataclass(frozen=True, eq=False)
class Table:
    """Training data: rows `x` (N, m) and targets `y`, which are class indices (N,) or numbers (N, c)."""

    x: Tensor
    y: Tensor

    def __post_init__(self) -> None:
        for name in ("x", "y"):
            object.__setattr__(self, name, torch.as_tensor(getattr(self, name)))
        if self.x.dim() != 2:
            raise ValueError(f"x has shape {tuple(self.x.shape)}; expected (rows, features)")
        if len(self.x) == 0:
            raise ValueError("x has no rows; expected at least one")
        if self.y.dim() == 0 or len(self.y) != len(self.x):
            n_targets = len(self.y) if self.y.dim() else 0
            raise ValueError(f"x has {len(self.x)} rows, but y has {n_targets} targets; expected one target per row")
        if not torch.isfinite(self.x).all():
            row, column = (int(i) for i in (~torch.isfinite(self.x)).nonzero()[0])
            value = self.x[row, column].item()
            raise ValueError(f"x[{row}, {column}] is {value}; expected finite numbers; impute or drop such rows first")


def row_weights(member: Member, loss: Loss, table: Table, rows: Tensor) -> Tensor | None:
    """Return the weights of a model's rows, scaled to a mean of 1; None without sample and class weights."""
    if member.sample_weight is None and member.class_weight is None:
        return None
    weights = torch.ones(len(rows), dtype=torch.float64)
    if member.sample_weight is not None:
        given = torch.as_tensor(member.sample_weight, dtype=torch.float64)
        if given.shape != (len(table.x),):
            raise ValueError(
                f"sample_weight has shape {tuple(given.shape)}; expected ({len(table.x)},): one weight per row"
            )
        weights = weights * given[rows]
    if member.class_weight is not None:
        given = torch.as_tensor(member.class_weight, dtype=torch.float64)
        classes = _class_numbers(loss, table.y)
        n_classes = 2 if isinstance(loss, BinaryCrossEntropy) else int(classes.max()) + 1
        if given.dim() != 1 or len(given) < n_classes:
            raise ValueError(f"class_weight has shape {tuple(given.shape)}; expected one weight for each class")
        weights = weights * given[classes[rows]]
    if not torch.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("sample or class weights are negative or not finite; expected numbers >= 0")
    largest = weights.max()
    if largest == 0:
        raise ValueError("all rows of a model have weight 0; expected at least one positive weight")
    weights = weights / largest  # their sum is finite
    return weights * (len(rows) / weights.sum())


def _class_numbers(loss: Loss, y: Tensor) -> Tensor:
    if isinstance(loss, CrossEntropy):
        return y
    if isinstance(loss, BinaryCrossEntropy) and y.shape[-1] == 1 and torch.isin(y, y.new_tensor([0.0, 1.0])).all():
        return y[:, 0].long()
    raise ValueError(
        f"class_weight was given with the {loss.name} loss, but is only supported by cross-entropy, and by binary "
        "cross-entropy with one output; use sample_weight instead"
    )


def member_rows(member: Member, table: Table, which: str) -> Tensor:
    """Validate and return the training or validation rows of a model."""
    given = getattr(member, which)
    if given is None:
        return torch.arange(len(table.x)) if which == "train" else torch.arange(0)
    rows = torch.as_tensor(given)
    if rows.dtype == torch.bool or rows.is_floating_point() or rows.dim() != 1:
        raise ValueError(
            f"{which} rows have dtype {rows.dtype} and shape {tuple(rows.shape)}; expected a 1-D tensor of integers"
        )
    if len(rows) == 0:
        remedy = "; use val=None for no validation" if which == "val" else ""
        raise ValueError(f"a model has no {which} rows; expected at least one{remedy}")
    if int(rows.min()) < 0 or int(rows.max()) >= len(table.x):
        raise ValueError(
            f"{which} rows are in [{int(rows.min())}, {int(rows.max())}]; expected 0 to {len(table.x) - 1}, the rows "
            "of the table"
        )
    return rows.long()
