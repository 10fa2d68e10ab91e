"""Whatever was done to a store's files, only `StoreError` comes out of it, and no number that was not put in."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tabgnm.paper import Result, ResultStore, StoreError
from tests.paper.examples import change, some_result

RESULTS = [some_result(f"key {i}", fold=i, val_loss=0.1 * i, metric1=None if i == 3 else 90.0 + i) for i in range(12)]
NEW = some_result("new", fold=99)
RECORDS = {"curve 0": {"train_loss": [1.0, 0.5]}, "curve 1": [1, 2, "three"]}
TABLES = {
    "results": (*Result.__dataclass_fields__, "checksum"),
    "records": ("key", "content", "checksum"),
    "claims": ("key", "owner", "renewed"),
}
# As SQL, since some of these are no values of Python: text that is not UTF-8, numbers that are not finite.
VALUES = (
    *("NULL", "0", "-1", "9223372036854775807", "1e999", "-1e999", "0.5", "''", "'x'", "x''", "x'ff00fe'"),
    *("CAST(x'ff' AS TEXT)", "CAST(x'610062' AS TEXT)", "'key 1'", "CAST('key 1' AS BLOB)", "hex(zeroblob(50000))"),
    *("'[' || replace(hex(zeroblob(3000)), '0', '[')", "char(27) || '[31m'", "char(55296)"),
)


def new_store(path: Path) -> None:
    with ResultStore(path) as store:
        store.add(RESULTS)
        for key, content in RECORDS.items():
            store.keep(key, content)
        store.claims.take(["claimed 0", "claimed 1"])


def by_sql(path: Path, generator: random.Random) -> None:
    """Wrong values, rows and tables, by SQL that SQLite takes."""
    table = generator.choice([*TABLES])
    column, value = generator.choice(TABLES[table]), generator.choice(VALUES)
    values = ", ".join(generator.choice(VALUES) for _ in TABLES[table])
    statement = generator.choice(
        [
            *[f"UPDATE OR REPLACE {table} SET {column} = {value} WHERE random() % 3 = 0"] * 4,
            *[f"INSERT OR REPLACE INTO {table} VALUES ({values})"] * 4,
            f"DELETE FROM {table} WHERE random() % 2 = 0",
            f"DROP TABLE {table}",
            f"ALTER TABLE {table} RENAME COLUMN {column} TO other",
            f"ALTER TABLE {table} ADD COLUMN other",
            f"CREATE TRIGGER t AFTER INSERT ON {table} BEGIN SELECT RAISE(ABORT, 'no'); END",
            f"CREATE VIEW v AS SELECT * FROM {table}",
            f"UPDATE sqlite_master SET {generator.choice(['name', 'tbl_name', 'sql', 'type', 'rootpage'])} = {value}",
            f"UPDATE sqlite_master SET sql = CAST(x'ff' || sql AS TEXT) WHERE name = '{table}'",
            f"PRAGMA user_version = {generator.choice([-1, 0, 1, 3, 2**31 - 1])}",
        ]
    )
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(statement)
    except (sqlite3.Error, UnicodeDecodeError):
        pass  # a damage that SQLite prevents
    finally:
        connection.close()


def by_bytes(file: Path, generator: random.Random) -> None:
    """Flipped bytes, missing or repeated parts: what disks and transfers do."""
    content = bytearray(file.read_bytes())
    if not content:
        return
    at = generator.randrange(len(content)) if generator.random() < 0.7 else generator.randrange(min(200, len(content)))
    length = generator.choice([1, 1, 1, 4, 16, 512, 4096])
    match generator.choice(["flip", "flip", "random", "zero", "cut", "repeat", "lose"]):
        case "flip":
            for _ in range(generator.choice([1, 1, 3, 30])):
                content[generator.randrange(len(content)) if at >= 200 else at] ^= 1 << generator.randrange(8)
        case "random":
            content[at : at + length] = generator.randbytes(length)
        case "zero":
            content[at : at + length] = bytes(length)
        case "cut":
            del content[at:]
        case "repeat":
            content[at:at] = content[at : at + length]
        case "lose":
            del content[at : at + length]
    file.write_bytes(content)


def use(path: Path) -> Counter[str]:
    """Do everything that a store can do; returns how often each call was refused. Any other exception is an error."""
    refused: Counter[str] = Counter()

    def tried(name: str, call: Any, *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except StoreError:
            refused[name] += 1

    known = {result.key: result for result in (*RESULTS, NEW)}
    with ResultStore(path.with_name("other")) as other:
        tried("merge", other.merge, path)
        assert all(known[own.key] == own for own in other.results())
    store = tried("open", ResultStore, path)
    if store is None:
        return refused
    with store:
        for keys in (None, list(known)):
            assert all(known[own.key] == own for own in tried("results", store.results, keys) or [])
        tried("done", store.done, list(known))
        for key, content in RECORDS.items():
            assert tried("record", store.record, key) in (None, content)
        tried("take", store.claims.take, ["claimed 0", "claimed 1", "free", *known])
        tried("others", store.claims.others, ["claimed 0", "claimed 1"])
        tried("renew", store.claims.renew)
        tried("add", store.add, [NEW])
        tried("keep", store.keep, "curve 2", [1.0])
        tried("release", store.claims.release)
        if tried("remove", store.remove_damaged) is not None:  # then what is left can be used
            assert tried("read again", store.results) is not None or refused["results"] == 0
            for key in RECORDS:
                tried("record again", store.record, key)
            assert refused["read again"] == refused["record again"] == 0
    return refused


def mutate_and_use(folder: Path, seeds: range) -> Counter[str]:
    template = folder / "template"
    new_store(template)
    whole = template.read_bytes()
    path, wal = folder / "results.sqlite", folder / "results.sqlite-wal"
    with ResultStore(path) as store:  # with a part of the rows not yet in the main file
        new_store(path)
        with_wal = path.read_bytes(), wal.read_bytes()
        store.close()
    outcomes: Counter[str] = Counter()
    for seed in seeds:
        generator = random.Random(seed)
        for left in folder.iterdir():
            if left != template:
                left.unlink()
        kind = generator.choice(["sql", "sql", "bytes", "bytes", "wal"])
        if kind == "wal":
            path.write_bytes(with_wal[0])
            wal.write_bytes(with_wal[1])
            by_bytes(generator.choice([path, wal]), generator)
        else:
            path.write_bytes(whole)
            for _ in range(generator.choice([1, 1, 2])):
                by_sql(path, generator) if kind == "sql" else by_bytes(path, generator)
        try:
            refused = use(path)
        except BaseException as error:
            raise AssertionError(f"mutation {seed} ({kind}): {type(error).__name__}: {error}") from error
        outcomes.update([f"{kind}: {next(iter(refused), 'nothing')} refused first"])
    return outcomes


@pytest.fixture
def memory_folder() -> Iterator[Path]:
    """A folder in memory where there is one: waiting for a disk is most of the time of these tests."""
    in_memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=in_memory if os.access(in_memory, os.W_OK) else None) as folder:
        yield Path(folder)


def test_of_a_mutated_store_only_store_errors_come(memory_folder: Path) -> None:
    outcomes = mutate_and_use(memory_folder, range(80))
    assert sum(outcomes.values()) == 80
    assert sum(n for name, n in outcomes.items() if "nothing" not in name) > 20, "hardly any mutation did damage"


@pytest.mark.slow
def test_of_ten_thousand_mutated_stores_only_store_errors_come(memory_folder: Path) -> None:
    assert sum(mutate_and_use(memory_folder, range(10_000)).values()) == 10_000


# Single damages, by name


@pytest.mark.parametrize("column", ["name", "sql"])
def test_a_schema_that_is_not_text_any_more_is_told(tmp_path: Path, column: str) -> None:
    path = tmp_path / "results.sqlite"
    new_store(path)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute(f"UPDATE sqlite_master SET {column} = CAST(x'ff' || {column} AS TEXT) WHERE name = 'results'")
    connection.close()
    with pytest.raises(
        StoreError, match=r"is damaged or not an SQLite file, and was not changed|is an SQLite file, but not"
    ):
        ResultStore(path)


def test_a_store_with_other_columns_or_triggers_is_told(tmp_path: Path) -> None:
    statements = [
        "ALTER TABLE results ADD COLUMN other",
        "ALTER TABLE claims RENAME COLUMN owner TO mine",
        "CREATE TRIGGER t AFTER INSERT ON results BEGIN DELETE FROM records; END",
    ]
    for number, statement in enumerate(statements):
        path = tmp_path / f"{number}"
        new_store(path)
        change(path, statement)
        with pytest.raises(StoreError, match="its tables are not those that tabgnm creates"):
            ResultStore(path)


def test_statistics_that_a_user_had_sqlite_collect_are_no_damage(tmp_path: Path) -> None:
    new_store(tmp_path / "a")
    change(tmp_path / "a", "ANALYZE")
    with ResultStore(tmp_path / "a") as store:
        assert len(store.results()) == 12


def test_damaged_rows_are_removed_whatever_their_keys_are_and_sound_ones_stay(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    new_store(path)
    for key in ("NULL", "x'6375727665203020'", "CAST(x'ff' AS TEXT)"):  # the second has the bytes of "curve 0"
        change(path, f"INSERT INTO records VALUES ({key}, 'null', 'wrong')")
        change(path, f"INSERT INTO claims VALUES ({key}, NULL, NULL)")
    change(path, "INSERT INTO records VALUES (CAST('curve 0' AS BLOB), 'null', 'wrong')")
    with ResultStore(path) as store:
        assert store.remove_damaged() == 7
        assert store.record("curve 0") == RECORDS["curve 0"] and len(store.results()) == 12
        assert store.remove_damaged() == 0


@pytest.mark.parametrize("column", ["width", "origin", "metric1"])
def test_a_value_of_the_wrong_type_is_damage_even_under_a_checksum_that_fits(tmp_path: Path, column: str) -> None:
    from tabgnm.paper.store import _checksum

    path = tmp_path / "results.sqlite"
    new_store(path)
    row = [*vars(RESULTS[0]).values()]
    row[[*vars(RESULTS[0])].index(column)] = b"\x00"
    change(path, f"UPDATE results SET {column} = x'00', checksum = ? WHERE key = 'key 0'", (_checksum(row),))
    with ResultStore(path) as store:
        with pytest.raises(StoreError, match="1 of 12 rows"):
            store.results()
        assert store.remove_damaged() == 1


def test_a_record_under_a_fitting_checksum_that_is_no_json_is_damage(tmp_path: Path) -> None:
    from tabgnm.paper.store import _checksum

    path = tmp_path / "results.sqlite"
    new_store(path)
    for key, content in (("a", "{"), ("b", "[" * 100_000)):
        change(path, "INSERT INTO records VALUES (?, ?, ?)", (key, content, _checksum((key, content))))
        with ResultStore(path) as store, pytest.raises(StoreError, match="are damaged"):
            store.record(key)
    with ResultStore(path) as store:
        assert store.remove_damaged() == 2


def test_control_characters_in_a_store_do_not_reach_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "results\x1b[2J.sqlite"
    new_store(path)
    change(path, "UPDATE results SET dataset = char(27) || '[31m' || char(7) WHERE key = 'key 0'")
    with ResultStore(path) as store, pytest.raises(StoreError) as caught:
        store.results()
    assert str(caught.value).isprintable() and r"\x1b[31m\x07" in str(caught.value)


def test_a_merge_that_fails_leaves_no_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    new_store(tmp_path / "damaged")
    change(tmp_path / "damaged", "UPDATE results SET fold = fold + 1")
    (tmp_path / "text").write_text("no store")
    with ResultStore(tmp_path / "own") as store:
        for name in ("damaged", "text", "absent"):
            with pytest.raises(StoreError, match=name):
                store.merge(tmp_path / name)
    assert not list(temporary.iterdir())


def test_a_folder_for_temporary_files_that_is_full_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    new_store(tmp_path / "theirs")
    monkeypatch.setattr(shutil, "copyfile", full)
    with (
        ResultStore(tmp_path / "own") as store,
        pytest.raises(StoreError, match=r"cannot be copied to a temporary folder \(.*No space left"),
    ):
        store.merge(tmp_path / "theirs")
