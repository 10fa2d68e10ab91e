"""Calibration plots of probabilities, prediction intervals and quantiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tabgnm.estimators.checks import check_lengths
from tabgnm.estimators.metrics import calibration_error
from tabgnm.estimators.score_intervals import wilson_interval
from tabgnm.estimators.targets import ClassTargets
from tabgnm.nn.checks import positive_integer
from tabgnm.plots.axes import COLORS, FAINT, RULE, add_legend, axes_or_new, set_style, shown

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator

Array = NDArray[Any]

_COVERAGES = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95])


def plot_calibration(model: TabularEstimator, X: Any, y: Any, ax: Any = None, *, n_bins: int = 10) -> Any:
    """Draw a calibration curve: the observed frequency by the predicted probability.

    For two classes, rows are divided into bins of equal size by the probability of the second class. For more classes,
    the probability of the predicted class is used, and the curve shows how often it is correct. For multilabel targets,
    there is one curve per label. For regressors, the curve shows the fraction of the targets within prediction
    intervals, or below quantiles. Points of a perfectly calibrated model are on the diagonal. Vertical lines are 95 %
    confidence intervals, and bars at the bottom show the distribution of the predicted probabilities.

    The legend shows the expected calibration error of classifiers, which `oof_scores_` and reports show too: the mean
    distance between the probability of the predicted class and the share of correct predictions, over 15 bins of equal
    width. It does not depend on `n_bins`.

    Parameters
    ----------
    model : estimator
        A fitted estimator.
    X, y : table and targets
        Rows that were not used in `fit`.
    ax : matplotlib Axes or None, default=None
        The axes to draw on. If None, a new figure is created.
    n_bins : int, default=10
        The number of points of a curve, for classifiers.

    Returns
    -------
    matplotlib Axes
    """
    check_is_fitted(model, "fitted_")
    n_bins = positive_integer("n_bins", n_bins)
    y = model._check_y(y, "y")
    if isinstance(model.fitted_.targets, ClassTargets):
        curves, labels = _of_classes(model, model.fitted_.targets, X, y, n_bins)
    else:
        curves, labels = _of_numbers(model, X, y)
    ax = axes_or_new(ax, 4.4, 4.2)
    ax.plot([0, 1], [0, 1], color=FAINT, linewidth=1, linestyle=":", label="perfect")
    for color, (name, expected, observed, counts, all_expected) in zip(COLORS, curves, strict=False):
        ax.errorbar(
            expected,
            observed,
            _confidence(observed, counts),
            color=color,
            marker="o",
            markersize=4.5,
            linewidth=1.4,
            elinewidth=1,
            label=name,
        )
        if len(curves) == 1 and all_expected is not None:
            shares, edges = np.histogram(all_expected, bins=20, range=(0, 1))
            ax.bar(edges[:-1], 0.12 * shares / shares.max(), np.diff(edges), align="edge", color=RULE, zorder=0)
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(-0.02, 1.02)
    ax.set_aspect("equal")
    set_style(ax, *labels, grid="both")
    add_legend(ax, loc="upper left")
    return ax


def _of_classes(
    model: TabularEstimator, targets: ClassTargets, X: Any, y: Array, n_bins: int
) -> tuple[list[tuple[str, Array, Array, Array, Array | None]], tuple[str, str]]:
    """Return for each curve: name, mean probability, frequency and rows of each bin, and all probabilities."""
    if targets.kind in ("one", "joint"):
        what = "a single class" if targets.kind == "one" else "several targets"
        raise ValueError(
            f"plot_calibration does not support {what}; expected two or more classes of one target, or multilabel "
            "targets: fit a classifier for each target"
        )
    probabilities = model.predict_proba(X)
    check_lengths(len(probabilities), y)
    model._check_scored(y)
    codes = targets.codes(y)
    axes = ("predicted probability", "frequency")
    if targets.kind == "multilabel":
        n_labels = probabilities.shape[1]
        if n_labels > len(COLORS):
            raise ValueError(
                f"{n_labels} labels are too many for one plot; expected at most {len(COLORS)}: use "
                "sklearn.calibration.calibration_curve for single labels"
            )
        return [
            _binned(f"y{k}, {_error(np.column_stack([1 - own, own]), codes[:, k])}", own, codes[:, k] == 1, n_bins)
            for k, own in enumerate(probabilities.T)
        ], axes
    error = _error(probabilities, codes)
    if targets.kind == "binary":
        label = targets.classes[0][1]
        axes = (f"predicted probability of {shown(label)}", f"frequency of {shown(label)}")
        return [_binned(error, probabilities[:, 1], codes == 1, n_bins)], axes
    axes = ("probability of the predicted class", "share of correct predictions")
    return [_binned(error, probabilities.max(axis=1), probabilities.argmax(axis=1) == codes, n_bins)], axes


def _binned(name: str, expected: Array, happened: Array, n_bins: int) -> tuple[str, Array, Array, Array, Array | None]:
    parts = [own for own in np.array_split(np.argsort(expected, kind="stable"), n_bins) if len(own)]
    means = np.array([expected[own].mean() for own in parts])
    frequencies = np.array([happened[own].mean() for own in parts])
    counts = np.array([len(own) for own in parts])
    return name, means, frequencies, counts, expected


def _error(probabilities: Array, codes: Array) -> str:
    return f"calibration error {100 * calibration_error(probabilities, codes):.1f} %"


def _of_numbers(
    model: TabularEstimator, X: Any, y: Array
) -> tuple[list[tuple[str, Array, Array, Array, Array | None]], tuple[str, str]]:
    targets: Any = model.fitted_.targets
    predict: Any = model
    if targets.quantiles is not None:
        predicted = predict.predict(X)
        check_lengths(len(predicted), y)
        below = (y.reshape(-1, 1) <= predicted).mean(axis=0)
        counts = np.full(len(below), len(y))
        return [("quantiles", np.array(targets.quantiles), below, counts, None)], ("quantile", "share of targets below")
    covered = []
    for coverage in _COVERAGES:
        ends = predict.predict_interval(X, float(coverage))
        check_lengths(len(ends), y)
        ends = ends.reshape(len(y), -1, 2)
        numbers = y.reshape(len(y), -1)
        covered.append(((ends[..., 0] <= numbers) & (numbers <= ends[..., 1])).mean(axis=0))
    observed = np.transpose(covered)  # (targets, coverages)
    counts = np.full(len(_COVERAGES), len(y))
    names = ["prediction intervals"] if len(observed) == 1 else [f"y{place}" for place in range(len(observed))]
    if len(observed) > len(COLORS):
        raise ValueError(f"{len(observed)} targets are too many for one plot; expected at most {len(COLORS)}")
    curves = [(name, _COVERAGES, own, counts, None) for name, own in zip(names, observed, strict=True)]
    return curves, ("coverage", "share of targets within intervals")  # type: ignore[return-value]


def _confidence(share: Array, counts: Array) -> Array:
    """Return distances to the ends of Wilson's interval for shares of counted rows."""
    ends = [wilson_interval(own, n) for own, n in zip(share.tolist(), counts.tolist(), strict=True)]
    low, high = np.transpose(ends)
    return np.maximum([share - low, high - share], 0.0)
