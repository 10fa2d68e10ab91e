"""Ctrl-C ends a fit and its callers; the weights trained so far are kept."""

import itertools
import os
import signal

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

from tabgnm import FleetSearchCV, GNMClassifier
from tabgnm.training.epoch_loop import EpochLoop

X = np.random.default_rng(0).normal(size=(300, 4))
Y = (X[:, 0] > 0).astype(int)


def endless() -> GNMClassifier:
    return GNMClassifier(
        n_candidates=1, n_folds=2, max_epochs=100_000, patience=None, numeric_embedding=None, random_state=0
    )


@pytest.fixture
def _interrupted_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C after 50 epochs: on a busy machine, hardly any may be done after a second."""
    run_epoch = EpochLoop.run_epoch
    n_epochs = itertools.count(1)

    def run_and_interrupt(loop: EpochLoop) -> None:
        run_epoch(loop)
        if next(n_epochs) == 50:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(EpochLoop, "run_epoch", run_and_interrupt)


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


@pytest.mark.usefixtures("_interrupted_soon")
def test_learning_a_small_machine_from_labels_ends_too() -> None:
    with pytest.raises(KeyboardInterrupt):
        GNMClassifier().fit_sparse(X, Y, random_state=0)


@pytest.mark.usefixtures("_interrupted_soon")
def test_distilling_a_small_machine_ends_too() -> None:
    model = GNMClassifier(n_candidates=1, n_folds=2, max_epochs=5, random_state=0).fit(X, Y)
    with pytest.raises(KeyboardInterrupt):
        model.distill(X)
