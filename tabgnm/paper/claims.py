"""Claims: processes that share a results store each say what they are working on, and wait for one another.

A process renews its claims every `RENEW_SECONDS`. A claim is taken over by whoever wants its work, if its process

- is on this machine and does not exist any more,
- has not renewed it for `CLAIM_SECONDS`, or dates it that far into the future (the clock was changed),
- or cannot be told, because the claim is damaged.
"""

from __future__ import annotations

import logging
import math
import os
import socket
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from tabgnm._printable import brief, printable
from tabgnm.paper.store_file import StoreError, StoreFile

CLAIM_SECONDS = 120.0
RENEW_SECONDS = 20.0
WAIT_SECONDS = 1.0  # before looking again whether other processes have done what they claimed
MAX_WAIT_SECONDS = 3600.0  # without a new result of those that are waited for
_ROUNDS_WITHOUT_OWNER = 10  # of waiting for work that nobody has claimed

_log = logging.getLogger("tabgnm.paper")


@dataclass(frozen=True)
class Owner:
    """A process with claims: its machine, its number, and when it opened the store (seconds since 1970)."""

    host: str
    pid: int
    since: int
    unique: str  # tells apart two stores that a process has open

    @classmethod
    def of_this_process(cls) -> Owner:
        """A new owner."""
        return cls(socket.gethostname(), os.getpid(), int(time.time()), uuid.uuid4().hex[:8])

    @classmethod
    def from_text(cls, text: Any) -> Owner | None:
        """Read what `as_text` gave; None if it is damaged."""
        parts = text.rsplit(":", 3) if isinstance(text, str) else []
        if len(parts) != 4 or not all(part.isdecimal() and len(part) < 12 for part in parts[1:3]):
            return None
        host, pid, since, unique = parts
        return cls(host, int(pid), int(since), unique) if int(pid) > 0 else None

    def as_text(self) -> str:
        """For the store."""
        return f"{self.host}:{self.pid}:{self.since}:{self.unique}"

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.since, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f"process {self.pid} on {printable(brief(self.host))} (at work since {since})"

    def is_gone(self) -> bool:
        """Whether the process is known not to exist any more."""
        if self.host != socket.gethostname() or os.name == "nt":  # asking for a process is not possible on Windows
            return False
        try:
            os.kill(self.pid, 0)
        except (ProcessLookupError, OverflowError):
            return True
        except OSError:  # it is another user's
            return False
        return False


def owner_of_claim(owner: Any, renewed: Any) -> Owner | None:
    """Return whose claim it is, by its columns; None if it may be taken over."""
    if not isinstance(renewed, float) or abs(time.time() - renewed) > CLAIM_SECONDS:
        return None
    found = Owner.from_text(owner)
    return None if found is None or found.is_gone() else found


def is_claim(key: Any, owner: Any, renewed: Any) -> bool:
    """Whether the columns of a claim are what tabgnm writes, be it stale or not."""
    readable = isinstance(key, str) and isinstance(renewed, float) and math.isfinite(renewed)
    return readable and Owner.from_text(owner) is not None


class Claims:
    """The claims of this process, and those of others, in a store."""

    def __init__(self, file: StoreFile) -> None:
        self._file = file
        self.owner = Owner.of_this_process()

    def take(self, keys: Sequence[str]) -> set[str]:
        """Make work this process's own; returns the keys that are neither done nor another living process's."""
        with self._file.transaction():
            taken = {
                row[0]
                for table in ("results", "records")
                for row in self._file.rows_of(f"SELECT key FROM {table} WHERE key IN", keys)
            }
            taken |= set(self._of_others(keys))
            free = set(keys) - taken
            now, owner = time.time(), self.owner.as_text()
            self._file.execute_many(
                "INSERT OR REPLACE INTO claims VALUES (?, ?, ?)", [(key, owner, now) for key in sorted(free)]
            )
        return free

    def others(self, keys: Sequence[str]) -> Counter[Owner]:
        """Return the living processes that have claimed some of these keys, and how many each."""
        return Counter(self._of_others(keys).values())

    def _of_others(self, keys: Sequence[str]) -> dict[str, Owner]:
        claims = self._file.rows_of("SELECT key, owner, renewed FROM claims WHERE key IN", keys)
        owners = {key: owner_of_claim(owner, renewed) for key, owner, renewed in claims}
        return {key: owner for key, owner in owners.items() if owner is not None and owner != self.owner}

    def drop(self, keys: Sequence[str]) -> None:
        """Give up the claims to these keys, whoever has them: they are done."""
        self._file.execute_many("DELETE FROM claims WHERE key = ?", [(key,) for key in keys])

    def release(self) -> None:
        """Give back all that this process claimed and has not done."""
        self._file.rows("DELETE FROM claims WHERE owner = ?", (self.owner.as_text(),))

    def renew(self) -> None:
        """Say that this process is still at work on what it claimed."""
        self._file.rows("UPDATE claims SET renewed = ? WHERE owner = ?", (time.time(), self.owner.as_text()))

    @contextmanager
    def renewing(self) -> Iterator[None]:
        """Renew all claims of this process in the background."""
        ended = threading.Event()

        def renew() -> None:
            while not ended.wait(RENEW_SECONDS):
                try:
                    self.renew()
                except StoreError as error:  # noqa: PERF203 - the next turn, or the next write, will show whether it lasts
                    _log.warning("claims could not be renewed, so other processes may do the same work: %s", error)

        thread = threading.Thread(target=renew, daemon=True, name="tabgnm-claims")
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


class WaitingForOthers:
    """Waits for work that other processes have claimed: logs for whom, and ends if nothing comes of it.

    Parameters
    ----------
    claims : Claims
    max_seconds : float
        How long to wait without a new result.
    """

    def __init__(self, claims: Claims, max_seconds: float) -> None:
        self._claims, self._max_seconds = claims, max_seconds
        self._n_left = -1
        self._last_result = 0.0
        self._named: set[Owner] = set()
        self._rounds_without_owner = 0

    def pause(self, keys: Sequence[str]) -> None:
        """Wait a moment for the rest of the work.

        Raises
        ------
        StoreError
            When no new result has come for `max_seconds`, or when nobody is at work on what is left.
        """
        now = time.monotonic()
        if len(keys) != self._n_left:
            self._n_left, self._last_result = len(keys), now
        owners = self._claims.others(keys)
        names = "; ".join(f"{owner}: {n:,} of the {len(keys):,} trainings that are left" for owner, n in owners.items())
        if owners and not owners.keys() <= self._named:
            _log.warning("waiting for what other processes have claimed: %s", names)
            self._named = set(owners)
        self._rounds_without_owner = 0 if owners else self._rounds_without_owner + 1
        if self._rounds_without_owner >= _ROUNDS_WITHOUT_OWNER:
            raise StoreError(
                f"{len(keys):,} trainings are neither stored nor claimed by any process, and still cannot be claimed: "
                "the store holds other content under their keys. Move it away and start a new one, or merge it into one"
            )
        if owners and now - self._last_result >= self._max_seconds:
            raise StoreError(
                f"waited {self._max_seconds:,.0f} s without a new result for {names}. What is stored is kept. If these "
                "processes are still at work, run the same command again later; if one hangs, end it, and what it "
                f"claimed is taken over: at once on its own machine, after {CLAIM_SECONDS:.0f} s on others"
            )
        time.sleep(WAIT_SECONDS)
