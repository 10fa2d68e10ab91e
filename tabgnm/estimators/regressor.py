"""Base class of the regressors: numbers and scores."""

from __future__ import annotations

import datetime
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from tabgnm.estimators import prediction
from tabgnm.estimators.base import Array, TabularEstimator
from tabgnm.estimators.checks import check_lengths, sample_weights
from tabgnm.estimators.parameters import RegressorParameters
from tabgnm.estimators.target_arrays import as_target_array
from tabgnm.estimators.targets import NumberTargets, Targets, regression_loss
from tabgnm.nn.losses import Loss

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
                raise TypeError(f"such as {given.flat[0]!r}")
            with np.errstate(over="ignore"):
                numbers = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(
                f"{name} holds {given.dtype} values that are no numbers ({error}); convert them first, for instance "
                f"with {name}.astype(float)"
            ) from None
        if not np.isfinite(numbers).all():
            raise ValueError(f"Input {name} contains infinity or a value too large for float64; drop such rows")
        return numbers

    def _row_weights(self, _y: Array, sample_weight: Array | None, _streamed: Targets | None) -> Array | None:
        return sample_weight

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train for one epoch on these rows, starting from the current weights.

        The first call fixes columns, categories and scaling (also of the target) for all later ones. No rows are used
        for validation, the learning rate is constant, and the state of the optimiser is reset in each call.

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

    def _own_loss(self) -> Loss:
        return regression_loss(self.loss, self.quantile, self.huber_delta)

    def _with_own_loss(self, targets: Targets) -> NumberTargets:
        assert isinstance(targets, NumberTargets)
        return replace(targets, loss=self._own_loss())

    def _labels_of_all_rows(self, _y: Array) -> None:
        return None

    def _number_targets(self) -> NumberTargets:
        assert isinstance(self.fitted_.targets, NumberTargets)
        return self.fitted_.targets

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict numbers, averaged over the members.

        Parameters
        ----------
        X : table of shape (rows, columns)
        return_std : bool, default=False
            Also return the standard deviation over the members, a measure of how much they disagree.

        Returns
        -------
        array of shape (rows,) or (rows, outputs); a pair of such arrays with `return_std=True`
        """
        check_is_fitted(self, "fitted_")
        if return_std and self.fitted_.n_members == 1:
            raise ValueError("return_std=True needs at least two members; fit with n_members>=2")
        parts = prediction.map_outputs(self, self._encoded_blocks(X), partial(self._reduce, with_std=return_std))
        if self._number_targets().one_dimensional:
            parts = [part[:, 0] for part in parts]
        return tuple(parts) if return_std else parts[0]

    def _reduce(self, outputs: Tensor, *, with_std: bool = False) -> list[Array]:
        """Return mean and standard deviation over the members, (rows, outputs), in units of the target."""
        targets, outputs = self._number_targets(), outputs.to(torch.float64)
        mean = targets.numbers(outputs.mean(dim=0))
        return [mean, outputs.std(dim=0, correction=0).numpy() * targets.scale] if with_std else [mean]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R², the coefficient of determination, averaged over the outputs.

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
        return float(r2_score(y, predicted, sample_weight=sample_weights(sample_weight, len(y))))

    def _check_scored(self, y: Array) -> None:
        n_outputs = self._number_targets().n_outputs
        if y.reshape(len(y), -1).shape[1] != n_outputs:
            raise ValueError(f"y has shape {y.shape}; expected {n_outputs} numbers per row, as in fit")

    def _score_reduced(self, parts: list[Array], y: Array, sample_weight: Any) -> float:
        return float(r2_score(y.reshape(len(y), -1), parts[0], sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags


def _refuse_times(y: Array, name: str) -> None:
    """Raise if the targets are dates or durations: only the user knows which unit to convert them to."""
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
