"""The validation rows of M models, in pieces, and the losses and metrics of the outputs for them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from tabgnm.nn.losses import Loss, LossWithMetric
from tabgnm.training.kernels import kernels_for, loss_kind
from tabgnm.training.row_batches import RowSet
from tabgnm.training.settings import FleetSettings

VALIDATION_ROWS = 4096  # per model at a time


class Validation:
    """Losses, and metrics if requested, of the validation rows of M models.

    `loss` and `metric` are means over each model's rows, (M,); `metric` is None unless the settings request it. They
    have the device and type of `like`. `weights` (M, L) are those of the rows in these means.
    """

    def __init__(self, rows: RowSet, settings: FleetSettings, like: Tensor) -> None:
        self.rows, self._loss_of_rows = rows, settings.loss
        self.loss = like.new_zeros(len(rows.sizes))
        self.metric = torch.zeros_like(self.loss) if settings.metric else None
        shares = rows.shares(like.dtype)
        self.weights = shares if rows.weights is None else shares * rows.weights
        self._gathered = self._gather(slice(None)) if rows.ids.shape[1] <= VALIDATION_ROWS else None

    def measure(
        self, outputs_of: Callable[[Tensor], Tensor], use: Callable[[Tensor, Tensor], None] | None = None
    ) -> None:
        """Compute losses and metrics, given a function from rows x (M, L, at least m) to outputs (M, L, c).

        `use` is called with the outputs and targets of each piece.
        """
        self.loss.zero_()
        if self.metric is not None:
            self.metric.zero_()
        for first in range(0, self.rows.ids.shape[1], VALIDATION_ROWS):
            rows = slice(first, first + VALIDATION_ROWS)
            (x, y), weights = self._gathered or self._gather(rows), self.weights[:, rows]
            outputs = outputs_of(x)
            add_losses(self._loss_of_rows, outputs, y, weights, self.loss)
            if self.metric is not None:
                assert isinstance(self._loss_of_rows, LossWithMetric)
                _add_weighted(self._loss_of_rows.metric_per_row(outputs, y), weights, self.metric)
            if use is not None:
                use(outputs, y)

    def _gather(self, rows: slice) -> tuple[Tensor, Tensor]:
        tables, ids = self.rows.tables, self.rows.ids[:, rows]
        x, y = (table.index_select(0, ids.reshape(-1)) for table in (tables.x, tables.y))
        return x.view(*ids.shape, -1), y.view(*ids.shape, *y.shape[1:])


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
