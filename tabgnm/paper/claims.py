"""Claims: how processes that share a results store divide the work and wait for one another.

A process renews its claims every `RENEW_SECONDS`. Another process may take over a claim if

- the process that owns it was on this machine and no longer exists,
- it has not been renewed for `CLAIM_SECONDS`, or is dated that far into the future (the clock was changed),
- or it is damaged, so that its owner is unknown.
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
WAIT_SECONDS = 1.0  # before checking again whether other processes have finished the work they claimed
MAX_WAIT_SECONDS = 3600.0  # without a new result
_ROUNDS_WITHOUT_OWNER = 10  # of waiting for work that no process has claimed

_log = logging.getLogger("tabgnm.paper")


@dataclass(frozen=True)
class Owner:
    """A process with claims: its host, its process id, and when it opened the store (seconds since 1970)."""

    host: str
    pid: int
    since: int
    unique: str  # distinguishes the stores that a process has open

    @classmethod
    def of_this_process(cls) -> Owner:
        """Return a new owner for this process."""
        return cls(socket.gethostname(), os.getpid(), int(time.time()), uuid.uuid4().hex[:8])

    @classmethod
    def from_text(cls, text: Any) -> Owner | None:
        """Parse the result of `as_text`; return None if it is damaged."""
        parts = text.rsplit(":", 3) if isinstance(text, str) else []
        if len(parts) != 4 or not all(part.isdecimal() and len(part) < 12 for part in parts[1:3]):
            return None
        host, pid, since, unique = parts
        return cls(host, int(pid), int(since), unique) if int(pid) > 0 else None

    def as_text(self) -> str:
        """Return the text that is stored."""
        return f"{self.host}:{self.pid}:{self.since}:{self.unique}"

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.since, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f"process {self.pid} on {printable(brief(self.host))} (running since {since})"

    def is_gone(self) -> bool:
        """Whether the process is known to have ended."""
        if self.host != socket.gethostname() or os.name == "nt":  # on Windows, `os.kill` cannot test for a process
            return False
        try:
            os.kill(self.pid, 0)
        except (ProcessLookupError, OverflowError):
            return True
        except OSError:  # the process belongs to another user
            return False
        return False


def owner_of_claim(owner: Any, renewed: Any) -> Owner | None:
    """Return the owner of a claim, given its columns; None if it may be taken over."""
    if not isinstance(renewed, float) or abs(time.time() - renewed) > CLAIM_SECONDS:
        return None
    found = Owner.from_text(owner)
    return None if found is None or found.is_gone() else found


def is_claim(key: Any, owner: Any, renewed: Any) -> bool:
    """Whether the columns of a claim are valid; it may be stale."""
    readable = isinstance(key, str) and isinstance(renewed, float) and math.isfinite(renewed)
    return readable and Owner.from_text(owner) is not None


class Claims:
    """The claims of this process and of others in a store."""

    def __init__(self, file: StoreFile) -> None:
        self._file = file
        self.owner = Owner.of_this_process()

    def take(self, keys: Sequence[str]) -> set[str]:
        """Claim work; return the keys that are neither done nor claimed by another running process."""
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
        """Return the running processes that have claimed some of these keys, and how many each has claimed."""
        return Counter(self._of_others(keys).values())

    def _of_others(self, keys: Sequence[str]) -> dict[str, Owner]:
        claims = self._file.rows_of("SELECT key, owner, renewed FROM claims WHERE key IN", keys)
        owners = {key: owner_of_claim(owner, renewed) for key, owner, renewed in claims}
        return {key: owner for key, owner in owners.items() if owner is not None and owner != self.owner}

    def drop(self, keys: Sequence[str]) -> None:
        """Delete the claims to these keys, whoever owns them, because their work is done."""
        self._file.execute_many("DELETE FROM claims WHERE key = ?", [(key,) for key in keys])

    def release(self) -> None:
        """Delete the remaining claims of this process."""
        self._file.rows("DELETE FROM claims WHERE owner = ?", (self.owner.as_text(),))

    def renew(self) -> None:
        """Record that this process is still working on what it claimed."""
        self._file.rows("UPDATE claims SET renewed = ? WHERE owner = ?", (time.time(), self.owner.as_text()))

    @contextmanager
    def renewing(self) -> Iterator[None]:
        """Renew all claims of this process in the background."""
        ended = threading.Event()

        def renew() -> None:
            while not ended.wait(RENEW_SECONDS):
                try:
                    self.renew()
                except StoreError as error:  # noqa: PERF203 - if the error persists, the next write raises it
                    _log.warning("claims could not be renewed, so other processes may do the same work: %s", error)

        thread = threading.Thread(target=renew, daemon=True, name="tabgnm-claims")
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


class WaitingForOthers:
    """Waits for work that other processes have claimed, logs their names, and raises if they make no progress.

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
            If there has been no new result for `max_seconds`, or no process is working on what is left.
        """
        now = time.monotonic()
        if len(keys) != self._n_left:
            self._n_left, self._last_result = len(keys), now
        owners = self._claims.others(keys)
        names = "; ".join(f"{owner}: {n:,} of the {len(keys):,} remaining trainings" for owner, n in owners.items())
        if owners and not owners.keys() <= self._named:
            _log.warning("waiting for trainings that other processes have claimed: %s", names)
            self._named = set(owners)
        self._rounds_without_owner = 0 if owners else self._rounds_without_owner + 1
        if self._rounds_without_owner >= _ROUNDS_WITHOUT_OWNER:
            raise StoreError(
                f"{len(keys):,} trainings are neither stored nor claimed by any process, but cannot be claimed: the "
                "store has other content under their keys. Move it away and start a new one, or merge it into a new one"
            )
        if owners and now - self._last_result >= self._max_seconds:
            raise StoreError(
                f"waited {self._max_seconds:,.0f} s without a new result for {names}. Stored results are kept. If the "
                "processes are still working, run the same command again later. If one hangs, end it; other processes "
                f"take over its claims: at once on the same machine, after {CLAIM_SECONDS:.0f} s on others"
            )
        time.sleep(WAIT_SECONDS)
