"""Handling of Ctrl-C: training ends between two epochs, where everything is consistent."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_log = logging.getLogger("tabgnm.training")
_of_thread = threading.local()


def is_within_fit() -> bool:
    """Whether this thread is within a fit, for example in a callback, or within other work that Ctrl-C ends."""
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
        if threading.current_thread() is threading.main_thread() and (self._outer is None or not _handling):
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                signal.signal(signal.SIGINT, _on_signal)
            if signal.getsignal(signal.SIGINT) is _on_signal:
                _handling.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        if self in _handling:
            _handling.remove(self)
        is_ours = not _handling and signal.getsignal(signal.SIGINT) is _on_signal
        if is_ours and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.default_int_handler)


_handling: list[Interruption] = []  # that get Ctrl-C; the last of them gets the next one


def _on_signal(number: int, frame: FrameType | None) -> None:
    if not _handling or _handling[-1].requested:
        signal.default_int_handler(number, frame)
    _handling[-1].request()
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
