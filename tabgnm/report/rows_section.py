"""The rows that a model is least sure of, and those it is most wrong about."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabgnm.report.evaluation import Evaluation
from tabgnm.report.wording import number, percent, text

Array = NDArray[Any]

MAX_ROWS = 8
MAX_COLUMNS = 5
_MAX_TARGETS = 3
# The start of a number, also as it is written in a text file, or of a missing value.
_NUMBER = re.compile(r"[-+−]?[.]?[0-9]|−?∞|–$")


@dataclass(frozen=True)
class RowsTable:
    """Rows as they are shown: headings, and a list of cells for each row."""

    heading: str
    explanation: str
    headings: list[str]
    rows: list[list[str]]
    n_columns: int  # at the end, that are columns of the user's table
    numeric: list[bool]  # whether a column holds numbers


def rows_section(evaluation: Evaluation, columns: list[int]) -> list[RowsTable]:
    """Return the tables; `columns` are those to show, the most important first."""
    columns = columns[:MAX_COLUMNS]
    if evaluation.kind == "one":
        return []
    if evaluation.classes:
        confidence = np.min([own.confidence for own in evaluation.classes], axis=0)
        least = np.min([own.of_truth for own in evaluation.classes], axis=0)
        wrong = np.any([own.predicted != own.codes for own in evaluation.classes], axis=0)
        worst = np.argsort(least, kind="stable")
        tables = [
            ("Most uncertain", "Lowest probability of the predicted class.", np.argsort(confidence, kind="stable")),
            ("Largest errors", "Wrong predictions with the lowest probability of the true class.", worst[wrong[worst]]),
        ]
    else:
        units = [float(np.std(own.y)) or 1.0 for own in evaluation.numbers]
        errors = np.max(
            [np.abs(own.y - own.predicted) / unit for own, unit in zip(evaluation.numbers, units, strict=True)], axis=0
        )
        tables = [
            ("Largest errors", f"Largest absolute errors{_compared(evaluation)}.", np.argsort(-errors, kind="stable"))
        ]
        spread = _spread(evaluation, units)
        if spread is not None:
            explanation, values = spread
            tables.insert(0, ("Most uncertain", explanation, np.argsort(-values, kind="stable")))
    return [_table(evaluation, *own, columns) for own in tables if len(own[2])]


def _spread(evaluation: Evaluation, units: list[float]) -> tuple[str, Array] | None:
    """Return how unsure a regressor is of each row: width of its quantiles, or disagreement of its networks."""
    if evaluation.kind == "quantiles":
        interval = evaluation.numbers[0].interval
        assert interval is not None
        return "Widest range between the lowest and the highest quantile.", interval[:, 1] - interval[:, 0]
    if evaluation.model.fitted_.n_networks < 2:
        return None
    _, deviations = evaluation.model.predict(evaluation.raw, return_std=True)
    relative = deviations.reshape(evaluation.n_rows, -1) / np.asarray(units)
    return f"Largest standard deviation over the networks{_compared(evaluation)}.", relative.max(axis=1)


def _compared(evaluation: Evaluation) -> str:
    """Say how numbers of several targets are compared."""
    return ", relative to the standard deviation of the target" if len(evaluation.numbers) > 1 else ""


def _table(evaluation: Evaluation, heading: str, explanation: str, order: Array, columns: list[int]) -> RowsTable:
    chosen = order[:MAX_ROWS]
    headings, cells = ["row"], [[f"{row:,}" for row in evaluation.row_numbers[chosen].tolist()]]
    for own in evaluation.classes[:_MAX_TARGETS]:
        prefix = f"{own.name}: " if len(evaluation.classes) > 1 else ""
        headings += [f"{prefix}true", f"{prefix}predicted", "probability"]
        cells.append([own.labels[code] for code in own.codes[chosen]])
        cells.append([own.labels[code] for code in own.predicted[chosen]])
        cells.append([percent(float(value), trimmed=False) for value in own.confidence[chosen]])
    for target in evaluation.numbers[:_MAX_TARGETS]:
        prefix = f"{target.name}: " if len(evaluation.numbers) > 1 else ""
        headings += [f"{prefix}true", f"{prefix}predicted", "error"]
        cells.append([number(value, 4) for value in target.y[chosen]])
        cells.append([number(value, 4, trimmed=False) for value in target.predicted[chosen]])
        cells.append([number(value, trimmed=False) for value in (target.y - target.predicted)[chosen]])
    shown = evaluation.raw.take(chosen)
    names = shown.names
    for column in columns:
        headings.append(text(names[column]))
        cells.append([text(cell) for cell in shown.source.cells(column)])
    numeric = [all(_NUMBER.match(cell) for cell in own) for own in cells]
    rows = [list(row) for row in zip(*cells, strict=True)]
    return RowsTable(heading, explanation, headings, rows, len(columns), numeric)
