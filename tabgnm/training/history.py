"""The training history of one model: losses per epoch, best epoch and status."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal["completed", "stopped_early", "diverged", "interrupted"]

HISTORY_LISTS = ("train_loss", "val_loss", "val_metric")


@dataclass
class History:
    """The training history of one model.

    Attributes
    ----------
    train_loss : list of float
        The mean loss over the training rows in each epoch, computed before the update of each step (with dropout,
        without penalties).
    val_loss : list of float
        The mean loss over the validation rows after each epoch; empty without validation rows.
    best_epoch : int
        The epoch, counted from 1, whose weights were kept; 0 for the initial weights.
    status : {"completed", "stopped_early", "diverged", "interrupted"}
        Why training ended. "diverged" means that the loss of the last epoch was not finite.
    val_metric : list of float
        The mean metric over the validation rows after each epoch (accuracy or mean squared error; see
        `FleetSettings.metric`); empty if it was not requested.
    """

    train_loss: list[float] = field(default_factory=list)
    val_loss: list[float] = field(default_factory=list)
    best_epoch: int = 0
    status: Status = "completed"
    val_metric: list[float] = field(default_factory=list)

    @property
    def n_epochs(self) -> int:
        """The number of trained epochs."""
        return len(self.train_loss)

    @property
    def best_val_loss(self) -> float:
        """The validation loss of the kept weights; NaN without validation rows."""
        return self.val_loss[self.best_epoch - 1] if self.val_loss and self.best_epoch else math.nan

    def as_dict(self) -> dict[str, Any]:
        """Return the history as JSON values; losses that are not finite become None."""
        lists = {
            name: [value if math.isfinite(value) else None for value in getattr(self, name)] for name in HISTORY_LISTS
        }
        return lists | {"best_epoch": self.best_epoch, "status": self.status}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> History:
        """Restore a history from the result of `as_dict`."""
        given = [name for name in HISTORY_LISTS if name in values]  # older files have no metric
        losses = {name: [math.nan if value is None else float(value) for value in values[name]] for name in given}
        return cls(best_epoch=int(values["best_epoch"]), status=values["status"], **losses)
