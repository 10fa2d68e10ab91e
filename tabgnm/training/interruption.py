"""Handling of Ctrl-C: training ends between two epochs, where everything is consistent."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

_log = logging.getLogger("tabgnm.training")
_of_thread = threading.local()


def is_within_fit() -> bool:
    """Whether this thread is within a fit, for example in a callback."""
    return getattr(_of_thread, "innermost", None) is not None


class Interruption:
    """While active, the first Ctrl-C only requests the end of training; the second one raises KeyboardInterrupt.

    Only the main thread receives signals, and a program's own handler is not replaced. An interruption that is created
    within `around` of another one, in any thread, belongs to it: a request to either of them ends both. Of those that
    do not belong to each other, the one that was entered last gets the signal. There can be several, because a
    generator of results that the program has not exhausted keeps its interruption active.
    """

    def __init__(self) -> None:
        self._outer: Interruption | None = getattr(_of_thread, "innermost", None)
        self._event = threading.Event()
        self._by_user = False
        self._active = False
        self._handler_before: Any = None  # None unless this handles the signal

    @property
    def requested(self) -> bool:
        """Whether training should end."""
        return self._event.is_set() or (self._outer is not None and self._outer.requested)

    @property
    def by_user(self) -> bool:
        """Whether Ctrl-C or a callback requested the end, not a deadline."""
        return self._by_user or (self._outer is not None and self._outer.by_user)

    def request(self) -> None:
        """Request the end of this and of all outer training, like Ctrl-C."""
        self._by_user = True
        self.end_within()
        if self._outer is not None:
            self._outer.request()

    def end_within(self) -> None:
        """Request the end of this and of all inner training."""
        self._event.set()

    @contextmanager
    def around(self) -> Iterator[None]:
        """Within this context, in this thread, new interruptions become inner ones of this interruption."""
        before = getattr(_of_thread, "innermost", None)
        _of_thread.innermost = self
        try:
            yield
        finally:
            _of_thread.innermost = before

    def __enter__(self) -> Interruption:
        self._active = True
        if threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(signal.SIGINT)
            other = _interruption_of(handler)
            if handler is signal.default_int_handler or (other is not None and not self._belongs_to(other)):
                self._handler_before = handler
                signal.signal(signal.SIGINT, self._on_signal)
        return self

    def _belongs_to(self, other: Interruption) -> bool:
        return self._outer is not None and (self._outer is other or self._outer._belongs_to(other))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._active = False
        if self._handler_before is None or _interruption_of(signal.getsignal(signal.SIGINT)) is not self:
            return
        handler = self._handler_before
        while (other := _interruption_of(handler)) is not None and not other._active:
            handler = other._handler_before
        signal.signal(signal.SIGINT, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the arguments of signal handlers
        if self.requested:
            raise KeyboardInterrupt
        self.request()
        _log.warning("interrupted: stopping after this epoch with the best weights so far; Ctrl-C again discards them")


@contextmanager
def ctrl_c_raises() -> Iterator[None]:
    """Raise KeyboardInterrupt at the end of this context if Ctrl-C ended a fit within it.

    For callers that have no use for incomplete results: the fit itself returns normally, possibly with the status
    "completed", if Ctrl-C arrived in its last epoch.
    """
    with Interruption() as interruption, interruption.around():
        yield
    if interruption.requested:
        raise KeyboardInterrupt


def _interruption_of(handler: object) -> Interruption | None:
    """Return the interruption whose method handles a signal, if any does."""
    owner = getattr(handler, "__self__", None)
    return owner if isinstance(owner, Interruption) else None
