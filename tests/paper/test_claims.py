"""Claims: who works on what, who is waited for, and which claims nobody has to wait for."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tabgnm.paper import ResultStore, Setting, StoreError, claims, run
from tabgnm.paper import data as paper_data
from tabgnm.paper.claims import Owner
from tabgnm.paper.curves import CurveTask, run_curves
from tabgnm.paper.protocol import Body
from tests.paper.examples import change, small_plan, some_result


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.sqlite"


def test_what_one_process_claims_another_does_not_get(path: Path) -> None:
    with ResultStore(path) as one, ResultStore(path) as other:
        assert one.claims.take(["a", "b"]) == {"a", "b"}
        assert other.claims.take(["b", "c"]) == {"c"}
        assert one.claims.take(["a", "c"]) == {"a"}
        one.claims.release()
        assert other.claims.take(["a", "b"]) == {"a", "b"}


def test_what_is_done_cannot_be_claimed_and_needs_no_claim_any_more(path: Path) -> None:
    with ResultStore(path) as one, ResultStore(path) as other:
        one.claims.take(["k", "l"])
        one.add([some_result("k")])
        assert other.claims.take(["k", "l"]) == set()
        one.claims.release()
        assert other.claims.take(["k", "l"]) == {"l"}


def test_the_claims_of_a_process_that_is_gone_are_free_at_once(path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with ResultStore(path) as one, ResultStore(path) as other:
        one.claims.owner = replace(one.claims.owner, pid=gone.pid)
        one.claims.take(["a"])
        assert other.claims.take(["a"]) == {"a"}


def test_the_claims_of_another_machine_last_until_they_are_not_renewed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ResultStore(path) as one, ResultStore(path) as other:
        one.claims.owner = replace(one.claims.owner, host="elsewhere")
        one.claims.take(["a"])
        assert other.claims.take(["a"]) == set()
        monkeypatch.setattr(claims, "CLAIM_SECONDS", 0.2)
        monkeypatch.setattr(claims, "RENEW_SECONDS", 0.02)
        with one.claims.renewing():
            time.sleep(0.4)
            assert other.claims.take(["a"]) == set()
        time.sleep(0.3)
        assert other.claims.take(["a"]) == {"a"}


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("owner", None),
        ("owner", 7),
        ("owner", b"\xff\x00"),
        ("owner", "nobody"),
        ("owner", "a:b:c:d"),
        ("owner", "elsewhere:0:1:x"),
        ("owner", f"elsewhere:{'9' * 30}:1:x"),
        ("renewed", None),
        ("renewed", "yesterday"),
        ("renewed", b"\xff"),
        ("renewed", float("inf")),
        ("renewed", 1e300),
        ("renewed", -1.0),
    ],
)
def test_a_damaged_claim_is_taken_over_and_removed_with_other_damage(path: Path, column: str, value: Any) -> None:
    with ResultStore(path) as one, ResultStore(path) as other:
        one.claims.owner = replace(one.claims.owner, host="elsewhere")
        one.claims.take(["a", "b"])
        change(path, f"UPDATE claims SET {column} = ? WHERE key = 'a'", (value,))
        is_stale_only = value in (1e300, -1.0)  # numbers that a clock may have shown
        assert other.remove_damaged() == (0 if is_stale_only else 1)
        change(path, f"UPDATE claims SET {column} = ? WHERE key = 'a'", (value,))
        assert other.claims.take(["a", "b"]) == {"a"}


def test_a_claim_dated_into_the_future_does_not_block_the_work(path: Path) -> None:
    with ResultStore(path) as one, ResultStore(path) as other:
        one.claims.owner = replace(one.claims.owner, host="elsewhere")
        one.claims.take(["a"])
        change(path, "UPDATE claims SET renewed = renewed + 100")
        assert other.claims.take(["a"]) == set()
        change(path, "UPDATE claims SET renewed = renewed + 100")
        assert other.claims.take(["a"]) == {"a"}


def test_an_owner_is_read_back_and_named() -> None:
    owner = Owner("node:7", 4711, 1_763_208_000, "ab12")
    assert Owner.from_text(owner.as_text()) == owner
    assert str(owner) == "process 4711 on node:7 (running since 2025-11-15 12:00:00 UTC)"
    assert str(replace(owner, host="a\x1b[2Jb")).startswith(r"process 4711 on a\x1b[2Jb (")


# Waiting


class Clock:
    """A clock that waiting moves on at once; claims are renewed all the while, unless they age with it."""

    def __init__(self) -> None:
        self.passed, self.claims_age = 0.0, False

    def monotonic(self) -> float:
        return self.passed

    def time(self) -> float:
        return time.time() + (self.passed if self.claims_age else 0.0)

    def sleep(self, seconds: float) -> None:
        self.passed += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(claims, "time", made)
    return made


def claimed_elsewhere(store: ResultStore, keys: list[str]) -> None:
    store.claims.owner = replace(store.claims.owner, host="elsewhere", pid=4711)
    store.claims.take(keys)


@pytest.mark.usefixtures("clock")
def test_a_run_says_for_whom_it_waits_and_does_not_wait_for_ever(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    work = small_plan(2)
    with ResultStore(path) as one, ResultStore(path) as other:
        claimed_elsewhere(other, work.result_keys())
        with pytest.raises(
            StoreError,
            match=r"waited 30 s without a new result for process 4711 on elsewhere \(running since 20.* UTC\): 8 of "
            r"the 8 remaining trainings\. .* run the same command again later. If one hangs, end it",
        ):
            run(work, one, max_wait=30.0)
        messages = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert len(messages) == 1
        assert messages[0].startswith(
            "waiting for trainings that other processes have claimed: process 4711 on elsewhere (running"
        )
        assert one.results() == []


@pytest.mark.usefixtures("clock")
def test_so_do_curves(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = paper_data.load("noisy_moons", "paper", None).source
    task = CurveTask(source, Setting(max_epochs=1), Body("gnm", 40, 2), "tiny")
    with ResultStore(path) as one, ResultStore(path) as other:
        claimed_elsewhere(other, [task.key])
        with pytest.raises(StoreError, match="waited 30 s without a new result for process 4711 on elsewhere"):
            run_curves([task], one, device="cpu", max_wait=30.0)
    assert "process 4711 on elsewhere" in caplog.text


def test_the_wait_ends_where_the_claims_are_not_renewed(path: Path, clock: Clock) -> None:
    clock.claims_age = True
    work = small_plan(1)
    with ResultStore(path) as one, ResultStore(path) as other:
        claimed_elsewhere(other, work.result_keys())
        run(work, one)
        assert len(one.results()) == 4
    assert claims.CLAIM_SECONDS <= clock.passed <= claims.CLAIM_SECONDS + 2


def test_each_new_result_of_others_gives_them_more_time(path: Path, clock: Clock) -> None:
    with ResultStore(path) as one, ResultStore(path) as other:
        keys = [f"{i}" for i in range(5)]
        claimed_elsewhere(other, keys)
        waiting = claims.WaitingForOthers(one.claims, 8.0)
        while keys:
            for _ in range(5):
                waiting.pause(keys)
            other.add([some_result(keys.pop())])
    assert clock.passed == 25.0


@pytest.mark.usefixtures("clock")
def test_work_that_can_never_be_claimed_ends_the_run(path: Path) -> None:
    work = small_plan(1)
    with ResultStore(path) as store:
        for key in work.result_keys():
            store.keep(key, "not a result")
        with pytest.raises(StoreError, match="4 trainings are neither stored nor claimed by any process"):
            run(work, store)


def test_a_record_that_is_no_curve_is_told(path: Path) -> None:
    source = paper_data.load("noisy_moons", "paper", None).source
    task = CurveTask(source, Setting(max_epochs=1), Body("gnm", 40, 2), "tiny")
    for number, content in enumerate(
        ([], {}, "text", {"best_epoch": "x", "status": ""}, {"best_epoch": 1, "status": 1})
    ):
        with ResultStore(path.with_name(f"{number}")) as store:
            store.keep(task.key, content)
            with pytest.raises(StoreError, match=r"the record with the key .* is not a training curve"):
                run_curves([task], store, device="cpu")


def test_a_store_that_fails_while_claims_are_renewed_is_logged(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(claims, "RENEW_SECONDS", 0.02)
    with ResultStore(path) as store:
        change(path, "DROP TABLE claims")
        with store.claims.renewing():
            deadline = time.monotonic() + 30
            while not caplog.records and time.monotonic() < deadline:
                time.sleep(0.02)
    assert "claims could not be renewed, so other processes may do the same work: the store" in caplog.text
