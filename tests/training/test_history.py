"""A history is plain data: JSON and back, also with losses that are no numbers."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabgnm.training import History
from tests.training.examples import BASE, different_members, settings_for, train

losses = st.lists(st.floats(allow_infinity=False), max_size=8)


def as_json(history: History) -> str:
    return json.dumps(history.as_dict(), allow_nan=False)


@given(losses, losses, st.integers(0, 8), st.sampled_from(["completed", "stopped_early", "diverged", "interrupted"]))
def test_a_history_survives_json(train_loss: list[float], val_loss: list[float], best_epoch: int, status: str) -> None:
    history = History(train_loss, val_loss, best_epoch, status)  # type: ignore[arg-type]
    again = History.from_dict(json.loads(as_json(history)))
    assert (again.best_epoch, again.status, again.n_epochs) == (best_epoch, status, len(train_loss))
    for one, other in ((again.train_loss, train_loss), (again.val_loss, val_loss)):
        assert one == pytest.approx(other, rel=0, abs=0, nan_ok=True)


def test_losses_that_are_not_finite_become_null() -> None:
    history = History([1.0, math.inf], [math.nan, 2.0], 1, "diverged")
    assert json.loads(as_json(history)) == {
        "train_loss": [1.0, None],
        "val_loss": [None, 2.0],
        "best_epoch": 1,
        "status": "diverged",
        "val_metric": [],
    }
    assert math.isnan(History.from_dict(history.as_dict()).train_loss[1])


def test_the_histories_of_a_fleet_survive_json_exactly() -> None:
    for precision in ("float32", "float64"):
        for model in train(BASE, different_members(3), settings_for(precision=precision)):
            assert History.from_dict(json.loads(as_json(model.history))) == model.history


def test_a_history_from_before_there_was_a_metric_can_be_read() -> None:
    history = History([1.0], [2.0], 1)
    values = history.as_dict()
    del values["val_metric"]
    assert History.from_dict(values) == history


def test_the_best_validation_loss_is_that_of_the_best_epoch() -> None:
    assert History([3.0, 2.0, 1.0], [0.5, 0.2, 0.9], 2).best_val_loss == 0.2
    assert math.isnan(History([3.0, 2.0], [], 2).best_val_loss)
    assert math.isnan(History([3.0], [math.nan], 0, "diverged").best_val_loss)
    assert History().n_epochs == 0
