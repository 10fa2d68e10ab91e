from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import tabgnm
from tabgnm import MLPClassifier
from tabgnm.cli.sparsify import _one_of_each_size
from tests.cli.running import QUICK, QUICK_SMALL, iris, run, run_json
from tests.report.reading import table


def test_sparsify_shows_the_path_the_machine_and_its_equations(flowers: SimpleNamespace) -> None:
    said = flowers.made.stdout
    for text in (
        "evaluated against the target",
        "◀ chosen",
        "It has",
        "hidden units",
        "output",
        "p_setosa = ",
        "Next:",
    ):
        assert text in said
    small = tabgnm.load(flowers.small)
    assert small.machine_.n_edges <= 8
    assert small.target_name_ == "species"


def test_a_small_machine_takes_columns_for_what_the_model_takes_them_for() -> None:
    frame = iris().assign(code=np.arange(150) % 4 + 1).drop(columns="id")  # as text alone, codes would be categories
    frame.to_csv("table.csv", index=False)
    run("fit", "table.csv", "-t", "species", *QUICK)
    run("sparsify", "model.tabgnm", "table.csv", *QUICK_SMALL)
    kinds = [{own.name: own.kind for own in tabgnm.load(name).columns_} for name in ("model.tabgnm", "small.tabgnm")]
    assert kinds[0]["code"] == "number"
    assert kinds[0] == kinds[1]


def test_a_size_is_shown_once_with_its_lowest_loss_unless_another_is_chosen() -> None:
    sizes = [(0, 0, 0), (5, 1, 1), (5, 1, 1), (5, 2, 1), (9, 2, 2), (9, 2, 2)]
    path = [
        {"edges": edges, "columns": columns, "hidden": hidden, "loss": loss, "score": 0.5, "chosen": loss == 0.2}
        for (edges, columns, hidden), loss in zip(sizes, [0.9, 0.5, 0.4, 0.3, 0.2, 0.1], strict=True)
    ]
    assert [own["loss"] for own in _one_of_each_size(path)] == [0.9, 0.4, 0.3, 0.2]


def test_sparsify_does_not_warn_of_columns_that_the_model_knows(flowers: SimpleNamespace) -> None:
    assert "Warning" not in flowers.made.stderr


def test_a_target_with_missing_cells_is_not_used_silently(flowers: SimpleNamespace) -> None:
    frame = pd.read_csv(flowers.data)
    frame.loc[3, "species"] = None
    frame.to_csv("missing.csv", index=False)
    result = run("sparsify", flowers.model, "missing.csv", "--edges", "8", *QUICK_SMALL)
    assert "the target is not used" in result.stderr
    assert "the predictions of the model" in result.stdout
    assert "accuracy against" in result.stdout, "the heading of the scores"


def test_the_drawing_has_a_line_for_each_edge(flowers: SimpleNamespace) -> None:
    machine = tabgnm.load(flowers.small).machine_
    lines = [line for line in flowers.made.stdout.splitlines() if "━▶" in line]
    assert len(lines) == machine.n_edges
    for unit in machine.units:
        for source in unit.sources:
            assert any(line.strip().startswith(machine.name(source)) for line in lines)


def test_the_picture_is_an_svg_file(flowers: SimpleNamespace) -> None:
    assert "<svg" in (flowers.folder / "m.svg").read_text()


def test_without_the_target_the_model_itself_judges_the_sizes(flowers: SimpleNamespace) -> None:
    iris().drop(columns="species").head(60).to_csv("new.csv", index=False)
    record = run_json("sparsify", flowers.model, "new.csv", "--tolerance", "0.5", *QUICK_SMALL)
    assert record["judged_by"] == "model"
    assert sum(own["chosen"] for own in record["path"]) == 1
    assert "p_setosa" in record["equations"]


