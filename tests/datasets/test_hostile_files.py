"""Files made or broken to do harm: each is one `DatasetContentError`, at a small price in memory, and leaves nothing."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import struct
import tarfile
import tempfile
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tabgnm.datasets import DatasetContentError, archives, load_dataset
from tabgnm.datasets.formats import Delimited, read_columns
from tabgnm.datasets.limits import SizeLimits
from tabgnm.datasets.registry import REGISTRY
from tabgnm.datasets.retrieval import parse_archive
from tabgnm.datasets.spec import Archive
from tests.datasets.lzw_writer import bomb
from tests.datasets.originals import ORIGINALS, small_spec, tar_of, zip_of

ROWS = ORIGINALS["car"].files["car.data"]
HEADER = b"buying,maint,doors,persons,lug_boot,safety,class\n"
MANY_BYTES = 30_000_000  # some 28 times what the data set of these tests may have
MAX_MEMORY = 10_000_000


def zip_by(method: int, content: bytes = ROWS, damage: bool = False) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr("car.data", content)
    packed = bytearray(buffer.getvalue())
    if damage:
        packed[50] ^= 0xFF
    return bytes(packed)


def patched_zip(content: bytes = ROWS, *, flags: int = 0, method: int | None = None, size: int | None = None) -> bytes:
    """A zip file whose headers, local and central, say something else."""
    packed = bytearray(zip_of({"car.data": content}))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = packed.index(signature) + offset
        packed[at : at + 2] = struct.pack("<H", flags)
        if method is not None:
            packed[at + 2 : at + 4] = struct.pack("<H", method)
        if size is not None:
            packed[at + 16 : at + 20] = struct.pack("<I", size)
    return bytes(packed)


def overlapping_zip(n_names: int) -> bytes:
    """Many names for the same bytes, of an archive within the archive."""
    inner = zip_by(zipfile.ZIP_DEFLATED, bytes(300_000)) + bytes(200_000)
    packed = zip_of({"00000.zip": inner})
    start, end = packed.index(b"PK\x01\x02"), packed.rindex(b"PK\x05\x06")
    entry, tail = packed[start:end], bytearray(packed[end:])
    entries = b"".join(entry.replace(b"00000.zip", b"%05d.zip" % number) for number in range(n_names))
    tail[8:20] = struct.pack("<HHII", n_names, n_names, len(entries), start)
    return packed[:start] + entries + bytes(tail)


def tar_by(pack: Callable[[bytes], bytes]) -> bytes:
    return pack(gzip.decompress(tar_of({"car.data": ROWS})))


def tar_with_header(kind: bytes, size: int, n_times: int = 1) -> bytes:
    """A tar file of headers that announce much and hold nothing."""
    header = tarfile.TarInfo("car.data")
    header.type, header.size = kind, size
    return gzip.compress(header.tobuf() * n_times, mtime=0)


ARCHIVES: dict[str, Callable[[], bytes]] = {
    "encrypted": lambda: patched_zip(flags=1),
    "strongly encrypted": lambda: patched_zip(flags=0x41),
    "patch data": lambda: patched_zip(flags=0x20),
    "method 99": lambda: patched_zip(method=99),
    "bzip2": lambda: zip_by(zipfile.ZIP_BZIP2),
    "LZMA": lambda: zip_by(zipfile.ZIP_LZMA),
    "damaged bzip2": lambda: zip_by(zipfile.ZIP_BZIP2, damage=True),
    "damaged LZMA": lambda: zip_by(zipfile.ZIP_LZMA, damage=True),
    "damaged deflate": lambda: zip_by(zipfile.ZIP_DEFLATED, damage=True),
    "tar by bzip2": lambda: tar_by(bz2.compress),
    "tar by LZMA": lambda: tar_by(lzma.compress),
    "zeros": lambda: zip_of({"car.data": bytes(MANY_BYTES)}),
    "many rows": lambda: zip_of({"car.data": ROWS * 3}),
    "very many rows": lambda: zip_of({"car.data": ROWS * (MANY_BYTES // len(ROWS))}),
    "short header": lambda: patched_zip(ROWS * 1000, size=len(ROWS)),
    "zip in zip": lambda: zip_of({"inner.zip": zip_of({"car.data": bytes(MANY_BYTES)})}),
    "large zip in zip": lambda: zip_of({"inner.zip": bytes(MANY_BYTES)}),
    "overlapping zips in zip": lambda: overlapping_zip(500),
    "gzip in zip": lambda: zip_of({"car.data.gz": gzip.compress(bytes(2**20), mtime=0) * 30}),
    "gzip with a long name": lambda: zip_of({"car.data.gz": b"\x1f\x8b\x08\x08\0\0\0\0\0\0" + b"n" * MANY_BYTES}),
    "compress in zip": lambda: zip_of({"car.data.Z": bomb(65_000)}),
    "gzip of a tar": lambda: tar_of({"car.data": bytes(MANY_BYTES)}),
    "other members of a tar": lambda: tar_of({"first": bytes(MANY_BYTES), "car.data": ROWS}),
    "tar with a long name": lambda: tar_with_header(tarfile.GNUTYPE_LONGNAME, 2**33 - 1),
    "tar with attributes": lambda: tar_with_header(tarfile.XHDTYPE, 2**33 - 1),
    "tar with names of names": lambda: tar_with_header(tarfile.GNUTYPE_LONGNAME, 0, 2000),
    "tar with a sparse file": lambda: tar_with_header(tarfile.GNUTYPE_SPARSE, 2**33 - 1),
    "tar with a link to itself": lambda: tar_of_links(),
    "a long line": lambda: zip_of({"car.data": b"x" * 900_000}),
    "a long quoted cell": lambda: zip_of({"car.data": b'"' + b"x\n" * 400_000}),
    "many columns": lambda: zip_of({"car.data": b"," * 1_000_000}),
    "many columns in short lines": lambda: zip_of({"car.data": (b"," * 4000 + b"\n") * 200}),
    "zero bytes": lambda: zip_of({"car.data": bytes(1000)}),
    "zero bytes in rows": lambda: zip_of({"car.data": ROWS.replace(b"low", b"low\0,")}),
    "UTF-16": lambda: zip_of({"car.data": ROWS.decode().encode("utf-16")}),
    "EBCDIC": lambda: zip_of({"car.data": ROWS.decode().encode("cp500")}),
    "escape sequences as names": lambda: zip_of({f"\x1b]0;{'x' * 5000}\x07{number}": b"" for number in range(100)}),
    "names that are not text": lambda: zip_of({"é": b""}).replace("é".encode(), b"\xff\xfe"),
}  # fmt: skip


def tar_of_links() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE):
            link = tarfile.TarInfo("car.data")
            link.type, link.linkname = kind, "car.data"
            archive.addfile(link)
    return buffer.getvalue()


@contextmanager
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MAX_MEMORY
    finally:
        tracemalloc.stop()


@pytest.fixture(autouse=True)
def small_car(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REGISTRY, "car", small_spec("car", "http://127.0.0.1:9/nobody-listens"))


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go, to see that none stays."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.mark.parametrize("name", ARCHIVES)
def test_a_hostile_archive_is_refused_at_a_small_price(name: str, cache: Path, temporary: Path) -> None:
    path = cache / "archives" / "car+evaluation.zip"
    path.parent.mkdir(parents=True)
    path.write_bytes(ARCHIVES[name]())
    with little_memory(), pytest.raises(DatasetContentError) as caught:
        load_dataset("car", verify=False)
    message = str(caught.value)
    assert "car+evaluation.zip" in message or "car.data" in message
    assert message.isprintable() and len(message) < 3000
    assert [own for own in cache.rglob("*") if own.is_file()] == [path] and not list(temporary.iterdir())


def test_a_size_that_an_archive_only_announces_is_not_believed(cache: Path) -> None:
    path = cache / "archives" / "car+evaluation.zip"
    path.parent.mkdir(parents=True)
    path.write_bytes(patched_zip(size=2**32 - 2))
    with little_memory():
        assert load_dataset("car", return_X_y=True)[1].tolist() == ["unacc", "vgood"]


TABLES: dict[str, bytes] = {
    "zeros": gzip.compress(bytes(2**20), mtime=0) * 30,
    "many rows": gzip.compress(HEADER + ROWS * 3, mtime=0),
    "a long header": gzip.compress(b"buying" * 150_000, mtime=0),
    "a long header, far beyond the limit": gzip.compress(b"buying" * 5_000_000, mtime=0),
    "many columns": gzip.compress(HEADER.rstrip() + b",a" * 400_000, mtime=0),
    "a long quoted name": gzip.compress(b'"buying\n' * 100_000, mtime=0),
    "zero bytes": gzip.compress(HEADER + ROWS.replace(b"low", b"low\0,"), mtime=0),
    "Latin-1": gzip.compress(HEADER + "é,é,é,é,é,é,é\n".encode("latin-1"), mtime=0),
    "UTF-16": gzip.compress((HEADER + ROWS).decode().encode("utf-16")),
    "not compressed": HEADER + ROWS,
    "too large": bytes(2_000_000),
    "damaged": gzip.compress(HEADER + ROWS, mtime=0)[:-9] + b"\xff" * 9,
    "followed by something else": gzip.compress(HEADER + ROWS, mtime=0) + b"something else",
}


@pytest.mark.parametrize("name", TABLES)
def test_a_hostile_table_of_the_cache_is_refused_at_a_small_price(name: str, cache: Path) -> None:
    cache.mkdir()
    (cache / "car.csv.gz").write_bytes(TABLES[name])
    with little_memory(), pytest.raises(DatasetContentError, match=r"car\.csv\.gz") as caught:
        load_dataset("car", verify=False)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 3000


@pytest.mark.parametrize(
    "manifest",
    [
        b"[" * 500_000,
        b'{"car":' * 100_000,
        b" " * 2_000_000,
        b'{"car": {"n_samples": ' + b"9" * 10_000 + b"}}",
        b'{"car": {"file": "\\u001b[2J/x"}}',
        b'{"car": {"file": "' + b"../" * 9_999 + b'"}}',
        b'{"car": {"sha256": ["\\ud800"]}}',
    ],
)
def test_a_hostile_manifest_is_refused(manifest: bytes, cache: Path) -> None:
    cache.mkdir()
    (cache / "car.csv.gz").write_bytes(gzip.compress(HEADER + ROWS, mtime=0))
    (cache / "datasets.json").write_bytes(manifest)
    with pytest.raises(DatasetContentError, match=r"datasets\.json") as caught:
        load_dataset("car")
    assert str(caught.value).isprintable() and len(str(caught.value)) < 3000


@pytest.mark.parametrize("file", ["\x00", "\ud800", "", ".", ".."])
def test_a_manifest_with_the_name_of_no_file_is_as_good_as_none(file: str, cache: Path) -> None:
    cache.mkdir()
    (cache / "datasets.json").write_text(json.dumps({"car": {"file": file}}))
    with pytest.raises((DatasetContentError, OSError), match=r"could not be downloaded|datasets\.json"):
        load_dataset("car")


def test_an_archive_that_lists_too_many_names_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_DIRECTORY_BYTES", 10_000)
    path = tmp_path / "a.zip"
    for content in (zip_of(dict.fromkeys(map(str, range(300)), b"")), zip_of({"car.data": ROWS})):
        path.write_bytes(content)
        spec = REGISTRY["car"]
        assert isinstance(spec.source, Archive)
        if content.count(b"PK\x01\x02") == 1:
            assert len(parse_archive(spec, spec.source, path, str(path), verify=False)["class"]) == 2
        else:
            with pytest.raises(DatasetContentError, match=r"the directory of .* has 14,\d+ bytes"):
                parse_archive(spec, spec.source, path, str(path), verify=False)


def test_every_data_set_may_have_what_it_is_published_with() -> None:
    for spec in REGISTRY.values():
        if isinstance(spec.source, Archive):
            limits = spec.limits
            assert limits.n_rows >= 2 * spec.n_rows_published
            # 25 bytes per cell is what the longest file has, SUSY; a header has the names of all columns.
            assert limits.n_bytes > 2 * 25 * spec.n_rows_published * len(spec.columns)
            assert limits.line_chars > 2 * max(25 * len(spec.columns), len(",".join(spec.columns)))


@pytest.mark.parametrize("cell", ["inf", "1e300", "9007199254740994"])
def test_an_integer_that_no_label_has_is_told(cell: str) -> None:
    with pytest.raises(DatasetContentError, match=f"column 'y' of t holds '{cell}', which is not an integer"):
        read_columns([f"{cell}\n"], Delimited(("y",)), {"y": "integer"}, where="t", max_rows=None)


def test_a_long_cell_is_shown_in_part() -> None:
    with pytest.raises(DatasetContentError, match=r"holds 'x{60}\.\.\.', which is not a number"):
        read_columns(["x" * 5000], Delimited(("y",)), {"y": "number"}, where="t", max_rows=None)


def test_the_limits_of_a_table_are_as_documented() -> None:
    assert SizeLimits.of_table(1000, 10) == SizeLimits(n_bytes=640_000 + 2**20, n_rows=2000, line_chars=640 + 4096)
