"""Loss functions for ordinary PyTorch code.

These are the losses of section 4 of the paper, and binary cross-entropy as used in its experiments. The cross-entropy
is the mean over the rows, where the paper has the sum.
"""

from __future__ import annotations

from torch import Tensor

from tabgnm.nn.losses.classes import BinaryCrossEntropy, CrossEntropy
from tabgnm.nn.losses.numbers import SquaredError


def _weighted_mean(per_row: Tensor, sample_weight: Tensor | None) -> Tensor:
    if sample_weight is None:
        return per_row.mean()
    if sample_weight.shape != per_row.shape:
        raise ValueError(
            f"sample_weight has shape {tuple(sample_weight.shape)}; expected {tuple(per_row.shape)}: one weight per row"
        )
    return (per_row * sample_weight).sum() / sample_weight.sum()


def _like(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the targets in the shape of the outputs; targets (rows,) are accepted for outputs (rows, 1)."""
    if targets.shape == outputs.shape:
        return targets
    if outputs.shape[-1:] == (1,) and targets.shape == outputs.shape[:-1]:
        return targets.unsqueeze(-1)
    raise ValueError(
        f"targets have shape {tuple(targets.shape)}; expected {tuple(outputs.shape)}, the shape of the outputs"
    )


def mean_squared_error(outputs: Tensor, targets: Tensor, sample_weight: Tensor | None = None) -> Tensor:
    """Return the squared error, summed over the outputs and averaged over the rows, as in the paper."""
    return _weighted_mean(SquaredError().per_row(outputs, _like(outputs, targets)), sample_weight)


def cross_entropy(outputs: Tensor, targets: Tensor, sample_weight: Tensor | None = None) -> Tensor:
    """Return the mean softmax cross-entropy; `targets` are class numbers, one per row."""
    if targets.shape != outputs.shape[:-1]:
        raise ValueError(
            f"targets have shape {tuple(targets.shape)}; expected {tuple(outputs.shape[:-1])}: a class number per row"
        )
    return _weighted_mean(CrossEntropy().per_row(outputs, targets), sample_weight)


def binary_cross_entropy(outputs: Tensor, targets: Tensor, sample_weight: Tensor | None = None) -> Tensor:
    """Return the logistic loss, summed over the outputs and averaged over the rows; `outputs` are logits."""
    return _weighted_mean(BinaryCrossEntropy().per_row(outputs, _like(outputs, targets)), sample_weight)
