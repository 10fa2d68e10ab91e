"""Help pages of commands, without types of flags and with whole paragraphs; and errors about their options."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from tabgnm.cli.terminal import write_json_error

Function = TypeVar("Function", bound=Callable[..., Any])


def _without_types_of_flags(parameters: list[Any]) -> list[Any]:
    """Say nothing where typer would say that a flag takes a `<bool>`, also that of `--help`."""
    for own in parameters:
        if getattr(own, "is_flag", False) and own.metavar is None:
            own.metavar = ""
    return parameters


def _with_whole_paragraphs(text: str) -> str:
    r"""Join the lines of paragraphs, which typer would break where the source does; indented lines are commands.

    Examples
    --------
    >>> _with_whole_paragraphs("One\nparagraph.\n\nFor example:\n  tabgnm demo")
    'One paragraph.\n\nFor example:\n$ tabgnm demo'
    """
    lines = inspect.cleandoc(text).splitlines()
    joined = lines[:1]
    for before, line in pairwise(lines):
        if line.startswith(" "):
            joined.append(f"$ {line.strip()}")  # typer would remove the indentation
        elif before and line:
            joined[-1] = f"{joined[-1]} {line}"
        else:
            joined.append(line)
    return "\n".join(joined)


class Command(TyperCommand):
    """A command with a help page for people."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse options; errors come without the prefix of the library that validates choices."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters as the page shows them."""
        return _without_types_of_flags(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands with a help page for people, and errors about options for programs."""

    def main(self, *args: Any, **settings: Any) -> Any:
        """Run a command; with `--json`, errors that typer finds in the options are an object on stdout, too."""
        try:
            return super().main(*args, **settings)
        except SystemExit as ended:
            error: Any = ended.__context__  # what typer ended with, after it has shown it
            given = args[0] if args else settings.get("args")
            if "--json" in (sys.argv if given is None else given) and hasattr(error, "format_message"):
                write_json_error(error.format_message(), ended.code)
            raise

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters as the page shows them."""
        return _without_types_of_flags(super().get_params(ctx))


class App(typer.Typer):
    """A command line whose commands have such help pages."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=Group, no_args_is_help=True, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Function], Function]:
        """Decorate a function: its docstring is the help page."""

        def added(function: Function) -> Function:
            text = _with_whole_paragraphs(function.__doc__ or "")
            return super(App, self).command(name, cls=Command, help=text, **settings)(function)

        return added
