"""Plots of the importance of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tabgnm.nn.checks import positive_integer
from tabgnm.plots.axes import FAINT, INK, POSITIVE, axes_or_new, set_style, shown

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator

_ROW = 0.26  # inches


def plot_importance(
    model: TabularEstimator,
    X: Any = None,
    y: Any = None,
    ax: Any = None,
    *,
    max_columns: int = 20,
    scoring: Any = None,
    n_repeats: int = 5,
    random_state: Any = 0,
) -> Any:
    """Draw the most important columns as bars.

    Parameters
    ----------
    model : estimator
        A fitted estimator.
    X, y : table and targets, default=None
        If given, bars show the drop of the score on these rows when a column is shuffled (`permutation_importance`),
        and lines its standard deviation. If None, bars show `feature_importances_`.
    ax : matplotlib Axes or None, default=None
        The axes to draw on. If None, a new figure is created.
    max_columns : int, default=20
        The maximum number of columns to draw.
    scoring, n_repeats, random_state
        As in `permutation_importance`.

    Returns
    -------
    matplotlib Axes
    """
    check_is_fitted(model, "fitted_")
    max_columns = positive_integer("max_columns", max_columns)
    if (X is None) != (y is None):
        given, missing = ("X", "y") if y is None else ("y", "X")
        raise ValueError(f"{given} was given without {missing}; pass both or neither")
    names, means, spreads, label = list(model._names), model.feature_importances_, None, "share of importance"
    if X is not None:
        shuffled = model.permutation_importance(X, y, scoring=scoring, n_repeats=n_repeats, random_state=random_state)
        means, spreads = shuffled.importances_mean, shuffled.importances_std
        names = list(map(str, X.columns)) if hasattr(X, "columns") and hasattr(model, "feature_names_in_") else names
        label = f"drop of {scoring if isinstance(scoring, str) else 'the score'} if the column is shuffled"
    order = np.argsort(-means, kind="stable")[:max_columns]
    ax = axes_or_new(ax, 5.6, 0.9 + _ROW * len(order))
    places = np.arange(len(order))
    ax.barh(places, means[order], height=0.7, color=POSITIVE)
    if spreads is not None:
        ax.errorbar(means[order], places, xerr=spreads[order], fmt="none", ecolor=INK, elinewidth=1)
    ax.set_yticks(places, [shown(names[column]) for column in order])
    ax.set_ylim(len(order) - 0.4, -0.6)
    if len(order) < len(means):
        label += f"\n({len(order)} of {len(means)} columns)"
    set_style(ax, label, grid="x")
    ax.tick_params(axis="y", length=0, labelcolor=INK)
    ax.axvline(0, color=FAINT, linewidth=0.8)
    return ax
