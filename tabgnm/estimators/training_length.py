"""Shorter training on a CPU if the first networks soon stopped improving.

On tables with much noise or many rows, the best epoch is one of the first. There, networks that are trained for a
quarter of the epochs, with a schedule of this length, are as accurate; `docs/recipe.md` has the figures.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tabgnm.estimators.checks import is_auto
from tabgnm.estimators.fitting import PreparedFit
from tabgnm.training import TrainedModel

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator

_log = logging.getLogger("tabgnm")

_SOON = 0.2  # if the best epochs of the first networks are within this fraction of the epochs on average, ...
_SHARE = 0.25  # ... the others are trained for this fraction of the epochs
_MIN_EPOCHS = 4


def depends_on_first(estimator: TabularEstimator, prepared: PreparedFit) -> bool:
    """Whether the number of epochs depends on the first networks."""
    return (
        prepared.effort.is_short
        and is_auto(estimator.max_epochs)
        and is_auto(estimator.patience)
        and prepared.rows.validated
        and prepared.previous is None
        and not prepared.spare  # otherwise, a time limit has already determined the epochs
    )


def reduced(prepared: PreparedFit, first: Iterable[TrainedModel]) -> PreparedFit:
    """Return the fit with fewer epochs, or unchanged if the first networks needed more."""
    n_epochs, best = prepared.candidates[0].fleet.max_epochs, [model.history.best_epoch for model in first]
    if not best or np.mean(best) > _SOON * n_epochs:
        return prepared
    fewer = min(n_epochs, max(_MIN_EPOCHS, round(_SHARE * n_epochs)))
    _log.info("the first networks were best after %.0f epochs; training the others for %d", np.mean(best), fewer)
    return replace(prepared, candidates=[own.with_epochs(fewer) for own in prepared.candidates])
