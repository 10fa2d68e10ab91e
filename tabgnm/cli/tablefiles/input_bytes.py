"""The bytes of a table file: from a path or standard input, unpacked where they are gzipped, with readable errors."""

from __future__ import annotations

import gzip
import io
import os
import stat
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any, BinaryIO

from tabgnm._files.errors import reason
from tabgnm.cli.tablefiles.errors import TableFileError, quoted, similar
from tabgnm.cli.tablefiles.formats import LABELS, STANDARD_STREAM, FileFormat, stem_of_table
from tabgnm.cli.tablefiles.signatures import recognised

_HEAD = 128
_GZIP = b"\x1f\x8b"


def shown_name(source: str, usual: str = "standard input") -> str:
    """Return the name of a source for messages."""
    return usual if source == STANDARD_STREAM else quoted(source, 300)


class InputBytes:
    """A source that is open for reading.

    Parameters
    ----------
    source : str
        A path, or "-" for standard input.
    file_format : FileFormat

    Attributes
    ----------
    name : str
        For messages.
    head : bytes
        The first bytes, unpacked; they are still to be read.
    """

    def __init__(self, source: str, file_format: FileFormat) -> None:
        self.name = shown_name(source)
        self._path = None if source == STANDARD_STREAM else _readable_path(source)
        self._raw = _standard_input() if self._path is None else _opened(self._path)
        self._stream: BinaryIO = self._raw
        self._spooled: str | None = None
        try:
            self.head = self._unpacked(file_format)
            if not self.head:
                raise TableFileError(f"{self.name} is empty; expected a table")
            self._refuse_other_formats(file_format)
        except BaseException:
            self.close()
            raise

    def _unpacked(self, file_format: FileFormat) -> bytes:
        start = self._read_raw(_HEAD)
        packed = start.startswith(_GZIP)
        if file_format.gzipped and start and not packed:
            raise TableFileError(
                f"{self.name} is not compressed with gzip, although its name or format ends in .gz; "
                f"rename it without .gz{_guess(start)}"
            )
        if packed and (file_format.gzipped or file_format.gzipped is None):
            self._stream = gzip.GzipFile(fileobj=_Prefixed(start, self._raw))  # type: ignore[assignment]
            start = self.read(_HEAD)
        self._stream = _Prefixed(start, self._stream)  # type: ignore[assignment]
        return start

    def _refuse_other_formats(self, file_format: FileFormat) -> None:
        found = recognised(self.head)
        label = LABELS[file_format.kind]
        expected = {"parquet": b"PAR1", "sqlite": b"SQLite format 3\0"}.get(file_format.kind)
        if file_format.kind == "feather" and (found is None or found[0].startswith("an Arrow")):
            return  # an Arrow stream has no signature
        if found is None and expected is None:
            return
        if expected is not None and self.head.startswith(expected):
            return
        if found is None:
            raise TableFileError(f"{self.name} is not a {label} file{_guess(self.head)}")
        what, remedy = found
        raise TableFileError(f"{self.name} is {what}, not a {label} file; {remedy}")

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most `size`; none at the end."""
        try:
            return self._stream.read(size) or b""
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise TableFileError(
                f"{self.name} is damaged or truncated gzip data ({error}); copy or compress it again"
            ) from None
        except (OSError, ValueError) as error:
            raise TableFileError(f"{self.name} cannot be read: {reason(error)}") from error

    def _read_raw(self, size: int) -> bytes:
        content = b""
        while len(content) < size:  # a pipe may give less at a time
            part = self.read(size - len(content))
            if not part:
                break
            content += part
        return content

    def as_path(self) -> str:
        """Return the path of a file with these bytes, for formats that are not read from beginning to end.

        Standard input and what is gzipped is written to a temporary file first, which takes disk but no memory.
        """
        if self._path is not None and isinstance(self._stream, _Prefixed) and self._stream.follows(self._raw):
            return str(self._path)
        if self._spooled is None:
            handle, self._spooled = tempfile.mkstemp(prefix="tabgnm-table-")
            try:
                with os.fdopen(handle, "wb") as file:
                    while block := self.read(2**20):
                        file.write(block)
            except OSError as error:
                raise TableFileError(f"{self.name} cannot be unpacked to a temporary file: {reason(error)}") from error
        return self._spooled

    def close(self) -> None:
        """Close the file and remove the temporary one; standard input is left open."""
        if self._path is not None:
            self._raw.close()
        if self._spooled is not None:
            Path(self._spooled).unlink(missing_ok=True)
            self._spooled = None


class _Prefixed(io.RawIOBase):
    """Bytes that were read ahead, and then the rest of a stream."""

    def __init__(self, start: bytes, rest: Any) -> None:
        self._start, self._rest = start, rest

    def readable(self) -> bool:
        return True

    def follows(self, stream: Any) -> bool:
        return self._rest is stream

    def read(self, size: int = -1) -> bytes:
        if self._start:
            part, self._start = (self._start, b"") if size < 0 else (self._start[:size], self._start[size:])
            return part
        return self._rest.read(size) or b""


def _guess(start: bytes) -> str:
    found = recognised(start)
    if found is not None:
        return f"; it is {found[0]}: {found[1]}"
    is_text = b"\0" not in start and all(byte >= 32 or byte in b"\t\r\n\f" for byte in start)
    return "; it looks like text: if it is a CSV file, add --format csv" if is_text else "; it may be damaged"


def _readable_path(source: str) -> Path:
    path = Path(source)
    name = shown_name(source)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if path.is_symlink():
            raise TableFileError(
                f"{name} is a link to {quoted(str(path.readlink()), 300)}, which does not exist"
            ) from None
        raise TableFileError(f"{name} does not exist{_near(path)}") from None
    except (OSError, ValueError, RuntimeError) as error:
        raise TableFileError(f"{name} cannot be read: {reason(error)}") from None
    if stat.S_ISDIR(mode):
        raise TableFileError(f"{name} is a folder; give the name of a file in it")
    if not stat.S_ISREG(mode):
        raise TableFileError(
            f"{name} is a pipe, socket or device, not a file; to read from a pipe, redirect it and give - as the name"
        )
    return path


def _near(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f", nor does the folder {quoted(str(folder), 300)}"
    try:
        names = [entry.name for entry, _ in zip(folder.iterdir(), range(10_000), strict=False)]
    except OSError:
        return ""
    # Endings do not count: two names are not similar because both end in .csv.
    tables = {stem: own for own in names if (stem := stem_of_table(own)) is not None}
    close = similar(stem_of_table(path.name) or path.name, tables)
    return "" if close is None else f"; did you mean {quoted(tables[close])}?"


def _opened(path: Path) -> Any:
    try:
        return path.open("rb", buffering=0)
    except OSError as error:
        raise TableFileError(f"{shown_name(str(path))} cannot be read: {reason(error)}") from None


def _standard_input() -> Any:
    if sys.stdin is None or sys.stdin.closed:
        raise TableFileError("standard input is closed; redirect a table to it, or give the name of a file")
    if sys.stdin.isatty():
        raise TableFileError(
            "standard input is a terminal; redirect a table to it (tabgnm ... - < table.csv), or give the name of a "
            "file"
        )
    return sys.stdin.buffer
