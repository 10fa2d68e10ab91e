"""Convergence warnings: networks that needed more epochs, or that were best after the first epoch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tabgnm.estimators.fitting import NetworkGroup, PreparedFit

# The loss was still falling if the best epoch is among the last _LAST_EPOCHS, and at least _MIN_FALL of the total fall
# happened in the last _LATE_EPOCHS (all as fractions).
_LAST_EPOCHS = 0.05
_LATE_EPOCHS = 0.1
_MIN_FALL = 0.01
_MAX_WEIGHT = 0.5
_MIN_EPOCHS = 5  # with fewer epochs, the first may be the best by chance


def convergence_warnings(
    prepared: PreparedFit, groups: list[NetworkGroup], *, limited: bool, effort_of_epochs: str | None = None
) -> Iterator[tuple[str, str]]:
    """Yield (topic, message) pairs if the affected networks have more than half of the weight.

    There are no warnings without validation rows or if training continued an earlier fit. There is no warning about too
    few epochs with `patience=None`, or if training was stopped or shortened (`limited`).
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
        chosen, effort = "", ""
        if effort_of_epochs is not None:  # the user has not chosen the number of epochs
            chosen, effort = f", which effort={effort_of_epochs!r} implies,", "a higher effort, "
        yield (
            "training ended too early",
            f"training ended at max_epochs={settings.max_epochs}{chosen} while the validation loss was still falling, "
            f"for the networks that make up {share:.0%} of the prediction. Use {effort}a larger max_epochs or "
            "learning_rate, or patience=None to silence this warning",
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
    # As the learning rate falls to 0, the last steps are tiny, and the last epoch is often the best by a negligible
    # amount.
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
