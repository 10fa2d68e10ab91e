"""Ctrl-C that ends training between two epochs, where everything is consistent, instead of anywhere."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

_log = logging.getLogger("tabgnm.training")
_of_thread = threading.local()


def is_within_fit() -> bool:
    """Whether this thread is within a fit, for example in a callback."""
    return getattr(_of_thread, "innermost", None) is not None


class Interruption:
    """While active, the first Ctrl-C only requests an end; the second one raises KeyboardInterrupt as usual.

    Signals reach the main thread only, and a program's own handler is left alone. A request within another one's
    `around`, in whatever thread, ends that one too; and the other way round.
    """

    def __init__(self) -> None:
        self._outer: Interruption | None = getattr(_of_thread, "innermost", None)
        self._event = threading.Event()
        self._by_user = False
        self._installed = False

    @property
    def requested(self) -> bool:
        """Whether training should end."""
        return self._event.is_set() or (self._outer is not None and self._outer.requested)

    @property
    def by_user(self) -> bool:
        """Whether Ctrl-C or a callback asked for the end, not a deadline."""
        return self._by_user or (self._outer is not None and self._outer.by_user)

    def request(self) -> None:
        """Request the end of all training around this, as Ctrl-C does."""
        self._by_user = True
        self.end_within()
        if self._outer is not None:
            self._outer.request()

    def end_within(self) -> None:
        """Request the end of what runs within this only."""
        self._event.set()

    @contextmanager
    def around(self) -> Iterator[None]:
        """Within this, in this thread: whatever else is trained ends when this does."""
        before = getattr(_of_thread, "innermost", None)
        _of_thread.innermost = self
        try:
            yield
        finally:
            _of_thread.innermost = before

    def __enter__(self) -> Interruption:
        in_main_thread = threading.current_thread() is threading.main_thread()
        if in_main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._on_signal)
            self._installed = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - what signals pass
        if self.requested:
            raise KeyboardInterrupt
        self.request()
        _log.warning("interrupted: stopping after this epoch with the best weights so far; Ctrl-C again stops at once")
