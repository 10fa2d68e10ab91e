"""What the host computes for many epochs at once, and what it hears of many epochs at once, is that of each epoch."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tabgnm.training import Callback, EpochReport, TrainedModel, gpu_sharing, prefetch
from tabgnm.training.concurrent_fleets import train_concurrently
from tabgnm.training.epoch_loop import EpochLoop
from tabgnm.training.epoch_records import EPOCHS_KEPT
from tabgnm.training.gpu_sharing import setting_up, sharing
from tabgnm.training.prefetch import Prefetch
from tests.training.examples import BASE, CPU, different_members, settings_for, train

SETTINGS: dict[str, dict[str, Any]] = {
    "constant": {"optimizer": "adam"},
    "cosine with warmup": {"optimizer": "adamw", "schedule": "cosine", "warmup": 0.1},
}


def with_windows_of(
    n_epochs: int, monkeypatch: pytest.MonkeyPatch, n_models: int, **settings: Any
) -> list[TrainedModel]:
    monkeypatch.setattr(prefetch, "_MAX_EPOCHS", n_epochs)
    return train(BASE, different_members(n_models), settings_for(**settings))


def assert_equal(one: list[TrainedModel], other: list[TrainedModel]) -> None:
    for a, b in zip(one, other, strict=True):
        assert a.history == b.history
        assert all(torch.equal(a.parameters[name], b.parameters[name]) for name in a.parameters)


@pytest.mark.parametrize("n_models", [1, 4])
@pytest.mark.parametrize("settings", list(SETTINGS.values()), ids=list(SETTINGS))
def test_models_do_not_depend_on_how_many_epochs_are_computed_at_once(
    monkeypatch: pytest.MonkeyPatch, n_models: int, settings: dict[str, Any]
) -> None:
    one_by_one = with_windows_of(1, monkeypatch, n_models, max_epochs=10, **settings)
    for n_epochs in (3, 64):
        assert_equal(one_by_one, with_windows_of(n_epochs, monkeypatch, n_models, max_epochs=10, **settings))


def test_training_goes_on_after_the_first_window(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = train(BASE, different_members(2), settings_for(max_epochs=70))  # the first window has 64
    assert_equal(whole, with_windows_of(7, monkeypatch, 2, max_epochs=70))


def test_a_window_is_computed_when_an_epoch_outside_of_it_is_asked_for() -> None:
    asked: list[range] = []

    def compute(epochs: range) -> NDArray[Any]:
        asked.append(epochs)
        return np.array([10 * epoch for epoch in epochs])

    target = torch.zeros(1, dtype=torch.int64)
    prefetch = Prefetch(target)
    for epoch in (0, 1, 63, 64, 200, 199):
        prefetch.load(epoch, compute)
        assert target.item() == 10 * epoch
    assert asked == [range(64), range(64, 128), range(192, 256)]


def test_large_tables_of_numbers_are_computed_for_single_epochs() -> None:
    asked: list[range] = []
    Prefetch(torch.zeros(2**20)).load(5, lambda epochs: (asked.append(epochs), np.ones(2**20))[1])  # type: ignore[func-returns-value]
    assert asked == [range(5, 6)]


class Listener(Callback):
    def __init__(self, *, every_epoch: bool, stop_at: int | None = None) -> None:
        self.every_epoch, self.stop_at = every_epoch, stop_at
        self.heard: dict[int, list[tuple[int, float, float]]] = {}

    def on_epoch_end(self, report: EpochReport) -> bool:
        for model, *losses in zip(report.models, report.train_loss, report.val_loss, strict=True):
            self.heard.setdefault(model, []).append((report.epoch, *losses))
        return report.epoch == self.stop_at


@pytest.mark.parametrize("every_epoch", [True, False])
@pytest.mark.parametrize("patience", [None, 3])
def test_histories_are_what_those_hear_who_look_on(every_epoch: bool, patience: int | None) -> None:
    """More epochs than are kept on the device, with and without models that stop before the others."""
    n_epochs = EPOCHS_KEPT + 8
    settings, members = settings_for(max_epochs=n_epochs, patience=patience), different_members(4)
    listener = Listener(every_epoch=every_epoch)
    silent, loud = train(BASE, members, settings), train(BASE, members, settings, callbacks=[listener])
    assert_equal(silent, loud)
    for number, model in enumerate(loud):
        history = model.history
        expected = list(zip(range(1, history.n_epochs + 1), history.train_loss, history.val_loss, strict=True))
        assert listener.heard[number] == expected
        assert history.n_epochs == n_epochs or patience


@pytest.mark.parametrize("every_epoch", [True, False])
def test_who_stops_training_late_gets_the_epochs_until_then(every_epoch: bool) -> None:
    listener = Listener(every_epoch=every_epoch, stop_at=13)
    result = train(BASE, different_members(3), settings_for(max_epochs=40), callbacks=[listener])
    for model in result:
        assert 13 <= model.history.n_epochs <= (13 if every_epoch else 20)
        assert model.history.best_epoch <= model.history.n_epochs
        assert model.history.best_val_loss == min(model.history.val_loss)
        assert model.history.status == "stopped_early"


class Interrupting(Listener):
    def on_epoch_end(self, report: EpochReport) -> bool:
        if report.epoch == 13:
            raise KeyboardInterrupt
        return False


def test_who_interrupts_late_gets_the_epochs_until_then() -> None:
    result = train(BASE, different_members(3), settings_for(max_epochs=40), callbacks=[Interrupting(every_epoch=False)])
    for model in result:
        assert 13 <= model.history.n_epochs <= 20
        assert model.history.best_val_loss == min(model.history.val_loss)


def test_fits_that_share_a_gpu_wait_for_the_set_up_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    inside, most = 0, 0
    counting, begin = threading.Lock(), EpochLoop.__init__

    def slowly(self: EpochLoop, *how: Any, **more: Any) -> None:
        nonlocal inside, most
        with counting:
            inside += 1
            most = max(most, inside)
        time.sleep(0.1)
        begin(self, *how, **more)
        with counting:
            inside -= 1

    monkeypatch.setattr(EpochLoop, "__init__", slowly)
    monkeypatch.setattr(gpu_sharing, "sharing", lambda n_fleets, **_: sharing(n_fleets, on_gpus=True))
    tasks = [partial(train, BASE, different_members(1), settings_for(max_epochs=2)) for _ in range(3)]
    assert len(list(train_concurrently(tasks, CPU, 3))) == 3
    assert most == 1


@pytest.mark.parametrize("on_gpus", [False, True])
def test_fleets_on_gpus_are_set_up_one_after_the_other(on_gpus: bool) -> None:
    inside, most = 0, 0
    counting, together = threading.Lock(), threading.Barrier(3)

    def set_up() -> None:
        nonlocal inside, most
        with sharing(3, on_gpus=on_gpus), setting_up():
            with counting:
                inside += 1
                most = max(most, inside)
            with suppress(threading.BrokenBarrierError):
                together.wait(timeout=0.2)
            with counting:
                inside -= 1

    threads = [threading.Thread(target=set_up) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == (1 if on_gpus else 3)
