"""The models of a fleet shared out among the cores of a CPU, each core with its own ones.

A product of small matrices gains nothing from a second core, and would be rounded differently. Models have nothing to
do with each other within an epoch, though; so each core goes through the steps of its models by itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

from tabgnm.nn.evenly import in_training


class Crews:
    """Slices of M models, as equal as they can be, and threads that work on one of them each.

    Parameters
    ----------
    n_models : int
    n_crews : int
        At most so many.
    """

    def __init__(self, n_models: int, n_crews: int) -> None:
        n_crews = min(n_models, n_crews)
        ends = [n_models * i // n_crews for i in range(n_crews + 1)]
        self.slices = [slice(first, end) for first, end in itertools.pairwise(ends)]
        self._pool: ThreadPoolExecutor | None = None

    def each(self, work: Callable[[int, slice], None]) -> None:
        """Call `work` with the number and the models of every crew, and wait for all of them."""
        if len(self.slices) == 1:
            work(0, self.slices[0])
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(len(self.slices) - 1, "tabgnm-crew", _set_up_thread)
        others = [self._pool.submit(_as_trainer, work, i, own) for i, own in enumerate(self.slices[1:], start=1)]
        try:
            work(0, self.slices[0])
        finally:
            for other in others:  # whatever happened here: nobody may work on memory that is given back
                other.exception()
        for other in others:
            other.result()

    def close(self) -> None:
        """End the threads; they are made again if need be."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


def _set_up_thread() -> None:
    """Compute as the thread that trains does, see `fleet._arithmetic`."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)


def _as_trainer(work: Callable[[int, slice], None], number: int, models: slice) -> None:
    with in_training():
        work(number, models)
