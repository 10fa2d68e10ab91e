"""Predictions for rows by networks that were not trained on them, and what follows from these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tabgnm.estimators.metrics import Predicted, calibration_error, scorer_of, takes_weights
from tabgnm.estimators.parameters import is_auto
from tabgnm.estimators.targets import ClassTargets, NumberTargets
from tabgnm.training import FleetResult, TrainedModel
from tabgnm.training.settings import torch_device
from tabgnm.training.threads import thread_count, torch_threads

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator
    from tabgnm.estimators.fitting import FittedPack, PreparedCandidate, PreparedFit

Array = NDArray[Any]

_FEWEST_CALIBRATION_ROWS = 50
_TEMPERATURES = np.exp(np.linspace(np.log(0.67), np.log(1.5), 33))
_SEVERAL_THREADS_ROWS = 10_000  # below, starting a second thread costs more than it saves
_MOST_RESIDUALS = 1000  # quantiles of the errors of a fold that a model keeps


@dataclass(eq=False)
class OutOfFold:
    """Mean predictions of candidates for the rows that every one of them has predictions for.

    Attributes
    ----------
    candidates : list of int
        Whose predictions these are.
    rows : array of int
        Rows of the prepared table, those of X_val after the others.
    predictions : array of shape (candidates, rows, outputs)
        Numbers in units of the target, or probabilities of all classes.
    weights : array of shape (rows,) or None
    """

    prepared: PreparedFit
    candidates: list[int]
    rows: Array
    predictions: Array
    y: Tensor
    weights: Array | None
    metric: Any
    combined: Array | None = None  # of the kept candidates, (rows, outputs)

    @classmethod
    def of(
        cls, estimator: TabularEstimator, prepared: PreparedFit, networks: Mapping[int, Mapping[int, TrainedModel]]
    ) -> OutOfFold:
        """Compute the predictions of these networks for their validation rows."""
        device = str(torch_device(str(estimator.device)))
        n_rows = len(prepared.candidates[0].data.table.x)
        candidates = sorted(networks)
        with torch_threads(1 if n_rows < _SEVERAL_THREADS_ROWS else thread_count(estimator.n_jobs)):
            found = [_means(prepared.candidates[number], networks[number], n_rows, device) for number in candidates]
        covered = np.logical_and.reduce([~np.isnan(means[:, 0]) for means in found])
        rows = np.flatnonzero(covered)
        targets, all_weights = prepared.rows.targets, prepared.rows.weights
        y = prepared.rows.target_tensor(targets, torch.float64)[torch.from_numpy(rows)]
        weights = None if all_weights is None else all_weights[rows]
        predictions = np.stack([means[rows] for means in found])
        return cls(prepared, candidates, rows, predictions, y, weights, estimator.metric)

    def row_losses(self, predictions: Array) -> Array:
        """Return the loss of each row, (..., rows)."""
        return self.prepared.rows.targets.row_losses(predictions, self.y)

    def losses(self, predictions: Array) -> Array:
        """Return what candidates are judged by, one number for each of the predictions; lower is better."""
        if is_auto(self.metric):
            return np.asarray(np.average(self.row_losses(predictions), axis=-1, weights=self.weights))
        return np.array([-self._score(own) for own in predictions])

    def _score(self, predictions: Array) -> float:
        targets = self.prepared.rows.targets
        y = self._labels()
        scorer = scorer_of(self.metric)
        weighs = self.weights is not None and takes_weights(scorer)
        arguments = {"sample_weight": self.weights} if weighs else {}
        return float(scorer(_as_model(targets, predictions), None, y, **arguments))

    def _labels(self) -> Array:
        """Return the targets of the rows as they were given."""
        prepared = self.prepared.rows
        y = prepared.y if prepared.y_val is None else np.concatenate([prepared.y, prepared.y_val])
        return np.asarray(y[self.rows])

    def fold_losses(self, number: int) -> tuple[float, float]:
        """Return the mean loss of a candidate over folds, and its standard deviation."""
        own = self.row_losses(self.predictions[self.candidates.index(number)])
        losses = []
        for fold in self.prepared.rows.folds:
            assert fold.val is not None
            of_fold = np.isin(self.rows, fold.val.numpy())
            if of_fold.any():
                weights = None if self.weights is None else self.weights[of_fold]
                losses.append(float(np.average(own[of_fold], weights=weights)))
        return float(np.mean(losses)), float(np.std(losses))

    def finish(self, estimator: TabularEstimator, fitted: FittedPack, places: Sequence[int]) -> None:
        """Combine the kept candidates, and learn from their predictions: temperature, scores, sizes of errors."""
        shares = np.array([group.weight for group in fitted.groups])
        self.combined = np.tensordot(shares / shares.sum(), self.predictions[list(places)], 1)
        targets = fitted.targets
        if isinstance(targets, ClassTargets):
            if targets.kind != "one" and getattr(estimator, "calibrated", False):
                fitted.temperature = self._temperature(targets)
                self.combined = np.concatenate(
                    [scaled_by(part, fitted.temperature) for part in targets.parts(self.combined)], axis=-1
                )
            fitted.scores = self._class_scores(targets)
        else:
            fitted.residuals = self._residuals()
            fitted.scores = self._number_scores(targets)

    def _temperature(self, targets: ClassTargets) -> float:
        """Return the temperature with the lowest log-loss, or 1 if it is not clearly better than that.

        Clearly: the mean difference over the rows is larger than its standard error.
        """
        assert self.combined is not None
        if len(self.rows) < _FEWEST_CALIBRATION_ROWS:
            return 1.0
        parts = targets.parts(self.combined)

        def losses(temperature: float) -> Array:
            return self.row_losses(np.concatenate([scaled_by(part, temperature) for part in parts], axis=-1))

        means = [float(np.average(losses(temperature), weights=self.weights)) for temperature in _TEMPERATURES]
        best = float(_TEMPERATURES[int(np.argmin(means))])
        gain = losses(1.0) - losses(best)
        mean = np.average(gain, weights=self.weights)
        return best if mean > np.std(gain) / np.sqrt(len(gain)) else 1.0

    def _class_scores(self, targets: ClassTargets) -> dict[str, float]:
        assert self.combined is not None
        parts = targets.parts(self.combined)
        codes = targets.codes(self._labels()).reshape(len(self.rows), -1)
        right = np.stack([np.argmax(part, axis=1) == own for part, own in zip(parts, codes.T, strict=True)], axis=1)
        errors = [
            calibration_error(part.max(axis=1), own, self.weights) for part, own in zip(parts, right.T, strict=True)
        ]
        if targets.kind == "one":
            return {"accuracy": 1.0, "log_loss": 0.0, "calibration_error": 0.0}
        return {
            "accuracy": float(np.average(right.all(axis=1), weights=self.weights)),
            "log_loss": float(np.average(self.row_losses(self.combined), weights=self.weights)) / len(parts),
            "calibration_error": float(np.mean(errors)),
        }

    def _number_scores(self, targets: NumberTargets) -> dict[str, float]:
        assert self.combined is not None
        y = self._labels().reshape(len(self.rows), -1)
        # In units of a power of 2, as squares of very large numbers would overflow.
        _, exponent = np.frexp(np.abs(y).max(axis=0))
        y, predicted = np.ldexp(y, -exponent), np.ldexp(self.combined, -exponent)
        center = np.average(y, axis=0, weights=self.weights)
        squared = np.average((predicted - y) ** 2, axis=0, weights=self.weights)
        absolute = np.average(np.abs(predicted - y), axis=0, weights=self.weights)
        spread = np.average((y - center) ** 2, axis=0, weights=self.weights)
        r2 = np.where(spread > 0, 1 - squared / np.where(spread > 0, spread, 1), np.where(squared > 0, 0.0, 1.0))
        with np.errstate(over="ignore"):  # where the score itself is too large for float64
            scores = {
                "r2": float(np.mean(r2)),
                "mse": float(np.mean(np.ldexp(squared, 2 * exponent))),
                "mae": float(np.mean(np.ldexp(absolute, exponent))),
            }
        if targets.loss.name not in ("mse",):
            own = np.average(self.row_losses(self.combined), weights=self.weights)
            scores[targets.loss.name] = float(own)
        return scores

    def _residuals(self) -> list[Array]:
        """Return the sorted absolute errors of each fold, (errors, outputs), at most a thousand quantiles of them."""
        assert self.combined is not None
        with np.errstate(over="ignore"):
            errors = np.abs(self.combined - self._labels().reshape(len(self.rows), -1))
        errors = np.minimum(errors, np.finfo(np.float64).max)
        found = []
        for fold in self.prepared.rows.folds:
            assert fold.val is not None
            own = np.sort(errors[np.isin(self.rows, fold.val.numpy())], axis=0)
            if len(own) > _MOST_RESIDUALS:
                own = own[np.linspace(0, len(own) - 1, _MOST_RESIDUALS).round().astype(int)]
            found.append(own)
        return found

    def as_given(self) -> Array:
        """Return the combined predictions for the rows as they were given to `fit`, NaN where there are none."""
        assert self.combined is not None
        prepared = self.prepared.rows
        if prepared.raw_val is not None:
            positions, n_rows = self.rows - prepared.n_rows, prepared.raw_val.n_rows
        else:
            positions = self.rows if prepared.kept is None else prepared.kept[self.rows]
            n_rows = prepared.n_given
        result = np.full((n_rows, self.combined.shape[1]), np.nan)
        result[positions] = self.combined
        return result


def _means(candidate: PreparedCandidate, networks: Mapping[int, TrainedModel], n_rows: int, device: str) -> Array:
    """Return the mean predictions of a candidate for the rows that its networks left out, and NaN for others."""
    targets, x = candidate.data.targets, candidate.data.table.x
    counts = np.zeros((n_rows, 1))
    total: Array | None = None
    for position, model in networks.items():
        val = candidate.members[position].val
        assert val is not None
        outputs = FleetResult(model.shape, [model]).predict(x[val], device=device)[0]
        own = targets.out_of_fold(outputs)
        if total is None:
            total = np.zeros((n_rows, own.shape[1]))
        total[val.numpy()] += own
        counts[val.numpy()] += 1
    assert total is not None
    return np.asarray(np.divide(total, counts, out=np.full_like(total, np.nan), where=counts > 0))


def scaled_by(probabilities: Array, temperature: float) -> Array:
    """Return probabilities whose logarithms are divided by a temperature."""
    if temperature == 1.0:
        return probabilities
    with np.errstate(divide="ignore"):
        logs = np.log(probabilities) / temperature
    logs -= logs.max(axis=-1, keepdims=True)
    scaled = np.exp(logs)
    return np.asarray(scaled / scaled.sum(axis=-1, keepdims=True))


def _as_model(targets: ClassTargets | NumberTargets, predictions: Array) -> Predicted:
    """Return something that scorers take for a fitted model."""
    if isinstance(targets, NumberTargets):
        numbers = predictions[:, 0] if targets.one_dimensional else predictions
        return Predicted("regressor", {"predict": numbers})
    parts = targets.parts(predictions)
    labels = [classes[np.argmax(part, axis=1)] for classes, part in zip(targets.classes, parts, strict=True)]
    if targets.kind == "multilabel":
        ones = np.column_stack([part[:, 1] for part in parts])
        methods = {"predict": np.column_stack(labels), "predict_proba": ones, "decision_function": ones}
        return Predicted("classifier", methods, list(targets.classes))
    if targets.kind == "joint":
        return Predicted("classifier", {"predict": np.column_stack(labels), "predict_proba": parts}, targets.classes)
    methods = {"predict": labels[0], "predict_proba": parts[0]}
    if targets.kind == "binary":
        methods["decision_function"] = parts[0][:, 1]
    return Predicted("classifier", methods, targets.classes[0])
