"""Where progress is shown: a bar in a terminal or in a notebook, lines of a log anywhere else."""

from __future__ import annotations

import contextvars
import html
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.console import Console

_log = logging.getLogger("tabgnm")

_NOTEBOOK_SECONDS = 0.3  # between two updates
# Between two lines of a log: few in a long fit, but the first ones soon.
_LOG_SECONDS, _LOG_SHARE = 10.0, 0.1


@dataclass(frozen=True)
class ProgressState:
    """How far training is.

    Attributes
    ----------
    share : float
        From 0 to 1.
    n_done, n_models : int
    best : str
        The best score so far and its name; may be empty.
    seconds, seconds_left : float
        `seconds_left` is NaN as long as it is not known.
    """

    share: float
    n_done: int
    n_models: int
    best: str
    seconds: float
    seconds_left: float

    def __str__(self) -> str:
        left = "" if self.seconds_left != self.seconds_left else f"{clock(self.seconds_left)} left"
        if self.share >= 1:
            left = clock(self.seconds)
        counts = f"{self.n_done}/{self.n_models} networks"
        return ", ".join(part for part in (f"{self.share:4.0%}", counts, self.best, left) if part)


class ProgressDisplay(Protocol):
    """Something that shows a state."""

    def update(self, state: ProgressState) -> None:
        """Show a state; not every one has to be shown."""
        ...

    def close(self, state: ProgressState) -> None:
        """Show the last state."""
        ...


@contextmanager
def display(console: Console | None = None) -> Iterator[ProgressDisplay]:
    """Open the display that suits the place where the program runs; `console` is a terminal to use if it is one."""
    shell = None if console is not None else _notebook()
    if shell is not None:
        yield _NotebookDisplay()
        return
    from rich.console import Console

    console = console or Console(stderr=True)
    if console.is_terminal and not console.is_dumb_terminal:
        yield _TerminalDisplay(console)
    else:
        with _visible_log():
            yield LogDisplay()


def clock(seconds: float) -> str:
    """Return a duration as h:mm:ss, or m:ss if it is short."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class _TerminalDisplay:
    """A line that is redrawn, and taken away at the end."""

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
    """An output of the cell that is updated in place; it needs nothing but IPython.

    The bars of rich would need ipywidgets, and without them show nothing before the end.
    """

    def __init__(self) -> None:
        from IPython.display import display  # installed where there is a notebook

        # Kernels find the cell by the context, which threads of training do not have.
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
    """Lines in the log, the fewer the longer it takes, and one at the end."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = self._last = clock()

    def update(self, state: ProgressState) -> None:
        """Log the state if the last line is a while ago."""
        now = self._clock()
        if now - self._last >= max(_LOG_SECONDS, _LOG_SHARE * (now - self._began)):
            self._last = now
            _log.info("training: %s", str(state).strip())

    def close(self, state: ProgressState) -> None:
        """Log how it ended."""
        best = f"; {state.best}" if state.best else ""
        _log.info("trained %d of %d networks in %s%s", state.n_done, state.n_models, clock(state.seconds), best)


def _notebook() -> Any:
    """Return the shell of a Jupyter kernel, or None."""
    module = sys.modules.get("IPython")  # loaded in a notebook
    shell = None if module is None else module.get_ipython()
    return shell if hasattr(shell, "kernel") else None


def _is_configured() -> bool:
    """Whether somebody has decided where lines of the logger go, or which ones."""
    handlers = [*_log.handlers, *logging.getLogger().handlers]
    return _log.level != logging.NOTSET or any(not isinstance(own, logging.NullHandler) for own in handlers)


_n_visible = 0
_lock = threading.Lock()
_handler: logging.Handler | None = None


@contextmanager
def _visible_log() -> Iterator[None]:
    """Within this, INFO lines of the logger `tabgnm` go to stderr if nobody has configured logging."""
    global _n_visible, _handler
    with _lock:
        _n_visible += 1
        if _n_visible == 1 and not _is_configured():
            _handler = logging.StreamHandler()
            _handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s", "%H:%M:%S"))
            _log.addHandler(_handler)
            _log.setLevel(logging.INFO)
    try:
        yield
    finally:
        with _lock:
            _n_visible -= 1
            if _n_visible == 0 and _handler is not None:
                _log.removeHandler(_handler)
                if _log.level == logging.INFO:  # else somebody has set it meanwhile
                    _log.setLevel(logging.NOTSET)
                _handler = None
