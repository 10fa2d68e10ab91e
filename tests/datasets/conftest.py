"""A server, an empty cache, and no waiting between attempts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.datasets.server import Server, running_server


@pytest.fixture
def server() -> Iterator[Server]:
    with running_server() as running:
        yield running


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("TABGNM_DATA", str(folder))
    monkeypatch.setenv("NO_PROXY", "*")
    return folder


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that pooch would have made between its attempts."""
    import pooch.core

    seconds: list[float] = []
    monkeypatch.setattr(pooch.core, "time", SimpleNamespace(sleep=seconds.append))
    return seconds
