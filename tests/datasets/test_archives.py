import gzip
import io
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tabgnm.datasets import DatasetContentError
from tabgnm.datasets.archives import open_member
from tabgnm.datasets.limits import SizeLimits
from tests.datasets.lzw_writer import compress
from tests.datasets.originals import tar_of, zip_of

TEXT = b"one\ntwo\n"
LIMITS = SizeLimits(n_bytes=100_000, n_rows=10, line_chars=10_000)


def read(path: Path, member: str = "rows.data") -> str:
    with open_member(path, member, str(path), LIMITS) as lines:
        return "".join(lines)


@pytest.mark.parametrize(
    "content",
    [
        zip_of({"rows.data": TEXT}),
        zip_of({"deep/in/folders/rows.data": TEXT}),
        zip_of({"rows.data.gz": gzip.compress(TEXT, mtime=0)}),
        zip_of({"rows.data.Z": compress(TEXT)}),
        zip_of({"inner.zip": zip_of({"rows.data": TEXT})}),
        zip_of({"Inner.ZIP": zip_of({"folder/rows.data.Z": compress(TEXT)})}),
        tar_of({"folder/rows.data": TEXT}),
        zip_of({"rows.data": b"\xef\xbb\xbf" + TEXT}),
    ],
    ids=["plain", "in folders", "gzip", "compress", "zip in zip", "all at once", "tar", "byte order mark"],
)
def test_a_member_is_found_and_decompressed(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "archive"
    path.write_bytes(content)
    assert read(path) == "one\ntwo\n"


def test_of_two_members_of_a_name_the_outer_one_is_meant(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(zip_of({"old/rows.data": b"old", "rows.data": b"new"}))
    assert read(path) == "new"


def evil_zip(target: Path) -> bytes:
    return zip_of(
        {
            "../../escaped.txt": b"x",
            "../rows.data.exe": b"x",
            str(target / "absolute.txt"): b"x",
            "..\\..\\windows.txt": b"x",
            "inner.zip": zip_of({"../../../nested.txt": b"x"}),
            "../../rows.data": TEXT,
        }
    )


def evil_tar(target: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, str(target)
        archive.addfile(link)
        for name in ("../../escaped.txt", f"{target}/absolute.txt", "link/through.txt", "../../rows.data"):
            entry = tarfile.TarInfo(name)
            entry.size = len(TEXT)
            archive.addfile(entry, io.BytesIO(TEXT))
    return buffer.getvalue()


@pytest.mark.parametrize("make", [evil_zip, evil_tar])
def test_no_name_in_an_archive_makes_a_file_anywhere(
    make: Callable[[Path], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    path = deep / "archive"
    path.write_bytes(make(tmp_path))
    assert read(path) == "one\ntwo\n"
    assert [Path(folder) / name for folder, _, names in os.walk(tmp_path) for name in names] == [path]


@pytest.mark.parametrize(
    "content",
    [b"", b"<html>", zip_of({"rows.data": TEXT * 999})[:60]],
    ids=["empty", "a page", "truncated zip"],
)
def test_what_is_no_archive_is_told(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "archive"
    path.write_bytes(content)
    with pytest.raises(DatasetContentError, match="archive is neither a zip nor a tar file"):
        read(path)


def test_damage_inside_a_member_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("rows.data", b"a text to damage")
    path.write_bytes(buffer.getvalue().replace(b"a text to damage", b"A TEXT to damage"))
    with pytest.raises(DatasetContentError, match="Bad CRC-32"):
        read(path)
    path.write_bytes(tar_of({"rows.data": os.urandom(9_999)})[:-3000])
    with pytest.raises(DatasetContentError, match="is damaged"):
        read(path)
    path.write_bytes(zip_of({"rows.data.gz": gzip.compress(os.urandom(9_999), mtime=0)[:-3000]}))
    with pytest.raises(DatasetContentError, match="ended before"):
        read(path)
    path.write_bytes(zip_of({"rows.data.Z": b"\x1f\x9d\x90\xff\xff"}))
    with pytest.raises(DatasetContentError, match=r"a\.zip is damaged \(damaged \.Z file: code"):
        read(path)


@pytest.mark.parametrize(
    "content", [zip_of({"a.txt": b"", "b.txt": b""}), tar_of({"a.txt": b"", "b.txt": b""})], ids=["zip", "tar"]
)
def test_a_missing_member_is_named_with_those_that_are_there(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "archive"
    path.write_bytes(content)
    with pytest.raises(DatasetContentError, match=r"has no file 'rows\.data'; it contains a\.txt, b\.txt"):
        read(path)
