"""Out-of-fold predictions, and the scores, calibration and residuals that are computed from them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import mean_tweedie_deviance
from torch import Tensor

from tabgnm._printable import shown
from tabgnm.estimators.checks import is_auto
from tabgnm.estimators.folds import halves
from tabgnm.estimators.metric_scores import score
from tabgnm.estimators.metrics import calibration_error, quantile_scores
from tabgnm.estimators.selection import greedy_weights, standard_error
from tabgnm.estimators.targets import ClassTargets, NumberTargets
from tabgnm.nn.losses import LogLinkLoss
from tabgnm.table.errors import warn_caller
from tabgnm.training import FleetResult, TrainedModel
from tabgnm.training.settings import torch_device
from tabgnm.training.threads import thread_count, torch_threads

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator
    from tabgnm.estimators.fitting import FittedPack, PreparedCandidate, PreparedFit

Array = NDArray[Any]

_log = logging.getLogger("tabgnm")

_MIN_CALIBRATION_ROWS = 50
_TEMPERATURES = np.exp(np.linspace(np.log(0.67), np.log(1.5), 33))
_SEVERAL_THREADS_ROWS = 10_000  # with fewer rows, starting a second thread costs more than it saves
_LARGE = 10**7  # predictions of a candidate; more are stored in float32
_COPIES_OF_SELECTION, _COPIES_OF_FOLD = 4, 4  # of predictions in memory at the same time
_MAX_CROSS_FITTED = 10_000  # rows; with more, the choice of the weights hardly affects scores
_MAX_RESIDUALS = 1000  # of a fold; more are reduced to quantiles


@dataclass(eq=False)
class OutOfFold:
    """Mean predictions of candidates for the rows that all of them have predictions for.

    Attributes
    ----------
    candidates : list of int
        The numbers of the candidates.
    rows : array of int
        Positions in the prepared table, in which the rows of X_val follow the others.
    predictions : array of shape (candidates, rows, outputs)
        Numbers in units of the target, or probabilities of all classes.
    weights : array of shape (rows,) or None
    held_out : array of shape (candidates, rows, outputs) or None
        The same predictions at epochs that were not chosen by these rows (see `HeldOutOutputs`); None if there are many
        rows.
    of_kept : array of shape (rows, outputs) or None
        The combined `predictions` of the kept candidates. Their loss is too low, because they were chosen by these
        rows; but each row is predicted by few networks, so that these two errors nearly cancel in the calibration.
    combined : array of shape (rows, outputs) or None
        The combined `held_out` predictions, for scores.
    """

    prepared: PreparedFit
    candidates: list[int]
    rows: Array
    predictions: Array
    y: Tensor
    weights: Array | None
    metric: Any
    held_out: Array | None = None
    is_part: bool = False
    of_kept: Array | None = None
    combined: Array | None = None

    @classmethod
    def of(
        cls, estimator: TabularEstimator, prepared: PreparedFit, networks: Mapping[int, Mapping[int, TrainedModel]]
    ) -> OutOfFold:
        """Compute the predictions of these networks for their validation rows."""
        device = str(torch_device(str(estimator.device)))
        n_rows = len(prepared.candidates[0].data.table.x)
        candidates = sorted(networks)
        has_held_out = all(model.val_outputs is not None for own in networks.values() for model in own.values())
        with torch_threads(1 if n_rows < _SEVERAL_THREADS_ROWS else thread_count(estimator.n_jobs)):
            found = [
                [_means(prepared.candidates[i], networks[i], n_rows, device, held_out=held_out) for i in candidates]
                for held_out in (False, True)[: 1 + has_held_out]
            ]
        covered = np.logical_and.reduce([~np.isnan(means[:, 0]) for means in found[0]])
        rows = np.flatnonzero(covered)
        targets, all_weights = prepared.rows.targets, prepared.rows.weights
        y = prepared.rows.target_tensor(targets, torch.float64)[torch.from_numpy(rows)]
        weights = None if all_weights is None else all_weights[rows]
        predictions, *held_out = [_of_rows(own, rows) for own in found]
        return cls(
            prepared, candidates, rows, predictions, y, weights, estimator.metric, held_out[0] if held_out else None
        )

    def row_losses(self, predictions: Array) -> Array:
        """Return the loss of each row, (..., rows)."""
        return self.prepared.rows.targets.row_losses(predictions, self.y)

    def losses(self, predictions: Array) -> Array:
        """Return the loss or the negative metric of each candidate's predictions; lower is better."""
        if is_auto(self.metric) or not self._metric_is_known:
            return np.asarray(np.average(self.row_losses(predictions), axis=-1, weights=self.weights))
        scores = np.array([-self._score(own) for own in predictions])
        return np.where(np.isfinite(scores), scores, np.inf)

    @cached_property
    def _metric_is_known(self) -> bool:
        """Whether the metric is a number for at least one candidate; otherwise, warn that the loss decides instead."""
        if len(self.candidates) == 1 or any(np.isfinite(self._score(own)) for own in self.predictions):
            return True
        if self.is_part:
            return False
        warn_caller(
            f"metric={shown(self.metric)} is not a finite number for any candidate on {len(self.rows)} left-out rows; "
            "candidates were chosen by their loss instead. Use another metric, or metric='auto'",
            UserWarning,
        )
        return False

    def _score(self, predictions: Array) -> float:
        """Return the score of predictions by the metric; NaN if it cannot score these rows."""
        try:
            return score(self.metric, self.prepared.rows.targets, predictions, self.labels, self._score_weights)
        except Exception as error:  # of a scorer, which may be the user's own
            _log.info("metric %.80r cannot score the left-out rows: %s", self.metric, error)
            return np.nan

    @property
    def _score_weights(self) -> Array | None:
        """Sample weights of the rows, without class weights: scores are those of `score`."""
        weights = self.prepared.rows.score_weights
        return None if weights is None else weights[self.rows]

    @cached_property
    def labels(self) -> Array:
        """The targets of the rows as they were given."""
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

    def combine(self, weights: Array, most: int | None) -> None:
        """Combine the predictions of all candidates with these weights.

        With `most`, the maximum number of candidates with a positive weight, `combined` of each half of the rows has
        weights that are chosen in the same way on the other half, if there are few rows. Groups and copies of rows are
        in the same half.
        """
        given, shares = self.predictions if self.held_out is None else self.held_out, weights / weights.sum()
        self.of_kept, self.combined = (np.tensordot(shares, own, 1) for own in (self.predictions, given))
        if most is None or not 1 < len(self.rows) <= _MAX_CROSS_FITTED or len(self.candidates) == 1:
            return
        rows = self.prepared.rows
        strata, units = (None if own is None else own[self.rows] for own in (rows.strata, rows.units))
        is_second = halves(strata, units, len(self.rows), rows.seeds[0])
        if is_second.all() or not is_second.any():  # a single group
            return
        for own_rows in (is_second, ~is_second):
            other = self._part(np.flatnonzero(~own_rows))
            own = greedy_weights(other.predictions, other.losses, most)
            self.combined[own_rows] = np.tensordot(own, given[:, own_rows], 1)

    def _part(self, rows: Array) -> OutOfFold:
        weights, predictions = None if self.weights is None else self.weights[rows], self.predictions[:, rows]
        y = self.y[torch.from_numpy(rows)]
        return replace(self, rows=self.rows[rows], predictions=predictions, y=y, weights=weights, is_part=True)

    def finish(self, estimator: TabularEstimator, fitted: FittedPack) -> None:
        """Compute the temperature, scores and residuals from the combined predictions."""
        assert self.combined is not None
        assert self.of_kept is not None
        targets = fitted.targets
        if isinstance(targets, ClassTargets):
            if targets.kind != "one" and getattr(estimator, "calibrated", False):
                fitted.temperature = self._temperature(targets, self.of_kept)
                self.combined = np.concatenate(
                    [scaled_by(part, fitted.temperature) for part in targets.parts(self.combined)], axis=-1
                )
            fitted.scores = self._class_scores(targets)
        else:
            self.combined = targets.ordered(self.combined)
            if targets.quantiles is None:
                fitted.residuals, fitted.n_left_out = self._residuals(), len(self.rows)
            fitted.scores = self._number_scores(targets)
        if not is_auto(self.metric):
            fitted.scores["metric"] = self._score(self.combined)

    def _temperature(self, targets: ClassTargets, predictions: Array) -> float:
        """Return the temperature with the lowest log-loss, or 1 if it is not better by more than a standard error."""
        if len(self.rows) < _MIN_CALIBRATION_ROWS:
            return 1.0
        parts = targets.parts(predictions)

        def losses(temperature: float) -> Array:
            return self.row_losses(np.concatenate([scaled_by(part, temperature) for part in parts], axis=-1))

        logs = [np.log(np.maximum(part, np.finfo(part.dtype).tiny)) for part in parts]
        codes = targets.codes(self.labels).reshape(len(self.rows), -1).astype(np.int64)
        true = [np.take_along_axis(own, codes[:, [i]], axis=1)[:, 0] for i, own in enumerate(logs)]
        largest = [own.max(axis=1) for own in logs]

        @cache
        def mean_loss(place: int) -> float:
            factor = 1 / _TEMPERATURES[place]
            sums = [np.exp((own - most[:, None]) * factor).sum(axis=1) for own, most in zip(logs, largest, strict=True)]
            of_rows = sum(np.log(s) + (m - t) * factor for s, m, t in zip(sums, largest, true, strict=True))
            return float(np.average(of_rows, weights=self.weights))

        # The log-loss is a convex function of 1 / temperature, so its minimum is found by bisection.
        low, high = 0, len(_TEMPERATURES) - 1
        while low < high:
            middle = (low + high) // 2
            if mean_loss(middle) <= mean_loss(middle + 1):
                high = middle
            else:
                low = middle + 1
        best = float(_TEMPERATURES[low])
        gain = losses(1.0) - losses(best)
        mean = np.average(gain, weights=self.weights)
        return best if mean > standard_error(gain, self.weights) else 1.0

    def _class_scores(self, targets: ClassTargets) -> dict[str, float]:
        assert self.combined is not None
        parts = targets.parts(self.combined)
        codes = targets.codes(self.labels).reshape(len(self.rows), -1)
        right = np.stack([np.argmax(part, axis=1) == own for part, own in zip(parts, codes.T, strict=True)], axis=1)
        errors = [calibration_error(part, own, self._score_weights) for part, own in zip(parts, codes.T, strict=True)]
        if targets.kind == "one":
            return {"accuracy": 1.0, "log_loss": 0.0, "calibration_error": 0.0}
        return {
            "accuracy": float(np.average(right.all(axis=1), weights=self._score_weights)),
            "log_loss": float(np.average(self.row_losses(self.combined), weights=self._score_weights)) / len(parts),
            "calibration_error": float(np.mean(errors)),
        }

    def _number_scores(self, targets: NumberTargets) -> dict[str, float]:
        assert self.combined is not None
        y = self.labels.reshape(len(self.rows), -1)
        if targets.predicted_quantiles:
            return quantile_scores(targets, y, self.combined, self._score_weights)
        # Scaled by a power of 2, because squares of very large numbers would overflow.
        _, exponent = np.frexp(np.abs(y).max(axis=0))
        y, predicted = np.ldexp(y, -exponent), np.ldexp(self.combined, -exponent)
        center = np.average(y, axis=0, weights=self._score_weights)
        squared = np.average((predicted - y) ** 2, axis=0, weights=self._score_weights)
        absolute = np.average(np.abs(predicted - y), axis=0, weights=self._score_weights)
        spread = np.average((y - center) ** 2, axis=0, weights=self._score_weights)
        r2 = np.where(spread > 0, 1 - squared / np.where(spread > 0, spread, 1), np.where(squared > 0, 0.0, 1.0))
        with np.errstate(over="ignore"):  # where the score itself is too large for float64
            scores = {
                "r2": float(np.mean(r2)),
                "mse": float(np.mean(np.ldexp(squared, 2 * exponent))),
                "mae": float(np.mean(np.ldexp(absolute, exponent))),
            }
        of_targets = zip(self.labels.reshape(len(self.rows), -1).T, self.combined.T, strict=True)
        if isinstance(targets.loss, LogLinkLoss):
            arguments = {"sample_weight": self._score_weights, "power": targets.loss.power}
            deviances = [mean_tweedie_deviance(*own, **arguments) for own in of_targets]
            scores[f"{targets.loss.name}_deviance"] = float(np.mean(deviances))
        elif targets.loss.name not in ("squared_error", "absolute_error"):
            own = np.average(self.row_losses(self.combined), weights=self._score_weights)
            scores[targets.loss.name] = float(own)
        return scores

    def _residuals(self) -> list[Array]:
        """Return the sorted absolute errors of each fold, (errors, outputs), or 1000 quantiles if there are more."""
        assert self.combined is not None
        with np.errstate(over="ignore"):
            errors = np.abs(self.combined - self.labels.reshape(len(self.rows), -1))
        errors = np.minimum(errors, np.finfo(np.float64).max)
        found = []
        # With X_val, all folds hold out the same rows; count each row once.
        folds = self.prepared.rows.folds[:1] if self.prepared.rows.raw_val is not None else self.prepared.rows.folds
        for fold in folds:
            assert fold.val is not None
            own = np.sort(errors[np.isin(self.rows, fold.val.numpy())], axis=0)
            if len(own) > _MAX_RESIDUALS:
                own = own[np.linspace(0, len(own) - 1, _MAX_RESIDUALS).round().astype(int)]
            found.append(own)
        return found

    def as_given(self) -> Array:
        """Return the combined predictions for the rows given to `fit`, in their order; NaN if there is none."""
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


