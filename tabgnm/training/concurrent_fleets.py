"""Training several fleets at once on one GPU, each in its own thread and on its own stream.

A fleet of forty small models leaves most multiprocessors of a large GPU idle, because its kernels wait for each other.
The kernels of other fleets can run there meanwhile. On a CPU, a fleet uses all cores.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from typing import TypeVar

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


def fleets_at_once(device: torch.device) -> int:
    """Return how many fleets to train at the same time: one within another fit, which would have to wait for them."""
    return _ON_A_GPU if device.type == "cuda" and not is_within_fit() else 1


def train_concurrently(
    tasks: Iterable[Callable[[], T]],
    device: torch.device,
    n_at_once: int | None = None,
    deadline: float | None = None,
) -> Iterator[tuple[int, T]]:
    """Yield (number of the task, its result) as tasks are done; in order if only one runs at a time.

    A task is taken from the iterable only when it can be started, in the caller's thread. After Ctrl-C, or at the
    deadline, running tasks end like an interrupted fit, no others are started, and `Interrupted` is raised at the end.
    An error in one task also ends the others.
    """
    n_at_once = n_at_once or fleets_at_once(device)
    each = _one_by_one(tasks, deadline) if n_at_once == 1 else _in_threads(tasks, device, n_at_once, deadline)
    yield from each


@contextmanager
def _ended_at(deadline: float | None, interruption: Interruption) -> Iterator[None]:
    """End training within the interruption at the deadline, if there is one."""
    if deadline is None:
        yield
        return
    timer = threading.Timer(max(0.0, deadline - time.monotonic()), interruption.end_within)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _one_by_one(tasks: Iterable[Callable[[], T]], deadline: float | None) -> Iterator[tuple[int, T]]:
    for number, task in enumerate(tasks):
        with Interruption() as interruption, interruption.around(), _ended_at(deadline, interruption):
            result = task()
        yield number, result
        if interruption.requested:
            raise Interrupted(at_deadline=not interruption.by_user)


def _in_threads(
    tasks: Iterable[Callable[[], T]], device: torch.device, n_at_once: int, deadline: float | None
) -> Iterator[tuple[int, T]]:
    streams: queue.SimpleQueue[torch.cuda.Stream | None] = queue.SimpleQueue()
    for _ in range(n_at_once):
        # None: on a CPU there are no streams
        streams.put(torch.cuda.Stream(device) if device.type == "cuda" else None)  # type: ignore[no-untyped-call]

    def on_own_stream(task: Callable[[], T], interruption: Interruption) -> T:
        stream = streams.get()
        try:
            with interruption.around(), gpu_sharing.sharing(n_at_once), torch.cuda.stream(stream):
                return task()
        finally:
            streams.put(stream)

    remaining = enumerate(tasks)
    running: dict[Future[T], int] = {}
    with Interruption() as interruption, ExitStack() as endings:
        endings.enter_context(_ended_at(deadline, interruption))
        pool = endings.enter_context(ThreadPoolExecutor(n_at_once, thread_name_prefix="fleet"))
        endings.callback(
            interruption.end_within
        )  # left early, by an error or by the caller: before waiting for the rest

        def fill_up() -> None:
            while len(running) < n_at_once and not interruption.requested:
                number, task = next(remaining, (-1, None))
                if task is None:
                    break
                running[pool.submit(on_own_stream, task, interruption)] = number

        fill_up()
        while running:
            done = wait(running, return_when=FIRST_COMPLETED).done
            ordered = sorted(done, key=lambda own: own.exception() is not None)  # so that good results are not lost
            numbers = [running.pop(future) for future in ordered]
            try:
                if ordered[-1].exception() is None:
                    fill_up()  # before the caller processes the results, which may take a while
            finally:
                for number, future in zip(numbers, ordered, strict=True):
                    yield number, future.result()
        if interruption.requested:
            raise Interrupted(at_deadline=not interruption.by_user)
