"""``tabgnm predict``, ``evaluate``, ``info`` and ``report``: their options; the work is imported when they run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tabgnm.cli.options import (
    DEFAULT_SEED,
    AsJson,
    Data,
    Delimiter,
    DropMissingTarget,
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


@command
def predict(
    model: Model,
    data: Data,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            callback=output_path,
            help="The file to write: .csv, .parquet, ..., as for DATA; or - for stdout.",
        ),
    ] = Path("-"),
    output_format: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Output format, if not given by the file extension: csv, jsonl, ...",
            show_default=False,
        ),
    ] = None,
    proba: Annotated[bool, typer.Option("--proba", help="Also write the probability of each class.")] = False,
    interval: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            min=0.01,
            max=0.999,
            help="Also write intervals that contain the target with this probability, e.g. 0.9.",
            show_default=False,
        ),
    ] = None,
    out_of_range: Annotated[
        bool,
        typer.Option(
            "--out-of-range", help="Also write whether a row has values outside the range of the training data."
        ),
    ] = False,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A column to copy to the output, such as an id; repeatable."),
    ] = None,
    table_format: Format = None,
    table_name: TableName = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    no_header: NoHeader = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Predict the target of each row of a table, in the order of the rows.

    Tables of any length are read and written in chunks. Columns that the model does not know are ignored.

    For example:
      tabgnm predict model.tabgnm new.csv -o predictions.csv --keep id --proba
      cat new.csv | tabgnm predict model.tabgnm - | head
    """
    refuse_own_input(output, model, data)
    from tabgnm.cli.predict import run_predict

    run_predict(
        model,
        data,
        Reading(table_format, table_name, delimiter, encoding, no_header),
        output,
        output_format,
        probabilities=proba,
        coverage=interval,
        out_of_range=out_of_range,
        keep=keep or [],
        quiet=quiet,
        as_json=as_json,
    )


@command
def evaluate(
    model: Model,
    data: Data,
    target: Targets = None,
    seed: Seed = DEFAULT_SEED,
    table_format: Format = None,
    table_name: TableName = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    no_header: NoHeader = False,
    drop_missing_target: DropMissingTarget = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Score a model on rows whose target is known.

    Use rows that the model was not fitted on. Simple baselines are cross-validated on the same rows.

    For example:
      tabgnm evaluate model.tabgnm test.csv
    """
    from tabgnm.cli.evaluate import run_evaluate

    reading = Reading(table_format, table_name, delimiter, encoding, no_header, drop_missing_target)
    run_evaluate(model, data, reading, target or [], seed=seed, quiet=quiet, as_json=as_json)


@command
def info(model: Model, as_json: AsJson = False) -> None:
    """Show the contents of a model file: target, columns, scores, settings.

    For example:
      tabgnm info model.tabgnm
    """
    from tabgnm.cli.info import run_info

    run_info(model, as_json=as_json)


@command
def report(
    model: Model,
    data: Annotated[str, typer.Option("--data", "-d", metavar="DATA", help="A table with the target, or - for stdin.")],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", callback=output_path, help="The HTML file; an existing one is replaced."
        ),
    ] = Path("report.html"),
    target: Targets = None,
    title: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The heading of the page.", show_default=False)
    ] = None,
    table_format: Format = None,
    table_name: TableName = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    no_header: NoHeader = False,
    drop_missing_target: DropMissingTarget = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write a report about a model and a table as one self-contained HTML file.

    For example:
      tabgnm report model.tabgnm --data test.csv -o report.html
    """
    refuse_own_input(output, model, data)
    from tabgnm.cli.report import run_report

    reading = Reading(table_format, table_name, delimiter, encoding, no_header, drop_missing_target)
    run_report(model, data, reading, target or [], output, title, quiet=quiet, as_json=as_json)
