"""Files on disk: opened only if they are files, replaced only by complete ones."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tabgnm.modelfile.errors import ModelFileError


@contextmanager
def opened(path: Path) -> Iterator[tuple[BinaryIO, int]]:
    """Open a file for reading; yield it and its size."""
    try:
        # Checked before opening, as opening a pipe would block.
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
            raise ModelFileError(f"{str(path)!r} is {kind}; expected a model file")
        file = path.open("rb")
    except (OSError, ValueError, RuntimeError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{str(path)!r} cannot be read: {reason(error)}") from error
    with file:
        yield file, os.fstat(file.fileno()).st_size


def replace(path: Path, content: bytes) -> None:
    """Write a file; an existing one is replaced once the new one is complete, and keeps its permissions."""
    try:
        path = path.resolve()  # replace the target of a link, not the link
        if path.is_dir():
            raise ModelFileError(f"{str(path)!r} is a folder; expected the path of a file in it")
        if not path.parent.is_dir():
            raise ModelFileError(f"the folder {str(path.parent)!r} does not exist; create it first")
        _replace(path, content)
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: circular links
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{str(path)!r} cannot be written: {reason(error)}") from error


def _replace(path: Path, content: bytes) -> None:
    # In the same folder, so that the last step is an atomic rename.
    part = path.parent / f".{secrets.token_hex(8)}.tabgnm-part"
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            if path.exists():
                part.chmod(stat.S_IMODE(path.stat().st_mode))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def reason(error: Exception) -> str:
    """Return the message of the operating system."""
    said = error.strerror if isinstance(error, OSError) else None
    return said or str(error) or type(error).__name__
