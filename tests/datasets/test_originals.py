"""Every archive in its original format, from a server through the parser into the cache and back."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tabgnm.datasets import dataset_names, load_dataset
from tabgnm.datasets.registry import REGISTRY
from tabgnm.datasets.spec import Archive
from tests.datasets.originals import ORIGINALS, small_spec
from tests.datasets.server import Answer, Server


def shown(row: Sequence[Any]) -> list[Any]:
    """Missing cells by a name, as NaN is not equal to itself."""
    return ["missing" if cell != cell else cell for cell in row]


def test_there_is_an_original_of_every_data_set_that_is_downloaded() -> None:
    assert set(ORIGINALS) == {name for name in dataset_names() if isinstance(REGISTRY[name].source, Archive)}


@pytest.mark.parametrize("name", ORIGINALS)
def test_an_original_is_downloaded_parsed_and_cached(
    name: str, server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = ORIGINALS[name]
    url = server.serve("original", Answer(original.archive()))
    monkeypatch.setitem(REGISTRY, name, small_spec(name, url))

    first = load_dataset(name)
    again = load_dataset(name)

    assert server.requests == ["/original"]
    assert [path.name for path in cache.rglob("*") if path.is_file()] == [f"{name}.csv.gz"]
    for bunch in (first, again):
        assert bunch.filename == cache / f"{name}.csv.gz"
        assert bunch.target.tolist() == original.target
        assert bunch.feature_names == list(REGISTRY[name].feature_names())
        assert [shown(row) for row in bunch.data] == [shown(row) for row in original.data]


@pytest.mark.parametrize("name", ["adult", "connect4", "auto_mpg"])
def test_the_cached_file_is_the_same_whoever_writes_it(
    name: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(REGISTRY, name, small_spec(name, server.serve("a", Answer(ORIGINALS[name].archive()))))
    first, second = (load_dataset(name, data_home=tmp_path / folder).filename.read_bytes() for folder in "ab")
    assert first == second


def test_an_archive_that_the_user_put_there_is_read_and_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REGISTRY, "car", small_spec("car", "http://127.0.0.1:9/nobody-listens"))
    mine = cache / "archives" / "car+evaluation.zip"
    mine.parent.mkdir(parents=True)
    mine.write_bytes(ORIGINALS["car"].archive())
    assert load_dataset("car").target.tolist() == ["unacc", "vgood"]
    assert mine.is_file()
