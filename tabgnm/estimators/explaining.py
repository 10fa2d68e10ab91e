"""Methods of all estimators that explain what they have learned and what they predict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tabgnm.estimators.effects import N_POINTS, N_ROWS, effects
from tabgnm.estimators.explanation import N_BASE, N_STEPS, OUTPUTS, Explanation, explain
from tabgnm.estimators.frames import as_frame


class ExplainingMethods:
    """Methods of estimators that explain models and predictions."""

    # `self` is always a TabularEstimator, which this is mixed into; mypy does not know it, hence the ignores below.

    def effects(
        self,
        X: Any,
        columns: str | int | Sequence[str | int] | None = None,
        *,
        n_points: int = N_POINTS,
        n_rows: int = N_ROWS,
        random_state: Any = 0,
    ) -> Any:
        """Return how predictions change with the value of each column, averaged over rows (partial dependence).

        Predictions are probabilities for classifiers, and numbers in units of the target for regressors.
        `tabgnm.plots.plot_effects` draws them, and `tabgnm.estimators.effects.effects` returns them as arrays.

        Parameters
        ----------
        X : table of shape (rows, columns)
            The rows to average over, such as those of `fit` or similar ones. X is not modified.
        columns : name, position in `fit`, or sequence of these, default=None
            The columns. If None, all columns that the model uses.
        n_points : int, default=20
            The maximum number of points per column, not counting the missing value: quantiles of numbers and dates, the
            most frequent levels of categories.
        n_rows : int, default=200
            The maximum number of rows to average over, drawn at random.
        random_state : int, RandomState or None, default=0

        Returns
        -------
        pandas.DataFrame, or a list of dicts if pandas is not installed
            One row per column, output and point: "column", "value", "output" (the label whose probability is
            predicted, or the target), "mean" prediction, "lower" and "upper" (10 % and 90 % quantiles of the curves of
            single rows, shifted to the same mean), and "share" of the rows.

        Examples
        --------
        >>> from tabgnm import MLPRegressor
        >>> model = MLPRegressor(n_folds=0, max_epochs=5).fit([[1.0], [2.0], [3.0], [4.0]], [1, 2, 3, 4])
        >>> [effect["value"] for _, effect in model.effects([[1.0], [4.0]]).iterrows()]
        [1.0, 4.0]
        """
        found = effects(self, X, columns, n_points=n_points, n_rows=n_rows, random_state=random_state)  # type: ignore[arg-type]
        return as_frame([record for effect in found for record in effect.to_records()])

    def explain(
        self, X: Any, base: Any = None, *, output: str = OUTPUTS[0], n_steps: int = N_STEPS, n_base: int = N_BASE
    ) -> Explanation:
        """Return the contribution of each column to the predictions of single rows (integrated gradients).

        The contributions of a row sum to its prediction minus the prediction for a base. They are gradients of the
        prediction, integrated along a straight path from the base to the row, with respect to scaled numbers,
        missing-value indicators, one-hot columns and the learned features of embedded columns.
        `tabgnm.plots.plot_explanation` draws them.

        Parameters
        ----------
        X : table of shape (rows, columns)
            The rows to explain.
        base : table of shape (rows, columns) or None, default=None
            The rows to compare with, such as rows of `fit`. Contributions are averaged over them, and the base value is
            the mean of their predictions. If None, a reference point is used: the median or mean of each number, no
            missing values, and equal shares of all levels of a category.
        output : {"prediction", "log_odds"}, default="prediction"
            What to explain: predictions (probabilities for classifiers, numbers for regressors) or log-odds. For two
            classes the log-odds are those of `decision_function`, otherwise those of each class against all others.
        n_steps : int, default=1024
            The maximum number of integration steps of a path. A path starts with 2 steps of 5 points each. Steps whose
            contributions do not sum to the difference of the predictions are halved until their error is small, or
            until they have the length 1 / n_steps. The total error of a row is then usually less than 0.1 %, and at
            most about 0.5 %, of the sum of its absolute contributions (or of 1 for classifiers, if that is larger). It
            is distributed among the columns in proportion to their absolute contributions.
        n_base : int, default=20
            The maximum number of rows of `base` to use. If `base` has more rows, they are ordered by their predictions,
            and evenly spaced ones are used.

        Returns
        -------
        Explanation
            Has `values` of shape (rows, columns), or (rows, columns, outputs) if there are several outputs,
            `base_values`, `data`, `feature_names` and `to_frame()`.

        Examples
        --------
        >>> import numpy as np
        >>> from tabgnm import MLPRegressor
        >>> model = MLPRegressor(n_folds=0, max_epochs=5).fit([[1.0, 2.0], [2.0, 1.0], [3.0, 0.0]], [1, 2, 3])
        >>> explanation = model.explain([[2.5, 2.0]])
        >>> explanation.values.shape
        (1, 2)
        >>> bool(np.isclose(explanation.base_values[0] + explanation.values.sum(), model.predict([[2.5, 2.0]])[0]))
        True
        """
        return explain(self, X, base, output=output, n_steps=n_steps, n_base=n_base)  # type: ignore[arg-type]
