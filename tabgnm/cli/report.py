"""``tabgnm report``: a page about a model and a table, as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tabgnm.cli.models import inputs_and_targets, load_model, targets_of
from tabgnm.cli.progress import showing_steps
from tabgnm.cli.terminal import Output, table_is_to_blame
from tabgnm.cli.training_table import one_or_all

if TYPE_CHECKING:
    from tabgnm.cli.options import Reading


def run_report(
    model_path: Path,
    source: str,
    reading: Reading,
    target: Sequence[str],
    output: Path,
    title: str | None,
    *,
    quiet: bool,
    as_json: bool,
) -> None:
    """Write the report of a model on the rows of a table."""
    from tabgnm.report import write_report

    out = Output(as_json=as_json)
    with out.showing_warnings(), showing_steps("reading the table", wanted=not quiet and not as_json):
        model = load_model(model_path)
        names = targets_of(model, target)
        X, y = inputs_and_targets(source, reading, model, names)
        with table_is_to_blame():
            write_report(model, X, y, output, title=title, file_rows=X.index.to_numpy())
    out.text(f"Report: {output}")
    out.finish({"model": str(model_path), "rows": len(X), "target": one_or_all(names), "report": str(output)})
