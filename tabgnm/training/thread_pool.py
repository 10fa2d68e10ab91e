"""A thread pool for tasks of about a millisecond, which uses its threads only while they save time."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable

import numpy as np
import torch

from tabgnm.training.threads import flushes_denormals, torch_threads

Work = Callable[[int, int], None]

_MAX_SAVED = 10  # calls whose savings count, so that threads are disabled soon when the cores become busy
_PAUSE = 20  # times the time lost, so that trying again costs at most a twentieth


class ThreadPool:
    """Threads that share tasks with the calling thread.

    If other programs use the cores, a thread may lose its core for milliseconds while the others wait for it, or for
    the interpreter lock that it holds. So the pool measures the time that its threads save: the processor time of the
    tasks, which is what they would take in one thread, minus the time until all are done. Once the threads have cost
    more time than they have saved, the calling thread does all tasks for a while; then the pool tries again. Results
    are the same either way.

    A call takes 20 us longer than its tasks; with `concurrent.futures`, it would be 50 us.

    Parameters
    ----------
    n_threads : int
        The number of threads, including the calling one.
    """

    def __init__(self, n_threads: int) -> None:
        self._n_threads = n_threads
        self._saved = 0.0
        self._resume = 0.0  # when to try threads again
        self._job: _Job | None = None
        self._closed = False
        self._wake: list[threading.Lock] = []
        self._threads: list[threading.Thread] = []

    def run(self, work: Work, n_tasks: int) -> None:
        """Call work(thread, task) for every task, each in one of the threads, and return when all are done.

        The calling thread has number 0. An exception of a task is raised here, after all tasks have ended.
        """
        n_helpers = min(self._n_threads, n_tasks) - 1
        start = time.perf_counter()
        if n_helpers < 1 or start < self._resume:
            for task in range(n_tasks):
                work(0, task)
            return
        if len(self._threads) < n_helpers:
            self._start_threads(n_helpers)
        self._job = job = _Job(work, n_tasks)
        for wake in self._wake[:n_helpers]:
            if wake.locked():  # otherwise the thread has not seen the last job yet
                wake.release()
        job.take_tasks(0)
        job.all_done.acquire()
        self._job = None  # it may refer to large arrays
        if job.errors:
            raise job.errors[0]
        self._record(sum(job.seconds), time.perf_counter() - start)

    def _record(self, in_one_thread: float, taken: float) -> None:
        self._saved = min(self._saved + in_one_thread - taken, _MAX_SAVED * in_one_thread)
        if self._saved < 0:
            self._resume = time.perf_counter() - _PAUSE * self._saved
            self._saved = 0.0

    def _start_threads(self, n_helpers: int) -> None:
        flush = flushes_denormals()
        while len(self._threads) < n_helpers:
            wake, number = threading.Lock(), len(self._threads) + 1
            wake.acquire()
            thread = threading.Thread(target=self._serve, args=(wake, number, flush), name="tabgnm-step", daemon=True)
            self._wake.append(wake)
            self._threads.append(thread)
            thread.start()

    def _serve(self, wake: threading.Lock, number: int, flush_denormal: bool) -> None:
        # As in the calling thread, so that results do not depend on the thread.
        torch.set_flush_denormal(flush_denormal)
        with torch_threads(1), torch.inference_mode(), np.errstate(all="ignore"):
            while True:
                wake.acquire()
                if self._closed:
                    return
                job = self._job
                if job is not None:
                    job.take_tasks(number)
                del job

    def __enter__(self) -> ThreadPool:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the threads."""
        self._closed = True
        for wake, thread in zip(self._wake, self._threads, strict=True):
            if wake.locked():
                wake.release()
            thread.join()


class _Job:
    """The tasks of one call."""

    def __init__(self, work: Work, n_tasks: int) -> None:
        self._work, self._n_tasks = work, n_tasks
        self._begun, self._done = itertools.count(), itertools.count(1)  # `next` of these is atomic
        self.seconds: list[float] = []  # processor time, by thread
        self.errors: list[BaseException] = []
        self.all_done = threading.Lock()
        self.all_done.acquire()

    def take_tasks(self, thread: int) -> None:
        """Run tasks that no other thread has begun, until there are none."""
        while (task := next(self._begun)) < self._n_tasks:
            start = time.thread_time()
            try:
                self._work(thread, task)
            except BaseException as error:
                self.errors.append(error)
            self.seconds.append(time.thread_time() - start)
            if next(self._done) == self._n_tasks:
                self.all_done.release()
