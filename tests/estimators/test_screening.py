"""Columns without a relation to the target are left out by a candidate, as its training rows tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from tabgnm.estimators import preparing_candidates
from tabgnm.estimators.screening import log_p_values, unrelated_columns
from tests.estimators.examples import gnm, gnmr, mlp, mlpr
from tests.estimators.test_narrowing import with_clock

SCREENED: dict[str, Any] = {"screen_columns": True, "numeric_embedding": None, "n_folds": 3}


def noisy(n_rows: int = 400, n_columns: int = 60, seed: int = 0) -> tuple[Any, Any]:
    """Return a table in which the first three columns matter: linearly, in the middle, and for the spread only."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, n_columns))
    return X, X[:, 0] + np.abs(X[:, 1]) + 2 * X[:, 2] * random.normal(size=n_rows)


def test_related_columns_stay_and_most_others_go() -> None:
    X, y = noisy(2000)
    gone = unrelated_columns(X, y[:, None])
    assert not set(gone) & {0, 1, 2} and len(gone) > 45
    gone = unrelated_columns(X, (y > y.mean()).astype(int))
    assert not set(gone) & {0, 1} and len(gone) > 45


def test_ten_columns_stay_even_if_nothing_is_related() -> None:
    random = np.random.default_rng(0)
    gone = unrelated_columns(random.normal(size=(300, 40)), random.normal(size=(300, 1)))
    assert len(gone) <= 30
    assert len(unrelated_columns(np.zeros((50, 12)), np.arange(50.0)[:, None])) == 2  # constants have no relation


@pytest.mark.parametrize(("make", "classifies"), [(gnm, True), (mlp, True), (gnmr, False), (mlpr, False)])
def test_a_network_ignores_the_columns_that_its_training_rows_do_not_support(make: Any, classifies: bool) -> None:
    X, y = noisy()
    y = (y > 0).astype(int) if classifies else y
    size = {"n_nodes": 80} if make in (gnm, gnmr) else {}
    model = make(**SCREENED, **size).fit(X, y)
    (group,) = model.fitted_.groups
    (candidate,) = make(**SCREENED, **size)._prepare(X, y).candidates
    assert candidate.left_out is not None
    encoded = model.encode(X)
    for position, (fold, network) in enumerate(zip(group.folds, model.members_, strict=True)):
        train = model._prepare(X, y).rows.folds[fold].train.numpy()
        targets = y[train] if classifies else ((y - group.targets.center) / group.targets.scale)[train][:, None]
        assert candidate.left_out[position].tolist() == unrelated_columns(encoded[train], targets).tolist()
        changed = encoded.copy()
        changed[:, candidate.left_out[position]] += 5.0
        with torch.no_grad():
            same = network(torch.as_tensor(encoded)), network(torch.as_tensor(changed))
        np.testing.assert_array_equal(*same)
    unused = np.flatnonzero(model.feature_importances_ == 0)
    assert set(unused) == set.intersection(*map(set, map(np.ndarray.tolist, candidate.left_out)))


@pytest.mark.parametrize("embedding", ["auto", None])
def test_only_tables_with_many_columns_have_such_a_candidate(embedding: str | None) -> None:
    for n_columns, n_screened in ((50, 0), (51, 1)):
        X, y = noisy(100, n_columns)
        candidates = mlpr(n_candidates=4, numeric_embedding=embedding)._prepare(X, y).candidates
        assert sum(own.settings["screen_columns"] for own in candidates) == n_screened


def test_levels_of_categories_count_as_columns() -> None:
    random = np.random.default_rng(0)
    letters = pd.DataFrame(random.choice(list("ABCD"), size=(600, 13)))  # 52 one-hot columns
    y = (letters[0] == "A").astype(int).to_numpy()
    for n_columns, n_screened in ((12, 0), (13, 1)):
        candidates = mlp(n_candidates=4)._prepare(letters.iloc[:, :n_columns], y).candidates
        assert sum(own.settings["screen_columns"] for own in candidates) == n_screened
    (candidate,) = (own for own in candidates if own.settings["screen_columns"])
    assert candidate.left_out is not None
    for own in candidate.left_out:
        assert not set(own) & {0, 1, 2, 3} and len(own) > 35


def test_continued_training_leaves_out_the_same_columns() -> None:
    X, y = noisy()
    model = mlpr(**SCREENED, warm_start=True).fit(X, y)
    before = model.feature_importances_ == 0
    assert before.any() and ((model.fit(X, y).feature_importances_ == 0) == before).all()
    assert ((model.partial_fit(X, y).feature_importances_ == 0) == before).all()


def test_machines_whose_inputs_stay_cannot_do_without_columns() -> None:
    X, y = noisy()
    with pytest.raises(ValueError, match="screen_columns=True cannot be combined with clamp_inputs=True"):
        gnmr(**SCREENED, n_nodes=80, clamp_inputs=True).fit(X, y)


def _stays(x: np.ndarray, y: np.ndarray, column: int, weights: np.ndarray | None = None) -> bool:
    return column not in unrelated_columns(x, y, weights)


def _noise(n_rows: int = 1000, n_columns: int = 100) -> tuple[np.random.Generator, np.ndarray]:
    random = np.random.default_rng(0)
    return random, random.normal(size=(n_rows, n_columns))


@pytest.mark.parametrize("sign", [1, -1])
def test_a_column_may_be_at_its_maximum_or_minimum_in_most_rows(sign: int) -> None:
    random, x = _noise()
    rare = random.random(1000) < 0.08
    x[:, 50] = sign * rare
    assert _stays(x, 5 * rare + random.normal(size=1000), 50)


