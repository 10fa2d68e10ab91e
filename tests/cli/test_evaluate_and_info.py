from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    d2_pinball_score,
    log_loss,
    mean_absolute_error,
    mean_pinball_loss,
    r2_score,
)

import tabgnm
from tabgnm import MLPClassifier
from tabgnm.estimators.score_intervals import Bootstrap
from tabgnm.report.evaluation import evaluate
from tabgnm.report.scores import scores_of
from tests.cli.running import diabetes, iris, run, run_json

UNTRAINED = {"n_candidates": 1, "n_folds": 0, "max_epochs": 1, "random_state": 0}


def test_classes_are_scored_with_an_interval_beside_baselines(flowers: SimpleNamespace) -> None:
    record = run_json("evaluate", flowers.model, flowers.data)
    model, frame = tabgnm.load(flowers.model), iris()
    probabilities = model.predict_proba(frame[list(model.feature_names_in_)])
    own, *others = record["scores"]
    predicted = model.classes_[probabilities.argmax(axis=1)]
    assert own["accuracy"] == pytest.approx(accuracy_score(frame["species"], predicted))
    assert own["log_loss"] == pytest.approx(log_loss(frame["species"], probabilities))
    assert own["interval"][0] < own["accuracy"] <= own["interval"][1] <= 1
    assert record["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(frame["species"], predicted))
    assert [each["model"] for each in others] == ["majority class", "logistic regression"]
    counts = np.array(record["confusion"]["counts"])
    assert counts.sum() == 150
    assert counts.trace() == (predicted == frame["species"]).sum()


def test_scores_are_shown_beside_that_of_the_fit(flowers: SimpleNamespace) -> None:
    assert "Out-of-fold accuracy when it was fitted: " in run("evaluate", flowers.model, flowers.data).stdout


def test_rows_that_are_clearly_better_than_those_left_out_raise_a_question(patients: SimpleNamespace) -> None:
    question = "was the model fitted to these rows?"
    frame = pd.read_csv(patients.data)
    errors = np.abs(tabgnm.load(patients.model).predict(frame.drop(columns="target")) - frame["target"])
    frame[errors < errors.quantile(0.3)].to_csv("easy.csv", index=False)
    frame[errors > errors.quantile(0.3)].to_csv("difficult.csv", index=False)
    assert question in run("evaluate", patients.model, "easy.csv").stdout
    assert question not in run("evaluate", patients.model, "difficult.csv").stdout


def test_the_confusion_matrix_is_shown(flowers: SimpleNamespace) -> None:
    said = run("evaluate", flowers.model, flowers.data).stdout
    assert "true \\ predicted" in said
    assert "95 % interval" in said
    assert "150 rows of 'species'" in said


def test_numbers_are_scored_with_a_bootstrap_interval(patients: SimpleNamespace) -> None:
    record = run_json("evaluate", patients.model, patients.data)
    model, frame = tabgnm.load(patients.model), diabetes()
    predicted = model.predict(frame[list(model.feature_names_in_)])
    own = record["scores"][0]
    assert own["r2"] == pytest.approx(r2_score(frame["target"], predicted))
    assert own["interval"][0] < own["r2"] < own["interval"][1]
    assert record["mae"] == pytest.approx(mean_absolute_error(frame["target"], predicted))


def test_intervals_are_those_of_a_report(flowers: SimpleNamespace, patients: SimpleNamespace) -> None:
    for paths in (flowers, patients):
        model, frame = tabgnm.load(paths.model), pd.read_csv(paths.data)
        [own, *_] = run_json("evaluate", paths.model, paths.data)["scores"]
        judged = evaluate(model, frame[list(model.feature_names_in_)], frame[model.target_name_], None)
        [score, *_] = scores_of(judged, Bootstrap(len(frame)))
        assert own["interval"] == pytest.approx(score.ends)


def test_two_classes_have_an_area_under_the_curve_and_many_their_confusions() -> None:
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"a": random.normal(size=120)})
    for n_classes, text in ((2, "ROC AUC: "), (12, "Most frequent confusions")):
        labels = pd.Series(np.arange(120) % n_classes, name="label").map(lambda number: f"class {number}")
        MLPClassifier(**UNTRAINED).fit(frame, labels).save("model.tabgnm")
        frame.assign(label=labels).to_csv("table.csv", index=False)
        assert text in run("evaluate", "model.tabgnm", "table.csv").stdout


