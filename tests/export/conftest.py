from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.export.databases import (
    DIALECTS,
    Database,
    DuckDBDatabase,
    PostgreSQLDatabase,
    SQLiteDatabase,
    load,
    postgresql_server,
)
from tests.export.program_examples import KINDS, NASTY_NAMES, rows


@pytest.fixture(scope="package")
def postgresql() -> Iterator[PostgreSQLDatabase]:
    with postgresql_server() as folder:
        yield PostgreSQLDatabase(folder)


@pytest.fixture(scope="package", params=DIALECTS)
def database(request: Any) -> Database:
    """Each of the databases, with the rows of the examples in the table "t"."""
    found: Database
    if request.param == "postgresql":
        found = request.getfixturevalue("postgresql")
    else:
        found = SQLiteDatabase() if request.param == "sqlite" else DuckDBDatabase()
    load(found, "t", rows(), {NASTY_NAMES[name]: kind for name, kind in KINDS.items()})
    return found
