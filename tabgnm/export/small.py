"""The decision which estimators are exported unit by unit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabgnm.estimators.number_targets import NumberTargets

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator

MAX_EDGES = 5_000


def is_small(estimator: TabularEstimator) -> bool:
    """Whether a fitted estimator is one network with few edges and no embedding, such as the result of `distill`.

    Such a network is exported unit by unit, without edges of weight 0; all others are exported as matrices.
    """
    fitted = estimator.fitted_
    group = fitted.groups[0]
    if fitted.n_networks > 1 or group.shape.embedding is not None or group.shape.combine == "gated":
        return False
    if isinstance(group.targets, NumberTargets) and group.targets.transform != "none":
        return False
    times = group.shape.n_layers if group.shape.tied else 1
    return times * sum(int(value.count_nonzero()) for value in group.parameters.values()) <= MAX_EDGES
