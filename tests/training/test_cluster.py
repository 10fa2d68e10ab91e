"""Groups of fleets that workers of a cluster train; threads of this process stand in for the workers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import joblib
import numpy as np
import pytest
import torch

from tabgnm.nn import GNMShape
from tabgnm.training import Callback, Fleet, FleetPlan, FleetSettings, Job, Member, Table, cluster

X = torch.linspace(-1, 1, 40, dtype=torch.float64).unsqueeze(1)
TABLE = Table(X, X**2)


def task(seed: int, max_epochs: int = 3, device: str = "auto") -> cluster.FleetTask:
    settings = FleetSettings(loss="squared_error", max_epochs=max_epochs, precision="float64", device=device)
    return Fleet(GNMShape(1, 1, n_nodes=8 + seed, n_layers=2), [Member(seed=seed)], settings), [TABLE]


def sizes_of_groups(monkeypatch: pytest.MonkeyPatch, tasks: Sequence[cluster.FleetTask], n_at_once: int) -> list[int]:
    sizes, train = [], cluster._train

    def watched(group: Sequence[cluster.FleetTask], ends_at: float | None) -> Any:
        sizes.append(len(group))
        return train(group, ends_at)

    monkeypatch.setattr(cluster, "_train", watched)
    monkeypatch.setattr(cluster, "fleets_at_once", lambda _device: n_at_once)
    with joblib.parallel_config("threading", n_jobs=2):
        trained = dict(cluster.train_on_cluster(tasks, 2, None))
    for number, (fleet, tables) in enumerate(tasks):
        alone = fleet.fit(tables).models[0]
        for name, value in trained[number][0].parameters.items():
            np.testing.assert_allclose(value, alone.parameters[name], rtol=1e-9, err_msg=name)
    return sizes


def test_workers_with_a_gpu_get_several_fleets_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = [task(seed) for seed in range(10)]
    assert sorted(sizes_of_groups(monkeypatch, tasks, n_at_once=12)) == [2, 2, 3, 3]


@pytest.mark.parametrize(("device", "n_at_once"), [("auto", 1), ("cpu", 12)])
def test_others_get_one_fleet_at_a_time(monkeypatch: pytest.MonkeyPatch, device: str, n_at_once: int) -> None:
    tasks = [task(seed, device=device) for seed in range(5)]
    assert sizes_of_groups(monkeypatch, tasks, n_at_once) == [1] * 5


def test_a_worker_leaves_fleets_untrained_that_it_did_not_begin_before_the_deadline() -> None:
    results = cluster._train([task(0, max_epochs=10**6), task(1)], time.time() + 0.3)
    (first,), (second,) = results
    assert first.history.status == second.history.status == "interrupted"
    assert first.history.n_epochs > 0
    assert second.history.n_epochs == 0


def test_callbacks_hear_the_end_of_fleets_on_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []

    class Diary(Callback):
        def on_train_begin(self, n_models: int, max_epochs: int) -> None:  # noqa: ARG002 - the hook's signature
            heard.append("begin")

        def on_model_end(self, model: int, n_epochs: int, status: str) -> None:  # noqa: ARG002
            heard.append(status)

        def on_train_end(self) -> None:
            heard.append("end")

    fleet, tables = task(0)
    plan = FleetPlan([Job(fleet.shape, fleet.settings, Member(seed=seed)) for seed in range(2)], tables)
    monkeypatch.setattr("tabgnm.training.plan.n_cluster_workers", lambda *_: 1)
    with joblib.parallel_config("threading", n_jobs=2):
        [(planned, models)] = plan.run_fleets(progress=lambda _: Diary())
    assert planned == plan.fleets[0] and len(models) == 2
    assert heard == ["begin", "completed", "completed", "end"]


@pytest.mark.parametrize(("n_jobs", "n_workers"), [(1, 4), (2, 1), (5, 1), (5, 3), (7, 2), (160, 8)])
def test_tasks_of_a_fleet_have_about_the_same_size(n_jobs: int, n_workers: int) -> None:
    tasks = cluster.split(range(n_jobs), n_jobs, n_workers)
    sizes = [len(task) for task in tasks]
    assert sum(tasks, ()) == tuple(range(n_jobs))
    assert max(sizes) - min(sizes) <= 1 and min(sizes) >= min(n_jobs, 2)
    assert len(tasks) <= 2 * n_workers
