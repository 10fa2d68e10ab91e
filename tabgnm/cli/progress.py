"""What commands show while they work, on stderr: bars and lines that go away in a terminal, log lines elsewhere."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tabgnm.cli.terminal import console_of

if TYPE_CHECKING:
    from rich.console import Console

_log = logging.getLogger("tabgnm")


class _Lines(logging.Handler):
    """Passes lines of the log that are not warnings, which `main` shows, to a function."""

    def __init__(self, write: Callable[[str], object]) -> None:
        super().__init__()
        self._write = write
        self.addFilter(lambda record: record.levelno < logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        self._write(record.getMessage())


@contextmanager
def _log_to(write: Callable[[str], object]) -> Iterator[None]:
    """Within this, each line of the log is passed to a function."""
    handler, level = _Lines(write), _log.level
    _log.addHandler(handler)
    _log.setLevel(logging.INFO)
    try:
        yield
    finally:
        _log.removeHandler(handler)
        _log.setLevel(level)


@contextmanager
def showing_progress(*, wanted: bool) -> Iterator[int]:
    """Yield the `verbose` of an estimator; within this, lines of the log go to stderr, above a bar if one is shown."""
    if not wanted:
        yield 0
        return
    # stderr as it is when a line is written: while a bar is shown, rich puts what is written above it.
    with _log_to(lambda line: print(line, file=sys.stderr)):  # noqa: T201 - this is a program
        yield 1


def _terminal(*, wanted: bool) -> Console | None:
    """Return the console of stderr if it is a terminal on which something can be drawn and taken away."""
    console = console_of(sys.stderr)
    return console if wanted and console.is_terminal and not console.is_dumb_terminal else None


def in_terminal() -> bool:
    """Whether a bar can be shown."""
    return _terminal(wanted=True) is not None


@contextmanager
def showing_steps(first: str, *, wanted: bool) -> Iterator[Callable[[str], None]]:
    """Show what is being done and for how long, on a line of stderr that goes away; only in a terminal.

    Yields a function that says what is done now; lines of the log say it, too.
    """
    console = _terminal(wanted=wanted)
    if console is None:
        yield lambda _: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(first, total=None)

        def say(step: str) -> None:
            progress.update(task, description=step)

        with _log_to(say):
            yield say


@contextmanager
def row_counter(*, wanted: bool) -> Iterator[Callable[[int], None]]:
    """Yield a function that shows how many rows are done, on a line of stderr that goes away; only in a terminal."""
    with showing_steps("reading the first rows", wanted=wanted) as say:
        yield lambda n_rows: say(f"{n_rows:,} rows")
