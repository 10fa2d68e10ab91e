"""Where a table is written to: a file that is replaced when all is written, or standard output; gzipped if asked."""

from __future__ import annotations

import gzip
import io
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tabgnm._files import FileError
from tabgnm._files.errors import reason
from tabgnm._files.paths import replacing
from tabgnm._files.streams import write_all
from tabgnm.cli.tablefiles.errors import OutputClosedError, TableFileError
from tabgnm.cli.tablefiles.formats import LABELS, STANDARD_STREAM, FileFormat
from tabgnm.cli.tablefiles.input_bytes import shown_name

_BUFFER = 2**20


class OutputBytes(io.RawIOBase):
    """A binary file that is there only when it is complete.

    Parameters
    ----------
    target : str
        A path, or "-" for standard output.
    file_format : FileFormat

    Attributes
    ----------
    name : str
        For messages, quoted; `self.target` is the path.
    """

    def __init__(self, target: str, file_format: FileFormat) -> None:
        super().__init__()
        self.shown = shown_name(target, "standard output")
        self._stack = ExitStack()
        self._n_bytes = 0
        with self._readable_errors():
            if target == STANDARD_STREAM:
                self._file: Any = _standard_output(file_format)
            else:
                self._file = self._stack.enter_context(replacing(Path(target)))
        self._raw = self._file
        if file_format.gzipped:
            self._file = gzip.GzipFile(fileobj=_Writing(self._raw), mode="wb", mtime=0, filename="")

    def writable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._n_bytes

    def write(self, content: Any) -> int:
        """Write all of these bytes."""
        size = memoryview(content).nbytes
        with self._readable_errors():
            write_all(self._file, [bytes(content)])
        self._n_bytes += size
        return size

    def finish(self) -> None:
        """Write what is still to be written, and put the file in its place."""
        with self._readable_errors():
            if self._file is not self._raw:
                self._file.close()
            self._raw.flush()
            self._stack.close()

    def discard(self, error: BaseException) -> None:
        """Delete the file."""
        self._stack.__exit__(type(error), error, error.__traceback__)

    @contextmanager
    def _readable_errors(self) -> Iterator[None]:
        try:
            yield
        except TableFileError:
            raise
        except BrokenPipeError:
            raise OutputClosedError(f"{self.shown} was closed by the program that reads it") from None
        except FileError as error:
            raise TableFileError(str(error)) from None
        except (OSError, ValueError, RuntimeError) as error:
            raise TableFileError(f"{self.shown} cannot be written: {reason(error)}") from None


class _Writing(io.RawIOBase):
    """Lets gzip write all bytes to a file that may take fewer at a time."""

    def __init__(self, file: Any) -> None:
        super().__init__()
        self._file = file

    def write(self, content: Any) -> int:
        write_all(self._file, [bytes(content)])
        return len(content)


def _standard_output(file_format: FileFormat) -> Any:
    if sys.stdout is None or sys.stdout.closed:
        raise TableFileError("standard output is closed; give the name of a file")
    if (file_format.gzipped or not file_format.is_text) and sys.stdout.isatty():
        label = "gzipped" if file_format.gzipped else LABELS[file_format.kind]
        raise TableFileError(f"standard output is a terminal, which cannot show {label} data; redirect it to a file")
    sys.stdout.flush()
    try:
        # Without the buffer of Python, which would be written once more, and fail once more, when the program ends.
        return io.FileIO(os.dup(sys.stdout.fileno()), "wb")
    except (OSError, ValueError):  # not a file of the operating system, as in tests of commands
        return sys.stdout.buffer
