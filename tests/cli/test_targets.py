"""How the commands read targets: the type of a model's classes, numbers with signs, and rows without a target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tabgnm
from tabgnm import GNMClassifier, GNMRegressor, MLPClassifier
from tabgnm.cli.models import read_inputs, read_targets
from tabgnm.cli.options import Reading
from tabgnm.cli.tablefiles import TableFileError
from tabgnm.cli.target_values import as_labels, as_numbers
from tabgnm.cli.training_table import Columns, TrainingTable, learned_target, read_training_table, task_of
from tests.cli.running import QUICK, QUICK_SMALL, run, run_json

UNTRAINED = {"n_candidates": 1, "n_folds": 0, "max_epochs": 1, "random_state": 0}
READING = Reading(None, None, None, None, False)
N_ROWS = 60
X = pd.DataFrame({"a": np.linspace(0, 1, N_ROWS)})
NUMBERS = np.linspace(100, 2000, N_ROWS).round(2)

WRITTEN: dict[str, Callable[[float], str]] = {
    "1.234,5": lambda number: f"{number:.2f}".replace(".", ","),
    "$1,234.5": lambda number: f"${number:,.2f}",
    "12.5%": lambda number: f"{number * 100:.4f}%",
    "1 234.5": lambda number: f"{number:,.2f}".replace(",", " "),
}


def write(name: str, target: list[Any], sep: str = ";") -> None:
    X.head(len(target)).assign(y=target).to_csv(name, index=False, sep=sep)


def labels(names: list[str], n_rows: int = N_ROWS) -> list[str]:
    return [names[row % len(names)] for row in range(n_rows)]


# Labels, by the type of the model's classes


@pytest.mark.parametrize(
    ("trained", "some"),
    [
        (["1", "2", "A"], ["1", "2"]),
        (["true", "false", "maybe"], ["true", "false"]),
        (["01", "10", "12"], ["10", "12"]),
        (["1", "2", "3"], ["1.0", "3"]),
        (["true", "false"], ["TRUE", "false"]),
    ],
)
def test_a_file_with_some_of_the_labels_is_scored(trained: list[str], some: list[str]) -> None:
    write("table.csv", labels(trained))
    write("some.csv", labels(some))
    table = read_training_table("table.csv", READING, Columns(("y",)))
    GNMClassifier(**UNTRAINED).fit(table.X, table.y).save("model.tabgnm")
    record = run_json("evaluate", "model.tabgnm", "some.csv")
    counts = np.array(record["confusion"]["counts"])
    assert len(record["confusion"]["true"]) == len(trained)
    assert counts.sum() == N_ROWS
    assert (counts.sum(axis=1) > 0).sum() == len(some)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "trained", "some"),
    [
        (GNMClassifier, labels(["1", "2", "A"]), labels(["1", "2"])),
        (GNMRegressor, NUMBERS, [WRITTEN["1.234,5"](number) for number in NUMBERS]),
    ],
    ids=["labels", "numbers"],
)
def test_reports_and_small_machines_read_the_target_likewise(estimator: Any, trained: Any, some: list[str]) -> None:
    estimator(**UNTRAINED).fit(X, pd.Series(trained, name="y")).save("model.tabgnm")
    write("some.csv", some)
    run("report", "model.tabgnm", "--data", "some.csv")
    small = run_json("sparsify", "model.tabgnm", "some.csv", "--edges", "3", *QUICK_SMALL)
    assert small["judged_by"] == "target"


def test_targets_of_a_small_machine_are_read_by_the_classes() -> None:
    model = GNMClassifier(**UNTRAINED).fit(X, pd.Series(labels(["1", "2", "A"]), name="y"))
    write("some.csv", labels(["1", "2"]))
    frame = read_inputs("some.csv", READING, model, ["y"])
    assert read_targets(frame, "some.csv", model, ["y"]).tolist() == labels(["1", "2"])


def test_several_targets_are_read_by_their_own_classes() -> None:
    y = pd.DataFrame({"y": labels(["1", "2", "A"]), "z": labels(["x", "3"])})
    MLPClassifier(**UNTRAINED).fit(X, y).save("model.tabgnm")
    X.assign(y=1, z=3).to_csv("some.csv", index=False)
    assert len(run_json("evaluate", "model.tabgnm", "some.csv")["targets"]) == 2


def test_columns_of_true_and_false_are_labels_of_yes_and_no() -> None:
    y = pd.DataFrame({"y": np.arange(N_ROWS) % 2 == 0, "z": np.arange(N_ROWS) % 3 == 0})
    MLPClassifier(**UNTRAINED).fit(X, y).save("model.tabgnm")
    X.assign(**y).to_csv("table.csv", index=False)
    assert run_json("evaluate", "model.tabgnm", "table.csv")["rows"] == N_ROWS


def test_files_with_types_are_read_by_the_classes_as_well() -> None:
    known = as_labels(pd.Series([1, 2]), np.array(["1", "A"]), "a.parquet")
    assert known.tolist() == ["1", "2"]
    assert as_labels(pd.Series([True, False]), np.array(["maybe", "true"]), "a.parquet").tolist() == ["true", "False"]
    assert as_labels(pd.Series(["1", "0"]), np.array([False, True]), "a.csv").tolist() == [True, False]


@given(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=5))
def test_whole_numbers_keep_all_their_digits(numbers: list[int]) -> None:
    found = as_labels(pd.Series(list(map(str, numbers))), np.array(numbers), "a.csv")
    assert found.tolist() == numbers


def test_a_cell_that_cannot_be_a_label_is_named_without_words_of_numpy() -> None:
    write("table.csv", [*labels(["0", "1"], 4), "x"])
    MLPClassifier(**UNTRAINED).fit(X, np.arange(N_ROWS) % 2).save("model.tabgnm")
    said = run("evaluate", "model.tabgnm", "table.csv", "-t", "y", code=3).stderr
    assert "'x' in data row 5, but the classes of the model are numbers such as 0" in said
    assert "np." not in said


@pytest.mark.parametrize("labels", [[1, 2], [1.5, 2.5], [True, False]])
def test_the_library_names_labels_of_another_type_without_words_of_numpy(labels: list[Any]) -> None:
    model = MLPClassifier(**UNTRAINED).fit([[0.0], [1.0]], ["a", "b"])
    with pytest.raises(ValueError, match=f"such as {labels[0]!r}, but the classes are strings such as 'a'"):
        model.score([[0.0], [1.0]], np.array(labels))
    with pytest.raises(ValueError, match=r"\(such as 'a'\)"):
        GNMRegressor(**UNTRAINED).fit([[0.0], [1.0]], np.array(["a", "b"]))


# Numbers, however they are written


def read(target: list[Any], task: str | None = None) -> TrainingTable:
    write("table.csv", target)
    return read_training_table("table.csv", READING, Columns(("y",)), task=task)


@pytest.mark.parametrize("task", [None, "regression"])
@pytest.mark.parametrize("form", list(WRITTEN))
def test_a_target_of_numbers_with_signs_is_read_as_numbers(form: str, task: str | None) -> None:
    with pytest.warns(UserWarning, match="the target 'y' is read as numbers, written like") as warned:
        y = read([WRITTEN[form](number) for number in NUMBERS], task).y
    assert len(warned) == 1
    np.testing.assert_allclose(y, NUMBERS)
    assert task_of(y)[0] == "regression"


def test_numbers_with_signs_are_labels_if_the_task_says_so_or_they_are_few() -> None:
    assert read([WRITTEN["1.234,5"](number) for number in NUMBERS], "classification").y[0] == "100,00"
    assert set(read(labels(["$1", "$2", "$5"])).y) == {"$1", "$2", "$5"}


def test_a_model_of_numbers_with_decimal_commas_is_fitted_and_scored_on_either_form() -> None:
    write("comma.csv", [WRITTEN["1.234,5"](number) for number in NUMBERS])
    write("point.csv", list(NUMBERS))
    record = run_json("fit", "comma.csv", "-t", "y", *QUICK)
    assert record["task"] == "regression"
    assert sum("is read as numbers, written like 1.234,5" in text for text in record["warnings"]) == 1
    scores = [run_json("evaluate", "model.tabgnm", name)["scores"] for name in ("comma.csv", "point.csv")]
    assert scores[0] == scores[1]
    assert tabgnm.load("model.tabgnm").target_name_ == "y"


@pytest.mark.parametrize("task", [None, "regression"])
def test_numbers_that_can_be_read_in_two_ways_are_not_guessed(task: str | None) -> None:
    with pytest.raises(TableFileError, match=r"'1,000', whose comma may be .* like 1234\.5 in the file"):
        read([f"{number:,}" for number in range(1000, 1000 + N_ROWS)], task)


def test_the_first_cell_that_is_not_a_number_is_named() -> None:
    cells = [WRITTEN["1.234,5"](number) for number in NUMBERS]
    cells[7] = "unknown"
    for task in (None, "regression"):
        with pytest.raises(TableFileError, match=r"'unknown' in data row 8, which is not a number written like 1\.2"):
            read(cells, task)
    with pytest.raises(TableFileError, match="infinite number in data row 2"):
        as_numbers(pd.Series([1.0, np.inf]), "a.csv", "")


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        ([f"2024-01-{1 + row % 28:02d}" for row in range(N_ROWS)], "looks like dates"),
        ([f"01/02/{2000 + row % 5}" for row in range(N_ROWS)], "looks like dates"),
        ([f"customer {row // 2 if row < 20 else row}" for row in range(N_ROWS)], "40 of 60 rows have a value"),
    ],
)
def test_text_that_is_hardly_labels_needs_a_task(target: list[str], complaint: str) -> None:
    with pytest.raises(TableFileError, match=f"{complaint}.*--task classification"):
        read(target)
    assert read(target, "classification").y.tolist() == target


def test_dates_of_a_file_with_types_are_no_numbers() -> None:
    column = pd.Series(pd.date_range("2024-01-01", periods=5), name="y")
    for task in (None, "regression"):
        with pytest.raises(TableFileError, match="has dates or durations"):
            learned_target(column, task, "a.parquet")


# Rows without a target


def test_rows_without_a_target_are_refused_or_skipped() -> None:
    write("whole.csv", labels(["u", "v"], 40))
    write("gaps.csv", [*labels(["u", "v"], 40), "", "NA"])
    refused = run("fit", "gaps.csv", "-t", "y", *QUICK, code=3).stderr
    assert "first in data row 41" in refused
    assert "--drop-missing-target" in refused
    record = run_json("fit", "gaps.csv", "-t", "y", *QUICK, "--drop-missing-target", "-o", "a.tabgnm")
    assert record["rows"] == 40
    assert any("2 of 42 rows are skipped" in text for text in record["warnings"])
    run("fit", "whole.csv", "-t", "y", *QUICK, "-o", "b.tabgnm")
    assert run("predict", "a.tabgnm", "gaps.csv").stdout == run("predict", "b.tabgnm", "gaps.csv").stdout
    assert "--drop-missing-target" in run("evaluate", "a.tabgnm", "gaps.csv", code=3).stderr
    assert run_json("evaluate", "a.tabgnm", "gaps.csv", "--drop-missing-target")["rows"] == 40
    options = ["--grid", "dropout=0.0", "--folds", "2", "--drop-missing-target"]
    assert run_json("search", "gaps.csv", "-t", "y", *QUICK, *options)["rows"] == 40


def test_a_row_is_counted_as_in_the_file_after_rows_were_skipped() -> None:
    cells = [WRITTEN["1.234,5"](number) for number in NUMBERS]
    cells[0], cells[7] = "", "unknown"
    write("table.csv", cells)
    reading = Reading(None, None, None, None, False, drop_missing_target=True)
    with pytest.warns(UserWarning, match="1 of 60 rows"), pytest.raises(TableFileError, match="data row 8"):
        read_training_table("table.csv", reading, Columns(("y",)))
