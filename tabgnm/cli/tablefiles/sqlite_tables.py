"""Tables in SQLite databases, read through a cursor."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tabgnm.cli.tablefiles.dialect import refuse_bad_names
from tabgnm.cli.tablefiles.errors import TableFileError, listed, quoted, suggestion
from tabgnm.cli.tablefiles.input_bytes import InputBytes
from tabgnm.cli.tablefiles.object_columns import frame_of

_ROWS_AT_ONCE = 1000


class SqliteTable:
    """A table or view of a database.

    Parameters
    ----------
    source : InputBytes
    table : str or None
        Its name; None if there is only one.

    Attributes
    ----------
    columns : list of str
    """

    def __init__(self, source: InputBytes, table: str | None) -> None:
        self._name = source.name
        path = Path(source.as_path()).resolve()
        with self._readable_errors():
            self._database = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
        try:
            with self._readable_errors():
                self._table = self._chosen(table)
                self._cursor = self._database.execute(f"SELECT * FROM {quoted_name(self._table)}")
            self.columns = [str(own[0]) for own in self._cursor.description]
            refuse_bad_names(self.columns, f"{self._name}, table {quoted(self._table)}")
        except BaseException:
            self._database.close()
            raise

    def _chosen(self, table: str | None) -> str:
        found = self._database.execute(
            "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' "
            "ESCAPE '\\' ORDER BY type, name"
        ).fetchall()
        names = [str(name) for name, _ in found]
        if not names:
            raise TableFileError(f"{self._name} is a database without tables; expected one")
        if table is None:
            tables = [str(name) for name, kind in found if kind == "table"] or names
            if len(tables) > 1:
                raise TableFileError(f"{self._name} has several tables: {listed(tables)}; choose one with --table")
            return tables[0]
        same = [name for name in names if name.lower() == table.lower()]
        if not same:
            raise TableFileError(
                f"{self._name} has no table {quoted(table)}{suggestion(table, names)}; it has {listed(names)}"
            )
        return same[0]

    def frames(self, chunk_rows: int | None) -> Iterator[Any]:
        """Yield frames of at most so many rows; None: one frame of all."""
        n_read = 0
        while True:
            cells: list[list[Any]] = [[] for _ in self.columns]
            n_rows = self._read(cells, chunk_rows, n_read)
            if n_rows == 0:
                break
            n_read += n_rows
            yield frame_of(self.columns, cells)
        if n_read == 0:
            raise TableFileError(f"{self._name}: the table {quoted(self._table)} has no rows; expected at least one")

    def frame(self) -> Any:
        """Return all rows."""
        return next(self.frames(None))

    def _read(self, cells: list[list[Any]], chunk_rows: int | None, n_before: int) -> int:
        n_rows = 0
        while chunk_rows is None or n_rows < chunk_rows:
            wanted = _ROWS_AT_ONCE if chunk_rows is None else min(_ROWS_AT_ONCE, chunk_rows - n_rows)
            with self._readable_errors():
                rows = self._cursor.fetchmany(wanted)
            if not rows:
                break
            for name, column, values in zip(self.columns, cells, zip(*rows, strict=True), strict=True):
                if bytes in set(map(type, values)):
                    row = n_before + n_rows + next(place for place, own in enumerate(values) if isinstance(own, bytes))
                    raise TableFileError(
                        f"{self._name}, table {quoted(self._table)}, row {row + 1:,}: column {quoted(name)} has binary "
                        "data; expected numbers or text: leave the column out, for instance with a view"
                    )
                column.extend(values)
            n_rows += len(rows)
        return n_rows

    @contextmanager
    def _readable_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise TableFileError(
                f"{self._name} cannot be read as an SQLite database ({quoted(str(error), 150)}); check it with "
                "PRAGMA integrity_check, or copy it again"
            ) from None

    def close(self) -> None:
        """Close the database."""
        self._database.close()


def quoted_name(name: str) -> str:
    """Return the name of a table or column as SQL."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
