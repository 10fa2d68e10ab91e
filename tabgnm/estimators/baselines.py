"""Scores of simple models on the same rows, to compare the score of a model with."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge

from tabgnm.estimators.checks import check_integer, check_lengths, in_range, sample_weights
from tabgnm.estimators.class_targets import MIN_PROBABILITY
from tabgnm.estimators.folds import Fold, k_folds, splitter_folds
from tabgnm.estimators.metrics import number_score, quantile_scores
from tabgnm.estimators.number_targets import weighted_quantiles
from tabgnm.estimators.targets import ClassTargets, NumberTargets
from tabgnm.table import TableEncoder, TableSettings, read_table

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator
    from tabgnm.table import RawTable

Array = NDArray[Any]

_MAX_LEVELS = 20  # levels of a category that are one-hot encoded for linear models
_MAX_ROWS = 50_000  # training rows of a linear model; more hardly change it
_MAX_ITERATIONS = 300

# Takes encoded training rows, their targets and weights, and encoded validation rows; returns predictions for these.
_Fit = Callable[[Array, Array, Array, Array], Array]


@dataclass(frozen=True, eq=False)
class Baseline:
    """The result of a simple model on rows that it was not fitted to.

    Attributes
    ----------
    name : str
        "majority class" or "logistic regression"; "mean" or "ridge regression"; for a model of one quantile, for
        example "0.9 quantile" or "shifted ridge regression".
    prediction : array of shape (rows,), (rows, classes) or (rows, outputs), or a list of arrays
        Out-of-fold predictions in the form of `predict_proba` (classifiers) or `predict` (regressors). NaN for rows
        that are in no validation fold or have no weight.
    score : float
        Accuracy, R² or D², as returned by the `score` method of the model.
    score_std : float
        Standard deviation of the score over the folds.
    loss : float
        Log-loss, mean squared error or quantile loss, averaged over targets.
    """

    name: str
    prediction: Any
    score: float
    score_std: float
    loss: float


def baselines(
    model: TabularEstimator, X: Any, y: Any, sample_weight: Any = None, cv: Any = 5, random_state: int = 0
) -> list[Baseline]:
    """Evaluate two simple models on a table: a constant prediction and a linear model.

    The inputs of the linear model are standardized numbers, with missing values replaced by the mean and flagged by an
    indicator, and one-hot columns of the 20 most frequent levels of each category. It is fitted to at most 50,000 rows
    per fold. With several targets, a separate logistic regression is fitted for each target. For a model of one
    quantile, the constant is this quantile of the training rows, and the linear model is a ridge regression plus this
    quantile of its training errors.

    Parameters
    ----------
    model : estimator
        A fitted tabgnm estimator. It determines the type of the targets and the kinds of the columns.
    X, y, sample_weight
        As in the `fit` method of the model; X must have the columns of the model.
    cv : int, splitter or iterable, default=5
        The number of folds, a scikit-learn splitter, or an iterable of (training rows, validation rows).
    random_state : int, default=0
        The seed of the folds.

    Returns
    -------
    list of Baseline
        Two baselines; fewer if one cannot be computed, for instance because there are too few rows for folds. Empty for
        models of several quantiles.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from tabgnm import MLPClassifier
    >>> from tabgnm.estimators.baselines import baselines
    >>> X, y = load_wine(return_X_y=True)
    >>> model = MLPClassifier(n_folds=0, max_epochs=1).fit(X, y)
    >>> [(own.name, round(own.score, 1)) for own in baselines(model, X, y)]
    [('majority class', 0.4), ('logistic regression', 1.0)]
    """
    if not hasattr(model, "fitted_"):
        raise NotFittedError(f"this {type(model).__name__} is not fitted yet; call fit before baselines")
    raw = model._matched(read_table(X))
    labels = model._check_y(y, "y")
    check_lengths(raw.n_rows, labels)
    weights = sample_weights(sample_weight, raw.n_rows)
    weights = np.ones(raw.n_rows) if weights is None else in_range(weights)
    kept = np.flatnonzero(weights > 0)
    task: _Classes | _Numbers
    if isinstance(model.fitted_.targets, ClassTargets):
        task = _Classes(_targets_of(model.fitted_.targets, labels), labels)
    elif isinstance(model.fitted_.targets, NumberTargets) and model.fitted_.targets.quantiles is None:
        kind = _Quantile if model.fitted_.targets.predicted_quantiles else _Numbers
        task = kind(labels, model.fitted_.targets)
    else:
        return []
    folds = _folds(cv, task, kept, raw.n_rows, random_state)
    if not folds:
        return []
    found = [_judged(task, *task.constant, folds, weights, None)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit of the model itself warns about columns; convergence hardly matters
        try:
            encoded = [_encoded(model, raw, fold, random_state) for fold in folds]
            found.append(_judged(task, *task.linear, folds, weights, encoded))
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):
            pass  # a linear model cannot use these columns; keep the other baseline
    return found


def _targets_of(known: ClassTargets, labels: Array) -> ClassTargets:
    """Return the model's targets, or new ones if `labels` contains labels that the model does not know."""
    try:
        known.codes(labels)
    except ValueError:
        return ClassTargets.of(labels)
    return known


