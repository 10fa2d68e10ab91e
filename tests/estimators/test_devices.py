"""A fit or a search on several devices gives the model of one device."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tabgnm import FleetSearchCV
from tabgnm.estimators import effort, time_limits
from tests.estimators.examples import gnm, mlp, numbers
from tests.training.several_devices import spread_over

X, Y, _ = numbers(400)
# In float64: parts of a fleet are rounded in other ways, which float32 would amplify.
PACK: dict[str, Any] = {
    "n_candidates": 4,
    "n_folds": 3,
    "max_epochs": 12,
    "activation": "auto",
    "n_layers": "auto",
    "n_nodes": 60,
    "precision": "float64",
}


@pytest.mark.portable
@pytest.mark.parametrize("race_rows", [0, 10**6])
def test_a_pack_is_that_of_one_device(race_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for key, own in effort._EFFORTS.items():
        monkeypatch.setitem(effort._EFFORTS, key, replace(own, race_rows=race_rows))
    expected = gnm(**PACK).fit(X, Y)
    trained = spread_over(monkeypatch, "cpu:0", "cpu:1")
    model = gnm(**PACK).fit(X, Y)
    assert trained.devices == {"cpu:0", "cpu:1"}
    assert model.pack_["stopped_by_race"].any() == (race_rows == 0)
    for column in ("stopped_by_race", "networks", "epochs", "best_epoch"):
        assert model.pack_[column].tolist() == expected.pack_[column].tolist()
    assert model.pack_["weight"].tolist() == pytest.approx(expected.pack_["weight"].tolist())
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X), atol=1e-6)
    np.testing.assert_allclose(model.oof_prediction_, expected.oof_prediction_, atol=1e-6)


def test_a_search_is_that_of_one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def search() -> FleetSearchCV:
        grid = {"hidden": [(8,), (6,)], "learning_rate": [0.01, 0.001]}
        return FleetSearchCV(mlp(precision="float64"), grid, cv=3).fit(X, Y)

    expected = search()
    trained = spread_over(monkeypatch, "cpu:0", "cpu:1")
    found = search()
    assert trained.devices == {"cpu:0", "cpu:1"}
    for name in ("mean_test_score", "rank_test_score"):
        np.testing.assert_allclose(found.cv_results_[name], expected.cv_results_[name], atol=1e-6)
    np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), atol=1e-6)


@pytest.mark.filterwarnings("ignore:time_limit")  # which a slow machine may not keep for an epoch
def test_a_time_limit_ends_in_a_fitted_model_on_several_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    spread_over(monkeypatch, "cpu:0", "cpu:1")
    monkeypatch.setattr(time_limits, "_rows_per_second", lambda *_: 1e12)  # so that training does not end by itself
    model = gnm(**(PACK | {"max_epochs": 10**6, "time_limit": 1.0})).fit(X, Y)
    assert {own["status"] for own in model.history_} == {"interrupted"}
    assert model.pack_["weight"].sum() == pytest.approx(1) and np.isfinite(model.predict_proba(X)).all()


def test_a_time_limit_allows_for_more_on_more_devices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time_limits, "_rows_per_second", lambda *_: 1.0)
    settings = PACK | {"max_epochs": 1, "n_candidates": 40}
    # Ten candidates of 3 folds of 267 rows each, for 0.7 epochs.
    prepared = gnm(**settings)._prepare(X, Y)

    def n_candidates() -> int:
        deadline = time.monotonic() + 10.5 * 3 * 267 * 0.7 / 0.97
        return len(time_limits.reduced(prepared, deadline).candidates)

    assert n_candidates() == 10
    spread_over(monkeypatch, "cpu:0", "cpu:1", "cpu:2")
    assert n_candidates() == 31


def test_ctrl_c_leaves_a_fitted_estimator_on_several_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = spread_over(monkeypatch, "cpu:0", "cpu:1", ctrl_c_at=2)
    model = gnm(**(PACK | {"max_epochs": 10**6}))
    with pytest.raises(KeyboardInterrupt, match="best weights"):
        model.fit(X, Y)
    assert len(trained.devices) == 2
    assert model.history_[0]["status"] == "interrupted" and np.isfinite(model.predict_proba(X)).all()
