"""Engines that train fleets: in this process, in processes of this machine, on a Dask cluster, or on Ray.

Except for this process, all of them are joblib backends, so one call distributes the work. Workers only run `run_unit`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import joblib
import torch

from tabgnm._extras import import_extra
from tabgnm.paper.protocol import Unit
from tabgnm.paper.work import Result, run_unit
from tabgnm.training.concurrent_fleets import fleets_at_once, train_concurrently
from tabgnm.training.settings import torch_device

EngineName = Literal["local", "dask", "ray"]
ENGINES: tuple[str, ...] = get_args(EngineName)


# By default, Dask's workers return freed memory to the system at once. Training allocates the same memory again in the
# next step, and spends a third of its time on that.
_NO_TRIMMING = {"distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None}


class WorkerLostError(RuntimeError):
    """A worker process was lost; its work has to be repeated."""


@dataclass(frozen=True)
class Engine:
    """Where and how fleets are trained.

    Parameters
    ----------
    name : {"local", "dask", "ray"}, default="local"
    n_jobs : int, default=1
        The number of workers. With "local", 1 trains in this process (on a GPU, several fleets at once). -1 means all
        cores, or all workers of a cluster.
    address : str or None, default=None
        The address of the scheduler of a Dask cluster, or of a Ray head. If None, a cluster with `n_jobs` workers is
        started on this machine.
    data_home : str or None, default=None
        The folder of data sets, from which each worker reads.
    device : str, default="auto"
        The device. "auto" uses a GPU if one is available, and distributes the GPUs of a machine among its workers.
    threads : int or None, default=None
        The number of torch threads per worker. If None, the cores of the machine are divided among `n_jobs` workers;
        workers of a cluster use one thread each.
    """

    name: str = "local"
    n_jobs: int = 1
    address: str | None = None
    data_home: str | None = None
    device: str = "auto"
    threads: int | None = None

    def __post_init__(self) -> None:
        if self.name not in ENGINES:
            raise ValueError(f"engine {self.name!r} is not known; use one of {', '.join(map(repr, ENGINES))}")
        if self.n_jobs == 0 or self.n_jobs < -1:
            raise ValueError(f"n_jobs must be at least 1, or -1 for all; got {self.n_jobs}")
        if self.address is not None and self.name == "local":
            raise ValueError(f"address={self.address!r} requires a cluster; use it with engine 'dask' or 'ray'")

    def run(self, units: Iterable[Unit]) -> Iterator[list[Result]]:
        """Train units, and yield the results of each as soon as it is done, in any order.

        Units are taken from the iterable only when a worker is free.
        """
        if self.name == "local" and self.n_jobs == 1:
            tasks = (partial(run_unit, unit, data_home=self.data_home, device=self.device) for unit in units)
            for _, results in train_concurrently(tasks, torch_device(self.device)):
                yield results
            return
        with ExitStack() as endings:
            backend = _backend(self, endings)
            endings.enter_context(joblib.parallel_config(backend))
            parallel = joblib.Parallel(
                n_jobs=self.n_jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="n_jobs"
            )
            try:
                size = _units_per_task(parallel, self)
                tasks_of_units = enumerate(_in_groups(units, size))
                for group in parallel(joblib.delayed(_worker)(own, self, number) for number, own in tasks_of_units):
                    yield from group
            except Exception as error:
                if _is_lost_worker(error):
                    raise WorkerLostError(f"a worker process was lost: {error}") from error
                raise

    @property
    def n_workers(self) -> int | None:
        """The number of workers; None if it is not known, for all workers of a remote cluster."""
        if self.n_jobs != -1:
            return self.n_jobs
        return int(joblib.cpu_count()) if self.address is None else None

    def threads_per_worker(self) -> int:
        """Return the number of threads that torch may use in a worker."""
        if self.threads is not None:
            return self.threads
        if self.address is not None:
            return 1
        return max(1, int(joblib.cpu_count()) // (self.n_workers or 1))


def _backend(engine: Engine, endings: ExitStack) -> str:
    """Return the name of joblib's backend; a cluster that is started here is closed by `endings`."""
    if engine.name == "dask":
        distributed = import_extra("distributed", "dask", "the Dask engine")
        address = engine.address
        if address is None:
            with import_extra("dask", "dask", "the Dask engine").config.set(_NO_TRIMMING):
                cluster = distributed.LocalCluster(
                    n_workers=engine.n_workers, threads_per_worker=1, dashboard_address="127.0.0.1:0"
                )
            address = endings.enter_context(cluster).scheduler_address
        endings.enter_context(distributed.Client(address, set_as_default=True))
        return "dask"
    if engine.name == "ray":
        ray = import_extra("ray", "ray", "the Ray engine")
        if not ray.is_initialized():
            where = {"address": engine.address} if engine.address else {"num_cpus": engine.n_workers}
            ray.init(log_to_driver=False, logging_level="ERROR", include_dashboard=False, **where)
            endings.callback(ray.shutdown)
        _register_ray()
        return "tabgnm-ray"
    return "loky"


def _register_ray() -> None:
    """Register Ray's backend with one change: results can be consumed as they arrive.

    Ray delivers each result by a callback, which is all that joblib needs. Its backend disables this only because it
    inherits the flag from multiprocessing's backend, whose pool cannot be interrupted.
    """
    backends: Any = import_extra("ray.util.joblib.ray_backend", "ray", "the Ray engine")

    class RayBackend(backends.RayBackend):  # type: ignore[misc] # Ray's backend is untyped
        supports_return_generator = True

    joblib.register_parallel_backend("tabgnm-ray", RayBackend)


def _worker(units: list[Unit], engine: Engine, number: int) -> list[list[Result]]:
    """Train units, several at once on a GPU, and return the results of each."""
    torch.set_num_threads(engine.threads_per_worker())
    device, n_gpus = engine.device, torch.cuda.device_count()
    if device == "auto" and n_gpus > 1:
        device = f"cuda:{number % n_gpus}"  # one GPU per worker
    tasks = (partial(run_unit, unit, data_home=engine.data_home, device=device) for unit in units)
    return [results for _, results in train_concurrently(tasks, torch_device(device))]


def _units_per_task(parallel: joblib.Parallel, engine: Engine) -> int:
    """Return the number of units per task: as many as a worker's GPU trains at once, or one on a CPU."""
    # The workers may be on other machines, so this is computed by one of them.
    return int(next(iter(parallel([joblib.delayed(_fleets_at_once)(engine.device)]))))


def _fleets_at_once(device: str) -> int:
    return fleets_at_once(torch_device(device))


def _in_groups(units: Iterable[Unit], size: int) -> Iterator[list[Unit]]:
    remaining = iter(units)
    while group := list(itertools.islice(remaining, size)):
        yield group


_LOST = {"BrokenProcessPool", "TerminatedWorkerError", "KilledWorker", "RayActorError", "ActorDiedError"}


def _is_lost_worker(error: Exception) -> bool:
    """Whether an error means that a process has died, and not that the work itself failed."""
    return any(kind.__name__ in _LOST for kind in type(error).__mro__)
