"""The validation rows of M models, in pieces, and the losses and metrics of the outputs for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from tabgnm.nn.losses import Loss, LossWithMetric
from tabgnm.training.kernels import kernels_for, loss_kind
from tabgnm.training.row_batches import RowSet
from tabgnm.training.settings import FleetSettings

VALIDATION_ROWS = 4096  # per model at a time


class Piece(NamedTuple):
    """Some rows of every model: x (M, L, at least m), targets, and weights (M, L).

    Weights are 0 beyond a model's own rows.
    """

    x: Tensor
    y: Tensor
    weights: Tensor


class Validation:
    """Losses, and metrics if requested, of the validation rows of M models.

    Parameters
    ----------
    rows : RowSet
    settings : FleetSettings
    like : Tensor
        A tensor with the device and type of the losses.

    Attributes
    ----------
    loss, metric : Tensor
        Means over each model's rows, (M,); `metric` is None unless the settings request it.
    """

    def __init__(self, rows: RowSet, settings: FleetSettings, like: Tensor) -> None:
        self.rows, self._loss_of_rows = rows, settings.loss
        self.loss = like.new_zeros(len(rows.sizes))
        self.metric = torch.zeros_like(self.loss) if settings.metric else None
        self._prepare()

    def _prepare(self) -> None:
        shares = self.rows.shares(self.loss.dtype)
        self._weights = shares if self.rows.weights is None else shares * self.rows.weights
        self._n_rows = self.rows.ids.shape[1]
        self._gathered: tuple[Tensor, Tensor] | None = None
        if self._n_rows <= VALIDATION_ROWS:
            self._gathered = self._gather(slice(None))

    def select(self, keep: Tensor) -> None:
        """Keep only these models."""
        on_device = keep.to(self.loss.device)
        self.loss = self.loss[on_device]
        self.metric = None if self.metric is None else self.metric[on_device]
        self.rows.select(keep)
        self._prepare()

    def begin(self) -> None:
        """Set the sums to 0."""
        self.loss.zero_()
        if self.metric is not None:
            self.metric.zero_()

    def pieces(self) -> Iterator[Piece]:
        """Yield all rows."""
        for first in range(0, self._n_rows, VALIDATION_ROWS):
            rows = slice(first, min(first + VALIDATION_ROWS, self._n_rows))
            x, y = self._gathered or self._gather(rows)
            yield Piece(x, y, self._weights[:, rows])

    def _gather(self, rows: slice) -> tuple[Tensor, Tensor]:
        tables, ids = self.rows.tables, self.rows.ids[:, rows]
        x, y = (table.index_select(0, ids.reshape(-1)) for table in (tables.x, tables.y))
        return x.view(*ids.shape, -1), y.view(*ids.shape, *y.shape[1:])

    def add(self, piece: Piece, outputs: Tensor) -> None:
        """Add the losses and metrics of the outputs (n, L, c) for a piece."""
        add_losses(self._loss_of_rows, outputs, piece.y, piece.weights, self.loss)
        if self.metric is not None:
            assert isinstance(self._loss_of_rows, LossWithMetric)
            per_row = self._loss_of_rows.metric_per_row(outputs, piece.y)
            _add_weighted(per_row, piece.weights, self.metric)


def add_losses(loss: Loss, outputs: Tensor, y: Tensor, weights: Tensor, total: Tensor) -> None:
    """Add the weighted losses of each model's rows, outputs (n, L, c), to its entry of `total` (n,)."""
    has_kernel = outputs.dtype == torch.float32 and loss_kind(loss) is not None
    kernels = kernels_for(outputs.device, "epochs") if has_kernel else None
    if kernels is not None:
        kernels.add_losses(loss, outputs, y, weights, total)
    else:
        _add_weighted(loss.per_row(outputs, y), weights, total)


def _add_weighted(per_row: Tensor, weights: Tensor, total: Tensor) -> None:
    # 0 x infinity is NaN, so rows without weight, which may contain anything, must be excluded.
    if not per_row.is_cpu:
        total += torch.where(weights > 0, per_row * weights, 0.0).sum(dim=-1)
        return
    weighted, sums = (per_row * weights).numpy(), total.numpy()  # NumPy's calls cost less, but it would warn of NaN
    added = np.add.reduce(weighted, axis=-1)
    if not np.isfinite(added).all():  # looking at the sums costs less than masking the rows
        added = np.add.reduce(np.where(weights.numpy() > 0, weighted, 0), axis=-1)  # in the same order: same rounding
    sums += added
