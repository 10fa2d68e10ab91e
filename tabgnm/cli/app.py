"""The commands and their options; each command's work is in a module of its own, imported when it runs."""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from tabgnm import __version__
from tabgnm._extras import MissingExtraError
from tabgnm.cli.datasets import datasets_app
from tabgnm.cli.fitting_commands import fit, search
from tabgnm.cli.machine_commands import export, play, sparsify
from tabgnm.cli.model_commands import evaluate, info, predict, report
from tabgnm.cli.paper import paper_app
from tabgnm.cli.terminal import show_tracebacks

app = typer.Typer(
    name="tabgnm",
    help="The Graph Neural Machine for tabular data.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    epilog="Exit codes: 0 done, 1 unexpected, 2 usage, 3 table, 4 model file, 130 interrupted (Ctrl-C).",
)
_TABLES, _MACHINES, _ABOUT = "From a table to predictions", "Small machines", "The paper, and a first look"
_COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    _TABLES: (fit, predict, evaluate, report, search, info),
    _MACHINES: (sparsify, export, play),
}
for _panel, _functions in _COMMANDS.items():
    for _function in _functions:
        app.command(rich_help_panel=_panel)(_function)
app.add_typer(datasets_app, rich_help_panel=_ABOUT)
app.add_typer(paper_app, rich_help_panel=_ABOUT)


def main() -> None:
    """Run the command line."""
    # What the library only logs, a program shows.
    if logging.lastResort is not None:
        logging.getLogger("tabgnm").addHandler(logging.lastResort)
    app()


def _show_version(wanted: bool) -> None:
    if wanted:
        Console().print(f"tabgnm {__version__}", highlight=False)
        raise typer.Exit


def _picture_path(path: Path) -> Path:
    """Refuse a path that cannot be written now, rather than after the training."""
    if path.suffix.lower() != ".png":
        raise typer.BadParameter(f"{path} does not end in .png; the picture is a PNG file")
    if path.is_dir():
        raise typer.BadParameter(f"{path} is a folder; give the name of a file in it")
    if not path.parent.is_dir():
        raise typer.BadParameter(f"the folder {path.parent} does not exist; create it or choose another one")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise typer.BadParameter(f"{path} cannot be written; choose a place where you may write")
    return path


@app.callback()
def tabgnm(
    version: Annotated[  # noqa: ARG001 - its callback does it
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")] = False,
) -> None:
    """The Graph Neural Machine for tabular data."""
    show_tracebacks(debug)


@app.command(rich_help_panel=_ABOUT)
def demo(
    output: Annotated[Path, typer.Option(callback=_picture_path, help="Where to write the picture.")] = Path(
        "tabgnm-demo.png"
    ),
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the data, the weights and the batches.")] = 0,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training rows.")] = 150,
) -> None:
    """Train fleets of GNMs and of MLPs of the same size on two small data sets and compare them."""
    from tabgnm.cli.demo import run_demo

    try:
        run_demo(Console(), output=output, seed=seed, epochs=epochs)
    except (MissingExtraError, OSError) as error:
        # escape: the name of an extra stands in square brackets, which rich would read as a style.
        Console(stderr=True).print(f"[bold red]Error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        raise typer.Exit(1) from None
