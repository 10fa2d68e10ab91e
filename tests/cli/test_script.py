"""A script as in real life: from a table like that of a census to a program in C and a report."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from tests.cli.running import QUICK, QUICK_SMALL, run

if TYPE_CHECKING:
    from playwright.sync_api import Page

SCRIPT = """
tabgnm fit train.csv --target income
tabgnm evaluate model.tabgnm test.csv
tabgnm sparsify model.tabgnm train.csv --edges 20
tabgnm export small.tabgnm --to c --prefix income
tabgnm predict small.tabgnm test.csv --proba -o predictions.csv
tabgnm report small.tabgnm --data test.csv
"""
FASTER = {"fit": QUICK, "sparsify": QUICK_SMALL}
N_ROWS, N_TRAIN = 400, 250
WARNINGS = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]


def census() -> pd.DataFrame:
    """Return people as the Adult data set has them: numbers, categories with gaps, and a class that they tell."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": random.integers(17, 90, N_ROWS),
            "workclass": random.choice(["Private", "Self-emp-not-inc", "State-gov", "?"], N_ROWS),
            "education-num": random.integers(1, 17, N_ROWS),
            "marital-status": random.choice(["Married-civ-spouse", "Never-married", "Divorced"], N_ROWS),
            "capital-gain": np.where(random.random(N_ROWS) < 0.9, 0, random.integers(1, 99_999, N_ROWS)),
            "native-country": random.choice(["United-States", "Mexico", ""], N_ROWS, p=[0.9, 0.07, 0.03]),
        }
    )
    score = frame["education-num"] + 5 * (frame["marital-status"] == "Married-civ-spouse") + random.normal(size=N_ROWS)
    return frame.assign(income=np.where(score > 11, ">50K", "<=50K"))


def write(frame: pd.DataFrame, name: str) -> None:
    """Write a table as the Adult data set is written: with a space after each comma."""
    lines = [frame.columns.tolist(), *frame.astype(str).to_numpy().tolist()]
    Path(name).write_text("\n".join(", ".join(cells) for cells in lines) + "\n")


@dataclass(frozen=True)
class Run:
    """A folder with all files of the script, and what each command printed."""

    folder: Path
    said: dict[str, str]


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run the commands one after the other."""
    folder = tmp_path_factory.mktemp("script")
    said = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        frame = census()
        write(frame[:N_TRAIN], "train.csv")
        write(frame[N_TRAIN:], "test.csv")
        for line in SCRIPT.strip().splitlines():
            name, *arguments = shlex.split(line)[1:]
            result = run(name, *arguments, *FASTER.get(name, []))
            assert result.stderr == "" or name == "predict", (line, result.stderr)
            said[name] = result.stdout
    return Run(folder, said)


def c_row(row: pd.Series, members: dict[str, str]) -> str:
    """Return a row as C; `members` has the type of each."""
    cells = {re.sub(r"\W", "_", str(name)): cell for name, cell in row.items()}
    values = [
        f".{name} = " + ("NULL" if cells[name] == "" else f'"{cells[name]}"' if "char" in kind else f"{cells[name]}.0")
        for name, kind in members.items()
    ]
    return f"{{{', '.join(values)}}}"


def test_the_commands_say_what_a_person_wants_to_know(script: Run) -> None:
    said = script.said
    assert "2 classes (its values are text): 250 rows, 6 columns" in said["fit"]
    assert "cells are missing" in said["fit"]
    assert re.search(r"<=50K +>50K", said["evaluate"])
    assert "◀ chosen" in said["sparsify"]
    assert '= " ' not in said["sparsify"]  # no level begins with a space
    assert all("\x1b" not in text for text in said.values())


def test_the_report_opens_in_a_browser(script: Run, page: Page) -> None:
    page.goto((script.folder / "report.html").as_uri())  # the fixture fails on errors in the console
    assert "income" in page.inner_text("h1")


def test_the_program_in_c_predicts_what_the_command_predicts(script: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("gcc is not installed")
    monkeypatch.chdir(script.folder)
    source = Path("small.c").read_text()
    struct = source[source.index("typedef struct") : source.index("} income_row;")]
    members = {name: kind for kind, name in re.findall(r"^    (double |const char \*)(\w+);", struct, re.MULTILINE)}
    rows = ",\n".join(c_row(row, members) for _, row in census()[N_TRAIN:].iterrows())
    Path("main.c").write_text(
        '#include "small.c"\n#include <stdio.h>\n'
        f"static const income_row rows[] = {{{rows}}};\n"
        "int main(void)\n{\n    double p[2];\n    size_t i;\n"
        "    for (i = 0; i < sizeof rows / sizeof *rows; i++) {\n"
        "        income_probabilities(&rows[i], p);\n"
        '        printf("%s,%.17g\\n", income_labels[income_predict(&rows[i])], p[1]);\n    }\n    return 0;\n}\n'
    )
    subprocess.run([gcc, *WARNINGS, "main.c", "-o", "main", "-lm"], check=True)
    found = subprocess.run(["./main"], check=True, capture_output=True, text=True).stdout.splitlines()
    expected = pd.read_csv("predictions.csv")
    assert [line.split(",")[0] for line in found] == expected["prediction"].tolist()
    np.testing.assert_allclose([float(line.split(",")[1]) for line in found], expected["probability_>50K"], atol=1e-9)
