"""Binary files as streams: read once from the first byte to the last, written without seeking."""

from __future__ import annotations

import io
import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from tabgnm._files.errors import FileError, reason

Buffer = bytes | memoryview
_CHUNK = 2**20
_ALIGNMENT = 64  # as torch aligns its tensors; the rounding of some matrix products depends on it


class Checksum(Protocol):
    """A hash object of `hashlib`, or an object with the same `update` method."""

    def update(self, data: Any, /) -> None:
        """Take further bytes into account."""
        ...


class Crc32:
    """The checksum of zip archives, with the interface of `hashlib`."""

    def __init__(self) -> None:
        self.value = 0

    def update(self, data: Any, /) -> None:
        """Take further bytes into account."""
        self.value = zlib.crc32(data, self.value)


class InputStream:
    """Reads a binary file from its position on, each byte once.

    Attributes
    ----------
    position : int
        Number of bytes read.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._checksums: Sequence[Checksum] = ()
        self.position = 0

    @contextmanager
    def checked(self, *checksums: Checksum) -> Iterator[None]:
        """Update checksums with what is read within this context."""
        self._checksums = checksums
        try:
            yield
        finally:
            self._checksums = ()

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes, or fewer at the end of the file."""
        return b"".join(self._chunks(size))

    def read_exactly(self, size: int, what: str) -> bytes:
        """Return the next `size` bytes; raise FileError if there are fewer."""
        content = self.read(size)
        if len(content) < size:
            raise truncated(self.position, what)
        return content

    def read_array(self, dtype: np.dtype[Any], shape: tuple[int, ...], what: str) -> NDArray[Any]:
        """Read an array into newly allocated memory; raise FileError if the file ends too early."""
        n_bytes = math.prod(shape) * dtype.itemsize
        try:
            memory = np.empty(n_bytes + _ALIGNMENT, dtype=np.uint8)  # uses memory only where it is written
        except MemoryError:
            raise FileError(f"{what} of {n_bytes} bytes do not fit into memory; use a machine with more") from None
        first = -memory.ctypes.data % _ALIGNMENT
        content, end = memory[first : first + n_bytes], 0
        for chunk in self._chunks(n_bytes):
            content[end : end + len(chunk)] = np.frombuffer(chunk, dtype=np.uint8)
            end += len(chunk)
        if end < n_bytes:
            raise truncated(self.position, what)
        return content.view(dtype).reshape(shape).astype(dtype.newbyteorder("="), copy=False)

    def skip(self, size: int) -> None:
        """Read bytes only to update the checksums."""
        for _ in self._chunks(size):
            pass

    def _chunks(self, size: int) -> Iterator[bytes]:
        while size > 0:
            try:
                chunk = self._file.read(min(size, _CHUNK))
            except Exception as error:  # the caller's file object may raise anything
                raise FileError(f"it cannot be read: {reason(error)}") from error
            if not isinstance(chunk, bytes):  # a non-blocking file without data returns None
                raise FileError(f"its read() returned {type(chunk).__name__}; expected bytes of a blocking binary file")
            if len(chunk) > size:
                raise FileError(
                    f"its read({min(size, _CHUNK)}) returned {len(chunk)} bytes, which is more than requested"
                )
            if not chunk:
                return
            size -= len(chunk)
            self.position += len(chunk)
            for checksum in self._checksums:
                checksum.update(chunk)
            yield chunk


def truncated(position: int, what: str) -> FileError:
    """Return the error for a file that ends too early."""
    return FileError(f"it ends after {position} bytes, in {what}: it is truncated; copy it again")


def check_binary(file: Any, method: str) -> None:
    """Raise TypeError unless this is a binary file with this method."""
    action = "reading" if method == "read" else "writing"
    if not callable(getattr(file, method, None)):
        raise TypeError(f"{file!r:.80} has type {type(file).__name__}; expected a path, or a binary file for {action}")
    mode = getattr(file, "mode", "b")  # some files have no mode, and that of others is a number
    if isinstance(file, io.TextIOBase) or (isinstance(mode, str) and hasattr(file, "encoding") and "b" not in mode):
        raise TypeError(
            f"{file!r:.80} is open in text mode; expected a binary file: use open(path, '{method[0]}b') or io.BytesIO"
        )


def write_all(file: BinaryIO, content: Iterable[Buffer]) -> None:
    """Write everything, also to unbuffered files, whose `write` may accept only a part at a time."""
    for part in content:
        rest: Any = part
        while len(rest):
            n_written = file.write(rest)
            if n_written is None and not isinstance(file, io.RawIOBase):
                break  # files of other libraries often return nothing
            if not n_written:
                raise OSError("it accepts no more bytes")
            if not isinstance(n_written, int) or not 0 < n_written <= len(rest):
                raise OSError(f"its write() returned {n_written!r:.40}; expected the number of bytes written")
            rest = memoryview(rest)[n_written:]
