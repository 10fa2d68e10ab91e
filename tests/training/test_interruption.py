"""A real Ctrl-C, at any moment: the result comes back consistent, and nothing of the process is changed."""

from __future__ import annotations

import os
import signal
import threading

import pytest
import torch

from tabgnm.nn.losses import CrossEntropy
from tabgnm.training import Callback, Fleet, FleetPlan, Job, Member, TrainedModel
from tabgnm.training.concurrent_fleets import Interrupted
from tabgnm.training.epoch_loop import EpochLoop
from tabgnm.training.interruption import Interruption
from tests.training.examples import BASE, settings_for, table_for


class Interrupt(Callback):
    """Sends this process a SIGINT some time after training has begun."""

    def __init__(self, seconds: float) -> None:
        self.timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))

    def on_train_begin(self, n_models: int, max_epochs: int) -> None:  # noqa: ARG002 - the hook's signature
        if not self.timer.is_alive():
            self.timer.start()


def check(models: list[TrainedModel], n_models: int) -> None:
    assert len(models) == n_models
    for model in models:
        history = model.history
        assert history.best_epoch <= history.n_epochs
        assert history.status in ("completed", "interrupted")
        assert all(torch.isfinite(value).all() for value in model.parameters.values())


@pytest.mark.parametrize("chunk_size", [1, 2, 5])
@pytest.mark.parametrize("delay", [0.0, 0.01, 0.03, 0.07, 0.15])
def test_ctrl_c_at_any_moment_gives_the_best_weights_so_far(chunk_size: int, delay: float) -> None:
    members = [Member(seed=seed, val=torch.arange(20)) for seed in range(5)]
    n_threads, handler = torch.get_num_threads(), signal.getsignal(signal.SIGINT)
    fleet = Fleet(BASE, members, settings_for(max_epochs=100_000), chunk_size=chunk_size)
    models = fleet.fit(table_for(CrossEntropy()), callbacks=[Interrupt(delay)]).models
    check(models, 5)
    assert models[0].history.status == "interrupted"
    assert torch.get_num_threads() == n_threads
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_plan_stops_too(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [Job(BASE, settings_for(max_epochs=epochs), Member(seed=1)) for epochs in (100_000, 90_000)]
    plan, interrupt = FleetPlan(jobs, table_for(CrossEntropy())), Interrupt(0.1)
    monkeypatch.setattr(
        plan, "run_fleet", lambda fleet, *_, **__: FleetPlan.run_fleet(plan, fleet, callbacks=[interrupt])
    )
    models = plan.run()
    check(models, 2)
    assert [model.history.status for model in models] == ["interrupted"] * 2
    assert models[1].history.n_epochs == 0


def test_a_handler_of_the_program_is_left_alone() -> None:
    calls = []
    before = signal.signal(signal.SIGINT, lambda *_: calls.append(1))
    try:
        interrupt = Interrupt(0.01)
        models = (
            Fleet(BASE, [Member()], settings_for(max_epochs=200))
            .fit(table_for(CrossEntropy()), callbacks=[interrupt])
            .models
        )
        interrupt.timer.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert calls == [1]
    assert models[0].history.status == "completed"


def test_fleets_in_other_threads_need_no_signals() -> None:
    results: list[TrainedModel] = []

    def work() -> None:
        results.extend(Fleet(BASE, [Member(seed=3)], settings_for(max_epochs=5)).fit(table_for(CrossEntropy())).models)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = Fleet(BASE, [Member(seed=3)], settings_for(max_epochs=5)).fit(table_for(CrossEntropy())).models[0]
    for model in results:
        assert all(torch.equal(model.parameters[name], value) for name, value in alone.parameters.items())


def test_ctrl_c_ends_a_fit_within_a_callback_too() -> None:
    inner: list[str] = []

    class Nested(Callback):
        def on_epoch_end(self, report: object) -> None:  # noqa: ARG002 - the hook's signature
            fleet = Fleet(BASE, [Member(seed=1)], settings_for(max_epochs=1_000_000))
            inner.append(fleet.fit(table_for(CrossEntropy())).models[0].history.status)

    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    fleet = Fleet(BASE, [Member()], settings_for(max_epochs=3))
    model = fleet.fit(table_for(CrossEntropy()), callbacks=[Nested()]).models[0]
    assert inner == ["interrupted"] and model.history.status == "interrupted"


def test_a_callback_need_not_be_derived_from_ours() -> None:
    class Duck:
        def on_train_begin(self, n_models: int, max_epochs: int) -> None: ...
        def on_epoch_end(self, report: object) -> None: ...
        def on_model_end(self, model: int, n_epochs: int, status: str) -> None: ...
        def on_train_end(self) -> None: ...

    fleet = Fleet(BASE, [Member()], settings_for(max_epochs=2))
    assert fleet.fit(table_for(CrossEntropy()), callbacks=[Duck()]).models[0].history.n_epochs == 2  # type: ignore[list-item]


def test_a_second_ctrl_c_is_not_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """It raises KeyboardInterrupt wherever training is, which must reach the caller."""
    run_epoch = EpochLoop.run_epoch

    def twice(self: EpochLoop) -> None:
        run_epoch(self)
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(EpochLoop, "run_epoch", twice)
    with pytest.raises(KeyboardInterrupt):
        Fleet(BASE, [Member()], settings_for(max_epochs=50)).fit(table_for(CrossEntropy()))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_between_two_fleets_of_a_plan_loses_none_of_them() -> None:
    jobs = [Job(BASE, settings_for(max_epochs=epochs, n_threads=1), Member(seed=1)) for epochs in (4, 3, 2)]
    results = FleetPlan(jobs, table_for(CrossEntropy())).run_fleets()
    _, models = next(results)
    os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(Interrupted):
        next(results)
    assert [model.history.status for model in models] == ["completed"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_reaches_a_fit_although_an_earlier_plan_was_left_early() -> None:
    jobs = [Job(BASE, settings_for(max_epochs=epochs, n_threads=1), Member(seed=1)) for epochs in (4, 3)]
    results = FleetPlan(jobs, table_for(CrossEntropy())).run_fleets()
    next(results)
    fleet = Fleet(BASE, [Member()], settings_for(max_epochs=1_000_000))
    for _ in range(2):
        models = fleet.fit(table_for(CrossEntropy()), callbacks=[Interrupt(0.05)]).models
        assert models[0].history.status == "interrupted"
    results.close()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_interruptions_may_end_in_any_order() -> None:
    first, second = Interruption(), Interruption()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    os.kill(os.getpid(), signal.SIGINT)
    assert second.requested and not first.requested
    second.__exit__(None, None, None)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_plan_may_be_closed_in_another_thread() -> None:
    """Only the main thread can restore the handler of signals, so Ctrl-C must reach the program without that."""
    jobs = [Job(BASE, settings_for(max_epochs=epochs, n_threads=1), Member(seed=1)) for epochs in (4, 3)]
    results = FleetPlan(jobs, table_for(CrossEntropy())).run_fleets()
    next(results)
    closing = threading.Thread(target=results.close)
    closing.start()
    closing.join()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    Fleet(BASE, [Member()], settings_for(max_epochs=1)).fit(table_for(CrossEntropy()))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
