"""Concurrent tasks: each runs once, and errors and Ctrl-C reach everybody."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch

from tabgnm.nn.losses import CrossEntropy
from tabgnm.training import Fleet, Member
from tabgnm.training.concurrent_fleets import Interrupted, fleets_at_once, train_concurrently
from tabgnm.training.gpu_sharing import n_sharing
from tabgnm.training.interruption import Interruption
from tests.training.examples import BASE, assert_same, settings_for, table_for, train

CPU = torch.device("cpu")


def endless_fit() -> str:
    """Train until somebody asks for an end; gives the status of the model."""
    fleet = Fleet(BASE, [Member(val=torch.arange(20))], settings_for(max_epochs=1_000_000))
    return fleet.fit(table_for(CrossEntropy())).models[0].history.status


def counted(n_tasks: int, taken: list[int]) -> Iterator[Callable[[], int]]:
    for number in range(n_tasks):
        taken.append(number)
        yield partial(pow, number, 2)


@pytest.mark.parametrize("n_at_once", [1, 2, 4])
@pytest.mark.parametrize("n_tasks", [0, 1, 9])
def test_every_task_is_run_once(n_at_once: int, n_tasks: int) -> None:
    taken: list[int] = []
    found = list(train_concurrently(counted(n_tasks, taken), CPU, n_at_once))
    assert sorted(found) == [(number, number**2) for number in range(n_tasks)]
    assert taken == list(range(n_tasks))


@pytest.mark.parametrize("n_at_once", [1, 3])
def test_tasks_are_taken_when_there_is_room_for_them(n_at_once: int) -> None:
    taken: list[int] = []
    for n_done, _ in enumerate(train_concurrently(counted(9, taken), CPU, n_at_once), start=1):
        # Several may be done at the same time, and as many are begun before the first of them is looked at.
        assert len(taken) <= n_done + 2 * n_at_once - 1


def test_the_next_task_is_begun_before_the_last_one_is_looked_at() -> None:
    begun, go_on = threading.Event(), threading.Event()
    tasks: list[Callable[[], object]] = [lambda: None, go_on.wait, begun.set]
    results = train_concurrently(tasks, CPU, 2)
    next(results)
    assert begun.wait(30)
    go_on.set()
    assert sorted(number for number, _ in results) == [1, 2]


def test_what_is_done_is_given_before_an_error_of_who_makes_the_tasks() -> None:
    done = threading.Barrier(2, timeout=30)

    def tasks() -> Iterator[Callable[[], object]]:
        yield done.wait
        yield done.wait
        raise ValueError("no more")

    results = train_concurrently(tasks(), CPU, 2)
    assert next(results)
    with pytest.raises(ValueError, match="no more"):
        list(results)


def test_tasks_run_at_the_same_time_and_share_the_memory() -> None:
    everybody = threading.Barrier(3, timeout=30)

    def meet() -> int:
        everybody.wait()
        return n_sharing()

    assert [shared for _, shared in train_concurrently([meet] * 3, CPU, 3)] == [3] * 3
    assert n_sharing() == 1


def test_a_cpu_trains_one_fleet_at_a_time() -> None:
    assert fleets_at_once(CPU) == 1
    assert fleets_at_once(torch.device("cuda")) > 1


def test_concurrent_fleets_are_those_trained_alone() -> None:
    settings, table = settings_for(max_epochs=20), table_for(CrossEntropy())
    tasks = [partial(train, BASE, [Member(seed=seed)], settings, table) for seed in range(5)]
    for number, models in train_concurrently(tasks, CPU, 3):
        assert_same(models[0], tasks[number]()[0], 1e-8)


@pytest.mark.parametrize("n_at_once", [1, 2])
def test_an_error_ends_the_others_and_reaches_the_caller(n_at_once: int) -> None:
    def fail() -> str:
        time.sleep(0.1)
        raise OSError("the disk is full")

    tasks = [endless_fit, fail] if n_at_once > 1 else [fail, endless_fit]
    with pytest.raises(OSError, match="the disk is full"):
        list(train_concurrently(tasks, CPU, n_at_once))


def test_who_takes_no_more_results_ends_what_runs() -> None:
    results = train_concurrently([lambda: "first", endless_fit, endless_fit], CPU, 2)
    assert next(results) == (0, "first")
    results.close()  # type: ignore[attr-defined] # it is a generator
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("fleet")]


@pytest.mark.parametrize("n_at_once", [1, 2])
@pytest.mark.parametrize("n_tasks", [2, 5])
def test_ctrl_c_ends_what_runs_and_begins_nothing_else(n_at_once: int, n_tasks: int) -> None:
    handler = signal.getsignal(signal.SIGINT)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    found: list[str] = []
    with pytest.raises(Interrupted):
        found.extend(status for _, status in train_concurrently([endless_fit] * n_tasks, CPU, n_at_once))
    assert found == ["interrupted"] * n_at_once
    assert signal.getsignal(signal.SIGINT) is handler
    assert train(BASE, [Member()], settings_for(max_epochs=2))[0].history.status == "completed"


@pytest.mark.parametrize("n_outer", [1, 2])
def test_tasks_may_have_tasks_of_their_own(n_outer: int) -> None:
    def nested() -> int:
        return sum(value for _, value in train_concurrently(counted(3, []), CPU, 2))

    assert sorted(train_concurrently([nested] * 3, CPU, n_outer)) == [(number, 5) for number in range(3)]


def test_ctrl_c_ends_tasks_of_tasks() -> None:
    def nested() -> list[str]:
        found: list[str] = []
        with pytest.raises(Interrupted):
            found.extend(status for _, status in train_concurrently([endless_fit] * 2, CPU, 2))
        return found

    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    results: list[list[str]] = []
    with pytest.raises(Interrupted):
        results.extend(statuses for _, statuses in train_concurrently([nested] * 2, CPU, 2))
    assert results == [["interrupted"] * 2] * 2


def test_what_was_done_is_given_before_an_error_of_another_is_raised() -> None:
    go_on = threading.Event()

    def good() -> str:
        go_on.wait(30)
        return "good"

    def bad() -> str:
        go_on.wait(30)
        raise OSError("the disk is full")

    results = train_concurrently([lambda: "first", bad, good, bad], CPU, 4)
    assert next(results) == (0, "first")
    go_on.set()
    time.sleep(0.3)  # all the others are done when they are asked for
    assert next(results) == (2, "good")
    with pytest.raises(OSError, match="the disk is full"):
        next(results)


def test_within_a_fit_fleets_are_trained_one_by_one() -> None:
    gpu = torch.device("cuda")
    assert fleets_at_once(gpu) > 1
    with Interruption().around():  # as every fit is
        assert fleets_at_once(gpu) == 1
    assert fleets_at_once(gpu) > 1


def test_a_deadline_may_be_infinite() -> None:
    assert list(train_concurrently([lambda: 1], torch.device("cpu"), 1, math.inf)) == [(0, 1)]