def _means(
    candidate: PreparedCandidate, networks: Mapping[int, TrainedModel], n_rows: int, device: str, *, held_out: bool
) -> Array:
    """Return the mean predictions of a candidate for its validation rows, and NaN for other rows.

    With `held_out`, they are those of epochs that were chosen by other rows, if the networks have them.
    """
    targets, x = candidate.data.targets, candidate.data.table.x
    counts = np.zeros((n_rows, 1))
    total: Array | None = None
    for position, model in networks.items():
        val = candidate.members[position].val
        assert val is not None
        outputs = model.val_outputs if held_out else None
        if outputs is None:
            outputs = FleetResult(model.shape, [model]).predict(x[val], device=device)[0]
        own = targets.out_of_fold(outputs)
        if total is None:
            is_large = n_rows * own.shape[1] > _LARGE
            total = np.zeros((n_rows, own.shape[1]), dtype=np.float32 if is_large else np.float64)
        total[val.numpy()] += own
        counts[val.numpy()] += 1
    assert total is not None
    return np.asarray(np.divide(total, counts, out=np.full_like(total, np.nan), where=counts > 0))


def _of_rows(found: list[Array], rows: Array) -> Array:
    """Return the rows of (rows, outputs) arrays as one array; the list is emptied meanwhile."""
    taken = np.empty((len(found), len(rows), found[0].shape[1]), dtype=found[0].dtype)
    for place in range(len(found)):
        taken[place] = found[place][rows]
        found[place] = found[place][:0]  # large tables with many classes take much memory
    return taken


def n_bytes(n_rows: int, n_outputs: int, n_candidates: int, n_folds: int) -> int:
    """Estimate the peak memory of the out-of-fold predictions of a fit and of the selection of candidates."""
    size = 4 if n_rows * n_outputs > _LARGE else 8
    # All candidates, one more while they are collected, and the temporary arrays of the selection.
    of_all = (n_candidates + 1 + _COPIES_OF_SELECTION) * size * n_rows * n_outputs
    return of_all + _COPIES_OF_FOLD * 8 * n_outputs * -(-n_rows // max(1, n_folds))


def scaled_by(probabilities: Array, temperature: float) -> Array:
    """Divide the logarithms of probabilities by a temperature, and normalize."""
    if temperature == 1.0:
        return probabilities
    with np.errstate(divide="ignore"):
        logs = np.log(probabilities) / temperature
    logs -= logs.max(axis=-1, keepdims=True)
    scaled = np.exp(logs)
    return np.asarray(scaled / scaled.sum(axis=-1, keepdims=True))
