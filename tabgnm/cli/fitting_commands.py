"""``tabgnm fit`` and ``tabgnm search``: their options; the work is in modules that are imported when they run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tabgnm.cli.options import (
    DEFAULT_SEED,
    AsJson,
    Data,
    Delimiter,
    DropMissingTarget,
    EffortOption,
    Encoding,
    Format,
    NoHeader,
    Quiet,
    Reading,
    Seed,
    TableName,
    TaskOption,
    output_path,
    refuse_own_input,
)
from tabgnm.cli.terminal import command

if TYPE_CHECKING:
    from tabgnm.cli.settings import FitSettings

_TRAINING = "Training"

MODEL = Path("model.tabgnm")

Targets = Annotated[
    list[str],
    typer.Option("--target", "-t", metavar="COLUMN", help="The column to predict; repeat it for several targets."),
]
Output = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="FILE", callback=output_path, help="The model file; an existing one is replaced."
    ),
]
Task = Annotated[
    TaskOption,
    typer.Option(
        metavar="TASK",
        help="auto, classification or regression. auto: classification for booleans, whole numbers with at most 10 "
        "different values, and text that is not written like numbers.",
        rich_help_panel=_TRAINING,
    ),
]
Effort = Annotated[
    EffortOption,
    typer.Option(metavar="LEVEL", help="How many networks to train: fast, default or best.", rich_help_panel=_TRAINING),
]
TimeLimit = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", help="Maximum training time.", rich_help_panel=_TRAINING, show_default=False),
]
Metric = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Metric for choosing settings: accuracy, roc_auc, mae, ...",
        rich_help_panel=_TRAINING,
        show_default="the loss",
    ),
]
SetValue = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any other parameter of the estimator, e.g. max_epochs=50; repeatable.",
        rich_help_panel=_TRAINING,
        show_default=False,
    ),
]
Device = Annotated[str, typer.Option(metavar="NAME", help="auto, cpu, cuda, cuda:1, ...", rich_help_panel=_TRAINING)]
Ignore = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="A column to leave out; repeatable.", show_default=False)
]
Weight = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="The column with sample weights.", show_default=False)
]
Group = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="A column such as a patient id: rows with the same value stay in the same fold.",
        show_default=False,
    ),
]
ColumnKind = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=KIND",
        help="The kind of a column, if it is detected wrongly: number, category, datetime or ignore; repeatable.",
        show_default=False,
    ),
]


def _settings(
    task: TaskOption,
    effort: EffortOption,
    time_limit: float | None,
    metric: str,
    set_value: list[str] | None,
    column_kind: list[str] | None,
    seed: int,
    device: str,
) -> FitSettings:
    """Return the parameters of the estimator that the options of `fit` and `search` say."""
    from tabgnm.cli.settings import FitSettings

    options = {
        "effort": effort.value,
        "time_limit": time_limit,
        "metric": metric,
        "random_state": seed,
        "device": device,
    }
    return FitSettings.of(task.value, set_value or [], options, column_kind or [])


@command
def fit(
    data: Data,
    target: Targets,
    output: Output = MODEL,
    ignore: Ignore = None,
    weight: Weight = None,
    group: Group = None,
    column_kind: ColumnKind = None,
    task: Task = TaskOption.auto,
    effort: Effort = EffortOption.default,
    time_limit: TimeLimit = None,
    metric: Metric = "auto",
    set_value: SetValue = None,
    seed: Seed = DEFAULT_SEED,
    device: Device = "auto",
    print_settings: Annotated[
        bool, typer.Option("--print-settings", help="Show every setting and its source; do not train.")
    ] = False,
    table_format: Format = None,
    table_name: TableName = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    no_header: NoHeader = False,
    drop_missing_target: DropMissingTarget = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Fit a model that predicts a column of a table from the others, and write it to a file.

    Prints out-of-fold scores and the scores of simple baselines. Ctrl-C keeps the best model so far.

    For example:
      tabgnm fit houses.csv --target price
      tabgnm fit patients.parquet -t died --group patient --effort fast
    """
    refuse_own_input(output, data)
    from tabgnm.cli.fit import Columns, run_fit

    run_fit(
        data,
        Reading(table_format, table_name, delimiter, encoding, no_header, drop_missing_target),
        Columns(tuple(target), tuple(ignore or ()), weight, group),
        _settings(task, effort, time_limit, metric, set_value, column_kind, seed, device),
        output,
        only_settings=print_settings,
        quiet=quiet,
        as_json=as_json,
    )


@command
def search(
    data: Data,
    target: Targets,
    grid: Annotated[
        list[str],
        typer.Option(metavar="NAME=V1,V2", help="A parameter of the estimator and the values to try; repeatable."),
    ],
    output: Output = MODEL,
    ignore: Ignore = None,
    weight: Weight = None,
    group: Group = None,
    column_kind: ColumnKind = None,
    task: Task = TaskOption.auto,
    effort: Effort = EffortOption.default,
    time_limit: TimeLimit = None,
    metric: Metric = "auto",
    set_value: SetValue = None,
    folds: Annotated[int, typer.Option(metavar="N", min=2, help="Number of cross-validation folds.")] = 5,
    seed: Seed = DEFAULT_SEED,
    device: Device = "auto",
    table_format: Format = None,
    table_name: TableName = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    no_header: NoHeader = False,
    drop_missing_target: DropMissingTarget = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Compare all combinations of settings by cross-validation, and write the best model.

    `--metric` also ranks the settings. `--time-limit` applies only to the final fit.

    For example:
      tabgnm search houses.csv --target price --grid dropout=0,0.2
    """
    refuse_own_input(output, data)
    from tabgnm.cli.fit import Columns
    from tabgnm.cli.search import run_search
    from tabgnm.cli.settings import Grid

    run_search(
        data,
        Reading(table_format, table_name, delimiter, encoding, no_header, drop_missing_target),
        Columns(tuple(target), tuple(ignore or ()), weight, group),
        _settings(task, effort, time_limit, metric, set_value, column_kind, seed, device),
        Grid.of(grid),
        output,
        n_folds=folds,
        quiet=quiet,
        as_json=as_json,
    )
