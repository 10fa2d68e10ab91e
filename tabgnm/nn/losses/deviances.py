"""Losses for counts and amounts: deviances of the Tweedie family with a log link.

The output of a network is the logarithm of its prediction, so predictions are positive. Outside [-LARGEST_LOG,
LARGEST_LOG], the loss continues linearly and the prediction is constant, so that neither overflows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from tabgnm.nn.losses.numbers import NumberLoss, check_continuous, setting_within

LARGEST_LOG = 20.0  # a factor of 5e8
SMALLEST_POWER, LARGEST_POWER = 1.01, 1.99


class LogLinkLoss(NumberLoss):
    """Base class of deviances with predictions exp(o), summed over the outputs of a row.

    The derivative with respect to an output o is 2 exp((1 - power) o) (exp(o) - y).

    Attributes
    ----------
    power : float
        The variance of the target is proportional to this power of its mean.
    allows_zero : bool
        Whether targets may be 0.
    """

    power: float
    allows_zero: ClassVar[bool] = True

    @property
    def setting(self) -> float:
        """The parameter of the loss, or 0 if it has none."""
        return self.power

    def _deviance(self, logs: Tensor, targets: Tensor) -> Tensor:
        """Return the deviance of each output, given the logarithms of the predictions."""
        raise NotImplementedError

    def _slope(self, logs: Tensor, targets: Tensor) -> Tensor:
        """Return the derivative of the deviance with respect to the logarithm."""
        raise NotImplementedError

    def per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each row."""
        logs = outputs.clamp(-LARGEST_LOG, LARGEST_LOG)
        beyond = self._slope(logs, targets) * (outputs - logs)
        return (self._deviance(logs, targets) + beyond).sum(dim=-1)

    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the derivative of each row's loss with respect to its outputs."""
        return self._slope(outputs.clamp(-LARGEST_LOG, LARGEST_LOG), targets)

    def metric_per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the squared error of each row, averaged over the outputs."""
        return (outputs.clamp(-LARGEST_LOG, LARGEST_LOG).exp() - targets).square().mean(dim=-1)

    def check(self, n_outputs: int, targets: Tensor) -> None:
        """Raise ValueError if a network with `n_outputs` outputs cannot be trained on these targets."""
        check_continuous(self.name, n_outputs, targets)
        wrong = targets < 0 if self.allows_zero else targets <= 0
        if wrong.any():
            row, column = (int(place) for place in wrong.nonzero()[0])
            raise ValueError(
                f"targets for the {self.name} loss have {targets[row, column].item():g} in row {row}; expected numbers "
                f"{'>=' if self.allows_zero else '>'} 0"
            )


@dataclass(frozen=True)
class Poisson(LogLinkLoss):
    """The Poisson deviance, for counts and other targets >= 0: 2 (y log(y / m) - y + m) with m = exp(o)."""

    name: ClassVar[str] = "poisson"
    power = 1.0

    def _deviance(self, logs: Tensor, targets: Tensor) -> Tensor:
        return 2 * (torch.xlogy(targets, targets) - targets * logs - targets + logs.exp())

    def _slope(self, logs: Tensor, targets: Tensor) -> Tensor:
        return 2 * (logs.exp() - targets)


@dataclass(frozen=True)
class Gamma(LogLinkLoss):
    """The Gamma deviance, for amounts > 0 with errors proportional to them: 2 (log(m / y) + y / m - 1), m = exp(o)."""

    name: ClassVar[str] = "gamma"
    power = 2.0
    allows_zero: ClassVar[bool] = False

    def _deviance(self, logs: Tensor, targets: Tensor) -> Tensor:
        return 2 * (logs - targets.log() + targets * (-logs).exp() - 1)

    def _slope(self, logs: Tensor, targets: Tensor) -> Tensor:
        return 2 * (1 - targets * (-logs).exp())


@dataclass(frozen=True)
class Tweedie(LogLinkLoss):
    """The Tweedie deviance, for amounts >= 0 of which some are exactly 0, such as insurance claims.

    Parameters
    ----------
    power : float, default=1.5
        The variance power, from 1.01 (almost Poisson) to 1.99 (almost Gamma).
    """

    name: ClassVar[str] = "tweedie"
    power: float = 1.5

    def __post_init__(self) -> None:
        advice = "e.g. 1.5; use the Poisson loss for 1 and the Gamma loss for 2"
        setting_within("power", self.power, SMALLEST_POWER, LARGEST_POWER, advice)

    def _deviance(self, logs: Tensor, targets: Tensor) -> Tensor:
        one, two = 1 - self.power, 2 - self.power
        constant = targets**two / (one * two)
        return 2 * (constant - targets * (one * logs).exp() / one + (two * logs).exp() / two)

    def _slope(self, logs: Tensor, targets: Tensor) -> Tensor:
        return 2 * (((2 - self.power) * logs).exp() - targets * ((1 - self.power) * logs).exp())
