"""Measuring the time of a fit and of an epoch; Ctrl-C ends the whole measurement."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from tabgnm.nn.shapes import Shape
from tabgnm.training import Fleet, FleetSettings, Member, Table
from tabgnm.training.interruption import ctrl_c_raises
from tabgnm.training.settings import torch_device

# One-time work is done by then: on a GPU, the second epoch captures the graph that later epochs replay.
FIRST_EPOCHS = {"cpu": 1, "cuda": 3}
MIN_SECONDS = 0.5  # of a measurement
MAX_EPOCHS = 400


def seconds_of_fit(shape: Shape, members: Sequence[Member], settings: FleetSettings, table: Table) -> float:
    """Train a fleet, discard it, and return the time."""
    with ctrl_c_raises():
        start = time.perf_counter()
        Fleet(shape, list(members), settings).fit(table)
        return time.perf_counter() - start


def seconds_per_epoch(train: Callable[[int], float], device: str, n_epochs: int | None = None) -> float:
    """Compare a short training with one that is longer by `n_epochs`; if None, by as many as fit into half a second.

    `train` takes a number of epochs and returns the time.
    """
    first = FIRST_EPOCHS[torch_device(device).type]
    train(first)  # for initialisations that are done once per process
    more = n_epochs or 1
    short, long = train(first), train(first + more)
    while n_epochs is None and long - short < MIN_SECONDS and more < MAX_EPOCHS:
        growth = MIN_SECONDS / max(long - short, MIN_SECONDS / 100)
        more = min(MAX_EPOCHS, math.ceil(1.2 * more * growth))
        short, long = train(first), train(first + more)
    return max(long - short, 0.0) / more
