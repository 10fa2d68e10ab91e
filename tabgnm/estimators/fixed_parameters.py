"""Parameters that cannot change while training continues, because the weights depend on them."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from tabgnm._printable import shown
from tabgnm.estimators.parameter_roles import FREE_PARAMETERS

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator


def fixed_now(estimator: TabularEstimator) -> dict[str, Any]:
    """Return the parameters that cannot change from now on; mutable values are copied."""
    return {
        name: value if isinstance(value := getattr(estimator, name), _PLAIN) else _copied(value)
        for name in estimator._get_param_names()
        if name not in FREE_PARAMETERS
    }


_PLAIN = (str, int, float, tuple, type(None))  # nearly all values; a search comes here once per fit


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return copy(value) if isinstance(value, list | np.ndarray) else value


def changed_since(estimator: TabularEstimator) -> dict[str, Any]:
    """Return the parameters that have changed since training started, with their values at that time."""
    now = {name: getattr(estimator, name) for name in estimator._fixed}
    return {
        name: before
        for name, before in estimator._fixed.items()
        if now[name] is not before and not np.array_equal(now[name], before)
    }


def check_unchanged(estimator: TabularEstimator) -> None:
    """Raise if a parameter has changed that continued training would have to ignore."""
    for name, before in changed_since(estimator).items():
        raise ValueError(
            f"{name}={shown(getattr(estimator, name))} was {shown(before)} when training started, and the weights "
            "depend on it; restore the previous value, or call fit with warm_start=False to start again"
        )
