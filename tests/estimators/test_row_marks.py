"""The rows of a fit are recognized by their marks."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tabgnm.estimators.base import TabularEstimator
from tabgnm.report.training_rows import out_of_fold
from tabgnm.table import read_table
from tests.estimators.examples import gnm, gnmr, mlp, mlpr, numbers

X, LABELS, TARGET = numbers()
WEIGHTS = np.random.default_rng(0).random(len(X)) + 0.1


def recognized(model: TabularEstimator, rows: Any, y: Any) -> bool:
    """Whether a report uses out-of-fold predictions of these rows."""
    return out_of_fold(model, model._matched(read_table(rows)), model._check_y(y, "y")) is not None


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (mlp(), LABELS),
        (mlp(class_weight="balanced"), np.where(LABELS, "yes", "no")),
        (mlp(), np.column_stack([LABELS, 1 - LABELS])),
        (mlpr(), TARGET),
        (mlpr(scale_target=False), TARGET),
        (mlpr(), np.column_stack([TARGET, 1e9 * TARGET])),
        (gnmr(loss="quantile", quantile=[0.1, 0.9]), TARGET),
        (gnmr(loss="gamma"), np.exp(X[:, 0])),
    ],
)
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_the_rows_of_a_fit_are_recognized_with_and_without_weights(model: Any, y: Any, weights: Any) -> None:
    model.fit(X, y, sample_weight=weights)
    assert recognized(model, X, y)
    assert recognized(pickle.loads(pickle.dumps(model)), X, y)
    assert not recognized(model, X, y[::-1])
    assert not recognized(model, X[::-1], y)
    assert not recognized(model, X[:-1], y[:-1])
    assert not recognized(model, np.concatenate([X, X]), np.concatenate([y, y]))


def test_labels_that_were_not_in_fit_are_other_targets() -> None:
    model = mlp().fit(X, LABELS)
    assert not recognized(model, X, np.where(LABELS, 2, 0))
    assert not recognized(model, X, np.where(LABELS, "yes", "no"))


def test_rows_of_weight_0_do_not_shift_the_others() -> None:
    weights = np.ones(len(X))
    weights[:7] = 0
    model = mlpr().fit(X, TARGET, sample_weight=weights)
    assert recognized(model, X, TARGET)
    assert not recognized(model, np.roll(X, -7, axis=0), np.roll(TARGET, -7))
    changed, other = X.copy(), TARGET.copy()
    changed[:7], other[:7] = 0, 0  # they do not have out-of-fold predictions
    assert recognized(model, changed, other)


def test_with_validation_rows_these_are_the_rows_with_predictions() -> None:
    val, _, val_target = numbers(seed=1)
    model = mlpr().fit(X, TARGET, X_val=val, y_val=val_target)
    assert len(model.oof_prediction_) == len(val) == len(X)
    assert recognized(model, val, val_target)
    assert not recognized(model, X, TARGET)
    weights = np.arange(len(X)) % 2
    model.fit(X, TARGET, weights, X_val=val, y_val=val_target)  # the weights are those of other rows
    assert recognized(model, val, val_target)


def test_large_numbers_of_a_column_do_not_hide_changes_of_others() -> None:
    wide = np.column_stack([X, 1e9 + X[:, 0]])
    model = gnm(scaling="none", numeric_embedding=None).fit(wide, LABELS)
    assert recognized(model, wide, LABELS)
    wide[:, 1] = wide[::-1, 1]
    assert not recognized(model, wide, LABELS)


def test_a_warning_of_unknown_levels_is_issued_once() -> None:
    table = pd.DataFrame({"size": X[:, 0], "color": np.tile(["red", "blue", "green"], 40)})
    other = table.assign(color=np.tile(["rot", "blau", "lila"], 40))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = mlpr().fit(table, TARGET, X_val=other, y_val=TARGET)
        assert recognized(model, other, TARGET)
    assert sum("no level that occurred in fit" in str(warning.message) for warning in caught) == 1


def test_no_warning_is_about_the_levels_of_marked_rows_alone() -> None:
    n_rows = 3000
    marked = np.linspace(0, n_rows - 1, 512).round().astype(int)
    levels = np.full(n_rows, None, dtype=object)
    levels[marked[:60]] = [f"rare {place}" for place in range(60)]
    others = np.setdiff1d(np.arange(n_rows), marked)
    levels[others[:300]] = np.tile(["common", "usual"], 150)
    large, labels, _ = numbers(n_rows)
    table = pd.DataFrame({"size": large[:, 0], "level": levels})
    model = mlp(column_kinds={"level": "category"}).fit(table, labels)  # warnings are errors
    assert recognized(model, table, labels)
