"""Files on disk, opened only if they are regular files and replaced only by complete ones; or open binary files."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tabgnm._files.errors import FileError, reason
from tabgnm._files.streams import Buffer, InputStream, check_binary, write_all

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
    """Write a file, see `replace`, or write to an open binary file."""
    if isinstance(file, str | os.PathLike):
        replace(Path(file), content)
        return
    check_binary(file, "write")
    try:
        write_all(file, content)
    except (OSError, ValueError) as error:
        raise FileError(f"{name_of(file)} cannot be written: {reason(error)}") from error


def replace(path: Path, content: Iterable[Buffer]) -> None:
    """Write a file; an existing one is replaced once the new one is complete, and keeps its permissions.

    Of a link its target is replaced. What is not a regular file (a folder, pipe, socket or device) is refused.
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
    """Open a file next to `path` that takes its place when the context ends, and is deleted if that is by an error.

    What cannot be replaced is refused at the beginning, see `replace`. Errors of the operating system are left as they
    are.
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


def remove(path: Path) -> None:
    """Delete a file, if it exists, and what processes that were killed while they replaced it left behind."""
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
    """Return how the names of incomplete files begin; a digest, as the name itself may be as long as names can be."""
    return f".{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:16]}.tabgnm-part-"
