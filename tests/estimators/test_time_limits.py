"""Time limits of a fit: how it is reduced to them, and that they are used and kept."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tabgnm.estimators import pack, time_limits
from tabgnm.estimators.fitting import PreparedFit
from tabgnm.training import Callback, EpochReport
from tabgnm.training.concurrent_fleets import Interrupted
from tests.estimators.examples import mlp, mlpr, numbers

X, Y, T = numbers()
N = len(X)
SEVERAL: dict[str, Any] = {"n_candidates": 3, "max_epochs": 4}


@pytest.mark.filterwarnings("ignore:time_limit")  # which a slow machine may not keep for an epoch
@pytest.mark.parametrize("time_limit", [1e-6, 0.3])
def test_a_time_limit_ends_in_a_fitted_model(time_limit: float) -> None:
    model = mlp(n_candidates=4, n_folds=4, max_epochs=1000, patience=None, time_limit=time_limit).fit(X, Y)
    assert 1 <= len(model.pack_) <= 4 and model.predict(X).shape == (N,)
    assert model.oof_scores_["accuracy"] >= 0


def test_a_long_time_limit_changes_nothing() -> None:
    plain, limited = (mlpr(**SEVERAL, time_limit=limit).fit(X, T) for limit in (None, 1e6))
    np.testing.assert_allclose(limited.predict(X), plain.predict(X), rtol=1e-6)


def test_a_time_limit_too_short_for_an_epoch_is_warned_about(monkeypatch: pytest.MonkeyPatch) -> None:
    run_fleets = pack.FleetPlan.run_fleets

    def ended(plan: Any, **arguments: Any) -> Any:
        if arguments.get("deadline") is None:  # the measurement of the speed
            yield from run_fleets(plan, **arguments)
            return
        for fleet in plan.fleets:
            yield fleet, plan._fleet_of(fleet)[0].untrained().models
        raise Interrupted(at_deadline=True)

    monkeypatch.setattr(pack.FleetPlan, "run_fleets", ended)
    with pytest.warns(UserWarning, match=r"time_limit=5 stopped training before the end of the first epoch"):
        mlp(time_limit=5).fit(X, Y)


def test_ctrl_c_while_the_speed_is_measured_ends_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    class Signal(Callback):
        def on_epoch_end(self, report: EpochReport) -> None:  # noqa: ARG002 - the hook's signature
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(time_limits, "_Clock", lambda _: Signal())
    with pytest.raises(KeyboardInterrupt, match="before training began"):
        mlp(time_limit=60).fit(X, Y)


SHORT = {"n_candidates": 2, "n_folds": 4, "learning_rate": "auto", "max_epochs": 100, "time_limit": 6}


def slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the time limit of `SHORT` seem to be enough for some 60 epochs of one network."""
    monkeypatch.setattr(time_limits, "_rows_per_second", lambda *_: 10.0 * N)


def test_a_short_time_limit_trains_the_best_of_the_candidates_that_it_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    slow_machine(monkeypatch)
    losses_of = pack.OutOfFold.losses
    found = []

    def losses(self: Any, predictions: Any) -> Any:
        found.append(losses_of(self, predictions))
        return found[-1]

    monkeypatch.setattr(pack.OutOfFold, "losses", losses)
    monkeypatch.setattr(time_limits, "rest_in_time_left", lambda *_: [])
    tried = mlp(**SHORT).fit(X, Y).pack_
    best = int(np.argmin(found[0]))
    assert len(found[0]) == 2 and tried["networks"].tolist() == [4 if i == best else 1 for i in range(2)]
    assert tried["weight"].tolist() == [float(i == best) for i in range(2)]
    assert tried["stopped_by_race"].tolist() == [i != best for i in range(2)]
    assert tried["epochs"][1 - best] <= 12  # a third of the time, for two candidates


def test_with_time_for_about_as_much_as_fast_two_candidates_are_trained_on_its_folds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time_limits, "_rows_per_second", lambda *_: 1.05 * N)  # 690 epochs of one network in 10 minutes
    monkeypatch.setattr(time_limits, "rest_in_time_left", lambda *_: [])
    few = mlp(**(SHORT | {"n_candidates": 3, "n_folds": 5, "time_limit": 600})).fit(X, Y).pack_
    assert few["networks"].tolist() == [4, 4] and few["epochs"].max() < 100


def test_the_rest_of_a_time_limit_is_used_for_more_folds_and_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limits, "_rows_per_second", lambda *_: 0.5 * N)  # 30 epochs of one network in a minute
    monkeypatch.setattr(time_limits, "after_trial", lambda prepared, *_: replace(prepared, first_folds=2))
    rounds, rest = [], time_limits.rest_in_time_left
    monkeypatch.setattr(time_limits, "rest_in_time_left", lambda *given: rounds.append(rest(*given)) or rounds[-1])
    tried = mlp(**(SHORT | {"time_limit": 60, "max_epochs": 10})).fit(X, Y).pack_
    assert tried["networks"].tolist() == [4, 4] and not tried["stopped_by_race"].any()
    assert [len(own) for own in rounds] == [2, 4, 0]


