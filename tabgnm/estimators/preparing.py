"""Validate and encode the arguments of `fit`, and split their rows among the members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from tabgnm.estimators import fitting
from tabgnm.estimators.checks import check_lengths, in_range, sample_weights
from tabgnm.estimators.fitting import EncodedTables, FittedNetworks, MemberRows, PreparedRows
from tabgnm.estimators.fixed_parameters import check_unchanged
from tabgnm.table import match_columns, read_table

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator

Array = NDArray[Any]


def prepare_rows(
    estimator: TabularEstimator,
    X: Any,
    y: Any,
    sample_weight: Any,
    X_val: Any,
    y_val: Any,
    *,
    previous: FittedNetworks | None,
    classes: Any,
    one_epoch: bool,
    shared: EncodedTables,
) -> PreparedRows:
    """Read and encode a table and its targets, and choose the rows of each member."""
    raw = read_table(X)
    if previous is not None:
        check_unchanged(estimator)
        raw = estimator._matched(raw)
    targets_given = estimator._check_y(y, "y")
    check_lengths(raw.n_rows, targets_given)
    weights = sample_weights(sample_weight, raw.n_rows)
    streamed = None
    if one_epoch:
        streamed = (
            previous.targets if previous else estimator._make_targets(targets_given, None, classes, may_vary=True)
        )
    weights = estimator._row_weights(targets_given, weights, streamed)
    kept: Array | None = None
    if weights is not None:
        weights = in_range(weights)
        rows = np.flatnonzero(weights > 0)
        if len(rows) == 0:
            raise ValueError("the weights of all rows are zero; expected at least one positive weight")
        if len(rows) < raw.n_rows:
            classes = estimator._labels_of_all_rows(targets_given) if classes is None else classes
            kept, raw, targets_given, weights = rows, raw.take(rows), targets_given[rows], weights[rows]
    # A target that is constant in these rows may vary in later ones.
    may_vary = one_epoch or bool(estimator.warm_start) or y_val is not None
    if previous is None:
        targets = estimator._make_targets(targets_given, weights, classes, may_vary=may_vary)
    else:
        targets = estimator._with_own_loss(previous.targets)
        estimator._check_classes(targets, classes)

    seeds = previous.seeds if previous else estimator._seeds()
    n_rows, raw_val, val_targets = raw.n_rows, None, None
    if (X_val is None) != (y_val is None):
        given, missing = ("X_val", "y_val") if y_val is None else ("y_val", "X_val")
        raise ValueError(f"{given} was given without {missing}; pass both, or neither")
    if X_val is not None:
        raw_val = match_columns(read_table(X_val), raw.names, raw.has_names, type(estimator).__name__)
        val_targets = estimator._check_y(y_val, "y_val")
        check_lengths(raw_val.n_rows, val_targets, "X_val")
        if val_targets.shape[1:] != targets_given.shape[1:]:
            raise ValueError(
                f"y_val has shape {val_targets.shape} and y {targets_given.shape}; expected as many columns in both"
            )
        val_rows = torch.arange(n_rows, n_rows + raw_val.n_rows)
        members = [MemberRows(torch.arange(n_rows), val_rows) for _ in seeds]
    else:
        fraction = 0.0 if one_epoch else estimator.validation_fraction
        members = fitting.split_members(n_rows, targets.strata(targets_given), fraction, seeds)
    # Rows that no member trains on must not influence the encoding.
    is_trained_on = np.zeros(n_rows, dtype=bool)
    for member in members:
        is_trained_on[member.train.numpy()] = True
    trained_on = np.flatnonzero(is_trained_on)
    if len(trained_on) < n_rows and previous is None:
        own = None if weights is None else weights[trained_on]
        # Centre and scale of numbers are those of the training rows; labels are those of all rows.
        targets = estimator._make_targets(targets_given[trained_on], own, targets, may_vary=may_vary)
    number_type = torch.float64 if estimator.precision == "float64" else torch.float32
    dtype = np.float64 if number_type == torch.float64 else np.float32
    if previous is not None:
        encoder, x = previous.encoder, previous.encoder.encode(raw, dtype=dtype)
    else:
        fit_rows = None if len(trained_on) == n_rows else trained_on
        encoder, x = shared.encode(raw, kept, estimator._table_settings(raw.n_columns), fit_rows, dtype)
        if one_epoch and not any(column.encoded for column in encoder.columns):
            raise ValueError(
                f"no column varies in the {n_rows} rows of the first call of partial_fit, which fixes how columns "
                "are encoded; call it with more rows first, typical of those that follow"
            )
    numbers = targets.tensor(targets_given, number_type)
    if raw_val is not None:
        assert val_targets is not None
        x = np.concatenate([x, encoder.encode(raw_val, dtype=dtype)])
        numbers = torch.cat([numbers, targets.tensor(val_targets, number_type, "y_val")])
        weights = None if weights is None else np.concatenate([weights, np.ones(raw_val.n_rows)])
    return PreparedRows(
        encoder=encoder,
        targets=targets,
        table=shared.table(x, numbers),
        members=members,
        seeds=list(seeds),
        weights=None if weights is None else torch.as_tensor(weights),
        names=raw.names,
        has_names=raw.has_names,
        n_rows=n_rows,
    )
