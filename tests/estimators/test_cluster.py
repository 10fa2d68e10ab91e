"""A fit within joblib's configuration of a cluster is divided among its workers, and gives the same model."""

from __future__ import annotations

import importlib.util
import os
import signal
import threading
from typing import Any

import joblib
import numpy as np
import pytest
import torch

from tabgnm import FleetSearchCV
from tabgnm.estimators import time_limits
from tabgnm.nn.losses import SquaredError
from tabgnm.training import Fleet, FleetSettings
from tabgnm.training.cluster import n_cluster_workers, settings_of_worker
from tests.estimators.examples import gnm, numbers

needs_dask = pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="needs Dask")


@needs_dask
@pytest.mark.filterwarnings("ignore")  # of Dask, about a worker that is gone
def test_a_fit_survives_the_loss_of_a_dask_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import Client, LocalCluster

    X, y, _ = numbers(400)
    # In float64: tasks of a cluster are other fleets, whose rounding float32 would amplify.
    varied = {"activation": "auto", "n_layers": "auto", "n_nodes": 60, "precision": "float64"}
    model = gnm(n_candidates=4, n_folds=3, max_epochs=30, **varied)
    expected = model.fit(X, y).predict_proba(X)
    weights = [record["weight"] for record in model.fitted_.candidates]
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0") as cluster,  # type: ignore[no-untyped-call]
        Client(cluster) as client,  # type: ignore[no-untyped-call]
    ):
        monkeypatch.setattr(Fleet, "fit", lambda *_, **__: pytest.fail("trained in this process"))
        victim = next(iter(client.run(os.getpid).values()))
        killer = threading.Timer(0.5, lambda: os.kill(victim, signal.SIGKILL))
        with joblib.parallel_config("dask"):
            killer.start()
            model.fit(X, y)
        killer.join()
    assert [record["weight"] for record in model.fitted_.candidates] == pytest.approx(weights)
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-6)


def test_a_search_scores_its_fits_in_this_process_whatever_backend_is_configured() -> None:
    X, y, _ = numbers(60)
    processes = set()

    def score(model: object, X: object, y: object) -> float:  # noqa: ARG001 - the signature of a scorer
        processes.add(os.getpid())
        return 0.0

    with joblib.parallel_config("loky", n_jobs=2):
        FleetSearchCV(gnm(), {"dropout": [0.0, 0.1]}, cv=2, scoring=score, refit=False).fit(X, y)
    assert processes == {os.getpid()}


def test_processes_of_this_machine_train_a_fit_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, _ = numbers(200)
    model = gnm(n_candidates=2, n_folds=3, max_epochs=5, activation="auto", precision="float64")
    alone = model.fit(X, y).predict_proba(X)
    with joblib.parallel_config("loky", n_jobs=2):
        np.testing.assert_array_equal(model.fit(X, y).predict_proba(X), alone)  # too little work for other processes
        monkeypatch.setattr("tabgnm.training.cluster.MIN_WORK_OF_PROCESSES", 0.0)
        monkeypatch.setattr(Fleet, "fit", lambda *_, **__: pytest.fail("trained in this process"))
        np.testing.assert_allclose(model.fit(X, y).predict_proba(X), alone, atol=1e-6)


@pytest.mark.parametrize(("backend", "n_jobs"), [("threading", 2), ("loky", 1), ("loky", None)])
def test_threads_and_a_single_process_are_no_cluster(
    backend: str, n_jobs: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tabgnm.training.cluster.MIN_WORK_OF_PROCESSES", 0.0)
    X, y, _ = numbers(60)
    alone = gnm().fit(X, y).predict_proba(X)
    with joblib.parallel_config(backend, n_jobs=n_jobs):
        np.testing.assert_array_equal(gnm().fit(X, y).predict_proba(X), alone)


def test_processes_do_not_share_a_gpu() -> None:
    with joblib.parallel_config("loky", n_jobs=2):
        assert n_cluster_workers(torch.device("cpu"), 1e15) == 2
        assert n_cluster_workers(torch.device("cuda"), 1e15) == 0


def test_a_time_limit_measures_the_speed_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, _ = numbers(200)
    speeds: list[float] = []
    measure = time_limits._rows_per_second

    def watched(*arguments: Any) -> float:
        speeds.append(measure(*arguments))
        return speeds[-1]

    monkeypatch.setattr(time_limits, "_rows_per_second", watched)
    monkeypatch.setattr("tabgnm.training.cluster.MIN_WORK_OF_PROCESSES", 0.0)
    model = gnm(n_folds=2, max_epochs=3, time_limit=60)
    model.fit(X, y)
    with joblib.parallel_config("loky", n_jobs=2):
        model.fit(X, y)
    assert speeds[1] < 100 * speeds[0]  # workers report no epochs, which looked like an infinite speed


def test_processes_share_the_threads_of_a_fit() -> None:
    settings = FleetSettings(loss=SquaredError(), n_threads=5)
    with joblib.parallel_config("loky", n_jobs=2):
        assert settings_of_worker(settings, 2).n_threads == 2
        assert settings_of_worker(settings, 8).n_threads == 1
        assert settings_of_worker(FleetSettings(loss=SquaredError()), 2).n_threads is None
