"""Predictions of a small machine from its outputs; exported Python files contain this code.

The code below the line of dashes is copied into files unchanged, after `python_arrays_runtime` and the machine itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tabgnm.export.python_arrays_runtime import Rows, _columns_of, _side_by_side
from tabgnm.export.python_cells_runtime import Row

LINK = "identity"
COLUMNS: Any = {}
UNNAMED: Any = []
CLASSES: Any = []
CENTER: Any = []
MOST = 0.0
ONE_DIMENSIONAL = True
MULTILABEL = False


def _outputs(row: Any, on: Any) -> Any:
    raise NotImplementedError


# ----------------------------------------------------------------------------------------------------------------------
def _row_probabilities(row: Any) -> list[list[float]]:
    """Return the probabilities of the classes of each target."""
    outputs = _outputs(row, Row)
    if LINK == "constant":
        return [[1.0]]
    if LINK == "sigmoid":
        return [[Row.sigmoid(-z), Row.sigmoid(z)] for z in outputs]
    found, start = [], 0
    for classes in CLASSES:
        part = outputs[start : start + len(classes)]
        largest = max(part)
        powers = [math.exp(z - largest) for z in part]
        total = math.fsum(powers)
        found.append([power / total for power in powers])
        start += len(classes)
    return found


def _row_numbers(row: Any) -> list[float]:
    outputs = list(_outputs(row, Row))
    if LINK == "exp":
        return [center * math.exp(max(-MOST, min(MOST, z))) for center, z in zip(CENTER, outputs)]  # noqa: B905
    return sorted(outputs) if LINK == "sorted" else outputs


def predict_proba_row(row: Any) -> Any:
    """Return the probabilities for one row, a dict from column to cell, in the order of CLASSES."""
    if not CLASSES:
        raise TypeError("this model predicts numbers; use predict_row")
    probabilities = _checked(_row_probabilities, row)
    if MULTILABEL:
        return [part[1] for part in probabilities]
    return probabilities[0] if ONE_DIMENSIONAL else probabilities


def predict_row(row: Any) -> Any:
    """Return the label or number for one row, a dict from column to cell; a list if there are several targets."""
    if not CLASSES:
        found = _checked(_row_numbers, row)
    else:
        parts = _checked(_row_probabilities, row)
        found = [classes[part.index(max(part))] for classes, part in zip(CLASSES, parts)]  # noqa: B905
    return found[0] if ONE_DIMENSIONAL else found


def predict_proba(rows: Any) -> Any:
    """Return the probabilities for many rows as an array (rows, classes).

    `rows` is a list of dicts, a dict of columns, or a frame. For several targets, a list of arrays is returned; for
    multilabel targets, the probabilities of 1, (rows, targets).
    """
    if not CLASSES:
        raise TypeError("this model predicts numbers; use predict")
    parts = _probabilities(rows)
    if MULTILABEL:
        return np.column_stack([part[:, 1] for part in parts])
    return parts[0] if ONE_DIMENSIONAL else parts


def predict(rows: Any) -> Any:
    """Return the labels or numbers for many rows: a list of dicts, a dict of columns, or a frame."""
    if CLASSES:
        parts = _probabilities(rows)
        found = [np.array(own)[part.argmax(axis=1)] for own, part in zip(CLASSES, parts)]  # noqa: B905
        return found[0] if ONE_DIMENSIONAL else _side_by_side(found)
    outputs = _checked(_many_outputs, rows)
    if LINK == "exp":
        outputs = np.array(CENTER) * np.exp(np.clip(outputs, -MOST, MOST))
    outputs = np.sort(outputs, axis=1) if LINK == "sorted" else outputs
    return outputs[:, 0] if ONE_DIMENSIONAL else outputs


def _many_outputs(rows: Any) -> Any:
    columns, n_rows = _columns_of(rows, COLUMNS, UNNAMED)
    return np.column_stack([np.broadcast_to(own, n_rows) for own in _outputs(columns, Rows)])


def _probabilities(rows: Any) -> list[Any]:
    outputs = _checked(_many_outputs, rows)
    if LINK == "constant":
        return [np.ones((len(outputs), 1))]
    if LINK == "sigmoid":
        return [np.column_stack([Rows.sigmoid(-z), Rows.sigmoid(z)]) for z in outputs.T]
    ends = np.cumsum([len(classes) for classes in CLASSES])[:-1]
    powers = [np.exp(part - part.max(axis=1, keepdims=True)) for part in np.split(outputs, ends, axis=1)]
    return [own / own.sum(axis=1, keepdims=True) for own in powers]


def _checked(function: Any, rows: Any) -> Any:
    try:
        return function(rows)
    except KeyError as error:
        if error.args and error.args[0] in COLUMNS:
            raise ValueError(f"column {error.args[0]!r} is missing; expected the columns {list(COLUMNS)}") from None
        raise