@pytest.mark.parametrize(
    ("options", "code", "complaint"),
    [
        (["--edges", "5", "--tolerance", "0.1"], 2, "use one of them"),
        (["--set", "n_layer=2"], 2, "did you mean n_layers"),
        (["--set", "n_layers=x"], 2, "expected an integer"),
        (["--set", "penalty=l7"], 2, "l7"),
        (["--set", "n_augmented=-1"], 2, "n_augmented"),
        (["--picture", "machine.gif"], 2, "use .svg, .png or .pdf"),
        (["--target", "kind"], 3, "no column 'kind'"),
        (["--edges", "1", *QUICK_SMALL], 2, "the smallest machine of the path has 3 edges; use --edges 3"),
    ],
)
def test_sparsify_refuses_what_it_cannot_do(
    options: list[str], code: int, complaint: str, flowers: SimpleNamespace
) -> None:
    result = run("sparsify", flowers.model, flowers.data, *options, code=code)
    assert complaint in " ".join(result.stderr.replace("│", " ").split())
    assert not Path("small.tabgnm").exists()


def test_an_mlp_has_no_graph_to_learn(flowers: SimpleNamespace) -> None:
    frame = iris()
    model = MLPClassifier(n_candidates=1, n_folds=0, max_epochs=1).fit(frame[["sepal_length"]], frame["species"])
    model.save("mlp.tabgnm")
    assert "cannot be made sparse" in run("sparsify", "mlp.tabgnm", flowers.data, code=4).stderr
    model.set_params(n_folds=2).fit(frame[["sepal_length"]], frame["species"]).save("mlp.tabgnm")
    complaint = " ".join(run("export", "mlp.tabgnm", "model.c", code=4).stderr.split())
    assert "MLPClassifier has fixed layers: fit a GNM" in complaint and "first run" not in complaint


@pytest.mark.parametrize("format_name", ["c", "sql"])
def test_a_pack_is_too_large_for_c_and_sql_and_the_error_says_what_to_run(
    format_name: str, flowers: SimpleNamespace
) -> None:
    result = run("export", flowers.model, f"out.{format_name}", code=4)  # whether or not it has the options of SQL
    assert f"first run: tabgnm sparsify {flowers.model} DATA" in result.stderr


@pytest.mark.parametrize("format_name", ["onnx", "py"])
def test_a_pack_is_exported_to_onnx_and_python(format_name: str, flowers: SimpleNamespace) -> None:
    pytest.importorskip("onnx")
    record = run_json("export", flowers.model, f"out.{format_name}")
    assert record["format"] == format_name
    assert Path(f"out.{format_name}").stat().st_size == record["bytes"] > 1000


def test_the_format_says_the_name_of_the_file(flowers: SimpleNamespace) -> None:
    record = run_json("export", flowers.small, "--to", "c", "--prefix", "iris")
    assert Path(record["output"]) == flowers.small.with_suffix(".c")
    assert "iris_predict" in flowers.small.with_suffix(".c").read_text()


def test_the_query_of_an_export_runs_in_a_database(flowers: SimpleNamespace) -> None:
    options = ["--table", "flowers", "--dialect", "sqlite", "--keep", "id"]
    run("export", flowers.small, "out.sql", *options)
    with sqlite3.connect(":memory:") as database:
        iris().to_sql("flowers", database, index=False)
        try:
            found = pd.read_sql_query(Path("out.sql").read_text().rstrip(";\n"), database)
        except Exception as error:
            if "no such function" not in str(error):
                raise
            pytest.skip("this SQLite was built without mathematical functions")
    small = tabgnm.load(flowers.small)
    expected = pd.Series(small.predict(iris()[list(small.feature_names_in_)]), index=iris()["id"])
    assert found.set_index("id")["prediction"].to_dict() == expected.to_dict()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "name the file to write"),
        (["out.txt"], "is unknown; use one of the extensions"),
        (["out.c", "--to", "sql"], "does not end in .sql"),
        (["out.c", "--dialect", "duckdb"], "--dialect is not an option for exports to .c"),
        (["out.py", "--float32"], "--float32 is not an option for exports to .py"),
        (["out.sql"], "needs --table and --dialect"),
        (["out.c", "--prefix", "1x"], "--prefix '1x' is not a valid prefix of C names"),
        (["out.py", "--max-megabytes", "0"], "--max-megabytes 0.0 is out of range"),
        (
            ["out.sql", "--table", "t", "--dialect", "duckdb", "--keep", "id", "--keep", "id"],
            "--keep ['id', 'id'] has a duplicate name",
        ),
        (["absent/out.c"], "does not exist"),
    ],
)
def test_export_refuses_options_that_do_not_fit(arguments: list[str], complaint: str, flowers: SimpleNamespace) -> None:
    result = run("export", flowers.small, *arguments, code=2)
    assert complaint in " ".join(result.stderr.replace("│", " ").split())


