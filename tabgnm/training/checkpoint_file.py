"""The file of a checkpoint: a few JSON values and arrays, with a checksum of everything.

The number of arrays does not depend on the number of models, and arrays are written one by one, so that large fleets
can be saved as well.

    name of the format and a line feed
    sizes of the next two parts, two integers of 8 bytes
    JSON: version of the format, identity of the fleet, epochs
    arrays in the safetensors format
    SHA-256 of all of the above
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tabgnm._files import paths, strict_json, tensors
from tabgnm._files.errors import FileError
from tabgnm._files.streams import Buffer, InputStream
from tabgnm._files.tensors import Arrays
from tabgnm._printable import shown

VERSION = 4  # 1 and 2 had other random streams of dropout and gates; 3 had no checksum
_BEGIN = b"tabgnm checkpoint\n"
_SIZES = struct.Struct("<QQ")
_LARGEST_VALUES = 2**16
_DIGEST_SIZE = hashlib.sha256().digest_size


def write(path: Path, values: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a file; an existing file is replaced completely or not at all."""
    text = strict_json.dumps({"version": VERSION, **values})
    parts = tensors.parts(arrays)
    sizes = _SIZES.pack(len(text), sum(len(part) for part in parts))
    paths.replace(path, _with_digest([_BEGIN, sizes, text, *parts]))


def _with_digest(parts: Iterable[Buffer]) -> Iterator[Buffer]:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
        yield part
    yield digest.digest()


def read(path: Path) -> tuple[dict[str, Any], Arrays]:
    """Read a file in one pass; raise FileError if it differs in any way from what `write` writes."""
    with paths.opened(path) as stream:
        digest = hashlib.sha256()
        with stream.checked(digest):
            values = _read_values(stream)
            arrays = tensors.read(stream, values.pop("n_bytes"))
        if stream.read(_DIGEST_SIZE) != digest.digest():
            raise FileError("its checksum is wrong: it is damaged")
        if stream.read(1):
            raise FileError("it has data after its end")
    return values, arrays


def _read_values(stream: InputStream) -> dict[str, Any]:
    if stream.read(len(_BEGIN)) != _BEGIN:
        raise FileError("it is not a checkpoint, or was written by an earlier version")
    n_text, n_arrays = _SIZES.unpack(stream.read_exactly(_SIZES.size, "its sizes"))
    if n_text > _LARGEST_VALUES:  # damaged: do not allocate so much
        raise FileError(f"its description has {n_text} bytes; expected at most {_LARGEST_VALUES}")
    values: dict[str, Any] = strict_json.loads(stream.read_exactly(n_text, "its description"))
    version = values.pop("version", None)
    if version != VERSION:
        raise FileError(f"it has version {shown(version)} of the format, but this tabgnm reads {VERSION}")
    return values | {"n_bytes": n_arrays}
