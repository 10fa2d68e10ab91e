"""Training fleets on joblib's active backend: a cluster (Dask or Ray), or processes of this machine (loky)."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import torch

from tabgnm.training.concurrent_fleets import Interrupted, fleets_at_once, train_concurrently
from tabgnm.training.data import Table
from tabgnm.training.fleet import Fleet
from tabgnm.training.result import FleetResult, TrainedModel
from tabgnm.training.settings import FleetSettings
from tabgnm.training.steps.numpy_step import ranges

_TASKS_PER_WORKER = 2  # so that workers that finish early can take another task
_SMALLEST_TASK = 2  # networks; a fleet of one would leave a core idle
MIN_WORK_OF_PROCESSES = 2e11  # multiply-adds, some seconds of a core: starting processes takes as long

FleetTask = tuple[Fleet, Sequence[Table]]


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
    n_tasks = max(1, min(-(-len(jobs) // size), len(jobs) // _SMALLEST_TASK))
    return [tuple(jobs[own]) for own in ranges(len(jobs), n_tasks)]


def train_on_cluster(
    tasks: Sequence[FleetTask], n_workers: int, deadline: float | None
) -> Iterator[tuple[int, list[TrainedModel]]]:
    """Train fleets on the active backend; yield (number of the task, its models).

    Workers with a GPU get several fleets at a time, to train them at once. At the deadline, workers end their fits as
    if they were interrupted, and `Interrupted` is raised at the end.
    """
    import joblib
    from joblib.parallel import get_active_backend

    # In wall-clock time, because the monotonic clocks of workers on other machines differ.
    ends_at = None if deadline is None else time.time() + deadline - time.monotonic()
    yields = getattr(get_active_backend()[0], "supports_return_generator", False)
    parallel = joblib.Parallel(return_as="generator" if yields else "list")
    n_groups = len(tasks)
    if not all(fleet.settings.device == "cpu" for fleet, _ in tasks):
        # A worker may have another device than this machine, so one of them is asked.
        n_at_once = next(iter(parallel([joblib.delayed(_fleets_at_once)(tasks[0][0].settings)])))
        n_groups = min(n_groups, _TASKS_PER_WORKER * n_workers) if n_at_once > 1 else n_groups
    groups = [range(first, len(tasks), n_groups) for first in range(n_groups)]  # with about the same work
    cut_short = False
    delayed = (joblib.delayed(_train)([tasks[number] for number in group], ends_at) for group in groups)
    for group, results in zip(groups, parallel(delayed), strict=True):
        for number, models in zip(group, results, strict=True):
            cut_short |= any(model.history.status == "interrupted" for model in models)
            yield number, models
    if cut_short and deadline is not None:
        raise Interrupted(at_deadline=True)


def _fleets_at_once(settings: FleetSettings) -> int:
    return fleets_at_once(settings.torch_device())


def _train(tasks: Sequence[FleetTask], ends_at: float | None) -> list[list[TrainedModel]]:
    """Train fleets in a worker; those that it did not begin before the deadline have their initial weights."""
    deadline = None if ends_at is None else time.monotonic() + ends_at - time.time()
    fits = [partial(fleet.fit, tables) for fleet, tables in tasks]
    done: dict[int, FleetResult] = {}
    with suppress(Interrupted):  # results that were yielded before it are kept
        done.update(train_concurrently(fits, tasks[0][0].settings.torch_device(), deadline=deadline))
    return [(done[i] if i in done else fleet.untrained()).models for i, (fleet, _) in enumerate(tasks)]