def test_a_candidate_that_was_left_out_for_its_time_is_trained_if_there_is_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def half(prepared: PreparedFit, _deadline: float) -> PreparedFit:
        return replace(prepared, candidates=prepared.candidates[:2], spare=tuple(prepared.candidates[2:]))

    monkeypatch.setattr(time_limits, "reduced", half)
    assert mlp(**(SEVERAL | {"n_candidates": 4}), time_limit=60).fit(X, Y).pack_["networks"].tolist() == [2] * 4
    monkeypatch.setattr(time_limits, "_SHARE_OF_PLAN", 0.0)
    assert mlp(**(SEVERAL | {"n_candidates": 4}), time_limit=60).fit(X, Y).pack_["networks"].tolist() == [2] * 2


def test_the_speed_is_measured_by_epochs_of_the_same_models(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, times = time_limits._Clock([100, 100, 100]), iter([0.0, 1.0, 1.5, 2.0, 4.0])
    monkeypatch.setattr(time_limits.time, "monotonic", lambda: next(times))
    for epoch, models in [(1, [0, 1]), (2, [0, 1]), (1, [2]), (2, [2]), (3, [2])]:
        clock.on_epoch_end(EpochReport(epoch, models, [], []))
    assert clock.rows_per_second == pytest.approx(200.0) and clock.n_rows_done == 700


def test_the_time_left_after_a_trial_limits_epochs_by_what_the_trial_took(monkeypatch: pytest.MonkeyPatch) -> None:
    slow_machine(monkeypatch)
    after_trial = time_limits.after_trial
    monkeypatch.setattr(
        time_limits, "after_trial", lambda prepared, number, _, deadline: after_trial(prepared, number, 0.2, deadline)
    )
    tried = mlp(**SHORT).fit(X, Y).pack_
    assert 1 <= tried["epochs"][tried["weight"] == 1].item() <= 6 * 1.1 / (0.2 * 2)


def test_a_trial_that_is_interrupted_leaves_a_usable_model(monkeypatch: pytest.MonkeyPatch) -> None:
    slow_machine(monkeypatch)
    run_fleets = pack.FleetPlan.run_fleets

    def interrupted(plan: Any, **arguments: Any) -> Any:
        yield from run_fleets(plan, **arguments)
        raise Interrupted(at_deadline=True)

    monkeypatch.setattr(pack.FleetPlan, "run_fleets", interrupted)
    model = mlp(**SHORT).fit(X, Y)
    assert model.pack_["networks"].tolist() == [1, 1] and model.pack_["weight"].sum() == pytest.approx(1)


def test_a_network_that_did_not_complete_an_epoch_does_not_replace_that_of_the_trial(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow_machine(monkeypatch)
    run_fleets, n_plans = pack.FleetPlan.run_fleets, [0]

    def stopped(plan: Any, **arguments: Any) -> Any:
        n_plans[0] += 1
        if n_plans[0] == 1:
            yield from run_fleets(plan, **arguments)
            return
        for fleet in plan.fleets:
            yield fleet, plan._fleet_of(fleet)[0].untrained().models
        raise Interrupted(at_deadline=True)

    monkeypatch.setattr(pack.FleetPlan, "run_fleets", stopped)
    model = mlp(**SHORT).fit(X, Y)
    assert model.pack_["weight"].sum() == pytest.approx(1)
    assert all(own["best_epoch"] >= 1 for own in model.history_)


def test_a_network_of_the_last_round_that_the_deadline_ended_is_discarded(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = iter([[(0, 1)], []])
    added: list[str] = []
    run_fleets, add = pack.FleetPlan.run_fleets, pack.TrainedPack.add

    def ended(plan: Any, **arguments: Any) -> Any:
        for fleet, models in run_fleets(plan, **arguments):
            if len(plan.jobs) == 1:  # the last round
                models[0].history.status = "interrupted"
            yield fleet, models

    def watched(self: Any, candidate: int, position: int, model: Any, seconds: float) -> None:
        added.append(model.history.status)
        add(self, candidate, position, model, seconds)

    monkeypatch.setattr(time_limits, "rest_in_time_left", lambda *_: next(rounds))
    monkeypatch.setattr(pack.FleetPlan, "run_fleets", ended)
    monkeypatch.setattr(pack.TrainedPack, "add", watched)
    mlpr(n_candidates=1, n_folds=3, max_epochs=2, time_limit=1000).fit(X, T)
    assert added and set(added) == {"completed"}