def test_a_class_that_the_model_does_not_know_counts_as_wrong(flowers: SimpleNamespace) -> None:
    frame = iris().head(30)
    frame.loc[frame.index[:10], "species"] = "unheard-of"
    frame.to_csv("new.csv", index=False)
    record = run_json("evaluate", flowers.model, "new.csv")
    assert record["scores"][0]["accuracy"] <= 20 / 30
    assert record["confusion"]["true"][-1] == "unheard-of"


def test_the_target_can_have_another_name(flowers: SimpleNamespace) -> None:
    iris().rename(columns={"species": "kind"}).to_csv("new.csv", index=False)
    assert "no column 'species'" in run("evaluate", flowers.model, "new.csv", code=3).stderr
    assert run_json("evaluate", flowers.model, "new.csv", "--target", "kind")["target"] == "kind"


def test_a_model_without_the_name_of_its_target_asks_for_it() -> None:
    frame = iris()
    MLPClassifier(**UNTRAINED).fit(frame[["sepal_length"]], frame["species"].to_numpy()).save("model.tabgnm")
    frame.to_csv("table.csv", index=False)
    assert "set it with --target" in run("evaluate", "model.tabgnm", "table.csv", code=2).stderr
    assert run_json("evaluate", "model.tabgnm", "table.csv", "-t", "species")["rows"] == 150


def test_a_model_of_a_table_without_names_is_refused() -> None:
    MLPClassifier(**UNTRAINED).fit([[1.0], [2.0]], ["a", "b"]).save("model.tabgnm")
    iris().to_csv("table.csv", index=False)
    assert "without column names" in run("evaluate", "model.tabgnm", "table.csv", code=4).stderr


def test_a_single_class_can_be_scored(flowers: SimpleNamespace) -> None:
    iris().query("species == 'setosa'").to_csv("new.csv", index=False)
    assert run_json("evaluate", flowers.model, "new.csv")["rows"] == 50


def test_a_single_row_is_scored_without_words_on_baselines_that_it_cannot_have(flowers: SimpleNamespace) -> None:
    iris().head(1).to_csv("one.csv", index=False)
    said = run("evaluate", flowers.model, "one.csv").stdout
    assert "\n1 row of 'species'.\n" in said
    assert "aselines" not in said
    assert "150 rows of 'species'. Baselines are cross-validated on the same rows." in " ".join(
        run("evaluate", flowers.model, flowers.data).stdout.split()
    )


def test_info_shows_what_is_in_a_model_file(flowers: SimpleNamespace) -> None:
    record = run_json("info", flowers.model)
    assert record["target"] == "species"
    assert record["classes"] == [["setosa", "versicolor", "virginica"]]
    assert record["networks"] == 2
    assert not record["small"]
    assert sum(record["importances"].values()) == pytest.approx(1)
    said = run("info", flowers.model).stdout
    for text in ("GNMClassifier", "Predicts classes of 'species'", "setosa", "max_epochs=8"):
        assert text in said
    assert "Most important columns, by their share of gradient x input: petal" in said


def test_info_describes_a_small_machine(flowers: SimpleNamespace) -> None:
    assert "edges and" in run("info", flowers.small).stdout
    assert run_json("info", flowers.small)["small"]


def test_one_quantile_is_scored_by_d2_everywhere() -> None:
    diabetes().to_csv("patients.csv", index=False)
    quick = ["--set", "n_candidates=1", "--set", "n_folds=2", "--set", "max_epochs=2"]
    options = ["--set", "loss=quantile", "--set", "quantile=0.9", *quick, "-o", "upper"]
    fit = run_json("fit", "patients.csv", "--target", "target", *options)
    assert fit["out_of_fold"].keys() == {"d2", "quantile"}
    assert [own["model"] for own in fit["scores"]] == ["this model", "0.9 quantile", "shifted ridge regression"]
    assert all(own.keys() - {"interval"} == {"model", "d2", "quantile_loss"} for own in fit["scores"])
    record, model, frame = run_json("evaluate", "upper", "patients.csv"), tabgnm.load("upper"), diabetes()
    predicted = model.predict(frame[list(model.feature_names_in_)])
    own = record["scores"][0]
    assert own["d2"] == pytest.approx(d2_pinball_score(frame["target"], predicted, alpha=0.9))
    assert own["quantile_loss"] == pytest.approx(mean_pinball_loss(frame["target"], predicted, alpha=0.9))
    assert own["interval"][0] < own["d2"] < own["interval"][1]
    assert "Out-of-fold D² when it was fitted: " in run("evaluate", "upper", "patients.csv").stdout
    assert "Out-of-fold d2: " in run("info", "upper").stdout
