"""What fleets in several threads on one GPU have to share, or must not do at the same time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import torch

# While one thread captures a CUDA graph, no other may capture, or wait for the whole device: either would fail.
whole_device = threading.RLock()
_of_thread = threading.local()


def mark() -> torch.cuda.Event:
    """Return a mark in the work of the current stream; who waits for it keeps neither a core nor the GPU's driver."""
    event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call] # torch's, without types
    event.record()
    return event


@contextmanager
def sharing(n_fleets: int, number: int = 0) -> Iterator[None]:
    """Within this, in this thread: the memory of the GPU is for so many fleets, of which this one has a number."""
    _of_thread.n_fleets, _of_thread.number = n_fleets, number
    try:
        yield
    finally:
        del _of_thread.n_fleets, _of_thread.number


def n_sharing() -> int:
    """Return for how many fleets the memory of the GPU is."""
    return getattr(_of_thread, "n_fleets", 1)


class _LockInOrder:
    """A lock that is given to the one with the least number of those that wait for it; again to who has it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: list[int] = []
        self._owner: int | None = None
        self._depth = 0

    @contextmanager
    def held(self, number: int) -> Iterator[None]:
        me = threading.get_ident()
        with self._changed:
            if self._owner != me:
                self._waiting.append(number)
                try:
                    self._changed.wait_for(lambda: self._owner is None and number == min(self._waiting))
                finally:
                    self._waiting.remove(number)
                    self._changed.notify_all()
                self._owner = me
            self._depth += 1
        try:
            yield
        finally:
            with self._changed:
                self._depth -= 1
                if self._depth == 0:
                    self._owner = None
                    self._changed.notify_all()


_set_up = _LockInOrder()


@contextmanager
def setting_up() -> Iterator[None]:
    """Within this, fleets that share a GPU wait for each other; those with the least numbers come first.

    Setting up is the host's work: done by all at the same time it would keep the first one, and the GPU, waiting for
    the last one. Who wants a fleet to be set up early gives it a low number: a `FleetPlan` begins with the largest.
    """
    if n_sharing() == 1:
        yield
        return
    with _set_up.held(_of_thread.number):
        yield


class SharedPrecision:
    """How torch computes float32 products on a GPU, which is one setting for the whole process.

    Fits that want the same run at the same time; one that wants another waits for them, and those after it for it.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._n_users = 0
        self._queue: deque[object] = deque()
        self._own = threading.local()  # how many of the users are this thread's: a callback may fit, too
        self._alone = False  # somebody is changing it within his own fit

    @contextmanager
    def use(self, precision: str) -> Iterator[None]:
        """Compute with this precision, one of those of `torch.set_float32_matmul_precision`."""
        with self._changed:
            self._wait_for(precision)
            before, was_alone = torch.get_float32_matmul_precision(), self._alone
            if self._n_users == 0:
                self._of_the_program = before
            within = self._n_own > 0 and before != precision
            self._alone = was_alone or within
            torch.set_float32_matmul_precision(precision)
            self._count(1)
        try:
            yield
        finally:
            with self._changed:
                self._count(-1)
                self._alone = was_alone
                if within:
                    torch.set_float32_matmul_precision(before)
                elif self._n_users == 0:
                    torch.set_float32_matmul_precision(self._of_the_program)
                self._changed.notify_all()

    def _wait_for(self, precision: str) -> None:
        if self._n_own > 0:  # to wait for others who may wait for this thread would be for ever
            current = torch.get_float32_matmul_precision()
            if current != precision and self._n_users > self._n_own:
                raise RuntimeError(
                    f"a callback wants to train with {precision!r} float32 products while fits in other threads use "
                    f"{current!r}; use the same precision, or train after the fit"
                )
            return
        ticket = object()
        self._queue.append(ticket)
        try:
            self._changed.wait_for(lambda: self._queue[0] is ticket and self._may_join(precision))
        finally:  # also after Ctrl-C
            self._queue.remove(ticket)
            self._changed.notify_all()  # the next one may want the same

    def _may_join(self, precision: str) -> bool:
        is_same = torch.get_float32_matmul_precision() == precision
        return self._n_users == 0 or (is_same and not self._alone)

    @property
    def is_used_here(self) -> bool:
        """Whether this thread is within a fit."""
        return self._n_own > 0

    @property
    def _n_own(self) -> int:
        return getattr(self._own, "count", 0)

    def _count(self, change: int) -> None:
        self._n_users += change
        self._own.count = self._n_own + change


precision = SharedPrecision()
