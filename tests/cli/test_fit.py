from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import tabgnm
from tabgnm.cli.settings import Grid, value_of
from tabgnm.cli.training_table import task_of
from tests.cli.running import QUICK, diabetes, iris, run, run_json


def test_fit_says_the_task_the_score_beside_baselines_the_columns_and_what_to_do_next(
    flowers: SimpleNamespace,
) -> None:
    said = flowers.fitted.stdout
    assert "Classification of 'species', 3 classes (its values are text): 150 rows, 4 columns." in said
    for text in ("this model", "logistic regression", "majority class", "accuracy", "log-loss"):
        assert text in said
    assert "4 numbers: sepal_length, sepal_width, petal_length, petal_width" in said
    assert f"Model: {flowers.model}" in said
    assert f"tabgnm predict {flowers.model}" in said


def test_the_model_file_knows_its_target_and_not_the_ignored_column(flowers: SimpleNamespace) -> None:
    model = tabgnm.load(flowers.model)
    assert model.target_name_ == "species"
    assert list(model.feature_names_in_) == ["sepal_length", "sepal_width", "petal_length", "petal_width"]
    assert model.random_state == 0


def test_numbers_are_learned_as_numbers_beside_the_mean_and_a_ridge_regression(patients: SimpleNamespace) -> None:
    said = patients.fitted.stdout
    assert "Regression of 'target' (its values are 214 different whole numbers; use --task classification" in said
    for text in ("R²", "RMSE", "ridge regression", "mean", "64 cells are missing"):
        assert text in said


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["a", "b"], "classification"),
        ([True, False], "classification"),
        (pd.Categorical([1.5, 2.5]), "classification"),
        (pd.array([True, False], dtype="boolean"), "classification"),
        (list(range(10)) * 2, "classification"),
        (list(range(11)) * 2, "regression"),
        (list(range(5)), "regression"),
        ([0.0, 1.0], "classification"),
        ([0.5, 1.0], "regression"),
        (pd.array([1, 2], dtype="Int64"), "classification"),
    ],
)
def test_the_task_follows_from_the_values_of_the_target(values: object, task: str) -> None:
    assert task_of(pd.Series(values))[0] == task


def test_a_class_with_a_single_row_is_named_and_not_counted_among_the_scored_rows() -> None:
    frame = iris().drop(columns="id")
    frame.iloc[0, -1] = "unique"
    frame.to_csv("table.csv", index=False)
    result = run("fit", "table.csv", "-t", "species", *QUICK)
    assert "149 of 150 rows" in result.stdout
    assert "single row are left out of the scores" in result.stderr
    assert "'unique'" in result.stderr


def test_a_score_of_few_rows_has_a_wide_interval() -> None:
    iris().head(12).drop(columns="id").to_csv("table.csv", index=False)
    own = run_json("fit", "table.csv", "-t", "species", *QUICK)["scores"][0]
    assert own["interval"][0] <= own["accuracy"] <= own["interval"][1]
    assert own["interval"][1] - own["interval"][0] > 0.2
    iris().head(12).drop(columns=["id", "species"]).to_csv("table.csv", index=False)
    own = run_json("fit", "table.csv", "-t", "petal_width", *QUICK)["scores"][0]
    assert own["interval"][0] < own["r2"] < own["interval"][1]


def test_without_rows_to_score_there_is_no_empty_table() -> None:
    Path("table.csv").write_text("a,b,y\n1,2,u\n2,3,v\n3,1,w\n")
    said = run("fit", "table.csv", "-t", "y", *QUICK).stdout
    assert "no out-of-fold score" in said
    assert "accuracy" not in said


def test_a_given_task_is_not_questioned() -> None:
    frame = iris().assign(size=lambda own: own["sepal_length"].round())
    frame.to_csv("table.csv", index=False)
    assert run_json("fit", "table.csv", "-t", "size", *QUICK, "--print-settings")["task"] == "classification"
    assert run_json("fit", "table.csv", "-t", "size", "--task", "regression", *QUICK)["task"] == "regression"


