"""What writes frames in each format to a binary file."""

from __future__ import annotations

import csv
import json
import math
import shutil
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tabgnm._extras import import_extra
from tabgnm.cli.tablefiles.errors import TableFileError, quoted
from tabgnm.cli.tablefiles.formats import Kind
from tabgnm.cli.tablefiles.sqlite_tables import quoted_name

SQLITE_TABLE = "predictions"
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


class FrameWriter(Protocol):
    """Writes frames of the same columns."""

    def write(self, frame: Any) -> None:
        """Write the rows of a frame."""

    def finish(self) -> None:
        """Write what comes after all rows."""

    def discard(self) -> None:
        """Give up; the output takes no more bytes."""


def frame_writer(kind: Kind, file: Any, columns: Sequence[str], name: str) -> FrameWriter:
    """Return what writes frames to a binary file in this format."""
    if kind in ("csv", "tsv"):
        return _Delimited(file, columns, "\t" if kind == "tsv" else ",")
    if kind == "jsonl":
        return _JsonLines(file)
    if kind == "sqlite":
        return _Sqlite(file, columns, name)
    return _Arrow(file, columns, name, kind)


class _Delimited:
    def __init__(self, file: Any, columns: Sequence[str], delimiter: str) -> None:
        self._file, self._columns, self._delimiter = file, list(columns), delimiter
        self._has_header = False

    def write(self, frame: Any) -> None:
        # The header comes with the first rows: an error in them should leave nothing on standard output.
        self._write(frame, header=not self._has_header)
        self._has_header = True

    def _write(self, frame: Any, *, header: bool) -> None:
        def written(quoting: Any) -> str:
            return str(
                frame.to_csv(index=False, header=header, sep=self._delimiter, lineterminator="\n", quoting=quoting)
            )

        text = written(csv.QUOTE_MINIMAL)
        if "\r" in text:  # older versions of Python do not take it for a line end, and do not quote it
            text = written(csv.QUOTE_NONNUMERIC)
        self._file.write(text.encode("utf-8", "surrogateescape"))

    def finish(self) -> None:
        if not self._has_header:
            pd = import_extra("pandas", "cli", "writing tables")
            self._write(pd.DataFrame(columns=self._columns), header=True)

    def discard(self) -> None:
        pass


class _JsonLines:
    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, frame: Any) -> None:
        names = list(map(str, frame.columns))
        columns = [[_finite(cell) for cell in _plain_values(frame[name])] for name in frame.columns]
        rows = zip(*columns, strict=True)
        lines = [f"{_encode(dict(zip(names, cells, strict=True)))}\n" for cells in rows]
        self._file.write("".join(lines).encode("utf-8", "surrogateescape"))

    def finish(self) -> None:
        pass

    def discard(self) -> None:
        pass


class _Arrow:
    """Parquet or Feather; the first frame says what the types of the columns are."""

    def __init__(self, file: Any, columns: Sequence[str], name: str, kind: Kind) -> None:
        self._file, self._columns, self._name, self._kind = file, list(columns), name, kind
        self._pa = import_extra("pyarrow", "cli", "writing tables")
        self._writer: Any = None
        self._schema: Any = None

    def write(self, frame: Any) -> None:
        if self._writer is None:
            self._open(frame)
        arrays = [self._array(frame[field.name], field) for field in self._schema]
        self._writer.write_batch(self._pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def _array(self, column: Any, field: Any) -> Any:
        try:
            return self._pa.Array.from_pandas(column, type=field.type)
        except (self._pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise TableFileError(
                f"{self._name}: column {quoted(field.name)} is {field.type} in the first rows, and later has other "
                f"values ({quoted(str(error), 100)}); write a CSV file instead"
            ) from None

    def _open(self, frame: Any) -> None:
        pa = self._pa
        try:
            found = pa.Schema.from_pandas(frame, preserve_index=False).remove_metadata()
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise TableFileError(
                f"{self._name}: a column has values of several types ({quoted(str(error), 100)}); write a CSV "
                "file instead"
            ) from None
        # A column that has only missing cells so far may have text later.
        fields = [pa.field(own.name, pa.string()) if pa.types.is_null(own.type) else own for own in found]
        self._schema = pa.schema(fields)
        if self._kind == "parquet":
            parquet = import_extra("pyarrow.parquet", "cli", "writing tables")
            self._writer = parquet.ParquetWriter(self._file, self._schema)
        else:
            ipc = import_extra("pyarrow.ipc", "cli", "writing tables")
            self._writer = ipc.new_file(self._file, self._schema)

    def finish(self) -> None:
        if self._writer is None:
            self._open(import_extra("pandas", "cli", "writing tables").DataFrame(columns=self._columns, dtype=object))
        self._writer.close()

    def discard(self) -> None:
        if self._writer is not None:
            with suppress(self._pa.ArrowException, OSError, ValueError):
                self._writer.close()


class _Sqlite:
    """A database with one table, made in a temporary file, as SQLite does not write from beginning to end."""

    def __init__(self, file: Any, columns: Sequence[str], name: str) -> None:
        self._file, self._name = file, name
        self._folder = tempfile.TemporaryDirectory(prefix="tabgnm-table-")
        self._path = Path(self._folder.name) / "table.sqlite"
        self._database = sqlite3.connect(self._path)
        listed = ", ".join(map(quoted_name, columns))
        self._insert = f"INSERT INTO {SQLITE_TABLE} VALUES ({', '.join('?' for _ in columns)})"
        try:
            self._run(lambda: self._database.execute(f"CREATE TABLE {SQLITE_TABLE} ({listed})"))
        except BaseException:
            self.discard()
            raise

    def write(self, frame: Any) -> None:
        columns = [_plain_values(frame[name]) for name in frame.columns]
        self._run(lambda: self._database.executemany(self._insert, zip(*columns, strict=True)))

    def _run(self, action: Any) -> None:
        try:
            action()
        except (sqlite3.Error, OverflowError, UnicodeEncodeError) as error:
            raise TableFileError(f"{self._name} cannot be written: {error}") from None

    def finish(self) -> None:
        self._run(self._database.commit)
        self._database.close()
        with self._path.open("rb") as content:
            shutil.copyfileobj(content, self._file, 2**20)
        self._folder.cleanup()

    def discard(self) -> None:
        self._database.close()
        self._folder.cleanup()


def _plain_values(column: Any) -> list[Any]:
    """Return the cells of a column as None, booleans, numbers or text."""
    missing = column.isna().to_numpy()
    return [None if gone else _plain(cell) for cell, gone in zip(column.tolist(), missing, strict=True)]


def _plain(cell: Any) -> Any:
    if isinstance(cell, bool | int | float | str):
        return cell
    if isinstance(cell, np.generic):
        return cell.item()
    return str(cell)


def _finite(cell: Any) -> Any:
    """Return a cell for JSON, which has no infinity."""
    return str(cell) if isinstance(cell, float) and not math.isfinite(cell) else cell
