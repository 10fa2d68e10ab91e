"""Scores of predictions, with bootstrap intervals over rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import mean_tweedie_deviance

from tabgnm.estimators.metrics import calibration_error, d2_of_quantiles
from tabgnm.estimators.targets import NumberTargets
from tabgnm.nn.losses import LogLinkLoss
from tabgnm.report.evaluation import ClassesOfTarget, Evaluation, NumbersOfTarget
from tabgnm.report.wording import decimals, number, percent

Array = NDArray[Any]

N_RESAMPLES = 300
LEVEL = 0.95
_SEED = 0
_LEAST_PROBABILITY = 1e-7


@dataclass(frozen=True)
class Score:
    """One score of the model.

    Attributes
    ----------
    name : str
    value : float
    low, high : float
        Interval that contains 95 % of the scores of resampled rows; NaN without one.
    meaning : str
        One sentence for people who do not know it.
    is_share : bool
        Whether it is shown as a percentage.
    best_is_one : bool
        Whether it is shown with three decimals, as scores are whose best value is 1.
    """

    name: str
    value: float
    low: float
    high: float
    meaning: str
    is_share: bool = False
    best_is_one: bool = False

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
        if not (np.isfinite(self.low) and np.isfinite(self.high)):
            return ""
        return f"{self.text(self.low)} to {self.text(self.high)}"


class Bootstrap:
    """How often each row is drawn in each resample; the same for all scores and baselines.

    Parameters
    ----------
    n_rows : int
    """

    def __init__(self, n_rows: int) -> None:
        random = np.random.default_rng(_SEED)
        drawn = [np.bincount(random.integers(0, n_rows, n_rows), minlength=n_rows) for _ in range(N_RESAMPLES)]
        self.counts = np.asarray(drawn, dtype=np.float32)  # (resamples, rows)

    def means(self, values: Array) -> Array:
        """Return the mean of a number per row in each resample."""
        return np.asarray(self.counts @ np.asarray(values, dtype=np.float64) / self.counts.shape[1])

    def interval(self, resampled: Array) -> tuple[float, float]:
        """Return the interval of the scores of the resamples."""
        found = np.asarray(resampled, dtype=np.float64)
        found = found[np.isfinite(found)]
        if len(found) < N_RESAMPLES // 2 or self.counts.shape[1] < 5:
            return np.nan, np.nan
        low, high = np.quantile(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        # All resamples are alike where no row is wrong, or none is right: they say nothing then.
        return (float(low), float(high)) if low < high else (np.nan, np.nan)

    def mean_score(self, name: str, values: Array, meaning: str, *, is_share: bool = False) -> Score:
        """Return the score that is a mean over rows."""
        ends = self.interval(self.means(values))
        if is_share and not np.isfinite(ends[0]):
            ends = wilson(float(np.mean(values)), len(values))
        return Score(name, float(np.mean(values)), *ends, meaning, is_share)


def wilson(share: float, n_rows: int) -> tuple[float, float]:
    """Return the 95 % interval of a share of so many rows (Wilson's score interval).

    Examples
    --------
    >>> [round(end, 3) for end in wilson(1.0, 178)]
    [0.979, 1.0]
    """
    z2 = 1.96**2 / n_rows
    middle = (share + z2 / 2) / (1 + z2)
    half = np.sqrt(share * (1 - share) * z2 + z2**2 / 4) / (1 + z2)
    return max(0.0, float(middle - half)), min(1.0, float(middle + half))


def scores_of(evaluation: Evaluation, bootstrap: Bootstrap) -> list[Score]:
    """Return all scores, the most important first."""
    if evaluation.classes:
        return _class_scores(evaluation.classes, bootstrap)
    if evaluation.kind == "quantiles":
        return _quantile_scores(evaluation, bootstrap)
    return _number_scores(evaluation, bootstrap)


def accuracy_of_rows(targets: list[ClassesOfTarget]) -> Array:
    """Return 1 for rows of which all labels are predicted, and 0 for others."""
    return np.asarray(np.all([own.predicted == own.codes for own in targets], axis=0), dtype=np.float64)


def r2_of_resamples(y: Array, predicted: Array, bootstrap: Bootstrap) -> Array:
    """Return R² of each resample, averaged over targets, (rows, targets)."""
    found = []
    for own, guess in zip(y.T, predicted.T, strict=True):
        unit = float(np.abs(own - own.mean()).max()) or 1.0  # so that no square overflows
        centered, error = (own - own.mean()) / unit, (own - guess) / unit
        spread = bootstrap.means(centered**2) - bootstrap.means(centered) ** 2
        found.append(1 - bootstrap.means(error**2) / np.where(spread > 0, spread, np.nan))
    return np.asarray(np.mean(found, axis=0))


def auc(codes: Array, scores: Array, weights: Array | None = None) -> float:
    """Return the area under the ROC curve of 0/1 codes; ties count half. NaN if there is only one class."""
    return float(_AreaUnderCurve(codes, scores)(np.ones((1, len(codes))) if weights is None else weights[None])[0])


class _AreaUnderCurve:
    """The area under the ROC curve for different weights of the same rows."""

    def __init__(self, codes: Array, scores: Array) -> None:
        self._order = np.argsort(scores, kind="stable")
        ascending = scores[self._order]
        self._positive = codes[self._order].astype(bool)
        self._starts = np.flatnonzero(np.r_[True, ascending[1:] != ascending[:-1]])

    def __call__(self, weights: Array) -> Array:
        """Return the area for each row of weights, (resamples, rows)."""
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
    found = [bootstrap.mean_score("Accuracy", accuracy_of_rows(targets), f"Share of {what}.", is_share=True)]
    if several:
        share = np.mean([own.predicted == own.codes for own in targets], axis=0)
        found.append(
            bootstrap.mean_score("Label accuracy", share, "Share of individual labels that are correct.", is_share=True)
        )
    if all(len(own.labels) < 2 for own in targets):
        return found
    found.append(_balanced_accuracy(targets, bootstrap))
    losses = np.mean([-np.log(np.maximum(own.of_truth, _LEAST_PROBABILITY)) for own in targets], axis=0)
    found.append(
        bootstrap.mean_score(
            "Log-loss", losses, "Mean of −log(probability of the true class); lower is better, 0 is perfect."
        )
    )
    found.append(_area(targets, bootstrap))
    error = np.mean([calibration_error(own.probabilities, own.codes) for own in targets])
    found.append(
        Score(
            "Calibration error",
            float(error),
            np.nan,
            np.nan,
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
    return Score("Balanced accuracy", value, *bootstrap.interval(of(bootstrap.means)), meaning, is_share=True)


def _area(targets: list[ClassesOfTarget], bootstrap: Bootstrap) -> Score:
    values, resampled = [], []
    for own in targets:
        for code in range(1, 2) if len(own.labels) == 2 else range(len(own.labels)):
            area = _AreaUnderCurve(own.codes == code, own.probabilities[:, code])
            value = float(area(np.ones((1, len(own.codes))))[0])
            if np.isfinite(value):
                values.append(value)
                resampled.append(area(bootstrap.counts))
    many = len(values) > 1
    meaning = "How well the probability ranks rows: 0.5 is chance, 1 is perfect" + (
        "; mean over classes, each against the rest." if many else "."
    )
    if not values:
        return Score("ROC AUC", np.nan, np.nan, np.nan, meaning)
    ends = bootstrap.interval(np.mean(resampled, axis=0))
    return Score("ROC AUC", float(np.mean(values)), *ends, meaning, best_is_one=True)


def _number_scores(evaluation: Evaluation, bootstrap: Bootstrap) -> list[Score]:
    targets = evaluation.numbers
    y = np.stack([own.y for own in targets], axis=1)
    predicted = np.stack([own.predicted for own in targets], axis=1)
    several = "; mean over targets." if len(targets) > 1 else "."
    r2 = evaluation.model._score_numbers(predicted, y, None)
    ends = bootstrap.interval(r2_of_resamples(y, predicted, bootstrap))
    meaning = f"Share of the variance explained: 0 for predicting the mean, 1 is perfect{several}"
    found = [Score("R²", r2, *ends, meaning, best_is_one=True)]
    with np.errstate(over="ignore", invalid="ignore"):
        squared = ((y - predicted) ** 2).mean(axis=1)
        root = float(np.sqrt(squared.mean()))
        ends = bootstrap.interval(np.sqrt(bootstrap.means(squared)))
    meaning = "Root mean squared error, in units of the target: large errors count more."
    found.append(Score("RMSE", root, *ends, meaning))
    absolute = np.abs(y - predicted).mean(axis=1)
    found.append(bootstrap.mean_score("MAE", absolute, f"Mean absolute error, in units of the target{several}"))
    median = float(np.median(np.abs(y - predicted)))
    found.append(Score("Median absolute error", median, np.nan, np.nan, "Half of the errors are smaller."))
    own_targets = evaluation.model.fitted_.targets
    assert isinstance(own_targets, NumberTargets)
    loss = own_targets.loss
    if isinstance(loss, LogLinkLoss) and bool((y >= 0 if loss.allows_zero else y > 0).all()):
        deviances = [mean_tweedie_deviance(*pair, power=loss.power) for pair in zip(y.T, predicted.T, strict=True)]
        meaning = "The training loss; lower is better, 0 is perfect."
        found.append(Score(f"{loss.name.capitalize()} deviance", float(np.mean(deviances)), np.nan, np.nan, meaning))
    return found


def _quantile_scores(evaluation: Evaluation, bootstrap: Bootstrap) -> list[Score]:
    [own] = evaluation.numbers
    targets = evaluation.model.fitted_.targets
    assert isinstance(targets, NumberTargets)
    assert targets.quantiles is not None
    assert own.quantiles is not None
    d2 = d2_of_quantiles(own.y, own.quantiles, targets.quantiles, None)
    meaning = "Reduction of the quantile loss compared with constant quantiles: 1 is perfect."
    found = [Score("D²", d2, np.nan, np.nan, meaning, best_is_one=True)]
    found.append(coverage_score(own, bootstrap))
    middle = "Mean absolute error of the quantile nearest to the median, in units of the target."
    found.append(bootstrap.mean_score("MAE", np.abs(own.y - own.predicted), middle))
    return found


def coverage_score(target: NumbersOfTarget, bootstrap: Bootstrap) -> Score:
    """Return the share of the targets that lie within their interval."""
    assert target.interval is not None
    inside = (target.interval[:, 0] <= target.y) & (target.y <= target.interval[:, 1])
    meaning = f"Share of rows whose target lies within its interval; nominal {percent(target.coverage)}."
    return bootstrap.mean_score("Coverage", inside.astype(np.float64), meaning, is_share=True)
