"""Results that survive: one row per training in an SQLite file, and claims, so that processes share the work.

A fleet's rows are written in one transaction, so a process that is killed loses the fleet in flight and nothing else.
Several processes may work on one store: each claims a fleet before it trains it, and keeps the claim alive. A claim
whose process is gone, or that was not renewed for a while, can be taken over.

Every row has a checksum, which is looked at whenever the row is read: numbers that changed on a disk are not believed.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shlex
import shutil
import socket
import sqlite3
import tempfile
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tabgnm.paper.work import Result

SCHEMA_VERSION = 2
CLAIM_SECONDS = 120.0  # a claim that was not renewed for so long is nobody's
RENEW_SECONDS = 20.0
WAIT_SECONDS = 1.0  # before looking again whether other processes have done what they claimed
_COPIES = 100  # attempts to copy a store that another process writes to
_LOCK_SECONDS = 60.0  # to wait for another process that is writing

_TABLES = {"results", "records", "claims"}
_COLUMNS = [field.name for field in fields(Result)]
_TYPES = {"int": "INTEGER", "float": "REAL", "float | None": "REAL", "str": "TEXT"}
_OUTCOME = ("best_epoch", "status", "val_loss", "metric1", "metric2")  # what two trainings of one key should agree in


def _order(result: Result) -> tuple[Any, ...]:
    """By what a result is, so that tables do not depend on when it was made."""
    return tuple(getattr(result, field.name) for field in fields(Result)[1:11])


class StoreError(RuntimeError):
    """The results store cannot be used; the message says why and what to do."""


@dataclass(frozen=True)
class Merged:
    """What became of the results (and records) of another store: new here, the same here, or another value here."""

    n_new: int
    n_same: int
    n_different: int


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
        self._open(Path(path), Path(path))

    @classmethod
    @contextmanager
    def snapshot(cls, path: str | os.PathLike[str]) -> Iterator[ResultStore]:
        """Open a copy of a store: the file itself may be read-only, and nothing is written to it or beside it."""
        with tempfile.TemporaryDirectory(prefix="tabgnm-") as folder:
            copy = _copied(Path(path), Path(folder))
            store = cls.__new__(cls)
            store._open(copy, Path(path))
            with store:
                yield store

    def _open(self, file: Path, path: Path) -> None:
        """Open a file, which is the store of that path or a copy of it: messages name the path."""
        self.path = path
        if not self.path.parent.is_dir():
            raise StoreError(f"the folder of the store {str(self.path)!r} does not exist; create it first")
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._lock = threading.RLock()  # the thread that renews claims uses the same connection
        with self._explained():
            # Autocommit: transactions are begun and ended by hand, where they are needed.
            self._connection = sqlite3.connect(
                file, timeout=_LOCK_SECONDS, isolation_level=None, check_same_thread=False
            )
            # Damaged text is found by its checksum, like damaged numbers.
            self._connection.text_factory = lambda raw: raw.decode(errors="backslashreplace")
            try:
                self._prepare(may_be_new=file == path)
            except BaseException:
                self._connection.close()
                raise

    def _prepare(self, *, may_be_new: bool) -> None:
        connection = self._connection
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        # After the tables: a process that makes the store just now writes both at once.
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found > SCHEMA_VERSION:
            raise StoreError(
                f"the store {str(self.path)!r} was written by a newer tabgnm (version {found} of its layout, this one "
                f"knows {SCHEMA_VERSION}); use that one, or another file"
            )
        if tables and not tables >= _TABLES:
            raise StoreError(f"{str(self.path)!r} is an SQLite file, but no store of results; use another file")
        if not tables and not may_be_new:
            raise StoreError(f"{str(self.path)!r} is empty, and no store of results; use another file")
        if tables and found < SCHEMA_VERSION:
            raise StoreError(
                f"the store {str(self.path)!r} was written by an older tabgnm (version {found} of its layout, this one "
                f"knows {SCHEMA_VERSION}) and was left as it is; use that one, or another file"
            )
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
                connection.execute(f"CREATE TABLE IF NOT EXISTS results ({columns}, checksum TEXT) WITHOUT ROWID")
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS records (key TEXT PRIMARY KEY, content TEXT, checksum TEXT)"
                )
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
        rows = [_row(result) for result in results]
        places = ", ".join("?" for _ in (*_COLUMNS, "checksum"))
        with self._explained(), self._transaction():
            self._connection.executemany(f"INSERT OR IGNORE INTO results VALUES ({places})", rows)
            self._connection.executemany("DELETE FROM claims WHERE key = ?", [(result.key,) for result in results])

    def results(self, keys: Iterable[str] | None = None) -> list[Result]:
        """Those with these keys that are there, or all; ordered by what they are."""
        with self._explained(), self._lock:
            if keys is None:
                rows = self._connection.execute("SELECT * FROM results").fetchall()
            else:
                rows = self._rows_of("SELECT * FROM results WHERE key IN", list(keys))
        self._refuse_damaged(rows)
        return sorted((Result(*row[:-1]) for row in rows), key=_order)

    def done(self, keys: Iterable[str]) -> set[str]:
        """Which of these results are there."""
        return {result.key for result in self.results(keys)}

    def _refuse_damaged(self, rows: Sequence[tuple[Any, ...]]) -> None:
        damaged = [row for row in rows if not _fits(row)]
        if not damaged:
            return
        named = [" ".join(map(str, row[1:-1]))[:60] + f" (key {str(row[0])[:12]})" for row in damaged[:3]]
        program = f"from tabgnm.paper import ResultStore; ResultStore({str(self.path)!r}).remove_damaged()"
        raise StoreError(
            f"{len(damaged):,} of {len(rows):,} rows read from the store {str(self.path)!r} are damaged, as their "
            f"checksums do not fit: {'; '.join(named)}{'; ...' if len(damaged) > len(named) else ''}. Remove them, and "
            f"the same command trains them again: {shlex.join(['python', '-c', program])}"
        )

    def remove_damaged(self) -> int:
        """Delete the rows whose checksums do not fit, so that they are trained again; gives how many."""
        n_removed = 0
        with self._explained(), self._transaction():
            for table in ("results", "records"):
                # Keys as bytes: one that is damaged need not be text any more.
                rows = self._connection.execute(f"SELECT CAST(key AS BLOB), * FROM {table}").fetchall()
                damaged = [(row[0],) for row in rows if not _fits(row[1:])]
                self._connection.executemany(f"DELETE FROM {table} WHERE CAST(key AS BLOB) = ?", damaged)
                n_removed += len(damaged)
        return n_removed

    def _rows_of(self, query: str, keys: list[str]) -> list[Any]:
        rows: list[Any] = []
        for first in range(0, len(keys), 500):  # SQLite allows only so many values in a statement
            some = keys[first : first + 500]
            rows += self._connection.execute(f"{query} ({', '.join('?' for _ in some)})", some).fetchall()
        return rows

    def merge(self, path: str | os.PathLike[str]) -> Merged:
        """Take over what another store has and this one has not; of two values for one key, the one here stays."""
        with ResultStore.snapshot(path) as other:
            results, records = other.results(), other._records()
        known: dict[str, Any] = {own.key: _outcome(own) for own in self.results(result.key for result in results)}
        theirs: dict[str, Any] = {result.key: _outcome(result) for result in results}
        known_records = self._records()
        known |= {key: known_records[key] for key in records if key in known_records}
        theirs |= records
        self.add([result for result in results if result.key not in known])
        for key, content in records.items():
            self.keep(key, json.loads(content))
        n_same = sum(theirs[key] == own for key, own in known.items())
        return Merged(len(theirs) - len(known), n_same, len(known) - n_same)

    # Records: results of another form than a row, such as the losses of all epochs

    def record(self, key: str) -> Any:
        """Return what was kept under a key, or None."""
        with self._explained(), self._lock:
            rows = self._connection.execute("SELECT * FROM records WHERE key = ?", (key,)).fetchall()
        self._refuse_damaged(rows)
        return json.loads(rows[0][1]) if rows else None

    def keep(self, key: str, content: Any) -> None:
        """Keep something that JSON can write, and give up its claim."""
        values = (key, json.dumps(content))
        with self._explained(), self._transaction():
            self._connection.execute("INSERT OR IGNORE INTO records VALUES (?, ?, ?)", (*values, _checksum(values)))
            self._connection.execute("DELETE FROM claims WHERE key = ?", (key,))

    def _records(self) -> dict[str, str]:
        with self._explained(), self._lock:
            rows = self._connection.execute("SELECT * FROM records").fetchall()
        self._refuse_damaged(rows)
        return {row[0]: row[1] for row in rows}

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


def _row(result: Result) -> tuple[Any, ...]:
    """The values as SQLite will give them back, and their checksum."""
    values = []
    for field in fields(Result):
        value = getattr(result, field.name)
        if _TYPES[str(field.type)] == "REAL" and value is not None:
            value = None if math.isnan(value) else float(value)
        values.append(value)
    return (*values, _checksum(values))


def _outcome(result: Result) -> tuple[Any, ...]:
    return tuple(getattr(result, name) for name in _OUTCOME)


def _checksum(values: Sequence[Any]) -> str:
    return hashlib.sha256(repr(tuple(values)).encode(errors="backslashreplace")).hexdigest()[:16]


def _fits(row: Sequence[Any]) -> bool:
    return bool(_checksum(row[:-1]) == row[-1])


def _copied(path: Path, folder: Path) -> Path:
    """Copy a store with what is not yet in its main file; again, if it was written to meanwhile."""
    file = path.resolve()  # SQLite keeps the rest beside the file, not beside a link to it
    names = [file, file.with_name(f"{file.name}-wal")]

    def state() -> list[tuple[int, int]]:
        return [(own.stat().st_mtime_ns, own.stat().st_size) for own in names if own.exists()]

    if not path.is_file():
        raise StoreError(f"there is no store {str(path)!r}; check the name")
    for _ in range(_COPIES):
        before = state()
        for own in names:
            (folder / own.name).unlink(missing_ok=True)
            if own.exists():
                shutil.copyfile(own, folder / own.name)
        if state() == before:
            return folder / file.name
    raise StoreError(f"the store {str(path)!r} is written to without a pause; wait until that process is done")


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
