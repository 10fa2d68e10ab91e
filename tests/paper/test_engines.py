"""The same table wherever fleets are trained, and when workers die in the middle."""

from __future__ import annotations

import importlib.util
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import pytest
import torch

from tabgnm._extras import MissingExtraError
from tabgnm.paper import Engine, ExperimentPlan, Progress, ResultStore, WorkerLostError, engines, run
from tests.paper.examples import small_plan, table


def needs(module: str, extra: str) -> pytest.MarkDecorator:
    missing = importlib.util.find_spec(module) is None
    return pytest.mark.skipif(missing, reason=f'{module} is not installed: pip install "tabgnm[{extra}]"')


needs_dask = needs("distributed", "dask")
needs_ray = needs("ray", "ray")
needs_psutil = pytest.mark.skipif(importlib.util.find_spec("psutil") is None, reason="finds workers with psutil")
# Clusters leave sockets and files to the garbage collector, and Ray reads the clock in a deprecated way.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"
)


def result_table(
    path: Path, work: ExperimentPlan, engine: Engine, progress: Callable[[Progress], Any] | None = None
) -> Any:
    with ResultStore(path) as store:
        run(work, store, engine, progress=progress)
        return table(store)


def expected(path: Path, work: ExperimentPlan) -> Any:
    return result_table(path / "expected.sqlite", work, Engine(device="cpu"))


@needs_dask
def test_a_dask_cluster_gives_the_same_table(tmp_path: Path) -> None:
    work = small_plan(5)
    found = result_table(tmp_path / "dask.sqlite", work, Engine("dask", n_jobs=2, device="cpu"))
    assert found == expected(tmp_path, work) and len(found) == 20


@needs_dask
def test_so_does_one_whose_workers_train_several_fleets_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "_units_per_task", lambda *_: 3)  # as on a GPU, which this machine need not have
    work = small_plan(5)
    found = result_table(tmp_path / "dask.sqlite", work, Engine("dask", n_jobs=2, device="cpu"))
    assert found == expected(tmp_path, work) and len(found) == 20


@pytest.mark.slow
def test_processes_of_this_machine_give_the_same_table(tmp_path: Path) -> None:
    work = small_plan(5)
    assert result_table(tmp_path / "a", work, Engine(n_jobs=2, device="cpu")) == expected(tmp_path, work)


@needs_ray
@pytest.mark.slow
def test_ray_gives_the_same_table(tmp_path: Path) -> None:
    work = small_plan(5)
    assert result_table(tmp_path / "a", work, Engine("ray", n_jobs=2, device="cpu")) == expected(tmp_path, work)


class Killer:
    """Kills one worker when the first fleet is done."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names, self.killed = names, 0

    def __call__(self, progress: Progress) -> None:
        import psutil

        if not 0 < progress.done < progress.total or self.killed:
            return
        for process in psutil.Process().children(recursive=True):
            command = " ".join(process.cmdline())
            if any(name in command for name in self.names):
                os.kill(process.pid, signal.SIGKILL)
                self.killed += 1
                return


@pytest.mark.slow
@needs_psutil
@pytest.mark.parametrize(
    ("name", "processes"),
    [
        pytest.param("local", ("popen_loky_posix",), id="local"),
        pytest.param("dask", ("spawn_main",), id="dask", marks=needs_dask),
        pytest.param("ray", ("ray::PoolActor",), id="ray", marks=needs_ray),
    ],
)
def test_a_worker_that_is_killed_is_survived(tmp_path: Path, name: str, processes: tuple[str, ...]) -> None:
    work = small_plan(10, max_epochs=8)
    killer = Killer(processes)
    found = result_table(tmp_path / "a", work, Engine(name, n_jobs=2, device="cpu"), killer)
    assert killer.killed == 1, "no worker was found"
    assert found == expected(tmp_path, work)


def test_workers_that_die_again_and_again_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object, **__: object) -> Any:
        raise WorkerLostError("a worker process is gone")

    monkeypatch.setattr(engines, "run_unit", lost)
    with ResultStore(tmp_path / "a") as store, pytest.raises(WorkerLostError):
        run(small_plan(2), store)
    with ResultStore(tmp_path / "a") as store:  # and nothing stays claimed
        assert len(store.claims.take(small_plan(2).result_keys())) == 8


def test_work_that_fails_is_not_taken_for_a_worker_that_died(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def fails(unit: object, **_: object) -> Any:
        calls.append(unit)
        raise ValueError("this network cannot be trained")

    monkeypatch.setattr(engines, "run_unit", fails)
    with ResultStore(tmp_path / "a") as store, pytest.raises(ValueError, match="this network cannot be trained"):
        run(small_plan(3), store)
    assert len(calls) == 1


def test_no_engine_is_started_while_others_are_at_all_of_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []
    monkeypatch.setattr(Engine, "run", lambda *_: started.append(1) or iter(()))
    work = small_plan(2)
    results = [result for unit in work.units for result in engines.run_unit(unit, device="cpu")]
    with ResultStore(tmp_path / "a") as store, ResultStore(tmp_path / "a") as other:
        other.claims.take(work.result_keys())
        ending = threading.Timer(0.4, other.add, [results])
        ending.start()
        run(work, store, Engine("dask", n_jobs=2))
        ending.join()
        assert len(store.results()) == 8 and not started


def test_torch_gets_its_share_of_the_cores_in_every_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joblib, "cpu_count", lambda: 8)
    assert Engine(n_jobs=4).threads_per_worker() == 2
    assert Engine(n_jobs=-1).threads_per_worker() == Engine(n_jobs=16).threads_per_worker() == 1
    assert Engine("dask", address="tcp://head:8786").threads_per_worker() == 1
    assert Engine(n_jobs=4, threads=3).threads_per_worker() == 3
    seen = []
    monkeypatch.setattr(engines, "run_unit", lambda *_, **__: seen.append(torch.get_num_threads()))
    before = torch.get_num_threads()
    try:
        engines._worker(small_plan(1).units[:1], Engine(n_jobs=8), 0)
    finally:
        torch.set_num_threads(before)
    assert seen == [1]


def test_workers_take_the_gpus_of_a_machine_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(engines, "run_unit", lambda *_, device, **__: seen.append(device))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(engines, "torch_device", lambda _: torch.device("cpu"))  # this machine need not have any
    for number in range(3):
        engines._worker(small_plan(1).units[:1], Engine(threads=torch.get_num_threads()), number)
    engines._worker(small_plan(1).units[:1], Engine(device="cpu", threads=torch.get_num_threads()), 0)
    assert seen == ["cuda:0", "cuda:1", "cuda:0", "cpu"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"name": "slurm"}, "engine 'slurm' is not known; use one of 'local', 'dask', 'ray'"),
        ({"n_jobs": 0}, "n_jobs must be at least 1, or -1 for all; got 0"),
        ({"address": "tcp://head"}, "address='tcp://head' requires a cluster; use it with engine 'dask' or 'ray'"),
    ],
)
def test_engines_that_cannot_be_are_refused(bad: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Engine(**bad)


@pytest.mark.parametrize(("name", "module"), [("dask", "distributed"), ("ray", "ray")])
def test_an_engine_that_is_not_installed_says_how_to_get_it(
    name: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        engines, "import_extra", lambda *args: (_ for _ in ()).throw(MissingExtraError(module, *args[1:]))
    )
    with pytest.raises(MissingExtraError, match=rf'needs {module}, .* pip install "tabgnm\[{name}\]"'):
        next(Engine(name, n_jobs=2).run(small_plan(1).units))