@pytest.mark.parametrize("n_targets", [2, 30, 60])
def test_all_targets_and_all_classes_count(n_targets: int) -> None:
    random, x = _noise(2000)
    y = 0.5 * x[:, :n_targets] + random.normal(size=(2000, n_targets))
    unrelated = unrelated_columns(x, y)
    assert not set(range(n_targets)) & set(unrelated.tolist()) and len(unrelated) > 0.7 * (100 - n_targets)
    assert {40, 41} <= set(unrelated_columns(x, np.where(x[:, 7] > 1, 3, random.integers(0, 3, 2000))).tolist())
    classes = np.stack([random.integers(0, 40, 2000), random.integers(0, 3, 2000)], axis=1)
    x[:, 60] += 3 * (classes[:, 0] == 37)  # in no order, and rare
    assert _stays(x, classes, 60)


def test_the_order_of_rows_does_not_matter() -> None:
    _, x = _noise(24_000, 60)
    y = np.arange(24_000) % 2
    x[:, 30] += 0.3 * y
    assert _stays(x, y, 30)


def test_rows_count_by_their_weight() -> None:
    random, x = _noise()
    weights = np.where(random.random(1000) < 0.85, 1e-6, 1.0)
    y = np.where(weights == 1, 3 * x[:, 20], 100 * random.normal(size=1000))
    assert _stays(x, y, 20, weights) and not _stays(x, y, 20)
    np.testing.assert_array_equal(unrelated_columns(x, y, np.full(1000, 1e-200)), unrelated_columns(x, y))


def test_a_heavy_row_does_not_make_the_others_count_less() -> None:
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=(2000, 5)), np.ones(2000)
    y, weights[0] = 0.3 * x[:, 0] + rng.normal(size=2000), 20
    assert log_p_values(x, y, weights)[0] == pytest.approx(log_p_values(x, y)[0], rel=0.3)


def test_long_tails_do_not_hide_a_relation() -> None:
    random, x = _noise(300)
    assert _stays(x, np.exp(4 * (x[:, 10] + x[:, 20] + x[:, 30]) + random.normal(size=300)), 20)


@pytest.mark.parametrize("kind", ["two values", "two classes", "three classes", "multilabel", "numbers", "long tail"])
def test_about_the_same_fraction_of_unrelated_columns_stays_for_all_targets(kind: str) -> None:
    random, x = _noise(500, 6000)
    y: Any = {
        "two values": lambda: random.integers(0, 2, (500, 1)).astype(float),
        "two classes": lambda: random.integers(0, 2, 500),
        "three classes": lambda: random.integers(0, 3, 500),
        "multilabel": lambda: random.integers(0, 2, (500, 3)).astype(float),
        "numbers": lambda: random.normal(size=(500, 1)),
        "long tail": lambda: np.exp(2 * random.normal(size=(500, 1))),
    }[kind]()
    assert 0.015 < 1 - len(unrelated_columns(x, y)) / 6000 < 0.025  # 0.02, with a standard deviation of 0.002


def test_large_tables_are_screened_if_the_user_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = noisy()
    expected = mlpr(**SCREENED, n_candidates=1)._prepare(X, y).candidates[0].left_out
    assert expected is not None
    monkeypatch.setattr(preparing_candidates, "MAX_COPIED_NUMBERS", X.size - 1)
    (candidate,) = mlpr(**SCREENED, n_candidates=1)._prepare(X, y).candidates
    assert candidate.left_out is not None
    for own, other in zip(candidate.left_out, expected, strict=True):
        np.testing.assert_array_equal(own, other)
    assert not any(own.settings["screen_columns"] for own in mlpr(n_candidates=4)._prepare(X, y).candidates)


def test_weights_of_rows_reach_the_test() -> None:
    random, x = _noise(600, 60)
    heavy = random.random(600) < 0.3
    y = np.where(heavy, 3 * x[:, 20], 100 * random.normal(size=600))
    for weights, stays in ((np.where(heavy, 1.0, 1e-6), True), (None, False)):
        (candidate,) = mlpr(**SCREENED, n_candidates=1)._prepare(x, y, weights).candidates
        assert candidate.left_out is not None
        assert [20 not in own for own in candidate.left_out] == [stays] * 3


def test_a_time_limit_allows_fewer_folds_or_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = noisy()
    with_clock(monkeypatch, preparing_candidates, "unrelated_columns")
    for time_limit, n_folds in ((10, 2), (100, 3)):
        prepared = mlpr(**SCREENED, n_candidates=1, time_limit=time_limit)._prepare(X, y)
        assert len(prepared.candidates[0].members) == len(prepared.rows.folds) == n_folds
        assert [len(own.left_out or []) for own in prepared.candidates] == [n_folds]
        candidates = mlpr(n_candidates=4, n_folds=3, time_limit=time_limit)._prepare(X, y).candidates
        assert {len(own.members) for own in candidates} == {3}
        assert sum(own.settings["screen_columns"] for own in candidates) == (n_folds == 3)


def test_tables_of_embedded_categories_alone_have_nothing_to_screen() -> None:
    X = pd.DataFrame({"site": [f"s{number % 12}" for number in range(120)]})
    (candidate,) = mlpr(**SCREENED, n_candidates=1)._prepare(X, np.arange(120.0)).candidates
    assert [len(own) for own in candidate.left_out or []] == [0] * 3
