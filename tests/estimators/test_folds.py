"""Folds: which rows a network is trained on, and on which it is validated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import GroupKFold, KFold, TimeSeriesSplit

from tabgnm.estimators.folds import (
    Fold,
    group_folds,
    group_numbers,
    halves,
    hold_out,
    k_folds,
    splitter_folds,
    with_copies,
)
from tests.estimators.examples import mlp, mlpr, numbers

X, Y, T = numbers()
N = len(X)

seeds = st.integers(0, 2**31 - 1)
labels = st.lists(st.integers(0, 3), min_size=2, max_size=60).map(np.array)


def times_validated(folds: list[Fold], n_rows: int) -> np.ndarray:
    counts = np.zeros(n_rows, dtype=int)
    for fold in folds:
        if fold.val is not None:
            counts[fold.val.numpy()] += 1
    return counts


def prepared_folds(model: Any, y: Any = Y, **arguments: Any) -> list[Fold]:
    folds: list[Fold] = model._prepare(X, y, **arguments).rows.folds
    return folds


@given(n_rows=st.integers(2, 60), n_folds=st.integers(2, 9), seed=seeds)
def test_k_folds_validate_every_row_once_and_train_on_the_others(n_rows: int, n_folds: int, seed: int) -> None:
    folds = k_folds(n_rows, None, n_folds, seed)
    assert len(folds) == min(n_folds, n_rows)
    assert (times_validated(folds, n_rows) == 1).all()
    for fold in folds:
        assert fold.val is not None
        assert sorted([*fold.train.tolist(), *fold.val.tolist()]) == list(range(n_rows))
    sizes = [len(fold.val) for fold in folds if fold.val is not None]
    assert max(sizes) - min(sizes) <= 1


@given(strata=labels, n_folds=st.integers(2, 6), seed=seeds)
def test_strata_are_spread_evenly_and_those_of_one_row_are_never_validated(
    strata: Any, n_folds: int, seed: int
) -> None:
    folds = k_folds(len(strata), strata, n_folds, seed)
    sizes = np.bincount(strata)
    single = sizes[strata] == 1
    validated = times_validated(folds, len(strata))
    assert (validated[single] == 0).all()
    if folds[0].val is None:  # nothing can be validated
        assert single.all()
        return
    assert (validated[~single] == 1).all()
    for stratum in np.flatnonzero(sizes > 1):
        own = [int((strata[fold.val.numpy()] == stratum).sum()) for fold in folds if fold.val is not None]
        assert max(own) - min(own) <= 1


@given(strata=labels, n_rows=st.integers(1, 3), seed=seeds)
def test_halves_have_their_share_of_each_stratum_and_whole_units(strata: Any, n_rows: int, seed: int) -> None:
    units = np.arange(len(strata)).repeat(n_rows)
    is_second = halves(strata.repeat(n_rows), units, len(units), seed).reshape(-1, n_rows)
    assert (is_second == is_second[:, :1]).all()
    for stratum in np.unique(strata):
        own = is_second[strata == stratum, 0]
        assert abs(2 * own.sum() - len(own)) <= 1


def test_folds_of_copies_are_stratified_by_distinct_row() -> None:
    copies = np.random.default_rng(0).permutation(np.arange(60).repeat(2))
    is_rare = copies < 12
    for fold in with_copies(120, is_rare.astype(int), copies, lambda n, strata: k_folds(n, strata, 6, 0)):
        assert fold.val is not None
        assert is_rare[fold.val.numpy()].sum() == 4


def test_repeated_folds_divide_the_rows_in_other_ways() -> None:
    first, second = (k_folds(N, None, 4, 0, repeat) for repeat in (0, 1))
    assert (times_validated([*first, *second], N) == 2).all()
    vals = {tuple(fold.val.tolist()) for fold in [*first, *second] if fold.val is not None}
    assert len(vals) == 8


@given(strata=labels, seed=seeds)
def test_a_single_fold_holds_out_a_tenth_of_each_stratum_but_never_all_of_it(strata: Any, seed: int) -> None:
    (fold,) = hold_out(len(strata), strata, seed)
    if fold.val is None:
        assert (np.bincount(strata) <= 1).all()
        return
    drawn = np.bincount(strata[fold.val.numpy()], minlength=4)
    sizes = np.bincount(strata, minlength=4)
    assert drawn.sum() >= 1 and (drawn < np.maximum(sizes, 1)).all()
    assert (drawn <= np.maximum(1, np.ceil(sizes / 10))).all()


@given(groups=st.lists(st.sampled_from("abcdef"), min_size=2, max_size=50), n_folds=st.integers(2, 7))
def test_a_group_is_never_split_between_training_and_validation(groups: list[str], n_folds: int) -> None:
    codes = group_numbers(groups, len(groups))
    if len(set(groups)) == 1:
        with pytest.raises(ValueError, match="groups has only one distinct label"):
            group_folds(len(groups), codes, n_folds)
        return
    folds = group_folds(len(groups), codes, n_folds)
    assert len(folds) == min(n_folds, len(set(groups)))
    assert (times_validated(folds, len(groups)) == 1).all()
    for fold in folds:
        assert fold.val is not None
        assert not {groups[row] for row in fold.train.tolist()} & {groups[row] for row in fold.val.tolist()}


@given(
    groups=st.lists(st.sampled_from("abcdef"), min_size=2, max_size=50).filter(lambda own: len(set(own)) > 1),
    n_folds=st.integers(2, 7),
    seed=st.integers(0, 5),
)
def test_so_it_is_with_strata(groups: list[str], n_folds: int, seed: int) -> None:
    strata = np.random.default_rng(seed).integers(0, 3, len(groups))
    folds = group_folds(len(groups), group_numbers(groups, len(groups)), n_folds, strata, seed)
    assert len(folds) == min(n_folds, len(set(groups)))
    assert (times_validated(folds, len(groups)) == 1).all()
    for fold in folds:
        assert fold.val is not None
        assert not {groups[row] for row in fold.train.tolist()} & {groups[row] for row in fold.val.tolist()}


def test_rare_classes_are_spread_over_the_folds_of_groups() -> None:
    labels = np.repeat(np.arange(40), 10)
    y = (labels < 5).astype(int)
    for seed in range(3):
        folds = group_folds(400, labels, 5, y, seed)
        assert [int(y[fold.val.numpy()].sum()) for fold in folds if fold.val is not None] == [10] * 5


def test_fit_puts_groups_into_folds_also_where_rows_have_no_weight() -> None:
    groups = np.repeat(np.arange(12), N // 12)
    weights = (np.arange(N) % 3 > 0).astype(float)
    prepared = mlp(n_folds=3)._prepare(X, Y, weights, groups=groups)
    own = groups[weights > 0]
    for fold in prepared.rows.folds:
        assert not set(own[fold.train.numpy()]) & set(own[fold.val.numpy()])
    model = mlp(n_folds=3).fit(X, Y, weights, groups=groups)
    assert (np.isnan(model.oof_prediction_).all(axis=1) == (weights == 0)).all()


@pytest.mark.parametrize("cv", [KFold(3), TimeSeriesSplit(2), GroupKFold(4)], ids=repr)
def test_the_folds_of_a_splitter_are_used_the_largest_first(cv: Any) -> None:
    groups = np.arange(N) % 8 if isinstance(cv, GroupKFold) else None
    folds = prepared_folds(mlp(n_folds="auto", cv=cv), groups=groups)
    expected = sorted(cv.split(X, Y, groups), key=lambda split: -len(split[0]))
    for fold, (train, val) in zip(folds, expected, strict=True):
        assert fold.train.tolist() == train.tolist() and fold.val is not None and fold.val.tolist() == val.tolist()


def test_pairs_of_rows_are_positions_in_the_table_also_where_rows_have_no_weight() -> None:
    pairs = [(np.arange(60), np.arange(60, N)), (np.arange(60, N), np.arange(60))]
    weights = (np.arange(N) % 4 > 0).astype(float)
    kept = np.flatnonzero(weights)
    prepared = mlp(n_folds="auto", cv=pairs)._prepare(X, Y, weights)
    for fold, (train, val) in zip(prepared.rows.folds, pairs, strict=True):
        assert kept[fold.train.numpy()].tolist() == [row for row in train if weights[row]]
        assert kept[fold.val.numpy()].tolist() == [row for row in val if weights[row]]
    assert len(splitter_folds(iter(pairs), N, Y, None, None, N)) == 2  # any iterable


def test_rows_that_a_splitter_never_validates_have_no_out_of_fold_prediction() -> None:
    model = mlpr(n_folds="auto", cv=TimeSeriesSplit(2)).fit(X, T)
    assert np.isnan(model.oof_prediction_).tolist() == [True] * (N // 3) + [False] * (N - N // 3)


def test_rows_of_the_users_own_validate_all_networks() -> None:
    folds = prepared_folds(mlp(n_folds=3), X_val=X[:7], y_val=Y[:7])
    assert len(folds) == 3
    for fold in folds:
        assert fold.train.tolist() == list(range(N)) and fold.val is not None
        assert fold.val.tolist() == list(range(N, N + 7))
    assert mlp(n_folds=3).fit(X, Y, X_val=X[:7], y_val=Y[:7]).oof_prediction_.shape == (7, 2)


def test_without_folds_one_network_trains_on_all_rows() -> None:
    (fold,) = prepared_folds(mlp(n_folds=0))
    assert fold.val is None and fold.train.tolist() == list(range(N))


def test_folds_of_small_tables_are_drawn_twice_unless_their_number_is_given_or_effort_is_low() -> None:
    for changed, n_folds in (
        ({"n_folds": "auto"}, 10),
        ({"n_folds": "auto", "effort": "fast"}, 4),
        ({"n_folds": 5}, 5),
    ):
        assert len(prepared_folds(mlp(**changed))) == n_folds


@pytest.mark.parametrize("with_val", [False, True])
def test_training_continues_where_the_rows_have_fewer_folds_than_before(with_val: bool) -> None:
    X, Y, _ = numbers(600)
    model = mlp(n_folds="auto", warm_start=True, max_epochs=1).fit(X[:120], Y[:120])
    assert len(model.members_) == 10  # folds of small tables are drawn twice
    more = {"X_val": X[:50], "y_val": Y[:50]} if with_val else {}
    model.fit(X, Y, **more)
    assert len(model.members_) == 10 and np.isfinite(model.oof_prediction_).all()
    assert [len(history["val_loss"]) for history in model.history_] == [2] * 10


def test_rows_that_are_trained_and_validated_on_in_one_fold_are_refused() -> None:
    rows = np.arange(len(X))
    with pytest.raises(ValueError, match="that are both training and validation rows"):
        mlp(n_folds="auto", cv=[(rows, rows[:10])]).fit(X, Y)
