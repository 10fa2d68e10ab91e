"""Ctrl-C that ends training between two epochs, where everything is consistent, instead of anywhere."""

from __future__ import annotations

import logging
import signal
import threading
from types import FrameType, TracebackType

_log = logging.getLogger("tabgnm.training")


class Interruption:
    """While active, the first Ctrl-C only asks for an end; the second one raises KeyboardInterrupt as usual.

    Signals reach the main thread only, and a program's own handler is left alone.
    """

    def __init__(self) -> None:
        self.requested = False
        self._installed = False

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
        self.requested = True
        _log.warning("interrupted: stopping after this epoch with the best weights so far; Ctrl-C again stops at once")
