"""The results store: what it keeps, what it refuses, and what it says when it cannot go on."""

from __future__ import annotations

import os
import resource
import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tabgnm.paper import ResultStore, StoreError
from tabgnm.paper.store import Merged
from tests.paper.examples import change, some_result


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.sqlite"


def filled(path: Path, n: int = 3) -> list[object]:
    with ResultStore(path) as store:
        store.add([some_result(f"key {i}", fold=i) for i in range(n)])
        return list(store.results())


def test_what_was_added_is_there_when_the_file_is_opened_again(path: Path) -> None:
    known = filled(path)
    with ResultStore(path) as store:
        assert store.results() == known
        assert store.results(["key 1", "key 7"]) == known[1:2]
        assert store.done(["key 0", "key 9"]) == {"key 0"}


def test_a_result_is_kept_as_it_was_first_stored(path: Path) -> None:
    with ResultStore(path) as store:
        store.add([some_result(metric1=90.0)])
        store.add([some_result(metric1=10.0)])
        assert [result.metric1 for result in store.results()] == [90.0]


def test_numbers_come_back_bit_by_bit_and_none_stays_none(path: Path) -> None:
    result = some_result(val_loss=0.1 + 0.2, metric1=None, metric2=1e-300)
    with ResultStore(path) as store:
        store.add([result])
        assert store.results() == [result]


def test_more_keys_than_a_statement_takes_are_no_problem(path: Path) -> None:
    with ResultStore(path) as store:
        store.add([some_result(f"{i}", fold=i) for i in range(1700)])
        assert len(store.done(f"{i}" for i in range(3000))) == 1700


def test_the_results_of_a_fleet_are_added_together_or_not_at_all(path: Path) -> None:
    with ResultStore(path) as store:
        broken = some_result("b", dataset=object())
        with pytest.raises(StoreError, match="cannot be used"):
            store.add([some_result("a"), broken])
        assert store.results() == []
        store.add([some_result("a")])  # and the store still works
        assert len(store.results()) == 1


def test_records_are_kept_as_json(path: Path) -> None:
    with ResultStore(path) as store:
        assert store.record("curve") is None
        store.keep("curve", {"train_loss": [1.0, 0.5]})
        store.keep("curve", "another")
        assert store.record("curve") == {"train_loss": [1.0, 0.5]}


def test_stores_of_several_machines_are_merged(tmp_path: Path) -> None:
    for name, fold in (("a", 0), ("b", 1)):
        with ResultStore(tmp_path / name) as store:
            store.add([some_result(f"{fold}", fold=fold), some_result("both", fold=2)])
            store.keep(name, fold)
    with ResultStore(tmp_path / "a") as store:
        assert store.merge(tmp_path / "b") == Merged(n_new=2, n_same=1, n_different=0)
        assert [result.fold for result in store.results()] == [0, 1, 2]
        assert store.record("b") == 1
        assert store.merge(tmp_path / "b") == Merged(n_new=0, n_same=3, n_different=0)


def test_of_two_values_for_one_key_the_first_stays_and_the_others_are_counted(tmp_path: Path) -> None:
    with ResultStore(tmp_path / "a") as store, ResultStore(tmp_path / "b") as other:
        store.add([some_result("k", metric1=90.0), some_result("l", seconds=1.0, origin="here", fold=1)])
        other.add([some_result("k", metric1=80.0), some_result("l", seconds=2.0, origin="there", fold=1)])
        store.keep("curve", [1.0])
        other.keep("curve", [2.0])
        assert store.merge(tmp_path / "b") == Merged(n_new=0, n_same=1, n_different=2)  # not yet in the main file
        assert [result.metric1 for result in store.results()] == [90.0, 90.0] and store.record("curve") == [1.0]


