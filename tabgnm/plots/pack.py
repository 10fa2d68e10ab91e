"""Plots of the candidates of a pack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tabgnm._printable import brief, printable
from tabgnm.estimators.pack import NOT_SETTINGS
from tabgnm.plots.axes import FAINT, FONT_SIZE, INK, POSITIVE, RULE, axes_or_new, set_style

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator

_ROW = 0.3  # inches
_MAX_SETTINGS, _MAX_CHARS = 3, 56  # of a candidate that are named


def plot_pack(model: TabularEstimator, ax: Any = None) -> Any:
    """Draw the out-of-fold loss of all candidates, the best first, and the weights of the selected ones.

    Lines show the standard deviation of the loss over folds. Candidates are named by the settings that distinguish them
    from most others. Markers of candidates without a weight are hollow.

    Parameters
    ----------
    model : estimator
        An estimator fitted with `n_folds>=1`.
    ax : matplotlib Axes or None, default=None
        The axes to draw on. If None, a new figure is created.

    Returns
    -------
    matplotlib Axes
    """
    check_is_fitted(model, "fitted_")
    records = [own for own in model.fitted_.candidates if np.isfinite(own["loss"])]
    if not records:
        raise ValueError(
            f"the candidates of this {type(model).__name__} were not compared, so there are no losses to draw; call "
            "fit with n_folds>=1 (not partial_fit)"
        )
    names = _names(records)
    order = sorted(range(len(records)), key=lambda place: records[place]["loss"])
    ax = axes_or_new(ax, 6.4, 0.9 + _ROW * len(records))
    at_right = ax.get_yaxis_transform()
    for place, position in enumerate(order):
        own = records[position]
        chosen = own["weight"] > 0
        ax.plot([own["loss"] - own["loss_std"], own["loss"] + own["loss_std"]], [place] * 2, color=RULE, linewidth=2)
        face = POSITIVE if chosen else "white"
        ax.plot(own["loss"], place, "o", color=POSITIVE if chosen else FAINT, markerfacecolor=face, markersize=6)
        note = f"{own['weight']:.0%}" if chosen else "left the race" if own["stopped_by_race"] else ""
        color = INK if chosen else FAINT
        ax.text(1, place, note, ha="right", va="center", color=color, fontsize=FONT_SIZE, transform=at_right)
    ax.text(1, -0.75, "weight", ha="right", color=FAINT, fontsize=FONT_SIZE, transform=at_right)
    low, high = ax.get_xlim()
    ax.set_xlim(low, high + 0.15 * (high - low))
    ax.set_yticks(range(len(order)), [brief(printable(names[position])) for position in order])
    ax.set_ylim(len(order) - 0.4, -0.6)
    set_style(ax, "out-of-fold loss ± std over folds", grid="x")
    ax.tick_params(axis="y", length=0, labelcolor=INK)
    return ax


def _names(records: list[dict[str, Any]]) -> list[str]:
    """Name candidates by their number and the settings that fewest others share."""
    settings = [{key: value for key, value in own.items() if key not in NOT_SETTINGS} for own in records]
    counts = {
        key: {
            repr(value): [repr(own.get(key)) for own in settings].count(repr(value)) for value in _values(settings, key)
        }
        for key in settings[0]
    }
    names = []
    for record, own in zip(records, settings, strict=True):
        rare = sorted((counts[key][repr(value)], key) for key, value in own.items())
        told = [key for count, key in rare if count <= len(records) / 2][:_MAX_SETTINGS]
        texts = [f"{key}={own[key]:g}" if isinstance(own[key], float) else f"{key}={own[key]}" for key in told]
        while len(said := ", ".join(texts)) > _MAX_CHARS and len(texts) > 1:
            texts.remove(max(texts, key=len))
        names.append(f"{record['candidate']}: {said}" if said else str(record["candidate"]))
    return names


def _values(settings: list[dict[str, Any]], key: str) -> list[Any]:
    return [own.get(key) for own in settings]
