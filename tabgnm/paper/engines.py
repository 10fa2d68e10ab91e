"""Where fleets are trained: in this process, in processes of this machine, on a Dask cluster, or on Ray.

All of them are joblib backends, so the work is handed out by one line, and a worker runs nothing but `run_unit`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from typing import Any, Literal

import joblib
import torch

from tabgnm._extras import import_extra
from tabgnm.paper.protocol import Unit
from tabgnm.paper.work import Result, run_unit

_log = logging.getLogger("tabgnm.paper")

Engine = Literal["local", "dask", "ray"]
ENGINES = ("local", "dask", "ray")
_ATTEMPTS = 5  # after workers that died


def run_units(
    units: Sequence[Unit],
    *,
    engine: Engine = "local",
    n_jobs: int = 1,
    address: str | None = None,
    data_home: str | None = None,
    device: str = "auto",
    threads: int | None = None,
    verbose: int = 0,
    remaining: Callable[[], Sequence[Unit]] | None = None,
) -> Iterator[list[Result]]:
    """Train units and yield the results of each as it is done, in any order.

    Parameters
    ----------
    units : sequence of Unit
    engine : {"local", "dask", "ray"}, default="local"
    n_jobs : int, default=1
        Processes at once; 1 with "local" stays in this one. -1 means all workers of a cluster.
    address : str or None
        Of the scheduler of a Dask cluster or of a Ray head; None starts a local one with `n_jobs` workers.
    data_home, device
        As in `run_unit`; workers read the data sets by themselves.
    threads : int or None
        Threads of torch in each worker; None shares the cores of this machine among `n_jobs`.
    verbose : int
        Shows a progress bar per fleet, in this process only.
    remaining : callable or None
        After a worker died: gives the units that are still to be done. Without it, the failure is raised.
    """
    if engine not in ENGINES:
        raise ValueError(f"engine={engine!r} is not known; use one of {', '.join(map(repr, ENGINES))}")
    if engine == "local" and n_jobs == 1:
        for unit in units:
            yield run_unit(unit, data_home=data_home, device=device, verbose=verbose)
        return
    todo: Sequence[Unit] = units
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            yield from _in_parallel(todo, engine, n_jobs, address, data_home, device, threads)
            return
        except Exception as error:
            if remaining is None or attempt == _ATTEMPTS or not _is_lost_worker(error):
                raise
            todo = remaining()
            _log.warning("a worker died (%s); going on with the %d fleets that are left", error, len(todo))
            if not todo:
                return


def _in_parallel(
    units: Sequence[Unit],
    engine: Engine,
    n_jobs: int,
    address: str | None,
    data_home: str | None,
    device: str,
    threads: int | None,
) -> Iterator[list[Result]]:
    per_worker = threads or max(1, (joblib.cpu_count() or 1) // (n_jobs if n_jobs > 0 else joblib.cpu_count() or 1))
    with ExitStack() as endings:
        endings.enter_context(_backend(engine, n_jobs, address, endings))
        parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs")
        yield from parallel(
            joblib.delayed(_worker)(unit, data_home, device, per_worker, number) for number, unit in enumerate(units)
        )


def _backend(engine: Engine, n_jobs: int, address: str | None, endings: ExitStack) -> Any:
    """Return the context in which joblib uses the engine; clusters that are started here end with it."""
    if engine == "local":
        return joblib.parallel_config("loky") if n_jobs != 1 else nullcontext()
    if engine == "dask":
        distributed = import_extra("distributed", "dask", "the Dask engine")
        if address is None:
            cluster = endings.enter_context(
                distributed.LocalCluster(
                    n_workers=max(1, n_jobs), threads_per_worker=1, dashboard_address=None, processes=True
                )
            )
            address = cluster.scheduler_address
        endings.enter_context(distributed.Client(address, set_as_default=True))
        return joblib.parallel_config("dask")
    ray = import_extra("ray", "ray", "the Ray engine")
    from ray.util.joblib import register_ray

    if not ray.is_initialized():
        options = {"address": address} if address else {"num_cpus": max(1, n_jobs), "include_dashboard": False}
        ray.init(log_to_driver=False, logging_level="ERROR", **options)
        endings.callback(ray.shutdown)
    register_ray()
    return joblib.parallel_config("ray")


def _worker(unit: Unit, data_home: str | None, device: str, threads: int, number: int) -> list[Result]:
    torch.set_num_threads(threads)
    if device == "auto" and torch.cuda.device_count() > 1:
        device = f"cuda:{number % torch.cuda.device_count()}"  # one GPU per worker
    return run_unit(unit, data_home=data_home, device=device)


def _is_lost_worker(error: Exception) -> bool:
    """Whether an error means that a process is gone, and not that the work itself failed."""
    names = {cls.__name__ for cls in type(error).__mro__}
    return bool(names & {"BrokenProcessPool", "TerminatedWorkerError", "KilledWorker", "RayActorError", "ActorDiedError"})
