"""Arrays in the safetensors format, whose sizes are checked against the file before memory is allocated."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from tabgnm.modelfile import strict_json
from tabgnm.modelfile.errors import ModelFileError, shown

Arrays = dict[str, NDArray[Any]]

LARGEST_HEADER = 2**21
_LENGTH = struct.Struct("<Q")
_TYPES = {"F32": "<f4", "F64": "<f8", "I64": "<i8", "U8": "|u1"}
_MOST_DIMENSIONS = 8


@dataclass(frozen=True)
class Tensor:
    """An array that has not been read yet; `start` is its offset in the file."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int

    @property
    def n_bytes(self) -> int:
        """Size in the file and in memory."""
        return math.prod(self.shape) * self.dtype.itemsize

    def read(self, file: BinaryIO) -> NDArray[Any]:
        """Read the array into new memory."""
        file.seek(self.start)
        content = bytearray(self.n_bytes)
        if file.readinto(content) != self.n_bytes:  # type: ignore[attr-defined] # files of bytes have it
            raise ModelFileError("it ends in the middle of its weights; it is being written, or damaged")
        array = np.frombuffer(content, dtype=self.dtype).reshape(self.shape)
        return array.astype(self.dtype.newbyteorder("="), copy=False)


def pack(arrays: Arrays) -> bytes:
    """Return arrays in the safetensors format."""
    return safetensors.numpy.save({name: np.ascontiguousarray(array) for name, array in arrays.items()})


def read_header(file: BinaryIO, start: int, size: int) -> dict[str, Tensor]:
    """Read the names, types and offsets of the arrays in the `size` bytes from `start`."""
    if size < _LENGTH.size:
        raise ModelFileError(f"its weights have {size} bytes; expected {_LENGTH.size} or more")
    file.seek(start)
    (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
    if length > min(LARGEST_HEADER, size - _LENGTH.size):
        raise ModelFileError(f"the header of its weights claims {length} bytes; expected at most {LARGEST_HEADER}")
    header = strict_json.loads(file.read(length))
    if not isinstance(header, dict):
        raise ModelFileError("the header of its weights is not an object")
    first = start + _LENGTH.size + length
    places = sorted((_place(name, entry), name) for name, entry in header.items())
    ends = [0, *(end for (_, end), _ in places)]
    if [begin for (begin, _), _ in places] != ends[:-1] or ends[-1] != start + size - first:
        raise ModelFileError("its weights overlap, or leave unused bytes between them")
    tensors = {name: _tensor(name, header[name], first) for name in header}
    for (name, tensor), (begin, end) in zip(tensors.items(), map(_place, header, header.values()), strict=True):
        if tensor.n_bytes != end - begin:
            raise ModelFileError(f"{shown(name)} has {end - begin} bytes; expected {tensor.n_bytes} for its shape")
    return tensors


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _place(name: str, entry: Any) -> tuple[int, int]:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise ModelFileError(f"{shown(name)} among its weights is described by {shown(entry)}")
    place = entry["data_offsets"]
    if not isinstance(place, list) or len(place) != 2 or not all(map(_is_count, place)) or place[0] > place[1]:
        raise ModelFileError(f"{shown(name)} among its weights is at {shown(place)}; expected its start and end")
    return place[0], place[1]


def _tensor(name: str, entry: dict[str, Any], first: int) -> Tensor:
    dtype, shape = entry["dtype"], entry["shape"]
    if not isinstance(dtype, str) or dtype not in _TYPES:
        raise ModelFileError(f"{shown(name)} has type {shown(dtype)}; expected one of {', '.join(_TYPES)}")
    if not isinstance(shape, list) or len(shape) > _MOST_DIMENSIONS or not all(map(_is_count, shape)):
        raise ModelFileError(f"{shown(name)} has shape {shown(shape)}; expected at most {_MOST_DIMENSIONS} sizes")
    return Tensor(np.dtype(_TYPES[dtype]), tuple(shape), first + entry["data_offsets"][0])
