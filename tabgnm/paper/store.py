"""Results that survive: one row per training in an SQLite file, and claims, so that processes share the work.

A fleet's rows are written in one transaction, so a process that is killed loses the fleet in flight and nothing else.
Several processes may work on one store: each claims a fleet before it trains it, and keeps the claim alive. A claim
whose process is gone, or that was not renewed for a while, can be taken over.
"""

from __future__ import annotations

import os
import socket
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from tabgnm.paper.work import Result

SCHEMA_VERSION = 1
CLAIM_SECONDS = 120.0  # a claim that was not renewed for so long is nobody's
RENEW_SECONDS = 20.0
_WAIT_SECONDS = 60.0  # for another process that is writing

_COLUMNS = [field.name for field in fields(Result)]
_TYPES = {"int": "INTEGER", "float": "REAL", "float | None": "REAL", "str": "TEXT"}


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
                self.path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._prepare()

    def _prepare(self) -> None:
        connection = self._connection
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found > SCHEMA_VERSION:
            raise StoreError(
                f"the store {str(self.path)!r} was written by a newer tabgnm (version {found} of its layout, this one "
                f"knows {SCHEMA_VERSION}); use that one, or another file"
            )
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables and not {"results", "claims"} <= tables:
            raise StoreError(f"{str(self.path)!r} is an SQLite file, but no store of results; use another file")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        if not tables:
            columns = ", ".join(
                f"{field.name} {_TYPES[str(field.type)]}{' PRIMARY KEY' if field.name == 'key' else ''}"
                for field in fields(Result)
            )
            with self._transaction():
                connection.execute(f"CREATE TABLE IF NOT EXISTS results ({columns}) WITHOUT ROWID")
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS claims (unit TEXT PRIMARY KEY, owner TEXT NOT NULL, renewed REAL NOT NULL)"
                )
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> ResultStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Results

    def add(self, results: Sequence[Result]) -> None:
        """Write the results of a fleet: all of them or, if something fails, none."""
        places = ", ".join("?" for _ in _COLUMNS)
        rows = [tuple(getattr(result, name) for name in _COLUMNS) for result in results]
        with self._explained(), self._transaction():
            self._connection.executemany(
                f"INSERT OR IGNORE INTO results ({', '.join(_COLUMNS)}) VALUES ({places})", rows
            )

    def done(self, keys: Sequence[str]) -> set[str]:
        """Which of these results are there."""
        found: set[str] = set()
        with self._explained(), self._lock:
            for first in range(0, len(keys), 500):  # SQLite allows only so many values in a statement
                some = list(keys[first : first + 500])
                places = ", ".join("?" for _ in some)
                query = f"SELECT key FROM results WHERE key IN ({places})"
                found.update(row[0] for row in self._connection.execute(query, some))
        return found

    def results(self, **conditions: Any) -> list[Result]:
        """All results with these values, ordered by what they are."""
        unknown = sorted(set(conditions) - set(_COLUMNS))
        if unknown:
            raise ValueError(f"results have no {unknown}; expected some of {_COLUMNS}")
        where = " AND ".join(f"{name} = ?" for name in conditions)
        order = "dataset, variant, scaling, model, width, n_layers, dropout, learning_rate, fold"
        query = f"SELECT {', '.join(_COLUMNS)} FROM results {'WHERE ' + where if where else ''} ORDER BY {order}"
        with self._explained(), self._lock:
            return [Result(*row) for row in self._connection.execute(query, list(conditions.values()))]

    # Claims

    def claim(self, unit: str) -> bool:
        """Try to make a unit of work this process's own; False if another one has it."""
        with self._explained(), self._transaction():
            row = self._connection.execute("SELECT owner, renewed FROM claims WHERE unit = ?", (unit,)).fetchone()
            if row is not None and row[0] != self.owner and not _abandoned(*row):
                return False
            self._connection.execute(
                "INSERT OR REPLACE INTO claims (unit, owner, renewed) VALUES (?, ?, ?)", (unit, self.owner, time.time())
            )
        return True

    def release(self, unit: str) -> None:
        """Give a unit back, done or not."""
        with self._explained(), self._lock:
            self._connection.execute("DELETE FROM claims WHERE unit = ? AND owner = ?", (unit, self.owner))

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
                try:
                    self.renew()
                except sqlite3.Error:  # the next turn, or the next write, will show whether it lasts
                    continue

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
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

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
        return f"another process has kept the store {name} locked for {_WAIT_SECONDS:.0f} s; end it and try again"
    if "malformed" in error or "not a database" in error:
        return f"the store {name} is damaged or no SQLite file; move it away, or recover it with `sqlite3 FILE .recover`"
    return f"the store {name} cannot be used"


def _abandoned(owner: str, renewed: float) -> bool:
    """Whether a claim's process is gone: not renewed for long, or known to be dead on this machine."""
    if time.time() - renewed > CLAIM_SECONDS:
        return True
    host, pid, _ = owner.rsplit(":", 2)
    if host != socket.gethostname():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
