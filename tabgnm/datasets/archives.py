"""Reading a file out of an archive.

Nothing is ever unpacked onto the disk: members are read as streams, so the names inside an archive, whatever they
are (``../../x``, ``/etc/x``), decide nothing about the file system.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import IO, cast

from tabgnm.datasets import lzw
from tabgnm.datasets.errors import DatasetContentError

DAMAGE = (zipfile.BadZipFile, tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error)


@contextmanager
def open_member(archive: Path, member: str, where: str) -> Iterator[IO[str]]:
    """Open a member of an archive as text.

    Parameters
    ----------
    archive : pathlib.Path
        A zip file, or a tar file (compressed or not).
    member : str
        The name of the member, without folders. It may be stored compressed, as ``member.gz`` or ``member.Z``, and
        may be in a zip file inside the archive.
    where : str
        What errors call the archive.

    Yields
    ------
    io.TextIOBase
        The decompressed text.

    Raises
    ------
    DatasetContentError
        When the file is no such archive, is damaged, or has no such member.
    """
    with ExitStack() as stack:
        try:
            stream = _find(archive, member, where, stack)
            yield cast("IO[str]", io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline=""))
        except DAMAGE as error:
            raise DatasetContentError(f"{where} is damaged ({error}); get it again") from error


def _find(archive: Path, member: str, where: str, stack: ExitStack) -> IO[bytes]:
    if zipfile.is_zipfile(archive):
        outer = stack.enter_context(zipfile.ZipFile(archive))
        names = outer.namelist()
        for folder in chain([outer], _nested(outer, stack)):
            stored = _choose(folder.namelist(), member)
            if stored is not None:
                return _decompressed(stack.enter_context(folder.open(stored)), stored, stack)
    elif tarfile.is_tarfile(archive):
        tar = stack.enter_context(tarfile.open(archive))  # noqa: SIM115 - the stack closes it
        names = [entry.name for entry in tar if entry.isfile()]
        stored = _choose(names, member)
        if stored is not None:
            return _decompressed(cast("IO[bytes]", tar.extractfile(stored)), stored, stack)
    else:
        raise DatasetContentError(
            f"{where} is neither a zip nor a tar file: it was cut short, or is something else; get it again"
        )
    raise DatasetContentError(f"{where} has no file {member!r}; it holds {', '.join(names) or 'nothing'}")


def _nested(outer: zipfile.ZipFile, stack: ExitStack) -> Iterator[zipfile.ZipFile]:
    for name in outer.namelist():
        if name.lower().endswith(".zip"):
            # A zip file is read from its end, which a stream out of another one does slowly; so it is read whole.
            yield stack.enter_context(zipfile.ZipFile(io.BytesIO(outer.read(name))))


def _choose(names: list[str], member: str) -> str | None:
    """Return the name that the member is stored under; of several, the one in the fewest folders."""
    for wanted in (member, f"{member}.gz", f"{member}.Z"):
        found = [name for name in names if PurePosixPath(name).name == wanted]
        if found:
            return min(found, key=lambda name: name.count("/"))
    return None


def _decompressed(stream: IO[bytes], stored: str, stack: ExitStack) -> IO[bytes]:
    if stored.endswith(".gz"):
        return cast("IO[bytes]", stack.enter_context(gzip.GzipFile(fileobj=stream)))
    if stored.endswith(".Z"):
        try:
            return io.BytesIO(lzw.decompress(stream.read()))
        except ValueError as error:
            raise DatasetContentError(f"{stored} cannot be decompressed: {error}") from error
    return stream
