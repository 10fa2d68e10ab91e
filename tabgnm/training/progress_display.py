"""Displays of progress: a bar in a terminal or notebook, log messages anywhere else."""

from __future__ import annotations

import contextvars
import html
import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

_log = logging.getLogger("tabgnm")

_NOTEBOOK_SECONDS = 0.3  # between two updates
# Between two log messages: few in a long fit, but the first ones soon.
_LOG_SECONDS, _LOG_SHARE = 10.0, 0.1


@dataclass(frozen=True)
class ProgressState:
    """The progress of training."""

    share: float  # the fraction that is done, from 0 to 1
    n_done: int
    n_models: int
    best: str  # the best score so far and its name; may be empty
    seconds: float
    seconds_left: float  # NaN if it is not known yet

    def __str__(self) -> str:
        left = "" if self.seconds_left != self.seconds_left else f"{clock(self.seconds_left)} left"
        if self.share >= 1:
            left = clock(self.seconds)
        counts = f"{self.n_done}/{self.n_models} networks"
        return ", ".join(part for part in (f"{self.share:4.0%}", counts, self.best, left) if part)


@contextmanager
def display(console: Console | None = None) -> Iterator[ProgressDisplay]:
    """Open the display that suits the environment; `console` is used if it is a terminal."""
    shell = None if console is not None else _notebook()
    if shell is not None:
        yield _NotebookDisplay()
        return
    from rich.console import Console

    console = console or Console(stderr=True)
    if console.is_terminal and not console.is_dumb_terminal:
        yield _TerminalDisplay(console)
    else:
        with _visible_log:
            yield LogDisplay()


def clock(seconds: float) -> str:
    """Return a duration as h:mm:ss, or m:ss if it is short."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class _TerminalDisplay:
    """A line that is redrawn, and removed at the end."""

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        columns = BarColumn(), TextColumn("{task.description}", markup=False)
        self._bar = Progress(*columns, console=console, transient=True)
        self._task = self._bar.add_task("", total=1.0)
        self._bar.start()

    def update(self, state: ProgressState) -> None:
        self._bar.update(self._task, completed=state.share, description=str(state))

    def close(self, state: ProgressState) -> None:
        self.update(state)
        self._bar.stop()


class _NotebookDisplay:
    """An output of the cell that is updated in place; it only needs IPython.

    The bars of rich need ipywidgets; without them, they show nothing before the end.
    """

    def __init__(self) -> None:
        from IPython.display import display  # always installed in a notebook

        # Kernels find the cell by the context, which training threads do not inherit.
        self._context = contextvars.copy_context()
        nothing = self._data(ProgressState(0, 0, 0, "", 0, float("nan")))
        self._handle: Any = display(nothing, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        self._last = time.monotonic()

    def update(self, state: ProgressState) -> None:
        if time.monotonic() - self._last >= _NOTEBOOK_SECONDS:
            self._show(state)

    def close(self, state: ProgressState) -> None:
        self._show(state)

    def _show(self, state: ProgressState) -> None:
        self._context.run(self._handle.update, self._data(state), raw=True)
        self._last = time.monotonic()

    @staticmethod
    def _data(state: ProgressState) -> dict[str, str]:
        bar = f'<progress max="1" value="{state.share:.3f}" style="width: 20em"></progress>'
        return {"text/plain": str(state), "text/html": f"{bar} {html.escape(str(state))}"}


class LogDisplay:
    """Log messages, less and less frequent in long fits, and one at the end."""

    def __init__(self) -> None:
        self._began = self._last = time.monotonic()

    def update(self, state: ProgressState) -> None:
        """Log the state if the last message was some time ago."""
        now = time.monotonic()
        if now - self._last >= max(_LOG_SECONDS, _LOG_SHARE * (now - self._began)):
            self._last = now
            _log.info("training: %s", str(state).strip())

    def close(self, state: ProgressState) -> None:
        """Log the final state."""
        best = f"; {state.best}" if state.best else ""
        _log.info("trained %d of %d networks in %s%s", state.n_done, state.n_models, clock(state.seconds), best)


ProgressDisplay = _TerminalDisplay | _NotebookDisplay | LogDisplay


def _notebook() -> Any:
    """Return the shell of a Jupyter kernel, or None."""
    module = sys.modules.get("IPython")  # loaded in a notebook
    shell = None if module is None else module.get_ipython()
    return shell if hasattr(shell, "kernel") else None


def _is_configured() -> bool:
    """Whether the user has set a handler or a level for messages of the logger."""
    handlers = [*_log.handlers, *logging.getLogger().handlers]
    return _log.level != logging.NOTSET or any(not isinstance(own, logging.NullHandler) for own in handlers)


class _VisibleLog:
    """Sends INFO messages of the logger `tabgnm` to stderr while any fit shows them, unless logging is configured."""

    def __init__(self) -> None:
        self._lock, self._n_users = threading.Lock(), 0
        self._handler: logging.Handler | None = None

    def __enter__(self) -> None:
        with self._lock:
            self._n_users += 1
            if self._n_users == 1 and not _is_configured():
                self._handler = logging.StreamHandler()
                self._handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s", "%H:%M:%S"))
                _log.addHandler(self._handler)
                _log.setLevel(logging.INFO)

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._n_users -= 1
            if self._n_users == 0 and self._handler is not None:
                _log.removeHandler(self._handler)
                self._handler = None
                if _log.level == logging.INFO:  # otherwise the user has set it meanwhile
                    _log.setLevel(logging.NOTSET)


_visible_log = _VisibleLog()
