"""Time of a fit and of an epoch; Ctrl-C ends a fit together with the whole measurement."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from tabgnm.nn.shapes import Shape
from tabgnm.training import Fleet, FleetSettings, Member, Table
from tabgnm.training.interruption import Interruption
from tabgnm.training.settings import torch_device

# What is done once is over by then: on a GPU the second epoch captures what later ones replay.
FIRST_EPOCHS = {"cpu": 1, "cuda": 3}
LEAST_SECONDS = 0.5  # of a measurement
MOST_EPOCHS = 400


def seconds_of_fit(shape: Shape, members: Sequence[Member], settings: FleetSettings, table: Table) -> float:
    """Train a fleet and throw it away.

    After Ctrl-C a fit ends quietly, and in its last epoch even as completed: the next one would go on as if nothing had
    happened. So the request itself is asked for, not the histories.
    """
    with Interruption() as interruption, interruption.around():
        start = time.perf_counter()
        Fleet(shape, list(members), settings).fit(table)
        seconds = time.perf_counter() - start
    if interruption.requested:
        raise KeyboardInterrupt
    return seconds


def seconds_per_epoch(train: Callable[[int], float], device: str, n_epochs: int | None = None) -> float:
    """Compare a short training with one that is longer by `n_epochs`; None takes as many as last for half a second.

    `train` takes a number of epochs and gives the time.
    """
    first = FIRST_EPOCHS[torch_device(device).type]
    train(first)  # much is done once in a process
    more = n_epochs or 1
    short, long = train(first), train(first + more)
    while n_epochs is None and long - short < LEAST_SECONDS and more < MOST_EPOCHS:
        growth = LEAST_SECONDS / max(long - short, LEAST_SECONDS / 100)
        more = min(MOST_EPOCHS, math.ceil(1.2 * more * growth))
        short, long = train(first), train(first + more)
    return max(long - short, 0.0) / more
