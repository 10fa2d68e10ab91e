"""Very wide tables: only columns that are related to the target become inputs of networks."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import threadpoolctl

import tabgnm
from tabgnm.estimators import narrowing, preparing_candidates
from tabgnm.estimators.narrowing import NARROWED_FROM
from tabgnm.estimators.screening import MAX_RELATED, sample_of_rows, unrelated_columns
from tests.estimators.examples import gnm, gnmr, mlp, mlpr

LEVELS = "abcdefghijkl"


def wide(n_rows: int = 160, n_columns: int = NARROWED_FROM + 50, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    """Return a table in which two numbers matter, and the last column is a category with an embedding."""
    random = np.random.default_rng(seed)
    X = pd.DataFrame(random.normal(size=(n_rows, n_columns)), columns=[f"g{i}" for i in range(n_columns)])
    X["site"] = random.choice(list(LEVELS), n_rows)
    return X, (X["g3"] - X["g5"] + 0.1 * random.normal(size=n_rows)).to_numpy()


@pytest.mark.parametrize(("make", "classifies"), [(gnm, True), (mlp, True), (gnmr, False), (mlpr, False)])
def test_only_related_columns_become_inputs(make: Any, classifies: bool) -> None:
    X, y = wide()
    y = (y > 0).astype(int) if classifies else y
    size = {"n_nodes": "auto"} if make in (gnm, gnmr) else {}
    model = make(n_folds=2, **size).fit(X, y)
    used = {name for name, column in zip(X, model.columns_, strict=True) if column.encoding}
    assert {"g3", "g5", "site"} <= used and len(used) < 100
    unused = [place for place, name in enumerate(X) if name not in used]
    assert {model.columns_[place].note for place in unused} == {"no measurable relation to the target: not used"}
    assert not model.feature_importances_[unused].any()
    changed = X.copy()
    for place in unused:
        changed.isetitem(place, np.nan)
    np.testing.assert_array_equal(model.predict(changed), model.predict(X))


def test_a_fold_without_rows_in_the_sample_keeps_all_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrowing, "_MAX_TESTED_NUMBERS", 1)
    monkeypatch.setattr(narrowing, "MIN_ROWS", 20)
    X, y = wide()
    few = np.setdiff1d(np.arange(len(X)), sample_of_rows(len(X), 20))[:10]
    model = mlpr(n_folds="auto", cv=[(few, np.setdiff1d(np.arange(len(X)), few))]).fit(X, y)
    assert all(column.encoding for column in model.columns_)


def test_a_network_has_only_columns_that_its_own_training_rows_relate_to_the_target() -> None:
    X, y = wide()
    prepared = mlpr(n_folds=4, n_candidates=3)._prepare(X, y)
    carried: list[set[int]] = []
    for candidate in prepared.candidates:
        assert candidate.settings["screen_columns"] and candidate.settings["numeric_embedding"] is None
        encoded = candidate.data.table.x.numpy()[:, :-1]
        targets = candidate.data.table.y.numpy()
        assert candidate.left_out is not None
        for fold, left_out in zip(prepared.rows.folds, candidate.left_out, strict=True):
            train = fold.train.numpy()
            assert left_out.tolist() == unrelated_columns(encoded[train], targets[train]).tolist()
            carried.append(set(range(encoded.shape[1])) - set(left_out.tolist()))
    assert len({tuple(sorted(own)) for own in carried}) > 1  # folds differ


def test_left_out_rows_have_no_influence_on_the_columns_of_a_network() -> None:
    """If they had, targets that are pure chance could be predicted out of fold: 1,500 columns offer many chances."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(120, 1500)), random.normal(size=120)
    settings: dict[str, Any] = {"n_folds": 4, "n_candidates": 1, "max_epochs": 60, "learning_rate": 0.01}
    honest = mlpr(**settings, screen_columns=True).fit(X, y).oof_score_
    assert honest < 0.03
    leaking = np.argsort(-np.abs(X.T @ (y - y.mean())))[:15]  # chosen with the left-out rows
    assert mlpr(**settings).fit(X[:, leaking], y).oof_score_ > honest + 0.1


