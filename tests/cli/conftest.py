from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.running import QUICK, QUICK_SMALL, diabetes, iris, run


@pytest.fixture(scope="session")
def flowers(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A table of classes, a model of it and its small machine, made by commands."""
    folder = tmp_path_factory.mktemp("flowers")
    data, model, small = folder / "iris.csv", folder / "iris.tabgnm", folder / "small.tabgnm"
    iris().to_csv(data, index=False)
    fitted = run("fit", data, "--target", "species", "--ignore", "id", *QUICK, "-o", model)
    made = run("sparsify", model, data, "--edges", "8", *QUICK_SMALL, "-o", small, "--picture", folder / "m.svg")
    return SimpleNamespace(folder=folder, data=data, model=model, small=small, fitted=fitted, made=made)


@pytest.fixture(scope="session")
def patients(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A table of numbers and a model of it."""
    folder = tmp_path_factory.mktemp("patients")
    data, model = folder / "diabetes.csv", folder / "diabetes.tabgnm"
    diabetes().to_csv(data, index=False)
    fitted = run("fit", data, "--target", "target", *QUICK, "-o", model)
    return SimpleNamespace(folder=folder, data=data, model=model, fitted=fitted)


@pytest.fixture(autouse=True)
def in_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files without a folder are written to a temporary one."""
    monkeypatch.chdir(tmp_path)
