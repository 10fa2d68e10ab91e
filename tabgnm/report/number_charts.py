"""Charts of a regressor: predicted against true, residuals, intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabgnm.report.class_charts import Chart
from tabgnm.report.evaluation import NumbersOfTarget
from tabgnm.report.svg import Panel, Scale, scale_of, ticks
from tabgnm.report.wording import count, number, percent, shortened

Array = NDArray[Any]

_MAX_POINTS = 800
_MAX_INTERVALS = 60
_SEED = 0


def number_charts(target: NumbersOfTarget) -> list[Chart]:
    """Return the charts of one target."""
    charts = [_against(target), _residuals_by_prediction(target), _distribution(target)]
    return [*charts, _intervals(target)] if target.interval is not None else charts


def _drawn_rows(n_rows: int, most: int = _MAX_POINTS) -> Array:
    if n_rows <= most:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(_SEED).choice(n_rows, most, replace=False))


def _shown_rows(n_rows: int) -> str:
    return f" {_MAX_POINTS:,} rows drawn at random." if n_rows > _MAX_POINTS else ""


def _against(target: NumbersOfTarget) -> Chart:
    rows = _drawn_rows(len(target.y))
    y, predicted = target.y[rows], target.predicted[rows]
    both = scale_of(np.concatenate([y, predicted]))
    name = shortened(target.name, 20)
    title = f"Predicted against true {target.name}"
    panel = Panel(both, both, title, f"predicted {name}", f"true {name}", 340, 300)
    panel.line([both.low, both.high], [both.low, both.high], "chance")
    panel.points(predicted, y, "s0", _radius(len(rows)))
    note = "On the dotted line, predictions are exact." + _shown_rows(len(target.y))
    if target.middle is not None:
        note += f" The prediction is the quantile {target.middle:g}."
    return Chart("Predicted against true", panel.drawn(), note)


def _radius(n_points: int) -> float:
    return 2.6 if n_points <= 200 else 2.0 if n_points <= 500 else 1.6


def _residuals_by_prediction(target: NumbersOfTarget) -> Chart:
    rows = _drawn_rows(len(target.y))
    residuals = target.y - target.predicted
    reach = float(np.abs(residuals[rows]).max()) or 1.0
    across = scale_of(target.predicted[rows])
    name = shortened(target.name, 20)
    panel = Panel(
        across,
        Scale(-1.05 * reach, 1.05 * reach),
        f"Residuals of {target.name}",
        f"predicted {name}",
        "true − predicted",
        340,
        300,
    )
    panel.points(target.predicted[rows], residuals[rows], "s0", _radius(len(rows)))
    panel.line([across.low, across.high], [0, 0], "chance")
    # Means of tenths of the rows show whether predictions are too high or too low somewhere.
    order = np.argsort(target.predicted, kind="stable")
    groups = [own for own in np.array_split(order, min(10, max(1, len(order) // 10))) if len(own)]
    xs = [float(target.predicted[own].mean()) for own in groups]
    ys = [float(residuals[own].mean()) for own in groups]
    if len(groups) > 1:
        panel.line(xs, ys, "s1")
    note = (
        "The line is the mean residual of each tenth of the rows, by prediction; above 0, predictions are too low."
        if len(groups) > 1
        else ""
    )
    return Chart("Residuals", panel.drawn(), note + _shown_rows(len(target.y)))


def _distribution(target: NumbersOfTarget) -> Chart:
    residuals = target.y - target.predicted
    low, high = np.quantile(residuals, [0.005, 0.995])
    reach = max(abs(float(low)), abs(float(high))) or 1.0
    edges = np.linspace(-reach, reach, 32)
    counts, _ = np.histogram(np.clip(residuals, -reach, reach), edges)
    panel = Panel(
        Scale(-reach, reach),
        Scale(0, float(counts.max()) * 1.06),
        f"Distribution of the residuals of {target.name}",
        "true − predicted",
        "rows",
        340,
        300,
        y_ticks=_count_ticks(int(counts.max())),
    )
    for n_rows, start, end in zip(counts.tolist(), edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        if n_rows:
            panel.bar(start, end, 0, n_rows, "s0", f"{n_rows:,} rows from {number(start)} to {number(end)}")
    panel.line([0, 0], [0, panel.y.high], "chance")
    half = float(np.median(np.abs(residuals)))
    note = f"Half of the absolute errors are smaller than {number(half)}."
    n_beyond = int((np.abs(residuals) > reach).sum())
    if n_beyond:
        note += f" The outermost bars include {count(n_beyond, 'row')} beyond the axis."
    return Chart("Distribution of residuals", panel.drawn(), note)


def _count_ticks(most: int) -> list[tuple[float, str]]:
    """Return ticks of whole numbers: there is no half of a row."""
    values = [value for value in ticks(Scale(0, most), 6) if value.is_integer()]
    return [(value, f"{value:,.0f}") for value in values]


def _intervals(target: NumbersOfTarget) -> Chart:
    """Draw the intervals of some rows, by ascending prediction, with the true values."""
    assert target.interval is not None
    inside = (target.interval[:, 0] <= target.y) & (target.y <= target.interval[:, 1])
    rows = _drawn_rows(len(target.y), _MAX_INTERVALS)
    rows = rows[np.argsort(target.predicted[rows], kind="stable")]
    values = scale_of(np.concatenate([target.interval[rows].reshape(-1), target.y[rows]]))
    title = f"Intervals of {target.name} and true values"
    name = shortened(target.name, 24)
    panel = Panel(Scale(-1, len(rows)), values, title, "rows by ascending prediction", name, 340, 300, [])
    for place, row in enumerate(rows.tolist()):
        low, high = target.interval[row].tolist()
        panel.line([place, place], [low, high], "interval")
        told = f"true {number(target.y[row])}, interval {number(low)} to {number(high)}"
        if inside[row]:
            panel.points([place], [target.y[row]], "s0", 2)
        else:
            panel.marker(place, float(target.y[row]), 2, told)
    note = (
        f"{percent(float(inside.mean()))} of the targets lie within their interval; nominal coverage "
        f"{percent(target.coverage)}. Intervals: {target.interval_source}. Diamonds are targets outside."
    )
    if len(target.y) > len(rows):
        note += f" {len(rows)} rows drawn at random."
    return Chart("Intervals", panel.drawn(), note)
