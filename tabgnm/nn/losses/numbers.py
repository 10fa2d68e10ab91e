"""Losses for regression whose predictions are the outputs of the network."""

from __future__ import annotations

import itertools
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from tabgnm._printable import shown

# Limits of delta in the Huber loss: outside, it is in effect another loss, or products overflow in float32.
SMALLEST_DELTA, LARGEST_DELTA = 1e-12, 1e12
# Quantiles closer to 0 or 1 would need more rows than tables have.
SMALLEST_QUANTILE, LARGEST_QUANTILE = 1e-6, 1 - 1e-6


def check_continuous(name: str, n_columns: int, targets: Tensor) -> None:
    """Raise ValueError unless targets are finite floating point numbers of shape (rows, n_columns)."""
    if not targets.is_floating_point() or targets.dim() != 2 or targets.shape[-1] != n_columns:
        raise ValueError(
            f"targets for the {name} loss have shape {tuple(targets.shape)} and dtype {targets.dtype}; expected "
            f"floating point numbers of shape (rows, {n_columns})"
        )
    if not torch.isfinite(targets).all():
        raise ValueError(f"targets for the {name} loss contain NaN or infinity; expected finite numbers")


def setting_within(name: str, value: object, low: float, high: float, advice: str) -> float:
    """Return the parameter of a loss as a float; raise unless it is a number in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name}={shown(value)} has type {type(value).__name__}; expected a number: {advice}")
    if not low <= float(value) <= high:  # also true for NaN
        raise ValueError(
            f"{name}={shown(value)} is out of range; expected a number from {low:.9g} to {high:.9g}: {advice}"
        )
    return float(value)


class NumberLoss:
    """Base class of losses for regression."""

    name: ClassVar[str]

    @property
    def setting(self) -> float:
        """The parameter of the loss, or 0 if it has none."""
        return 0.0

    def per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each row."""
        raise NotImplementedError

    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the derivative of each row's loss with respect to its outputs."""
        raise NotImplementedError

    def metric_per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the squared error of each row, averaged over the outputs."""
        return (outputs - targets).square().mean(dim=-1)

    def check(self, n_outputs: int, targets: Tensor) -> None:
        """Raise ValueError if a network with `n_outputs` outputs cannot be trained on these targets."""
        check_continuous(self.name, n_outputs, targets)


@dataclass(frozen=True)
class SquaredError(NumberLoss):
    """The squared error (y - o)^2, summed over the outputs of a row as in the paper."""

    name: ClassVar[str] = "squared_error"

    def per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each row."""
        return (outputs - targets).square().sum(dim=-1)

    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the derivative of each row's loss with respect to its outputs."""
        return 2 * (outputs - targets)


@dataclass(frozen=True)
class AbsoluteError(NumberLoss):
    """The absolute error |y - o|, summed over the outputs of a row. It is minimal for the median of the target."""

    name: ClassVar[str] = "absolute_error"

    def per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each row."""
        return (outputs - targets).abs().sum(dim=-1)

    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the derivative of each row's loss with respect to its outputs."""
        return torch.sign(outputs - targets)


@dataclass(frozen=True)
class Huber(NumberLoss):
    """The Huber loss: half the squared error up to `delta`, linear beyond; summed over the outputs of a row."""

    name: ClassVar[str] = "huber"
    delta: float = 1.0

    def __post_init__(self) -> None:
        setting_within("delta", self.delta, SMALLEST_DELTA, LARGEST_DELTA, "where the loss turns linear, e.g. 1.0")

    @property
    def setting(self) -> float:
        """The parameter of the loss, or 0 if it has none."""
        return self.delta

    def per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each row."""
        distance = (outputs - targets).abs()
        near = distance.clamp(max=self.delta)
        return (near * (distance - 0.5 * near)).sum(dim=-1)

    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the derivative of each row's loss with respect to its outputs."""
        return (outputs - targets).clamp(-self.delta, self.delta)


@dataclass(frozen=True)
class Pinball(NumberLoss):
    """The quantile loss, summed over the outputs of a row. It is minimal for the `quantile` of the target."""

    name: ClassVar[str] = "quantile"
    quantile: float = 0.5

    def __post_init__(self) -> None:
        setting_within("quantile", self.quantile, SMALLEST_QUANTILE, LARGEST_QUANTILE, "e.g. 0.5 for the median")

    @property
    def setting(self) -> float:
        """The parameter of the loss, or 0 if it has none."""
        return self.quantile

    def per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each row."""
        under = targets - outputs
        return torch.maximum(self.quantile * under, (self.quantile - 1) * under).sum(dim=-1)

    def metric_per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the quantile loss of each row, averaged over the outputs."""
        return self.per_row(outputs, targets) / outputs.shape[-1]

    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the derivative of each row's loss with respect to its outputs."""
        under = targets - outputs
        # At 0, return the mean of the two slopes, as autograd does for torch.maximum.
        return 0.5 * torch.sign(-under) + (0.5 - self.quantile)


@dataclass(frozen=True)
class Quantiles(NumberLoss):
    """The sum of the quantile losses of several quantiles of one target, with one output per quantile.

    The outputs of a row may be out of order. Sort them for predictions: this never increases the loss (Chernozhukov et
    al., 2010).

    Parameters
    ----------
    quantiles : sequence of float
        The quantiles, in ascending order.
    """

    name: ClassVar[str] = "quantiles"
    quantiles: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "quantiles", ascending_quantiles("quantiles", self.quantiles))

    def per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each row."""
        return torch.stack([loss.per_row(own, targets) for loss, own in self._parts(outputs)]).sum(dim=0)

    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the derivative of each row's loss with respect to its outputs."""
        return torch.cat([loss.gradient(own, targets) for loss, own in self._parts(outputs)], dim=-1)

    def metric_per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the quantile loss of each row, averaged over the quantiles."""
        return self.per_row(outputs, targets) / len(self.quantiles)

    def _parts(self, outputs: Tensor) -> list[tuple[Pinball, Tensor]]:
        """Return the loss and the output (..., B, 1) of each quantile."""
        columns = torch.split(outputs, 1, dim=-1)
        return [(Pinball(quantile), own) for quantile, own in zip(self.quantiles, columns, strict=True)]

    def check(self, n_outputs: int, targets: Tensor) -> None:
        """Raise ValueError if a network with `n_outputs` outputs cannot be trained on these targets."""
        if n_outputs != len(self.quantiles):
            raise ValueError(
                f"a network with {n_outputs} outputs cannot be trained for {len(self.quantiles)} quantiles; expected "
                "one output per quantile"
            )
        check_continuous(self.name, 1, targets)


def ascending_quantiles(name: str, values: Any) -> tuple[float, ...]:
    """Return the quantiles as floats; raise unless they are in ascending order within (0, 1)."""
    example = "use e.g. [0.1, 0.5, 0.9]"
    given = values.tolist() if hasattr(values, "tolist") else values
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise ValueError(f"{name}={shown(values)} is not a list of quantiles; {example}")
    found = tuple(
        setting_within(f"{name}[{i}]", value, SMALLEST_QUANTILE, LARGEST_QUANTILE, "e.g. 0.5 for the median")
        for i, value in enumerate(given)
    )
    if any(one >= other for one, other in itertools.pairwise(found)):
        raise ValueError(f"{name}={list(found)} is not in ascending order, or has duplicates; {example}")
    return found
