"""Predictions as a differentiable function of the outputs of the networks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from tabgnm.estimators.class_targets import mean_log_probabilities
from tabgnm.estimators.targets import ClassTargets, NumberTargets

if TYPE_CHECKING:
    from tabgnm.estimators.fitting import FittedPack

Scale = Literal["probability", "log_odds", "target"]


def predictions(fitted: FittedPack, outputs: list[Tensor], scale: Scale) -> Tensor:
    """Return predictions in the order of `prediction_names`, computed in float64.

    Parameters
    ----------
    fitted : FittedPack
        With numbers as targets, or with more than one class.
    outputs : list of Tensor
        One of shape (networks, rows, c) per group.
    scale : {"probability", "log_odds", "target"}

    Shape
    -----
    - output: (rows, outputs)
    """
    if isinstance(fitted.targets, ClassTargets):
        return _of_classes(fitted, fitted.targets, outputs, scale)
    numbers = torch.cat([_in_units(group.targets, own) for group, own in zip(fitted.groups, outputs, strict=True)])
    mean: Tensor = torch.tensordot(torch.as_tensor(fitted.network_weights), numbers, 1)
    return mean if fitted.targets.quantiles is None else mean.sort(dim=-1).values


def _of_classes(fitted: FittedPack, targets: ClassTargets, outputs: list[Tensor], scale: Scale) -> Tensor:
    of_groups = [targets.log_probabilities(own.to(torch.float64)) for own in outputs]
    parts = mean_log_probabilities(of_groups, fitted.network_weights, fitted.temperature)
    of_two = targets.kind in ("binary", "multilabel")
    if scale == "probability":
        return torch.cat([part[:, 1:] if of_two else part for part in parts], dim=-1).exp()
    return torch.cat([part[:, 1:] - part[:, :1] if of_two else _log_odds(part) for part in parts], dim=-1)


def _log_odds(log_probabilities: Tensor) -> Tensor:
    """Return the log-odds of each class against all others, limited to 36, because 1 - p would round to 0 beyond it."""
    least = -torch.finfo(torch.float64).eps
    return log_probabilities - torch.log(-torch.expm1(log_probabilities.clamp(max=least)))


def _in_units(targets: object, outputs: Tensor) -> Tensor:
    """Return outputs (networks, rows, c) in units of the target, like `NumberTargets.numbers`."""
    assert isinstance(targets, NumberTargets)
    scale, offset, limit = targets.link()
    limited = outputs.to(torch.float64) if limit is None else outputs.to(torch.float64).clamp(-limit, limit)
    numbers = limited * torch.as_tensor(scale) + torch.as_tensor(offset)
    numbers = numbers if limit is None else numbers.exp()
    return numbers if targets.quantiles is None else numbers.sort(dim=-1).values