def test_no_network_has_more_than_the_most_related_columns() -> None:
    random = np.random.default_rng(0)
    y = random.normal(size=400)
    X = y[:, None] + random.normal(size=(400, MAX_RELATED + 300))  # all are related
    (candidate,) = mlpr(n_folds=2, n_candidates=1)._prepare(X, y).candidates
    assert candidate.left_out is not None
    n_inputs = candidate.data.encoder.n_encoded
    assert [n_inputs - len(own) for own in candidate.left_out] == [MAX_RELATED] * 2


@pytest.mark.parametrize(
    "settings", [{"screen_columns": False}, {"clamp_inputs": True}, {"numeric_embedding": "periodic"}]
)
def test_settings_that_need_all_columns_get_all(settings: dict[str, Any]) -> None:
    X, y = wide(60)
    for candidate in gnmr(n_folds=2, n_candidates=1, n_nodes="auto", **settings)._prepare(X, y).candidates:
        assert not any("no measurable relation" in plan.note for plan in candidate.data.encoder.plans)


def test_tables_that_are_not_wider_keep_all_columns() -> None:
    X, y = wide(60, NARROWED_FROM)
    for candidate in mlpr(n_folds=2, n_candidates=2)._prepare(X, y).candidates:
        assert candidate.data.encoder.n_encoded == NARROWED_FROM + 1


def test_levels_of_one_hot_columns_stay_together() -> None:
    random = np.random.default_rng(0)
    letters = pd.DataFrame(random.choice(list("ABCD"), size=(200, 130)))  # 520 one-hot columns
    y = (letters[7] == "B").astype(int).to_numpy()
    model = mlp(n_folds=2, n_candidates=1).fit(letters, y)
    assert len(model.fitted_.groups[0].encoder.encoded_names) % 4 == 0
    assert model.columns_[7].encoding == "one-hot"


def test_files_and_continued_training_keep_the_columns(tmp_path: Path) -> None:
    X, y = wide()
    model = mlpr(n_folds=2, warm_start=True).fit(X, y)
    before = [column.encoding for column in model.columns_]
    model.save(tmp_path / "model.tabgnm")
    loaded: Any = tabgnm.load(tmp_path / "model.tabgnm")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert [column.encoding for column in loaded.columns_] == before
    assert [column.encoding for column in model.fit(X, y).columns_] == before
    assert [column.encoding for column in model.partial_fit(X, y).columns_] == before


def test_rows_without_folds_and_rows_of_x_val_are_possible() -> None:
    X, y = wide()
    assert mlpr(n_folds=0, max_epochs=1).fit(X, y).columns_[3].encoding
    assert mlpr(max_epochs=1).fit(X[:120], y[:120], X_val=X[120:], y_val=y[120:]).columns_[3].encoding


def test_weights_of_rows_count_in_the_choice_of_columns() -> None:
    random = np.random.default_rng(0)
    X, heavy = random.normal(size=(600, NARROWED_FROM + 50)), random.random(600) < 0.3
    y = np.where(heavy, 3 * X[:, 20] - 3 * X[:, 30], 100 * random.normal(size=600))
    for weights, is_related in ((np.where(heavy, 1.0, 1e-6), True), (None, False)):
        (candidate,) = mlpr(n_folds=2, n_candidates=1, screen_columns=True)._prepare(X, y, weights).candidates
        encoder = candidate.data.encoder
        assert [not encoder.plans[column].note for column in (20, 30)] == [is_related] * 2


def with_clock(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> None:
    """Let time pass only in a function of a module: one second per call."""
    now, test = [0.0], getattr(module, name)

    def slow(*args: Any) -> Any:
        now[0] += 1
        return test(*args)

    monkeypatch.setattr(module, name, slow)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))


