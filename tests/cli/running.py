"""The command line in a test: in this process, or in one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.datasets import load_diabetes, load_iris
from typer.testing import CliRunner, Result

from tabgnm.cli import app

# Few and short: what is tested is the commands, not the training.
QUICK = ["--effort", "fast", "--set", "n_candidates=1", "--set", "n_folds=2", "--set", "max_epochs=8", "--quiet"]
QUICK_SMALL = [
    "--set",
    "n_starts=1",
    "--set",
    "n_augmented=0",
    "--set",
    "n_folds=2",
    "--set",
    "n_layers=2",
    "--set",
    "n_hidden=3",
]


def run(*arguments: str | Path, code: int = 0, text: str | None = None) -> Result:
    """Run a command in this process."""
    result = CliRunner().invoke(app, [str(own) for own in arguments], input=text)
    assert result.exit_code == code, (result.exit_code, result.output, result.exception)
    return result


def run_json(*arguments: str | Path, code: int = 0) -> dict[str, Any]:
    """Run a command with --json, and return the only object on stdout."""
    result = run(*arguments, "--json", code=code)
    assert result.stdout.count("\n") == 1
    record: dict[str, Any] = json.loads(result.stdout)
    return record


def environment(**changes: str) -> dict[str, str]:
    """Return an environment like that of a user's shell, with the package of these tests."""
    root = str(Path(__file__).resolve().parents[2])
    kept = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    return kept | {"PYTHONPATH": root, "TERM": "xterm-256color"} | changes


def run_program(
    *arguments: str | Path, folder: Path, code: int = 0, **changes: str
) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, as a shell would."""
    done = subprocess.run(
        [sys.executable, "-m", "tabgnm", *map(str, arguments)],
        cwd=folder,
        env=environment(**changes),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done


def iris() -> pd.DataFrame:
    """Return flowers in a random order, with their species as text."""
    flowers = load_iris(as_frame=True)
    frame = flowers.data.set_axis(["sepal_length", "sepal_width", "petal_length", "petal_width"], axis=1)
    frame.insert(0, "id", range(1000, 1000 + len(frame)))
    frame["species"] = flowers.target_names[flowers.target]
    return frame.sample(frac=1, random_state=0)


def diabetes() -> pd.DataFrame:
    """Return patients with a number to predict, and some missing cells."""
    frame = load_diabetes(as_frame=True, scaled=False).frame
    frame.loc[frame.index[::7], "bmi"] = None
    return frame
