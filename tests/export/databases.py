"""Real databases with the tables of the tests in them."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
import pytest

from tabgnm.table.cells import is_missing

DIALECTS = ("sqlite", "duckdb", "postgresql")
TYPES = {
    "number": "DOUBLE PRECISION",
    "integer": "INTEGER",
    "boolean": "BOOLEAN",
    "category": "TEXT",
    "datetime": "TIMESTAMP",
    "duration": "INTERVAL",
    "time": "TIME",
}
Rows = list[dict[str, Any]]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def cell(value: Any, kind: str, dialect: str) -> Any:
    """Return a cell as a number, text or boolean that the database converts to the type of the column."""
    if is_missing(value):
        return None
    if kind == "datetime":
        return str(np.datetime64(value, "us")).replace("T", " ")
    if kind == "duration":
        seconds = value.total_seconds()
        return seconds if dialect == "sqlite" else f"{seconds!r} seconds"
    if kind == "boolean":
        return bool(value)
    if kind == "integer":
        return int(value)
    return float(value) if kind == "number" else str(value)


class Database(Protocol):
    """What the tests need of a database."""

    dialect: str

    def execute(self, statement: str) -> None: ...

    def insert(self, table: str, rows: list[list[Any]]) -> None: ...

    def query(self, select: str) -> Rows: ...


def load(database: Database, table: str, frame: pd.DataFrame, kinds: Mapping[str, str]) -> None:
    """Make a table of a frame, with a column "row" of the numbers of the rows."""
    columns = {"row": "INTEGER"} | {name: TYPES[kinds[name]] for name in frame}
    if database.dialect == "sqlite":  # which has no types for these
        columns |= {name: "TEXT" for name in frame if kinds[name] in ("datetime", "time")}
    declared = ", ".join(f"{quoted(name)} {kind}" for name, kind in columns.items())
    database.execute(f"DROP TABLE IF EXISTS {quoted(table)}")
    database.execute(f"CREATE TABLE {quoted(table)} ({declared})")
    rows = [
        [place, *(cell(frame[name].iloc[place], kinds[name], database.dialect) for name in frame)]
        for place in range(len(frame))
    ]
    database.insert(table, rows)


class SQLiteDatabase:
    dialect = "sqlite"

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:")
        [(has_functions,)] = self._connection.execute("SELECT sqlite_compileoption_used('ENABLE_MATH_FUNCTIONS')")
        if sqlite3.sqlite_version_info < (3, 35) or not has_functions:
            pytest.skip("this SQLite has no mathematical functions, or is older than 3.35")

    def execute(self, statement: str) -> None:
        self._connection.execute(statement)

    def insert(self, table: str, rows: list[list[Any]]) -> None:
        marks = ", ".join("?" * len(rows[0]))
        self._connection.executemany(f"INSERT INTO {quoted(table)} VALUES ({marks})", rows)

    def query(self, select: str) -> Rows:
        found = self._connection.execute(select)
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found]


class DuckDBDatabase:
    dialect = "duckdb"

    def __init__(self) -> None:
        duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
        self._connection = duckdb.connect()

    def execute(self, statement: str) -> None:
        self._connection.execute(statement)

    def insert(self, table: str, rows: list[list[Any]]) -> None:
        marks = ", ".join("?" * len(rows[0]))
        self._connection.executemany(f"INSERT INTO {quoted(table)} VALUES ({marks})", rows)

    def query(self, select: str) -> Rows:
        found = self._connection.execute(select)
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


class PostgreSQLDatabase:
    """A connection per call, through psql."""

    dialect = "postgresql"

    def __init__(self, folder: Path) -> None:
        self._command = [str(_binary("psql")), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", str(folder)]
        self._command += ["-U", "tester", "-d", "postgres", "-f", "-"]

    def _run(self, text: str) -> str:
        done = subprocess.run(self._command, input=text.encode(), capture_output=True)
        if done.returncode:
            raise RuntimeError(done.stderr.decode())
        return done.stdout.decode()

    def execute(self, statement: str) -> None:
        self._run(f"SET client_min_messages = warning;\n{statement};")

    def insert(self, table: str, rows: list[list[Any]]) -> None:
        def text(value: Any) -> str:
            return r"\N" if value is None else '"' + str(value).replace('"', '""') + '"'

        lines = "\n".join(",".join(map(text, row)) for row in rows)
        self._run(f"COPY {quoted(table)} FROM STDIN WITH (FORMAT csv, NULL '\\N');\n{lines}\n\\.\n")

    def query(self, select: str) -> Rows:
        return [json.loads(line) for line in self._run(f"SELECT row_to_json(q) FROM ({select}) q;").splitlines()]


def _binary(name: str) -> Path:
    found = shutil.which(name)
    places = [Path(found)] if found else sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    if not places:
        pytest.skip(f"PostgreSQL's {name} is not installed")
    return places[0]


def _as_other_user() -> list[str]:
    """Return a command that runs another one as a user that PostgreSQL accepts: it refuses root."""
    if os.geteuid() != 0:
        return []
    runuser = shutil.which("runuser")
    known = {line.partition(":")[0] for line in Path("/etc/passwd").read_text().splitlines()}
    user = next((name for name in ("postgres", "nobody") if name in known), None)
    if runuser is None or user is None:
        pytest.skip("PostgreSQL does not run as root, and there is no runuser or no other user")
    return [runuser, "-u", user, "--"]


@contextmanager
def postgresql_server() -> Iterator[Path]:
    """Run a server of its own that is reached through a socket in a temporary folder; yield the folder."""
    initdb, control, _ = _binary("initdb"), _binary("pg_ctl"), _binary("psql")
    prefix = _as_other_user()
    # Not in the folder of pytest, which others cannot enter; a path of a socket has to be short, too.
    folder = Path(tempfile.mkdtemp(prefix="tabgnm-pg-"))
    try:
        if prefix:
            shutil.chown(folder, prefix[2])
        data, log = folder / "data", folder / "log"
        own = {"capture_output": True, "check": True, "cwd": folder}
        subprocess.run([*prefix, initdb, "-D", data, "-U", "tester", "-A", "trust", "-N", "-E", "UTF8"], **own)
        settings = f"-c listen_addresses='' -c fsync=off -c unix_socket_directories='{folder}'"
        start = [*prefix, control, "-D", data, "-l", log, "-w", "-o", settings, "start"]
        subprocess.run(start, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield folder
        finally:
            subprocess.run([*prefix, control, "-D", data, "-m", "immediate", "-w", "stop"], **own)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