@pytest.mark.parametrize(("time_limit", "n_folds"), [(1, 1), (15, 2), (60, 5), (None, 5)])
def test_with_a_time_limit_there_are_only_folds_with_tested_columns(
    monkeypatch: pytest.MonkeyPatch, time_limit: float | None, n_folds: int
) -> None:
    X, y = wide()
    with_clock(monkeypatch, narrowing, "log_p_values")
    prepared = mlpr(n_folds=5, n_candidates=1, time_limit=time_limit)._prepare(X, y)
    (candidate,) = prepared.candidates
    assert len(candidate.members) == len(prepared.rows.folds) == len(prepared.rows.seeds) == n_folds
    assert candidate.left_out is not None and len(candidate.left_out) == n_folds
    complete = mlpr(n_folds=5, n_candidates=1)._prepare(X, y)
    assert candidate.seeds == complete.candidates[0].seeds[:n_folds]


def test_a_fit_with_fewer_folds_than_asked_for_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = wide()
    with_clock(monkeypatch, narrowing, "log_p_values")
    model = mlpr(n_folds=5, n_candidates=1, time_limit=10, warm_start=True).fit(X, y)
    held_out = np.isfinite(model.oof_prediction_)
    assert held_out.sum() == len(X) / 5 and np.isfinite(model.oof_score_)
    assert len(model.members_) == 1 and np.isfinite(model.fit(X, y).predict(X)).all()


@pytest.mark.parametrize(("n_columns", "module"), [(NARROWED_FROM + 50, narrowing), (60, preparing_candidates)])
def test_columns_are_tested_on_one_thread(monkeypatch: pytest.MonkeyPatch, n_columns: int, module: Any) -> None:
    name, n_threads = {narrowing: "log_p_values", preparing_candidates: "unrelated_columns"}[module], []
    test = getattr(module, name)

    def watched(*args: Any) -> Any:
        n_threads.extend(own["num_threads"] for own in threadpoolctl.threadpool_info() if own["user_api"] == "blas")
        return test(*args)

    monkeypatch.setattr(module, name, watched)
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        mlpr(n_folds=2, n_candidates=1, screen_columns=True)._prepare(*wide(100, n_columns))
    assert set(n_threads) == {1}


def signs(n_columns: int, n_rows: int = 200) -> tuple[Any, Any]:
    """Return columns of which two matter, but only together."""
    X = np.random.default_rng(0).choice([-1.0, 1.0], size=(n_rows, n_columns))
    return X, (X[:, 0] * X[:, 1] > 0).astype(int)


@pytest.mark.parametrize("make", [mlp, gnm])
def test_all_columns_stay_if_the_test_finds_no_more_than_chance(make: Any) -> None:
    size = {"n_nodes": "auto"} if make is gnm else {}
    X, y = signs(NARROWED_FROM + 50)
    first, *_ = make(n_folds=3, n_candidates=2, **size)._prepare(X, y).candidates
    assert not first.settings["screen_columns"] and first.data.encoder.n_encoded == X.shape[1]
    y = np.where(X[:, 5] > 0, y, 1)  # one column is related on its own
    for candidate in make(n_folds=3, n_candidates=2, **size)._prepare(X, y).candidates:
        assert candidate.settings["screen_columns"] and candidate.data.encoder.n_encoded < 100


@pytest.mark.parametrize(("make", "n_columns"), [(mlp, 2_001), (gnm, 1_001)])
def test_a_warning_tells_that_the_columns_of_a_too_wide_table_are_chosen_by_chance(make: Any, n_columns: int) -> None:
    size = {"n_nodes": "auto"} if make is gnm else {}
    X, y = signs(n_columns)
    with pytest.warns(UserWarning, match="no more of them are related .* Use screen_columns=False") as caught:
        first, *_ = make(n_folds=3, n_candidates=2, **size)._prepare(X, y).candidates
    assert len(caught) == 1 and first.data.encoder.n_encoded < 200
    (first,) = make(n_folds=3, n_candidates=1, screen_columns=True, **size)._prepare(X, y).candidates  # as asked for
    assert first.settings["screen_columns"] and first.data.encoder.n_encoded < 200


def test_tables_with_many_numbers_do_not_keep_all_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = signs(NARROWED_FROM + 50)
    monkeypatch.setattr(narrowing, "_MAX_TESTED_NUMBERS", X.size - 1)
    with pytest.warns(UserWarning, match="Use screen_columns=False"):
        mlp(n_folds=2, n_candidates=1)._prepare(X, y)
