"""What regressors add: numbers in, numbers out, in their unit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from tabgnm.estimators.base import Array, TabularEstimator
from tabgnm.estimators.parameters import RegressorParameters
from tabgnm.estimators.targets import NumberTargets, as_target_array, regression_loss

if TYPE_CHECKING:
    from sklearn.utils import Tags
    from typing_extensions import Self


class TabularRegressor(RegressorParameters, RegressorMixin, TabularEstimator):  # type: ignore[misc]
    """Common part of the regressors."""

    def _check_y(self, y: Any, name: str) -> Array:
        given = as_target_array(y, name)
        try:
            return np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{name} holds {given.dtype} values that are no numbers ({error}); convert them first"
            ) from None

    def _row_weights(self, _y: Array, sample_weight: Array | None) -> Array | None:
        return sample_weight

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train one epoch on these rows, going on from the weights there are.

        The first call fixes columns, categories and scaling, of the target too; later ones use them. No rows are kept
        for validation, the learning rate is constant, and the moments of the optimiser begin anew in each call.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.

        Returns
        -------
        self
        """
        return self._partial_fit(X, y, None, sample_weight)

    def _make_targets(self, y: Array, weights: Array | None, _classes: Any) -> NumberTargets:
        loss = regression_loss(self.loss, self.quantile, self.huber_delta)
        return NumberTargets.of(y, weights, loss, scaled=self.scale_target)

    def _number_targets(self) -> NumberTargets:
        assert isinstance(self.fitted_.targets, NumberTargets)
        return self.fitted_.targets

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict numbers: the mean of the members'.

        Parameters
        ----------
        X : table of shape (rows, columns)
        return_std : bool, default=False
            Give also the standard deviation over the members: how much they disagree.

        Returns
        -------
        array of shape (rows,) or (rows, outputs); a pair of such arrays with `return_std=True`
        """
        check_is_fitted(self, "fitted_")
        if return_std and self.fitted_.n_members == 1:
            raise ValueError("return_std=True needs at least two members that can disagree; fit with n_members>=2")
        means, deviations = [], []
        for outputs in self._output_blocks(X):
            numbers = self._number_targets().numbers(outputs)  # (members, rows, c)
            means.append(numbers.mean(axis=0))
            if return_std:
                deviations.append(numbers.std(axis=0))
        mean = self._shaped(np.concatenate(means))
        return (mean, self._shaped(np.concatenate(deviations))) if return_std else mean

    def _shaped(self, numbers: Array) -> Array:
        return numbers[:, 0] if self._number_targets().one_dimensional else numbers

    def _score_outputs(self, outputs: Tensor, y: Array, sample_weight: Any) -> float:
        """Return the score of rows whose outputs are known."""
        predicted = self._number_targets().numbers(outputs).mean(axis=0)
        return float(r2_score(y.reshape(len(y), -1), predicted, sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags
