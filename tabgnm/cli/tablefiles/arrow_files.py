"""Tables in Parquet and Feather (Arrow) files, read batch by batch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tabgnm._extras import import_extra
from tabgnm.cli.tablefiles.dialect import refuse_bad_names
from tabgnm.cli.tablefiles.errors import TableFileError, quoted
from tabgnm.cli.tablefiles.formats import LABELS, Kind
from tabgnm.cli.tablefiles.input_bytes import InputBytes

_MAX_CELLS = 2_000_000  # of a frame: tables with very many columns come in fewer rows
_INDEX = re.compile(r"__index_level_\d+__")  # the index of a frame of pandas that has no name
_EXACT = 2**53  # up to here, float64 has every whole number


class ArrowTable:
    """A table whose columns have types of their own.

    Parameters
    ----------
    source : InputBytes
    kind : {"parquet", "feather"}

    Attributes
    ----------
    columns : list of str
    """

    def __init__(self, source: InputBytes, kind: Kind) -> None:
        self._name, self._kind = source.name, kind
        with self._readable_errors():
            self._bytes = import_extra("pyarrow", "cli", "reading tables").OSFile(source.as_path())
            self._file = _opened(self._bytes, source.head, kind)
        schema = _schema(self._file)
        refuse_bad_names(schema.names, self._name)
        self.columns = [name for name in schema.names if not _INDEX.fullmatch(name)]
        if not self.columns:
            raise TableFileError(f"{self._name} has no columns; expected a table")
        for name in self.columns:
            _refuse_nested(schema.field(name), self._name)

    def frames(self, chunk_rows: int) -> Iterator[Any]:
        """Yield frames of at most so many rows."""
        n_rows = max(1, min(chunk_rows, _MAX_CELLS // len(self.columns)))
        found = False
        for batch in self._batches(n_rows):
            for start in range(0, len(batch), n_rows):
                found = True
                yield _frame(batch.slice(start, n_rows))
        if not found:
            raise TableFileError(f"{self._name} has no rows; expected at least one")

    def frame(self) -> Any:
        """Return all rows."""
        pa = import_extra("pyarrow", "cli", "reading tables")
        table = pa.concat_tables(self._batches(2**20))
        if len(table) == 0:
            raise TableFileError(f"{self._name} has no rows; expected at least one")
        return _frame(table)

    def _batches(self, n_rows: int) -> Iterator[Any]:
        pa = import_extra("pyarrow", "cli", "reading tables")
        with self._readable_errors():
            if self._kind == "parquet":
                batches = self._file.iter_batches(batch_size=n_rows, columns=self.columns)
            elif hasattr(self._file, "num_record_batches"):
                batches = (self._file.get_batch(place) for place in range(self._file.num_record_batches))
            else:
                batches = iter(self._file)
            schema = None
            for batch in batches:
                table = pa.Table.from_batches([batch]).select(self.columns).replace_schema_metadata(None)
                schema = table.schema
                yield table
            if schema is None:
                yield _schema(self._file).empty_table().select(self.columns).replace_schema_metadata(None)

    @contextmanager
    def _readable_errors(self) -> Iterator[None]:
        pa = import_extra("pyarrow", "cli", "reading tables")
        try:
            yield
        except TableFileError:
            raise
        except (pa.ArrowException, OSError, ValueError, EOFError) as error:
            raise TableFileError(
                f"{self._name} is a damaged or truncated {LABELS[self._kind]} file "
                f"({quoted(str(error), 150)}); copy or write it again"
            ) from None

    def close(self) -> None:
        """Close the file."""
        self._bytes.close()


def _opened(file: Any, head: bytes, kind: Kind) -> Any:
    if kind == "parquet":
        # What is buffered ahead is kept until the file is closed: all of it in the end.
        return import_extra("pyarrow.parquet", "cli", "reading tables").ParquetFile(file, pre_buffer=False)
    ipc = import_extra("pyarrow.ipc", "cli", "reading tables")
    return ipc.open_file(file) if head.startswith(b"ARROW1") else ipc.open_stream(file)


def _schema(file: Any) -> Any:
    return file.schema_arrow if hasattr(file, "schema_arrow") else file.schema


def _refuse_nested(field: Any, name: str) -> None:
    types = import_extra("pyarrow.types", "cli", "reading tables")
    own = field.type
    if types.is_nested(own) or types.is_binary(own) or types.is_large_binary(own) or types.is_fixed_size_binary(own):
        raise TableFileError(
            f"{name}: column {quoted(field.name)} is of type {quoted(str(own))}; expected numbers, text, booleans or "
            "dates: spread it over several columns or leave it out"
        )


def _frame(table: Any) -> Any:
    """Return a frame; whole numbers beside missing cells stay whole where floats could not hold them."""
    pa, pc = import_extra("pyarrow", "cli", "reading tables"), import_extra("pyarrow.compute", "cli", "reading tables")
    exact = []
    for place, field in enumerate(table.schema):
        column = table.column(place)
        if pa.types.is_integer(field.type) and column.null_count:
            bounds = pc.min_max(column).as_py()
            if bounds["min"] is not None and max(-bounds["min"], bounds["max"]) > _EXACT:
                exact.append(field.name)
    frame = table.to_pandas()
    for name in exact:
        frame[name] = table.column(name).to_pandas(integer_object_nulls=True)
    return frame
