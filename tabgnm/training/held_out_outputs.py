"""Outputs for validation rows that are not biased by the choice of the best epoch.

The best epoch of a model is that with the lowest validation loss, so its outputs for the same rows look better than
those for new rows will be; with few rows, much better. Here, the rows of each half are predicted at the epoch that is
best for the other half.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tabgnm.nn.losses import Loss
from tabgnm.training.validation import VALIDATION_ROWS, add_losses

_MAX_NUMBERS = 2**17  # per model; with more rows the bias is small


class HeldOutOutputs:
    """The outputs of M models for their validation rows, each from an epoch that was chosen by the other half of them.

    Parameters
    ----------
    loss : Loss
    weights : Tensor
        The weights of the rows in the validation loss, (M, L).
    is_second : Tensor
        Whether a row belongs to the second half, (M, L).
    n_outputs : int

    Attributes
    ----------
    outputs : Tensor
        (M, L, n_outputs)
    """

    def __init__(self, loss: Loss, weights: Tensor, is_second: Tensor, n_outputs: int) -> None:
        self._loss, self._is_second = loss, is_second
        # By half: the weights of the rows that choose. If there are none in the other half, all rows do.
        others = (torch.where(half, weights, 0.0) for half in (is_second, ~is_second))
        self._choosing = [torch.where((own > 0).any(dim=1, keepdim=True), own, weights).contiguous() for own in others]
        self._lowest = [torch.full_like(weights[:, 0], torch.inf) for _ in range(2)]
        self.outputs = weights.new_zeros(*weights.shape, n_outputs)

    @staticmethod
    def is_possible(n_rows: int, n_outputs: int) -> bool:
        """Whether there are few enough rows."""
        return n_rows <= VALIDATION_ROWS and n_rows * n_outputs <= _MAX_NUMBERS

    def select(self, keep: Tensor, n_rows: int) -> None:
        """Keep only these models, which have at most `n_rows` rows; `keep` is on their device."""
        self._choosing = [own[keep, :n_rows].contiguous() for own in self._choosing]
        self._lowest = [own[keep] for own in self._lowest]
        self._is_second, self.outputs = (own[keep, :n_rows].contiguous() for own in (self._is_second, self.outputs))

    def update(self, outputs: Tensor, y: Tensor, active: Tensor) -> None:
        """Keep the outputs (M, L, c) of an epoch for the halves for which it is the best one so far."""
        is_better = []
        for choosing, lowest in zip(self._choosing, self._lowest, strict=True):
            loss = torch.zeros_like(lowest)
            add_losses(self._loss, outputs, y, choosing, loss)
            is_better.append(active & (loss < lowest))  # not if it is NaN
            lowest.copy_(torch.where(is_better[-1], loss, lowest))
        first, second = (better.unsqueeze(1) for better in is_better)
        is_kept = torch.where(self._is_second, second, first)
        self.outputs.copy_(torch.where(is_kept.unsqueeze(2), outputs, self.outputs))
