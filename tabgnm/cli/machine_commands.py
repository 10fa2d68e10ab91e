"""``tabgnm sparsify``, ``export`` and ``play``: their options; the work is imported when they run."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from tabgnm.cli.options import (
    DEFAULT_SEED,
    AsJson,
    Data,
    Delimiter,
    Encoding,
    Format,
    Model,
    NoHeader,
    Quiet,
    Reading,
    Seed,
    TableName,
    Targets,
    output_path,
    refuse_own_input,
)
from tabgnm.cli.terminal import command


class ExportFormat(str, Enum):
    """Languages and formats of exports."""

    c = "c"
    onnx = "onnx"
    py = "py"
    sql = "sql"


class Dialect(str, Enum):
    """Databases that exports to SQL are for."""

    sqlite = "sqlite"
    duckdb = "duckdb"
    postgresql = "postgresql"


@command
def sparsify(
    model: Model,
    data: Data,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", callback=output_path, help="The model file to write.")
    ] = Path("small.tabgnm"),
    edges: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="The best machine with at most this number of edges.", show_default=False
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            min=0.0,
            help="The smallest machine whose loss exceeds the best by at most this fraction.",
            show_default=False,
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", callback=output_path, help="Also draw the machine: .svg, .png or .pdf.", show_default=False
        ),
    ] = None,
    set_value: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other parameter of `distill`, e.g. n_layers=2 or penalty=group; repeatable.",
            show_default=False,
        ),
    ] = None,
    target: Targets = None,
    seed: Seed = DEFAULT_SEED,
    table_format: Format = None,
    table_name: TableName = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    no_header: NoHeader = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Distill a model into a small machine that can be read as equations, drawn, and exported.

    DATA are the rows to learn from, usually those of `fit`. If they contain the target, the
    machine learns from it, too, and it is used to choose the size.
    The default is the smallest machine whose loss is within one standard error of the best.

    For example:
      tabgnm sparsify model.tabgnm houses.csv --edges 20 --picture machine.svg
    """
    if edges is not None and tolerance is not None:
        raise typer.BadParameter("--edges and --tolerance both limit the size of the machine; use one of them")
    refuse_own_input(output, model, data)
    from tabgnm.cli.sparsify import run_sparsify

    run_sparsify(
        model,
        data,
        Reading(table_format, table_name, delimiter, encoding, no_header),
        target or [],
        output,
        n_edges=edges,
        tolerance=tolerance,
        assignments=set_value or [],
        picture=picture,
        seed=seed,
        quiet=quiet,
        as_json=as_json,
    )


@command
def export(
    model: Model,
    output: Annotated[
        Path | None,
        typer.Argument(
            metavar="OUT",
            callback=output_path,
            help="The file to write; its extension determines the format.",
            show_default=False,
        ),
    ] = None,
    to: Annotated[
        ExportFormat | None,
        typer.Option(
            "--to", metavar="FORMAT", help="Format: c, onnx, py or sql; OUT may be omitted.", show_default=False
        ),
    ] = None,
    prefix: Annotated[
        str | None, typer.Option(metavar="NAME", help="C: the prefix of all names.", show_default=False)
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="SQL: the table to read; twice for schema and name.", show_default=False),
    ] = None,
    dialect: Annotated[
        Dialect | None,
        typer.Option(metavar="NAME", help="SQL: the database: sqlite, duckdb or postgresql.", show_default=False),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="SQL: a column to return with the predictions; repeatable."),
    ] = None,
    matrix: Annotated[
        bool | None,
        typer.Option(
            "--matrix/--columns", help="ONNX: one input for all columns, or one for each.", show_default=False
        ),
    ] = None,
    float32: Annotated[bool, typer.Option("--float32", help="ONNX: inputs and outputs in single precision.")] = False,
    max_megabytes: Annotated[
        float | None, typer.Option(metavar="N", min=0.0, help="Python: maximum file size.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a model as a program that does not need tabgnm: ONNX or Python; small machines also as C or SQL.

    For example:
      tabgnm export model.tabgnm model.onnx
      tabgnm export small.tabgnm --to c --prefix price
      tabgnm export small.tabgnm price.sql --table houses --dialect duckdb
    """
    if output is None and to is None:
        raise typer.BadParameter("name the file to write, such as model.onnx, or use --to with a format")
    from tabgnm.cli.export import run_export

    given = {
        "prefix": prefix,
        "table": table[0] if table and len(table) == 1 else table or None,
        "dialect": None if dialect is None else dialect.value,
        "keep": keep or None,
        "matrix": matrix,
        "number_type": "float" if float32 else None,
        "max_megabytes": max_megabytes,
    }
    suffix = None if to is None else f".{to.value}"
    run_export(
        model,
        model.with_suffix(suffix) if output is None and suffix is not None else output or model,
        suffix,
        {name: value for name, value in given.items() if value is not None},
        as_json=as_json,
    )


@command
def play(
    data: Annotated[
        str | None,
        typer.Argument(metavar="DATA", help="Your own table; generated data by default.", show_default=False),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--column", "-c", metavar="COLUMN", help="One of the two columns to draw; use it twice."),
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", "-t", metavar="COLUMN", help="The column to predict.")
    ] = None,
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="The port of the server; 0 chooses a free one.")
    ] = 0,
    open_browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    table_format: Format = None,
    table_name: TableName = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    no_header: NoHeader = False,
) -> None:
    """Open the playground in a browser and watch a Graph Neural Machine learn. Ctrl-C stops it.

    For example:
      tabgnm play
      tabgnm play iris.csv -c petal_length -c petal_width --target species
    """
    from tabgnm.cli.play import run_play

    reading = Reading(table_format, table_name, delimiter, encoding, no_header)
    run_play(data, reading, columns, target, port, open_browser=open_browser)
