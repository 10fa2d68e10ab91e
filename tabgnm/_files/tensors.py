"""Arrays in the safetensors format; they are read in one pass, and every size is checked."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabgnm._files import strict_json
from tabgnm._files.errors import FileError
from tabgnm._files.streams import Buffer, InputStream
from tabgnm._printable import shown

Arrays = dict[str, NDArray[Any]]

LARGEST_HEADER = 2**21
_LENGTH = struct.Struct("<Q")
_TYPES = {"F32": "<f4", "F64": "<f8", "I64": "<i8", "U8": "|u1"}
_NAMES = {np.dtype(dtype): name for name, dtype in _TYPES.items()}
_MAX_DIMENSIONS = 8
_ALIGNMENT = 8


@dataclass(frozen=True)
class _Entry:
    """An array as the header describes it; `begin` and `end` are offsets among the bytes of all arrays."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int


def parts(arrays: Mapping[str, NDArray[Any]]) -> list[Buffer]:
    """Return the buffers to write for these arrays: their header, then the content of each array."""
    header: dict[str, Any] = {}
    content: list[Buffer] = []
    end = 0
    # Arrays with the largest item size come first, so that each array is aligned.
    for name, array in sorted(arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])):
        if array.dtype.newbyteorder("<") not in _NAMES:
            raise FileError(f"{shown(name)} has type {array.dtype}; expected one of {', '.join(map(str, _NAMES))}")
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        begin, end = end, end + little.nbytes
        header[name] = {"dtype": _NAMES[little.dtype], "shape": list(array.shape), "data_offsets": [begin, end]}
        content.append(little.reshape(-1).data.cast("B") if little.size else b"")
    text = strict_json.dumps(header)
    text += b" " * (-len(text) % _ALIGNMENT)
    if len(text) > LARGEST_HEADER:
        raise FileError(f"the header of {len(arrays)} arrays has {len(text)} bytes; expected at most {LARGEST_HEADER}")
    return [_LENGTH.pack(len(text)) + text, *content]


def read(stream: InputStream, size: int) -> Arrays:
    """Read arrays that take the next `size` bytes."""
    if size < _LENGTH.size:
        raise FileError(f"its arrays have {size} bytes; expected at least {_LENGTH.size}")
    (length,) = _LENGTH.unpack(stream.read_exactly(_LENGTH.size, "its arrays"))
    if length > min(LARGEST_HEADER, size - _LENGTH.size):
        raise FileError(f"the header of its arrays has {length} bytes; expected at most {LARGEST_HEADER}")
    header = strict_json.loads(stream.read_exactly(length, "the header of its arrays"))
    if not isinstance(header, dict):
        raise FileError("the header of its arrays is not an object")
    entries = {name: _entry(name, described) for name, described in header.items()}
    in_order = sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end))
    ends = [0, *(entry.end for _, entry in in_order)]
    if [entry.begin for _, entry in in_order] != ends[:-1] or ends[-1] != size - _LENGTH.size - length:
        raise FileError("its arrays overlap, or there are unused bytes between them")
    arrays = {name: stream.read_array(entry.dtype, entry.shape, "its arrays") for name, entry in in_order}
    return {name: arrays[name] for name in entries}


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _entry(name: str, described: Any) -> _Entry:
    if not isinstance(described, dict) or set(described) != {"dtype", "shape", "data_offsets"}:
        raise FileError(
            f"its array {shown(name)} is described by {shown(described)}; expected dtype, shape and data_offsets"
        )
    place, dtype, shape = described["data_offsets"], described["dtype"], described["shape"]
    if not isinstance(place, list) or len(place) != 2 or not all(map(_is_count, place)) or place[0] > place[1]:
        raise FileError(f"its array {shown(name)} has the offsets {shown(place)}; expected its start and end")
    if not isinstance(dtype, str) or dtype not in _TYPES:
        raise FileError(f"its array {shown(name)} has type {shown(dtype)}; expected one of {', '.join(_TYPES)}")
    if not isinstance(shape, list) or len(shape) > _MAX_DIMENSIONS or not all(map(_is_count, shape)):
        raise FileError(
            f"its array {shown(name)} has shape {shown(shape)}; expected a list of at most {_MAX_DIMENSIONS} sizes"
        )
    entry = _Entry(np.dtype(_TYPES[dtype]), tuple(shape), place[0], place[1])
    n_bytes = math.prod(shape) * entry.dtype.itemsize
    if n_bytes != entry.end - entry.begin:
        raise FileError(
            f"its array {shown(name)} has {entry.end - entry.begin} bytes; expected {n_bytes} for its shape"
        )
    return entry
