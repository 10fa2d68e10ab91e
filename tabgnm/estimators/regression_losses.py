"""The loss that the parameters of a regressor describe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tabgnm._printable import shown
from tabgnm.nn.losses import Huber, Loss, Pinball, Quantiles, Tweedie, loss_by_name, number_loss_names
from tabgnm.nn.losses.deviances import LARGEST_POWER, SMALLEST_POWER
from tabgnm.nn.losses.numbers import (
    LARGEST_DELTA,
    LARGEST_QUANTILE,
    SMALLEST_DELTA,
    SMALLEST_QUANTILE,
    ascending_quantiles,
    setting_within,
)
from tabgnm.nn.losses.registry import canonical_name


def regression_loss(loss: Any, quantile: Any, huber_delta: Any, tweedie_power: Any) -> Loss:
    """Return the loss with this name; all parameters are validated, including those of other losses."""
    is_list = isinstance(quantile, Sequence | np.ndarray) and not isinstance(quantile, str)
    if is_list:
        quantile = ascending_quantiles("quantile", quantile)
    else:
        setting_within("quantile", quantile, SMALLEST_QUANTILE, LARGEST_QUANTILE, "use 0.5 for the median")
    setting_within("huber_delta", huber_delta, SMALLEST_DELTA, LARGEST_DELTA, "use for instance 1.0")
    setting_within("tweedie_power", tweedie_power, SMALLEST_POWER, LARGEST_POWER, "use for instance 1.5")
    name, names = canonical_name(loss), number_loss_names()
    if name not in names:
        raise ValueError(f"loss={shown(loss)} is not a known name; use one of {', '.join(map(repr, names))}")
    if is_list and name != Pinball.name:
        raise ValueError(
            f"quantile={list(quantile)} was given with loss={shown(loss)}; several quantiles require loss='quantile'"
        )
    if not is_list and name != Pinball.name and quantile != Pinball().quantile:
        raise ValueError(
            f"quantile={shown(quantile)} was given with loss={shown(loss)}, which does not use it; use "
            f"loss='quantile', or the default quantile={Pinball().quantile!r}"
        )
    if is_list:
        return Quantiles(quantile)
    settings = {Pinball.name: quantile, Huber.name: huber_delta, Tweedie.name: tweedie_power}
    return loss_by_name(name, settings.get(name))
