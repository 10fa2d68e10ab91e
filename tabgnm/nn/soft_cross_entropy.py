"""Cross-entropy with probabilities as targets, for networks that learn from the predictions of other networks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor


@dataclass(frozen=True)
class SoftCrossEntropy:
    """Softmax cross-entropy with class probabilities as targets, summed over the targets.

    Parameters
    ----------
    sizes : tuple of int
        The number of classes of each target. Outputs and target columns are ordered by target, then by class.

    Examples
    --------
    >>> import torch
    >>> loss = SoftCrossEntropy((2,))
    >>> loss.per_row(torch.tensor([[0.0, 0.0]]), torch.tensor([[0.25, 0.75]]))
    tensor([0.6931])
    """

    sizes: tuple[int, ...]
    name: ClassVar[str] = "soft_cross_entropy"
    setting: ClassVar[float] = 0.0

    def _groups(self, *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
        for end, size in zip(itertools.accumulate(self.sizes), self.sizes, strict=True):
            yield tuple(tensor[..., end - size : end] for tensor in tensors)

    def per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each row."""
        losses = [-(t * torch.log_softmax(o, dim=-1)).sum(dim=-1) for o, t in self._groups(outputs, targets)]
        return torch.stack(losses).sum(dim=0)

    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the derivative of each row's loss with respect to its outputs."""
        parts = [torch.softmax(o, dim=-1) * t.sum(dim=-1, keepdim=True) - t for o, t in self._groups(outputs, targets)]
        return torch.cat(parts, dim=-1)

    def check(self, n_outputs: int, targets: Tensor) -> None:
        """Raise ValueError if a network with `n_outputs` outputs cannot be trained on these targets."""
        if n_outputs != sum(self.sizes) or targets.dim() != 2 or targets.shape[1] != n_outputs:
            raise ValueError(
                f"targets for soft cross-entropy have shape {tuple(targets.shape)} and the network has {n_outputs} "
                f"outputs; expected {sum(self.sizes)} columns and outputs: one for each class of each target"
            )
        if not targets.is_floating_point() or (targets.numel() and (targets.min() < 0 or targets.max() > 1)):
            raise ValueError("targets for soft cross-entropy are not probabilities; expected numbers in [0, 1]")
