"""Pruning: setting small weights of a fitted estimator to 0."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tabgnm.estimators.checks import check_number
from tabgnm.estimators.fitting import NetworkGroup
from tabgnm.nn.shapes import body_of

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator

    Estimator = TypeVar("Estimator", bound=TabularEstimator)

PAPER_THRESHOLD = 1e-3  # section 6.5


def pruned(estimator: Estimator, threshold: float, X: Any, y: Any) -> Estimator:
    """Return a copy of a fitted estimator without weights below a threshold; see `MachineMethods.prune`."""
    check_is_fitted(estimator, "fitted_")
    threshold = check_number("threshold", threshold, 0, np.inf, "0.001")
    if (X is None) != (y is None):
        raise ValueError(
            "X and y must be given together to score the estimator before and after pruning; pass both or neither"
        )
    fitted = estimator.fitted_
    groups = [_without_small(group, threshold) for group in fitted.groups]
    small = copy(estimator)
    small.fitted_ = replace(fitted, groups=groups, scores={}, residuals=[], n_left_out=0)
    small._oof_values = None
    small._forget_other_path()
    small.pruning_ = {
        "threshold": threshold,
        "n_edges_before": _count_edges(fitted.groups),
        "n_edges_after": _count_edges(groups),
    }
    if X is not None:
        small.pruning_ |= {"score_before": estimator.score(X, y), "score_after": small.score(X, y)}
    return small


def _edge_names(group: NetworkGroup) -> list[str]:
    shape = group.shape
    return body_of(shape).edge_parameters()


def _without_small(group: NetworkGroup, threshold: float) -> NetworkGroup:
    parameters = dict(group.parameters)
    for name in _edge_names(group):
        values = parameters[name]
        parameters[name] = values.where(values.abs() >= threshold, 0.0)
    return replace(group, parameters=parameters)


def _count_edges(groups: list[NetworkGroup]) -> int:
    return sum(int(group.parameters[name].count_nonzero()) for group in groups for name in _edge_names(group))
