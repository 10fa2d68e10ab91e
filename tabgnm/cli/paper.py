"""``tabgnm paper``: the commands and their options; the work is in `tabgnm.cli.paper_runs`, imported when one runs."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from tabgnm._printable import printable
from tabgnm.cli.help_pages import App

paper_app = App(name="paper", help="The paper's experiments, next to its published numbers.")


class ScalingOption(str, Enum):
    """As published, or standardised."""

    none = "none"
    standard = "standard"


class EngineOption(str, Enum):
    """Where fleets are trained."""

    local = "local"
    dask = "dask"
    ray = "ray"


def _folds(text: str | None) -> str | None:
    if text is not None and not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", text):
        raise typer.BadParameter(f"{text!r} is not a list of folds; write e.g. 0, 0-4 or 0,3,7")
    return text


def _shard(text: str | None) -> str | None:
    match = None if text is None else re.fullmatch(r"(\d+)/(\d+)", text)
    if text is not None and (match is None or not 1 <= int(match[1]) <= int(match[2])):
        raise typer.BadParameter(f"{text!r} is not a shard; write i/n with 1 <= i <= n, e.g. 2/8")
    return text


def _folder(path: Path) -> Path:
    """Refuse a folder that cannot be written now, rather than after the training."""
    try:
        existing = next(own for own in (path, *path.absolute().parents) if own.exists())
        if existing.is_dir():
            with tempfile.TemporaryFile(dir=existing):
                return path
    except OSError as error:
        raise typer.BadParameter(
            printable(f"the folder {path} cannot be written ({error.strerror}); choose another folder")
        ) from None
    raise typer.BadParameter(printable(f"{path} cannot be a folder, because {existing} is a file; choose another one"))


Only = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Only this data set; repeatable.", show_default=False)
]
Folds = Annotated[
    str | None,
    typer.Option(metavar="FOLDS", callback=_folds, help="Only these folds: 0, 0-4 or 0,3,7. Default: all ten."),
]
Shard = Annotated[
    str | None, typer.Option(metavar="I/N", callback=_shard, help="Only part i of n of the work, as i/n.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="List the work and estimate its time; do not train.")]
Scaling = Annotated[ScalingOption, typer.Option(help="Scaling of features: none (as published) or standard.")]
EngineName = Annotated[
    EngineOption, typer.Option(help="Where fleets are trained; dask and ray need the extra of the same name.")
]
Jobs = Annotated[
    int, typer.Option(metavar="N", help="Number of fleets at once; -1 means all cores, or all workers of a cluster.")
]
Address = Annotated[
    str | None, typer.Option(metavar="URL", help="Address of a Dask scheduler or Ray head. Default: start one here.")
]
Device = Annotated[str, typer.Option(metavar="NAME", help="auto, cpu, cuda, cuda:1, ...")]
Store = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The results file. Default: results.sqlite in the output folder.")
]
Output = Annotated[
    Path, typer.Option(metavar="FOLDER", callback=_folder, help="The folder for CSV, JSON, PNG and Markdown files.")
]
DataHome = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="The folder of data sets. Default: $TABGNM_DATA, or the user's cache folder."),
]
Epochs = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Run only this number of epochs; every output says so.")
]
Seeds = Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="Number of random problems.")]

OUTPUT = Path("paper-results")

# What is left after Ctrl-C.
_STORED = "finished results are stored; the same command continues from there"
_NOT_STORED = "no results are stored; the same command starts over"
_PARTLY_STORED = (
    "finished tables and curves are stored; the same command continues from there, but measures running times and "
    "learns sparse machines again"
)
_MERGED = "the stores listed above are merged; the same command merges the rest"
_ONLY_LOOKED = "a dry run stores nothing"


@paper_app.command()
def tables(
    only: Only = None,
    folds: Folds = None,
    shard: Shard = None,
    dry_run: DryRun = False,
    scaling: Scaling = ScalingOption.none,
    engine: EngineName = EngineOption.local,
    jobs: Jobs = 1,
    address: Address = None,
    device: Device = "auto",
    store: Store = None,
    output: Output = OUTPUT,
    data_home: DataHome = None,
    epochs: Epochs = None,
) -> None:
    """Tables 1 and 2: GNMs and MLPs on all data sets, with the whole grid and ten folds."""
    with _errors_told(_STORED, dry_run=dry_run):
        from tabgnm.cli.paper_runs import Options, run_tables

        options = Options(
            only=tuple(only or ()),
            folds=folds,
            shard=shard,
            dry_run=dry_run,
            scaling=scaling.value,
            engine=engine.value,
            jobs=jobs,
            address=address,
            device=device,
            store=store,
            output=output,
            data_home=data_home,
            epochs=epochs,
        )
        run_tables(Console(), options)


@paper_app.command()
def curves(
    only: Only = None,
    dry_run: DryRun = False,
    scaling: Scaling = ScalingOption.none,
    device: Device = "auto",
    store: Store = None,
    output: Output = OUTPUT,
    data_home: DataHome = None,
    epochs: Epochs = None,
) -> None:
    """Training curves of GNMs and MLPs with about 500k, 1m, 2m and 3m parameters."""
    with _errors_told(_STORED, dry_run=dry_run):
        from tabgnm.cli.paper_runs import Options, run_curves_command

        options = Options(
            only=tuple(only or ()),
            dry_run=dry_run,
            scaling=scaling.value,
            device=device,
            store=store,
            output=output,
            data_home=data_home,
            epochs=epochs,
        )
        run_curves_command(Console(), options)


@paper_app.command()
def runtime(
    only: Only = None,
    dry_run: DryRun = False,
    device: Device = "auto",
    output: Output = OUTPUT,
    data_home: DataHome = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Number of epochs to average over. Default: as many as take half a second."
        ),
    ] = None,
) -> None:
    """Time per epoch of GNMs and MLPs by number of parameters; time and parameters by number of nodes."""
    with _errors_told(_NOT_STORED, dry_run=dry_run):
        from tabgnm.cli.paper_runs import Options, run_runtime

        options = Options(
            only=tuple(only or ()),
            dry_run=dry_run,
            device=device,
            output=output,
            data_home=data_home,
            epochs=epochs,
        )
        run_runtime(Console(), options)


@paper_app.command()
def sparse(
    seeds: Seeds = 20, device: Device = "cpu", output: Output = OUTPUT, epochs: Epochs = None, dry_run: DryRun = False
) -> None:
    """Section 6.5: sparse machines that learn XOR, their edges, and the MLPs they form."""
    with _errors_told(_NOT_STORED, dry_run=dry_run):
        from tabgnm.cli.paper_runs import Options, run_sparse

        options = Options(seeds=seeds, device=device, output=output, epochs=epochs, dry_run=dry_run)
        run_sparse(Console(), options)


@paper_app.command("all")
def everything(
    dry_run: DryRun = False,
    scaling: Scaling = ScalingOption.none,
    engine: EngineName = EngineOption.local,
    jobs: Jobs = 1,
    address: Address = None,
    device: Device = "auto",
    store: Store = None,
    output: Output = OUTPUT,
    data_home: DataHome = None,
    epochs: Epochs = None,
) -> None:
    """All experiments, the short ones first."""
    with _errors_told(_PARTLY_STORED, dry_run=dry_run):
        from tabgnm.cli.paper_runs import Options, run_all

        options = Options(
            dry_run=dry_run,
            scaling=scaling.value,
            engine=engine.value,
            jobs=jobs,
            address=address,
            device=device,
            store=store,
            output=output,
            data_home=data_home,
            epochs=epochs,
        )
        run_all(Console(), options)


@paper_app.command()
def merge(
    store: Annotated[Path, typer.Argument(help="The store to add to; created if it does not exist.")],
    others: Annotated[list[Path], typer.Argument(help="Stores of other machines.", exists=True, dir_okay=False)],
) -> None:
    """Merge the results of several stores, such as those of shards."""
    with _errors_told(_MERGED):
        from tabgnm.paper.store import ResultStore

        console = Console()
        with ResultStore(store) as own:
            for other in others:
                found = own.merge(other)
                text = f"{printable(str(other))}: {found.n_new:,} new results"
                if found.n_different:
                    text += f"; {found.n_different:,} already have a different value, which is kept"
                console.print(text, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def _errors_told(after_ctrl_c: str, *, dry_run: bool = False) -> Iterator[None]:
    """Show what is wrong as a message, not as a traceback, and exit; say what is left after Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt:
        message = f"stopped; {_ONLY_LOOKED if dry_run else after_ctrl_c}"
        Console(stderr=True).print(message, highlight=False, soft_wrap=True)
        raise typer.Exit(130) from None
    except (OSError, RuntimeError, ValueError, ImportError) as error:
        if not _is_told(error):
            raise
        Console(stderr=True).print(
            f"[bold red]Error:[/] {escape(printable(str(error)))}", highlight=False, soft_wrap=True
        )
        raise typer.Exit(1) from None


def _is_told(error: Exception) -> bool:
    """Whether an error is one that a user can do something about, and not one of the program."""
    from tabgnm._extras import MissingExtraError
    from tabgnm.datasets import DatasetContentError
    from tabgnm.paper.engines import WorkerLostError
    from tabgnm.paper.store_file import StoreError

    told = (MissingExtraError, DatasetContentError, WorkerLostError, StoreError, OSError)
    # A plain ValueError is one of ours, which says what is wrong with an option; a subclass is of the program.
    return isinstance(error, told) or type(error) is ValueError
