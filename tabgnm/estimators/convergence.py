"""Whether training went well: warnings about networks that needed more epochs, or that training only made worse."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tabgnm.estimators.fitting import NetworkGroup, PreparedFit

_LAST_EPOCHS = 0.05  # share of the epochs that counts as "the last one"
_LATE_EPOCHS = 0.1  # share of the epochs in which the loss has to have fallen ...
_MIN_FALL = 0.01  # ... by this share of its fall since the first epoch
_MAX_WEIGHT = 0.5
_MIN_EPOCHS = 5  # with fewer, it is no sign that the first one was the best


def convergence_warnings(
    prepared: PreparedFit, groups: list[NetworkGroup], *, limited: bool
) -> Iterator[tuple[str, str]]:
    """Yield warnings about the networks with most of the weight, as pairs of topic and message.

    There are no warnings without validation, with `patience=None`, when training continues from call to call, or if
    training was stopped or shortened by Ctrl-C or a time limit (`limited`).
    """
    if not prepared.rows.validated or prepared.previous is not None:
        return
    share = _share_of_weight(groups, _is_worse_than_at_first)
    if share > _MAX_WEIGHT:
        rates = sorted({group.settings["learning_rate"] for group in groups})
        yield (
            "training made networks worse",
            f"training did not improve the networks that make up {share:.0%} of the prediction: their validation loss "
            f"was lowest after the first epoch, whose weights are kept. Use a learning_rate smaller than {rates[0]:g}; "
            "otherwise the columns may contain no information about the target",
        )
    settings = prepared.candidates[0].fleet
    if limited or settings.patience is None:
        return
    share = _share_of_weight(groups, _was_still_improving)
    if share > _MAX_WEIGHT:
        yield (
            "training ended too early",
            f"training ended at max_epochs={settings.max_epochs} while the validation loss was still falling, for the "
            f"networks that make up {share:.0%} of the prediction. Use a larger max_epochs or learning_rate, or "
            "patience=None to silence this warning",
        )


def _share_of_weight(groups: list[NetworkGroup], holds: Callable[[Mapping[str, Any]], bool]) -> float:
    return sum(group.weight * sum(map(holds, group.histories)) / group.n_networks for group in groups)


def _was_still_improving(history: Mapping[str, Any]) -> bool:
    losses, best = history["val_loss"], history["best_epoch"]
    n_epochs = len(losses)
    if None in losses:  # some epochs were not finite
        return False
    if history["status"] != "completed" or best <= (1 - _LAST_EPOCHS) * n_epochs:
        return False
    # A learning rate that falls to 0 makes tiny steps in the end, of which the last one is often the best.
    before = losses[: n_epochs - math.ceil(_LATE_EPOCHS * n_epochs)]
    if not before:
        return True
    fall = losses[0] - losses[best - 1]
    return bool(fall > 0 and min(before) - losses[best - 1] > _MIN_FALL * fall)


def _is_worse_than_at_first(history: Mapping[str, Any]) -> bool:
    if history["best_epoch"] != 1 or len(history["val_loss"]) < _MIN_EPOCHS:
        return False
    first, *later = history["val_loss"]
    return bool(min((loss for loss in later if loss is not None), default=first) > first)
