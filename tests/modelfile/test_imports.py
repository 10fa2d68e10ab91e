"""The format does not depend on the estimators, which use it, and what it shares with checkpoints on nothing."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import tabgnm._files
import tabgnm.modelfile

FILES = sorted(Path(tabgnm.modelfile.__file__).parent.rglob("*.py"))
SHARED = sorted(Path(tabgnm._files.__file__).parent.rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    """Names of all modules that a file imports, also within functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None and node.level == 0, f"{path.name}:{node.lineno} is relative"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_imports_are_found() -> None:
    assert len(FILES) > 3 and len(SHARED) > 4
    assert "tabgnm.modelfile.errors" in {name for path in FILES for name in imported(path)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_format_does_not_import_the_estimators(path: Path) -> None:
    lazy = {f"tabgnm.{name}" for name, home in tabgnm._LAZY.items() if home == "tabgnm.estimators"}
    assert not [name for name in imported(path) if name.startswith("tabgnm.estimators") or name in lazy]


@pytest.mark.parametrize("path", SHARED, ids=lambda path: path.name)
def test_files_import_nothing_else_of_the_package(path: Path) -> None:
    own = [name for name in imported(path) if name.startswith("tabgnm")]
    assert all(name.startswith(("tabgnm._files", "tabgnm._printable")) for name in own)
