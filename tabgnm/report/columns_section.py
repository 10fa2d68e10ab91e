"""How much each column matters, the shape of its effect, and what is unusual about columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabgnm.estimators.effects import Effect, effects
from tabgnm.estimators.named_outputs import prediction_names
from tabgnm.report.class_charts import Key
from tabgnm.report.evaluation import Evaluation
from tabgnm.report.scores import number_score_name
from tabgnm.report.svg import N_SERIES, Panel, Scale, Svg, scale_of, tick_labels, ticks
from tabgnm.report.wording import number, percent, shortened, text, with_spread

Array = NDArray[Any]
Ticks = list[tuple[float, str]]

MAX_EFFECTS = 12
MAX_LISTED = 100  # columns in tables below the charts
_IMPORTANCE_ROWS = 2_000
_MIN_IMPORTANCE_ROWS = 200
_IMPORTANCE_WORK = 1.5e11  # rows x columns x repeats x weights of all networks: less than 10 seconds on two cores
_EFFECT_ROWS = 200
_MAX_LEVELS = 7
_MIN_CHARACTERS = 9  # of the names of levels; where there is less room, they are slanted
_SLANTED_CHARACTERS = 12
_SEED = 0


@dataclass(frozen=True)
class ColumnCard:
    """A column as it is shown.

    Attributes
    ----------
    name, kind : str
    importance : float
    share : float
        Of the largest importance; 0 if the importance is negative.
    shown, spread : str
    effect : Svg or None
        None if all rows have the same value.
    """

    name: str
    kind: str
    importance: float
    share: float
    shown: str
    spread: str
    effect: Svg | None = None


@dataclass(frozen=True)
class ColumnsSection:
    """What the page shows of columns."""

    measure: str
    cards: list[ColumnCard]
    others: list[ColumnCard]
    legend: tuple[Key, ...]
    effects: str
    unused: list[tuple[str, str]]
    out_of_range: list[tuple[str, str, str]]
    n_more: int
    ranked: list[int]


def columns_section(evaluation: Evaluation) -> ColumnsSection:
    """Measure importance and effects on the evaluated rows, or on some of them."""
    model = evaluation.model
    names = [text(name) for name in model._names]
    kinds = [own.kind for own in model.columns_]
    used = sorted({owner for encoder in model.fitted_.encoders if not encoder.is_empty for owner in encoder.owners})
    alone = evaluation.n_rows == 1  # nothing can be shuffled or compared
    mean, spread, measure = (np.zeros(len(names)),) * 2 + ("",) if alone else _importances(evaluation, len(used))
    ranked = sorted(used, key=lambda column: -mean[column])
    largest = max(float(mean[ranked[0]]), 1e-12) if ranked else 1.0
    measured = [] if alone else ranked
    drawn, outputs = _effects(evaluation, measured[:MAX_EFFECTS])
    cards = [
        ColumnCard(
            names[column],
            kinds[column],
            float(mean[column]),
            max(0.0, float(mean[column]) / largest),
            *with_spread(float(mean[column]), float(spread[column])),
            drawn.get(column),
        )
        for column in measured
    ]
    infos = list(model.columns_)
    unused = [
        (names[place], text(infos[place].note) or "without information")
        for place in range(len(names))
        if place not in used
    ]
    outside = _out_of_range(evaluation, names)
    return ColumnsSection(
        measure=measure,
        cards=cards[:MAX_EFFECTS],
        others=cards[MAX_EFFECTS : MAX_EFFECTS + MAX_LISTED],
        legend=tuple(Key(series, name, "") for series, name in enumerate(outputs)) if len(outputs) > 1 else (),
        effects=_about_effects(evaluation, outputs),
        unused=unused[:MAX_LISTED],
        out_of_range=outside[:MAX_LISTED],
        n_more=max(0, len(cards) - MAX_EFFECTS - MAX_LISTED),
        ranked=ranked,
    )


def _importances(evaluation: Evaluation, n_used: int) -> tuple[Array, Array, str]:
    """Return mean and spread of the importance of each column, and what it measures."""
    model = evaluation.model
    n_weights = sum(values.numel() for group in model.fitted_.groups for values in group.parameters.values())
    work_per_row = max(1, n_used) * n_weights
    n_rows = int(np.clip(_IMPORTANCE_WORK // work_per_row, _MIN_IMPORTANCE_ROWS, _IMPORTANCE_ROWS))
    n_rows = min(n_rows, evaluation.n_rows)
    repeats = int(np.clip(_IMPORTANCE_WORK // (work_per_row * n_rows), 1, 5))
    raw, y = evaluation.sample(n_rows)
    scoring, what = None, "accuracy" if evaluation.classes else number_score_name(evaluation)
    # The log-loss also moves where no label changes. It needs rows of all classes.
    if evaluation.kind in ("binary", "multiclass") and len(np.unique(y)) == len(evaluation.classes[0].labels):
        scoring, what = "neg_log_loss", "log-loss"
    found = model.permutation_importance(raw, y, scoring=scoring, n_repeats=repeats, random_state=_SEED)
    worse = "rise" if what == "log-loss" else "drop"
    rows = "all rows" if n_rows == evaluation.n_rows else f"{n_rows:,} rows"
    times = "once" if repeats == 1 else f"{repeats} times"
    spread = "" if repeats == 1 else ", ± its standard deviation"
    measure = f"Importance is the {worse} in {what} when the column is shuffled ({times}, {rows}){spread}."
    return found.importances_mean, found.importances_std, measure


def _about_effects(evaluation: Evaluation, outputs: list[str]) -> str:
    """Say what the charts of effects show."""
    if evaluation.kind == "one":
        return ""
    if not outputs:
        return "There are no charts of effects, because they need rows with different values."
    said = f"Each chart shows how the {_effect_of(evaluation, outputs)} changes with the value of the column, averaged"
    band = (
        "The band contains 80 % of the curves of individual rows, shifted to the same mean: where it is wide, the "
        "effect depends on other columns. "
    )
    return (
        f"{said} over rows. {band if len(outputs) == 1 else ''}All charts have the same vertical axis. Small ticks "
        "mark quantiles of the column."
    )


def _effect_of(evaluation: Evaluation, outputs: list[str]) -> str:
    if evaluation.kind == "binary":
        return f"probability of {shortened(outputs[0], 40)}"
    if evaluation.kind == "number":
        return f"predicted {shortened(evaluation.targets[0].name, 40)}"
    n_outputs = len(prediction_names(evaluation.model.fitted_.targets))
    some = n_outputs > len(outputs)

    def of(one: str, many: str) -> str:
        return f"of each of the {len(outputs)} most affected {many}" if some else f"of each {one}"

    if evaluation.kind == "multiclass":
        return f"probability {of('class', 'classes')}"
    if evaluation.kind in ("joint", "multilabel"):
        return f"probability {of('label', 'labels')}"
    if evaluation.kind == "quantiles":
        return f"prediction {of('quantile', 'quantiles')}"
    return f"prediction {of('target', 'targets')}, in standard deviations from the mean of the target,"


def _effects(evaluation: Evaluation, columns: list[int]) -> tuple[dict[int, Svg], list[str]]:
    """Return charts of the effects of columns, all with the same vertical axis, and the names of the outputs."""
    if not columns or evaluation.kind == "one":
        return {}, []
    found = effects(evaluation.model, evaluation.raw, columns, n_points=16, n_rows=_EFFECT_ROWS, random_state=_SEED)
    if evaluation.kind == "numbers":
        found = [_standardized(own, evaluation) for own in found]
    names = _output_names(evaluation, found[0])
    shown = _shown_outputs(found)
    single = len(names) == 1
    ranges = [(own.lower, own.upper) if single else (own.mean[:, shown], own.mean[:, shown]) for own in found]
    values = scale_of(np.concatenate([np.concatenate([low.reshape(-1), high.reshape(-1)]) for low, high in ranges]))
    if evaluation.classes:
        values = Scale(max(0.0, values.low), min(1.0, values.high))
    places = ticks(values, 4)
    value_ticks = list(
        zip(places, [percent(own) for own in places] if evaluation.classes else tick_labels(places), strict=True)
    )
    charts = {
        column: _drawn(own, values, value_ticks, shown, single=single)
        for column, own in zip(columns, found, strict=True)
        if len(own.mean) > 1
    }
    return charts, [names[place] for place in shown] if charts else []


def _standardized(effect: Effect, evaluation: Evaluation) -> Effect:
    """Return an effect on several targets in standard deviations, as their units have no common axis."""
    y = np.stack([own.y for own in evaluation.numbers], axis=1)
    center, spread = y.mean(axis=0), y.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    mean, lower, upper = ((own - center) / spread for own in (effect.mean, effect.lower, effect.upper))
    return replace(effect, mean=mean, lower=lower, upper=upper)


def _output_names(evaluation: Evaluation, effect: Effect) -> list[str]:
    if evaluation.kind in ("multilabel", "numbers"):
        return [own.name for own in evaluation.targets]
    if evaluation.kind == "joint":
        return [f"{own.name} = {label}" for own in evaluation.classes for label in own.labels]
    return [text(name) for name in effect.outputs]


def _shown_outputs(found: list[Effect]) -> list[int]:
    """Return the outputs that change the most, in their order."""
    spans = np.max([np.ptp(own.mean, axis=0) for own in found], axis=0)
    return sorted(np.argsort(-spans, kind="stable")[:N_SERIES].tolist())


def _drawn(effect: Effect, values: Scale, value_ticks: Ticks, shown: list[int], *, single: bool) -> Svg:
    if effect.kind == "category":
        return _drawn_levels(effect, values, value_ticks, shown, single=single)
    known = slice(None, -1) if effect.has_missing else slice(None)
    grid = effect.grid[known]
    across = grid.astype("datetime64[s]").astype(np.float64) if effect.kind == "date" else grid.astype(np.float64)
    scale = scale_of(across, margin=0.02) if len(across) else Scale(0, 1)
    if effect.has_missing:  # room at the right for the point of missing values
        scale = Scale(scale.low, scale.high + 0.16 * (scale.high - scale.low))
    x_ticks = _date_ticks(grid) if effect.kind == "date" else _number_ticks(scale, across)
    if effect.has_missing:
        place = scale.high - 0.05 * (scale.high - scale.low)
        x_ticks = [own for own in x_ticks if own[0] < scale.high - 0.21 * (scale.high - scale.low)]
        x_ticks.append((place, "missing"))
    panel = Panel(
        scale, values, f"Effect of {text(effect.column)}", width=300, height=170, x_ticks=x_ticks, y_ticks=value_ticks
    )
    if single:
        panel.band(across, effect.lower[known, 0], effect.upper[known, 0], "s0")
    for series, output in enumerate(shown):
        panel.line(across, effect.mean[known, output], f"s{series}")
        if effect.has_missing:
            told = f"missing: {number(effect.mean[-1, output])}"
            panel.marker(place, float(effect.mean[-1, output]), series, told)
    _rug(panel, across)
    return panel.drawn()


def _rug(panel: Panel, across: Array) -> None:
    """Mark the points of the grid, which are quantiles: where they are dense, rows are many."""
    data = "".join(f"M{x:.1f} {panel.bottom:.1f}v-4" for x in panel.x(across).tolist())
    panel.add(f'<path d="{data}" class="rug"></path>')


def _drawn_levels(effect: Effect, values: Scale, value_ticks: Ticks, shown: list[int], *, single: bool) -> Svg:
    labels = effect.labels
    order = list(range(min(len(labels), _MAX_LEVELS)))
    if effect.has_missing and len(labels) > _MAX_LEVELS:
        order[-1] = len(labels) - 1
    names = [text(labels[level]) for level in order]
    room = int(270 / len(order) / 6.1)
    slanted = room < _MIN_CHARACTERS and max(map(len, names)) > room
    room = _SLANTED_CHARACTERS if slanted else max(3, room)
    x_ticks = [(float(place), shortened(name, room)) for place, name in enumerate(names)]
    panel = Panel(
        Scale(-0.5, len(order) - 0.5),
        values,
        f"Effect of {text(effect.column)}",
        width=300,
        height=200 if slanted else 170,
        x_ticks=x_ticks,
        y_ticks=value_ticks,
        slanted=slanted,
    )
    for place, level in enumerate(order):
        for series, output in enumerate(shown):
            mean = float(effect.mean[level, output])
            offset = 0.0 if single else (series - (len(shown) - 1) / 2) * 0.5 / len(shown)
            if single:
                panel.line([place, place], [effect.lower[level, 0], effect.upper[level, 0]], "interval")
            told = f"{text(labels[level])} ({percent(float(effect.share[level]))} of the rows): {number(mean)}"
            panel.marker(place + offset, mean, series, told)
    return panel.drawn()


def _number_ticks(scale: Scale, across: Array) -> list[tuple[float, str]]:
    inside = Scale(scale.low, float(across.max())) if len(across) else scale
    values = ticks(inside, 4)
    return list(zip(values, tick_labels(values), strict=True))


def _date_ticks(grid: Array) -> list[tuple[float, str]]:
    """Return the first and the last date, and one between them."""
    if not len(grid):
        return []
    seconds = grid.astype("datetime64[s]").astype(np.int64)
    chosen = sorted({int(seconds[0]), int((seconds[0] + seconds[-1]) // 2), int(seconds[-1])})
    return [(float(own), str(np.datetime64(own, "s").astype("datetime64[D]"))) for own in chosen]


def _out_of_range(evaluation: Evaluation, names: list[str]) -> list[tuple[str, str, str]]:
    """Return the columns with cells outside of what was seen in training: name, rows, share."""
    outside = np.asarray(evaluation.model.out_of_range(evaluation.raw))
    counts = outside.sum(axis=0)
    return [
        (names[column], f"{int(counts[column]):,}", percent(float(counts[column]) / evaluation.n_rows, trimmed=False))
        for column in np.argsort(-counts, kind="stable").tolist()
        if counts[column]
    ]
