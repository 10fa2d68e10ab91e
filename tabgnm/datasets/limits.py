"""Limits on the size of the files of a data set, computed from its known rows and columns with a margin.

A larger file is not the data set. It is refused before it fills the memory or the disk, or takes hours to read.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from tabgnm.datasets.errors import GET_AGAIN, DatasetContentError, damage_told

CELL_BYTES = 64  # the mean per cell; in the published files it is at most 25 (SUSY) and mostly below 10
OTHER_BYTES = 2**20  # for headers, descriptions and other small files
ROW_FACTOR = 2  # a different version of a data set, read with verify=False, may have more rows
LINE_CHARS = 4096  # of a line, in addition to 64 per cell: names are longer than numbers
MANIFEST_BYTES = 2**20
CHUNK_BYTES = 2**16


@dataclass(frozen=True)
class SizeLimits:
    """The maximum size of a file of a data set.

    Parameters
    ----------
    n_bytes : int
        The maximum size of an archive, and of everything that is decompressed from it.
    n_rows : int
    line_chars : int
    """

    n_bytes: int
    n_rows: int
    line_chars: int

    @classmethod
    def of_table(cls, n_rows: int, n_columns: int) -> SizeLimits:
        """Return the limits of a table with these numbers of rows and columns."""
        return cls(
            n_bytes=n_rows * n_columns * CELL_BYTES + OTHER_BYTES,
            n_rows=ROW_FACTOR * n_rows,
            line_chars=n_columns * CELL_BYTES + LINE_CHARS,
        )


class ByteBudget:
    """Counts the decompressed bytes of all layers of a file, and raises if they exceed the limit."""

    def __init__(self, n_bytes: int, where: str) -> None:
        self._n_bytes, self._where = n_bytes, where
        self._n_left = n_bytes

    def spend(self, n_bytes: int) -> None:
        """Count decompressed bytes."""
        self._n_left -= n_bytes
        if self._n_left < 0:
            raise too_large(self._where, self._n_bytes)


def too_large(where: str, n_bytes: int) -> DatasetContentError:
    """Return the error for a file that is too large."""
    return DatasetContentError(
        f"{where} has more than {n_bytes:,} bytes, far more than the data set, so it is damaged or a different file; "
        f"{GET_AGAIN}"
    )


class BoundedReader(io.RawIOBase):
    """Reads from a decompressor and counts bytes; errors of the decompressor become `DatasetContentError`."""

    def __init__(self, source: IO[bytes], budget: ByteBudget, where: str) -> None:
        self._source, self._budget, self._where = source, budget, where

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # what io calls a writable buffer
        """Read the next bytes."""
        with damage_told(self._where):
            data = self._source.read(min(len(buffer), CHUNK_BYTES))
        self._budget.spend(len(data))
        buffer[: len(data)] = data
        return len(data)


def bounded_lines(stream: IO[bytes], limits: SizeLimits, budget: ByteBudget, where: str, errors: str) -> Iterator[str]:
    """Yield the lines of a UTF-8 stream; a line that is too long is refused before all of it is read."""
    reader = io.BufferedReader(BoundedReader(stream, budget, where), CHUNK_BYTES)
    text = io.TextIOWrapper(reader, encoding="utf-8-sig", errors=errors, newline="")
    while True:
        try:
            line = text.readline(limits.line_chars + 1)
        except UnicodeDecodeError as error:
            raise DatasetContentError(f"{where} is damaged: it is not UTF-8 text ({error}); {GET_AGAIN}") from error
        if not line:
            return
        if len(line) > limits.line_chars:
            raise DatasetContentError(
                f"{where} has a line of more than {limits.line_chars:,} characters, far more than its columns need, so "
                f"it is damaged or a different file; {GET_AGAIN}"
            )
        yield line


def sha256_of(file: IO[bytes]) -> str:
    """Return the checksum of an open file, and seek to its beginning."""
    digest = hashlib.sha256()
    while chunk := file.read(CHUNK_BYTES):
        digest.update(chunk)
    file.seek(0)
    return digest.hexdigest()