def _folds(cv: Any, task: _Classes | _Numbers, kept: Array, n_rows: int, seed: int) -> list[tuple[Array, Array]]:
    """Return the training and validation rows of each fold as positions among all rows, skipping folds without both."""
    if cv is None or hasattr(cv, "__index__"):
        n_folds = 5 if cv is None else check_integer("cv", cv, smallest=2)
        strata = None if task.strata is None else task.strata[kept]
        folds = k_folds(len(kept), strata, n_folds, seed)
    else:
        folds = splitter_folds(cv, len(kept), task.y[kept], None, kept, n_rows)
    return [_rows(fold, kept) for fold in folds if fold.val is not None]


def _rows(fold: Fold, kept: Array) -> tuple[Array, Array]:
    assert fold.val is not None
    return kept[fold.train.numpy()], kept[fold.val.numpy()]


def _encoded(
    model: TabularEstimator, raw: RawTable, fold: tuple[Array, Array], seed: int
) -> tuple[Array, Array, Array]:
    """Return the training rows of a linear model, their encoding and that of the validation rows."""
    train, val = fold
    if len(train) > _MAX_ROWS:
        train = np.sort(np.random.default_rng(seed).choice(train, _MAX_ROWS, replace=False))
    settings = TableSettings(
        scaling="standard",
        level_dim=0,
        max_one_hot=_MAX_LEVELS,
        min_level_count=1,
        kinds=model.fitted_.encoders[0].learned_kinds,
    )
    encoder = TableEncoder(settings).fit(raw, train)
    return train, encoder.encode(raw.take(train), np.float64), encoder.encode(raw.take(val), np.float64)


def _judged(
    task: _Classes | _Numbers,
    name: str,
    fit: _Fit,
    folds: list[tuple[Array, Array]],
    weights: Array,
    encoded: list[tuple[Array, Array, Array]] | None,
) -> Baseline:
    predicted = np.full((len(weights), task.n_outputs), np.nan)
    scores = []
    for place, (train, val) in enumerate(folds):
        rows, x, x_val = (
            (train, np.empty((len(train), 0)), np.empty((len(val), 0))) if encoded is None else encoded[place]
        )
        own = fit(x, task.y[rows], weights[rows], x_val)
        if not np.isfinite(own).all():
            raise ArithmeticError("predictions are not finite")
        predicted[val] = own
        scores.append(task.score(val, own, weights[val]))
    rows = np.flatnonzero(~np.isnan(predicted).any(axis=1))
    return Baseline(
        name,
        task.as_predicted(predicted),
        task.score(rows, predicted[rows], weights[rows]),
        float(np.std(scores)),
        task.loss(rows, predicted[rows], weights[rows]),
    )


class _Numbers:
    """Targets that are numbers; predictions have shape (rows, outputs)."""

    strata = None

    def __init__(self, labels: Array, targets: NumberTargets) -> None:
        self.y = labels.reshape(len(labels), -1)
        self.n_outputs = self.y.shape[1]
        self._targets = targets
        self.constant = ("mean", self._mean)
        self.linear = ("ridge regression", self._ridge)

    @staticmethod
    def _mean(_x: Array, y: Array, weights: Array, x_val: Array) -> Array:
        scale = np.maximum(np.abs(y).max(axis=0), np.finfo(float).tiny)  # so that no sum overflows
        return np.tile(np.average(y / scale, axis=0, weights=weights) * scale, (len(x_val), 1))

    @staticmethod
    def _ridge(x: Array, y: Array, weights: Array, x_val: Array) -> Array:
        center = np.average(y, axis=0, weights=weights)
        spread = np.std(y, axis=0)
        spread = np.where(spread > 0, spread, 1.0)
        ridge = Ridge(alpha=1.0).fit(x, (y - center) / spread, sample_weight=weights)
        predicted: Array = np.asarray(ridge.predict(x_val)).reshape(len(x_val), -1)
        return np.asarray(predicted * spread + center)

    def score(self, rows: Array, predicted: Array, weights: Array) -> float:
        """Return R² or D², averaged over the targets."""
        return number_score(self._targets, self.y[rows], predicted, weights) if len(rows) > 1 else float("nan")

    def loss(self, rows: Array, predicted: Array, weights: Array) -> float:
        """Return the mean squared error, averaged over the targets."""
        with np.errstate(over="ignore"):
            return float(np.average(((self.y[rows] - predicted) ** 2).mean(axis=1), weights=weights))

    def as_predicted(self, predicted: Array) -> Array:
        """Return predictions in the form of `predict`."""
        return predicted[:, 0] if self._targets.one_dimensional else predicted


