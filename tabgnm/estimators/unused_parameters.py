"""A warning about parameters of an estimator that were set but are not used by `fit_sparse`."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tabgnm._printable import shown
from tabgnm.estimators.parameter_roles import LOSS_PARAMETERS

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator

# Parameters that `fit_sparse` uses. All others describe the networks of `fit`.
_USED = LOSS_PARAMETERS | {"scale_target", "column_kinds", "device", "n_jobs", "random_state"}


def warn_about_unused(estimator: TabularEstimator, of_small: Mapping[str, Any], stacklevel: int) -> None:
    """Warn if parameters were set that `fit_sparse` does not use.

    Parameters
    ----------
    estimator : estimator
        The estimator whose `fit_sparse` was called.
    of_small : mapping
        The parameters of the small machine. There is no warning about parameters that were set to these values.
    stacklevel : int
        As in `warnings.warn`, relative to the caller.
    """
    unused = {
        name: value
        for name, value in _set_parameters(estimator).items()
        if name not in _USED and not (name in of_small and _equal(value, of_small[name]))
    }
    if not unused:
        return
    listed = ", ".join(f"{name}={shown(value)}" for name, value in unused.items())
    arguments = [name for name in unused if name in inspect.signature(estimator.fit_sparse).parameters]
    instead = f"; pass {', '.join(arguments)} to fit_sparse instead" if arguments else ""
    warnings.warn(
        f"fit_sparse does not use parameters of {type(estimator).__name__} that are about the networks of fit: "
        f"{listed}{instead}",
        stacklevel=stacklevel + 1,
    )


def _set_parameters(estimator: TabularEstimator) -> dict[str, Any]:
    """Return the parameters that differ from the defaults, or from those of `.paper()` if these are fewer."""
    given = estimator.get_params(deep=False)
    presets = (type(estimator)(), type(estimator).paper())
    differences = [
        {name: value for name, value in given.items() if not _equal(value, getattr(preset, name))} for preset in presets
    ]
    return min(differences, key=len)


def _equal(value: Any, other: Any) -> bool:
    return value is other or np.array_equal(value, other)
