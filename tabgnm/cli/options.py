"""Options that several commands have; each is defined here, once."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from tabgnm._printable import printable

_TABLE = "Reading the table"
_PRINTED = "Output"


class TaskOption(str, Enum):
    """What the target is."""

    auto = "auto"
    classification = "classification"
    regression = "regression"


class EffortOption(str, Enum):
    """How much work a fit is."""

    fast = "fast"
    default = "default"
    best = "best"


def output_path(path: Path | None) -> Path | None:
    """Refuse a file that cannot be written now, rather than after the work."""
    if path is None or str(path) == "-":
        return path
    if path.is_dir():
        raise typer.BadParameter(printable(f"{path} is a folder; give the name of a file in it"))
    if not path.parent.is_dir():
        raise typer.BadParameter(
            printable(f"the folder {path.parent} does not exist; create it first, or choose another one")
        )
    if not os.access(path.parent, os.W_OK):
        raise typer.BadParameter(printable(f"the folder {path.parent} cannot be written to; choose another one"))
    return path


def refuse_own_input(output: Path | None, *inputs: str | Path) -> None:
    """Refuse to replace a file that the command reads: it would be lost."""
    for own in inputs:
        if output is not None and output.exists() and Path(own).exists() and output.samefile(own):
            raise typer.BadParameter(
                printable(f"--output {output} would replace the file that is read; choose another name")
            )


def _seed(seed: int) -> int:
    """Refuse what is no seed; typer's own check would show its limits, which nobody needs, in the help."""
    if not 0 <= seed < 2**32:
        raise typer.BadParameter(f"{seed} is not a seed; expected an integer from 0 to {2**32 - 1}")
    return seed


# Arguments

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA", help="A table: .csv, .tsv, .parquet, .feather, .jsonl or .sqlite, also gzipped; or - for stdin."
    ),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file written by `tabgnm fit`.")]

# How to read a table

Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help="Format of the table, if not given by the file extension: csv, parquet, ...",
        rich_help_panel=_TABLE,
        show_default=False,
    ),
]
TableName = Annotated[
    str | None,
    typer.Option(
        "--table", metavar="NAME", help="Name of the table in a database.", rich_help_panel=_TABLE, show_default=False
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        metavar="CHAR",
        help="The delimiter between cells. Detected by default.",
        rich_help_panel=_TABLE,
        show_default=False,
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The text encoding, such as latin-1. Default: UTF-8.",
        rich_help_panel=_TABLE,
        show_default=False,
    ),
]
NoHeader = Annotated[
    bool,
    typer.Option("--no-header", help="The first line is data: columns are called x0, x1, ...", rich_help_panel=_TABLE),
]
DropMissingTarget = Annotated[
    bool,
    typer.Option("--drop-missing-target", help="Skip rows whose target is missing.", rich_help_panel=_TABLE),
]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        "-t",
        metavar="COLUMN",
        help="The target column, if its name differs from the one in the model; repeat it for several targets.",
        show_default=False,
    ),
]

# What is printed

AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print exactly one JSON object on stdout.", rich_help_panel=_PRINTED),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.", rich_help_panel=_PRINTED)]
DEFAULT_SEED = 0
Seed = Annotated[int, typer.Option(metavar="N", callback=_seed, help="Random seed.")]


@dataclass(frozen=True)
class Reading:
    """How to read a table, as the options say."""

    format: str | None
    table: str | None
    delimiter: str | None
    encoding: str | None
    no_header: bool
    drop_missing_target: bool = False

    def keywords(self) -> dict[str, Any]:
        """Return the arguments of `read_table` and `open_table`, which know nothing of targets."""
        return {
            "format": self.format,
            "table": self.table,
            "delimiter": self.delimiter,
            "encoding": self.encoding,
            "header": not self.no_header,
        }
