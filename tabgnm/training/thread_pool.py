"""Threads for work that comes in pieces of a millisecond, used only while they save time."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable

import numpy as np
import torch

from tabgnm.training.threads import torch_threads

Work = Callable[[int, int], None]

_MOST_CREDIT = 10  # calls; how many may be lost at once before the threads are left alone
_PAUSE = 20  # times what was lost, so that trying again costs at most a twentieth


class ThreadPool:
    """A few threads that share work with the thread that hands it out.

    On a machine with other work to do, a thread may lose its core for milliseconds while others wait for it, or for the
    interpreter lock it holds. So the pool keeps account: what a call saves is the processor time of its tasks, which
    is what they take in one thread, minus the time until all were done. When the savings are used up, the calling
    thread does all the work for a while, and then tries again. The tasks are the same either way.

    Starting a call takes 20 us; `concurrent.futures` takes 50.

    Parameters
    ----------
    n_threads : int
        Including the calling one.
    """

    def __init__(self, n_threads: int) -> None:
        self._n_threads = n_threads
        self._saved = 0.0
        self._resume = 0.0  # time when to try threads again
        self._job: _Job | None = None
        self._closed = False
        self._wake: list[threading.Lock] = []
        self._threads: list[threading.Thread] = []

    def run(self, work: Work, n_tasks: int) -> None:
        """Call work(thread, task) for every task, each in some thread, and return when all are done.

        The calling thread has number 0. An exception is raised here after all tasks have been tried.
        """
        n_helpers = min(self._n_threads, n_tasks) - 1
        start = time.perf_counter()
        if n_helpers < 1 or start < self._resume:
            for task in range(n_tasks):
                work(0, task)
            return
        self._start_threads(n_helpers)
        self._job = job = _Job(work, n_tasks)
        for wake in self._wake[:n_helpers]:
            if wake.locked():  # else the thread has not even noticed the last job
                wake.release()
        job.take_tasks(0)
        job.all_done.acquire()
        self._job = None  # its work may hold large arrays
        if job.errors:
            raise job.errors[0]
        self._keep_account(sum(job.seconds), time.perf_counter() - start)

    def _keep_account(self, in_one_thread: float, taken: float) -> None:
        self._saved = min(self._saved + in_one_thread - taken, _MOST_CREDIT * in_one_thread)
        if self._saved < 0:
            self._resume = time.perf_counter() - _PAUSE * self._saved
            self._saved = 0.0

    def _start_threads(self, n_helpers: int) -> None:
        while len(self._threads) < n_helpers:
            wake, number = threading.Lock(), len(self._threads) + 1
            wake.acquire()
            thread = threading.Thread(target=self._serve, args=(wake, number), name="tabgnm-step", daemon=True)
            self._wake.append(wake)
            self._threads.append(thread)
            thread.start()

    def _serve(self, wake: threading.Lock, number: int) -> None:
        torch.set_flush_denormal(True)  # like the other settings here, a thread's own; the trainer has set its own
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
    """Tasks of one call; each thread takes the next one that nobody has begun."""

    def __init__(self, work: Work, n_tasks: int) -> None:
        self._work, self._n_tasks = work, n_tasks
        self._begun, self._done = itertools.count(), itertools.count(1)  # `next` of these is atomic
        self.seconds: list[float] = []  # processor time, by thread
        self.errors: list[BaseException] = []
        self.all_done = threading.Lock()
        self.all_done.acquire()

    def take_tasks(self, thread: int) -> None:
        while (task := next(self._begun)) < self._n_tasks:
            start = time.thread_time()
            try:
                self._work(thread, task)
            except BaseException as error:
                self.errors.append(error)
            self.seconds.append(time.thread_time() - start)
            if next(self._done) == self._n_tasks:
                self.all_done.release()
