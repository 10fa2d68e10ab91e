"""Several targets on the command line: numbers, labels of yes and no, and classes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, d2_pinball_score, r2_score

import tabgnm
from tabgnm import GNMRegressor
from tests.cli.running import QUICK, QUICK_SMALL, diabetes, iris, run, run_json

TARGETS = {
    "numbers": ["petal_length", "petal_width"],
    "labels": ["is_long", "is_wide"],
    "classes": ["species", "size"],
}


def flowers() -> pd.DataFrame:
    frame = iris().drop(columns="id")
    return frame.assign(
        is_long=(frame["sepal_length"] > 5.8).astype(int),
        is_wide=(frame["sepal_width"] > 3).astype(int),
        size=np.where(frame["petal_length"] > 4, "large", "small"),
    )


@pytest.fixture(scope="module", params=list(TARGETS))
def fitted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A model of several targets of one kind, and its table."""
    kind = str(request.param)
    folder = tmp_path_factory.mktemp(kind)
    data, model = folder / "table.csv", folder / "model.tabgnm"
    flowers().to_csv(data, index=False)
    others = [name for own, names in TARGETS.items() for name in names if own != kind]
    options = [part for name in TARGETS[kind] for part in ("--target", name)]
    options += [part for name in others for part in ("--ignore", name)]
    said = run("fit", data, *options, *QUICK, "-o", model).stdout
    return SimpleNamespace(kind=kind, names=TARGETS[kind], data=data, model=model, said=said)


def test_fit_says_what_it_learns_beside_baselines(fitted: SimpleNamespace) -> None:
    first, second = fitted.names
    assert f" of {first!r} and {second!r}: 150 rows" in fitted.said
    assert "this model" in fitted.said
    assert ("ridge" if fitted.kind == "numbers" else "logistic") + " regression" in fitted.said


def test_all_targets_are_learned_predicted_and_scored_under_their_names(fitted: SimpleNamespace) -> None:
    names, kind = fitted.names, fitted.kind
    model, frame = tabgnm.load(fitted.model), flowers()
    X = frame[list(model.feature_names_in_)]
    assert model.target_names_ == names
    run("predict", fitted.model, fitted.data, "-o", "out.csv")
    written = pd.read_csv("out.csv", dtype=str)
    assert list(written.columns) == [f"prediction_{name}" for name in names]
    np.testing.assert_array_equal(written.to_numpy(), np.asarray(model.predict(X)).astype(str))
    record = run_json("evaluate", fitted.model, fitted.data)
    assert record["target"] == names
    assert [own["target"] for own in record["targets"]] == names
    score, of_one = ("r2", r2_score) if kind == "numbers" else ("accuracy", accuracy_score)
    assert record["scores"][0][score] == pytest.approx(model.score(X, frame[names]))
    for place, own in enumerate(record["targets"]):
        predicted = np.asarray(model.predict(X))[:, place]
        assert own[score] == pytest.approx(of_one(frame[names[place]], predicted))
    said = run("evaluate", fitted.model, fitted.data).stdout
    assert all(name in said for name in names)
    assert run_json("info", fitted.model)["target"] == names


def test_probabilities_and_intervals_have_the_names_of_the_targets(fitted: SimpleNamespace) -> None:
    option = ["--interval", "0.9"] if fitted.kind == "numbers" else ["--proba"]
    run("predict", fitted.model, fitted.data, "-o", "out.csv", *option)
    added = list(pd.read_csv("out.csv").columns)[2:]
    assert (
        added
        == {
            "numbers": ["lower_petal_length", "upper_petal_length", "lower_petal_width", "upper_petal_width"],
            "labels": ["probability_is_long", "probability_is_wide"],
            "classes": [
                *(f"probability_species_{own}" for own in ("setosa", "versicolor", "virginica")),
                *("probability_size_large", "probability_size_small"),
            ],
        }[fitted.kind]
    )


