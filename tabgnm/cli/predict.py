"""``tabgnm predict``: predictions for the rows of a table, in bounded memory."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from tabgnm.cli.models import inputs_of, load_model, strips_spaces
from tabgnm.cli.prediction_columns import OUT_OF_RANGE, PredictionColumns
from tabgnm.cli.progress import row_counter
from tabgnm.cli.tablefiles import open_table, open_writer, output_format_of, require_columns
from tabgnm.cli.terminal import Output, UsageProblem, table_is_to_blame
from tabgnm.training.progress_display import clock

if TYPE_CHECKING:
    from tabgnm.cli.options import Reading


def run_predict(
    model_path: Path,
    source: str,
    reading: Reading,
    output: Path,
    output_format: str | None,
    *,
    probabilities: bool,
    coverage: float | None,
    out_of_range: bool,
    keep: list[str],
    quiet: bool,
    as_json: bool,
) -> None:
    """Predict frame by frame; rows keep their order, and the output is there completely or not at all."""
    to_stdout = str(output) == "-"
    if as_json and to_stdout:
        raise UsageProblem(
            "--json and the predictions would both go to stdout; write the predictions to a file with -o"
        )
    output_format_of(str(output), output_format)  # raises before the model is loaded
    out = Output(as_json=as_json, to_stderr=True)
    began = time.monotonic()
    n_outside = 0
    with out.showing_warnings():
        model = load_model(model_path)
        columns = PredictionColumns(
            model, probabilities=probabilities, coverage=coverage, out_of_range=out_of_range, keep=keep
        )
        with open_table(source, strip=strips_spaces(model), **reading.keywords()) as reader:
            inputs = inputs_of(model)
            require_columns(reader.columns, [*inputs, *keep], source)
            with (
                open_writer(str(output), columns.names, format=output_format) as writer,
                row_counter(wanted=not (to_stdout or quiet or as_json)) as show_rows,
            ):
                for frame in reader:
                    out.rows_before = writer.n_rows
                    with table_is_to_blame(writer.n_rows):
                        predicted = columns.of(frame, inputs)
                    writer.write(predicted)
                    show_rows(writer.n_rows)
                    if out_of_range:
                        n_outside += int(predicted[OUT_OF_RANGE].sum())
    if not to_stdout:
        outside = f", {n_outside:,} of them out of range" if out_of_range else ""
        out.text(f"{writer.n_rows:,} rows{outside} in {clock(time.monotonic() - began)}. Predictions: {output}")
    record = {"rows": writer.n_rows, "columns": columns.names, "output": str(output)}
    out.finish(record | ({"out_of_range": n_outside} if out_of_range else {}))
