"""Threads that wait for work between the steps of training, and share it with the thread that hands it out."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

import numpy as np
import torch

from tabgnm.training.threads import torch_threads

Work = Callable[[int, int], None]


class ThreadPool:
    """A few threads for work that comes in pieces of about a millisecond.

    `concurrent.futures` costs 50 us for each piece, a third of what a small one takes. Here a piece costs 20 us: the
    threads wait on a lock each. The calling thread works too, and takes whatever no other thread has begun, so that a
    thread that gets no core, because other processes keep them busy, is not waited for.

    Parameters
    ----------
    n_threads : int
        Including the calling one.
    """

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        self._job: _Job | None = None
        self._closed = False
        self._wake: list[threading.Lock] = []
        self._threads: list[threading.Thread] = []

    def run(self, work: Work, n_tasks: int) -> None:
        """Call work(thread, task) for every task, each in some thread, and return when all are done.

        The calling thread has the number 0. An exception is raised here after all tasks have been tried.
        """
        n_helpers = min(self.n_threads, n_tasks) - 1
        if n_helpers < 1:
            for task in range(n_tasks):
                work(0, task)
            return
        self._start_threads(n_helpers)
        self._job = job = _Job(work, n_tasks)
        for wake in self._wake[:n_helpers]:
            if wake.locked():  # else it has not even noticed the last job yet
                wake.release()
        job.take_tasks(0)
        job.all_done.acquire()
        self._job = None  # its work may hold large arrays
        if job.errors:
            raise job.errors[0]

    def _start_threads(self, n_helpers: int) -> None:
        while len(self._threads) < n_helpers:
            wake, number = threading.Lock(), len(self._threads) + 1
            wake.acquire()
            thread = threading.Thread(target=self._serve, args=(wake, number), name="tabgnm-step", daemon=True)
            self._wake.append(wake)
            self._threads.append(thread)
            thread.start()

    def _serve(self, wake: threading.Lock, number: int) -> None:
        # These settings belong to a thread; the calling one has them from the trainer.
        torch.set_flush_denormal(True)
        with torch_threads(1), torch.inference_mode(), np.errstate(all="ignore"):
            while True:
                wake.acquire()
                if self._closed:
                    return
                job = self._job
                if job is not None:
                    job.take_tasks(number)
                del job

    def close(self) -> None:
        """End the threads."""
        self._closed = True
        for wake, thread in zip(self._wake, self._threads, strict=True):
            if wake.locked():
                wake.release()
            thread.join()


class _Job:
    def __init__(self, work: Work, n_tasks: int) -> None:
        self._work, self._n_tasks = work, n_tasks
        self._taken, self._done = itertools.count(), itertools.count(1)  # `next` of a count is atomic
        self.errors: list[BaseException] = []
        self.all_done = threading.Lock()
        self.all_done.acquire()

    def take_tasks(self, thread: int) -> None:
        """Work on tasks that nobody has begun until there is none left."""
        while (task := next(self._taken)) < self._n_tasks:
            try:
                self._work(thread, task)
            except BaseException as error:
                self.errors.append(error)
            if next(self._done) == self._n_tasks:
                self.all_done.release()
