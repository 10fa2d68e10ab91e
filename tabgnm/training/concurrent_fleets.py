"""Training several fleets at once, each in its own thread, and on a GPU on its own stream.

A fleet of forty small models leaves most multiprocessors of a large GPU idle, because its kernels wait for each other.
The kernels of other fleets can run there meanwhile. On a CPU, `FleetPlan` divides the threads among its fleets.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import torch

from tabgnm.training import gpu_sharing
from tabgnm.training.interruption import Interruption, is_within_fit

T = TypeVar("T")

_ON_A_GPU = 12


class Interrupted(KeyboardInterrupt):
    """Training was interrupted by Ctrl-C or at the deadline: running tasks ended early, and no others were started.

    Attributes
    ----------
    at_deadline : bool
        Whether the deadline was the only cause.
    """

    def __init__(self, *, at_deadline: bool = False) -> None:
        super().__init__("training was interrupted")
        self.at_deadline = at_deadline


@dataclass(frozen=True)
class DeviceTask(Generic[T]):
    """A task that can run on any of several devices, and an estimate of its work in any unit."""

    run: Callable[[torch.device], T]
    cost: float = 1.0


def fleets_at_once(device: torch.device) -> int:
    """Return how many fleets to train at the same time; one within another fit, for example in a callback."""
    return _ON_A_GPU if device.type == "cuda" and not is_within_fit() else 1


def train_concurrently(
    tasks: Iterable[Callable[[], T]],
    device: torch.device,
    n_at_once: int | None = None,
    deadline: float | None = None,
) -> Iterator[tuple[int, T]]:
    """Return an iterator of (number of the task, its result) as tasks are done; in order if only one runs at a time.

    A task is taken from the iterable only when it can be started, in the caller's thread. After Ctrl-C, or at the
    deadline, running tasks end like an interrupted fit, no others are started, and `Interrupted` is raised at the end.
    An error in one task also ends the others.
    """

    def on_any(task: Callable[[], T]) -> DeviceTask[T]:
        return DeviceTask(lambda _: task())

    return train_on_devices(map(on_any, tasks), [device], n_at_once, deadline)


def train_on_devices(
    tasks: Iterable[DeviceTask[T]],
    devices: Sequence[torch.device],
    n_at_once: int | None = None,
    deadline: float | None = None,
) -> Iterator[tuple[int, T]]:
    """Return results as `train_concurrently` does, of tasks on one or several devices, `n_at_once` at a time on each.

    A task runs on the device with the least work at that time.
    """
    n_at_once = n_at_once or fleets_at_once(devices[0])
    if n_at_once * len(devices) == 1:
        return _one_by_one(tasks, devices[0], deadline)
    return _in_threads(tasks, devices, n_at_once, deadline)


@contextmanager
def ended_at(deadline: float | None, interruption: Interruption) -> Iterator[None]:
    """End training within the interruption at the deadline, if there is one."""
    if deadline is None:
        yield
        return
    left = min(max(0.0, deadline - time.monotonic()), threading.TIMEOUT_MAX)
    timer = threading.Timer(left, interruption.end_within)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _one_by_one(
    tasks: Iterable[DeviceTask[T]], device: torch.device, deadline: float | None
) -> Iterator[tuple[int, T]]:
    with Interruption() as interruption, ended_at(deadline, interruption):
        for number, task in enumerate(tasks):
            with interruption.around():
                result = task.run(device)
            yield number, result
            if interruption.requested:
                raise Interrupted(at_deadline=not interruption.by_user)


class _Running(NamedTuple):
    """A task that runs: its number and cost, and the position and the stream of its device."""

    number: int
    cost: float
    place: int
    stream: torch.cuda.Stream | None


def _new_stream(device: torch.device) -> torch.cuda.Stream | None:
    """Return a stream; None on a CPU, which has none."""
    return torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]


def _in_threads(
    tasks: Iterable[DeviceTask[T]], devices: Sequence[torch.device], n_at_once: int, deadline: float | None
) -> Iterator[tuple[int, T]]:
    streams = [[_new_stream(device) for _ in range(n_at_once)] for device in devices]  # those that are free
    work = [0.0] * len(devices)  # of the tasks that run on each

    def on_own_stream(task: DeviceTask[T], own: _Running) -> T:
        with (
            interruption.around(),
            gpu_sharing.sharing(n_at_once, on_gpus=devices[own.place].type == "cuda"),
            torch.cuda.stream(own.stream),  # and its device
        ):
            return task.run(devices[own.place])

    remaining = enumerate(tasks)
    running: dict[Future[T], _Running] = {}
    with Interruption() as interruption, ExitStack() as endings:
        endings.enter_context(ended_at(deadline, interruption))
        pool = endings.enter_context(ThreadPoolExecutor(n_at_once * len(devices), thread_name_prefix="fleet"))
        # If this generator is left early, by an error or by the caller: before waiting for the other tasks.
        endings.callback(interruption.end_within)

        def fill_up() -> None:
            while (free := [place for place, own in enumerate(streams) if own]) and not interruption.requested:
                number, task = next(remaining, (-1, None))
                if task is None:
                    break
                place = min(free, key=lambda place: work[place])
                own = _Running(number, task.cost, place, streams[place].pop(0))
                work[place] += own.cost
                running[pool.submit(on_own_stream, task, own)] = own

        fill_up()
        while running:
            done = wait(running, return_when=FIRST_COMPLETED).done
            ordered = sorted(done, key=lambda own: own.exception() is not None)  # so that good results are not lost
            finished = [running.pop(future) for future in ordered]
            for own in finished:
                streams[own.place].append(own.stream)
                work[own.place] -= own.cost
            try:
                if ordered[-1].exception() is None:
                    fill_up()  # before the caller processes the results, which may take a while
            finally:
                for own, future in zip(finished, ordered, strict=True):
                    yield own.number, future.result()
        if interruption.requested:
            raise Interrupted(at_deadline=not interruption.by_user)
