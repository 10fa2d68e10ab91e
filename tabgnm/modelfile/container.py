"""The container: a zip archive of `schema.json` and `weights.safetensors`, read without trusting its content.

Neither entry can contain code. Any zip program can open the file, but tabgnm accepts only the exact layout that `pack`
writes, so that two programs never see different models in one file. The schema comes first and starts with the format
and its version; this will not change in later versions. The schema is compressed, and its size is limited; the weights
are stored uncompressed, so they cannot be larger than the file.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from dataclasses import dataclass
from typing import Any

from tabgnm._files import strict_json, tensors
from tabgnm._files.errors import FileError
from tabgnm._files.streams import Crc32, InputStream, truncated
from tabgnm._files.tensors import Arrays
from tabgnm._printable import shown
from tabgnm.modelfile.errors import ModelFileError

SCHEMA, WEIGHTS = "schema.json", "weights.safetensors"
FORMAT, VERSION = "tabgnm model", 2
LARGEST_SCHEMA = 8 * 2**20
LARGEST_WEIGHTS = 2**32 - 2**24  # the limit of zip without its extension for large files

_STORED, _DEFLATED = 0, 8
_ZIP_VERSION, _UNIX = 20, 3 << 8
_TIME, _DATE = 0, (1 << 5) | 1  # 1980-01-01, so that the same model always has the same bytes
_MODE = 0o100644 << 16
_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")


@dataclass(frozen=True)
class _Entry:
    """An entry of the archive, as described by its headers."""

    name: str
    method: int
    crc: int
    packed: int  # bytes in the file
    size: int  # bytes in memory

    def local_header(self) -> bytes:
        numbers = (_ZIP_VERSION, 0, self.method, _TIME, _DATE, self.crc, self.packed, self.size, len(self.name), 0)
        return _LOCAL.pack(b"PK\3\4", *numbers) + self.name.encode()

    def central_header(self, offset: int) -> bytes:
        numbers = (_ZIP_VERSION, 0, self.method, _TIME, _DATE, self.crc, self.packed, self.size, len(self.name))
        rest = (0, 0, 0, 0, _MODE, offset)
        return _CENTRAL.pack(b"PK\1\2", _UNIX | _ZIP_VERSION, *numbers, *rest) + self.name.encode()

    @property
    def span(self) -> int:
        """Bytes in the file, including the header."""
        return _LOCAL.size + len(self.name) + self.packed


def _directory(schema: _Entry, weights: _Entry) -> bytes:
    """Return the bytes after the two entries."""
    central = schema.central_header(0) + weights.central_header(schema.span)
    return central + _END.pack(b"PK\5\6", 0, 0, 2, 2, len(central), schema.span + weights.span, 0)


def pack(schema: dict[str, Any], arrays: Arrays) -> bytes:
    """Return the content of a model file."""
    weights = b"".join(tensors.parts(arrays))
    if len(weights) > LARGEST_WEIGHTS:
        raise ModelFileError(f"the weights have {len(weights)} bytes; expected at most {LARGEST_WEIGHTS}")
    head = {"format": FORMAT, "version": VERSION, "weights_sha256": hashlib.sha256(weights).hexdigest()}
    text = strict_json.dumps(head | schema)
    if len(text) > LARGEST_SCHEMA:
        raise ModelFileError(
            f"the description of this model has {len(text)} bytes; expected at most {LARGEST_SCHEMA}: use a larger "
            "min_level_count or a smaller max_one_hot, so that fewer levels of categories are stored, or fewer "
            "candidates, as each encoding of the table stores them"
        )
    return frame(text, weights)


def frame(text: bytes, weights: bytes) -> bytes:
    """Return an archive of the schema and the weights."""
    deflater = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    deflated = deflater.compress(text) + deflater.flush()
    first = _Entry(SCHEMA, _DEFLATED, zlib.crc32(text), len(deflated), len(text))
    second = _Entry(WEIGHTS, _STORED, zlib.crc32(weights), len(weights), len(weights))
    parts = [first.local_header(), deflated, second.local_header(), weights, _directory(first, second)]
    return b"".join(parts)


@dataclass(frozen=True)
class Container:
    """The content of a model file with valid framing, checksums and sizes."""

    version: int
    schema: dict[str, Any]
    arrays: Arrays


def unpack(stream: InputStream) -> Container:
    """Read a model file in one pass; raise FileError if its framing is invalid."""
    first, version, schema = _read_schema(stream)
    second = _read_entry(stream, WEIGHTS, _STORED)
    if second.packed != second.size:
        raise ModelFileError(_foreign(f"{WEIGHTS} has two sizes"))
    start, crc, digest = stream.position, Crc32(), hashlib.sha256()
    with stream.checked(crc, digest):
        try:
            arrays: Arrays | FileError = tensors.read(stream, second.size)
        except FileError as error:  # raised below, unless a wrong checksum explains it
            arrays = error
            stream.skip(start + second.size - stream.position)
    if stream.position < start + second.size:
        raise truncated(stream.position, WEIGHTS)
    end = _directory(first, second)
    found = stream.read(len(end))
    if len(found) < len(end):
        raise truncated(stream.position, "its directory")
    if crc.value != second.crc or found != end:
        raise ModelFileError("its checksum is wrong: it is damaged; copy it again, or save the model again")
    if digest.hexdigest() != schema.pop("weights_sha256", None):
        raise ModelFileError(_foreign("its weights do not match the checksum in its schema"))
    if stream.read(1):
        raise ModelFileError(
            f"it has data after the {stream.position - 1} bytes of the model; copy it again, or save the model again"
        )
    if isinstance(arrays, FileError):
        raise arrays
    return Container(version, schema, arrays)


def _foreign(problem: str) -> str:
    return f"{problem}: it is damaged, or was not written by tabgnm; save the model again"


def _read_entry(stream: InputStream, name: str, method: int, begin: bytes = b"") -> _Entry:
    """Read the header of an entry, which must be exactly as `pack` writes it; `begin` was already read from it."""
    start = stream.position - len(begin)
    header = begin + stream.read_exactly(_LOCAL.size + len(name) - len(begin), f"the header of {name}")
    crc, packed, unpacked = _LOCAL.unpack_from(header)[6:9]
    entry = _Entry(name, method, crc, packed, unpacked)
    if header != entry.local_header():
        raise ModelFileError(_foreign(f"it does not have the entry {name!r} at byte {start} as tabgnm writes it"))
    return entry


def _read_schema(stream: InputStream) -> tuple[_Entry, int, dict[str, Any]]:
    begin = stream.read(4)
    if not begin:
        raise ModelFileError("it is empty; save the model again")
    if begin != b"PK\3\4":
        raise ModelFileError("it is not a model file, or it is damaged; expected a file written by `save`")
    entry = _read_entry(stream, SCHEMA, _DEFLATED, begin)
    if entry.size > LARGEST_SCHEMA or entry.packed > 2 * LARGEST_SCHEMA:
        raise ModelFileError(
            _foreign(
                f"{SCHEMA} has {entry.size} bytes, compressed to {entry.packed}; expected at most {LARGEST_SCHEMA}"
            )
        )
    packed = stream.read_exactly(entry.packed, SCHEMA)
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        text = inflater.decompress(packed, entry.size + 1)
    except zlib.error:
        raise ModelFileError(f"{SCHEMA} cannot be unpacked: it is damaged; copy it again") from None
    complete = inflater.eof and not inflater.unused_data and not inflater.unconsumed_tail
    if len(text) != entry.size or not complete or zlib.crc32(text) != entry.crc:
        raise ModelFileError(f"the checksum or size of {SCHEMA} is wrong: it is damaged; copy it again")
    return entry, *_check_version(strict_json.loads(text))


def _check_version(schema: Any) -> tuple[int, dict[str, Any]]:
    if not isinstance(schema, dict) or schema.pop("format", None) != FORMAT:
        raise ModelFileError(f"its schema does not have format={FORMAT!r}, so it is not a tabgnm model file")
    version = schema.pop("version", None)
    if type(version) is not int or version < 1:
        raise ModelFileError(f"its format version is {shown(version)}; expected an integer from 1 to {VERSION}")
    if version > VERSION:
        raise ModelFileError(
            f"its format version is {shown(version)}, but this tabgnm reads versions up to {VERSION}; install a newer "
            "tabgnm: pip install --upgrade tabgnm"
        )
    return version, schema
