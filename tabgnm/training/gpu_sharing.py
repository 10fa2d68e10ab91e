"""What fleets in several threads have to share on a GPU, or must not do at the same time, on whichever GPU."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

# While one thread captures a CUDA graph, no other may capture, or wait for the whole device: either would fail.
whole_device = threading.RLock()
_set_up = threading.RLock()
_of_thread = threading.local()


def mark() -> torch.cuda.Event:
    """Return an event in the current stream; waiting for it blocks neither a core nor the GPU's driver."""
    event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call] # torch's, without types
    event.record()
    return event


@contextmanager
def sharing(n_fleets: int, n_devices: int = 1) -> Iterator[None]:
    """Within this, in this thread: `n_fleets` fleets share the memory of each of `n_devices` GPUs."""
    _of_thread.n_fleets, _of_thread.n_devices = n_fleets, n_devices
    try:
        yield
    finally:
        del _of_thread.n_fleets, _of_thread.n_devices


def n_sharing() -> int:
    """Return how many fleets share the memory of the GPU."""
    return getattr(_of_thread, "n_fleets", 1)


@contextmanager
def setting_up() -> Iterator[None]:
    """Within this, fleets that share a GPU, or the host with those of other GPUs, wait for each other.

    Setting up is work of the host. If all fleets did it at the same time, the first one, and its GPU, would wait for
    the last one.
    """
    if n_sharing() * getattr(_of_thread, "n_devices", 1) == 1:
        yield
    else:
        with _set_up:
            yield