def test_targets_can_be_given_again_in_their_order(fitted: SimpleNamespace) -> None:
    first, second = fitted.names
    renamed = flowers().rename(columns={first: "one", second: "two"})
    renamed.to_csv("new.csv", index=False)
    assert run_json("evaluate", fitted.model, "new.csv", "-t", "one", "-t", "two")["target"] == ["one", "two"]
    assert "predicts 2 targets" in run("evaluate", fitted.model, "new.csv", "-t", "one", code=2).stderr
    assert "no columns" in run("evaluate", fitted.model, "new.csv", code=3).stderr


@pytest.mark.slow
def test_a_small_machine_and_a_report_know_the_targets() -> None:
    frame = diabetes()[["age", "bmi", "bp", "target"]].assign(other=lambda own: own["age"] - own["bp"])
    frame.to_csv("table.csv", index=False)
    run("fit", "table.csv", "-t", "target", "-t", "other", *QUICK)
    said = run("sparsify", "model.tabgnm", "table.csv", "--edges", "10", *QUICK_SMALL).stdout
    assert "evaluated against the target" in said
    assert tabgnm.load("small.tabgnm").target_names_ == ["target", "other"]
    pytest.importorskip("jinja2")
    record = run_json("report", "small.tabgnm", "--data", "table.csv")
    assert record["target"] == ["target", "other"]
    assert "other" in Path("report.html").read_text()


@pytest.mark.parametrize(
    ("targets", "code", "complaint"),
    [
        (["species", "species"], 2, "given twice"),
        (
            ["species", "petal_length"],
            2,
            "'species' has classes (its values are text), but the target 'petal_length' has numbers (",
        ),
        (["species", "absent"], 3, "no column 'absent'"),
    ],
)
def test_targets_that_do_not_fit_together_are_refused(targets: list[str], code: int, complaint: str) -> None:
    flowers().to_csv("table.csv", index=False)
    options = [part for name in targets for part in ("-t", name)]
    assert complaint in run("fit", "table.csv", *options, *QUICK, code=code).stderr


def test_one_quantile_of_several_targets_is_scored_by_d2() -> None:
    flowers().to_csv("flowers.csv", index=False)
    names = TARGETS["numbers"]
    others = [name for own, each in TARGETS.items() for name in each if own != "numbers"]
    options = [part for name in names for part in ("--target", name)]
    options += [part for name in others for part in ("--ignore", name)]
    run("fit", "flowers.csv", *options, *QUICK, "--set", "loss=quantile", "--set", "quantile=0.8", "-o", "upper")
    record, model, frame = run_json("evaluate", "upper", "flowers.csv"), tabgnm.load("upper"), flowers()
    predicted = model.predict(frame[list(model.feature_names_in_)])
    assert record["scores"][0]["d2"] == pytest.approx(d2_pinball_score(frame[names], predicted, alpha=0.8))
    for own, name, of_own in zip(record["targets"], names, predicted.T, strict=True):
        assert own["d2"] == pytest.approx(d2_pinball_score(frame[name], of_own, alpha=0.8))
    assert "D² is the mean over the targets." in run("evaluate", "upper", "flowers.csv").stdout


def test_search_takes_several_targets() -> None:
    flowers().to_csv("table.csv", index=False)
    options = ["-t", "is_long", "-t", "is_wide", "--grid", "dropout=0.0", "--folds", "2"]
    assert run_json("search", "table.csv", *options, *QUICK)["target"] == ["is_long", "is_wide"]


def test_names_of_targets_that_the_model_does_not_know_are_asked_for() -> None:
    frame = diabetes()[["age", "bp", "target"]]
    model = GNMRegressor(n_candidates=1, n_folds=0, max_epochs=1, random_state=0)
    model.fit(frame[["age"]], frame[["bp", "target"]].to_numpy()).save("model.tabgnm")
    frame.to_csv("table.csv", index=False)
    assert "names of its 2 targets" in run("evaluate", "model.tabgnm", "table.csv", code=2).stderr
    assert "prediction_0,prediction_1" in run("predict", "model.tabgnm", "table.csv").stdout
