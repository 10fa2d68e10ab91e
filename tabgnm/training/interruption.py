"""Handling of Ctrl-C: training ends between two epochs, where everything is consistent."""

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
    """While active, the first Ctrl-C only requests the end of training; the second one raises KeyboardInterrupt.

    Only the main thread receives signals, and a program's own handler is not replaced. An interruption that is created
    within `around` of another one, in any thread, belongs to it: a request to either of them ends both.
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

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the arguments of signal handlers
        if self.requested:
            raise KeyboardInterrupt
        self.request()
        _log.warning("interrupted: stopping after this epoch with the best weights so far; Ctrl-C again discards them")
