"""Training fleets on joblib's active backend: a cluster (Dask or Ray), or processes of this machine (loky)."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from tabgnm.nn.shapes import Shape
from tabgnm.training.concurrent_fleets import Interrupted, ended_at
from tabgnm.training.data import Table
from tabgnm.training.fleet import Fleet
from tabgnm.training.interruption import Interruption
from tabgnm.training.result import TrainedModel
from tabgnm.training.settings import FleetSettings, Member

_TASKS_PER_WORKER = 2  # so that workers that finish early can take another task
_SMALLEST_TASK = 2  # networks; a fleet of one would leave a core idle
MIN_WORK_OF_PROCESSES = 2e11  # multiply-adds, some seconds of a core: starting processes takes as long


def n_cluster_workers(device: torch.device, work: float) -> int:
    """Return the number of workers of joblib's active backend for `work` multiply-adds, or 0 for this process."""
    if "joblib" not in sys.modules:  # no backend can be active then, and importing joblib takes time
        return 0
    from joblib import _parallel_backends as backends
    from joblib.parallel import get_active_backend

    backend, n_jobs = get_active_backend()
    if isinstance(backend, backends.LokyBackend):  # the default; the program has chosen it if there is a number of jobs
        n_processes = 1 if n_jobs is None else int(backend.effective_n_jobs(n_jobs))
        return n_processes if n_processes > 1 and device.type == "cpu" and work >= MIN_WORK_OF_PROCESSES else 0
    # Threads of this process: fleets use them by themselves.
    local = backends.MultiprocessingBackend, backends.SequentialBackend, backends.ThreadingBackend
    return 0 if isinstance(backend, local) else max(1, int(backend.effective_n_jobs(-1)))


def settings_of_worker(settings: FleetSettings, n_workers: int) -> FleetSettings:
    """Return the settings of a fleet on a worker; processes of this machine share the threads that it may use."""
    from joblib import _parallel_backends as backends
    from joblib.parallel import get_active_backend

    if settings.n_threads is None or not isinstance(get_active_backend()[0], backends.LokyBackend):
        return settings  # a worker knows the number of its threads
    return replace(settings, n_threads=max(1, settings.n_threads // n_workers))


def split(jobs: Sequence[int], n_all: int, n_workers: int) -> list[tuple[int, ...]]:
    """Divide the jobs of a fleet into tasks, so that all fleets together have a few tasks per worker."""
    size = max(_SMALLEST_TASK, -(-n_all // (_TASKS_PER_WORKER * n_workers)))
    return [tuple(jobs[first : first + size]) for first in range(0, len(jobs), size)]


def train_on_cluster(
    tasks: Sequence[tuple[Shape, Sequence[Member], FleetSettings, Sequence[Table]]], deadline: float | None
) -> Iterator[tuple[int, list[TrainedModel]]]:
    """Train fleets on the active backend; yield (number of the task, its models) in order.

    At the deadline, workers end their fits as if they were interrupted, and `Interrupted` is raised at the end.
    """
    import joblib
    from joblib.parallel import get_active_backend

    # In wall-clock time, because the monotonic clocks of workers on other machines differ.
    ends_at = None if deadline is None else time.time() + deadline - time.monotonic()
    yields = getattr(get_active_backend()[0], "supports_return_generator", False)
    parallel = joblib.Parallel(return_as="generator" if yields else "list")
    cut_short = False
    for number, models in enumerate(parallel(joblib.delayed(_train)(*task, ends_at) for task in tasks)):
        cut_short |= any(model.history.status == "interrupted" for model in models)
        yield number, models
    if cut_short and deadline is not None:
        raise Interrupted(at_deadline=True)


def _train(
    shape: Shape, members: Sequence[Member], settings: FleetSettings, tables: Sequence[Table], ends_at: float | None
) -> list[TrainedModel]:
    deadline = None if ends_at is None else time.monotonic() + ends_at - time.time()
    with Interruption() as interruption, ended_at(deadline, interruption), interruption.around():
        return Fleet(shape, members, settings).fit(tables).models
