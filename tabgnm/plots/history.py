"""Plots of the losses during training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tabgnm.plots.axes import NEGATIVE, POSITIVE, add_legend, axes_or_new, set_logarithmic, set_style

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator

_MAX_LINES = 60  # of single networks
_LOG_RATIO = 5  # of the largest to the smallest median, from which on the axis is logarithmic


def plot_history(model: TabularEstimator, ax: Any = None) -> Any:
    """Draw the training and validation losses of all networks by epoch.

    Thin lines are single networks, and thick lines their median, as long as most of them are being trained. Dots mark
    the epochs whose weights were kept.

    Parameters
    ----------
    model : estimator
        A fitted estimator.
    ax : matplotlib Axes or None, default=None
        The axes to draw on. If None, a new figure is created.

    Returns
    -------
    matplotlib Axes
    """
    check_is_fitted(model, "fitted_")
    histories = [own for own in model.history_ if own["train_loss"]]
    if not histories:
        raise ValueError(
            f"this {type(model).__name__} has no training history to draw; expected a model that was trained by fit "
            "for at least one epoch"
        )
    ax = axes_or_new(ax, 5.6, 3.4)
    medians = []
    for key, name, color in (("train_loss", "training", NEGATIVE), ("val_loss", "validation", POSITIVE)):
        lines = [np.asarray(own[key], dtype=float) for own in histories if own[key]]
        lines = [line for line in lines if np.isfinite(line).any()]
        if not lines:
            continue
        for line in lines[:: -(-len(lines) // _MAX_LINES)]:
            ax.plot(np.arange(1, len(line) + 1), line, color=color, alpha=0.25, linewidth=0.8)
        median = _median(lines)
        medians.append(median)
        ax.plot(np.arange(1, len(median) + 1), median, color=color, linewidth=2, label=f"{name}, median")
        if key == "val_loss":
            best = [(own["best_epoch"], own[key][own["best_epoch"] - 1]) for own in histories if own["best_epoch"]]
            ax.plot(*np.transpose(best), "o", color=color, markersize=4, markeredgecolor="white", label="kept epoch")
    levels = np.concatenate(medians)
    if levels.min() > 0 and levels.max() > _LOG_RATIO * levels.min():
        ax.set_yscale("log")
        set_logarithmic(ax.yaxis)
    else:  # single networks may begin far above
        ax.set_ylim(top=min(ax.get_ylim()[1], levels.max() + np.ptp(levels)), bottom=max(ax.get_ylim()[0], 0.0))
    set_style(ax, "epoch", "loss")
    add_legend(ax)
    return ax


def _median(lines: list[NDArray[np.floating[Any]]]) -> NDArray[np.floating[Any]]:
    """Return the median by epoch, as long as three quarters of the lines go on."""
    lengths = sorted(map(len, lines))
    n_epochs = lengths[len(lengths) // 4]
    table = np.full((len(lines), n_epochs), np.nan)
    for row, line in zip(table, lines, strict=True):
        row[: len(line)] = line[:n_epochs]
    return np.asarray(np.nanmedian(table, axis=0))