def test_a_program_that_is_too_large_is_answered_by_options_and_commands(flowers: SimpleNamespace) -> None:
    said = run("export", flowers.model, "big.py", "--max-megabytes", "0.01", code=4).stderr
    assert re.search(
        r"the file would have 0\.\d+ MB, more than --max-megabytes 0\.01; export to \.onnx, use a larger --max-megabytes, or "
        r"export a small machine: run `tabgnm sparsify`$",
        said.strip(),
    )
    assert not Path("big.py").exists()


def test_an_mlp_that_is_too_large_is_answered_by_commands() -> None:
    frame = iris()
    model = MLPClassifier(n_candidates=1, n_folds=2, max_epochs=1).fit(frame[["sepal_length"]], frame["species"])
    model.save("mlp.tabgnm")
    said = run("export", "mlp.tabgnm", "big.py", "--max-megabytes", "0.001", code=4).stderr
    assert said.endswith("MLPs do not learn small machines: fit a GNM with `tabgnm fit`, and run `tabgnm sparsify`\n")


def test_a_report_is_written(flowers: SimpleNamespace) -> None:
    pytest.importorskip("tabgnm.report")
    record = run_json("report", flowers.model, "--data", flowers.data, "-o", "report.html", "--title", "Flowers")
    assert record["rows"] == 150
    assert "Flowers" in Path("report.html").read_text()


def test_a_report_numbers_the_rows_of_the_file_also_if_some_are_skipped(patients: SimpleNamespace) -> None:
    pytest.importorskip("jinja2")
    full = pd.read_csv(patients.data)
    full.assign(target=full["target"].where(full.index >= 50)).to_csv("gaps.csv", index=False)
    run("report", patients.model, "--data", "gaps.csv", "--drop-missing-target")
    errors = (full["target"] - tabgnm.load(patients.model).predict(full.drop(columns="target"))).abs()[50:]
    page = Path("report.html").read_text()
    shown = [int(row[0]) for row in table(page, "<h3>Largest errors</h3>")]
    assert shown == [row + 1 for row in errors.sort_values(ascending=False, kind="stable").index[:8]]
    assert "Row numbers are positions in the file, starting at 1, without the header." in page


def test_the_playground_gets_the_table_and_its_columns(
    flowers: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = pytest.importorskip("tabgnm.play")
    seen = {}
    monkeypatch.setattr(play, "serve", lambda **arguments: seen.update(arguments))
    columns = ["--column", "sepal_length", "--column", "petal_width"]
    run("play", flowers.data, *columns, "--target", "species", "--port", "8123", "--no-browser")
    assert len(seen.pop("data")) == 150
    assert seen == {
        "columns": ["sepal_length", "petal_width"],
        "target": "species",
        "port": 8123,
        "open_browser": False,
    }


def test_the_playground_needs_a_table_for_columns_and_a_target_for_a_table(flowers: SimpleNamespace) -> None:
    pytest.importorskip("tabgnm.play")
    assert "need a table" in run("play", "--column", "a", code=2).stderr
    assert "--target" in run("play", flowers.data, code=2).stderr
