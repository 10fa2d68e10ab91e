"""The SQLite file of a results store: its tables, opening and checking it, and explanations of SQLite's errors."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from tabgnm._printable import printable
from tabgnm.paper.work import Result

SCHEMA_VERSION = 2
COLUMN_TYPES = {"int": "INTEGER", "float": "REAL", "float | None": "REAL", "str": "TEXT"}
_COLUMNS = ", ".join(
    f"{field.name} {COLUMN_TYPES[str(field.type)]}{' PRIMARY KEY' if field.name == 'key' else ''}"
    for field in fields(Result)
)
_TABLES = {
    "results": f"({_COLUMNS}, checksum TEXT) WITHOUT ROWID",
    "records": "(key TEXT PRIMARY KEY, content TEXT, checksum TEXT)",
    "claims": "(key TEXT PRIMARY KEY, owner TEXT, renewed REAL)",
}
_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_stat%'"
_COPIES = 100  # attempts to copy a store that another process writes to
_LOCK_SECONDS = 60.0  # how long to wait for another process that is writing
_KEYS_AT_ONCE = 500  # SQLite limits the number of values in a statement


class StoreError(RuntimeError):
    """The results store cannot be used; the message names the reason and the remedy."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))  # a damaged store may contain anything


class StoreFile:
    """An open store. One thread at a time uses it, and all errors of SQLite become `StoreError`.

    Parameters
    ----------
    file : pathlib.Path
        The file to open. It is created if it does not exist, unless it is a copy.
    path : pathlib.Path, optional
        If the file is a copy, the original store, which messages name.
    """

    def __init__(self, file: Path, path: Path | None = None) -> None:
        self.path = file if path is None else path
        if not self.path.parent.is_dir():
            raise StoreError(f"the folder of the store {str(self.path)!r} does not exist; create it first")
        self._lock = threading.RLock()  # the thread that renews claims uses the same connection
        with self._explained():
            # Autocommit: transactions are begun and ended explicitly where they are needed.
            self._connection = sqlite3.connect(
                file, timeout=_LOCK_SECONDS, isolation_level=None, check_same_thread=False
            )
            # Damaged text is detected by its checksum, like damaged numbers.
            self._connection.text_factory = lambda raw: raw.decode(errors="backslashreplace")
            try:
                self._prepare(may_be_new=path is None)
            except BaseException:
                self._connection.close()
                raise

    def _prepare(self, *, may_be_new: bool) -> None:
        connection, name = self._connection, repr(str(self.path))
        connection.execute("PRAGMA trusted_schema = OFF")
        schema = set(connection.execute(_SCHEMA))
        tables = {row[1] for row in schema if row[0] == "table"}
        # Read after the tables: a process that is creating the store writes both at once.
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found > SCHEMA_VERSION:
            raise StoreError(
                f"the store {name} was written by a newer tabgnm (layout version {found}; this version reads "
                f"{SCHEMA_VERSION}); use the newer tabgnm, or another file"
            )
        if schema and not tables >= set(_TABLES):
            raise StoreError(f"{name} is an SQLite file, but not a store of results; use another file")
        if not schema and not may_be_new:
            raise StoreError(f"{name} is empty, so it is not a store of results; use another file")
        if schema and found < SCHEMA_VERSION:
            raise StoreError(
                f"the store {name} was written by an older tabgnm (layout version {found}; this version reads "
                f"{SCHEMA_VERSION}) and was not changed; use the older tabgnm, or another file"
            )
        if schema and schema != _expected_schema():
            raise sqlite3.DatabaseError("malformed: its tables are not those that tabgnm creates")
        # Refuse a damaged store now, rather than after hours of training.
        self._require_sound("quick_check")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        if not schema:
            with self.transaction():
                _create_tables(connection)
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        else:
            self._mend_indexes()

    def _require_sound(self, check: str) -> None:
        verdict = self._connection.execute(f"PRAGMA {check}(1)").fetchone()[0]
        if verdict != "ok":
            raise sqlite3.DatabaseError(f"malformed: {verdict}")

    def _mend_indexes(self) -> None:
        """Rebuild indexes that do not match their tables from the tables, whose rows have their own checksums."""
        try:
            self._require_sound("integrity_check")
        except sqlite3.DatabaseError:
            try:
                with self.transaction():
                    self._connection.execute("REINDEX")
            except StoreError as error:  # two rows have the same key
                raise sqlite3.DatabaseError(f"malformed: {error.__cause__}") from error
            self._require_sound("integrity_check")

    def close(self) -> None:
        """Close the file."""
        with self._explained(), self._lock:
            self._connection.close()

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """Execute a statement and return all its rows."""
        with self._explained(), self._lock:
            return self._connection.execute(statement, values).fetchall()

    def rows_of(self, statement: str, keys: Sequence[str]) -> list[Any]:
        """Return the rows of a statement that ends in "WHERE key IN", for these keys."""
        found: list[Any] = []
        for first in range(0, len(keys), _KEYS_AT_ONCE):
            some = keys[first : first + _KEYS_AT_ONCE]
            found += self.rows(f"{statement} ({', '.join('?' for _ in some)})", some)
        return found

    def execute_many(self, statement: str, values: Sequence[Sequence[Any]]) -> None:
        """Execute a statement for each of these values."""
        with self._explained(), self._lock:
            self._connection.executemany(statement, values)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Execute several statements as one change: if one of them fails, nothing is changed."""
        with self._explained(), self._lock:
            # Locked for writing from the start: two readers that want to write later would wait for each other.
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    with suppress(sqlite3.Error):  # report the first error
                        self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise StoreError(f"{_explanation(str(error), self.path)} (SQLite: {error})") from error
        except UnicodeDecodeError as error:  # Python cannot decode an error message that quotes a damaged schema
            raise StoreError(f"{_explanation('malformed', self.path)} (its schema is not text)") from error


def _create_tables(connection: sqlite3.Connection) -> None:
    for table, columns in _TABLES.items():
        connection.execute(f"CREATE TABLE IF NOT EXISTS {table} {columns}")


def _expected_schema() -> set[Any]:
    """Return the schema of a newly created store, as SQLite describes it."""
    connection = sqlite3.connect(":memory:")
    try:
        _create_tables(connection)
        return set(connection.execute(_SCHEMA))
    finally:
        connection.close()


def copy_store(path: Path, folder: Path) -> Path:
    """Copy a store, including its write-ahead log; repeat this if another process wrote to it meanwhile."""
    if not path.is_file():
        raise StoreError(f"there is no store {str(path)!r}; check the name")
    file = path.resolve()  # the write-ahead log is next to the file, not next to a link to it
    names = [file, file.with_name(f"{file.name}-wal")]
    try:
        for _ in range(_COPIES):
            before = [_state(own) for own in names]
            for own, state in zip(names, before, strict=True):
                (folder / own.name).unlink(missing_ok=True)
                if state is not None:
                    with suppress(FileNotFoundError):  # deleted meanwhile, so the states differ
                        shutil.copyfile(own, folder / own.name)
            if [_state(own) for own in names] == before:
                return folder / file.name
    except OSError as error:
        raise StoreError(
            f"the store {str(path)!r} cannot be copied to a temporary folder ({error}); check its permissions and the "
            "free space of the temporary folder"
        ) from error
    raise StoreError(f"the store {str(path)!r} is constantly being written to; wait until that process is done")


def _state(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size


def _explanation(error: str, path: Path) -> str:
    name = repr(str(path))
    if "malformed" in error or "not a database" in error:
        return (
            f"the store {name} is damaged or not an SQLite file, and was not changed; move it away and start a new "
            "one, or recover its rows with `sqlite3 FILE .recover`"
        )
    if "readonly" in error or "read-only" in error:
        return f"the store {name} cannot be written; check the permissions of the file and of its folder"
    if "unable to open" in error:
        return f"the store {name} cannot be opened; check the permissions of its folder, and that it is not a folder"
    if "full" in error or "disk I/O" in error:
        return f"the disk of the store {name} is full or failing; stored results are kept: free some space and continue"
    if "locked" in error or "busy" in error:
        return f"another process has kept the store {name} locked for {_LOCK_SECONDS:.0f} s; end it and try again"
    return f"the store {name} cannot be used"
