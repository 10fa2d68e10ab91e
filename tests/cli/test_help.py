"""Help pages as a newcomer sees them, in a terminal of 80 columns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tabgnm.cli import app
from tests.cli.running import run

COMMANDS = [
    "",
    *("fit", "predict", "evaluate", "search", "sparsify", "export", "info", "report", "play", "demo"),
    *("datasets", "datasets list", "datasets info", "datasets fetch"),
    *("paper", "paper tables", "paper curves", "paper runtime", "paper sparse", "paper all", "paper merge"),
]


@pytest.fixture(autouse=True)
def narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_page_has_no_types_of_flags_and_room_for_descriptions(command: str) -> None:
    page = run(*command.split(), "--help").output
    assert "<bool>" not in page
    assert "4294967295" not in page
    lines = [line for line in page.splitlines() if line.startswith(("│ --", "│    --", "│ *  --"))]
    assert lines
    for line in lines:
        description = line.rstrip("│ ").rsplit("  ", 1)[-1]
        assert len(line) - len(line.rstrip("│ ")) + len(description) >= 28, line


@pytest.mark.parametrize(
    "command", ["fit", "predict", "evaluate", "search", "sparsify", "export", "info", "report", "demo"]
)
def test_examples_are_whole_lines(command: str) -> None:
    function = next(
        own.callback for own in app.registered_commands if own.callback is not None and own.callback.__name__ == command
    )
    examples = [line.strip() for line in (function.__doc__ or "").splitlines() if line.startswith("      ")]
    page = [line.strip() for line in run(command, "--help").output.splitlines()]
    assert examples
    assert [f"$ {own}" for own in examples if f"$ {own}" not in page] == []


def test_the_page_of_all_commands_lists_the_exit_codes_of_the_documentation() -> None:
    documented = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
    codes = re.findall(r"^\| (\d+) \|", documented, re.MULTILINE)
    listed = " ".join(run("--help").output.split()).partition("Exit codes: ")[2]
    assert codes == re.findall(r"\d+", listed) == ["0", "1", "2", "3", "4", "130", "141"]


def test_the_lines_of_a_paragraph_are_joined() -> None:
    assert "the target, the machine learns from it, too" in " ".join(run("sparsify", "--help").output.split())
    paragraph = run("sparsify", "--help").output.split("DATA are the rows")[1].split("For example:")[0]
    lines = [line.strip() for line in paragraph.strip().splitlines()]
    assert all(len(line) > 50 for line in lines[:-1])


def test_the_task_is_explained_in_a_list_that_can_be_read_in_one_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    assert "booleans, whole numbers with at most 10 different values, and text that" in run("fit", "--help").output


def test_a_seed_that_is_none_is_refused() -> None:
    result = run("demo", "--seed", "-1", code=2)
    assert "expected an integer from 0 to" in " ".join(result.stderr.replace("│", " ").split())
