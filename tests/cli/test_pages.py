"""The commands of README.md and docs/command-line.md, run in order; and the demo."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

import pandas as pd
import pytest

import tabgnm
from tabgnm.cli.demo import write_wine
from tests.cli.running import QUICK, QUICK_SMALL, run, run_json

ROOT = Path(__file__).resolve().parents[2]
BASH_BLOCK = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)
FASTER = {"fit": QUICK, "search": QUICK, "sparsify": QUICK_SMALL}
NOT_RUN = {"demo", "play", "paper", "datasets", "--install-completion"}  # tested elsewhere, or they change the machine


def commands(page: str) -> list[str]:
    """Return the lines of a page that begin with tabgnm, without comments and without what they are piped to."""
    lines = (line for block in BASH_BLOCK.findall((ROOT / page).read_text()) for line in block.splitlines())
    return [re.split(r"\s+[#|]\s", line)[0] for line in lines if line.startswith("tabgnm ")]


@pytest.mark.parametrize("page", ["README.md", pytest.param("docs/command-line.md", marks=pytest.mark.slow)])
def test_the_commands_of_a_page_run(page: str) -> None:
    write_wine(Path("wine.csv"))
    wines = pd.read_csv("wine.csv").sample(frac=1, random_state=0)
    wines.insert(0, "id", range(len(wines)))
    wines.to_csv("wine.csv", index=False)
    wines.head(50).to_csv("new.csv", index=False)
    found = commands(page)
    assert len(found) >= 5
    for line in found:
        name, *arguments = shlex.split(line)[1:]
        if name in NOT_RUN or (name == "report" and importlib.util.find_spec("tabgnm.report") is None):
            continue
        text = None
        if "<" in arguments:
            place = arguments.index("<")
            text = Path(arguments[place + 1]).read_text()
            del arguments[place : place + 2]
        run(name, *arguments, *FASTER.get(name, []), text=text)
    assert Path("predictions.csv").exists()


def test_the_demo_fits_compares_and_draws_a_small_machine() -> None:
    said = run("demo", "--epochs", "10", "--quiet").stdout
    for text in ("this model", "logistic regression", "majority class", "◀ chosen", "p_Barolo = ", "━▶"):
        assert text in said
    assert tabgnm.load("tabgnm-demo/small.tabgnm").machine_.n_edges <= 25
    assert "<svg" in Path("tabgnm-demo/machine.svg").read_text()
    report = importlib.util.find_spec("tabgnm.report") is not None
    assert Path("tabgnm-demo/report.html").exists() == report
    assert ("Report: " in said) == report


@pytest.mark.parametrize(("name", "complaint"), [("file", "is a file"), ("absent/folder", "does not exist")])
def test_the_demo_refuses_a_folder_that_it_cannot_write_to(name: str, complaint: str) -> None:
    Path("file").write_text("")
    result = run("demo", "--output", name, code=2)
    assert complaint in " ".join(result.stderr.replace("│", " ").split())


def test_the_page_states_the_rule_of_the_task_and_the_exit_codes() -> None:
    from tabgnm.cli import terminal
    from tabgnm.cli.training_table import MAX_CLASSES_OF_NUMBERS

    page = (ROOT / "docs/command-line.md").read_text()
    assert f"at most {MAX_CLASSES_OF_NUMBERS} different values" in page
    assert f"at most {MAX_CLASSES_OF_NUMBERS}" in " ".join(run("fit", "--help").output.replace("│", " ").split())
    codes = ("UNEXPECTED", "USAGE", "BAD_TABLE", "BAD_MODEL", "INTERRUPTED", "CLOSED_PIPE")
    for code in [0, *(getattr(terminal, name) for name in codes)]:
        assert f"\n| {code} |" in page


def test_every_command_is_on_the_page_with_all_its_options() -> None:
    page = (ROOT / "docs/command-line.md").read_text()
    for name in ("fit", "predict", "evaluate", "search", "sparsify", "export", "info", "report", "play", "demo"):
        assert f"## `tabgnm {name}" in page, name
        options = set(re.findall(r"--[a-z][a-z0-9-]+", run(name, "--help").output)) - {"--help"}
        missing = {option for option in options if option not in page}
        assert not missing, (name, missing)


@pytest.mark.slow
def test_json_of_the_demo_names_its_files() -> None:
    record = run_json("demo", "--epochs", "2", "--quiet", "-o", "here")
    assert Path(record["model"]).exists()
    assert Path(record["picture"]).exists()
    assert set(record["baselines"]) == {"majority class", "logistic regression"}
