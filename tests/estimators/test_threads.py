"""`n_jobs`: the number of threads for training and prediction on a CPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from tabgnm import FleetSearchCV
from tabgnm.estimators import base, importance, prediction, preparing
from tabgnm.training import Fleet, FleetPlan
from tabgnm.training.steps import TorchStep
from tabgnm.training.thread_pool import ThreadPool
from tests.estimators.examples import gnm, gnmr, mlp, mlpr, numbers

X, Y, T = numbers()
INVALID = [0, 10**6, 1.5, "2", True]


@pytest.fixture(autouse=True)
def _two_threads_by_default() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


@pytest.fixture
def predicted_with(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Thread counts of torch during the forward passes of predictions."""
    seen: list[int] = []
    forward = prediction.forward

    def watched(*arguments: Any) -> Any:
        seen.append(torch.get_num_threads())
        return forward(*arguments)

    monkeypatch.setattr(prediction, "forward", watched)
    return seen


@pytest.fixture
def fleet_threads(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """`n_threads` of the fleets that are trained."""
    seen: list[Any] = []
    fit = Fleet.fit

    def watched(self: Fleet, *arguments: Any, **more: Any) -> Any:
        seen.append(self.settings.n_threads)
        return fit(self, *arguments, **more)

    monkeypatch.setattr(Fleet, "fit", watched)
    return seen


@pytest.mark.parametrize(("n_jobs", "expected"), [(None, 2), (1, 1), (3, 3), (np.int64(3), 3)])
def test_prediction_uses_n_jobs_threads(
    n_jobs: Any, expected: int, predicted_with: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier, regressor = mlp(n_jobs=n_jobs).fit(X, Y), mlpr(n_jobs=n_jobs).fit(X, T)
    monkeypatch.setattr(prediction, "_SINGLE_THREAD_ELEMENTS", 0)
    classifier.predict_proba(X)
    regressor.predict(X)
    classifier.permutation_importance(X, Y, n_repeats=1)
    assert set(predicted_with) == {expected}


@pytest.mark.parametrize(("n_jobs", "expected"), [(None, 2), (1, 1), (3, 3)])
def test_many_rows_are_predicted_by_n_jobs_threads(n_jobs: Any, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    class Watched(ThreadPool):
        def __init__(self, n_threads: int) -> None:
            seen.append(n_threads)
            super().__init__(n_threads)

    model = mlp(n_jobs=n_jobs).fit(X, Y)
    monkeypatch.setattr("tabgnm.estimators.cpu_outputs.ThreadPool", Watched)
    model.predict(np.resize(X, (2000, X.shape[1])))
    assert seen == [expected]
    assert not [thread for thread in threading.enumerate() if thread.name == "tabgnm-step"]


def test_a_few_rows_are_predicted_with_one_thread(predicted_with: list[int]) -> None:
    mlp(n_jobs=3).fit(X, Y).predict(X[:5])
    assert predicted_with == [1]


def test_all_cores_are_those_that_the_process_may_use(
    predicted_with: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 3, 5}, raising=False)
    monkeypatch.setattr(prediction, "_SINGLE_THREAD_ELEMENTS", 0)
    mlp(n_jobs=-1).fit(X, Y).predict(X)
    assert predicted_with == [3]


@pytest.mark.parametrize(("n_jobs", "expected"), [(None, 2), (1, 1), (3, 3)])
def test_training_and_importance_use_n_jobs_threads(
    n_jobs: int | None, expected: int, fleet_threads: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    gradient = importance.gradient_times_input

    def watched(*arguments: Any) -> Any:
        seen.append(torch.get_num_threads())
        return gradient(*arguments)

    monkeypatch.setattr(importance, "gradient_times_input", watched)
    gnmr(n_nodes=40, n_jobs=n_jobs).fit(X, T)
    assert (fleet_threads, seen) == ([n_jobs], [expected])


@pytest.mark.parametrize(("n_jobs", "expected"), [(None, 2), (1, 1), (3, 3)])
def test_training_steps_run_with_n_jobs_threads(
    n_jobs: int | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[tuple[int, int]] = set()
    train_block = TorchStep.train_block

    def watched(self: TorchStep, *arguments: Any) -> None:
        seen.add((self._state.n_threads, torch.get_num_threads()))
        train_block(self, *arguments)

    monkeypatch.setattr(TorchStep, "train_block", watched)
    monkeypatch.setattr("tabgnm.training.steps.torch_step._ONE_THREAD_WORK", 0)
    gnm(n_nodes=40, combine="residual", n_jobs=n_jobs).fit(X, Y)
    assert seen == {(expected, expected)}


def test_the_model_does_not_depend_on_n_jobs_up_to_rounding() -> None:
    one, three = (gnm(n_nodes=40, n_jobs=n_jobs).fit(X, Y) for n_jobs in (1, 3))
    (ours,), (theirs,) = one.fitted_.groups, three.fitted_.groups
    for name, values in ours.parameters.items():
        np.testing.assert_allclose(values, theirs.parameters[name], atol=1e-5)


def test_n_jobs_may_change_between_warm_starts(fleet_threads: list[Any]) -> None:
    model = mlp(n_jobs=1, warm_start=True).fit(X, Y)
    model.set_params(n_jobs=2).fit(X, Y).set_params(n_jobs=None).partial_fit(X, Y)
    assert fleet_threads == [1, 2, None]


@pytest.mark.parametrize("n_jobs", INVALID)
def test_an_invalid_n_jobs_is_refused_before_the_table_is_read(n_jobs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def unexpected(_: Any) -> None:
        raise AssertionError("the table was read")

    model = mlp().fit(X, Y).set_params(n_jobs=n_jobs)
    monkeypatch.setattr(preparing, "read_table", unexpected)
    monkeypatch.setattr(base, "read_table", unexpected)
    message = rf"n_jobs must be None, .*; got {re.escape(repr(n_jobs))}"
    for call in (lambda: model.fit(X, Y), lambda: model.partial_fit(X, Y), lambda: model.predict(X)):
        with pytest.raises(ValueError, match=f"^{message}"):
            call()


def test_fits_in_several_python_threads_leave_the_thread_count_of_torch_as_it_was() -> None:
    found: list[int] = []

    def fit_and_predict(n_jobs: int | None) -> None:
        for _ in range(3):
            mlp(n_jobs=n_jobs).fit(X, Y).predict(X)
        found.append(torch.get_num_threads())

    threads = [threading.Thread(target=fit_and_predict, args=[n_jobs]) for n_jobs in (None, 1, 3)]
    for thread in threads:
        thread.start()
    fit_and_predict(1)
    for thread in threads:
        thread.join()
    assert found == [2] * 4


def test_predicting_in_several_python_threads_leaves_the_thread_count_of_torch_as_it_was() -> None:
    model = gnm(n_nodes=40).fit(X, Y)
    found: list[int] = []

    def predict() -> None:
        for _ in range(30):
            model.predict(X[:20])
        found.append(torch.get_num_threads())

    threads = [threading.Thread(target=predict) for _ in range(3)]
    for thread in threads:
        thread.start()
    predict()
    for thread in threads:
        thread.join()
    assert found == [2] * 4


def test_a_search_trains_with_the_n_jobs_of_its_estimator(fleet_threads: list[Any]) -> None:
    FleetSearchCV(mlp(n_jobs=3), {"dropout": [0.0, 0.2]}, cv=2).fit(X, Y)
    assert fleet_threads == [3, 3]  # all candidates and folds, and the refit


def test_candidates_that_differ_in_n_jobs_get_the_same_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[list[int]] = []
    run_fleets = FleetPlan.run_fleets

    def watched(self: FleetPlan, **arguments: Any) -> Any:
        sizes.append([len(fleet.jobs) for fleet in self.fleets])
        return run_fleets(self, **arguments)

    monkeypatch.setattr(FleetPlan, "run_fleets", watched)
    search = FleetSearchCV(mlp(), {"n_jobs": [None, 1, 3]}, cv=2, scoring="neg_log_loss", refit=False).fit(X, Y)
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], search.cv_results_["mean_test_score"][0], rtol=1e-5
    )
    assert sizes == [[4, 4, 4]]  # folds x members, in a fleet for each n_jobs


_FORKS = """
import os
import numpy as np
import torch
from tabgnm import MLPClassifier
torch.set_num_threads(2)
X = np.random.default_rng(0).normal(size=(3000, 4))
model = MLPClassifier(hidden=(64,), n_candidates=1, n_folds=2, max_epochs=2, random_state=0, device="cpu")
model.fit(X, X[:, 0] > 0).predict(X)
child = os.fork()
if child == 0:
    model.fit(X, X[:, 0] > 0).predict(X)
    os._exit(17)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
assert torch.get_num_threads() == 2
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_can_fit_after_its_parent_did() -> None:
    """OpenMP of a forked process would wait for threads that were not forked."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", _FORKS], check=True, timeout=120)


_FORKS_WHILE_PREDICTING = """
import os, threading, time
import numpy as np
from tabgnm import MLPClassifier
X = np.random.default_rng(0).normal(size=(3000, 4))
model = MLPClassifier(hidden=(256, 256), n_candidates=1, n_folds=2, max_epochs=1, random_state=0, device="cpu")
expected = model.fit(X, X[:, 0] > 0).predict_proba(X)
done, n_predictions = threading.Event(), 0

def predict():
    global n_predictions
    while not done.is_set():
        model.predict_proba(X)
        n_predictions += 1

thread = threading.Thread(target=predict)
thread.start()
for rows in [X[:1000], X[:100]] * 10:
    child = os.fork()
    if child == 0:
        right = np.allclose(model.predict_proba(rows), expected[:len(rows)], rtol=0, atol=1e-6)
        os._exit(17 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
n_before = n_predictions
while n_predictions < n_before + 5:
    time.sleep(0.01)
done.set()
thread.join()
assert np.allclose(model.predict_proba(X), expected, rtol=0, atol=1e-6)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_can_be_forked_while_another_thread_predicts() -> None:
    """`fork` ends the threads of OpenBLAS, so no prediction may use them."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", _FORKS_WHILE_PREDICTING], check=True, timeout=120)
