"""The commands and their options; each command's work is in a module of its own, imported when it runs."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tabgnm import __version__
from tabgnm.cli.datasets import datasets_app
from tabgnm.cli.fitting_commands import fit, search
from tabgnm.cli.help_pages import App
from tabgnm.cli.machine_commands import export, play, sparsify
from tabgnm.cli.model_commands import evaluate, info, predict, report
from tabgnm.cli.options import DEFAULT_SEED, AsJson, Quiet, Seed, output_path
from tabgnm.cli.paper import paper_app
from tabgnm.cli.terminal import command, ending_in_one_line, prepare_streams, show_tracebacks

app = App(
    name="tabgnm",
    help="Graph Neural Machines for tabular data.",
    pretty_exceptions_show_locals=False,
    epilog="Exit codes: 0 success, 1 unexpected error, 2 invalid options, 3 bad table, 4 bad model file, 130 Ctrl-C, "
    "141 closed pipe.",
)
_TABLES, _MACHINES, _ABOUT = "Models", "Small machines", "Demo and paper"
_COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    _TABLES: (fit, predict, evaluate, report, search, info),
    _MACHINES: (sparsify, export, play),
}
for _panel, _functions in _COMMANDS.items():
    for _function in _functions:
        app.command(rich_help_panel=_panel)(_function)
app.add_typer(datasets_app, rich_help_panel=_ABOUT)
app.add_typer(paper_app, rich_help_panel=_ABOUT)

COMPARED_EPOCHS = 150


def main() -> None:
    """Run the command line."""
    prepare_streams()
    # What the library only logs, a program shows.
    if logging.lastResort is not None:
        logging.getLogger("tabgnm").addHandler(logging.lastResort)
    with ending_in_one_line():
        app(prog_name="tabgnm")  # also for python -m tabgnm


def _show_version(wanted: bool) -> None:
    if wanted:
        Console().print(f"tabgnm {__version__}", highlight=False)
        raise typer.Exit


def _picture_path(path: Path) -> Path:
    """Refuse a path that cannot be written now, rather than after the training."""
    if path.suffix.lower() != ".png":
        raise typer.BadParameter(f"{path} does not end in .png; use a name that does")
    checked = output_path(path)
    assert checked is not None
    return checked


def _demo_folder(path: Path) -> Path:
    """Refuse a folder that cannot be made now, rather than after the training."""
    if path.exists() and not path.is_dir():
        raise typer.BadParameter(f"{path} is a file; give the name of a folder")
    if not path.absolute().parent.is_dir():
        raise typer.BadParameter(f"the folder {path.parent} does not exist; create it first, or choose another one")
    return path


@app.callback()
def tabgnm(
    version: Annotated[  # noqa: ARG001 - its callback does it
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    """Graph Neural Machines for tabular data."""
    show_tracebacks(debug)


@app.command(rich_help_panel=_ABOUT)
@command
def demo(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="The folder to write to (default: tabgnm-demo); with --compare, the picture (tabgnm-demo.png).",
            show_default=False,
        ),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare 20 GNMs with 20 MLPs of the same size on two data sets instead.")
    ] = False,
    seed: Seed = DEFAULT_SEED,
    epochs: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Number of training epochs.", show_default=False)
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Run a demo: fit a table, compare with simple baselines, draw a small machine and print its equations.

    For example:
      tabgnm demo
      tabgnm demo --compare
    """
    if not compare:
        folder = _demo_folder(output or Path("tabgnm-demo"))
        from tabgnm.cli.demo import run_demo

        run_demo(folder, seed=seed, epochs=epochs, quiet=quiet, as_json=as_json)
        return
    if as_json:
        raise typer.BadParameter("--json cannot be used with --compare, whose result is a picture")
    picture = _picture_path(output or Path("tabgnm-demo.png"))
    from tabgnm.cli.demo_comparison import run_comparison

    run_comparison(Console(), output=picture, seed=seed, epochs=epochs or COMPARED_EPOCHS)
