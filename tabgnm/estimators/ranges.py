"""Detection of cells of a table outside the range seen in training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from sklearn.utils.validation import check_is_fitted

from tabgnm.table import read_table

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator


def out_of_range(estimator: TabularEstimator, X: Any) -> Any:
    """Return a boolean array (rows, columns), or a frame of the library of X, with columns in the order of X."""
    check_is_fitted(estimator, "fitted_")
    given = read_table(X)
    raw = estimator._matched(given)
    outside = estimator.fitted_.encoders[0].out_of_range(raw)
    if raw is not given:  # columns were reordered by name
        in_fit = {name: column for column, name in enumerate(raw.names)}
        outside = outside[:, [in_fit[name] for name in given.names]]
    frame = nw.from_native(X, pass_through=True)
    if not isinstance(frame, nw.DataFrame | nw.LazyFrame):
        return outside
    names = [str(name) for name in frame.collect_schema().names()]
    result = nw.from_numpy(outside, names, backend=frame.implementation).to_native()
    if nw.dependencies.is_pandas_like_dataframe(X):
        result.index, result.columns = X.index, X.columns
    return result
