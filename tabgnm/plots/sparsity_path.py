"""Plots of the score by the number of edges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tabgnm._extras import import_extra
from tabgnm.estimators.small_machines import score_name
from tabgnm.plots.axes import NEGATIVE, POSITIVE, PURPOSE, add_legend, axes_or_new, set_style

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator


def plot_sparsity_path(estimator: TabularEstimator, ax: Any = None) -> Any:
    """Draw the score of the machines of all sizes, and mark the chosen one.

    Vertical lines show the standard deviation of the score over the folds. The label of the axis says whether the score
    is that of predicting the target, or of agreeing with the model that was distilled.

    Parameters
    ----------
    estimator : estimator
        An estimator returned by `distill` or `fit_sparse`.
    ax : matplotlib Axes or None, default=None
        The axes to draw on. If None, a new figure is created.

    Returns
    -------
    matplotlib Axes
    """
    path = getattr(estimator, "sparsity_path_", None)
    if path is None:
        raise ValueError(
            f"this {type(estimator).__name__} has no sparsity_path_; expected an estimator returned by distill or "
            "fit_sparse"
        )
    path = path.sort_values("edges", kind="stable")
    edges, score, spread = (path[name].to_numpy(float) for name in ("edges", "score", "score_std"))
    edges = np.maximum(edges, 1)  # a constant of 0 has no edge; a logarithmic axis begins at 1
    chosen = path["chosen"].to_numpy(bool)
    ax = axes_or_new(ax, 5.6, 3.4)
    line = {"marker": "o", "markersize": 4, "linewidth": 1.4, "elinewidth": 1.0, "capsize": 2.5}
    ax.errorbar(edges, score, spread, color=POSITIVE, zorder=2, **line)
    name = score_name(estimator)
    size = int(path["edges"].to_numpy()[chosen][0])
    short = name.partition(" against")[0]  # the axis has the whole name
    label = f"chosen: {size:,} edges, {short} {score[chosen][0]:.3f} ± {spread[chosen][0]:.3f}"
    ring = {"marker": "o", "markersize": 11, "fillstyle": "none", "markeredgewidth": 2}
    ax.plot(edges[chosen], score[chosen], linestyle="none", color=NEGATIVE, zorder=3, label=label, **ring)
    add_legend(ax, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0.2)  # above the axes, apart from the curve
    _set_sizes(ax, edges)
    set_style(ax, "edges", name)
    return ax


def _set_sizes(ax: Any, edges: Any) -> None:
    ticker = import_extra("matplotlib.ticker", "plot", PURPOSE)
    ax.set_xscale("log")
    ax.set_xlim(edges.min() / 1.25, edges.max() * 1.25)
    ax.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5), numticks=20))
    ax.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
    ax.xaxis.set_minor_locator(ticker.NullLocator())