def test_a_store_that_is_merged_may_be_read_only_and_is_left_as_it_is(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs" / "results.sqlite"
    theirs.parent.mkdir()
    filled(theirs)
    before = theirs.read_bytes()
    readable_by_all(theirs)
    with ResultStore(tmp_path / "own") as store, no_rights(theirs.parent):
        assert store.merge(theirs).n_new == 3
        assert [own.name for own in theirs.parent.iterdir()] == [theirs.name]
    assert theirs.read_bytes() == before


def test_what_is_no_store_is_not_merged_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("fold,accuracy\n" * 200)
    with ResultStore(tmp_path / "own") as store:
        for name, message in (
            ("empty", "empty' is empty, so it is not a store"),
            ("text", "text' is damaged or not an SQLite"),
        ):
            with pytest.raises(StoreError, match=message):
                store.merge(tmp_path / name)
        with pytest.raises(StoreError, match=r"there is no store '.*absent'; check the name"):
            store.merge(tmp_path / "absent")
    assert (tmp_path / "empty").read_bytes() == b""


# Checksums


@pytest.mark.parametrize(
    "damage",
    [
        "metric1 = metric1 + 1e-12",
        "val_loss = NULL",
        "fold = 7",
        "origin = 'elsewhere'",
        "status = CAST(x'ff' AS TEXT)",
    ],
)
def test_a_row_that_was_changed_is_named_and_can_be_trained_again(path: Path, damage: str) -> None:
    filled(path)
    change(path, f"UPDATE results SET {damage} WHERE key = 'key 1'")
    with ResultStore(path) as store:
        assert len(store.results(["key 0", "key 2"])) == 2
        for read in (store.results, lambda: store.done(["key 0", "key 1"])):
            with pytest.raises(
                StoreError,
                match=r"(?s)1 of . rows .* are damaged.*noisy_moons.*key 1.*Remove them with the following command",
            ) as error:
                read()
        command = shlex.split(str(error.value).split("then run yours again: ")[1])
        assert command[:2] == ["python", "-c"]
        exec(command[2], {})
        assert store.done([f"key {i}" for i in range(3)]) == {"key 0", "key 2"}
        assert store.claims.take(["key 1"]) == {"key 1"}


def test_a_row_whose_key_is_no_text_any_more_can_be_removed(path: Path) -> None:
    filled(path)
    change(path, "UPDATE results SET key = CAST(x'ff00' AS TEXT) WHERE key = 'key 1'")
    with ResultStore(path) as store:
        with pytest.raises(StoreError, match="1 of 3 rows"):
            store.results()
        assert store.remove_damaged() == 1 and len(store.results()) == 2


def test_a_curve_that_was_changed_is_not_believed(path: Path) -> None:
    with ResultStore(path) as store:
        store.keep("curve", {"train_loss": [1.0, 0.5]})
        change(path, "UPDATE records SET content = replace(content, '0.5', '0.4')")
        with pytest.raises(StoreError, match=r"1 of 1 rows .* are damaged"):
            store.record("curve")
        assert store.remove_damaged() == 1 and store.record("curve") is None


def test_numbers_that_sqlite_stores_as_others_are_not_taken_for_damage(path: Path) -> None:
    with ResultStore(path) as store:
        store.add([some_result(metric1=90, metric2=float("nan"), seconds=1)])
        [found] = store.results()
        assert (found.metric1, found.metric2, found.seconds) == (90.0, None, 1.0)


# What cannot be used


def test_a_store_of_a_newer_layout_is_refused(path: Path) -> None:
    filled(path)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreError, match=r"written by a newer tabgnm \(layout version 99; this version reads 2\); use"):
        ResultStore(path)


def test_a_store_of_an_older_layout_is_refused_and_left_alone(path: Path) -> None:
    filled(path)
    change(path, "PRAGMA user_version = 1")
    before = path.read_bytes()
    with pytest.raises(
        StoreError, match=r"an older tabgnm \(layout version 1; .* reads 2\) and was not changed; use the older"
    ):
        ResultStore(path)
    assert path.read_bytes() == before


def test_another_sqlite_file_is_refused_and_left_alone(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE mine (a)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="is an SQLite file, but not a store of results; use another file"):
        ResultStore(path)
    assert path.read_bytes() == before


def test_a_file_that_is_no_store_is_refused_and_left_alone(path: Path) -> None:
    path.write_text("fold,accuracy\n" * 200)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="is damaged or not an SQLite file, and was not changed; move it away"):
        ResultStore(path)
    assert path.read_bytes() == before


def test_a_damaged_store_is_refused_and_left_alone(path: Path) -> None:
    filled(path, 500)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 4096] = b"\x07" * 4096
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"is damaged .* recover its rows with `sqlite3 FILE .recover`"):
        ResultStore(path)
    assert path.read_bytes() == bytes(content)


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"the folder of the store .*nowhere.* does not exist; create it first"):
        ResultStore(tmp_path / "nowhere" / "results.sqlite")


def test_a_folder_in_place_of_a_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        StoreError, match="cannot be opened; check the permissions of its folder, and that it is not a folder"
    ):
        ResultStore(tmp_path)


def readable_by_all(path: Path) -> None:
    """Of pytest's folders only the owner may read."""
    for folder in path.parents:
        if folder.stat().st_mode & 0o055 != 0o055 and os.access(folder, os.W_OK):
            folder.chmod(0o755)


@contextmanager
def no_rights(folder: Path) -> Iterator[None]:
    """Make a folder and its files read-only, for root too."""
    user = os.geteuid()
    paths = [*folder.iterdir(), folder]
    for path in paths:
        path.chmod(0o555)
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)
        for path in paths:
            path.chmod(0o755)


def test_a_read_only_folder_is_named_and_loses_nothing(path: Path) -> None:
    known = filled(path)
    readable_by_all(path)
    with (
        no_rights(path.parent),
        pytest.raises(StoreError, match="check the permissions of"),
        ResultStore(path) as store,
    ):
        store.add([some_result("new")])
    with ResultStore(path) as store:
        assert store.results() == known


def add_many(store: ResultStore) -> None:
    for i in range(50):
        store.add([some_result(f"{i}-{j}", dataset="x" * 500, fold=j) for j in range(40)])


def test_a_full_disk_is_named_and_loses_nothing(path: Path) -> None:
    known = filled(path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with ResultStore(path) as store:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, limits[1]))
        try:
            with pytest.raises(
                StoreError, match="is full or failing; stored results are kept: free some space and continue"
            ):
                add_many(store)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        n_stored = len(store.results())
        assert set(known) <= set(store.results()) and n_stored % 40 == 3  # whole fleets only
        store.add([some_result("after")])  # there is room again
        assert len(store.results()) == n_stored + 1
    with ResultStore(path) as store:
        assert len(store.results()) == n_stored + 1
