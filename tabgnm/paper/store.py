"""Results that survive: one row per training in an SQLite file, and claims, so that processes share the work.

A fleet's rows are written in one transaction, so a process that is killed loses the fleet in flight and nothing else.
Several processes may work on one store: each claims a fleet before it trains it, and keeps the claim alive. A claim
whose process is gone, or that was not renewed for a while, can be taken over.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from tabgnm.paper.work import Result

SCHEMA_VERSION = 1
CLAIM_SECONDS = 120.0  # a claim that was not renewed for so long is nobody's
RENEW_SECONDS = 20.0
WAIT_SECONDS = 1.0  # before looking again whether other processes have done what they claimed
_LOCK_SECONDS = 60.0  # to wait for another process that is writing

_TABLES = {"results", "records", "claims"}
_COLUMNS = [field.name for field in fields(Result)]
_TYPES = {"int": "INTEGER", "float": "REAL", "float | None": "REAL", "str": "TEXT"}


def _order(result: Result) -> tuple[Any, ...]:
    """By what a result is, so that tables do not depend on when it was made."""
    return tuple(getattr(result, field.name) for field in fields(Result)[1:11])


class StoreError(RuntimeError):
    """The results store cannot be used; the message says why and what to do."""


class ResultStore:
    """An SQLite file of results.

    Parameters
    ----------
    path : path-like
        Created if it is not there; its folder must exist.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = ResultStore(Path(folder.name) / "results.sqlite")
    >>> len(store.results())
    0
    >>> store.close()
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not self.path.parent.is_dir():
            raise StoreError(f"the folder of the store {str(self.path)!r} does not exist; create it first")
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._lock = threading.RLock()  # the thread that renews claims uses the same connection
        with self._explained():
            # Autocommit: transactions are begun and ended by hand, where they are needed.
            self._connection = sqlite3.connect(
                self.path, timeout=_LOCK_SECONDS, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise

    def _prepare(self) -> None:
        connection = self._connection
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found > SCHEMA_VERSION:
            raise StoreError(
                f"the store {str(self.path)!r} was written by a newer tabgnm (version {found} of its layout, this one "
                f"knows {SCHEMA_VERSION}); use that one, or another file"
            )
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables and not tables >= _TABLES:
            raise StoreError(f"{str(self.path)!r} is an SQLite file, but no store of results; use another file")
        # Better now than after hours of training: what is damaged is not written to.
        verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise sqlite3.DatabaseError(f"malformed: {verdict}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        if not tables:
            columns = ", ".join(
                f"{field.name} {_TYPES[str(field.type)]}{' PRIMARY KEY' if field.name == 'key' else ''}"
                for field in fields(Result)
            )
            with self._transaction():
                connection.execute(f"CREATE TABLE IF NOT EXISTS results ({columns}) WITHOUT ROWID")
                connection.execute("CREATE TABLE IF NOT EXISTS records (key TEXT PRIMARY KEY, content TEXT)")
                connection.execute("CREATE TABLE IF NOT EXISTS claims (key TEXT PRIMARY KEY, owner TEXT, renewed REAL)")
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> ResultStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Results

    def add(self, results: Sequence[Result]) -> None:
        """Write the results of a fleet, and give up its claims: all of it or, if something fails, nothing."""
        places = ", ".join("?" for _ in _COLUMNS)
        rows = [tuple(getattr(result, name) for name in _COLUMNS) for result in results]
        with self._explained(), self._transaction():
            self._connection.executemany(
                f"INSERT OR IGNORE INTO results ({', '.join(_COLUMNS)}) VALUES ({places})", rows
            )
            self._connection.executemany("DELETE FROM claims WHERE key = ?", [(result.key,) for result in results])

    def results(self, keys: Iterable[str] | None = None) -> list[Result]:
        """Those with these keys that are there, or all; ordered by what they are."""
        names = ", ".join(_COLUMNS)
        with self._explained(), self._lock:
            if keys is None:
                rows = self._connection.execute(f"SELECT {names} FROM results").fetchall()
            else:
                rows = self._rows_of(f"SELECT {names} FROM results WHERE key IN", list(keys))
        return sorted((Result(*row) for row in rows), key=_order)

    def done(self, keys: Iterable[str]) -> set[str]:
        """Which of these results are there."""
        with self._explained(), self._lock:
            return {row[0] for row in self._rows_of("SELECT key FROM results WHERE key IN", list(keys))}

    def _rows_of(self, query: str, keys: list[str]) -> list[Any]:
        rows: list[Any] = []
        for first in range(0, len(keys), 500):  # SQLite allows only so many values in a statement
            some = keys[first : first + 500]
            rows += self._connection.execute(f"{query} ({', '.join('?' for _ in some)})", some).fetchall()
        return rows

    def merge(self, path: str | os.PathLike[str]) -> int:
        """Take over all results and records of another store; gives how many results are new."""
        with ResultStore(path) as other:
            rows = other.results()
            with other._explained(), other._lock:
                records = other._connection.execute("SELECT key, content FROM records").fetchall()
        new = len(rows) - len(self.done(result.key for result in rows))
        self.add(rows)
        with self._explained(), self._transaction():
            self._connection.executemany("INSERT OR IGNORE INTO records VALUES (?, ?)", records)
        return new

    # Records: results of another form than a row, such as the losses of all epochs

    def record(self, key: str) -> Any:
        """Return what was kept under a key, or None."""
        with self._explained(), self._lock:
            row = self._connection.execute("SELECT content FROM records WHERE key = ?", (key,)).fetchone()
        return None if row is None else json.loads(row[0])

    def keep(self, key: str, content: Any) -> None:
        """Keep something that JSON can write, and give up its claim."""
        with self._explained(), self._transaction():
            self._connection.execute("INSERT OR IGNORE INTO records VALUES (?, ?)", (key, json.dumps(content)))
            self._connection.execute("DELETE FROM claims WHERE key = ?", (key,))

    # Claims

    def claim(self, keys: Sequence[str]) -> set[str]:
        """Make work this process's own; gives the keys that are neither done nor another living process's."""
        with self._explained(), self._transaction():
            taken = {
                row[0]
                for table in ("results", "records")
                for row in self._rows_of(f"SELECT key FROM {table} WHERE key IN", list(keys))
            }
            claims = self._rows_of("SELECT key, owner, renewed FROM claims WHERE key IN", list(keys))
            taken |= {key for key, owner, renewed in claims if owner != self.owner and not _abandoned(owner, renewed)}
            free = set(keys) - taken
            now = time.time()
            self._connection.executemany(
                "INSERT OR REPLACE INTO claims VALUES (?, ?, ?)", [(key, self.owner, now) for key in sorted(free)]
            )
        return free

    def release(self) -> None:
        """Give back all that this process claimed and has not done."""
        with self._explained(), self._lock:
            self._connection.execute("DELETE FROM claims WHERE owner = ?", (self.owner,))

    def renew(self) -> None:
        """Say that this process is still at work on what it claimed."""
        with self._lock:
            self._connection.execute("UPDATE claims SET renewed = ? WHERE owner = ?", (time.time(), self.owner))

    @contextmanager
    def renewing(self) -> Iterator[None]:
        """Renew all claims of this process in the background."""
        ended = threading.Event()

        def renew() -> None:
            while not ended.wait(RENEW_SECONDS):
                with suppress(sqlite3.Error):  # the next turn, or the next write, will show whether it lasts
                    self.renew()

        thread = threading.Thread(target=renew, daemon=True, name="tabgnm-claims")
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    # SQLite

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            # Taken for writing at once: two readers that both want to write later would wait for each other.
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    with suppress(sqlite3.Error):  # the first error is the one to tell
                        self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"{_explanation(str(error), self.path)} (SQLite says: {error})") from error


def _explanation(error: str, path: Path) -> str:
    name = repr(str(path))
    if "readonly" in error or "read-only" in error:
        return f"the store {name} cannot be written; check the rights of the file and of its folder"
    if "unable to open" in error:
        return f"the store {name} cannot be opened; check the rights of its folder, and that it is no folder itself"
    if "full" in error or "disk I/O" in error:
        return f"the disk of the store {name} is full or fails; what was stored is still there: make room and go on"
    if "locked" in error or "busy" in error:
        return f"another process has kept the store {name} locked for {_LOCK_SECONDS:.0f} s; end it and try again"
    if "malformed" in error or "not a database" in error:
        return (
            f"the store {name} is damaged or no SQLite file, and was left as it is; move it away and start a new one, "
            "or recover its rows with `sqlite3 FILE .recover`"
        )
    return f"the store {name} cannot be used"


def _abandoned(owner: str, renewed: float) -> bool:
    """Whether a claim's process is gone: not renewed for long, or known to be dead on this machine."""
    if time.time() - renewed > CLAIM_SECONDS:
        return True
    host, pid, _ = owner.rsplit(":", 2)
    if host != socket.gethostname() or os.name == "nt":  # asking for a process is not possible on Windows
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
