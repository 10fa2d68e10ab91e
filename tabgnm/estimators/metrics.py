"""Metrics to select candidates by: the loss of their predictions, or a scikit-learn score."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import get_scorer, get_scorer_names, make_scorer, mean_tweedie_deviance, r2_score

from tabgnm._printable import shown
from tabgnm.estimators.number_targets import NumberTargets, weighted_quantiles
from tabgnm.nn.losses import Tweedie

Array = NDArray[Any]

_SHORT_NAMES = {
    "mae": "neg_mean_absolute_error",
    "mse": "neg_mean_squared_error",
    "rmse": "neg_root_mean_squared_error",
    "mape": "neg_mean_absolute_percentage_error",
    "log_loss": "neg_log_loss",
    "auc": "roc_auc",
    "poisson_deviance": "neg_mean_poisson_deviance",
    "gamma_deviance": "neg_mean_gamma_deviance",
}
_TWEEDIE = "tweedie_deviance"  # not a named score of scikit-learn, because it depends on the power
_CALIBRATION_BINS = 15
_OF_POSITIVE = {
    _TWEEDIE,
    "neg_mean_poisson_deviance",
    "neg_mean_gamma_deviance",
    "neg_mean_squared_log_error",
    "neg_root_mean_squared_log_error",
}
_OF_NUMBERS = _OF_POSITIVE | {
    "r2",
    "explained_variance",
    "d2_absolute_error_score",
    "neg_max_error",
    "neg_mean_absolute_error",
    "neg_mean_absolute_percentage_error",
    "neg_mean_squared_error",
    "neg_median_absolute_error",
    "neg_root_mean_squared_error",
}


def check_metric(value: object, name: str = "metric", default: str | None = "auto") -> None:
    """Raise unless the value of a parameter is its default, the name of a score, or a scorer."""
    if callable(value):
        module = str(getattr(value, "__module__", ""))
        if module.startswith("sklearn.metrics.") and not module.startswith("sklearn.metrics._scorer"):
            function = getattr(value, "__name__", repr(value))
            raise ValueError(
                f"{name}={function} is a function of labels and predictions, not a scorer; use the name of a score "
                f"such as 'accuracy', or make_scorer({function})"
            )
        return
    if value is None if default is None else isinstance(value, str) and value == default:
        return
    if not isinstance(value, str) or _SHORT_NAMES.get(value, value) not in {_TWEEDIE, *get_scorer_names()}:
        raise ValueError(
            f"{name}={shown(value)} is not known; use {default!r}, one of "
            f"{', '.join(map(repr, [*_SHORT_NAMES, _TWEEDIE]))}, a name of sklearn.metrics.get_scorer_names() such as "
            "'accuracy', or a scorer"
        )


def needs_positive(metric: Any) -> bool:
    """Whether a metric is known to require positive predictions."""
    return isinstance(metric, str) and _SHORT_NAMES.get(metric, metric) in _OF_POSITIVE


def needs_numbers(metric: Any) -> bool:
    """Whether a metric is known to require numbers as targets, so it cannot score classes."""
    return isinstance(metric, str) and _SHORT_NAMES.get(metric, metric) in _OF_NUMBERS


def scorer_of(metric: Any, n_classes: int = 2, tweedie_power: float = Tweedie.power) -> Callable[..., float]:
    """Return the scorer for a metric other than "auto"."""
    name = _SHORT_NAMES.get(metric, metric) if isinstance(metric, str) else metric
    if isinstance(name, str) and name == _TWEEDIE:
        made: Callable[..., float] = make_scorer(mean_tweedie_deviance, greater_is_better=False, power=tweedie_power)
        return made
    if isinstance(name, str) and name == "roc_auc" and n_classes > 2:
        name = "roc_auc_ovr"
    scorer: Callable[..., float] = get_scorer(name)
    return scorer


def scores_predictions_only(scorer: Callable[..., float]) -> bool:
    """Whether a scorer uses only predictions and labels, like those of `make_scorer`.

    Other functions may use the estimator and the table in any way.
    """
    return hasattr(scorer, "_score_func")


def takes_weights(scorer: Callable[..., float]) -> bool:
    """Whether a scorer has the argument `sample_weight`."""
    # A scikit-learn scorer accepts any argument and passes it to its function, which may not accept it.
    parameters = inspect.signature(getattr(scorer, "_score_func", scorer)).parameters.values()
    return any(own.name == "sample_weight" or own.kind is own.VAR_KEYWORD for own in parameters)


class Predicted:
    """Precomputed predictions with the interface of a fitted model, for scorers.

    Parameters
    ----------
    kind : {"classifier", "regressor"}
    predictions : dict of arrays
        The return values of its methods, by name: predict, predict_proba, decision_function.
    classes : array or list of arrays, default=None
    """

    def __init__(self, kind: str, predictions: dict[str, Any], classes: Any = None) -> None:
        self._estimator_type = kind
        self._predictions = predictions
        if classes is not None:
            self.classes_ = classes

    def __getattr__(self, name: str) -> Any:
        predictions = self.__dict__.get("_predictions", {})
        if name in predictions:

            def method(_X: Any) -> Any:
                return predictions[name]

            method.__name__ = name  # scorers look it up by this
            return method
        raise AttributeError(
            f"the scorer uses {shown(name)}, which is not available for out-of-fold predictions; use another metric"
        )

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: Any, y: Any) -> Predicted:
        """Raise; scorers require that a model has this method, but never call it."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags

        classifies = self._estimator_type == "classifier"
        return Tags(
            estimator_type=self._estimator_type,
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags() if classifies else None,
            regressor_tags=None if classifies else RegressorTags(),
        )


