"""How commands end: exit codes, one readable line, nothing on stdout that a program would trip over."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.running import QUICK, diabetes, iris, run, run_json


@pytest.fixture
def table() -> Path:
    iris().to_csv("table.csv", index=False)
    return Path("table.csv")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--set", "max_epoch=3"], "unknown parameter; did you mean max_epochs"),
        (["--set", "zzz=3"], "unknown parameter; `tabgnm fit` lists all parameters with --print-settings"),
        (["--set", "max_epochs"], "expected NAME=VALUE"),
        (["--set", "max_epochs=0"], "max_epochs=0"),
        (["--set", "max_epochs=many"], "max_epochs='many'"),
        (["--set", "effort=fast"], "use --effort instead"),
        (["--set", "cv=3"], "not available on the command line"),
        (["--set", "dropout=2"], "Error: --set dropout=2 is not a rate"),
        (["--set", "dropout=abc"], "Error: --set dropout='abc' is not a rate"),
        (["--set", "quantile=[0.1,0.9]"], "Error: --set quantile=[0.1, 0.9] was given with loss='squared_error'"),
        (["--metric", "bleu"], "--metric 'bleu' is not known"),
        (["--device", "abacus"], "abacus"),
        (["--time-limit", "-1"], "--time-limit -1"),
        (["--task", "classification", "--set", "loss=poisson"], "--set loss is not a parameter of classification"),
        (["--set", "class_weight=balanced", "--set", "loss=poisson"], "not a parameter of"),
        (["--set", "column_kinds={'a': 'number'}"], "use --column-kind instead"),
        (["--column-kind", "zip"], "expected COLUMN=KIND"),
        (["--column-kind", "zip=code"], "number, category, datetime, ignore"),
        (["--column-kind", "zip=number", "--column-kind", "zip=category"], "the kinds number and category"),
        (["--ignore", "species"], "is given by both --target and --ignore"),
        (["--weight", "id", "--group", "id"], "is given by both --weight and --group"),
    ],
)
def test_invalid_options_are_refused_before_the_table_is_read(options: list[str], complaint: str) -> None:
    result = run("fit", "not-there.csv", "-t", "species", *options, code=2)
    assert complaint in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--grid", "dropout"], "expected NAME=VALUE"),
        (["--grid", "dropout=0,5"], "Error: --grid dropout=5 is not a rate"),
        (["--grid", "dropout=0,0.5", "--set", "max_epochs=0"], "Error: --set max_epochs=0"),
        (["--grid", "dropout=0", "--grid", "dropout=1"], "given twice"),
        (["--grid", "dropout=0", "--set", "dropout=0.1"], "given by both --set and --grid"),
    ],
)
def test_invalid_grids_are_refused_before_the_table_is_read(options: list[str], complaint: str) -> None:
    assert complaint in run("search", "not-there.csv", "-t", "species", *options, code=2).stderr


def test_a_parameter_of_numbers_is_refused_for_classes_once_the_table_says_so(table: Path) -> None:
    result = run("fit", table, "-t", "species", "--set", "loss=poisson", *QUICK, code=2)
    assert "loss is not a parameter of classification" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["not-there.csv", "-t", "species"], "not-there.csv"),
        (["table.csv", "-t", "specie"], "did you mean 'species'?"),
        (["table.csv", "-t", "species", "--ignore", "colour"], "no column 'colour'"),
        (["table.csv", "-t", "species", "--weight", "sepal_len"], "did you mean"),
        (["table.csv", "-t", "species", "--group", "plant"], "no column 'plant'"),
        (["table.csv", "-t", "species", "--weight", "species2"], "no column"),
        (["table.xlsx", "-t", "species"], "CSV"),
        (["gaps.csv", "-t", "target"], "first in data row 4"),
        (["alone.csv", "-t", "species"], "no columns to learn from"),
        (["table.csv", "-t", "species", "--task", "regression"], "data row 1, which is not a number"),
    ],
)
def test_a_table_that_cannot_be_used_ends_with_3_and_one_line(
    arguments: list[str], complaint: str, table: Path
) -> None:
    frame = diabetes()
    frame.loc[frame.index[3], "target"] = None
    frame.to_csv("gaps.csv", index=False)
    iris()[["species"]].to_csv("alone.csv", index=False)
    assert table.exists()
    result = run("fit", *arguments, *QUICK, code=3)
    assert complaint in result.stderr
    lines = result.stderr.splitlines()
    assert sum(line.startswith("Error: ") for line in lines) == 1
    assert "Traceback" not in result.stderr
    assert not Path("model.tabgnm").exists()


@pytest.mark.parametrize(
    ("source", "options", "complaint"),
    [
        ("not-there.csv", ["--delimiter", ";;"], "--delimiter ';;' cannot be used; expected one character"),
        ("not-there.csv", ["--encoding", "nope"], "--encoding: unknown encoding 'nope'"),
        ("not-there.csv", ["--format", "excel"], "--format: unknown format 'excel'"),
        ("not-there.csv", ["--table", "flowers"], "--table is for SQLite"),
        ("not-there.parquet", ["--delimiter", ";"], "--delimiter is for CSV files"),
        ("not-there.parquet", ["--no-header"], "--no-header is for CSV files"),
        ("not-there.db", ["--encoding", "utf-8"], "--encoding is for text files"),
    ],
)
def test_options_that_no_such_file_can_have_end_with_2(source: str, options: list[str], complaint: str) -> None:
    result = run("fit", source, "-t", "species", *options, code=2)
    assert complaint in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "code", "complaint"),
    [
        (
            ["-o", "p.xyz"],
            3,
            "use one of these endings, or set the format with --output-format, for instance --output-format csv",
        ),
        (["-o", "p.xlsx"], 3, "set the format with --output-format"),
        (["-o", "/dev/full"], 3, "is a pipe, socket or device, not a file; to write to one, use -o - and redirect"),
        (["--output-format", "foo"], 2, "--output-format: unknown format 'foo'"),
    ],
)
def test_errors_about_the_output_name_its_own_option_before_the_model_is_read(
    options: list[str], code: int, complaint: str
) -> None:
    if options == ["-o", "/dev/full"] and not Path("/dev/full").exists():
        pytest.skip("this system has no full device")
    said = run("predict", "not-there.tabgnm", "table.csv", *options, code=code).stderr
    assert complaint in said
    assert " --format" not in said


def test_weights_that_are_not_numbers_are_a_fault_of_the_table(table: Path) -> None:
    result = run("fit", table, "-t", "sepal_length", "--weight", "species", *QUICK, code=3)
    assert "--weight" in result.stderr
    assert "sample_weight" not in result.stderr


@pytest.mark.parametrize("command", ["predict", "evaluate", "sparsify"])
def test_a_file_that_is_no_model_ends_with_4(command: str, table: Path) -> None:
    assert "not-there.tabgnm" in run(command, "not-there.tabgnm", table, code=4).stderr
    Path("broken.tabgnm").write_bytes(b"PK\x03\x04 nothing")
    assert "broken.tabgnm" in run(command, "broken.tabgnm", table, code=4).stderr
    assert "table.csv" in run("info", table, code=4).stderr


def test_columns_of_the_model_have_to_be_there(flowers: SimpleNamespace) -> None:
    diabetes().to_csv("other.csv", index=False)
    for command in ("predict", "evaluate", "sparsify"):
        assert "petal_length" in run(command, flowers.model, "other.csv", code=3).stderr


def test_an_error_is_an_object_with_json(flowers: SimpleNamespace) -> None:
    record = run_json("evaluate", flowers.model, "not-there.csv", code=3)
    assert record["exit_code"] == 3
    assert "not-there.csv" in record["error"]
    assert run_json("info", "not-there.tabgnm", code=4)["exit_code"] == 4


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["fit", "table.csv"], "--target"),
        (["fit", "table.csv", "-t", "species", "--effort", "huge"], "huge"),
        (["fit", "table.csv", "-t", "species", "--colour"], "--colour"),
        (["fit", "table.csv", "-t", "species", "-o", "absent/model.tabgnm"], "does not exist"),
        (["export", "model.tabgnm"], "name the file to write"),
        (["search", "table.csv", "-t", "species", "--grid", "dropout=0", "--folds", "1"], "--folds"),
    ],
)
def test_an_error_in_the_options_is_an_object_with_json_too(arguments: list[str], complaint: str) -> None:
    record = run_json(*arguments, code=2)
    assert record["exit_code"] == 2
    assert complaint in record["error"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", "table.csv", "-t", "species", "-o", "table.csv"],
        ["search", "table.csv", "-t", "species", "--grid", "dropout=0", "-o", "./table.csv"],
        ["predict", "model.tabgnm", "table.csv", "-o", "table.csv"],
        ["predict", "model.tabgnm", "table.csv", "-o", "model.tabgnm"],
        ["sparsify", "model.tabgnm", "table.csv", "-o", "model.tabgnm"],
        ["report", "model.tabgnm", "--data", "table.csv", "-o", "table.csv"],
    ],
)
def test_a_file_that_is_read_is_not_replaced(arguments: list[str], table: Path) -> None:
    Path("model.tabgnm").write_text("a model")
    before = table.read_text()
    result = run(*arguments, code=2)
    assert "would replace the file that is read" in " ".join(result.stderr.replace("│", " ").split())
    assert (table.read_text(), Path("model.tabgnm").read_text()) == (before, "a model")


def test_names_of_files_may_have_spaces_and_any_letters(flowers: SimpleNamespace) -> None:
    folder = Path("größe 東京 'x'")
    folder.mkdir()
    model, data, out = folder / "ein Modell.tabgnm", folder / "Blüten 1.csv", folder / "p=1, 2.csv"
    model.write_bytes(flowers.model.read_bytes())
    data.write_bytes(flowers.data.read_bytes())
    run("predict", model, data, "-o", out)
    out.write_text("old")
    record = run_json("predict", model, data, "-o", out)
    assert (record["output"], record["rows"]) == (str(out), 150)
    assert len(out.read_text().splitlines()) == 151
    assert run_json("info", model)["file"] == str(model)
    assert run_json("export", model, "--to", "py")["output"] == str(model.with_suffix(".py"))


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_to_is_refused_before_the_training(table: Path) -> None:
    Path("closed").mkdir(mode=0o500)
    assert "cannot be written to" in run("fit", table, "-t", "species", "-o", "closed/m.tabgnm", code=2).stderr


def test_debug_shows_where_an_error_comes_from() -> None:
    from tests.cli.running import CliRunner, app

    result = CliRunner().invoke(app, ["--debug", "info", "not-there.tabgnm"])
    assert type(result.exception).__name__ == "ModelFileError"
    assert run("info", "not-there.tabgnm", code=4).stderr.startswith("Error: ")


def test_names_from_files_cannot_act_on_the_terminal() -> None:
    iris().rename(columns={"sepal_length": "red \x1b[31m"}).to_csv("table.csv", index=False)
    result = run("fit", "table.csv", "-t", "red", code=3)
    assert "\x1b" not in result.output
    said = run("fit", "table.csv", "-t", "species", *QUICK)
    assert "\x1b" not in said.output
    assert "red \\x1b[31m" in said.stdout


@pytest.mark.parametrize(
    "command", ["fit", "predict", "evaluate", "search", "sparsify", "export", "info", "report", "play"]
)
def test_every_command_has_examples_in_its_help(command: str) -> None:
    said = run(command, "--help").output
    assert "For example:" in said
    assert f"tabgnm {command}" in said
