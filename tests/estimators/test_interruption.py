"""Ctrl-C ends a fit and its callers; the weights trained so far are kept."""

import os
import signal
import threading
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

from tabgnm import FleetSearchCV, GNMClassifier

X = np.random.default_rng(0).normal(size=(300, 4))
Y = (X[:, 0] > 0).astype(int)


def endless() -> GNMClassifier:
    return GNMClassifier(
        n_candidates=1, n_folds=2, max_epochs=100_000, patience=None, numeric_embedding=None, random_state=0
    )


@pytest.fixture
def _interrupted_soon() -> Any:
    timer = threading.Timer(0.7, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    yield
    timer.cancel()


@pytest.mark.usefixtures("_interrupted_soon")
def test_an_interrupted_fit_raises_and_leaves_a_fitted_estimator() -> None:
    model = endless()
    with pytest.raises(KeyboardInterrupt, match="best weights"):
        model.fit(X, Y)
    assert model.history_[0]["status"] == "interrupted" and len(model.history_[0]["train_loss"]) >= 1
    assert model.score(X, Y) > 0.8


@pytest.mark.usefixtures("_interrupted_soon")
def test_a_cross_validation_ends_too() -> None:
    with pytest.raises(KeyboardInterrupt):
        cross_val_score(endless(), X, Y, cv=3)


@pytest.mark.usefixtures("_interrupted_soon")
def test_a_search_ends_too() -> None:
    with pytest.raises(KeyboardInterrupt, match="the search was interrupted; its results are discarded"):
        FleetSearchCV(endless(), {"dropout": [0.0, 0.2]}, cv=2).fit(X, Y)
