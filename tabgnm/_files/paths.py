"""Reading and atomically replacing regular files; the same functions also accept open binary files."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from tabgnm._files.errors import FileError, reason
from tabgnm._files.streams import Buffer, InputStream, check_binary, write_all

_STALE_SECONDS = 3600.0  # since the last write

PathOrFile = str | os.PathLike[str] | BinaryIO


def name_of(file: PathOrFile) -> str:
    """Return the name of a file for messages."""
    name = str(Path(file)) if isinstance(file, str | os.PathLike) else getattr(file, "name", None)
    return repr(name) if isinstance(name, str) else f"the {type(file).__name__}"


@contextmanager
def opened(file: PathOrFile) -> Iterator[InputStream]:
    """Open a path for reading, or read an open binary file from its position on."""
    if not isinstance(file, str | os.PathLike):
        check_binary(file, "read")
        yield InputStream(file)
        return
    path = Path(file)
    try:
        # Checked before opening, as opening a pipe would block.
        if not stat.S_ISREG(path.stat().st_mode):
            raise _not_regular(path, "expected a file")
        handle = path.open("rb")
    except (OSError, ValueError, RuntimeError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{name_of(path)} cannot be read: {reason(error)}") from error
    with handle:
        yield InputStream(handle)


def write(file: PathOrFile, content: Iterable[Buffer]) -> None:
    """Write to a path (see `replace`) or to an open binary file."""
    if isinstance(file, str | os.PathLike):
        replace(Path(file), content)
        return
    check_binary(file, "write")
    try:
        write_all(file, content)
    except Exception as error:  # the caller's file object may raise anything
        raise FileError(f"{name_of(file)} cannot be written: {reason(error)}") from error


def replace(path: Path, content: Iterable[Buffer]) -> None:
    """Write a file; an existing file is replaced once the new one is complete, and its permissions are kept.

    If `path` is a link, its target is replaced. A folder, pipe, socket or device is refused.
    """
    try:
        with replacing(path) as file:
            write_all(file, content)
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: circular links
        if isinstance(error, FileError):
            raise
        raise FileError(f"{name_of(path)} cannot be written: {reason(error)}") from error


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file next to `path` that replaces it when the context ends, or is deleted if the context raises.

    A path that cannot be replaced is refused at the beginning, see `replace`. Errors of the operating system are raised
    unchanged.
    """
    path = path.resolve()
    if not path.parent.is_dir():
        raise FileError(f"the folder {str(path.parent)!r} does not exist; create it first")
    permissions = None
    if path.exists():
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise _not_regular(path, "expected a new name, or a file to replace")
        permissions = stat.S_IMODE(mode)
    # In the same folder, so that the last step is an atomic rename.
    part = path.parent / f"{_part_prefix(path)}{secrets.token_hex(8)}"
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            if permissions is not None:
                part.chmod(permissions)
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    _remove_stale_parts(path)


def remove(path: Path) -> None:
    """Delete a file, if it exists, and the incomplete files of processes that were killed while replacing it."""
    try:
        path = path.resolve()
        for found in (path, *path.parent.glob(f"{_part_prefix(path)}*")):
            found.unlink(missing_ok=True)
    except (OSError, ValueError, RuntimeError) as error:
        raise FileError(f"{name_of(path)} cannot be deleted: {reason(error)}") from error


def _not_regular(path: Path, expected: str) -> FileError:
    kind = "a folder" if path.is_dir() else "not a regular file, but a pipe, socket or device"
    return FileError(f"{name_of(path)} is {kind}; {expected}")


def _part_prefix(path: Path) -> str:
    """Return the prefix of incomplete files. It is a digest, because the name may already have the maximum length."""
    return f".{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:16]}.tabgnm-part-"


def _remove_stale_parts(path: Path) -> None:
    """Delete incomplete files of killed processes; recent ones are kept, as another process may be writing them."""
    with suppress(OSError):
        for part in path.parent.glob(f"{_part_prefix(path)}*"):
            if time.time() - part.stat().st_mtime > _STALE_SECONDS:
                part.unlink(missing_ok=True)
