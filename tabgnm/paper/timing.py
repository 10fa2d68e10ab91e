"""Time of a fit, which Ctrl-C ends together with the whole measurement."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tabgnm.nn.shapes import Shape
from tabgnm.training import Fleet, FleetSettings, Member, Table
from tabgnm.training.interruption import Interruption


def seconds_of_fit(shape: Shape, members: Sequence[Member], settings: FleetSettings, table: Table) -> float:
    """Train a fleet and throw it away.

    After Ctrl-C a fit ends quietly, and in its last epoch even as completed: the next one would go on as if nothing had
    happened. So the request itself is asked for, not the histories.
    """
    with Interruption() as interruption, interruption.shared_by_threads():
        start = time.perf_counter()
        Fleet(shape, list(members), settings).fit(table)
        seconds = time.perf_counter() - start
    if interruption.requested:
        raise KeyboardInterrupt
    return seconds
