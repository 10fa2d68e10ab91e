"""What commands say and how they end: text or JSON on stdout, warnings and errors on stderr, exit codes."""

from __future__ import annotations

import codecs
import functools
import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, ParamSpec, TextIO

import typer
from rich.console import Console

from tabgnm._printable import printable
from tabgnm.cli.wording import in_file_terms, warning_text, worth_showing

if TYPE_CHECKING:
    from rich.console import RenderableType

P = ParamSpec("P")

_debugging = False

UNEXPECTED, USAGE, BAD_TABLE, BAD_MODEL, INTERRUPTED = 1, 2, 3, 4, 130
CLOSED_PIPE = 141  # what a shell reports of a program that SIGPIPE ended
_WIDTH_OF_A_PIPE = 120  # columns; a pipe has no width of its own, and tables should not be cut


class UsageProblem(ValueError):
    """Options that cannot be used, found out only when the command runs."""


class UnusableModel(ValueError):
    """A model that is fine, but not for this command."""


class _PipeConsole(Console):
    """A console that leaves a closed pipe to `command`."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console_of(stream: TextIO) -> Console:
    """Return a console; without colors in a pipe, and wide enough for tables there."""
    console = _PipeConsole(file=stream, highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDTH_OF_A_PIPE
    return console


class Output:
    """What a command tells: text as it goes, or one JSON object at the end.

    Parameters
    ----------
    as_json : bool
        Text is left out, and `finish` writes an object.
    to_stderr : bool, default=False
        Text goes to stderr, as stdout has the result itself.

    Attributes
    ----------
    warnings : list of str
        All that were shown.
    rows_before : int
        Rows of the file before those that warnings are about.
    """

    def __init__(self, *, as_json: bool, to_stderr: bool = False) -> None:
        self._as_json = as_json
        self._console = console_of(sys.stderr if to_stderr else sys.stdout)
        self.warnings: list[str] = []
        self.rows_before = 0

    def text(self, text: str = "", *, style: str | None = None) -> None:
        """Print lines; what a terminal would act on is escaped."""
        if not self._as_json:
            for line in text.split("\n"):
                self._console.print(printable(line), style=style, soft_wrap=True)

    def show(self, what: RenderableType) -> None:
        """Print a table of rich."""
        if not self._as_json:
            self._console.print(what)

    def finish(self, record: Mapping[str, Any]) -> None:
        """Write the JSON object, if one is wanted."""
        if self._as_json:
            write_json({**record, "warnings": self.warnings})

    @contextmanager
    def showing_warnings(self) -> Iterator[None]:
        """Within this, each warning is one line on stderr."""

        def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
            if issubclass(category, DeprecationWarning | PendingDeprecationWarning | FutureWarning):
                return  # for those who write code
            found = worth_showing(message)
            if found is None:
                return
            text = " ".join(warning_text(found, self.rows_before).split())
            if text not in self.warnings:
                self.warnings.append(text)
                error_line(text, kind="Warning", style="yellow")

        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = show
            yield


def write_json(record: Mapping[str, Any]) -> None:
    """Write one line with a JSON object to stdout; what is not a number becomes null.

    Characters are escaped if stdout is not UTF-8, or if a file name in the object is not.
    """
    plain = _plain(record)
    text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
    try:
        text.encode("utf-8" if _is_utf8(sys.stdout) else "ascii")
    except UnicodeEncodeError:
        text = json.dumps(plain, allow_nan=False)
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def write_json_error(message: str, code: int | str | None) -> None:
    """Write the JSON object of an error; stdout may be what failed, so that it cannot be written."""
    with suppress(OSError):
        write_json({"error": message, "exit_code": code})
    drop_unwritten()


def _is_utf8(stream: TextIO) -> bool:
    return codecs.lookup(stream.encoding or "utf-8").name == "utf-8"


def prepare_streams() -> None:
    """Make sure that stdout and stderr can be written, whatever their encoding; end the program if stdout is closed."""
    if sys.stdout is None:
        # Files that are opened later would take its place, and get what libraries print.
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - until the program ends
        error_line("standard output is closed; redirect it to a file, or to /dev/null")
        raise SystemExit(UNEXPECTED)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - until the program ends
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def drop_unwritten() -> bool:
    """Forget what stdout could not take, which Python would write again at exit; return whether there was any.

    Then stdout is on a full disk, or a pipe whose reader is gone.
    """
    try:
        sys.stdout.flush()
    except OSError:
        _discard_stdout()
        return True
    return False


def _discard_stdout() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(own) for key, own in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(own) for own in value]
    if hasattr(value, "tolist"):  # arrays and numbers of NumPy
        return _plain(value.tolist())
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value)


def error_line(message: str, *, kind: str = "Error", style: str = "bold red") -> None:
    """Write one line to stderr."""
    console = console_of(sys.stderr)
    console.print(f"{kind}: ", style=style, end="", soft_wrap=True)
    console.print(printable(" ".join(message.split())), soft_wrap=True)


def command(function: Callable[P, None]) -> Callable[P, None]:
    """Decorate a command: errors are one line without a traceback, and exit codes say what went wrong.

    With `--json`, stdout has an object with the error.
    """

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            function(*args, **kwargs)
            sys.stdout.flush()
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except KeyboardInterrupt:
            _end("interrupted", INTERRUPTED, as_json=bool(kwargs.get("as_json")))
        except BrokenPipeError:
            _end_silently()
        except Exception as error:  # the last resort of a program
            if type(error).__name__ == "OutputClosedError":
                _end_silently()
            if _debugging:
                raise
            message, code = _explained(error)
            _end(message, code, as_json=bool(kwargs.get("as_json")))

    return guarded


def _end(message: str, code: int, *, as_json: bool) -> None:
    if as_json:
        write_json_error(message, code)
    error_line(message)
    raise typer.Exit(code) from None


def _end_silently() -> None:
    """End as programs do whose reader is gone, like `head`."""
    # What is still buffered for the pipe has nowhere to go, also when Python closes stdout.
    _discard_stdout()
    raise typer.Exit(CLOSED_PIPE) from None


@contextmanager
def ending_in_one_line() -> Iterator[None]:
    """Within this, stdout that cannot be written is one line also for help pages, which are not of commands."""
    try:
        yield
    except OSError as error:
        if _debugging:
            raise
        error_line(os_error_text(error))
        raise SystemExit(UNEXPECTED) from None


def show_tracebacks(wanted: bool) -> None:
    """Say whether errors are shown with where they come from, as `--debug` wants it."""
    global _debugging
    _debugging = wanted


def _explained(error: Exception) -> tuple[str, int]:
    """Return what to say about an error, and the exit code."""
    from tabgnm._extras import MissingExtraError
    from tabgnm._files.errors import FileError
    from tabgnm.cli.tablefiles import TableFileError, TableOptionError

    modules = sys.modules
    if isinstance(error, TableFileError) and not isinstance(error, TableOptionError):
        return str(error), BAD_TABLE
    if isinstance(error, UsageProblem | TableOptionError):
        return str(error), USAGE
    # Asked for by name, so that errors that nobody can have raised are not imported.
    for module, name in (("tabgnm.modelfile.errors", "ModelFileError"), ("tabgnm.export.program", "ExportError")):
        if module in modules and isinstance(error, getattr(modules[module], name)):
            return in_file_terms(str(error)), BAD_MODEL
    if isinstance(error, UnusableModel):
        return str(error), BAD_MODEL
    if isinstance(error, MissingExtraError | FileError):
        return str(error), UNEXPECTED
    if isinstance(error, OSError):
        return os_error_text(error), UNEXPECTED
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}", UNEXPECTED
    if "tabgnm.table.errors" in modules and isinstance(error, modules["tabgnm.table.errors"].TableError):
        return str(error), BAD_TABLE
    return f"{type(error).__name__}: {error} (tabgnm --debug ... shows the traceback)", UNEXPECTED


def os_error_text(error: OSError) -> str:
    """Return what an error of the operating system is about, and what it is."""
    what = f"{error.strerror or error}"
    if error.filename:
        return f"{error.filename!r}: {what}"
    return f"standard output cannot be written: {what}" if drop_unwritten() else what


@contextmanager
def table_is_to_blame(rows_before: int = 0) -> Iterator[None]:
    """Within this, errors about values come from the table: parameters have been checked before it was read.

    `rows_before` is the number of rows of the file before those that are used.
    """
    from tabgnm._files.errors import FileError
    from tabgnm.cli.tablefiles import TableFileError

    try:
        yield
    except (ValueError, TypeError) as error:
        if isinstance(error, FileError | TableFileError | UsageProblem | UnusableModel) or _debugging:
            raise
        raise TableFileError(in_file_terms(str(error), rows_before)) from error
