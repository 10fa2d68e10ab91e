"""Points, the machine that learns from them, and what is sent of both."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tabgnm.play.frames import GRID, SCALE, History, frame_event, grid_rows
from tabgnm.play.learner import Diverged, Learner, Scores
from tabgnm.play.points import MAX_ROWS, from_table, generated
from tabgnm.play.settings import GENERATED, Settings
from tabgnm.training.threads import single_threaded_math


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As in the thread of a session."""
    with single_threaded_math():
        yield


def decoded(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype="<i2").reshape(GRID, GRID) / SCALE


@pytest.mark.parametrize("name", GENERATED)
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_generated_points_lie_within_the_window_and_have_two_classes(name: str, noise: float) -> None:
    points = generated(name, noise)
    assert points.rows.shape == (400, 2) and points.n_train == 240
    assert set(points.labels[:240]) == set(points.labels[240:]) == {0, 1}
    inside = (points.window[:, 0] < points.rows) & (points.rows < points.window[:, 1])
    assert inside.mean() > 0.98


def test_more_noise_makes_points_harder_to_learn() -> None:
    accuracy = []
    for noise in (0.0, 1.0):
        learner = Learner(generated("xor", noise), 12, 2, seed=0)
        for _ in range(20):
            learner.train_epoch(0.03, 0.0)
        accuracy.append(learner.scores().test_accuracy)
    assert accuracy[0] > 0.98 and accuracy[1] < 0.95


def table(n_rows: int = 60) -> pd.DataFrame:
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(generator.normal(size=(n_rows, 3)) * [1, 100, 1e-3], columns=["a", "b", "c"])
    return frame.assign(name="text", constant=1.0, label=np.arange(n_rows) % 3, flag=frame["a"] > 0)


def test_a_table_gives_its_first_two_numeric_columns_or_those_that_are_named() -> None:
    data = table()
    before = data.copy()
    points = from_table(data, None, "label")
    assert points.names == ("a", "b") and points.class_names == ("0", "1", "2")
    chosen = from_table(data, ["c", "b"], "flag")
    assert chosen.names == ("c", "b") and chosen.class_names == ("False", "True")
    values = np.sort(chosen.center + chosen.scale * chosen.rows, axis=0)
    np.testing.assert_allclose(values, np.sort(data[["c", "b"]].to_numpy(), axis=0), rtol=1e-4, atol=1e-4)
    pd.testing.assert_frame_equal(data, before)


def test_rows_with_missing_values_are_left_out_and_a_long_table_is_sampled() -> None:
    data = table(2 * MAX_ROWS)
    data.loc[:20, "a"] = np.nan
    data.loc[20:30, "b"] = np.inf
    points = from_table(data, None, "label")
    assert len(points.rows) == MAX_ROWS and np.isfinite(points.rows).all()
    few = table()
    few.loc[:9, "label"] = None
    assert len(from_table(few, None, "label").rows) == 50


@pytest.mark.parametrize(
    ("columns", "target", "message"),
    [
        (None, None, "name the column with the classes"),
        (None, "d", "'d' is not a column of the table; its columns are 'a', 'b'"),
        (["a"], "label", "expected two different numeric columns"),
        (["a", "a"], "label", "expected two different numeric columns"),
        (["a", "name"], "label", "'name' is not a numeric column besides the target; use two of 'a', 'b', 'c'"),
        (["a", "label"], "label", "'label' is not a numeric column besides the target"),
        (["a", "constant"], "label", "one of them is constant"),
        (None, "a", "'a' has 60 different values; expected 2 to 6 classes"),
        (None, "name", "'name' has 1 different values"),
    ],
)
def test_columns_that_cannot_be_learned_are_clear_errors(columns: list[str], target: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_table(table(), columns, target)


def test_too_few_rows_are_a_clear_error() -> None:
    with pytest.raises(ValueError, match="9 rows have values in all three columns; expected at least 10"):
        from_table(table(9), None, "label")


def test_with_a_penalty_weights_become_0_and_the_machine_still_computes_what_the_network_does() -> None:
    learner = Learner(generated("moons", 0.2), 10, 3, seed=0)
    for _ in range(40):
        learner.train_epoch(0.02, 0.3)
    machine = learner.machine()
    n_zero = sum(int((weight == 0).sum()) for weight in learner.network.parameters())
    assert n_zero > 20
    assert machine.n_edges <= learner.n_possible_edges - n_zero
    rows = grid_rows(learner.points).astype(np.float32)
    with torch.no_grad():
        expected = learner.network(torch.as_tensor(rows)).numpy()
    np.testing.assert_allclose(machine.run(rows), expected, rtol=1e-3, atol=1e-4)


def test_without_a_penalty_all_edges_stay() -> None:
    learner = Learner(generated("circles", 0.2), 8, 2, seed=0)
    learner.train_epoch(0.02, 0.0)
    assert learner.machine().n_edges == learner.n_possible_edges == 7 * 3 + 8


def test_the_same_seed_learns_the_same() -> None:
    scores = []
    for seed in (0, 0, 1):
        learner = Learner(generated("xor", 0.2), 8, 2, seed)
        learner.train_epoch(0.02, 0.1)
        scores.append(learner.scores())
    assert scores[0] == scores[1] != scores[2]


def test_weights_that_are_not_finite_are_an_error() -> None:
    learner = Learner(generated("xor", 0.2), 8, 3, seed=0)
    with pytest.raises(Diverged):
        learner.train_epoch(1e30, 0.0)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_frame_has_the_probabilities_and_the_arguments_of_all_nodes(n_classes: int) -> None:
    data = table().assign(label=np.arange(60) % n_classes)
    learner = Learner(from_table(data, None, "label"), 8, 2, seed=0)
    for _ in range(5):
        learner.train_epoch(0.03, 0.1)
    grid = grid_rows(learner.points)
    event = frame_event(learner, grid, History(), Settings(), True, "")
    frame = json.loads(event.decode().removeprefix("event: frame\ndata: "))
    with torch.no_grad():
        outputs = learner.network(torch.as_tensor(grid.astype(np.float32)))
        sent = torch.sigmoid(outputs) if n_classes == 2 else torch.softmax(outputs, dim=1)
    assert len(frame["probabilities"]) == sent.shape[1]
    for column, text in enumerate(frame["probabilities"]):
        np.testing.assert_allclose(decoded(text).ravel(), sent[:, column].numpy(), atol=1e-3)
    # From the upper left: the first input rises to the right, the second falls downwards.
    first, second = (decoded(node["map"]) for node in frame["nodes"][:2])
    assert (np.diff(first, axis=1) > 0).all() and (np.diff(second, axis=0) < 0).all()
    n_biases = sum(node["bias"] != 0 for node in frame["nodes"])
    assert frame["n_edges"] == len(frame["edges"]) + n_biases
    assert {node["layer"] for node in frame["nodes"]} == {0, 1, 2}


@given(st.integers(0, 3000))
def test_a_history_stays_short_and_has_the_first_epoch_and_one_of_the_last(n_epochs: int) -> None:
    history = History()
    for epoch in range(n_epochs + 1):
        history.add(epoch, Scores(1.0 / (epoch + 1), 0.5, 0.5, 0.5))
    epochs = history.message()["epochs"]
    assert len(epochs) <= 240 and epochs[0] == 0 and epochs == sorted(set(epochs))
    assert n_epochs - epochs[-1] < 32
    assert history.message()["train"][-1] == pytest.approx(1.0 / (epochs[-1] + 1), rel=1e-3)
