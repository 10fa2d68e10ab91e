"""Plots of the contributions of columns to one prediction."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from tabgnm.nn.checks import positive_integer
from tabgnm.plots.axes import (
    DARK_NEGATIVE,
    DARK_POSITIVE,
    FAINT,
    FONT_SIZE,
    INK,
    NEGATIVE,
    POSITIVE,
    RULE,
    axes_or_new,
    set_style,
    set_title,
    short_number,
    shown,
)

if TYPE_CHECKING:
    from tabgnm.estimators.explanation import Explanation

_ROW = 0.34  # inches
_CHARACTER = 0.072  # inches
_MARGIN = 0.34  # for the numbers at the ends of bars, of the width of all bars
_SCALES = {"probability": "probability of {}", "log_odds": "log-odds of {}", "target": "prediction of {}"}


def plot_explanation(
    explanation: Explanation, row: int = 0, ax: Any = None, *, output: Any = None, max_columns: int = 10
) -> Any:
    """Draw the contributions to one prediction as bars from the base value to the prediction, the largest first.

    Parameters
    ----------
    explanation : Explanation
        The result of `explain`.
    row : int, default=0
        The position of the row.
    ax : matplotlib Axes or None, default=None
        The axes to draw on. If None, a new figure is created.
    output : label or name, default=None
        The output to explain, one of `explanation.output_names`. If None, the output with the largest prediction.
    max_columns : int, default=10
        The maximum number of columns to draw; the others are summed up in one bar.

    Returns
    -------
    matplotlib Axes
    """
    max_columns = positive_integer("max_columns", max_columns)
    if not -len(explanation) <= row < len(explanation):
        raise ValueError(f"row={row} does not exist; the explanation has {len(explanation)} rows, numbered from 0")
    values = explanation.values.reshape(*explanation.values.shape[:2], -1)[row]  # (columns, outputs)
    base = explanation.base_values.reshape(len(explanation), -1)[row]
    place = _output(explanation, output, base + values.sum(axis=0))
    contributions, start = values[:, place], float(base[place])
    order = np.argsort(-np.abs(contributions), kind="stable")
    n_others = len(order) - max_columns if len(order) > max_columns else 0
    drawn = order[: max_columns - 1 if n_others else None]
    n_others = len(order) - len(drawn)
    sizes = contributions[drawn].tolist()
    labels = [f"{shown(explanation.feature_names[i])} = {_cell(explanation.data[row, i])}" for i in drawn]
    if n_others:
        sizes.append(float(contributions[order[len(drawn) :]].sum()))
        labels.append(f"{n_others} other columns")
    # The bars get the same width, however long the names are.
    ax = axes_or_new(ax, 4.0 + _CHARACTER * max(map(len, labels)), 1.5 + _ROW * len(sizes))
    ends = start + np.cumsum(sizes)
    begins = np.append(start, ends[:-1])
    places = np.arange(len(sizes))
    ax.barh(places, sizes, left=begins, height=0.62, color=[POSITIVE if size >= 0 else NEGATIVE for size in sizes])
    for position, end in zip(places[:-1], ends[:-1], strict=True):
        ax.plot([end, end], [position - 0.31, position + 1.31], color=RULE, linewidth=1, zorder=0)
    _write_sizes(ax, places, begins, ends)
    low, high = min(start, *ends), max(start, *ends)
    margin = _MARGIN * (high - low) or 1.0
    ax.set_xlim(low - margin, high + margin)
    ax.set_yticks(places, labels)
    ax.set_ylim(len(sizes) - 0.4, -0.6)
    for value, style in ((start, ":"), (float(ends[-1]), "-")):
        ax.axvline(value, color=FAINT, linewidth=1, linestyle=style, zorder=0)
    name = _SCALES[explanation.scale].format(shown(explanation.output_names[place]))
    set_style(ax, name, grid=None)
    ax.tick_params(axis="y", length=0, labelcolor=INK)
    set_title(ax, f"base {short_number(start, 4)} (dotted)\nprediction {short_number(float(ends[-1]), 4)}")
    return ax


def _output(explanation: Explanation, output: Any, predictions: Any) -> int:
    names = explanation.output_names
    if output is None:
        return int(np.argmax(predictions))
    if output not in names:
        raise ValueError(f"output={output!r} does not exist; expected one of {', '.join(map(repr, names[:20]))}")
    return names.index(output)


def _write_sizes(ax: Any, places: Any, begins: Any, ends: Any) -> None:
    """Write each contribution beside the end of its bar."""
    for place, begin, end in zip(places, begins, ends, strict=True):
        up = end >= begin
        options = {"ha": "left" if up else "right", "va": "center", "textcoords": "offset points"}
        color = DARK_POSITIVE if up else DARK_NEGATIVE
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1}  # above the lines of base and prediction
        ax.annotate(
            short_number(end - begin, signed=True),
            (end, place),
            (5 if up else -5, 0),
            color=color,
            fontsize=FONT_SIZE,
            bbox=box,
            **options,
        )


def _cell(value: Any) -> str:
    if value is None or value != value:
        return "missing"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ", "minutes").removesuffix(" 00:00")
    return shown(value, 18)
