"""The rows that a report is about, with what the model predicts for them, target by target."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from tabgnm.estimators.base import TabularEstimator
from tabgnm.estimators.checks import check_lengths
from tabgnm.estimators.targets import ClassTargets, NumberTargets
from tabgnm.report.training_rows import out_of_fold
from tabgnm.report.wording import text
from tabgnm.table import RawTable, read_table

Array = NDArray[Any]

MAX_ROWS = 20_000
_SEED = 0


@dataclass(frozen=True, eq=False)
class ClassesOfTarget:
    """Labels and probabilities of one target.

    Attributes
    ----------
    name : str
    labels : list of str
        Of the classes, as shown.
    codes : array of int of shape (rows,)
        Class of each row.
    probabilities : array of shape (rows, classes)
    """

    name: str
    labels: list[str]
    codes: Array
    probabilities: Array

    @property
    def predicted(self) -> Array:
        """Most probable class of each row."""
        return np.asarray(np.argmax(self.probabilities, axis=1))

    @property
    def confidence(self) -> Array:
        """Probability of the predicted class of each row."""
        return np.asarray(self.probabilities.max(axis=1))

    @property
    def of_truth(self) -> Array:
        """Probability of the true class of each row."""
        return np.asarray(np.take_along_axis(self.probabilities, self.codes[:, None], axis=1)[:, 0])


@dataclass(frozen=True, eq=False)
class NumbersOfTarget:
    """Numbers and predictions of one target.

    Attributes
    ----------
    name : str
    y, predicted : arrays of shape (rows,)
    interval : array of shape (rows, 2) or None
        In which the target should lie with probability `coverage`.
    coverage : float
    interval_source : str
        How the interval was made, as part of a sentence.
    quantiles : array of shape (rows, quantiles) or None
        All predicted quantiles, if these are several.
    middle : float or None
        The quantile that `predicted` is, if several are predicted.
    """

    name: str
    y: Array
    predicted: Array
    interval: Array | None = None
    coverage: float = 0.9
    interval_source: str = ""
    quantiles: Array | None = None
    middle: float | None = None


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Rows, and predictions for them.

    Attributes
    ----------
    model : estimator
    raw : RawTable
        The evaluated rows, in the columns of the model.
    y : array
        Their targets.
    rows : array of int
        Their positions in the table that was given.
    n_given : int
        Number of rows of that table.
    sampled : bool
        Whether there were so many rows that some of them were drawn at random.
    out_of_fold : bool
        Whether they are the rows of `fit`: predictions are then those of networks that were not trained on them.
    targets : list of ClassesOfTarget, or list of NumbersOfTarget
    file_rows : array of int or None
        Positions in a file of all rows of that table.
    """

    model: TabularEstimator
    raw: RawTable
    y: Array
    rows: Array
    n_given: int
    sampled: bool
    out_of_fold: bool
    targets: list[ClassesOfTarget] | list[NumbersOfTarget]
    file_rows: Array | None = None

    @property
    def row_numbers(self) -> Array:
        """Numbers of the evaluated rows for readers: positions in the table from 0, or in its file from 1."""
        return self.rows if self.file_rows is None else self.file_rows[self.rows] + 1

    @property
    def n_rows(self) -> int:
        """Number of evaluated rows."""
        return len(self.rows)

    @property
    def classes(self) -> list[ClassesOfTarget]:
        """Targets of a classifier; none for a regressor."""
        return [own for own in self.targets if isinstance(own, ClassesOfTarget)]

    @property
    def numbers(self) -> list[NumbersOfTarget]:
        """Targets of a regressor; none for a classifier."""
        return [own for own in self.targets if isinstance(own, NumbersOfTarget)]

    @property
    def kind(self) -> str:
        """Kind of the targets.

        "one", "binary", "multiclass", "multilabel" or "joint" for classifiers; "number", "numbers" or "quantiles".
        """
        targets = self.model.fitted_.targets
        if isinstance(targets, ClassTargets):
            return targets.kind
        if targets.quantiles is not None:
            return "quantiles"
        return "number" if targets.n_targets == 1 else "numbers"

    def sample(self, most: int) -> tuple[RawTable, Array]:
        """Return at most so many rows, drawn at random, and their targets."""
        if self.n_rows <= most:
            return self.raw, self.y
        chosen = self.sampled_rows(most)
        return self.raw.take(chosen), self.y[chosen]

    def sampled_rows(self, most: int) -> Array:
        """Return the positions of the rows that `sample` draws."""
        if self.n_rows <= most:
            return np.arange(self.n_rows)
        return np.sort(np.random.default_rng(_SEED).choice(self.n_rows, most, replace=False))


