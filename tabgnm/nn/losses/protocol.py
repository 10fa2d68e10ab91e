"""What a loss has to offer."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor


class Loss(Protocol):
    """What a loss has to offer.

    Shape
    -----
    - outputs: (..., B, c)
    - targets: (..., B, c), or (..., B) class numbers for cross-entropy, (..., B, G) for G class targets at once,
      (..., B, 1) for several quantiles of one target
    - per_row: (..., B)
    - gradient: (..., B, c), the derivative of each row's loss by its outputs

    The trainer may call these in several threads at the same time.
    """

    @property
    def name(self) -> str:
        """What the loss is called."""
        ...

    @property
    def setting(self) -> float:
        """The one number that the loss is set by, or 0."""
        ...

    def per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Loss of each row."""
        ...

    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Derivative of each row's loss by its outputs."""
        ...

    def check(self, n_outputs: int, targets: Tensor) -> None:
        """Raise ValueError if a network with that many outputs cannot learn these targets."""
        ...


@runtime_checkable
class LossWithMetric(Loss, Protocol):
    """A loss that also says how good a prediction is in a number that people read: accuracy, or squared error.

    Shape
    -----
    - metric_per_row: (..., B)
    """

    def metric_per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """How good the prediction of each row is."""
        ...
