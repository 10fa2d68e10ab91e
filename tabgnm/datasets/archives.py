"""Reading a file from an archive.

Members are read as streams and never unpacked, so names inside an archive, such as ``../../x`` or ``/etc/x``, have no
effect on the file system. The decompressed bytes of all layers are counted, and reading stops at a limit, whatever
sizes the archive declares.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import IO, TypeVar, cast

from tabgnm._printable import brief
from tabgnm.datasets import lzw
from tabgnm.datasets.errors import GET_AGAIN, DatasetContentError, damage_told
from tabgnm.datasets.limits import CHUNK_BYTES, BoundedReader, ByteBudget, SizeLimits, bounded_lines, too_large

# The methods that programs use by default. No archive of the registry uses others (bzip2, LZMA, encryption), and the
# readers of the standard library for these have no limit on how much they decompress at once.
ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
ENCRYPTED = 0x1
MAX_DIRECTORY_BYTES = 2**20  # some 20,000 names
MAX_NAMES = 20  # shown in an error

Entry = TypeVar("Entry", zipfile.ZipInfo, tarfile.TarInfo)


@contextmanager
def open_member(archive: Path, member: str, where: str, limits: SizeLimits) -> Iterator[Iterator[str]]:
    """Open a member of an archive as text.

    Parameters
    ----------
    archive : pathlib.Path
        A zip file, or a tar file (compressed by gzip or not).
    member : str
        The name of the member, without folders. It may be compressed, as ``member.gz`` or ``member.Z``, and it may be
        in a zip file inside the archive.
    where : str
        The name of the archive in errors.
    limits : SizeLimits
        The maximum size of the archive and of its decompressed content.

    Yields
    ------
    iterator of str
        The lines.

    Raises
    ------
    DatasetContentError
        If the file is not such an archive, is damaged, encrypted or too large, or does not have the member. May also be
        raised while the lines are read.
    """
    if archive.stat().st_size > limits.n_bytes:
        raise too_large(where, limits.n_bytes)
    budget = ByteBudget(limits.n_bytes, where)
    with ExitStack() as stack:
        with damage_told(where):
            stream = _find(archive, member, where, budget, stack)
        yield bounded_lines(stream, limits, budget, where, errors="replace")


def _find(archive: Path, member: str, where: str, budget: ByteBudget, stack: ExitStack) -> IO[bytes]:
    if zipfile.is_zipfile(archive):
        outer = _open_zip(stack.enter_context(archive.open("rb")), where, stack)
        names = outer.namelist()
        for folder in chain([outer], _nested(outer, budget, where, stack)):
            entry = _choose(((info.filename, info) for info in folder.infolist()), member)
            if entry is not None:
                return _decompressed(_open_zipped(folder, entry, stack), entry.filename, budget, where, stack)
    elif (tar := _open_tar(archive, budget, where, stack)) is not None:
        files = [entry for entry in tar if entry.isfile()]
        names = [entry.name for entry in files]
        found = _choose(zip(names, files, strict=True), member)
        if found is not None:
            return _decompressed(cast("IO[bytes]", tar.extractfile(found)), found.name, budget, where, stack)
    else:
        raise DatasetContentError(
            f"{where} is neither a zip nor a tar file, so it is truncated or a different file; download it again"
        )
    raise DatasetContentError(f"{where} has no file {member!r}; it contains {_listed(names)}")


def _listed(names: Sequence[str]) -> str:
    more = f", ... ({len(names):,} in all)" if len(names) > MAX_NAMES else ""
    return (", ".join(brief(name) for name in names[:MAX_NAMES]) or "nothing") + more


def _choose(entries: Iterable[tuple[str, Entry]], member: str) -> Entry | None:
    """Return the entry with the name of the member; if there are several, the one in the fewest folders."""
    by_name: dict[str, list[tuple[int, Entry]]] = {}
    for name, entry in entries:
        by_name.setdefault(PurePosixPath(name).name, []).append((name.count("/"), entry))
    for wanted in (member, f"{member}.gz", f"{member}.Z"):
        if wanted in by_name:
            return min(by_name[wanted], key=lambda found: found[0])[1]
    return None


# Zip files


class _SmallReads:
    """A zip file that refuses large reads, because zipfile reads the list of all names at once."""

    def __init__(self, file: IO[bytes], where: str) -> None:
        self._file, self._where = file, where
        self.seek, self.tell, self.seekable, self.close = file.seek, file.tell, file.seekable, file.close

    def read(self, size: int = -1) -> bytes:
        if size > MAX_DIRECTORY_BYTES:
            raise DatasetContentError(
                f"the directory of {self._where} has {size:,} bytes; expected at most {MAX_DIRECTORY_BYTES:,} for the "
                f"archive of a data set; {GET_AGAIN}"
            )
        return self._file.read(size)


def _open_zip(file: IO[bytes], where: str, stack: ExitStack) -> zipfile.ZipFile:
    return stack.enter_context(zipfile.ZipFile(cast("IO[bytes]", _SmallReads(file, where))))


def _open_zipped(folder: zipfile.ZipFile, entry: zipfile.ZipInfo, stack: ExitStack) -> IO[bytes]:
    if entry.flag_bits & ENCRYPTED:
        raise DatasetContentError(f"{entry.filename!r} is encrypted, so it is not the original archive; {GET_AGAIN}")
    if entry.compress_type not in ZIP_METHODS:
        raise DatasetContentError(
            f"{entry.filename!r} is compressed by method {entry.compress_type}; expected a stored or deflated file, as "
            f"in the original archive; {GET_AGAIN}"
        )
    return stack.enter_context(folder.open(entry))


def _nested(outer: zipfile.ZipFile, budget: ByteBudget, where: str, stack: ExitStack) -> Iterator[zipfile.ZipFile]:
    for entry in outer.infolist():
        if entry.filename.lower().endswith(".zip"):
            # A zip file is read from its end, which is slow in a compressed stream, so it is copied first.
            copy = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
            source = BoundedReader(_open_zipped(outer, entry, stack), budget, where)
            while chunk := source.read(CHUNK_BYTES):
                copy.write(chunk)
            yield _open_zip(copy, where, stack)


# Tar files


class _BoundedSeeker:
    """A decompressed tar file that tarfile can read and seek in, but not beyond the limit.

    The furthest position counts, and a seek is checked before it is made.
    """

    def __init__(self, source: IO[bytes], budget: ByteBudget) -> None:
        self._source, self._budget = source, budget
        self._furthest = 0

    def _reach(self, position: int) -> None:
        if position > self._furthest:
            self._budget.spend(position - self._furthest)
            self._furthest = position

    def read(self, size: int) -> bytes:
        self._reach(self._source.tell() + size)
        return self._source.read(size)

    def seek(self, position: int) -> int:
        self._reach(position)
        return self._source.seek(position)

    def tell(self) -> int:
        return self._source.tell()


def _open_tar(archive: Path, budget: ByteBudget, where: str, stack: ExitStack) -> tarfile.TarFile | None:
    """Open a tar file, compressed by gzip or not; return None if the file is not a tar file."""
    file: IO[bytes] = stack.enter_context(archive.open("rb"))
    magic = file.read(2)
    file.seek(0)
    if magic == b"\x1f\x8b":
        file = cast("IO[bytes]", stack.enter_context(gzip.GzipFile(fileobj=file)))
    try:
        return stack.enter_context(tarfile.open(fileobj=cast("IO[bytes]", _BoundedSeeker(file, budget)), mode="r:"))
    except tarfile.ReadError as error:
        if magic == b"\x1f\x8b":
            raise DatasetContentError(f"{where} is damaged ({error}); {GET_AGAIN}") from error
        return None


# Members that are themselves compressed


class _PieceReader(io.RawIOBase):
    """A binary file with the content that an iterator yields."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._rest = pieces, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # what io calls a writable buffer
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = piece
        n_bytes = min(len(buffer), len(self._rest))
        buffer[:n_bytes], self._rest = self._rest[:n_bytes], self._rest[n_bytes:]
        return n_bytes


def _decompressed(stream: IO[bytes], stored: str, budget: ByteBudget, where: str, stack: ExitStack) -> IO[bytes]:
    if not stored.endswith((".gz", ".Z")):
        return stream
    packed = io.BufferedReader(BoundedReader(stream, budget, where), CHUNK_BYTES)
    if stored.endswith(".gz"):
        return cast("IO[bytes]", stack.enter_context(gzip.GzipFile(fileobj=packed)))
    return cast("IO[bytes]", io.BufferedReader(_PieceReader(lzw.decompress(cast("IO[bytes]", packed)))))
