"""Methods of all estimators that explain what they have learned and what they predict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tabgnm.estimators.effects import N_POINTS, N_ROWS, effects
from tabgnm.estimators.explanation import N_BASE, N_STEPS, OUTPUTS, Explanation, explain
from tabgnm.estimators.frames import as_frame
from tabgnm.estimators.importance import permutation_importance
from tabgnm.estimators.ranges import out_of_range

if TYPE_CHECKING:
    from sklearn.utils import Bunch


class ExplainingMethods:
    """Methods of estimators that explain models and predictions."""

    # `self` is always a TabularEstimator, which this is mixed into; mypy does not know it, hence the ignores below.

    def permutation_importance(
        self,
        X: Any,
        y: Any,
        *,
        scoring: Any = None,
        n_repeats: int = 5,
        sample_weight: Any = None,
        random_state: Any = None,
    ) -> Bunch:
        """Compute how much the score drops when a column is shuffled.

        Parameters
        ----------
        X, y, sample_weight
            The rows to score, preferably not those of `fit`.
        scoring : str, callable or None, default=None
            The score: a name such as "neg_log_loss" or "mae", a scikit-learn scorer, or a function that is called as
            `scoring(estimator, X, y)`. If None, `score` is used. A function is slower, because it is called once for
            each shuffled copy of X, which has to be a pandas DataFrame or an array.
        n_repeats : int, default=5
            The number of times each column is shuffled.
        random_state : int, RandomState or None, default=None

        Returns
        -------
        Bunch
            `importances` of shape (columns, repeats), `importances_mean` and `importances_std`, as returned by
            `sklearn.inspection.permutation_importance`. Columns are in the order of X.
        """
        return permutation_importance(
            self,  # type: ignore[arg-type]
            X,
            y,
            scoring=scoring,
            n_repeats=n_repeats,
            sample_weight=sample_weight,
            random_state=random_state,
        )

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

    def out_of_range(self, X: Any) -> Any:
        """Return which cells are outside the range seen in training, where predictions are less reliable.

        Numbers, dates, durations and times are compared with the minimum and maximum of the training rows, categories
        with the levels of the training rows. The result is False for missing cells, for columns that the model does not
        use, and for categories with rare levels, whose names are not stored.

        Parameters
        ----------
        X : table of shape (rows, columns)

        Returns
        -------
        frame or array of bool, shape (rows, columns)
            If X is a DataFrame, a DataFrame of the same library with the same columns (and index, for pandas);
            otherwise an array. Columns are in the order of X.

        Examples
        --------
        >>> from tabgnm import MLPRegressor
        >>> model = MLPRegressor(n_folds=0, max_epochs=5).fit([[1.0], [2.0], [3.0], [4.0]], [1, 2, 3, 4])
        >>> model.out_of_range([[2.5], [7.0]])
        array([[False],
               [ True]])
        """
        return out_of_range(self, X)  # type: ignore[arg-type]
