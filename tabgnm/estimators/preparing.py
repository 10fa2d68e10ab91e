"""Validate the arguments of `fit`, and choose the folds of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from tabgnm.estimators import folds as folding
from tabgnm.estimators.checks import check_lengths, in_range, is_auto, random_numbers, sample_weights
from tabgnm.estimators.effort import SMALL_TABLE, effort_of
from tabgnm.estimators.fitting import (
    FittedPack,
    PreparedRows,
)
from tabgnm.estimators.fixed_parameters import check_unchanged
from tabgnm.estimators.folds import Fold
from tabgnm.estimators.metric_scores import check_metric_fits
from tabgnm.estimators.targets import Targets
from tabgnm.table import match_columns, read_table
from tabgnm.table.raw import RawTable

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator

Array = NDArray[Any]

# The number of networks in the first call of `partial_fit`, which has no folds, if n_folds is "auto".
_STREAMED_NETWORKS = 4


def prepare_rows(
    estimator: TabularEstimator,
    X: Any,
    y: Any,
    sample_weight: Any,
    groups: Any,
    X_val: Any,
    y_val: Any,
    *,
    previous: FittedPack | None,
    classes: Any,
    one_epoch: bool,
) -> PreparedRows:
    """Read a table and its targets, and choose the rows of each fold."""
    _check_arguments(estimator, groups, X_val, y_val)
    if previous is not None:
        check_unchanged(estimator)
    raw = read_table(X)
    if previous is not None:
        raw = estimator._matched(raw)
    targets_given = estimator._check_y(y, "y")
    check_lengths(raw.n_rows, targets_given)
    estimator._check_learnable(targets_given, "y", raw.source.row)
    weights = sample_weights(sample_weight, raw.n_rows)
    score_weights = None if weights is None else in_range(weights)
    streamed = None
    if one_epoch:
        streamed = (
            previous.targets if previous else estimator._make_targets(targets_given, None, classes, may_vary=True)
        )
    weights = estimator._row_weights(targets_given, weights, streamed)
    n_given, kept = raw.n_rows, None
    groups = None if groups is None else folding.group_numbers(groups, raw.n_rows)
    if weights is not None:
        weights = in_range(weights)
        rows = np.flatnonzero(weights > 0)
        if len(rows) == 0:
            raise ValueError("all rows have zero weight; expected at least one positive weight")
        if len(rows) < raw.n_rows:
            classes = estimator._labels_of_all_rows(targets_given) if classes is None else classes
            kept, raw, targets_given, weights = rows, raw.take(rows), targets_given[rows], weights[rows]
            score_weights = None if score_weights is None else score_weights[rows]
            groups = None if groups is None else groups[rows]
    # A target that is constant in these rows may vary in later ones.
    may_vary = one_epoch or bool(estimator.warm_start) or y_val is not None
    if previous is None:
        targets = estimator._make_targets(targets_given, weights, classes, may_vary=may_vary)
    else:
        targets = estimator._with_own_loss(previous.targets)
        estimator._check_classes(targets, classes)

    raw_val, val_targets = None, None
    if X_val is not None:
        raw_val = match_columns(read_table(X_val), raw.names, raw.has_names, type(estimator).__name__)
        val_targets = estimator._check_y(y_val, "y_val")
        check_lengths(raw_val.n_rows, val_targets, "X_val")
        estimator._check_learnable(val_targets, "y_val", raw_val.source.row)
        if val_targets.shape[1:] != targets_given.shape[1:]:
            raise ValueError(
                f"y_val has shape {val_targets.shape} and y has shape {targets_given.shape}; expected the same number "
                "of columns"
            )
        ones = np.ones(raw_val.n_rows)
        weights = None if weights is None else np.concatenate([weights, ones])
        score_weights = None if score_weights is None else np.concatenate([score_weights, ones])
    folds, seeds, units = _folds_and_seeds(
        estimator,
        raw,
        None if raw_val is None else raw_val.n_rows,
        targets,
        targets_given,
        groups,
        kept,
        n_given,
        previous=previous,
        one_epoch=one_epoch,
    )
    strata = targets.strata(targets_given)
    if strata is not None and val_targets is not None:
        strata = np.concatenate([strata, targets.strata(val_targets, "y_val")])
    folds = [_with_halves(fold, strata, units, seed) for fold, seed in zip(folds, seeds, strict=True)]
    trained_on = _trained_on(folds, raw.n_rows)
    if trained_on is not None and previous is None:
        own = None if weights is None else weights[trained_on]
        # Center and scale of numbers come from the training rows, labels from all rows.
        targets = estimator._make_targets(targets_given[trained_on], own, targets, may_vary=may_vary)
    if not is_auto(estimator.metric) and not one_epoch:
        all_logarithms = getattr(estimator, "target_transform", "none") == "log"
        check_metric_fits(estimator.metric, targets, targets_given, all_logarithms=all_logarithms)
    return PreparedRows(
        raw=raw,
        raw_val=raw_val,
        y=targets_given,
        y_val=val_targets,
        kept=kept,
        n_given=n_given,
        targets=targets,
        folds=folds,
        seeds=seeds,
        strata=strata,
        units=units,
        weights=weights,
        score_weights=score_weights,
        trained_on=trained_on,
        may_vary=may_vary,
    )


def _check_arguments(estimator: TabularEstimator, groups: Any, X_val: Any, y_val: Any) -> None:
    """Raise if arguments of `fit` cannot be combined."""
    if (X_val is None) != (y_val is None):
        given, missing = ("X_val", "y_val") if y_val is None else ("y_val", "X_val")
        raise ValueError(f"{given} was given without {missing}; pass both or neither")
    if X_val is not None and (groups is not None or estimator.cv is not None):
        name = "cv" if groups is None else "groups"
        raise ValueError(
            f"{name} and X_val cannot both be given, because X_val replaces the folds; pass only one of the two"
        )


def _with_halves(fold: Fold, strata: Array | None, units: Array | None, seed: int) -> Fold:
    """Return a fold whose validation rows are divided into halves."""
    if fold.val is None:
        return fold
    rows = fold.val.numpy()
    strata, units = (None if own is None else own[rows] for own in (strata, units))
    return replace(fold, val_halves=torch.from_numpy(folding.halves(strata, units, len(rows), seed)))


def _trained_on(folds: Sequence[Fold], n_rows: int) -> Array | None:
    """Return the training rows of any fold, or None for all; other rows must not influence the encoding."""
    is_trained_on = np.zeros(n_rows, dtype=bool)
    for fold in folds:
        is_trained_on[fold.train.numpy()] = True
    return None if is_trained_on.all() else np.flatnonzero(is_trained_on)


def _folds_and_seeds(
    estimator: TabularEstimator,
    raw: RawTable,
    n_val: int | None,
    targets: Targets,
    y: Array,
    groups: Any,
    kept: Array | None,
    n_given: int,
    *,
    previous: FittedPack | None,
    one_epoch: bool,
) -> tuple[list[Fold], list[int], Array | None]:
    """Choose the rows of each fold, the seeds of its networks, and the unit of each row, whose rows belong together."""
    n_rows = raw.n_rows
    effort = effort_of(estimator, n_rows)
    n_folds = effort.n_folds if is_auto(estimator.n_folds) else int(estimator.n_folds)
    if one_epoch:
        n_folds = _STREAMED_NETWORKS if is_auto(estimator.n_folds) else max(1, n_folds)
    n_folds_before = 0
    if previous is not None:
        n_folds_before = 1 + max(max(group.folds) for group in previous.groups)
        n_folds = n_folds_before if one_epoch else n_folds
    if groups is not None and estimator.cv is None and n_folds < 2:
        raise ValueError(f"groups cannot be used with n_folds={n_folds}; use n_folds>=2")
    random = random_numbers(estimator.random_state)

    def with_seeds(folds: list[Fold], units: Array | None = None) -> tuple[list[Fold], list[int], Array | None]:
        # Training may continue more networks than there are folds of these rows.
        folds = [folds[number % len(folds)] for number in range(max(len(folds), n_folds_before))]
        seeds = [first_seed, *random.randint(np.iinfo(np.int32).max, size=len(folds) - 1).tolist()]
        return folds, [int(seed) for seed in seeds], units

    first_seed = int(random.randint(np.iinfo(np.int32).max))
    if previous is not None:  # the same folds again, if the rows are the same
        first_seed = previous.fold_seed
    if one_epoch:
        return with_seeds(folding.without_validation(n_rows, n_folds))
    if n_val is not None:
        val = torch.arange(n_rows, n_rows + n_val)
        return with_seeds([Fold(torch.arange(n_rows), val) for _ in range(max(1, n_folds))])
    if estimator.cv is not None:
        own = folding.splitter_folds(estimator.cv, n_rows, y, groups, kept, n_given)
        return with_seeds(own, groups)
    if groups is not None:
        return with_seeds(folding.group_folds(n_rows, groups, n_folds, targets.strata(y), first_seed), groups)
    if n_folds == 0:
        return with_seeds(folding.without_validation(n_rows, 1))
    strata = targets.strata(y)
    copies = folding.find_copies(raw, y, estimator.column_kinds, strata)

    def divide(n_rows: int, strata: Array | None) -> list[Fold]:
        if n_folds == 1:
            return folding.hold_out(n_rows, strata, first_seed)
        n_repeats = 2 if n_rows < SMALL_TABLE and is_auto(estimator.n_folds) and estimator.effort != "fast" else 1
        repeated = [folding.k_folds(n_rows, strata, n_folds, first_seed, repeat) for repeat in range(n_repeats)]
        return [fold for own in repeated for fold in own]

    return with_seeds(folding.with_copies(n_rows, strata, copies, divide), copies)
