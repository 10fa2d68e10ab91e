"""The small machine that a report shows: the model itself, a given one, or one distilled from the model."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tabgnm.estimators.base import TabularEstimator
from tabgnm.estimators.machines import NoSingleMachine
from tabgnm.estimators.parameters import GNMParameters
from tabgnm.report.evaluation import Evaluation
from tabgnm.report.machine import machine_data
from tabgnm.report.scores import accuracy_of_rows, number_score_name
from tabgnm.report.wording import count, decimals, percent

# A machine that can be read, and taught within seconds. Each class or target needs some edges of its own.
MIN_EDGES = 30
_EDGES_PER_OUTPUT = 10
_ROWS = 2_000
_SETTINGS: dict[str, Any] = {
    "n_layers": 2,
    "n_hidden": 16,
    "n_folds": 2,
    "n_starts": 1,
    "n_augmented": 1_000,
    "label_share": 0,
}
_EXAMPLES = 6
_MAX_EDGES = 200
_ROUGH = 0.1  # accuracy, R² or D² that a machine lacks, from which on the page warns of it
_MAX_COLUMNS = 300  # of a table, beyond which distilling takes too long for a report


@dataclass(frozen=True)
class SmallMachine:
    """What the page shows: data for its template, or why there is none."""

    data: dict[str, Any] | None
    origin: str


def small_machine(evaluation: Evaluation, machine: Any) -> SmallMachine | None:
    """Return the machine to show; None if none is wanted."""
    if machine is False:
        return None
    if machine is None:
        return _of_model(evaluation)
    if not isinstance(machine, TabularEstimator):
        raise TypeError(
            f"machine={machine!r:.80} has type {type(machine).__name__}; expected an estimator such as the result of "
            "distill, None or False"
        )
    check_is_fitted(machine, "fitted_")
    data = _data(evaluation, machine)
    if data is None:
        raise ValueError(
            f"machine={type(machine).__name__}(...) is not a single small machine; expected the result of distill(X) "
            "or fit_sparse(X, y), None or False"
        )
    return SmallMachine(
        data, "This small machine was passed to the report; its predictions may differ from those of the model."
    )


def _of_model(evaluation: Evaluation) -> SmallMachine:
    model = evaluation.model
    try:
        own = model.machine_
    except NoSingleMachine:
        pass
    else:
        if own.n_edges <= _MAX_EDGES:
            return SmallMachine(_data(evaluation, model), "This is the model itself.")
    if not isinstance(model, GNMParameters):
        return SmallMachine(None, f"{type(model).__name__} has fixed layers, so no small machine is distilled from it.")
    if model.n_features_in_ > _MAX_COLUMNS:
        return SmallMachine(
            None, f"With {model.n_features_in_:,} columns, distilling a small machine would take too long for a report."
        )
    if evaluation.kind == "quantiles":
        return SmallMachine(None, "No small machine is distilled from a model of several quantiles.")
    raw, y = evaluation.sample(_ROWS)
    n_edges = int(np.clip(_EDGES_PER_OUTPUT * _n_outputs(evaluation), MIN_EDGES, _MAX_EDGES))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the fit of the model itself warned about columns
            small = model.distill(raw, y, n_edges=n_edges, random_state=0, **_SETTINGS)
    except ValueError as error:  # such as too few rows for folds
        return SmallMachine(None, f"No small machine could be distilled: {error}.")
    [chosen] = [own for own in small._path if own["chosen"]]
    return SmallMachine(_data(evaluation, small), _origin(evaluation, raw.n_rows, chosen))


def _n_outputs(evaluation: Evaluation) -> int:
    if evaluation.classes:
        return sum(len(own.labels) for own in evaluation.classes)
    return len(evaluation.numbers)


def _origin(evaluation: Evaluation, n_rows: int, chosen: dict[str, Any]) -> str:
    """Say what the distilled machine is, and how much worse than the model."""
    if evaluation.classes:
        name, of_model = "accuracy", float(accuracy_of_rows(evaluation.classes).mean())
    else:
        y, predicted = (
            np.stack([getattr(own, part) for own in evaluation.numbers], axis=1) for part in ("y", "predicted")
        )
        name, of_model = number_score_name(evaluation), evaluation.model._score_numbers(predicted, y, None)
    score = float(chosen["score"])
    own, others = (percent(value) if evaluation.classes else decimals(value) for value in (score, of_model))
    rows = f"{n_rows:,} of the {evaluation.n_rows:,} rows" if n_rows < evaluation.n_rows else f"all {n_rows:,} rows"
    said = (
        f"This small machine was distilled from the model with {rows}. It has "
        f"{count(chosen['edges'], 'edge')}, and its {name} on held-out rows is {own} (the model: {others})."
    )
    if score < of_model - _ROUGH:
        return (
            f"{said} It is much less accurate than the model, so it is only a rough sketch of the model and not an "
            "explanation."
        )
    return f"{said} It is simpler than the model, and its predictions differ from those of the model."


def _data(evaluation: Evaluation, machine: TabularEstimator) -> dict[str, Any] | None:
    examples, _ = evaluation.sample(_EXAMPLES)
    return machine_data(machine, examples=examples, target=[own.name for own in evaluation.targets])
