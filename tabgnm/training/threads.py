"""The number of threads of a fit or prediction on a CPU, and the thread counts of torch and NumPy meanwhile."""

from __future__ import annotations

import numbers
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import ThreadpoolController

from tabgnm._printable import shown
from tabgnm.training.hardware import core_count

MAX_THREADS = 1024  # starting more would take seconds without a benefit on any machine


def thread_count(n_jobs: int | None) -> int:
    """Return the number of threads for a value of `n_jobs`.

    None means `torch.get_num_threads()`, -1 all cores available to the process, -2 all cores but one, and so on as in
    joblib.
    """
    if n_jobs is None:
        return _torch_threads.outside()
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral) or n_jobs == 0 or n_jobs > MAX_THREADS:
        raise ValueError(
            f"n_jobs must be None, an integer from 1 to {MAX_THREADS}, or a negative integer such as -1 (all cores); "
            f"got {shown(n_jobs)}"
        )
    return int(n_jobs) if n_jobs > 0 else max(1, core_count() + 1 + int(n_jobs))


class _TorchThreads:
    """The thread count of torch, which several Python threads may change at once; each of them restores it.

    torch has a count for each Python thread, and a count for new threads, which another thread may have changed for a
    while. So every thread restores the count from before the first of them changed it.
    """

    def __init__(self, *, forked: bool = False) -> None:
        self._lock = threading.Lock()
        self._n_users = 0
        self._before = 1
        self._forked = forked  # OpenMP's threads do not survive a fork, and waiting for them never ends
        self._of_thread = threading.local()

    def outside(self) -> int:
        """Return the thread count of the program, without temporary changes."""
        with self._lock:
            return self._before if self._n_users else torch.get_num_threads()

    @contextmanager
    def use(self, n_threads: int) -> Iterator[None]:
        with self._lock:
            if self._n_users == 0:
                self._before = torch.get_num_threads()
            self._n_users += 1
            outer = getattr(self._of_thread, "n_threads", None)
            n_threads = 1 if self._forked else n_threads
            self._of_thread.n_threads = n_threads
            torch.set_num_threads(n_threads)
        try:
            yield
        finally:
            with self._lock:
                self._n_users -= 1
                self._of_thread.n_threads = outer
                torch.set_num_threads(self._before if outer is None else outer)


class _BlasThreads:
    """Limits NumPy's matrix products to one thread, which is a setting of the whole process.

    While a product uses several threads of OpenBLAS, the process cannot be forked: `fork` ends these threads, and the
    computing thread or `fork` itself then waits forever.
    """

    def __init__(self) -> None:
        # Held while the count changes, which may start or end threads of OpenBLAS, and during a fork. A signal handler
        # may fork while its thread holds the lock.
        self.lock = threading.RLock()
        self._n_users = 0

    @contextmanager
    def use_one(self) -> Iterator[None]:
        with self.lock:
            self._n_users += 1
            if self._n_users == 1:
                self._libraries = ThreadpoolController().select(user_api="blas")
                self._let_every_thread_set()
                self._limits = self._libraries.limit(limits=1)
        try:
            yield
        finally:
            with self.lock:
                self._n_users -= 1
                if self._n_users == 0:
                    self._restore()

    def _let_every_thread_set(self) -> None:
        """Let any thread set the count: threadpoolctl 3.8 only obeys the first thread that has set it."""
        for library in self._libraries.lib_controllers:
            if hasattr(library, "clear_controlling_thread"):
                library.clear_controlling_thread(force=True)

    def _restore(self) -> None:
        self._let_every_thread_set()
        self._limits.restore_original_limits()
        self._let_every_thread_set()

    def after_fork_in_child(self) -> None:
        if self._n_users:  # the threads of the users do not exist in this process
            self._restore()


_torch_threads, _blas_threads = _TorchThreads(), _BlasThreads()


def _after_fork_in_child() -> None:
    """Reset the state in a forked process, where threads that hold locks, or that OpenMP waits for, do not exist."""
    global _torch_threads, _blas_threads
    torch.set_num_threads(1)
    _blas_threads.after_fork_in_child()
    _torch_threads, _blas_threads = _TorchThreads(forked=True), _BlasThreads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _blas_threads.lock.acquire(),
        after_in_parent=lambda: _blas_threads.lock.release(),
        after_in_child=_after_fork_in_child,
    )


def flushes_denormals() -> bool:
    """Whether torch's operations in this thread flush denormal numbers to 0."""
    return bool(torch.tensor(1e-40, dtype=torch.float32).mul(1.0) == 0)


def start_torch_threads() -> None:
    """Start torch's threads, if they do not run yet, without flushing denormal numbers.

    New threads have the mode of the thread that starts them, and keep it. So if a fit were the first to need them,
    operations of the program would flush denormal numbers after it, too.
    """
    flushes = flushes_denormals()
    torch.set_flush_denormal(False)
    torch.zeros(2**16 * torch.get_num_threads()).add_(1.0)  # large enough to be divided among all threads
    torch.set_flush_denormal(flushes)


@contextmanager
def torch_threads(n_threads: int) -> Iterator[None]:
    """Within this context, in this Python thread, torch uses `n_threads` threads."""
    with _torch_threads.use(n_threads):
        yield


@contextmanager
def single_threaded_math() -> Iterator[None]:
    """Within this context, matrix products of NumPy and torch use one thread, for code that has its own threads."""
    with _blas_threads.use_one(), _torch_threads.use(1):
        yield
