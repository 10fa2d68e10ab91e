"""Networks get fewer epochs if the first ones soon stopped improving."""

from typing import Any

import numpy as np
import pytest

from tabgnm import GNMClassifier, GNMRegressor
from tabgnm.estimators.effort import effort_for

N_ROWS = 600
FULL = effort_for("fast", "cpu", N_ROWS).max_epochs


def noisy_table() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N_ROWS, 4))
    return x, (x[:, 0] + 2 * rng.normal(size=N_ROWS) > 0).astype(int)


def exact_table() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    x = np.random.default_rng(0).normal(size=(N_ROWS, 3))
    return x, np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2]


def n_epochs(model: GNMClassifier | GNMRegressor) -> list[int]:
    """Return the numbers of epochs of all networks that were kept, most first."""
    return sorted((len(own["val_loss"]) for own in model.history_), reverse=True)


def test_networks_are_trained_for_a_quarter_of_the_epochs_if_the_first_were_soon_best() -> None:
    clf = GNMClassifier(effort="fast", device="cpu", random_state=0).fit(*noisy_table())
    epochs = n_epochs(clf)
    assert max(epochs[2:]) <= FULL // 4
    assert min(clf.pack_["best_epoch"]) > 0


def test_all_networks_have_all_epochs_if_the_first_need_them() -> None:
    model = GNMRegressor(effort="fast", device="cpu", random_state=0).fit(*exact_table())
    assert n_epochs(model)[2] > FULL // 4


@pytest.mark.parametrize("given", [{"max_epochs": 60}, {"patience": 40}, {"effort": "best", "n_candidates": 2}])
def test_a_number_of_epochs_or_a_patience_that_is_given_is_kept(given: dict[str, Any]) -> None:
    clf = GNMClassifier(**({"effort": "fast", "device": "cpu", "random_state": 0} | given)).fit(*noisy_table())
    assert n_epochs(clf)[2] > FULL // 4


def test_a_time_limit_that_is_long_enough_changes_nothing() -> None:
    x, y = noisy_table()
    models = [
        GNMClassifier(effort="fast", device="cpu", random_state=0, time_limit=limit).fit(x, y) for limit in (None, 600)
    ]
    assert n_epochs(models[0]) == n_epochs(models[1])


def test_progress_counts_the_epochs_that_are_left(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="tabgnm"):
        GNMClassifier(effort="fast", device="cpu", random_state=0, verbose=1).fit(*noisy_table())
    assert "the first networks were best after" in caplog.text
    assert "trained 8 of 8 networks" in caplog.text
