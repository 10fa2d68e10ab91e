"""Tables are written completely or not at all, and what cannot be written is refused before any work."""

from __future__ import annotations

import gzip
import io
import json
import os
import pty
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tabgnm.cli.tablefiles import OutputClosedError, TableFileError, open_writer, read_table

KINDS = ["csv", "csv.gz", "tsv", "jsonl", "parquet", "feather", "sqlite", "sqlite.gz"]


def write_much(target: str | Path, kind: str | None = None) -> None:
    with open_writer(target, ["a", "b"], format=kind) as writer:
        for part in range(20):
            numbers = np.random.default_rng(part).normal(size=1000)
            writer.write(pd.DataFrame({"a": numbers, "b": numbers.astype(str)}))


@contextmanager
def files_limited_to(n_bytes: int) -> Iterator[None]:
    """As on a disk that is full after so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def terminal() -> Iterator[int]:
    ours, theirs = pty.openpty()
    yield theirs
    os.close(theirs)
    os.close(ours)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("folder.csv", ["is a folder", "expected a new name, or a file to replace"]),
        ("no/such/a.csv", ["folder", "does not exist", "create it first"]),
        ("pipe.csv", ["pipe, socket or device"]),
        ("circle.csv", ["cannot be written"]),
        ("a.xlsx", ["no known ending"]),
        ("nul\0.csv", ["cannot be written"]),
        ("n" * 300 + ".csv", ["cannot be written"]),
    ],
)
def test_what_cannot_be_written_is_refused_before_any_work(name: str, words: list[str], tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "circle.csv").symlink_to("circle.csv")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(TableFileError) as caught:
        open_writer(f"{tmp_path}/{name}", ["a"])
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert str(caught.value).isprintable()
    assert sorted(tmp_path.iterdir()) == before


def test_a_device_is_refused() -> None:
    with pytest.raises(TableFileError, match="pipe, socket or device"):
        open_writer("/dev/null", ["a"], format="csv")


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="there is no folder where even root may not write")
def test_a_place_where_one_may_not_write_is_refused() -> None:
    with pytest.raises(TableFileError, match="cannot be written"):
        open_writer("/proc/self/a.csv", ["a"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_gives_one_message_and_leaves_no_half_file(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{kind}"
    with files_limited_to(100_000), pytest.raises(TableFileError) as caught:
        write_much(path)
    assert str(caught.value).startswith(f"{str(path)!r} cannot be written: ")
    assert str(caught.value).isprintable()
    assert list(tmp_path.iterdir()) == []


needs_full_device = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")


@needs_full_device
@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_behind_standard_output_gives_one_message(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(TableFileError) as caught:
            write_much("-", kind)
        monkeypatch.undo()
    assert str(caught.value) == "standard output cannot be written: No space left on device"


@needs_full_device
def test_a_program_that_could_not_write_ends_without_further_messages() -> None:
    program = (
        "import sys, pandas\n"
        "from tabgnm.cli.tablefiles import OutputClosedError, TableFileError, open_writer\n"
        "try:\n"
        "    with open_writer('-', ['a']) as writer:\n"
        "        writer.write(pandas.DataFrame({'a': [1]}))\n"
        "except TableFileError as error:\n"
        "    sys.exit(str(error))\n"
    )
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-c", program], check=False, stdout=full, stderr=subprocess.PIPE)
    assert done.stderr.decode() == "standard output cannot be written: No space left on device\n"


def test_a_reader_that_stops_is_told_apart_from_other_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        with pytest.raises(OutputClosedError, match="standard output was closed by the program that reads it"):
            write_much("-")
        monkeypatch.undo()


@pytest.mark.parametrize("kind", ["parquet", "csv.gz"])
def test_binary_data_is_not_written_to_a_terminal(kind: str, terminal: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(terminal, "w", closefd=False) as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        with pytest.raises(TableFileError, match="standard output is a terminal, which cannot show"):
            open_writer("-", ["a"], format=kind)
        monkeypatch.undo()


def test_a_terminal_is_not_read(terminal: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(terminal, closefd=False) as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        with pytest.raises(TableFileError, match="standard input is a terminal; redirect a table to it"):
            read_table("-")


def test_empty_and_closed_standard_inputs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdin", stream)
    with pytest.raises(TableFileError, match="standard input is empty"):
        read_table("-")
    stream.close()
    with pytest.raises(TableFileError, match="standard input is closed"):
        read_table("-")


@pytest.mark.parametrize("kind", KINDS)
def test_standard_output_has_what_a_file_has(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame({"a": [1.5, 2.0], "b": ["x", None]})
    content = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(content))
    with open_writer("-", ["a", "b"], format=kind) as writer:
        writer.write(frame)
    (tmp_path / f"a.{kind}").write_bytes(content.getvalue())
    pd.testing.assert_frame_equal(read_table(tmp_path / f"a.{kind}"), frame)


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_of_the_caller_leaves_what_was_there(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{kind}"
    if "sqlite" not in kind:
        path.write_text("as it was")
    before = list(tmp_path.iterdir())

    def interrupted() -> None:
        with open_writer(path, ["a"]) as writer:
            writer.write(pd.DataFrame({"a": [1, 2]}))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == before
    assert not before or path.read_text() == "as it was"


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "feather", "sqlite"])
def test_a_table_without_rows_has_its_columns(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{kind}"
    with open_writer(path, ["a", "b"]):
        pass
    assert path.exists()
    if kind == "csv":
        assert path.read_text() == "a,b\n"
    elif kind == "parquet":
        assert list(pd.read_parquet(path).columns) == ["a", "b"]
    elif kind == "feather":
        assert list(pd.read_feather(path).columns) == ["a", "b"]


def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.touch(0o600)
    path.chmod(0o640)
    with open_writer(path, ["a"]) as writer:
        writer.write(pd.DataFrame({"a": [1]}))
    assert path.stat().st_mode & 0o777 == 0o640


def test_gzipped_files_are_the_same_at_any_time(tmp_path: Path) -> None:
    for name in ("a.csv.gz", "b.csv.gz"):
        with open_writer(tmp_path / name, ["a"]) as writer:
            writer.write(pd.DataFrame({"a": [1]}))
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()) == b"a\n1\n"


def test_json_lines_have_null_where_a_cell_is_missing(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "number": [1.5, np.nan],
            "text": ["Zürich", None],
            "flag": [True, False],
            "day": pd.to_datetime(["2024-01-31", None]),
            "small": np.array([1, 2], dtype=np.int8),
        }
    )
    with open_writer(tmp_path / "a.jsonl", list(frame.columns)) as writer:
        writer.write(frame)
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert lines[0] == {"number": 1.5, "text": "Zürich", "flag": True, "day": "2024-01-31 00:00:00", "small": 1}
    assert lines[1] == {"number": None, "text": None, "flag": False, "day": None, "small": 2}


def test_the_types_of_parquet_columns_may_not_change(tmp_path: Path) -> None:
    def changed() -> None:
        with open_writer(tmp_path / "a.parquet", ["a"]) as writer:
            writer.write(pd.DataFrame({"a": [1, 2]}))
            writer.write(pd.DataFrame({"a": [3.0, np.nan]}))  # a missing whole number
            writer.write(pd.DataFrame({"a": ["text"]}))

    with pytest.raises(TableFileError, match="column 'a' is int64 in the first rows, and later has other values"):
        changed()
    assert list(tmp_path.iterdir()) == []


def test_the_columns_of_a_frame_have_to_be_those_of_the_file(tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match="the frame has the columns 'b'; expected 'a'"),
        open_writer(tmp_path / "a.csv", ["a"]) as writer,
    ):
        writer.write(pd.DataFrame({"b": [1]}))
