"""Coordination of fleets that run in several threads and share GPUs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

# While one thread captures a CUDA graph, no other thread may capture or synchronize the device: both would fail.
whole_device = threading.RLock()
_set_up = threading.RLock()
_of_thread = threading.local()


def mark() -> torch.cuda.Event:
    """Record an event in the current stream; waiting for it blocks neither a core nor the GPU driver."""
    event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call] # torch's event is untyped
    event.record()
    return event


@contextmanager
def sharing(n_fleets: int, *, on_gpus: bool) -> Iterator[None]:
    """Within this context, in this thread, `n_fleets` fleets share the memory of each device."""
    _of_thread.n_fleets, _of_thread.on_gpus = n_fleets, on_gpus
    try:
        yield
    finally:
        del _of_thread.n_fleets, _of_thread.on_gpus


def n_sharing() -> int:
    """Return how many fleets share the memory of the device."""
    return getattr(_of_thread, "n_fleets", 1)


@contextmanager
def setting_up() -> Iterator[None]:
    """Within this context, fleets that are trained on GPUs at the same time are set up one by one.

    Set-up is done by the host. If all fleets did it at the same time, the first one, and its GPU, would have to wait
    for the last one.
    """
    if getattr(_of_thread, "on_gpus", False):
        with _set_up:
            yield
    else:
        yield
