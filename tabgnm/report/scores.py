"""Scores of predictions, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import mean_tweedie_deviance

from tabgnm.estimators.class_targets import MIN_PROBABILITY
from tabgnm.estimators.metrics import calibration_error, quantile_scores
from tabgnm.estimators.score_intervals import Bootstrap, scores_of_resamples, wilson_interval
from tabgnm.estimators.targets import NumberTargets
from tabgnm.nn.losses import LogLinkLoss
from tabgnm.report.evaluation import ClassesOfTarget, Evaluation, NumbersOfTarget
from tabgnm.report.wording import decimals, number, percent

Array = NDArray[Any]


@dataclass(frozen=True)
class Score:
    """One score of the model.

    Attributes
    ----------
    name : str
    value : float
    ends : tuple of two floats, or None
        Of its 95 % interval.
    meaning : str
        One sentence for people who do not know it.
    method : str
        Of the interval: "bootstrap" or "Wilson".
    is_share : bool
        Whether it is shown as a percentage.
    best_is_one : bool
        Whether it is shown with three decimals, as scores are whose best value is 1.
    """

    name: str
    value: float
    ends: tuple[float, float] | None
    meaning: str
    is_share: bool = False
    best_is_one: bool = False
    method: str = "bootstrap"

    @property
    def shown(self) -> str:
        """The value as text."""
        return self.text(self.value)

    def text(self, value: float) -> str:
        """Return a value of this score as text, with as many digits as the others beside it."""
        if self.is_share:
            return percent(value, trimmed=False)
        return decimals(value) if self.best_is_one else number(value, trimmed=False)

    @property
    def interval(self) -> str:
        """The interval as text; empty without one."""
        return "" if self.ends is None else f"{self.text(self.ends[0])} to {self.text(self.ends[1])}"


def share_of_rows(name: str, right: Array, meaning: str) -> Score:
    """Return the share of rows for which something is true."""
    share = float(np.mean(right))
    return Score(name, share, wilson_interval(share, len(right)), meaning, is_share=True, method="Wilson")


def mean_over_rows(name: str, values: Array, meaning: str, bootstrap: Bootstrap, *, is_share: bool = False) -> Score:
    """Return the score that is the mean of a number per row."""
    return Score(name, float(np.mean(values)), bootstrap.interval(bootstrap.means(values)), meaning, is_share)


def scores_of(evaluation: Evaluation, bootstrap: Bootstrap) -> list[Score]:
    """Return all scores, the most important first."""
    if evaluation.classes:
        return _class_scores(evaluation.classes, bootstrap)
    if evaluation.kind == "quantiles":
        return _quantile_scores(evaluation, bootstrap)
    if number_score_name(evaluation) == "D²":
        return _scores_of_one_quantile(evaluation, bootstrap)
    return _number_scores(evaluation, bootstrap)


def number_score_name(evaluation: Evaluation) -> str:
    """Return the name of what `score` of a regressor returns."""
    return "D²" if evaluation.model.fitted_.targets.metric_name == "d2" else "R²"


def accuracy_of_rows(targets: list[ClassesOfTarget]) -> Array:
    """Return 1 for rows of which all labels are predicted, and 0 for others."""
    return np.asarray(np.all([own.predicted == own.codes for own in targets], axis=0), dtype=np.float64)


def auc(codes: Array, scores: Array, weights: Array | None = None) -> float:
    """Return the area under the ROC curve of 0/1 codes; ties count half. NaN if there is only one class."""
    return float(_AreaUnderCurve(codes, scores)([np.ones(len(codes)) if weights is None else weights])[0])


class _AreaUnderCurve:
    """The area under the ROC curve for different weights of the same rows."""

    def __init__(self, codes: Array, scores: Array) -> None:
        self._order = np.argsort(scores, kind="stable")
        ascending = scores[self._order]
        self._positive = codes[self._order].astype(bool)
        self._starts = np.flatnonzero(np.r_[True, ascending[1:] != ascending[:-1]])

    def __call__(self, weights: Iterable[Array]) -> Array:
        """Return the area for each array of weights of the rows."""
        found = []
        for own in weights:
            sorted_weights = own[self._order].astype(np.float64)
            positive = np.add.reduceat(sorted_weights * self._positive, self._starts)
            negative = np.add.reduceat(sorted_weights * ~self._positive, self._starts)
            below = np.cumsum(negative) - negative / 2
            total = positive.sum() * negative.sum()
            found.append(float(positive @ below) / total if total > 0 else np.nan)
        return np.asarray(found)


def _class_scores(targets: list[ClassesOfTarget], bootstrap: Bootstrap) -> list[Score]:
    several = len(targets) > 1
    what = "rows with all labels correct" if several else "rows whose class is predicted correctly"
    found = [share_of_rows("Accuracy", accuracy_of_rows(targets), f"Share of {what}.")]
    if several:
        share = np.mean([own.predicted == own.codes for own in targets], axis=0)
        meaning = "Share of individual labels that are correct."
        found.append(mean_over_rows("Label accuracy", share, meaning, bootstrap, is_share=True))
    if all(len(own.labels) < 2 for own in targets):
        return found
    found.append(_balanced_accuracy(targets, bootstrap))
    losses = np.mean([-np.log(np.maximum(own.of_truth, MIN_PROBABILITY)) for own in targets], axis=0)
    found.append(
        mean_over_rows(
            "Log-loss", losses, "Mean of −log(probability of the true class); lower is better, 0 is perfect.", bootstrap
        )
    )
    found.append(_area(targets, bootstrap))
    error = np.mean([calibration_error(own.probabilities, own.codes) for own in targets])
    found.append(
        Score(
            "Calibration error",
            float(error),
            None,
            "Mean difference between the probability of the predicted class and how often it is correct; 0 is best.",
            is_share=True,
        )
    )
    return found


def _balanced_accuracy(targets: list[ClassesOfTarget], bootstrap: Bootstrap) -> Score:
    def of(means: Callable[[Array], Any]) -> Any:
        recalls = []
        for own in targets:
            right = own.predicted == own.codes
            for code in np.unique(own.codes):
                members = own.codes == code
                with np.errstate(invalid="ignore", divide="ignore"):
                    recalls.append(means(right & members) / means(members))
        return np.nanmean(recalls, axis=0)

    value = float(of(np.mean))
    meaning = "Mean recall over classes: rare classes count as much as frequent ones."
    return Score("Balanced accuracy", value, bootstrap.interval(of(bootstrap.means)), meaning, is_share=True)


def _area(targets: list[ClassesOfTarget], bootstrap: Bootstrap) -> Score:
    values, resampled = [], []
    for own in targets:
        for code in range(1, 2) if len(own.labels) == 2 else range(len(own.labels)):
            area = _AreaUnderCurve(own.codes == code, own.probabilities[:, code])
            value = float(area([np.ones(len(own.codes))])[0])
            if np.isfinite(value):
                values.append(value)
                resampled.append(area(bootstrap))
    many = len(values) > 1
    meaning = "How well the probability ranks rows: 0.5 is chance, 1 is perfect" + (
        "; mean over classes, each against the rest." if many else "."
    )
    if not values:
        return Score("ROC AUC", np.nan, None, meaning)
    ends = bootstrap.interval(np.mean(resampled, axis=0))
    return Score("ROC AUC", float(np.mean(values)), ends, meaning, best_is_one=True)


def _number_scores(evaluation: Evaluation, bootstrap: Bootstrap) -> list[Score]:
    targets = evaluation.numbers
    y = np.stack([own.y for own in targets], axis=1)
    predicted = np.stack([own.predicted for own in targets], axis=1)
    several = "; mean over targets." if len(targets) > 1 else "."
    r2 = evaluation.model._score_numbers(predicted, y, None) if len(y) > 1 else np.nan
    own_targets = evaluation.model.fitted_.targets
    assert isinstance(own_targets, NumberTargets)
    ends = bootstrap.interval(scores_of_resamples(own_targets, y, predicted, bootstrap))
    meaning = f"Share of the variance explained: 0 for predicting the mean, 1 is perfect{several}"
    found = [Score("R²", r2, ends, meaning, best_is_one=True)]
    with np.errstate(over="ignore", invalid="ignore"):
        squared = ((y - predicted) ** 2).mean(axis=1)
        root = float(np.sqrt(squared.mean()))
        ends = bootstrap.interval(np.sqrt(bootstrap.means(squared)))
    meaning = "Root mean squared error, in units of the target: large errors count more."
    found.append(Score("RMSE", root, ends, meaning))
    absolute = np.abs(y - predicted).mean(axis=1)
    found.append(mean_over_rows("MAE", absolute, f"Mean absolute error, in units of the target{several}", bootstrap))
    median = float(np.median(np.abs(y - predicted)))
    found.append(Score("Median absolute error", median, None, "Half of the errors are smaller."))
    loss = own_targets.loss
    if isinstance(loss, LogLinkLoss) and bool((y >= 0 if loss.allows_zero else y > 0).all()):
        deviances = [mean_tweedie_deviance(*pair, power=loss.power) for pair in zip(y.T, predicted.T, strict=True)]
        meaning = "The training loss; lower is better, 0 is perfect."
        found.append(Score(f"{loss.name.capitalize()} deviance", float(np.mean(deviances)), None, meaning))
    return found


def _quantile_scores(evaluation: Evaluation, bootstrap: Bootstrap) -> list[Score]:
    [own] = evaluation.numbers
    targets = evaluation.model.fitted_.targets
    assert isinstance(targets, NumberTargets)
    assert own.quantiles is not None
    found = [_d2(targets, own.y, own.quantiles, "", bootstrap), coverage_score(own)]
    middle = "Mean absolute error of the quantile nearest to the median, in units of the target."
    found.append(mean_over_rows("MAE", np.abs(own.y - own.predicted), middle, bootstrap))
    return found


def _scores_of_one_quantile(evaluation: Evaluation, bootstrap: Bootstrap) -> list[Score]:
    targets = evaluation.model.fitted_.targets
    assert isinstance(targets, NumberTargets)
    y = np.stack([own.y for own in evaluation.numbers], axis=1)
    predicted = np.stack([own.predicted for own in evaluation.numbers], axis=1)
    several = "; mean over targets" if len(evaluation.numbers) > 1 else ""
    level = targets.predicted_quantiles[0]
    under = y - predicted
    losses = np.maximum(level * under, (level - 1) * under).mean(axis=1)
    meaning = f"The training loss of the quantile {level:g}, in units of the target; lower is better{several}."
    found = [
        _d2(targets, y, predicted, several, bootstrap),
        mean_over_rows("Quantile loss", losses, meaning, bootstrap),
    ]
    below = (y <= predicted).mean(axis=1)
    meaning = f"Share of targets up to their prediction; nominal {percent(level)}."
    return [*found, mean_over_rows("Share below", below, meaning, bootstrap, is_share=True)]


def _d2(targets: NumberTargets, y: Array, predicted: Array, several: str, bootstrap: Bootstrap) -> Score:
    value = quantile_scores(targets, y, predicted, None)["d2"] if len(y) > 1 else np.nan
    ends = bootstrap.interval(scores_of_resamples(targets, y, predicted, bootstrap))
    meaning = f"Reduction of the quantile loss compared with constant quantiles: 1 is perfect{several}."
    return Score("D²", value, ends, meaning, best_is_one=True)


def coverage_score(target: NumbersOfTarget) -> Score:
    """Return the share of the targets that lie within their interval."""
    assert target.interval is not None
    inside = (target.interval[:, 0] <= target.y) & (target.y <= target.interval[:, 1])
    meaning = f"Share of rows whose target lies within its interval; nominal {percent(target.coverage)}."
    return share_of_rows("Coverage", inside, meaning)
