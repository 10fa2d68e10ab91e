"""Models are saved to and loaded from open binary files, read once and without seeking."""

import io
import os
import socket
import stat
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tabgnm
from tabgnm.modelfile import ModelFileError
from tests.modelfile.examples import content, fitted, numbers

MODEL = "no names"


def assert_same(model: Any) -> None:
    np.testing.assert_array_equal(model.predict_proba(numbers()), fitted(MODEL).predict_proba(numbers()))


class OneWay(io.RawIOBase):
    """A file that can only be read, or written, from its beginning to its end, a few bytes at a time."""

    def __init__(self, data: bytes = b"") -> None:
        self.data, self.n_read = data, 0

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self.data[self.n_read : self.n_read + min(len(buffer), 100)]
        buffer[: len(chunk)] = chunk
        self.n_read += len(chunk)
        return len(chunk)

    def write(self, data: Any) -> int:
        self.data += bytes(data[:100])
        return len(data[:100])


def test_a_model_is_saved_to_memory_and_loaded_from_it() -> None:
    file = io.BytesIO()
    fitted(MODEL).save(file)
    assert file.getvalue() == content(MODEL) and not file.closed
    file.seek(0)
    assert_same(tabgnm.load(file))


def test_an_open_file_is_used_from_its_position_on(tmp_path: Path) -> None:
    path = tmp_path / "two parts"
    with path.open("wb") as file:
        file.write(b"a head of one's own")
        fitted(MODEL).save(file)
    with path.open("rb") as file:
        assert file.read(19) == b"a head of one's own"
        assert_same(tabgnm.load(file))


def test_neither_saving_nor_loading_seeks() -> None:
    file = OneWay()
    fitted(MODEL).save(file)
    assert file.data == content(MODEL)
    assert_same(tabgnm.load(file))
    assert file.n_read == len(file.data)


def test_a_model_goes_through_a_socket() -> None:
    one, other = socket.socketpair()
    with one, other:

        def send() -> None:
            with one.makefile("wb") as file:
                fitted(MODEL).save(file)
            one.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send)
        sender.start()
        with other.makefile("rb") as file:
            assert_same(tabgnm.load(file))
        sender.join()


def test_a_file_that_accepts_bytes_only_and_returns_nothing_is_written() -> None:
    parts: list[bytes] = []

    class Sink:
        def write(self, data: bytes) -> None:
            assert type(data) is bytes
            parts.append(data)

    fitted(MODEL).save(Sink())
    assert b"".join(parts) == content(MODEL)


class Strange(io.RawIOBase):
    """A file whose read() or write() does what no file does."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def read(self, size: int = -1) -> Any:  # type: ignore[override]
        return self._answer(size)

    def write(self, data: Any) -> Any:  # type: ignore[override]
        return self._answer(len(data))


def _fails(_: int) -> None:
    raise RuntimeError("no connection")


@pytest.mark.parametrize(
    ("answer", "reading", "writing"),
    [
        (_fails, "it cannot be read: no connection", "cannot be written: no connection"),
        (lambda _: "text", r"read\(\) returned str; expected bytes", r"write\(\) returned 'text'"),
        (lambda n: n + 1, r"read\(\) returned int; expected bytes", r"write\(\) returned \d+; expected the number"),
        (lambda _: -1, r"read\(\) returned int; expected bytes", r"write\(\) returned -1; expected the number"),
        (lambda n: bytes(n + 1), r"read\(\d+\) returned \d+ bytes, which is more than", r"write\(\) returned b"),
    ],
)
def test_a_file_object_that_does_what_no_file_does_is_a_clear_error(answer: Any, reading: str, writing: str) -> None:
    with pytest.raises(ModelFileError, match=reading):
        tabgnm.load(Strange(answer))
    with pytest.raises(ModelFileError, match=writing):
        fitted(MODEL).save(Strange(answer))


def text_files(folder: Path) -> list[Any]:
    wrapped = tempfile.NamedTemporaryFile("w+")  # noqa: SIM115 - closed with the test
    return [(folder / "text").open("w+"), io.StringIO(), wrapped]


def test_a_file_in_text_mode_is_a_clear_error(tmp_path: Path) -> None:
    for file in text_files(tmp_path):
        with file:
            with pytest.raises(
                TypeError, match=r"is open in text mode; expected a binary file: use open\(path, 'wb'\)"
            ):
                fitted(MODEL).save(file)
            with pytest.raises(
                TypeError, match=r"is open in text mode; expected a binary file: use open\(path, 'rb'\)"
            ):
                tabgnm.load(file)


@pytest.mark.parametrize("file", [3, None, b"model.tabgnm", ["model.tabgnm"]])
def test_what_is_neither_a_path_nor_a_file_is_a_clear_error(file: Any) -> None:
    with pytest.raises(TypeError, match=r"has type \w+; expected a path, or a binary file for reading"):
        tabgnm.load(file)
    with pytest.raises(TypeError, match=r"has type \w+; expected a path, or a binary file for writing"):
        fitted(MODEL).save(file)


def test_a_file_that_cannot_be_used_is_a_model_file_error(tmp_path: Path) -> None:
    closed = io.BytesIO()
    closed.close()
    with (tmp_path / "a").open("wb") as to_write, (tmp_path / "a").open("rb") as to_read:
        for file in (closed, to_write):
            with pytest.raises(ModelFileError, match="cannot be read: "):
                tabgnm.load(file)
        for file in (closed, to_read):
            with pytest.raises(ModelFileError, match="cannot be written: "):
                fitted(MODEL).save(file)


def test_a_file_object_has_to_end_with_the_model() -> None:
    with pytest.raises(ModelFileError, match=r"the BytesIO: .*it has data after the"):
        tabgnm.load(io.BytesIO(content(MODEL) + b"\0"))
    with pytest.raises(ModelFileError, match=r"the BytesIO: .*truncated"):
        tabgnm.load(io.BytesIO(content(MODEL)[:-1]))


class Changing(io.BytesIO):
    """A file of which everything that was read is overwritten at once."""

    def read(self, size: int | None = -1, /) -> bytes:
        start = self.tell()
        data = super().read(size)
        end = self.tell()
        self.seek(start)
        self.write(b"\xff" * len(data))
        self.seek(end)
        return data


def test_a_file_that_changes_after_it_was_read_does_not_matter() -> None:
    assert_same(tabgnm.load(Changing(content(MODEL))))


# Paths that are not files


def test_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(
        ModelFileError, match=r"pipe' is not a regular file, but a pipe, socket or device; expected a new"
    ):
        fitted(MODEL).save(tmp_path / "pipe")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_link_to_a_pipe_or_a_device_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for target in (tmp_path / "pipe", Path("/dev/null")):
        (tmp_path / "link").symlink_to(target)
        with pytest.raises(ModelFileError, match="is not a regular file"):
            fitted(MODEL).save(tmp_path / "link")
        assert not stat.S_ISREG(target.stat().st_mode)
        (tmp_path / "link").unlink()


def test_a_link_to_a_new_name_makes_the_file_there(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("new")
    fitted(MODEL).save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "new").read_bytes() == content(MODEL)
