import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tabgnm.cli import app
from tabgnm.datasets import dataset_names
from tabgnm.datasets.registry import REGISTRY
from tests.datasets.originals import ORIGINALS, small_spec
from tests.datasets.server import Answer, Server


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    return CliRunner()


def test_the_list_has_every_data_set_and_whether_it_is_here(runner: CliRunner, cache: Path) -> None:
    cache.mkdir()
    (cache / "car.csv.gz").touch()
    (cache / "year_sample.csv.gz").touch()
    (cache / "datasets.json").write_text('{"susy": {"n_samples": 10000}}')
    (cache / "susy.csv.gz").touch()
    (cache / "archives").mkdir()
    (cache / "archives" / "wine+quality.zip").touch()
    result = runner.invoke(app, ["datasets", "list"])
    assert result.exit_code == 0, result.output
    lines = {line.split()[0]: line for line in result.output.splitlines() if line.split()}
    assert set(dataset_names()) <= set(lines)
    here = {"xor": "generated", "diabetes": "scikit-learn", "car": "cached", "adult": "to download", "wine": "archive"}
    for name, where in (here | {"year": "sample", "susy": "sample (10,000)"}).items():
        assert lines[name].rstrip().endswith(where)
    assert "Wireless Indoor Localization" in lines["wireless"]
    assert "48,842" in lines["adult"] and "28 classes" in lines["abalone"] and "regression" in lines["wine"]
    assert f"Cache: {cache}" in result.output


def test_the_list_fits_a_small_terminal_without_cutting_names_or_numbers(
    runner: CliRunner, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    output = runner.invoke(app, ["datasets", "list", "--data-home", str(cache)]).output
    for text in (*dataset_names(), "515,345", "to download", "26 classes"):
        assert text in output
    assert "…" not in output and len(output.splitlines()) < len(dataset_names()) + 8


def test_info_describes_a_data_set(runner: CliRunner, cache: Path) -> None:
    result = runner.invoke(app, ["datasets", "info", "electrical_grid", "--data-home", str(cache)])
    assert result.exit_code == 0, result.output
    for text in (
        "10,000",
        "without stab, from which the target is computed",
        "clean, paper",
        "CC BY 4.0",
        "Arzamasov",
        "471",
        "to download",
    ):
        assert text in result.output


@pytest.mark.parametrize("command", ["info", "fetch"])
def test_an_unknown_name_is_told_with_a_guess(command: str, runner: CliRunner) -> None:
    result = runner.invoke(app, ["datasets", command, "cars"])
    assert result.exit_code == 2
    assert "'cars' is not a data set; did you mean 'car'?" in result.output


@pytest.mark.parametrize("arguments", [[], ["car", "--all"]])
def test_fetch_wants_names_or_all(arguments: list[str], runner: CliRunner) -> None:
    result = runner.invoke(app, ["datasets", "fetch", *arguments])
    assert result.exit_code == 2
    assert "name the data sets, or use --all" in result.output


def test_fetch_downloads_what_it_can_and_fails_at_the_end(
    runner: CliRunner, server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(REGISTRY, "wine", small_spec("wine", f"{server.url}/gone"))
    monkeypatch.setitem(REGISTRY, "car", small_spec("car", server.serve("car", Answer(ORIGINALS["car"].archive()))))
    result = runner.invoke(app, ["datasets", "fetch", "wine", "car", "xor"])
    assert result.exit_code == 1
    assert f"car: {cache / 'car.csv.gz'}" in result.output
    assert "xor: needs no file" in result.output
    assert f"Error: {server.url}/gone could not be downloaded (404 Not Found)" in result.output
    assert runner.invoke(app, ["datasets", "fetch", "car"]).exit_code == 0
    assert server.requests.count("/car") == 1


def test_fetch_takes_unexpected_rows_with_no_verify_only(
    runner: CliRunner, server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    url = server.serve("car", Answer(ORIGINALS["car"].archive()))
    monkeypatch.setitem(REGISTRY, "car", replace(small_spec("car", url), n_samples=9))
    refused = runner.invoke(app, ["datasets", "fetch", "car"])
    assert refused.exit_code == 1 and "has 2 rows, but Car Evaluation has 9" in refused.output
    assert runner.invoke(app, ["datasets", "fetch", "car", "--no-verify"]).exit_code == 0
    assert (cache / "car.csv.gz").is_file()


@pytest.mark.parametrize("arguments", [["list"], ["info", "car"], ["fetch", "car"]])
def test_a_damaged_manifest_is_a_message_and_not_a_traceback(
    arguments: list[str], runner: CliRunner, cache: Path
) -> None:
    cache.mkdir()
    (cache / "datasets.json").write_text("{")
    result = runner.invoke(app, ["datasets", *arguments])
    assert result.exit_code == 1
    assert "is not a manifest of data sets" in result.output and "Traceback" not in result.output


def test_the_commands_need_neither_torch_nor_scikit_learn(tmp_path: Path) -> None:
    program = """
import sys
for name in ("torch", "sklearn", "scipy", "pandas"):
    sys.modules[name] = None
from tabgnm.cli import app
app(["datasets", sys.argv[1], *sys.argv[3:], "--data-home", sys.argv[2]])
"""
    for arguments in (["list"], ["info", "car"], ["fetch", "xor"]):
        command = [sys.executable, "-c", program, arguments[0], str(tmp_path), *arguments[1:]]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr


@pytest.mark.parametrize("arguments", [["list"], ["fetch", "car"], ["info", "car"]])
def test_no_name_of_a_file_reaches_the_terminal_as_a_control_character(
    arguments: list[str], runner: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "red \x1b[31m bell \x07"
    (folder / "archives").mkdir(parents=True)
    (folder / "archives" / "car+evaluation.zip").write_bytes(ORIGINALS["car"].archive())
    monkeypatch.setitem(REGISTRY, "car", small_spec("car"))
    done = runner.invoke(app, ["datasets", *arguments, "--data-home", str(folder)])
    assert done.exit_code == 0, done.output
    (folder / "datasets.json").write_text("{")
    told = runner.invoke(app, ["datasets", *arguments, "--data-home", str(folder)])
    assert told.exit_code == 1 and r"red \x1b[31m bell \x07" in told.output
    assert all(line.isprintable() for line in (done.output + told.output).splitlines())
