"""Tables written to files, frame by frame, completely or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tabgnm._extras import import_extra
from tabgnm.cli.tablefiles.errors import TableFileError, listed
from tabgnm.cli.tablefiles.formats import STANDARD_STREAM, FileFormat, format_of
from tabgnm.cli.tablefiles.input_bytes import shown_name
from tabgnm.cli.tablefiles.output_bytes import OutputBytes
from tabgnm.cli.tablefiles.row_formats import frame_writer

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]


class TableWriter:
    """Writes frames to a file; made by `open_writer`, and a context manager.

    The file is in its place when the context ends without an error, and not there, or as it was, if it ends by one.

    Attributes
    ----------
    columns : list of str
    n_rows : int
        Rows written so far.
    """

    def __init__(self, target: str, columns: Sequence[str], file_format: FileFormat) -> None:
        self.columns = list(columns)
        self.n_rows = 0
        self._bytes = OutputBytes(target, file_format)
        try:
            self._rows = frame_writer(file_format.kind, self._bytes, self.columns, self._bytes.shown)
        except BaseException as error:
            self._bytes.discard(error)
            raise

    def write(self, frame: pd.DataFrame) -> None:
        """Write the rows of a frame, which has to have the columns of the file in their order."""
        if list(frame.columns) != self.columns:
            raise ValueError(
                f"the frame has the columns {listed(list(map(str, frame.columns)))}; expected {listed(self.columns)}"
            )
        if len(frame):
            self._rows.write(frame)
            self.n_rows += len(frame)

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None:
            try:
                self._rows.finish()
                self._bytes.finish()
            except BaseException as failure:
                self._discard(failure)
                raise
        else:
            self._discard(error)

    def _discard(self, error: BaseException) -> None:
        self._bytes.discard(error)
        self._rows.discard()


def output_format_of(target: str, given: str | None) -> FileFormat:
    """Return the format of a file to write; raise `TableFileError` if it is not known, or if this is no file.

    Parameters
    ----------
    target : str
        A file; "-" is standard output.
    given : str or None
        What `--output-format` says.
    """
    if target != STANDARD_STREAM and _is_device(target):
        raise TableFileError(
            f"{shown_name(target)} is a pipe, socket or device, not a file; to write to one, use -o - and redirect "
            "standard output"
        )
    return format_of(target, given, option="--output-format")


def _is_device(target: str) -> bool:
    try:
        mode = Path(target).stat().st_mode
    except (OSError, ValueError, RuntimeError):  # most likely a new file
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def open_writer(
    target: str | os.PathLike[str],
    columns: Sequence[str],
    *,
    format: str | None = None,  # noqa: A002 - the name of the option
) -> TableWriter:
    """Open a file to write a table to it, frame by frame.

    What cannot be written (a folder, a device, a place where one may not write) is refused here, before any work. The
    rows go to a temporary file next to the target, which takes its place at the end; so an existing file is replaced
    by a complete one or not at all.

    Parameters
    ----------
    target : path or str
        A file; "-" is standard output.
    columns : sequence of str
        Names of the columns.
    format : str, default=None
        As for `open_table`.

    Returns
    -------
    TableWriter

    Raises
    ------
    TableFileError
        Here, or while rows are written.
    """
    import_extra("pandas", "cli", "writing tables")
    name = os.fspath(target)
    file_format = output_format_of(name, format)
    if file_format.kind == "sqlite" and name != STANDARD_STREAM and Path(name).exists():
        raise TableFileError(
            f"{shown_name(name)} exists already, and writing would replace all its tables; choose a new name"
        )
    return TableWriter(name, columns, file_format)
