"""Plots of predictions over the plane of two columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from tabgnm._extras import import_extra
from tabgnm.estimators.checks import check_lengths
from tabgnm.estimators.effects import column_position
from tabgnm.estimators.named_outputs import prediction_names, prediction_values
from tabgnm.estimators.prediction import map_outputs
from tabgnm.estimators.targets import ClassTargets
from tabgnm.nn.checks import positive_integer
from tabgnm.plots.axes import (
    COLORS,
    FAINT,
    FONT_SIZE,
    INK,
    NEGATIVE,
    POSITIVE,
    PURPOSE,
    RULE,
    add_legend,
    axes_or_new,
    set_large_numbers,
    set_style,
    shown,
)
from tabgnm.table import RawTable, read_table

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator

_MAX_POINTS = 1000  # rows that are drawn
_MARGIN = 0.05
_BANDS = 11


def plot_decision_boundary(
    model: TabularEstimator,
    X: Any,
    y: Any = None,
    ax: Any = None,
    *,
    columns: tuple[str | int, str | int] = (0, 1),
    n_points: int = 60,
    n_rows: int = 20,
) -> Any:
    """Draw predictions over the plane of two numeric columns, and the rows of X.

    With two classes, bands show the probability and a line shows where both classes are equally probable. With more
    classes, colours show the predicted class, paler where it is less probable. For regressors, colours show the
    predicted number. If there are other columns, predictions are averaged over rows of X, which keep their values in
    these columns.

    Parameters
    ----------
    model : estimator
        A fitted estimator.
    X : table of shape (rows, columns)
    y : array-like of shape (rows,), default=None
        The true labels or numbers, to colour the rows by.
    ax : matplotlib Axes or None, default=None
        The axes to draw on. If None, a new figure is created.
    columns : pair of names, or of positions in `fit`, default=(0, 1)
    n_points : int, default=60
        The number of points along each axis at which predictions are computed.
    n_rows : int, default=20
        The number of rows to average over if there are other columns: evenly spaced rows of X.

    Returns
    -------
    matplotlib Axes
    """
    check_is_fitted(model, "fitted_")
    _check_model(model)
    n_points, n_rows = positive_integer("n_points", n_points, smallest=2), positive_integer("n_rows", n_rows)
    if isinstance(columns, str) or len(columns) != 2 or columns[0] == columns[1]:
        raise ValueError(f"columns={columns!r} is not a pair; expected two different columns, such as columns=(0, 1)")
    raw = model._matched(read_table(X))
    places = [column_position(model, column) for column in columns]
    values = [_numbers(model, raw, place) for place in places]
    across, up = (_range(own, n_points) for own in values)
    predicted = _plane(model, raw, places, across, up, n_rows)  # (up, across, outputs)
    labels = None
    if y is not None:
        labels = model._check_y(y, "y")
        check_lengths(raw.n_rows, labels)
    ax = axes_or_new(ax, 5.2, 4.2)
    drawn = np.linspace(0, raw.n_rows - 1, min(raw.n_rows, _MAX_POINTS)).astype(np.intp)
    rows = (values[0][drawn], values[1][drawn], None if labels is None else labels[drawn])
    draw = _draw_classes if isinstance(model.fitted_.targets, ClassTargets) else _draw_numbers
    draw(ax, model, across, up, predicted, *rows)
    set_style(ax, *(shown(model._names[place]) for place in places), grid=None)
    return ax


def _check_model(model: TabularEstimator) -> None:
    targets = model.fitted_.targets
    several = targets.kind in ("multilabel", "joint") if isinstance(targets, ClassTargets) else targets.n_outputs > 1
    if several:
        raise ValueError(
            f"this {type(model).__name__} predicts several targets or quantiles, which cannot be shown in one plot; "
            "use plot_effects, or fit a model for each target or quantile"
        )
    if isinstance(targets, ClassTargets) and targets.kind == "one":
        raise ValueError("this model has a single class, so there is no boundary; fit it to rows of several classes")
    if model.n_features_in_ < 2:
        raise ValueError("the model has one column, but two are required; use plot_effects")


def _numbers(model: TabularEstimator, raw: RawTable, column: int) -> Any:
    kind, values = model.fitted_.encoders[0].readable(raw, column)
    if kind != "number":
        raise ValueError(
            f"column {model._names[column]!r} is a {kind}, but numbers are required; choose other columns, or use "
            "plot_effects"
        )
    if not np.isfinite(values).any():
        raise ValueError(
            f"all values of column {model._names[column]!r} are missing in X; choose another column, or other rows"
        )
    return values


def _range(values: Any, n_points: int) -> Any:
    low, high = np.nanmin(values), np.nanmax(values)
    margin = _MARGIN * (high - low) or 0.5
    return np.linspace(low - margin, high + margin, n_points)


def _plane(model: TabularEstimator, raw: RawTable, places: list[int], across: Any, up: Any, n_rows: int) -> Any:
    """Return predictions at all points, averaged over rows, (up, across, outputs)."""
    fitted = model.fitted_
    cells = np.full((len(across) * len(up), raw.n_columns), None, dtype=object)  # only two columns are read of it
    cells[:, places[0]] = np.tile(across, len(up))
    cells[:, places[1]] = np.repeat(up, len(across))
    plane = read_table(cells)
    others = len({owner for encoder in fitted.encoders for owner in encoder.owners} - set(places))
    chosen = np.unique(np.linspace(0, raw.n_rows - 1, n_rows if others else 1).astype(np.intp))
    points, rows, own = [], [], []
    for encoder in fitted.encoders:
        points.append(torch.as_tensor(encoder.encode(plane, dtype=fitted.dtype)))
        rows.append(torch.as_tensor(encoder.encode(raw.take(chosen), dtype=fitted.dtype)))
        own.append(torch.as_tensor(np.isin(encoder.owners, places)))

    def blocks() -> Iterator[list[Tensor]]:
        for row in range(len(chosen)):
            yield [torch.where(mask, x, base[row]) for mask, x, base in zip(own, points, rows, strict=True)]

    parts = map_outputs(model, blocks(), model._reduce, len(cells) * len(chosen))
    predicted = prediction_values(fitted.targets, parts)
    return predicted.reshape(len(chosen), len(up), len(across), -1).mean(axis=0)


def _draw_classes(
    ax: Any, model: TabularEstimator, across: Any, up: Any, predicted: Any, x: Any, y: Any, labels: Any
) -> None:
    colors = import_extra("matplotlib.colors", "plot", PURPOSE)
    names = list(model.classes_)
    if len(names) > len(COLORS):
        raise ValueError(
            f"{len(names)} classes are too many for one plot; expected at most {len(COLORS)}: use plot_effects with "
            "some of the outputs"
        )
    if len(names) == 2:
        blend = colors.LinearSegmentedColormap.from_list("classes", [_pale(POSITIVE), "#ffffff", _pale(NEGATIVE)])
        ax.contourf(across, up, predicted[..., 0], levels=np.linspace(0, 1, _BANDS), cmap=blend, vmin=0, vmax=1)
        if predicted.min() < 0.5 < predicted.max():
            ax.contour(across, up, predicted[..., 0], levels=[0.5], colors=INK, linewidths=1.4)
    else:
        winner, sure = predicted.argmax(axis=-1), predicted.max(axis=-1)
        chance = 1 / len(names)
        strength = (0.15 + 0.45 * (sure - chance) / (1 - chance))[..., None]
        picture = 1 - strength * (1 - np.array([colors.to_rgb(color) for color in COLORS])[winner])
        extent = (across[0], across[-1], up[0], up[-1])
        ax.imshow(picture, origin="lower", extent=extent, aspect="auto", interpolation="nearest")
    for color, name in zip(COLORS, names, strict=False):
        chosen = np.zeros(len(x), bool) if labels is None else labels == name
        if labels is None or chosen.any():
            ax.scatter(
                x[chosen], y[chosen], s=18, color=color, edgecolor="white", linewidth=0.6, label=shown(name), zorder=3
            )
    if labels is None:
        ax.scatter(x, y, s=9, color=INK, alpha=0.4, linewidth=0, zorder=3)
    add_legend(ax, frameon=True, framealpha=0.85, edgecolor="none")


def _draw_numbers(
    ax: Any, model: TabularEstimator, across: Any, up: Any, predicted: Any, x: Any, y: Any, labels: Any
) -> None:
    cm = import_extra("matplotlib.cm", "plot", PURPOSE)
    colors = import_extra("matplotlib.colors", "plot", PURPOSE)
    known = predicted if labels is None else np.concatenate([predicted.ravel(), labels.ravel()])
    norm = colors.Normalize(float(known.min()), float(known.max()))
    ax.contourf(across, up, predicted[..., 0], levels=_BANDS + 4, cmap="viridis", norm=norm)
    color = {"color": "white", "alpha": 0.6} if labels is None else {"c": labels, "cmap": "viridis", "norm": norm}
    ax.scatter(x, y, s=16, edgecolor="white", linewidth=0.5, zorder=3, **color)
    bar = ax.figure.colorbar(cm.ScalarMappable(norm, "viridis"), ax=ax)
    bar.set_label(f"prediction of {shown(prediction_names(model.fitted_.targets)[0])}", color=FAINT, fontsize=FONT_SIZE)
    bar.ax.tick_params(colors=FAINT, labelsize=FONT_SIZE, color=RULE)
    set_large_numbers(bar.ax.yaxis)
    bar.outline.set_visible(False)


def _pale(color: str) -> tuple[float, ...]:
    to_rgb = import_extra("matplotlib.colors", "plot", PURPOSE).to_rgb
    return tuple(1 - 0.45 * (1 - part) for part in to_rgb(color))
