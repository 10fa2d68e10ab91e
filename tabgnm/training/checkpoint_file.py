"""The file of a checkpoint: a line with the version, arrays in the safetensors format, and the SHA-256 of both."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from tabgnm._files import paths, tensors
from tabgnm._files.errors import FileError, cause
from tabgnm._files.streams import Buffer
from tabgnm._files.tensors import Arrays

_BEGIN = b"tabgnm checkpoint 7\n"  # the number changes if the content does
_DIGEST_SIZE = hashlib.sha256().digest_size


def write(path: Path, arrays: Arrays) -> None:
    """Write a file; an existing file is replaced completely or not at all."""
    paths.replace(path, _with_digest([_BEGIN, *tensors.parts(arrays)]))


def _with_digest(parts: Iterable[Buffer]) -> Iterator[Buffer]:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
        yield part
    yield digest.digest()


def read(path: Path) -> Arrays:
    """Read a file in one pass; raise FileError if it differs in any way from what `write` writes."""
    digest = hashlib.sha256()
    with paths.opened(path) as stream, stream.checked(digest):
        if stream.read(len(_BEGIN)) != _BEGIN:
            raise FileError("it is not a checkpoint, or was written by another version")
        try:
            arrays = tensors.read(stream, path.stat().st_size - len(_BEGIN) - _DIGEST_SIZE)
        except FileError as error:
            raise FileError(f"it is incomplete, has data after its end, or is damaged: {cause(error)}") from error
        found = digest.digest()
        if stream.read_exactly(_DIGEST_SIZE, "its checksum") != found:
            raise FileError("its checksum is wrong: it is damaged")
    return arrays
