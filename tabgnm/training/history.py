"""What happened to one model: losses per epoch, its best epoch, and why it ended."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal["completed", "stopped_early", "diverged", "interrupted"]

HISTORY_LISTS = ("train_loss", "val_loss", "val_metric")


@dataclass
class History:
    """The course of one model's training.

    Attributes
    ----------
    train_loss : list of float
        Mean loss over the training rows of each epoch, as the weights were in each step (dropout included,
        penalties not).
    val_loss : list of float
        Mean loss over the validation rows after each epoch; empty without validation rows.
    best_epoch : int
        Epoch (from 1 on) whose weights were kept; 0 means the first weights.
    status : {"completed", "stopped_early", "diverged", "interrupted"}
        Why training ended. "diverged": a loss was no longer finite, in the last epoch listed.
    val_metric : list of float
        Mean metric of the validation rows after each epoch (accuracy, or the mean squared error; see
        `FleetSettings.metric`); empty unless it was asked for.
    """

    train_loss: list[float] = field(default_factory=list)
    val_loss: list[float] = field(default_factory=list)
    best_epoch: int = 0
    status: Status = "completed"
    val_metric: list[float] = field(default_factory=list)

    @property
    def n_epochs(self) -> int:
        """Epochs trained."""
        return len(self.train_loss)

    @property
    def best_val_loss(self) -> float:
        """Validation loss of the kept weights; NaN without validation rows."""
        return self.val_loss[self.best_epoch - 1] if self.val_loss and self.best_epoch else math.nan

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; losses that are not finite become None, as JSON has no NaN."""
        lists = {
            name: [value if math.isfinite(value) else None for value in getattr(self, name)] for name in HISTORY_LISTS
        }
        return lists | {"best_epoch": self.best_epoch, "status": self.status}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> History:
        """Read what `as_dict` gave."""
        given = [name for name in HISTORY_LISTS if name in values]  # older files have no metric
        losses = {name: [math.nan if value is None else float(value) for value in values[name]] for name in given}
        return cls(best_epoch=int(values["best_epoch"]), status=values["status"], **losses)
