"""Parameters that weights, once there, were made for: going on with others would have to ignore them."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from tabgnm.estimators.parameters import FREE_PARAMETERS

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator


def fixed_now(estimator: TabularEstimator) -> dict[str, Any]:
    """Return the values that training fixes, so that changing a dict or a list in place is noticed later."""
    return {
        name: value if isinstance(value := getattr(estimator, name), _PLAIN) else _own(value)
        for name in estimator._get_param_names()
        if name not in FREE_PARAMETERS
    }


_PLAIN = (str, int, float, tuple, type(None))  # nearly all values: a search looks at them once for each fit


def _own(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return copy(value) if isinstance(value, list | np.ndarray) else value


def changed_since(estimator: TabularEstimator) -> dict[str, Any]:
    """Return the parameters that were changed since training fixed them, with the values they had then."""
    now = {name: getattr(estimator, name) for name in estimator._fixed}
    return {
        name: before
        for name, before in estimator._fixed.items()
        if now[name] is not before and not np.array_equal(now[name], before)
    }


def check_unchanged(estimator: TabularEstimator) -> None:
    """Raise where a parameter was changed that going on from the weights there are would have to ignore."""
    for name, before in changed_since(estimator).items():
        raise ValueError(
            f"{name}={getattr(estimator, name)!r} was {before!r} when training began, and the weights there are were "
            "made for that; set it back, or begin anew: fit with warm_start=False"
        )
