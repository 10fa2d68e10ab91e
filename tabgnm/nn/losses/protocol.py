"""The protocol of a loss."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor


class Loss(Protocol):
    """The methods and attributes of a loss. It must be hashable to be used in a `FleetPlan`.

    Shape
    -----
    - outputs: (..., B, c)
    - targets: (..., B, c), or (..., B) class numbers for cross-entropy, (..., B, G) for G class targets at once,
      (..., B, 1) for several quantiles of one target
    - per_row: (..., B)
    - gradient: (..., B, c), the derivative of each row's loss with respect to its outputs

    The trainer may call these in several threads at the same time, without autograd. They must not change their
    arguments.
    """

    @property
    def name(self) -> str:
        """The name of the loss."""
        ...

    @property
    def setting(self) -> float:
        """The parameter of the loss, or 0 if it has none."""
        ...

    def per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each row."""
        ...

    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the derivative of each row's loss with respect to its outputs."""
        ...

    def check(self, n_outputs: int, targets: Tensor) -> None:
        """Raise ValueError if a network with `n_outputs` outputs cannot be trained on these targets."""
        ...


@runtime_checkable
class LossWithMetric(Loss, Protocol):
    """A loss with a metric to report, such as the accuracy or the squared error.

    Shape
    -----
    - metric_per_row: (..., B)
    """

    def metric_per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the metric of each row."""
        ...
