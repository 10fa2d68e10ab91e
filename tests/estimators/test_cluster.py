"""A fit within joblib's configuration of a cluster is divided among its workers, and gives the same model."""

from __future__ import annotations

import importlib.util
import os
import signal
import threading

import joblib
import numpy as np
import pytest

from tabgnm import FleetSearchCV
from tabgnm.training import Fleet
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


def test_backends_of_this_machine_are_no_cluster() -> None:
    X, y, _ = numbers(60)
    alone = gnm().fit(X, y).predict_proba(X)
    with joblib.parallel_config("threading", n_jobs=2):
        np.testing.assert_array_equal(gnm().fit(X, y).predict_proba(X), alone)
