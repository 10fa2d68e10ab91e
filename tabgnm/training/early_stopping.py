"""Early stopping: the best weights of each model so far, and the decision when a model is done."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tabgnm.training.settings import FleetSettings

# The attributes that a checkpoint stores.
STATE = ("best_flat", "best_loss", "best_epoch", "active", "diverged")


class EarlyStopping:
    """Bookkeeping of M models on their device, which the host reads only when necessary.

    Attributes
    ----------
    best_flat : Tensor
        The weights of each model's best epoch, (M, P).
    best_loss, best_epoch : Tensor
        The validation loss of the best epoch, and its number (0 for the initial weights), (M,).
    active, diverged : Tensor
        Whether a model continues, and whether it stopped because a loss was not finite, (M,).
    """

    def __init__(self, flat: Tensor, settings: FleetSettings, *, validated: bool) -> None:
        n, device = len(flat), flat.device
        self._settings, self._validated = settings, validated
        self.best_flat = flat.clone()
        self.best_loss = torch.full((n,), torch.inf, dtype=flat.dtype, device=device)
        self.best_epoch = torch.zeros(n, dtype=torch.int64, device=device)
        self.active = torch.ones(n, dtype=torch.bool, device=device)
        self.diverged = torch.zeros(n, dtype=torch.bool, device=device)

    def select(self, keep: Tensor) -> None:
        """Keep only these models; `keep` is on their device."""
        for name in STATE:
            setattr(self, name, getattr(self, name)[keep])

    def update(self, epoch: Tensor, flat: Tensor, train_loss: Tensor, val_loss: Tensor) -> None:
        """Update the best weights, and which models are done, with the losses of an epoch."""
        on_cpu = flat.is_cpu
        # The same operations in NumPy on a CPU, where they cost several times less for few models.
        math: Any = np if on_cpu else torch
        given = (epoch, train_loss, val_loss, self.best_loss, self.best_epoch, self.active, self.diverged)
        epoch_, train, val, best_loss, best_epoch, active, diverged = (
            each.numpy() if on_cpu else each for each in given
        )  # fmt: skip
        finite = math.isfinite(train - val)  # of both; without validation rows, `val` is 0
        diverged |= active & ~finite
        active &= finite
        if self._validated:
            better = active & (val < best_loss)
        else:  # the training loss is that of the weights before each step, so it says nothing about the last ones
            weights = flat.numpy() if on_cpu else flat
            better = active & math.isfinite(weights).all(axis=1)
        best_epoch[...] = math.where(better, epoch_, best_epoch)
        if self._validated:
            best_loss[...] = math.where(better, val, best_loss)
            if self._settings.patience is not None:
                active &= epoch_ - best_epoch < self._settings.patience
        if on_cpu:  # reading `better` costs nothing here, and most models have not improved
            for model in np.flatnonzero(better).tolist():
                self.best_flat[model].copy_(flat[model])
        else:
            torch.where(better.unsqueeze(1), flat, self.best_flat, out=self.best_flat)
