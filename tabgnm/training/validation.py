"""The validation rows of M models in lockstep, piece by piece, and what a model's outputs for them are worth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from tabgnm.nn.evenly import sum_rows
from tabgnm.nn.losses import Loss, LossWithMetric
from tabgnm.training.fused import LOSS_KINDS, fused_epochs
from tabgnm.training.rows import RowSet, groups_of
from tabgnm.training.settings import FleetSettings

VALIDATION_ROWS = 4096  # of a model at a time


class Piece(NamedTuple):
    """Rows of some models, as many for each: x (n, L, m), targets, and what each row counts, (n, L)."""

    models: slice
    x: Tensor
    y: Tensor
    weights: Tensor


class Validation:
    """Losses, and metrics if they are asked for, of the validation rows of M models.

    Parameters
    ----------
    rows : RowSet
    settings : FleetSettings
    like : Tensor
        Losses are on the same device, and of the same type.
    bias_column : bool, default=False
        Whether rows have a last column of ones.

    Attributes
    ----------
    loss, metric : Tensor
        Means over each model's rows, (M,); no metric is None.
    """

    def __init__(self, rows: RowSet, settings: FleetSettings, like: Tensor, *, bias_column: bool = False) -> None:
        self.rows, self._loss_of_rows, self._bias_column = rows, settings.loss, bias_column
        self.loss = like.new_zeros(len(rows.sizes))
        self.metric = torch.zeros_like(self.loss) if settings.metric else None
        self._prepare()

    def _prepare(self) -> None:
        shares = self.rows.shares(self.loss.dtype)
        self._weights = shares if self.rows.weights is None else shares * self.rows.weights
        # On a GPU rows beyond a model's own count 0. On a CPU a sum over more rows would be rounded differently.
        padded = self.loss.device.type == "cuda"
        sizes = [max(self.rows.sizes)] * len(self.rows.sizes) if padded else self.rows.sizes
        self._n_rows, self._groups = max(sizes), groups_of(sizes)
        self._kept: tuple[Tensor, Tensor] | None = None
        if self._n_rows <= VALIDATION_ROWS:
            self._kept = self._gather(slice(None), slice(None))

    def select(self, keep: Tensor) -> None:
        """Keep these models only."""
        on_device = keep.to(self.loss.device)
        self.loss = self.loss[on_device]
        self.metric = None if self.metric is None else self.metric[on_device]
        self.rows.select(keep)
        self._prepare()

    def begin(self) -> None:
        """Begin to add up."""
        self.loss.zero_()
        if self.metric is not None:
            self.metric.zero_()

    def pieces(self, models: slice) -> Iterator[Piece]:
        """Yield the rows of some models."""
        for group in self._groups:
            own = group.within(models)
            if own is None:
                continue
            for first in range(0, group.n_rows, VALIDATION_ROWS):
                rows = slice(first, min(first + VALIDATION_ROWS, group.n_rows))
                x, y = self._gather(own, rows) if self._kept is None else (part[own, rows] for part in self._kept)
                yield Piece(own, x, y, self._weights[own, rows])

    def _gather(self, models: slice, rows: slice) -> tuple[Tensor, Tensor]:
        tables, ids = self.rows.tables, self.rows.ids[models, rows]
        x, y = (table.index_select(0, ids.reshape(-1)) for table in (tables.x, tables.y))
        x = x.view(*ids.shape, -1)[..., : tables.n_columns]
        return F.pad(x, (0, 1), value=1.0) if self._bias_column else x, y.view(*ids.shape, *y.shape[1:])

    def add(self, piece: Piece, outputs: Tensor) -> None:
        """Add what outputs (n, L, c) of a piece are worth."""
        add_losses(self._loss_of_rows, outputs, piece.y, piece.weights, self.loss[piece.models])
        if self.metric is not None:
            assert isinstance(self._loss_of_rows, LossWithMetric)
            per_row = self._loss_of_rows.metric_per_row(outputs, piece.y)
            _add_weighted(per_row, piece.weights, self.metric[piece.models])


def add_losses(loss: Loss, outputs: Tensor, y: Tensor, weights: Tensor, total: Tensor) -> None:
    """Add the weighted losses of each model's rows, outputs (n, L, c), to its entry of `total` (n,)."""
    kernels = fused_epochs(outputs.device) if outputs.dtype == torch.float32 and loss.name in LOSS_KINDS else None
    if kernels is not None:
        kernels.add_losses(loss.name, loss.setting, outputs, y, weights, total)
    else:
        _add_weighted(loss.per_row(outputs, y), weights, total)


def _add_weighted(per_row: Tensor, weights: Tensor, total: Tensor) -> None:
    # 0 x infinity is NaN: what counts nothing must not be looked at
    counted = torch.where(weights > 0, per_row * weights, 0.0)
    total += sum_rows(counted.unsqueeze(-1)).squeeze(-1)
