"""Methods of all estimators that explain what they have learned and what they predict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tabgnm.estimators.effects import N_POINTS, N_ROWS, effects
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

        Probabilities for classifiers, numbers in units of the target for regressors. `tabgnm.plots.plot_effects` draws
        them, and `tabgnm.estimators.effects.effects` returns them as arrays.

        Parameters
        ----------
        X : table of shape (rows, columns)
            Rows to average over, such as those of `fit`, or others like them. It is not modified.
        columns : name, position in `fit`, or sequence of these, default=None
            None: all columns that the model uses.
        n_points : int, default=20
            Most points of a column: quantiles of numbers and dates, the most frequent levels of categories. That of
            missing values is an additional one.
        n_rows : int, default=200
            Most rows to average over, drawn at random.
        random_state : int, RandomState or None, default=0

        Returns
        -------
        pandas.DataFrame, or a list of dicts where pandas is not installed
            For each column, output and point: "column", "value", "output" (the label whose probability is predicted,
            or the target), "mean" prediction, "lower" and "upper" (10 % and 90 % quantiles of the curves of single
            rows, moved to the same mean), and "share" of the rows.

        Examples
        --------
        >>> from tabgnm import MLPRegressor
        >>> model = MLPRegressor(n_folds=0, max_epochs=5).fit([[1.0], [2.0], [3.0], [4.0]], [1, 2, 3, 4])
        >>> [effect["value"] for _, effect in model.effects([[1.0], [4.0]]).iterrows()]
        [1.0, 4.0]
        """
        found = effects(self, X, columns, n_points=n_points, n_rows=n_rows, random_state=random_state)  # type: ignore[arg-type]
        return as_frame([record for effect in found for record in effect.to_records()])
