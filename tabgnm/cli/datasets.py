"""``tabgnm datasets``: list the data sets, describe one, fetch some into the cache."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from tabgnm._printable import printable
from tabgnm.cli.help_pages import App

if TYPE_CHECKING:
    from rich.table import Table

    from tabgnm.datasets import DatasetSpec
    from tabgnm.datasets.download import OnBytes

datasets_app = App(name="datasets", help="The data sets of the paper.")

WIDE_ENOUGH_FOR_TITLES = 100  # columns of the terminal

DataHome = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="The folder of data sets. Default: $TABGNM_DATA, or the user's cache folder."),
]


@datasets_app.command("list")
def list_datasets(data_home: DataHome = None) -> None:
    """List the data sets and whether they are cached."""
    from tabgnm.datasets.cache import data_folder

    folder = data_folder(data_home)
    console = Console()
    with _errors_told():
        console.print(_table(folder, with_titles=console.width >= WIDE_ENOUGH_FOR_TITLES))
    console.print(f"Cache: {printable(str(folder))}", highlight=False, soft_wrap=True, markup=False)


@datasets_app.command()
def info(name: Annotated[str, typer.Argument(help="The name of a data set.")], data_home: DataHome = None) -> None:
    """Describe a data set: task, counts, variants, source, license, citation."""
    from tabgnm.datasets.cache import data_folder
    from tabgnm.datasets.describe import describe
    from tabgnm.datasets.retrieval import availability

    spec = _known(name)
    text = describe(spec, "clean").rstrip() + f"\nVariants:   {', '.join(spec.variants)}"
    with _errors_told():
        text += f"\nHere:       {availability(spec, data_folder(data_home))}"
    Console().print(text, highlight=False, markup=False, soft_wrap=True)


@datasets_app.command()
def fetch(
    names: Annotated[list[str] | None, typer.Argument(help="The names of the data sets.", show_default=False)] = None,
    data_home: DataHome = None,
    all_of_them: Annotated[
        bool, typer.Option("--all", help="All data sets: over a gigabyte, most of it for SUSY and Year.")
    ] = False,
    verify: Annotated[bool, typer.Option(help="Check that the downloaded rows are the expected ones.")] = True,
) -> None:
    """Download data sets into the cache, unless they are already there, and verify them."""
    from tabgnm.datasets import dataset_names, fetch_dataset

    if bool(names) == all_of_them:
        raise typer.BadParameter("name the data sets, or use --all; `tabgnm datasets list` shows the names")
    specs = [_known(name) for name in (dataset_names() if all_of_them else names or [])]
    console = Console()
    failures = 0
    for spec in specs:
        try:
            with _errors_told(), _download_bar(console, spec.name) as on_bytes:
                path = fetch_dataset(spec.name, data_home, verify=verify, on_bytes=on_bytes)
                where = printable(str(path)) if path is not None else "needs no file"
                console.print(f"{spec.name}: {where}", highlight=False, markup=False, soft_wrap=True)
        except typer.Exit:  # noqa: PERF203 - one that fails does not keep the others from being fetched
            failures += 1
    if failures:
        raise typer.Exit(1)


@contextmanager
def _errors_told() -> Iterator[None]:
    """Show what is wrong with a data set or its file as a message, not as a traceback, and exit."""
    from tabgnm.datasets import DatasetContentError

    try:
        yield
    except (DatasetContentError, OSError) as error:  # DatasetUnavailableError is an OSError, too
        Console(stderr=True).print(
            f"[bold red]Error:[/] {escape(printable(str(error)))}", highlight=False, soft_wrap=True
        )
        raise typer.Exit(1) from None


def _known(name: str) -> DatasetSpec:
    from tabgnm.datasets import dataset_info

    try:
        return dataset_info(name)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _table(folder: Path, *, with_titles: bool) -> Table:
    from rich import box
    from rich.table import Table

    from tabgnm.datasets.registry import REGISTRY
    from tabgnm.datasets.retrieval import availability

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("Name", style="bold", no_wrap=True)
    if with_titles:
        table.add_column("Title", no_wrap=True)
    table.add_column("Rows", justify="right", no_wrap=True)
    table.add_column("Features", justify="right", no_wrap=True)
    table.add_column("Task", no_wrap=True)
    table.add_column("Here", no_wrap=True)
    for spec in REGISTRY.values():
        task = f"{spec.n_classes} classes" if spec.n_classes else spec.task
        rows, features = f"{spec.n_samples:,}", str(spec.n_features)
        titles = (spec.title,) if with_titles else ()
        table.add_row(spec.name, *titles, rows, features, task, availability(spec, folder))
    return table


@contextmanager
def _download_bar(console: Console, name: str) -> Iterator[OnBytes]:
    """Give a function that shows a bar from the first bytes of a download: for a cached file there is none."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task(name, total=None, visible=False)
        yield lambda received, total: progress.update(bar, completed=received, total=total, visible=True)
