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
    """The outputs of M models for their validation rows, each from an epoch that was chosen by other rows.

    Rows at even positions are predicted at the epoch with the lowest loss of those at odd positions, and vice versa.

    Parameters
    ----------
    loss : Loss
    weights : Tensor
        The weights of the rows in the validation loss, (M, L).
    n_outputs : int

    Attributes
    ----------
    outputs : Tensor
        (M, L, n_outputs)
    """

    def __init__(self, loss: Loss, weights: Tensor, n_outputs: int) -> None:
        self._loss = loss
        is_odd = torch.arange(weights.shape[1], device=weights.device) % 2 == 1
        even, odd = torch.where(is_odd, 0.0, weights), torch.where(is_odd, weights, 0.0)
        # By position: the weights of the rows that choose. A single row has no others, so it chooses itself.
        self._choosing = [
            torch.where((own > 0).any(dim=1, keepdim=True), own, weights).contiguous() for own in (odd, even)
        ]
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
        self.outputs = self.outputs[keep, :n_rows].contiguous()

    def update(self, outputs: Tensor, y: Tensor, active: Tensor) -> None:
        """Keep the outputs (M, L, c) of an epoch for the halves for which it is the best one so far."""
        for parity, (choosing, lowest) in enumerate(zip(self._choosing, self._lowest, strict=True)):
            loss = torch.zeros_like(lowest)
            add_losses(self._loss, outputs, y, choosing, loss)
            better = active & (loss < lowest)  # not if it is NaN
            lowest.copy_(torch.where(better, loss, lowest))
            kept = self.outputs[:, parity::2]
            kept.copy_(torch.where(better.view(-1, 1, 1), outputs[:, parity::2], kept))