def calibration_error(probabilities: Array, codes: Array, weights: Array | None = None) -> float:
    """Return the expected calibration error of one target (Guo et al., 2017).

    Rows are divided into 15 bins of equal width by the probability of the predicted class. The error is the mean over
    all rows of the distance, within the bin of a row, between the mean probability and the share of correct
    predictions. `oof_scores_`, reports and `plot_calibration` all show this number.

    Parameters
    ----------
    probabilities : array of shape (rows, classes)
    codes : array of int of shape (rows,)
        The position of the true class of each row.
    weights : array of shape (rows,) or None

    Examples
    --------
    >>> round(calibration_error(np.array([[0.2, 0.8], [0.2, 0.8]]), np.array([1, 0])), 3)
    0.3
    """
    confidence, correct = probabilities.max(axis=1), probabilities.argmax(axis=1) == codes
    weights = np.ones(len(codes)) if weights is None else weights
    bins = np.minimum((confidence * _CALIBRATION_BINS).astype(int), _CALIBRATION_BINS - 1)
    gaps = np.bincount(bins, weights * (confidence - correct), _CALIBRATION_BINS)
    return float(np.abs(gaps).sum() / weights.sum())


def scaled_r2(y: Array, predicted: Array, weights: Array | None) -> float:
    """Return scikit-learn's R² of numbers (rows, outputs) of any size.

    Numbers are scaled by a power of 2, because squares of very large (small) numbers would overflow (underflow).
    """
    _, exponent = np.frexp(np.maximum(np.abs(y).max(axis=0), np.abs(predicted).max(axis=0)))
    return float(r2_score(np.ldexp(y, -exponent), np.ldexp(predicted, -exponent), sample_weight=weights))


def quantile_losses(y: Array, predicted: Array, quantiles: tuple[float, ...], weights: Array | None) -> Array:
    """Return the mean quantile loss of each column of the predictions, (rows, quantiles), for y (rows,)."""
    under = y[:, None] - predicted
    levels = np.asarray(quantiles)
    return np.asarray(np.average(np.maximum(levels * under, (levels - 1) * under), axis=0, weights=weights))


def d2_of_quantiles(y: Array, predicted: Array, quantiles: tuple[float, ...], weights: Array | None) -> float:
    """Return 1 - L / L₀, where L is the sum of the quantile losses of the predictions, and L₀ of the quantiles of y.

    Of one quantile, it is scikit-learn's `d2_pinball_score`.
    """
    # Scaled by a power of 2, because sums of very large numbers would overflow.
    _, exponent = np.frexp(max(np.abs(y).max(), np.abs(predicted).max()))
    y, predicted = np.ldexp(y, -exponent), np.ldexp(predicted, -exponent)
    constants = weighted_quantiles(y, quantiles, np.ones(len(y)) if weights is None else weights)
    loss = float(quantile_losses(y, predicted, quantiles, weights).sum())
    base = float(quantile_losses(y, np.broadcast_to(constants, predicted.shape), quantiles, weights).sum())
    return 1 - loss / base if base > 0 else float(loss == 0)


def quantile_parts(targets: NumberTargets, y: Array, predicted: Array) -> list[tuple[Array, Array, tuple[float, ...]]]:
    """Return y (rows,), predictions (rows, quantiles) and quantiles of each target of a model of quantiles."""
    columns, predicted = y.reshape(len(y), -1), predicted.reshape(len(y), -1)
    if targets.quantiles is not None:
        return [(columns[:, 0], predicted, targets.quantiles)]
    levels = targets.predicted_quantiles
    return [(columns[:, i], predicted[:, [i]], (level,)) for i, level in enumerate(levels)]


def quantile_scores(targets: NumberTargets, y: Array, predicted: Array, weights: Array | None) -> dict[str, float]:
    """Return D² and the quantile loss of predicted quantiles, averaged over the targets."""
    parts = quantile_parts(targets, y, predicted)
    with np.errstate(over="ignore"):  # where the loss itself is too large for float64
        losses = [quantile_losses(*own, weights) for own in parts]
    return {"d2": float(np.mean([d2_of_quantiles(*own, weights) for own in parts])), "quantile": float(np.mean(losses))}


def number_score(targets: NumberTargets, y: Array, predicted: Array, weights: Array | None) -> float:
    """Return what `score` of a regressor returns: D² of quantiles, R² of other numbers, averaged over the targets."""
    if targets.predicted_quantiles:
        return quantile_scores(targets, y, predicted, weights)["d2"]
    return scaled_r2(y.reshape(len(y), -1), predicted.reshape(len(y), -1), weights)