def test_weights_and_groups_are_columns_that_are_not_learned_from() -> None:
    frame = iris().assign(importance=1.0, plant=lambda own: own["id"] // 5)
    frame.to_csv("table.csv", index=False)
    options = ["--weight", "importance", "--group", "plant", "--ignore", "id"]
    record = run_json("fit", "table.csv", "-t", "species", *options, *QUICK)
    assert [own["name"] for own in record["columns"]] == list(frame.columns[1:5])
    assert {own["model"] for own in record["scores"]} == {"this model", "logistic regression", "majority class"}


def test_rows_with_weight_zero_do_not_count() -> None:
    frame = iris().assign(importance=lambda own: (own["species"] != "setosa").astype(float))
    frame.to_csv("table.csv", index=False)
    record = run_json("fit", "table.csv", "-t", "species", "--weight", "importance", *QUICK)
    scores = {own["model"]: own["accuracy"] for own in record["scores"]}
    assert scores["majority class"] == pytest.approx(0.5, abs=0.05)


def test_a_metric_and_a_time_limit_reach_the_estimator() -> None:
    iris().to_csv("table.csv", index=False)
    run("fit", "table.csv", "-t", "species", *QUICK, "--metric", "accuracy", "--time-limit", "30", "--seed", "7")
    model = tabgnm.load("model.tabgnm")
    assert (model.metric, model.time_limit, model.random_state, model.max_epochs) == ("accuracy", 30.0, 7, 8)


def test_all_settings_are_shown_with_where_they_come_from_and_nothing_is_trained() -> None:
    iris().to_csv("table.csv", index=False)
    record = run_json("fit", "table.csv", "-t", "species", *QUICK, "--print-settings")
    settings = {own["name"]: own for own in record["settings"]}
    assert set(settings) == set(tabgnm.GNMClassifier().get_params()) - {"verbose"}
    assert settings["max_epochs"] == {"name": "max_epochs", "value": 8, "source": "command line"}
    assert settings["random_state"] == {"name": "random_state", "value": 0, "source": "default"}
    assert settings["patience"]["resolved"] == 20
    assert settings["dropout"]["resolved"] == "differs between candidates"
    shown = run("fit", "table.csv", "-t", "species", *QUICK, "--print-settings").stdout
    assert "command line" in shown
    assert not Path("model.tabgnm").exists()


def test_warnings_are_single_lines_on_stderr_and_part_of_json() -> None:
    frame = iris().assign(code=[f"code {number}" for number in range(150)])
    frame.to_csv("table.csv", index=False)
    result = run("fit", "table.csv", "-t", "species", *QUICK)
    lines = [line for line in result.stderr.splitlines() if line.startswith("Warning: ")]
    assert any("code" in line for line in lines)
    assert all(line.startswith("Warning: ") for line in result.stderr.splitlines())
    record = run_json("fit", "table.csv", "-t", "species", *QUICK)
    assert [f"Warning: {text}" for text in record["warnings"]] == lines


def test_search_compares_settings_and_writes_the_best_model() -> None:
    iris().to_csv("table.csv", index=False)
    options = [*QUICK, "--grid", "dropout=0.0,0.9", "--grid", "n_layers=2", "--folds", "2", "--ignore", "id"]
    record = run_json("search", "table.csv", "-t", "species", *options, "-o", "best.tabgnm")
    assert len(record["results"]) == 2
    assert record["results"][0]["score"] >= record["results"][1]["score"]
    assert record["results"][0]["settings"] == record["best"]
    model = tabgnm.load("best.tabgnm")
    assert (model.dropout, model.n_layers) == (record["best"]["dropout"], 2)
    assert model.target_name_ == "species"


def test_the_score_of_the_best_model_of_a_search_is_one_of_whole_groups() -> None:
    random = np.random.default_rng(0)
    group = np.repeat(np.arange(20), 10)  # each has a target of its own that only its rows can tell
    frame = pd.DataFrame({"x": group + random.normal(0, 0.01, 200), "y": random.normal(size=20)[group], "group": group})
    frame.to_csv("table.csv", index=False)
    options = [*QUICK, "--set", "max_epochs=60", "--grid", "dropout=0.0", "--folds", "2", "--group", "group"]
    searched = run_json("search", "table.csv", "-t", "y", *options)["scores"][0]
    fitted = run_json(
        "fit", "table.csv", "-t", "y", *QUICK, "--set", "max_epochs=60", "--group", "group", "--set", "dropout=0.0"
    )
    assert searched == fitted["scores"][0]


def test_search_prints_the_table_of_settings() -> None:
    frame = diabetes().assign(group=lambda own: np.arange(len(own)) % 4)
    frame.to_csv("table.csv", index=False)
    options = [*QUICK, "--grid", "dropout=0.0,0.5", "--folds", "2", "--metric", "mae", "--group", "group"]
    said = run("search", "table.csv", "-t", "target", *options).stdout
    for text in ("dropout", "mae", "±", "Best: dropout=", "ridge regression"):
        assert text in said


def test_a_comma_in_brackets_belongs_to_a_value() -> None:
    assert Grid.of(["quantile=[0.1, 0.9],0.5"]).values == {"quantile": [[0.1, 0.9], 0.5]}
    assert value_of("true") is True
    assert value_of("'a b'") == "a b"
