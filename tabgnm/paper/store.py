"""The store of results: one row per training in an SQLite file that processes can share.

The rows of a fleet are written in one transaction, so a process that is killed loses only the fleet being trained.
Several processes may work on one store: each claims a fleet before it trains it (`tabgnm.paper.claims`).

Every row has a checksum, which is verified whenever the row is read, so numbers that changed on disk are detected.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shlex
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tabgnm._printable import brief
from tabgnm.paper.claims import Claims, is_claim
from tabgnm.paper.store_file import COLUMN_TYPES, StoreError, StoreFile, copy_store
from tabgnm.paper.work import Result

_PYTHON_TYPES = {"int": (int,), "float": (float,), "float | None": (float, type(None)), "str": (str,)}
_OUTCOME = ("best_epoch", "status", "val_loss", "metric1", "metric2")  # equal keys should have equal outcomes
_N_COLUMNS = len(fields(Result)) + 1  # and the checksum


def _order(result: Result) -> tuple[Any, ...]:
    """Return the sort key of a result, which does not depend on when the result was computed."""
    return tuple(getattr(result, field.name) for field in fields(Result)[1:11])


@dataclass(frozen=True)
class Merged:
    """How many results and records of a merged store were new, equal to those here, or different from them."""

    n_new: int
    n_same: int
    n_different: int


class ResultStore:
    """An SQLite file of results.

    Parameters
    ----------
    path : path-like
        The path of the file. It is created if it does not exist; its folder must exist.

    Attributes
    ----------
    claims : tabgnm.paper.claims.Claims
        The work that this process and others have claimed.

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
        self._use(StoreFile(Path(path)))

    @classmethod
    @contextmanager
    def snapshot(cls, path: str | os.PathLike[str]) -> Iterator[ResultStore]:
        """Open a copy of a store. The file itself may be read-only, and is not modified."""
        with tempfile.TemporaryDirectory(prefix="tabgnm-") as folder:
            copy = copy_store(Path(path), Path(folder))
            store = cls.__new__(cls)
            store._use(StoreFile(copy, Path(path)))
            with store:
                yield store

    def _use(self, file: StoreFile) -> None:
        self._file, self.claims = file, Claims(file)

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self._file.path

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> ResultStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Results

    def add(self, results: Sequence[Result]) -> None:
        """Store the results of a fleet and release its claims, in one transaction."""
        rows = [_row(result) for result in results]
        places = ", ".join("?" for _ in range(_N_COLUMNS))
        with self._file.transaction():
            self._file.execute_many(f"INSERT OR IGNORE INTO results VALUES ({places})", rows)
            self.claims.drop([result.key for result in results])

    def results(self, keys: Iterable[str] | None = None) -> list[Result]:
        """Return the stored results with these keys, or all results, in a fixed order."""
        if keys is None:
            rows = self._file.rows("SELECT * FROM results")
        else:
            rows = self._file.rows_of("SELECT * FROM results WHERE key IN", list(keys))
        self._refuse_damaged(rows, _is_result)
        return sorted((Result(*row[:-1]) for row in rows), key=_order)

    def done(self, keys: Iterable[str]) -> set[str]:
        """Return the keys of these results that are stored."""
        return {result.key for result in self.results(keys)}

    def _refuse_damaged(self, rows: Sequence[tuple[Any, ...]], is_sound: Callable[[Sequence[Any]], bool]) -> None:
        damaged = [row for row in rows if not is_sound(row)]
        if not damaged:
            return
        named = [f"{brief(' '.join(map(str, row[1:-1])))} (key {str(row[0])[:12]})" for row in damaged[:3]]
        program = f"from tabgnm.paper import ResultStore; ResultStore({str(self.path)!r}).remove_damaged()"
        raise StoreError(
            f"{len(damaged):,} of {len(rows):,} rows read from the store {str(self.path)!r} are damaged, as their "
            f"checksums do not match: {'; '.join(named)}{'; ...' if len(damaged) > len(named) else ''}. Remove them "
            f"with the following command, then run yours again: {shlex.join(['python', '-c', program])}"
        )

    def remove_damaged(self) -> int:
        """Delete damaged rows and claims, so that they are trained again; return their number."""
        n_removed = 0
        with self._file.transaction():
            for table, is_sound in (("results", _is_result), ("records", _is_record), ("claims", _is_claim)):
                # By type and bytes: a damaged key may not be text, and a valid one may have the same bytes.
                rows = self._file.rows(f"SELECT typeof(key), CAST(key AS BLOB), * FROM {table}")
                damaged = [row[:2] for row in rows if not is_sound(row[2:])]
                self._file.execute_many(
                    f"DELETE FROM {table} WHERE typeof(key) = ? AND CAST(key AS BLOB) IS ?", damaged
                )
                n_removed += len(damaged)
        return n_removed

    def merge(self, path: str | os.PathLike[str]) -> Merged:
        """Copy the results of another store that are missing here; existing results are not replaced."""
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

    # Records: results that are not a row of numbers, such as the losses of all epochs

    def record(self, key: str) -> Any:
        """Return the record with this key, or None."""
        rows = self._file.rows("SELECT * FROM records WHERE key = ?", (key,))
        self._refuse_damaged(rows, _is_record)
        return json.loads(rows[0][1]) if rows else None

    def keep(self, key: str, content: Any) -> None:
        """Store a record of JSON values, and drop the claim to it."""
        values = (key, json.dumps(content))
        with self._file.transaction():
            self._file.rows("INSERT OR IGNORE INTO records VALUES (?, ?, ?)", (*values, _checksum(values)))
            self.claims.drop([key])

    def _records(self) -> dict[str, str]:
        rows = self._file.rows("SELECT * FROM records")
        self._refuse_damaged(rows, _is_record)
        return {row[0]: row[1] for row in rows}


def _row(result: Result) -> tuple[Any, ...]:
    """Return the values as SQLite will return them, and their checksum."""
    values = []
    for field in fields(Result):
        value = getattr(result, field.name)
        if COLUMN_TYPES[str(field.type)] == "REAL" and value is not None:
            value = None if math.isnan(value) else float(value)
        values.append(value)
    return (*values, _checksum(values))


def _outcome(result: Result) -> tuple[Any, ...]:
    return tuple(getattr(result, name) for name in _OUTCOME)


def _checksum(values: Sequence[Any]) -> str:
    return hashlib.sha256(repr(tuple(values)).encode(errors="backslashreplace")).hexdigest()[:16]


def _fits(row: Sequence[Any]) -> bool:
    return bool(_checksum(row[:-1]) == row[-1])


def _is_result(row: Sequence[Any]) -> bool:
    """Whether a row is valid: its checksum matches, and every value has the type of its column."""
    typed = all(
        isinstance(value, _PYTHON_TYPES[str(field.type)]) for value, field in zip(row, fields(Result), strict=False)
    )
    return typed and len(row) == _N_COLUMNS and _fits(row)


def _is_record(row: Sequence[Any]) -> bool:
    """Whether a record is valid: its checksum matches, and its content is JSON."""
    if not all(isinstance(value, str) for value in row) or not _fits(row):
        return False
    try:
        json.loads(row[1])
    except (ValueError, RecursionError):
        return False
    return True


def _is_claim(row: Sequence[Any]) -> bool:
    return is_claim(*row)
