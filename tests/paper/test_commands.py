"""``tabgnm paper``."""

from __future__ import annotations

import csv
import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tabgnm.cli import app
from tabgnm.paper import ResultStore
from tabgnm.paper import data as paper_data
from tests.paper.examples import some_result

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
MOONS = paper_data.load("noisy_moons", "paper", None)
SMALL = ["--only", "noisy_moons", "--folds", "0-1", "--epochs", "1", "--device", "cpu"]


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CliRunner:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.chdir(tmp_path)
    return CliRunner()


def one_line(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


def files(folder: Path, name: str) -> tuple[list[dict[str, str]], dict[str, object], str]:
    assert (folder / f"{name}.png").read_bytes().startswith(PNG_SIGNATURE)
    with (folder / f"{name}.csv").open() as file:
        rows = list(csv.DictReader(file))
    return rows, json.loads((folder / f"{name}.json").read_text()), (folder / f"{name}.md").read_text()


def test_help_needs_neither_torch_nor_scikit_learn() -> None:
    program = (
        "import sys; from typer.testing import CliRunner; from tabgnm.cli import app\n"
        "for command in ('tables', 'curves', 'runtime', 'sparse', 'all', 'merge'):\n"
        "    assert CliRunner().invoke(app, ['paper', command, '--help']).exit_code == 0, command\n"
        "assert not {'torch', 'sklearn', 'matplotlib'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_tables_are_printed_and_written_with_the_papers_numbers_and_call_a_slice_a_slice(
    runner: CliRunner, tmp_path: Path
) -> None:
    result = runner.invoke(app, ["paper", "tables", *SMALL])
    assert result.exit_code == 0, result.output
    rows, content, page = files(tmp_path / "paper-results", "tables")
    for text in ("99.90 ± 0.30", "A slice: 1 epochs, not the paper's 300.", "A slice: folds 0, 1 of 10."):
        assert text in result.output and text in page
    assert [row["model"] for row in rows] == ["gnm", "mlp"]
    assert content["setting"] == {"scaling": "none", "max_epochs": 1, "n_folds": 10, "seed": 0}
    assert content["date"] and content["machine"] and "software" in content
    with ResultStore(tmp_path / "paper-results" / "results.sqlite") as store:
        assert len(store.results()) == 24 * 4 * 2


def test_what_is_stored_is_not_done_again_and_gives_the_same_table(
    runner: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = runner.invoke(app, ["paper", "tables", *SMALL])
    monkeypatch.setattr("tabgnm.paper.engines.run_unit", None)
    second = runner.invoke(app, ["paper", "tables", *SMALL])
    assert second.exit_code == 0 and second.output == first.output


def test_a_slice_of_epochs_does_not_mix_with_another(runner: CliRunner, tmp_path: Path) -> None:
    runner.invoke(app, ["paper", "tables", *SMALL])
    shard = ["paper", "tables", *SMALL[:4], "--epochs", "2", "--shard", "1/12"]
    result = runner.invoke(app, shard)
    assert result.exit_code == 0, result.output
    assert "noisy_moons, GNM: incomplete, " in result.output
    content = json.loads((tmp_path / "paper-results" / "tables.json").read_text())
    assert all(cell["n_configurations"][1] <= 12 for cell in content["cells"])


def test_a_dry_run_lists_the_work_and_its_time_and_trains_nothing(runner: CliRunner, tmp_path: Path) -> None:
    result = runner.invoke(app, ["paper", "tables", *SMALL, "--only", "diabetes", "--dry-run", "--jobs", "2"])
    assert result.exit_code == 0, result.output
    text = one_line(result.output)
    assert "384 trainings (2 folds), roughly" in text and "an estimate from" in text and "A slice: 1 epochs" in text
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_leaves_a_store_as_it_is_and_needs_nothing_to_draw_with(
    runner: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.invoke(app, ["paper", "tables", *SMALL, "--shard", "1/2"])
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # what Python takes for "not installed"
    store = tmp_path / "paper-results" / "results.sqlite"
    before = {own: own.stat().st_mtime_ns for own in store.parent.iterdir()}
    result = runner.invoke(app, ["paper", "tables", *SMALL, "--dry-run"])
    assert result.exit_code == 0 and re.search(r"Total: (92|96|100) trainings", one_line(result.output)), result.output
    assert {own: own.stat().st_mtime_ns for own in store.parent.iterdir()} == before
    for command in (["curves", "--only", "wireless"], ["runtime", "--only", "car"], ["sparse"]):
        monkeypatch.setattr(paper_data, "load", lambda *_: MOONS)
        result = runner.invoke(app, ["paper", *command, "--dry-run", "--device", "cpu", "--output", "elsewhere"])
        assert result.exit_code == 0 and not Path("elsewhere").exists(), result.output


def test_all_cores_are_told_as_a_number(runner: CliRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("joblib.cpu_count", lambda: 6)
    result = runner.invoke(app, ["paper", "tables", *SMALL, "--dry-run", "--jobs", "-1"])
    assert "with 6 at once" in one_line(result.output), result.output
    cluster = ["--engine", "dask", "--address", "tcp://head:8786"]
    result = runner.invoke(app, ["paper", "tables", *SMALL, "--dry-run", "--jobs", "-1", *cluster])
    assert "with one worker of the cluster" in one_line(result.output), result.output


@pytest.mark.parametrize("command", ["tables", "curves", "runtime", "sparse", "all"])
@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("file", "file cannot be a folder, because file is a file; choose another one"),
        ("file/inside", "/file is a file; choose another one"),
        ("/proc/nowhere", "the folder /proc/nowhere cannot be written ("),
    ],
)
def test_a_folder_that_cannot_be_is_refused_before_the_work(
    runner: CliRunner, command: str, output: str, message: str
) -> None:
    Path("file").touch()
    result = runner.invoke(app, ["paper", command, "--output", output])
    assert result.exit_code == 2 and message in one_line(result.output).replace("/ ", "/"), result.output


def test_a_part_without_work_says_so_and_writes_no_page(runner: CliRunner, tmp_path: Path) -> None:
    for arguments in (["--shard", "99/100"], ["--shard", "1000000000/1000000000"]):
        result = runner.invoke(app, ["paper", "tables", *SMALL, *arguments])
        assert result.exit_code == 0 and f"Part {arguments[1]} has no work" in result.output, result.output
    assert not list(tmp_path.glob("paper-results/tables.*"))


def test_shards_in_stores_of_their_own_are_merged(runner: CliRunner) -> None:
    for number in ("1", "2"):
        arguments = ["--shard", f"{number}/2", "--store", f"{number}.sqlite"]
        assert runner.invoke(app, ["paper", "tables", *SMALL, *arguments]).exit_code == 0
    result = runner.invoke(app, ["paper", "merge", "whole.sqlite", "1.sqlite", "2.sqlite"])
    assert result.exit_code == 0, result.output
    with ResultStore("whole.sqlite") as store:
        assert len(store.results()) == 24 * 4 * 2


def test_merging_names_files_as_they_are_called_and_counts_other_values(runner: CliRunner, tmp_path: Path) -> None:
    with ResultStore(tmp_path / "own.sqlite") as own, ResultStore(tmp_path / "go[bold]od x.sqlite") as other:
        own.add([some_result("a", metric1=90.0)])
        other.add([some_result("a", metric1=91.0), some_result("b")])
    result = runner.invoke(app, ["paper", "merge", "own.sqlite", "go[bold]od x.sqlite"])
    assert result.output == "go[bold]od x.sqlite: 1 new results; 1 already have a different value, which is kept\n"
    Path("empty").touch()
    result = runner.invoke(app, ["paper", "merge", "own.sqlite", "empty"])
    assert result.exit_code == 1 and "'empty' is empty, so it is not a store of results" in result.output


def test_sparse_prints_edges_and_writes_files(runner: CliRunner, tmp_path: Path) -> None:
    result = runner.invoke(app, ["paper", "sparse", "--seeds", "2", "--output", "here"])
    assert result.exit_code == 0, result.output
    rows, content, page = files(tmp_path / "here", "sparse")
    assert len(rows) == len(content["machines"]) == 2  # type: ignore[arg-type]
    assert "input 0" in result.output and "best possible accuracy, 93.4 %" in page


def test_curves_and_running_times_are_written(
    runner: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paper_data, "load", lambda *_: MOONS)
    monkeypatch.setattr("tabgnm.paper.curves.TARGETS", {"tiny": 3_000})
    monkeypatch.setattr("tabgnm.paper.runtime.TARGETS", {"tiny": 3_000})
    monkeypatch.setattr("tabgnm.paper.runtime.NODES", (20, 30))
    for name, only, n_rows in (("curves", "wireless", 2), ("runtime", "car", 4)):
        result = runner.invoke(app, ["paper", name, "--only", only, "--epochs", "2", "--device", "cpu"])
        assert result.exit_code == 0, result.output
        rows, content, page = files(tmp_path / "paper-results", name)
        assert len(rows) == n_rows and content and "tiny" in page
        dry = runner.invoke(app, ["paper", name, "--only", only, "--epochs", "2", "--dry-run", "--device", "cpu"])
        assert dry.exit_code == 0 and ("curves to train" in dry.output or "networks to measure" in dry.output)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tables", "--folds", "a"], "'a' is not a list of folds; write e.g. 0, 0-4 or 0,3,7"),
        (["tables", "--shard", "3/2"], "'3/2' is not a shard; write i/n with 1 <= i <= n, e.g. 2/8"),
        (["tables", "--only", "irsi"], "'irsi' is not a data set"),
        (["tables", *SMALL, "--folds", "12"], "folds 12 do not exist; expected some of 0 to 9"),
        (["tables", *SMALL, "--folds", "0-99999999999"], "folds 0-99999999999 do not exist; expected some of 0 to 9"),
        (["tables", *SMALL, "--folds", "0,5-2"], "folds 5-2 are in descending order; write 2-5"),
        (["tables", *SMALL, "--jobs", "0"], "n_jobs must be at least 1"),
        (["tables", *SMALL, "--address", "tcp://a"], "address='tcp://a' requires a cluster"),
        (["tables", *SMALL, "--store", "no/where.sqlite"], "does not exist; create it first"),
        (["curves", "--only", "adult"], "there are no curves for ['adult']"),
    ],
)
def test_what_cannot_be_is_told_without_a_traceback(runner: CliRunner, arguments: list[str], message: str) -> None:
    result = runner.invoke(app, ["paper", *arguments])
    assert result.exit_code in (1, 2)
    assert message in one_line(result.output) and "Traceback" not in result.output


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["tables", *SMALL], "stopped; finished results are stored; the same command continues from there"),
        (["sparse", "--seeds", "1"], "stopped; no results are stored; the same command starts over"),
        (["tables", *SMALL, "--dry-run"], "stopped; a dry run stores nothing"),
        (["all"], "stopped; finished tables and curves are stored"),
    ],
)
def test_an_interruption_says_what_is_kept(
    runner: CliRunner, monkeypatch: pytest.MonkeyPatch, command: list[str], message: str
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tabgnm.training.Fleet.fit", interrupted)
    result = runner.invoke(app, ["paper", *command])
    assert result.exit_code == 130 and message in one_line(result.output)


@pytest.mark.parametrize("command", ["tables", "curves", "runtime"])
def test_without_any_data_there_is_an_error_and_no_empty_page(
    command: str, runner: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_network(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    paper_data.load.cache_clear()
    result = runner.invoke(app, ["paper", command, "--only", "car", "--data-home", str(tmp_path / "empty")])
    assert result.exit_code == 1
    assert "none of the data sets is available: car" in one_line(result.output)
    assert not list((tmp_path / "paper-results").glob(f"{command}.*"))


def test_a_narrow_terminal_still_gets_all_names_and_numbers(runner: CliRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    result = runner.invoke(app, ["paper", "tables", *SMALL])
    assert result.exit_code == 0, result.output
    assert "…" not in result.output
    assert re.search(r"noisy_moons +MLP +\d+\.\d\d ± \d+\.\d\d +99.90 ± 0.30", result.output)


def test_no_name_of_a_store_reaches_the_terminal_as_a_control_character(runner: CliRunner, tmp_path: Path) -> None:
    for name, content in (("a\x1b[31m", None), ("b\x1b[31m", b"not a store")):
        if content is None:
            with ResultStore(tmp_path / name) as store:
                store.add([some_result("k")])
        else:
            (tmp_path / name).write_bytes(content)
        result = runner.invoke(app, ["paper", "merge", "own.sqlite", name])
        assert result.exit_code == (content is not None), result.output
        assert r"\x1b[31m" in result.output and "\x1b" not in result.output
