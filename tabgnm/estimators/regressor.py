"""Base class of the regressors: numbers and scores."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from tabgnm.estimators.base import Array, TabularEstimator
from tabgnm.estimators.checks import check_lengths, check_number, sample_weights
from tabgnm.estimators.intervals import cv_plus
from tabgnm.estimators.metrics import number_score
from tabgnm.estimators.number_targets import check_number_targets
from tabgnm.estimators.parameters import RegressorParameters
from tabgnm.estimators.target_arrays import as_target_array
from tabgnm.estimators.targets import NumberTargets, Targets
from tabgnm.nn.losses import LogLinkLoss

if TYPE_CHECKING:
    from sklearn.utils import Tags
    from typing_extensions import Self


class TabularRegressor(RegressorParameters, RegressorMixin, TabularEstimator):  # type: ignore[misc] # scikit-learn has no types
    """Base class of the regressors."""

    def _check_y(self, y: Any, name: str) -> Array:
        given = as_target_array(y, name)
        _refuse_times(given, name)
        try:
            # NumPy would parse strings, and convert dates to microseconds.
            if given.dtype.kind not in "biufO" or (
                given.dtype.kind == "O" and any(isinstance(value, str | bytes) for value in given.flat)
            ):
                raise TypeError(f"such as {given.ravel()[:1].tolist()[0]!r}")
            with np.errstate(over="ignore"):
                numbers = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            remedy = f"with {name}.astype(float)"
            if any(isinstance(value, str) for value in given.flat):
                remedy += f", after {name}.str.replace(',', '') where they are written like '1,234.5'"
            raise ValueError(
                f"{name} holds {given.dtype} values that are not numbers ({error}); convert them first, for instance "
                f"{remedy}"
            ) from None
        if not np.isfinite(numbers).all():
            raise ValueError(f"Input {name} contains infinity or a value too large for float64; drop such rows")
        return numbers

    def _row_weights(self, _y: Array, sample_weight: Array | None, _streamed: Targets | None) -> Array | None:
        return sample_weight

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train for one epoch on the given rows, starting from the current weights.

        The first call determines the columns, the categories and the scaling of columns and target for all later calls.
        There is no validation, the learning rate is constant, and the state of the optimizer is reset in each call.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.

        Returns
        -------
        self
        """
        return self._partial_fit(X, y, None, sample_weight)

    def _make_targets(self, y: Array, weights: Array | None, _classes: Any, *, may_vary: bool) -> NumberTargets:
        return NumberTargets.of(y, weights, self._own_loss(), scaled=self.scale_target, may_vary=may_vary)

    def _check_learnable(self, y: Array, name: str, row_number: Callable[[int], int]) -> None:
        check_number_targets(self._own_loss(), y, name, row_number)

    def _with_own_loss(self, targets: Targets) -> NumberTargets:
        assert isinstance(targets, NumberTargets)
        new = replace(targets, loss=self._own_loss())
        meanings = [(own.n_outputs, own.quantiles is None, isinstance(own.loss, LogLinkLoss)) for own in (new, targets)]
        if meanings[0] != meanings[1]:
            raise ValueError(
                f"loss={self.loss!r} with quantile={self.quantile!r} cannot continue training that was started with "
                f"{targets.loss!r}, because the outputs of the networks would change their meaning; restore the "
                "previous value, or call fit with warm_start=False to start again"
            )
        return new

    def _labels_of_all_rows(self, _y: Array) -> None:
        return None

    def _number_targets(self) -> NumberTargets:
        assert isinstance(self.fitted_.targets, NumberTargets)
        return self.fitted_.targets

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict numbers, averaged over the networks.

        Parameters
        ----------
        X : table of shape (rows, columns)
        return_std : bool, default=False
            Whether to also return the standard deviation over the networks. It measures how much the networks disagree.

        Returns
        -------
        array of shape (rows,), (rows, outputs), or (rows, quantiles) if `quantile` is a list
            The predictions. The quantiles of a row are in ascending order. If `return_std=True`, a tuple (predictions,
            standard deviations).
        """
        check_is_fitted(self, "fitted_")
        if return_std and self.fitted_.n_networks == 1:
            raise ValueError("return_std=True requires at least two networks; fit with n_folds>=2")
        parts = self._predicted(X, partial(self._reduce, with_std=return_std))
        parts = [self._as_predicted(part) for part in parts]
        return tuple(parts) if return_std else parts[0]

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Array:
        """Predict intervals that contain the target with a given probability (CV+; Barber et al., 2021).

        The width of an interval follows from the errors on rows that the networks were not trained on, and from the
        spread of the predictions over the folds. New rows have to come from the same distribution as those of `fit`.
        For losses with a log link, intervals do not extend below 0.

        Parameters
        ----------
        X : table of shape (rows, columns)
        coverage : float, default=0.9
            The fraction of the targets that should lie within their interval.

        Returns
        -------
        array of shape (rows, 2) or (rows, outputs, 2)
            The lower and upper ends of the intervals.
        """
        check_is_fitted(self, "fitted_")
        coverage = check_number("coverage", coverage, 0, 1, "0.9")
        fitted, targets = self.fitted_, self._number_targets()
        if targets.quantiles is not None:
            raise ValueError(
                f"predict_interval requires one prediction per row, but quantile={list(targets.quantiles)} has "
                "several; use the lowest and the highest quantile that predict returns, or another loss"
            )
        if not fitted.residuals:
            raise ValueError(
                "predict_interval requires errors on rows that networks were not trained on; call fit with n_folds>=1 "
                "and at least 2 rows (partial_fit does not hold out any rows)"
            )
        if len(fitted.residuals) == 1:
            centers = self._predicted(X, self._reduce)[0][None]  # (1, rows, outputs)
            residuals = fitted.residuals
        else:
            kept = self._kept_folds()
            centers = np.moveaxis(self._predicted(X, self._fold_means)[0], 1, 0)  # (folds, rows, outputs)
            used = [place for place, fold in enumerate(kept) if len(fitted.residuals[fold])]
            centers, residuals = centers[used], [fitted.residuals[kept[place]] for place in used]
        found = [
            cv_plus(centers[..., output], [own[:, output] for own in residuals], coverage, fitted.n_left_out)
            for output in range(centers.shape[2])
        ]
        ends = found[0] if targets.one_dimensional else np.stack(found, axis=1)
        return np.maximum(ends, 0.0) if isinstance(targets.loss, LogLinkLoss) else ends

    def _kept_folds(self) -> list[int]:
        return sorted({fold for group in self.fitted_.groups for fold in group.folds})

    def _fold_means(self, outputs: list[Tensor]) -> list[Array]:
        """Return the weighted mean over the networks of each fold, (rows, folds, outputs)."""
        numbers, weights = self._network_numbers(outputs), self.fitted_.network_weights
        folds = np.array([fold for group in self.fitted_.groups for fold in group.folds])
        means = [
            np.average(numbers[folds == fold], axis=0, weights=weights[folds == fold]) for fold in self._kept_folds()
        ]
        return [np.stack(means, axis=1)]

    def _network_numbers(self, outputs: list[Tensor]) -> Array:
        """Return the predictions of all networks in units of the target, (networks, rows, outputs)."""
        of_groups = [
            cast(NumberTargets, group.targets).numbers(own)
            for group, own in zip(self.fitted_.groups, outputs, strict=True)
        ]
        return np.concatenate(of_groups)

    def _reduce(self, outputs: list[Tensor], *, with_std: bool = False) -> list[Array]:
        """Return mean and standard deviation over the networks, (rows, outputs), in units of the target."""
        numbers, weights = self._network_numbers(outputs), self.fitted_.network_weights
        if len(numbers) == 1:
            return [numbers[0]]
        # Averages differences from the first network, so that the mean of equal numbers is exactly this number.
        mean = numbers[0] + np.tensordot(weights, numbers - numbers[0], 1)
        mean = self._number_targets().ordered(mean)  # the mean of sorted quantiles is sorted, up to rounding
        if not with_std:
            return [mean]
        distances = np.abs(numbers - mean)
        # Scaled by a power of 2, because squares of very large (small) numbers would overflow (underflow).
        _, exponent = np.frexp(distances.max(axis=0))
        return [mean, np.ldexp(np.sqrt(np.tensordot(weights, np.ldexp(distances, -exponent) ** 2, 1)), exponent)]

    def _as_predicted(self, combined: Array) -> Array:
        targets = self._number_targets()
        return combined[:, 0] if targets.one_dimensional and targets.quantiles is None else combined

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R², the coefficient of determination, averaged over the outputs; D² if `loss="quantile"`.

        D² is 1 - L / L₀, where L is the quantile loss of the predictions, summed over the quantiles, and L₀ that of the
        quantiles of y. For one quantile, it is the `d2_pinball_score` of scikit-learn.

        Parameters
        ----------
        X : table of shape (rows, columns)
        y : array-like of shape (rows,) or (rows, outputs)
        sample_weight : array-like of shape (rows,), default=None

        Returns
        -------
        float
        """
        y = self._check_y(y, "y")
        predicted = self.predict(X)
        check_lengths(len(predicted), y)
        self._check_scored(y)
        return self._score_numbers(predicted, y, sample_weights(sample_weight, len(y)))

    def _check_scored(self, y: Array) -> None:
        n_targets = self._number_targets().n_targets
        if y.reshape(len(y), -1).shape[1] != n_targets:
            raise ValueError(f"y has shape {y.shape}; expected {n_targets} numbers per row, as in fit")

    def _score_numbers(self, predicted: Array, y: Array, sample_weight: Any) -> float:
        return number_score(self._number_targets(), y, predicted, sample_weight)

    def _score_reduced(self, parts: list[Array], y: Array, sample_weight: Any) -> float:
        return self._score_numbers(parts[0], y, sample_weight)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags


def _refuse_times(y: Array, name: str) -> None:
    """Raise if the targets are dates or durations, because only the user knows the unit to convert them to."""
    first = y.flat[0]
    if y.dtype.kind == "M" or isinstance(first, datetime.date):
        raise ValueError(
            f"{name} holds dates such as {first!s}, which are not numbers; convert them first, for instance to days "
            f"since the first one: ({name} - {name}.min()) / numpy.timedelta64(1, 'D')"
        )
    if y.dtype.kind == "m" or isinstance(first, datetime.timedelta):
        raise ValueError(
            f"{name} holds durations such as {first!s}, which are not numbers; convert them first, for instance to "
            f"days: {name} / numpy.timedelta64(1, 'D')"
        )
