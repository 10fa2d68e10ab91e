"""The tutorials are scripts; each of them runs to its end, as a reader would run it."""

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
TUTORIALS = {path: path.read_text() for path in sorted((ROOT / "docs" / "tutorials").glob("*.md"))}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_without_a_warning(example: Path, tmp_path: Path) -> None:
    needed = {node.module for node in ast.walk(ast.parse(example.read_text())) if isinstance(node, ast.ImportFrom)}
    if "distributed" in needed and importlib.util.find_spec("distributed") is None:
        pytest.skip("needs Dask")
    command = [sys.executable, "-W", "error::UserWarning", str(example)]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,  # seconds suffice; a machine that does other things takes longer
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert not list(tmp_path.iterdir()), "an example leaves files behind"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_the_text_of_one_tutorial(example: Path) -> None:
    included = f'``` {{.python}}\n--8<-- "examples/{example.name}"\n```'
    [page] = [page for page, text in TUTORIALS.items() if included in text]
    assert f"[examples/{example.name}](../../examples/{example.name})" in TUTORIALS[page]


def test_every_tutorial_is_a_script() -> None:
    assert len(TUTORIALS) == len(EXAMPLES)