def evaluate(
    model: TabularEstimator,
    X: Any,
    y: Any,
    target_name: str | None,
    most_rows: int = MAX_ROWS,
    file_rows: Any = None,
) -> Evaluation:
    """Predict the rows of a table, or some of them if there are very many."""
    given = read_table(X)
    if file_rows is not None:
        file_rows = np.asarray(file_rows)
        if file_rows.shape != (given.n_rows,):
            raise ValueError(
                f"file_rows has shape {file_rows.shape}; expected one position for each of the {given.n_rows:,} rows"
            )
    raw, checked = model._matched(given), model._check_y(y, "y")
    check_lengths(raw.n_rows, checked)
    model._check_scored(checked)
    targets = model.fitted_.targets
    known = out_of_fold(model, raw, checked)
    rows = np.arange(raw.n_rows) if known is None else np.flatnonzero(~np.isnan(known).any(axis=1))
    sampled = len(rows) > most_rows
    if sampled:
        rows = np.sort(np.random.default_rng(_SEED).choice(rows, most_rows, replace=False))
    part = raw if len(rows) == raw.n_rows else raw.take(rows)
    own = checked[rows]
    names = _target_names(y, target_name, own.reshape(len(own), -1).shape[1])
    of_targets: list[ClassesOfTarget] | list[NumbersOfTarget]
    if isinstance(targets, ClassTargets):
        codes = targets.codes(own).reshape(len(own), -1)
        parts = _probabilities(model, part) if known is None else targets.parts(known[rows])
        of_targets = [
            ClassesOfTarget(name, _labels(classes), code, probabilities / probabilities.sum(axis=1, keepdims=True))
            for name, classes, code, probabilities in zip(names, targets.classes, codes.T, parts, strict=True)
        ]
    else:
        assert isinstance(targets, NumberTargets)
        predicted = np.asarray(model.predict(part) if known is None else known[rows]).reshape(len(own), -1)
        of_targets = _numbers(model, part, own.reshape(len(own), -1), predicted, names, known is not None)
    return Evaluation(model, part, own, rows, raw.n_rows, sampled, known is not None, of_targets, file_rows)


def _probabilities(model: TabularEstimator, raw: RawTable) -> list[Array]:
    targets = model.fitted_.targets
    if targets.kind == "one":  # type: ignore[union-attr] # of a classifier
        return [np.ones((raw.n_rows, 1))]
    return [np.exp(part) for part in model._predicted(raw, model._reduce)]


def _numbers(
    model: TabularEstimator, raw: RawTable, y: Array, predicted: Array, names: list[str], out_of_fold: bool
) -> list[NumbersOfTarget]:
    targets = model.fitted_.targets
    assert isinstance(targets, NumberTargets)
    if targets.quantiles is not None:
        levels = np.asarray(targets.quantiles)
        middle = int(np.argmin(np.abs(levels - 0.5)))
        source = f"predicted quantiles {levels[0]:g} to {levels[-1]:g}"
        interval = predicted[:, [0, -1]]
        share = float(levels[-1] - levels[0])
        own = float(levels[middle])
        return [NumbersOfTarget(names[0], y[:, 0], predicted[:, middle], interval, share, source, predicted, own)]
    coverage, intervals = 0.9, None
    with contextlib.suppress(ValueError):  # none, or too few rows were left out
        intervals = model.predict_interval(raw, coverage).reshape(len(y), -1, 2)
    source = "predict_interval(X, coverage=0.9)"
    if out_of_fold:
        source += ", computed from the errors on these rows, so this is no independent check"
    return [
        NumbersOfTarget(
            name, y[:, place], predicted[:, place], None if intervals is None else intervals[:, place], coverage, source
        )
        for place, name in enumerate(names)
    ]


def _labels(classes: Array) -> list[str]:
    return [text(value) for value in classes.tolist()]


def _target_names(y: Any, target_name: str | None, n_targets: int) -> list[str]:
    """Return the name of each target: that of the series, or of the columns of the frame."""
    found: list[str] = []
    native = nw.from_native(y, allow_series=True, pass_through=True)
    if isinstance(native, nw.Series):
        found = [] if native.name is None else [text(native.name)]
    elif isinstance(native, nw.DataFrame):
        found = [text(name) for name in native.columns]
    if target_name is not None:
        found = (
            [target_name]
            if n_targets == 1
            else [f"{target_name}: {name}" for name in found]
            or [f"{target_name} {place + 1}" for place in range(n_targets)]
        )
    if len(found) == n_targets and all(found):
        return found
    return ["target"] if n_targets == 1 else [f"target {place + 1}" for place in range(n_targets)]
