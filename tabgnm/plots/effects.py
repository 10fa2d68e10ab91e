"""Plots of how predictions change with the values of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tabgnm._extras import import_extra
from tabgnm.estimators.effects import N_POINTS, N_ROWS, Effect, effects
from tabgnm.estimators.targets import ClassTargets
from tabgnm.plots.axes import COLORS, FAINT, FONT_SIZE, INK, PURPOSE, RULE, add_legend, set_style, shown

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator

_MAX_COLUMNS = 6
_ACROSS = 3
_MAX_LEVELS = 10
_MAX_BANDS = 2  # more would hide each other
_RUG = 0.08  # height of the bars of shares, as a part of the axes


def plot_effects(
    model: TabularEstimator,
    X: Any,
    columns: str | int | Sequence[str | int] | None = None,
    axes: Any = None,
    *,
    outputs: Any = None,
    n_points: int = N_POINTS,
    n_rows: int = N_ROWS,
    random_state: Any = 0,
) -> Any:
    """Draw the mean prediction by the value of each column (partial dependence), with its spread over rows.

    Bands and bars show the 10 % and 90 % quantiles of the curves of single rows, shifted to the same mean; they are
    omitted for more than two outputs. Grey bars at the bottom show the distribution of the values, and a diamond the
    effect of a missing value.

    Parameters
    ----------
    model : estimator
        A fitted estimator.
    X : table of shape (rows, columns)
        The rows to average over.
    columns : name, position in `fit`, or sequence of these, default=None
        The columns to draw. If None, the six most important columns by `feature_importances_`.
    axes : matplotlib Axes, or sequence of these, default=None
        The axes to draw on, one for each column. If None, a new figure is created.
    outputs : label or name, or sequence of these, default=None
        The labels or targets to draw, as in `Effect.outputs`; at most eight. If None, all of them are drawn.
    n_points, n_rows, random_state
        As in `effects`.

    Returns
    -------
    array of matplotlib Axes
        One for each column.
    """
    check_is_fitted(model, "fitted_")
    if columns is None:
        importances = model.feature_importances_
        columns = [int(i) for i in np.argsort(-importances, kind="stable")[:_MAX_COLUMNS] if importances[i] > 0]
    options = {"n_points": n_points, "n_rows": n_rows, "random_state": random_state}
    found = effects(model, X, columns, **options)
    if not found:
        raise ValueError(
            f"this {type(model).__name__} does not use any column, so there is no effect to draw; fit it to columns "
            "that vary"
        )
    places = _places(found[0].outputs, outputs)
    drawn = _axes(axes, len(found))
    target = _label(model, found[0].outputs, places)
    for number, (ax, effect) in enumerate(zip(drawn, found, strict=True)):
        draw = _draw_levels if effect.kind == "category" else _draw_curve
        draw(ax, effect, places)
        if effect.kind == "category":
            set_style(ax, target, shown(effect.column), grid="x")
            ax.tick_params(axis="y", length=0, labelcolor=INK)
        else:
            beside_curve = number % _ACROSS and found[number - 1].kind != "category"
            set_style(ax, shown(effect.column), "" if beside_curve else target)
    if len(places) > 1:
        handles, names = drawn[0].get_legend_handles_labels()
        if axes is None:
            options = {"loc": "outside upper center", "ncols": 4, "frameon": False}
            drawn[0].figure.legend(handles, names, fontsize=FONT_SIZE, labelcolor=INK, **options)
        else:
            add_legend(drawn[0])
    return drawn


def _places(names: tuple[Any, ...], wanted: Any) -> list[int]:
    if wanted is None:
        places = list(range(len(names)))
    else:
        chosen = [wanted] if isinstance(wanted, str) or not isinstance(wanted, Sequence) else list(wanted)
        unknown = [name for name in chosen if name not in names]
        if unknown:
            raise ValueError(
                f"outputs contains {unknown[0]!r}; expected labels or targets among {', '.join(map(repr, names[:20]))}"
            )
        places = [names.index(name) for name in chosen]
    if len(places) > len(COLORS):
        raise ValueError(
            f"{len(places)} outputs are too many for one plot; choose at most {len(COLORS)}, for instance "
            f"outputs={list(names[:2])!r}"
        )
    return places


def _axes(axes: Any, n_columns: int) -> Any:
    if axes is not None:
        given = np.array([axes] if hasattr(axes, "plot") else axes, dtype=object).ravel()
        if len(given) < n_columns:
            raise ValueError(f"axes has {len(given)} axes for {n_columns} columns; pass one for each column, or None")
        return given[:n_columns]
    pyplot = import_extra("matplotlib.pyplot", "plot", PURPOSE)
    across = min(_ACROSS, n_columns)
    down = -(-n_columns // across)
    _, new = pyplot.subplots(down, across, figsize=(3.3 * across, 2.6 * down), layout="constrained", squeeze=False)
    for ax in new.ravel()[n_columns:]:
        ax.remove()
    return new.ravel()[:n_columns]


def _label(model: TabularEstimator, names: tuple[Any, ...], places: list[int]) -> str:
    what = "probability" if isinstance(model.fitted_.targets, ClassTargets) else "prediction"
    return f"{what} of {shown(names[places[0]])}" if len(places) == 1 else what


def _draw_curve(ax: Any, effect: Effect, places: list[int]) -> None:
    known = slice(None, -1) if effect.has_missing else slice(None)
    x = effect.grid[known]
    for color, place in zip(COLORS, places, strict=False):
        name = shown(effect.outputs[place])
        if len(x) and len(places) <= _MAX_BANDS:
            ax.fill_between(
                x, effect.lower[known, place], effect.upper[known, place], color=color, alpha=0.15, linewidth=0
            )
        if len(x):
            ax.plot(x, effect.mean[known, place], color=color, linewidth=1.8, label=name, marker=_marker(len(x)))
        if effect.has_missing:
            # Beside the curve, in the units of the axes: it has no place among the values.
            ax.errorbar(
                1.06,
                effect.mean[-1, place],
                [
                    [max(0.0, effect.mean[-1, place] - effect.lower[-1, place])],
                    [max(0.0, effect.upper[-1, place] - effect.mean[-1, place])],
                ],
                fmt="D",
                color=color,
                markersize=4,
                elinewidth=1,
                transform=ax.get_yaxis_transform(),
                clip_on=False,
            )
    if effect.has_missing:
        ax.annotate(
            "missing",
            (1.06, 0),
            (0, -4),
            xycoords="axes fraction",
            textcoords="offset points",
            ha="center",
            va="top",
            color=FAINT,
            fontsize=FONT_SIZE - 2,
            rotation=90,
        )
    if len(x) > 1:
        _draw_shares(ax, x, effect.share[known])
    if effect.kind == "date":
        dates = import_extra("matplotlib.dates", "plot", PURPOSE)
        locator = dates.AutoDateLocator(minticks=2, maxticks=4)
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    else:
        ax.locator_params(axis="x", nbins=4)  # labels of large numbers would touch


def _marker(n_points: int) -> str:
    return "o" if n_points <= 3 else ""


def _draw_shares(ax: Any, x: Any, share: Any) -> None:
    """Draw how many rows are near each value: areas from one middle between values to the next, at the bottom."""
    middles = x[:-1] + (x[1:] - x[:-1]) / 2
    edges = np.concatenate([x[:1], middles, x[-1:]])
    widths = np.diff(edges)
    heights = share / (widths / (edges[-1] - edges[0]))  # density
    heights = _RUG * heights / heights.max()
    ax.bar(
        edges[:-1], heights, widths, align="edge", color=RULE, transform=ax.get_xaxis_transform(), zorder=0, linewidth=0
    )


def _draw_levels(ax: Any, effect: Effect, places: list[int]) -> None:
    n_drawn = min(len(effect.grid), _MAX_LEVELS)
    chosen = list(range(n_drawn))
    if effect.has_missing:
        chosen[-1] = len(effect.grid) - 1
    heights = np.arange(len(chosen))
    for number, (color, place) in enumerate(zip(COLORS, places, strict=False)):
        mean = effect.mean[chosen, place]
        spread = np.abs([mean - effect.lower[chosen, place], effect.upper[chosen, place] - mean])
        moved = heights + 0.5 * ((number + 0.5) / len(places) - 0.5)
        name = shown(effect.outputs[place])
        ax.errorbar(
            mean, moved, xerr=spread, fmt="o", color=color, markersize=4.5, elinewidth=1.2, alpha=0.9, label=name
        )
    ax.locator_params(axis="x", nbins=4)
    labels = [shown(effect.labels[place], 18) for place in chosen]
    ax.set_yticks(
        heights, [f"{label} ({effect.share[place]:.0%})" for label, place in zip(labels, chosen, strict=True)]
    )
    ax.set_ylim(len(chosen) - 0.5, -0.5)
