"""Files that are not model files, or incomplete."""

import io
import os
import pickle
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import tabgnm
from tabgnm.modelfile import ModelFileError
from tests.modelfile.examples import content, fitted, forged, measured, parts, raw_parts


def zip_of(*entries: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED, comment: bytes = b"") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in entries:
            archive.writestr(name, data)
        archive.comment = comment
    return file.getvalue()


def rezipped() -> bytes:
    text, weights = raw_parts(content("no names"))
    return zip_of(("schema.json", text), ("weights.safetensors", weights))


def torch_file() -> bytes:
    file = io.BytesIO()
    torch.save({"weight": torch.zeros(3)}, file)
    return file.getvalue()


def npz() -> bytes:
    file = io.BytesIO()
    np.savez(file, weight=np.zeros(3))
    return file.getvalue()


def with_version(version: object) -> bytes:
    schema, arrays = parts(content("no names"))
    return forged(schema | {"version": version}, arrays)


NOT_OURS = r"not a model file, or it is damaged; expected a file written by `save`"
OTHER_ZIP = r"does not have the entry 'schema.json' at byte 0 as tabgnm writes it.*save the model again"
FILES: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", r"it is empty; save the model again"),
    "one byte": (lambda: b"P", NOT_OURS),
    "text": (lambda: b"hello, world\n" * 100, NOT_OURS),
    "a pickle": (lambda: pickle.dumps(fitted("no names")), NOT_OURS),
    "zeros": (lambda: bytes(5000), NOT_OURS),
    "an empty zip": (lambda: zip_of(), NOT_OURS),
    "another zip": (lambda: zip_of(("hello.txt", b"hello")), OTHER_ZIP),
    "a torch file": (torch_file, OTHER_ZIP),
    "an npz file": (npz, OTHER_ZIP),
    "the same, packed by another program": (rezipped, OTHER_ZIP),
    "only its first four bytes": (
        lambda: content("no names")[:4],
        r"it ends after 4 bytes, in the header of schema.json: it is truncated; copy it again",
    ),
    "half of it": (lambda: content("no names")[: len(content("no names")) // 2], r"truncated; copy it again"),
    "all but the last byte": (lambda: content("no names")[:-1], r"it is truncated; copy it again"),
    "something after it": (lambda: content("no names") + b"\0", r"it has data after the"),
    "something before it": (lambda: b"\0" + content("no names"), NOT_OURS),
    "twice": (lambda: content("no names") * 2, r"it has data after the"),
    "a flipped bit in the weights": (
        lambda: content("no names")[:-400] + bytes([content("no names")[-400] ^ 1]) + content("no names")[-399:],
        r"checksum is wrong: it is damaged; copy it again, or save the model again",
    ),
    "version 3": (
        lambda: with_version(3),
        r"version is 3, but this tabgnm reads versions up to 2; install a newer tabgnm",
    ),
    "a file of version 2 that claims to be of version 1": (
        lambda: with_version(1),
        r"entries of its schema: \['candidates', ",
    ),
    "version 10^30": (lambda: with_version(10**30), r"install a newer tabgnm"),
    "version 0": (lambda: with_version(0), r"version is 0; expected an integer from 1 to 2"),
    "version True": (lambda: with_version(True), r"version is True; expected an integer"),
    "version '1'": (lambda: with_version("1"), r"version is '1'; expected an integer"),
    "version None": (lambda: with_version(None), r"version is None; expected an integer"),
}


@pytest.mark.parametrize("case", FILES)
def test_a_file_that_is_not_a_model_file_is_an_error(case: str, tmp_path: Path) -> None:
    make, message = FILES[case]
    path = tmp_path / "model.tabgnm"
    path.write_bytes(make())
    with pytest.raises(ModelFileError, match=f"^{re.escape(repr(str(path)))}: .*{message}"):
        tabgnm.load(path)


def test_a_newer_format_is_told_even_if_nothing_else_in_the_file_is_known(tmp_path: Path) -> None:
    from tabgnm.modelfile.container import frame

    path = tmp_path / "model.tabgnm"
    path.write_bytes(frame(b'{"format":"tabgnm model","version":7,"future":[]}', b"other weights"))
    with pytest.raises(ModelFileError, match="install a newer tabgnm"):
        tabgnm.load(path)


def test_a_file_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"missing.tabgnm' cannot be read: No such file or directory"):
        tabgnm.load(tmp_path / "missing.tabgnm")


def test_a_folder_is_no_model_file(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"is a folder; expected a file"):
        tabgnm.load(tmp_path)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match=r"pipe' is not a regular file"):
        tabgnm.load(tmp_path / "pipe")


def test_a_device_is_not_read() -> None:
    with pytest.raises(ModelFileError, match=r"'/dev/zero' is not a regular file"):
        tabgnm.load("/dev/zero")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_a_file_that_may_not_be_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "model.tabgnm"
    path.write_bytes(content("no names"))
    path.chmod(0)
    with pytest.raises(ModelFileError, match=r"cannot be read: Permission denied"):
        tabgnm.load(path)


def test_links_in_a_circle_are_told(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(ModelFileError, match="cannot be read"):
        tabgnm.load(tmp_path / "a")
    with pytest.raises(ModelFileError, match="cannot be written"):
        fitted("no names").save(tmp_path / "a")


@pytest.mark.parametrize("begin", [b"", b"PK\3\4", content("no names")])
def test_a_huge_foreign_file_is_not_read_into_memory(begin: bytes, tmp_path: Path) -> None:
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.write(begin)
        file.truncate(20 * 2**30)  # takes no room on the disk
    with measured() as cost, pytest.raises(ModelFileError):
        tabgnm.load(path)
    assert cost.seconds < 1 and cost.megabytes < 20
