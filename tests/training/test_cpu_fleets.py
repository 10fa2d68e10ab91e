"""Several fleets of a plan are trained at once on a CPU, if their steps are long enough."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tabgnm.nn import GNMShape, MLPShape
from tabgnm.nn.losses import CrossEntropy
from tabgnm.training import Callback, EpochReport, Fleet, FleetPlan, Job, Member, plan
from tabgnm.training.plan import division_of_threads
from tests.training.examples import assert_same, settings_for, table_for

TABLE = table_for(CrossEntropy())
SHAPES = [GNMShape(6, 3, 12, 2), GNMShape(6, 3, 20, 3), MLPShape(6, 3, (8,)), MLPShape(6, 3, (9, 9))]
SETTINGS = settings_for(max_epochs=3, n_threads=2)
LONG = plan.SMALLEST_GROUP
JOBS = [Job(shape, SETTINGS, Member(seed=seed)) for seed in range(2) for shape in SHAPES]


@pytest.fixture
def any_step_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "SMALLEST_GROUP", 1)


@pytest.mark.usefixtures("any_step_is_long")
def test_each_thread_trains_a_fleet_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    both, n_threads, fit = threading.Barrier(2, timeout=30), [], Fleet.fit

    def watched(fleet: Fleet, *arguments: Any, **options: Any) -> Any:
        n_threads.append(fleet.settings.n_threads)
        both.wait()  # for a fleet in another thread
        return fit(fleet, *arguments, **options)

    monkeypatch.setattr(Fleet, "fit", watched)
    FleetPlan(JOBS, TABLE).run()
    assert n_threads == [1] * len(SHAPES)


@pytest.mark.usefixtures("any_step_is_long")
def test_models_are_those_of_fleets_one_by_one() -> None:
    one_by_one = FleetPlan([replace(job, settings=replace(SETTINGS, n_threads=1)) for job in JOBS], TABLE).run()
    for model, alone in zip(FleetPlan(JOBS, TABLE).run(), one_by_one, strict=True):
        assert_same(model, alone, 1e-8)


@pytest.mark.usefixtures("any_step_is_long")
def test_each_fleet_has_its_own_seconds() -> None:
    several = FleetPlan(JOBS, TABLE)
    several.run()
    assert set(several.seconds) == {fleet.jobs for fleet in several.fleets}
    assert min(several.seconds.values()) > 0


@pytest.mark.usefixtures("any_step_is_long")
def test_the_same_call_gives_the_same_bits() -> None:
    for model, again in zip(FleetPlan(JOBS, TABLE).run(), FleetPlan(JOBS, TABLE).run(), strict=True):
        for name, values in model.parameters.items():
            assert torch.equal(values, again.parameters[name])


@pytest.mark.usefixtures("any_step_is_long")
def test_each_fleet_calls_its_callback_in_a_thread_of_its_own() -> None:
    class Witness(Callback):
        def __init__(self, threads: set[int]) -> None:
            self.threads = threads

        def on_epoch_end(self, report: EpochReport) -> None:  # noqa: ARG002 - the hook's signature
            self.threads.add(threading.get_ident())

    own: dict[tuple[int, ...], set[int]] = {}
    for _ in FleetPlan(JOBS, TABLE).run_fleets(progress=lambda fleet: Witness(own.setdefault(fleet.jobs, set()))):
        pass
    assert len(own) == len(SHAPES)
    assert all(len(threads) == 1 and threading.get_ident() not in threads for threads in own.values())


def test_short_steps_are_done_by_one_fleet_at_a_time() -> None:
    assert FleetPlan(JOBS, TABLE).division_of_threads() == (1, 2)
    assert division_of_threads(4, [LONG - 1] * 3, 1) == (1, 4)


def test_the_longer_the_steps_the_more_threads_are_useful() -> None:
    assert division_of_threads(16, [LONG] * 8, 1) == (2, 1)
    assert division_of_threads(16, [2 * LONG] * 8, 1) == (4, 1)
    assert division_of_threads(16, [4 * LONG] * 8, 1) == (8, 1)
    assert division_of_threads(16, [100 * LONG] * 8, 1) == (8, 2)
    assert division_of_threads(16, [100 * LONG] * 3, 1) == (3, 5)


def test_few_fleets_have_copies_of_a_large_table() -> None:
    assert division_of_threads(8, [100 * LONG] * 8, 2**27) == (4, 2)
    assert division_of_threads(8, [100 * LONG] * 8, 2**40) == (1, 8)


@given(st.integers(1, 64), st.lists(st.integers(0, 10 * LONG), min_size=1, max_size=20), st.integers(0, 2**31))
def test_fleets_never_use_more_threads_than_there_are(n_threads: int, works: list[int], table_bytes: int) -> None:
    n_at_once, n_each = division_of_threads(n_threads, works, table_bytes)
    assert 1 <= n_at_once <= len(works) and n_each >= 1 and n_at_once * n_each <= n_threads