class _Quantile(_Numbers):
    """Targets of which one quantile is predicted."""

    def __init__(self, labels: Array, targets: NumberTargets) -> None:
        super().__init__(labels, targets)
        self._levels = targets.predicted_quantiles[:1]
        self.constant = (f"{self._levels[0]:g} quantile", self._quantile)
        self.linear = ("shifted ridge regression", self._shifted_ridge)

    def _quantile(self, _x: Array, y: Array, weights: Array, x_val: Array) -> Array:
        constants = np.concatenate([weighted_quantiles(own, self._levels, weights) for own in y.T])
        return np.tile(constants, (len(x_val), 1))

    def _shifted_ridge(self, x: Array, y: Array, weights: Array, x_val: Array) -> Array:
        fitted, predicted = np.split(self._ridge(x, y, weights, np.concatenate([x, x_val])), [len(x)])
        return np.asarray(predicted + self._quantile(x, y - fitted, weights, x_val))

    def loss(self, rows: Array, predicted: Array, weights: Array) -> float:
        """Return the quantile loss, averaged over the targets."""
        return quantile_scores(self._targets, self.y[rows], predicted, weights)["quantile"]


class _Classes:
    """Targets that are labels; predictions are the probabilities of all classes of all targets, side by side."""

    def __init__(self, targets: ClassTargets, labels: Array) -> None:
        self._targets = targets
        self.strata = targets.strata(labels)
        self.y = targets.codes(labels).reshape(len(labels), -1)
        self._n_classes = [len(own) for own in targets.classes]
        self.n_outputs = sum(self._n_classes)
        self.constant = ("majority class", self._frequencies)
        self.linear = ("logistic regression", self._logistic)

    def _frequencies(self, _x: Array, y: Array, weights: Array, x_val: Array) -> Array:
        counts = [np.bincount(own, weights, n) for own, n in zip(y.T, self._n_classes, strict=True)]
        return np.tile(np.concatenate([own / own.sum() for own in counts]), (len(x_val), 1))

    def _logistic(self, x: Array, y: Array, weights: Array, x_val: Array) -> Array:
        parts = []
        for codes, n_classes in zip(y.T, self._n_classes, strict=True):
            own = np.zeros((len(x_val), n_classes))
            present = np.unique(codes)
            if len(present) == 1:
                own[:, present] = 1.0
            else:
                regression = LogisticRegression(max_iter=_MAX_ITERATIONS).fit(x, codes, sample_weight=weights)
                own[:, regression.classes_] = regression.predict_proba(x_val)
            parts.append(own)
        return np.concatenate(parts, axis=1)

    def _parts(self, predicted: Array) -> list[Array]:
        return np.split(predicted, np.cumsum(self._n_classes)[:-1], axis=1)

    def score(self, rows: Array, predicted: Array, weights: Array) -> float:
        """Return the fraction of rows for which all labels are correct."""
        labels = np.stack([part.argmax(axis=1) for part in self._parts(predicted)], axis=1)
        return float(np.average((labels == self.y[rows]).all(axis=1), weights=weights))

    def loss(self, rows: Array, predicted: Array, weights: Array) -> float:
        """Return the log-loss, averaged over the targets."""
        of_targets = [
            -np.log(np.maximum(np.take_along_axis(part, codes[:, None], axis=1)[:, 0], MIN_PROBABILITY))
            for part, codes in zip(self._parts(predicted), self.y[rows].T, strict=True)
        ]
        return float(np.average(np.mean(of_targets, axis=0), weights=weights))

    def as_predicted(self, predicted: Array) -> Any:
        """Return probabilities in the form of `predict_proba`."""
        parts = self._parts(predicted)
        if self._targets.kind == "multilabel":
            return np.column_stack([part[:, 1] for part in parts])
        return parts if self._targets.kind == "joint" else parts[0]
