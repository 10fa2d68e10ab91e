from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import tabgnm
from tabgnm.cli import predict as predict_module
from tabgnm.cli.tablefiles import open_table
from tests.cli.running import diabetes, iris, run, run_json


def test_predictions_are_those_of_the_model_in_the_order_of_the_rows(flowers: SimpleNamespace) -> None:
    run("predict", flowers.model, flowers.data, "-o", "out.csv", "--proba", "--keep", "id")
    written = pd.read_csv("out.csv")
    frame = iris()
    model = tabgnm.load(flowers.model)
    X = frame[list(model.feature_names_in_)]
    assert list(written["id"]) == list(frame["id"])
    assert list(written["prediction"]) == list(model.predict(X))
    names = [f"probability_{label}" for label in model.classes_]
    assert list(written.columns) == ["id", "prediction", *names]
    np.testing.assert_allclose(written[names], model.predict_proba(X), atol=1e-6)


def test_rows_are_predicted_in_pieces_with_the_same_result(
    flowers: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("predict", flowers.model, flowers.data, "-o", "whole.csv", "--out-of-range")
    sizes = []

    def in_pieces(source: str, **options: object) -> object:
        reader = open_table(source, **options, chunk_rows=40)  # type: ignore[arg-type] # those of the command
        sizes.append(reader)
        return reader

    monkeypatch.setattr(predict_module, "open_table", in_pieces)
    run("predict", flowers.model, flowers.data, "-o", "pieces.csv", "--out-of-range")
    assert sizes
    assert Path("whole.csv").read_text() == Path("pieces.csv").read_text()


@pytest.mark.parametrize("name", ["empty.csv", "empty.parquet"])
def test_a_table_without_rows_is_refused_and_nothing_is_written(name: str, flowers: SimpleNamespace) -> None:
    frame = iris().head(0)
    frame.to_csv(name, index=False) if name.endswith("csv") else frame.to_parquet(name)
    assert "no rows" in run("predict", flowers.model, name, "-o", "out.csv", code=3).stderr
    assert not Path("out.csv").exists()


def test_numbers_have_intervals_around_them(patients: SimpleNamespace) -> None:
    run("predict", patients.model, patients.data, "-o", "out.parquet", "--interval", "0.9")
    written = pd.read_parquet("out.parquet")
    assert list(written.columns) == ["prediction", "lower", "upper"]
    assert (written["lower"] < written["upper"]).all()
    inside = (written["lower"] < diabetes()["target"]) & (diabetes()["target"] < written["upper"])
    assert inside.mean() > 0.8


def test_rows_out_of_range_are_flagged(patients: SimpleNamespace) -> None:
    frame = diabetes().head(3)
    frame.loc[frame.index[1], "bp"] = 1e6
    frame.to_csv("new.csv", index=False)
    record = run_json("predict", patients.model, "new.csv", "-o", "out.jsonl", "--out-of-range")
    assert record["out_of_range"] == 1
    assert list(pd.read_json("out.jsonl", lines=True)["out_of_range"]) == [False, True, False]


def test_stdin_and_stdout_are_dashes_and_stdout_has_the_predictions_alone(flowers: SimpleNamespace) -> None:
    result = run("predict", flowers.model, "-", text=iris().head(5).to_csv(index=False))
    assert list(pd.read_csv(io.StringIO(result.stdout)).columns) == ["prediction"]
    assert len(result.stdout.splitlines()) == 6
    lines = run("predict", flowers.model, flowers.data, "--output-format", "jsonl").stdout.splitlines()
    assert len(lines) == 150
    assert lines[0].startswith('{"prediction":')


def test_a_small_machine_predicts_as_well(flowers: SimpleNamespace) -> None:
    run("predict", flowers.small, flowers.data, "-o", "out.csv")
    small = tabgnm.load(flowers.small)
    assert list(pd.read_csv("out.csv")["prediction"]) == list(small.predict(iris()[list(small.feature_names_in_)]))


def test_a_failed_prediction_leaves_the_old_output_alone(patients: SimpleNamespace) -> None:
    Path("out.csv").write_text("old\n")
    text = diabetes().to_csv(index=False)
    Path("bad.csv").write_text(text + "1,2,3,4,5,6,7,8,9,10,11,12,13\n")
    result = run("predict", patients.model, "bad.csv", "-o", "out.csv", code=3)
    assert "bad.csv" in result.stderr
    assert Path("out.csv").read_text() == "old\n"


@pytest.mark.parametrize(
    ("model", "options", "code", "complaint"),
    [
        ("patients", ["--proba"], 2, "--proba requires a classifier"),
        ("flowers", ["--interval", "0.9"], 2, "--interval requires a regressor"),
        ("flowers", ["--keep", "name"], 3, "no column 'name'"),
        ("flowers", ["--json"], 2, "--json and the predictions would both go to stdout"),
        ("flowers", ["--interval", "2"], 2, "--interval"),
        ("flowers", ["-o", "absent/out.csv"], 2, "does not exist"),
        ("flowers", ["-o", "out.xlsx"], 3, "--output-format"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    model: str, options: list[str], code: int, complaint: str, request: pytest.FixtureRequest
) -> None:
    own = request.getfixturevalue(model)
    result = run("predict", own.model, own.data, *options, code=code)
    assert complaint in " ".join(result.stderr.replace("│", " ").split())


def test_a_kept_column_cannot_have_the_name_of_a_prediction(flowers: SimpleNamespace) -> None:
    iris().rename(columns={"id": "prediction"}).to_csv("new.csv", index=False)
    result = run("predict", flowers.model, "new.csv", "--keep", "prediction", code=2)
    assert "rename it" in result.stderr


@pytest.mark.parametrize("spaced", [True, False])
def test_spaces_after_delimiters_mean_nothing_unless_the_model_knows_them(spaced: bool) -> None:
    frame = iris().drop(columns="id").assign(colour=np.where(iris()["petal_width"] > 0.8, "red", "blue"))
    model = tabgnm.GNMClassifier(n_candidates=1, n_folds=0, max_epochs=20, random_state=0)
    if spaced:  # as pandas reads such a file
        frame = frame.assign(**{name: " " + frame[name] for name in ("colour", "species")})
    model.fit(frame[["colour", "sepal_width"]], frame["species"]).save("model.tabgnm")
    expected = model.predict(frame[["colour", "sepal_width"]])
    rows = [", ".join(map(str, row)) for row in frame[["sepal_width", "colour"]].to_numpy()]
    rows = [row.replace(",  ", ", ") for row in rows]
    for some in (rows, rows[:1]):
        Path("new.csv").write_text("\n".join(["sepal_width, colour", *some, ""]))
        run("predict", "model.tabgnm", "new.csv", "-o", "out.jsonl")
        assert list(pd.read_json("out.jsonl", lines=True)["prediction"]) == list(expected[: len(some)])
