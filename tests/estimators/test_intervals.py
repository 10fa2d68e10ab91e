"""Prediction intervals: errors of left-out rows around the predictions of their folds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tabgnm.estimators.intervals import cv_plus
from tests.estimators.examples import LEARNS, mlpr, numbers

X, _, T = numbers()
N = len(X)

centers_and_residuals = st.lists(
    st.tuples(
        arrays(np.float64, 3, elements=st.floats(-100, 100, width=32)),
        st.lists(st.floats(0, 50, width=32), min_size=1, max_size=12).map(lambda own: np.sort(np.array(own))),
    ),
    min_size=1,
    max_size=5,
)
coverages = st.floats(0.05, 0.99)


def brute_force_quantile(values: Any, shares: Any, level: float) -> float:
    """Return the smallest value up to which the shares sum to the level."""
    order = np.argsort(values, kind="stable")
    enough = np.cumsum(shares[order]) >= level
    return float(values[order][np.argmax(enough)]) if enough.any() else float(values.max())


@given(folds=centers_and_residuals, coverage=coverages)
def test_ends_are_quantiles_of_prediction_and_error_over_all_left_out_rows(folds: Any, coverage: float) -> None:
    centers, residuals = np.stack([center for center, _ in folds]), [own for _, own in folds]
    n_errors = sum(map(len, residuals))
    level = np.ceil(coverage * (n_errors + 1)) / n_errors
    if level > 1:
        with pytest.raises(ValueError, match="or more rows or folds"):
            cv_plus(centers, residuals, coverage, n_errors)
        return
    found = cv_plus(centers, residuals, coverage, n_errors)
    assert found.shape == (3, 2)
    shares = np.concatenate([np.full(len(own), 1 / len(own) / len(residuals)) for own in residuals])
    for row in range(3):
        above = np.concatenate([center[row] + own for center, own in folds])
        below = np.concatenate([-center[row] + own for center, own in folds])
        # Sums of shares are rounded: where one hits the level, either neighbour is right.
        ends = [[brute_force_quantile(own, shares, level + by) for by in (-1e-9, 1e-9)] for own in (below, above)]
        if -ends[0][0] > ends[1][0]:  # nothing lies between the ends
            assert found[row, 0] == pytest.approx(found[row, 1], abs=1e-6)
            continue
        for end, (low, high) in zip((-found[row, 0], found[row, 1]), ends, strict=True):
            assert low - 1e-6 <= end <= high + 1e-6


@given(folds=centers_and_residuals, coverage=coverages, more=coverages)
def test_more_coverage_needs_wider_intervals(folds: Any, coverage: float, more: float) -> None:
    centers, residuals = np.stack([center for center, _ in folds]), [own for _, own in folds]
    narrow, wide = (cv_plus(centers, residuals, own, 1000) for own in sorted((coverage, more)))
    assert (np.diff(wide, axis=1) >= np.diff(narrow, axis=1) - 1e-6).all()


@given(residuals=st.lists(st.floats(0, 50, width=32), min_size=1, max_size=30), coverage=coverages)
def test_with_one_fold_the_interval_is_the_prediction_and_a_quantile_of_the_errors(
    residuals: list[float], coverage: float
) -> None:
    errors = np.sort(np.array(residuals))
    rank = int(np.ceil(coverage * (len(errors) + 1)))
    if rank > len(errors):
        return  # too few errors for this coverage
    (ends,) = cv_plus(np.array([[7.0]]), [errors], coverage, len(errors))
    np.testing.assert_allclose(ends, [7 - errors[rank - 1], 7 + errors[rank - 1]], atol=1e-6)


def generated(n_rows: int, seed: int) -> tuple[Any, Any]:
    """Return rows whose noise is larger on one side."""
    random = np.random.default_rng(seed)
    X = random.uniform(-1, 1, size=(n_rows, 2))
    return X, 3 * X[:, 0] + random.normal(size=n_rows) * (0.5 + 0.3 * (X[:, 1] > 0))


@pytest.mark.parametrize("n_folds", [1, 4])
def test_intervals_cover_their_share_of_new_rows(n_folds: int) -> None:
    model = mlpr(n_folds=n_folds, **LEARNS).fit(*generated(600, seed=0))
    X_new, y_new = generated(1000, seed=1)
    for coverage in (0.5, 0.8, 0.95):
        low, high = model.predict_interval(X_new, coverage).T
        assert abs(((low <= y_new) & (y_new <= high)).mean() - coverage) < (0.15 if n_folds == 1 else 0.08)
        inside = (low <= model.predict(X_new)) & (model.predict(X_new) <= high)
        assert inside.all()


def test_the_default_covers_nine_tenths() -> None:
    model = mlpr().fit(X, T)
    assert (model.predict_interval(X) == model.predict_interval(X, coverage=0.9)).all()


def test_an_interval_is_that_of_the_networks_of_each_fold_and_their_errors() -> None:
    model = mlpr(n_folds=3).fit(X, T)
    (group,) = model.fitted_.groups
    encoded = torch.as_tensor(model.encode(X)).double()
    with torch.no_grad():
        centers = np.stack([group.targets.numbers(net.double().eval()(encoded))[:, 0] for net in model.members_])
    folds = mlpr(n_folds=3)._prepare(X, T).rows.folds
    errors = [np.sort(np.abs(model.oof_prediction_ - T)[fold.val.numpy()]) for fold in folds]
    for own, expected in zip(model.fitted_.residuals, errors, strict=True):
        np.testing.assert_allclose(own[:, 0], expected)
    np.testing.assert_allclose(model.predict_interval(X, 0.8), cv_plus(centers, errors, 0.8, N), atol=1e-6)


def test_several_targets_have_an_interval_each() -> None:
    y = np.column_stack([T, 1000 * T])
    model = mlpr(n_candidates=2).fit(X, y)
    ends = model.predict_interval(X)
    assert ends.shape == (N, 2, 2) and (ends[..., 0] < ends[..., 1]).all()
    widths = np.ptp(ends, axis=2).mean(axis=0)
    assert 100 < widths[1] / widths[0] < 10_000
    assert mlpr().fit(X, T[:, None]).predict_interval(X).shape == (N, 1, 2)


@pytest.mark.parametrize(
    "changed",
    [{"n_candidates": 3}, {"n_folds": "auto"}, {"target_transform": "log"}, {"loss": "huber"}],
    ids=lambda changed: next(iter(changed)),
)
def test_intervals_of_every_kind_of_pack_are_finite_and_in_order(changed: dict[str, Any]) -> None:
    ends = mlpr(**changed).fit(X, np.exp(T / 40)).predict_interval(X)
    assert ends.shape == (N, 2) and np.isfinite(ends).all() and (ends[:, 0] < ends[:, 1]).all()


def test_errors_of_rows_of_the_users_own_count_as_well() -> None:
    X_val, _, y_val = numbers(50, seed=1)
    narrow = mlpr().fit(X, T, X_val=X_val, y_val=y_val)
    wide = mlpr().fit(X, T, X_val=X_val, y_val=y_val + np.tile([-500, 500], 25))
    assert np.ptp(wide.predict_interval(X), axis=1).min() > np.ptp(narrow.predict_interval(X), axis=1).max()


def test_many_errors_are_kept_as_quantiles_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    all_errors = mlpr().fit(X, T).fitted_.residuals
    monkeypatch.setattr("tabgnm.estimators.out_of_fold._MAX_RESIDUALS", 11)
    few = mlpr().fit(X, T)
    for kept, own in zip(few.fitted_.residuals, all_errors, strict=True):
        assert kept.shape == (11, 1) and (np.diff(kept[:, 0]) >= 0).all() and np.isin(kept, own).all()
        assert kept[0] == own[0] and kept[-1] == own[-1]
    assert few.predict_interval(X).shape == (N, 2)
