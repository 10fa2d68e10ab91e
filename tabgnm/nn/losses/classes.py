"""Losses for classification."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from tabgnm._printable import shown
from tabgnm.nn.checks import positive_integer
from tabgnm.nn.losses.numbers import check_continuous


@dataclass(frozen=True)
class CrossEntropy:
    """Softmax cross-entropy with class numbers as targets and optional label smoothing."""

    label_smoothing: float = 0.0
    name: ClassVar[str] = "cross_entropy"

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(
                f"label_smoothing={self.label_smoothing} is out of range; expected a number in [0, 1), e.g. 0.0 or 0.1"
            )

    @property
    def setting(self) -> float:
        """The parameter of the loss, or 0 if it has none."""
        return self.label_smoothing

    def per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each row."""
        # Classes before rows, because torch's softmax is slow on a CPU along a short last dimension.
        by_class = outputs.reshape(-1, *outputs.shape[-2:]).mT
        rows = targets.reshape(-1, targets.shape[-1])
        loss = F.cross_entropy(by_class, rows, reduction="none", label_smoothing=self.label_smoothing)
        return loss.reshape(targets.shape)

    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the derivative of each row's loss with respect to its outputs."""
        gradient = torch.softmax(outputs.mT, dim=-2).mT
        smooth = self.label_smoothing
        # Subtract the (smoothed) one-hot target.
        gradient.scatter_add_(-1, targets.unsqueeze(-1), gradient.new_full((), smooth - 1).expand(*targets.shape, 1))
        return gradient.sub_(smooth / outputs.shape[-1]) if smooth else gradient

    def metric_per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the accuracy of each row: 1 if its class is correct, else 0."""
        return (outputs.argmax(dim=-1) == targets).to(outputs.dtype)

    def check(self, n_outputs: int, targets: Tensor) -> None:
        """Raise ValueError if a network with `n_outputs` outputs cannot be trained on these targets."""
        if targets.dtype != torch.int64 or targets.dim() != 1:
            raise ValueError(
                f"targets for cross-entropy have dtype {targets.dtype} and shape {tuple(targets.shape)}; expected "
                "int64 class numbers of shape (rows,)"
            )
        if targets.numel() and (targets.min() < 0 or targets.max() >= n_outputs):
            raise ValueError(
                f"targets for cross-entropy lie in [{int(targets.min())}, {int(targets.max())}]; expected class "
                f"numbers from 0 to {n_outputs - 1}, one per output"
            )


@dataclass(frozen=True)
class JointCrossEntropy:
    """The sum of the cross-entropies of several class targets.

    Targets are (rows, G) class numbers. Outputs are ordered by target, then by class.

    Parameters
    ----------
    sizes : tuple of int
        The number of classes of each target.
    label_smoothing : float, default=0.0
        The label smoothing of each cross-entropy.
    """

    sizes: tuple[int, ...]
    label_smoothing: float = 0.0
    name: ClassVar[str] = "joint_cross_entropy"

    def __post_init__(self) -> None:
        if isinstance(self.sizes, str) or not isinstance(self.sizes, Sequence) or not self.sizes:
            raise ValueError(
                f"sizes={shown(self.sizes)} is invalid; expected the number of classes of each target, e.g. (3, 2)"
            )
        sizes = tuple(positive_integer(f"sizes[{i}]", size) for i, size in enumerate(self.sizes))
        object.__setattr__(self, "sizes", sizes)
        CrossEntropy(self.label_smoothing)  # validates label_smoothing

    @property
    def setting(self) -> float:
        """The parameter of the loss, or 0 if it has none."""
        return self.label_smoothing

    def per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each row."""
        one = CrossEntropy(self.label_smoothing)
        return torch.stack([one.per_row(*group) for group in self._groups(outputs, targets)]).sum(dim=0)

    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the derivative of each row's loss with respect to its outputs."""
        one = CrossEntropy(self.label_smoothing)
        return torch.cat([one.gradient(*group) for group in self._groups(outputs, targets)], dim=-1)

    def metric_per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the accuracy of each row: 1 if all of its classes are correct, else 0."""
        one = CrossEntropy(self.label_smoothing)
        return torch.stack([one.metric_per_row(*group) for group in self._groups(outputs, targets)]).amin(dim=0)

    def _groups(self, outputs: Tensor, targets: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return the outputs and the class numbers of each target."""
        ends = itertools.accumulate(self.sizes)
        return [
            (outputs[..., end - size : end], targets[..., group])
            for group, (end, size) in enumerate(zip(ends, self.sizes, strict=True))
        ]

    def check(self, n_outputs: int, targets: Tensor) -> None:
        """Raise ValueError if a network with `n_outputs` outputs cannot be trained on these targets."""
        if n_outputs != sum(self.sizes):
            raise ValueError(
                f"a network with {n_outputs} outputs cannot be trained with sizes={self.sizes}; expected "
                f"{sum(self.sizes)} outputs, one for each class of each target"
            )
        if targets.dtype != torch.int64 or targets.dim() != 2 or targets.shape[-1] != len(self.sizes):
            raise ValueError(
                f"targets for joint cross-entropy have dtype {targets.dtype} and shape {tuple(targets.shape)}; "
                f"expected int64 class numbers of shape (rows, {len(self.sizes)})"
            )
        for group, size in enumerate(self.sizes):
            own = targets[:, group]
            if own.numel() and (own.min() < 0 or own.max() >= size):
                raise ValueError(
                    f"column {group} of the targets for joint cross-entropy lies in [{int(own.min())}, "
                    f"{int(own.max())}]; expected class numbers from 0 to {size - 1}"
                )


@dataclass(frozen=True)
class BinaryCrossEntropy:
    """Logistic loss, summed over the outputs of a row: one output for two classes, several for multilabel targets."""

    name: ClassVar[str] = "binary_cross_entropy"
    setting: ClassVar[float] = 0.0

    def per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each row."""
        return F.binary_cross_entropy_with_logits(outputs, targets, reduction="none").sum(dim=-1)

    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the derivative of each row's loss with respect to its outputs."""
        return torch.sigmoid(outputs) - targets

    def metric_per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the accuracy of each row: 1 if all of its outputs have the correct sign, else 0."""
        return ((outputs > 0) == (targets > 0.5)).all(dim=-1).to(outputs.dtype)

    def check(self, n_outputs: int, targets: Tensor) -> None:
        """Raise ValueError if a network with `n_outputs` outputs cannot be trained on these targets."""
        check_continuous(self.name, n_outputs, targets)
        if targets.numel() and (targets.min() < 0 or targets.max() > 1):
            raise ValueError("targets for binary cross-entropy are outside [0, 1]; expected 0, 1 or probabilities")
