"""Texts of plots stay within their figure and apart, on small and large tables."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from tabgnm.plots import (
    plot_calibration,
    plot_decision_boundary,
    plot_effects,
    plot_explanation,
    plot_graph,
    plot_history,
    plot_importance,
    plot_pack,
)
from tabgnm.plots.axes import set_large_numbers, set_logarithmic, shown
from tests.estimators.examples import mlp, mlpr, numbers

RANDOM = np.random.default_rng(0)
LONG = [f"a_very_long_name_of_a_column_with_measurements_{place:02d}" for place in range(60)]
LARGE = pd.DataFrame(RANDOM.normal(size=(120, 60)), columns=LONG).assign(
    level=RANDOM.choice(["a level with a long name", "another level with a long name"], 120),
    income=RANDOM.lognormal(12, 1, 120),
)
CLASSES = np.array([f"a class with a long name, {place}" for place in range(12)])[np.arange(120) % 12]
TARGET = 1e6 * LARGE[LONG[0]] + LARGE["income"]
SMALL = pd.DataFrame(numbers(60)[0][:, :2], columns=["a", "b"])


@cache
def model(kind: str) -> Any:
    if kind == "small":
        return mlp(n_candidates=2).fit(SMALL, np.where(SMALL["a"] > 0, "yes", "no"))
    return mlp(n_candidates=3).fit(LARGE, CLASSES) if kind == "classes" else mlpr(n_candidates=3).fit(LARGE, TARGET)


@cache
def explanation(kind: str) -> Any:
    return model(kind).explain(data(kind)[0][:2], n_steps=2)


def data(kind: str) -> tuple[Any, Any]:
    if kind == "small":
        return SMALL, np.where(SMALL["a"] > 0, "yes", "no")
    return LARGE, CLASSES if kind == "classes" else TARGET


def effects_of(kind: str) -> Any:
    columns = ["a", "b"] if kind == "small" else [LONG[0], "level", "income"]
    outputs = list(model(kind).fitted_.targets.classes[0][:8]) if kind == "classes" else None
    return plot_effects(model(kind), data(kind)[0], columns, outputs=outputs, n_points=5)[0]


PLOTS = {
    "history": lambda kind: plot_history(model(kind)),
    "pack": lambda kind: plot_pack(model(kind)),
    "importance": lambda kind: plot_importance(model(kind)),
    "permutation importance": lambda kind: plot_importance(model(kind), *data(kind), n_repeats=1),
    "calibration": lambda kind: plot_calibration(model(kind), *data(kind)),
    "explanation": lambda kind: plot_explanation(explanation(kind), 1),
    "effects": effects_of,
    "graph": lambda kind: plot_graph(model(kind)),
}


def drawn_tick_labels(axis: Any) -> list[Any]:
    low, high = sorted(axis.get_view_interval())
    places = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
    return [label for place, label in places if low <= place <= high and label.get_text()]


def check_texts(figure: Figure) -> None:
    figure.canvas.draw()
    for ax in figure.axes:
        box = ax.get_tightbbox()
        assert box is not None
        assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= figure.bbox.x1 + 1 and box.y1 <= figure.bbox.y1 + 1
        labels = [drawn_tick_labels(ax.xaxis), drawn_tick_labels(ax.yaxis)] if ax.axison else []
        for texts in (*labels, [own for own in ax.texts if own.get_text()]):
            boxes = [own.get_window_extent() for own in texts]
            apart = [not one.padded(-1).overlaps(other.padded(-1)) for one, other in combinations(boxes, 2)]
            assert all(apart), [own.get_text() for own in texts]


@pytest.mark.parametrize("kind", ["small", "classes", "number"])
@pytest.mark.parametrize("plot", PLOTS)
def test_texts_stay_within_the_figure_and_apart(plot: str, kind: str) -> None:
    check_texts(PLOTS[plot](kind).figure)


@pytest.mark.parametrize("kind", ["small", "number"])
def test_texts_of_a_plane_stay_within_the_figure_and_apart(kind: str) -> None:
    columns = ("a", "b") if kind == "small" else (LONG[0], "income")
    check_texts(plot_decision_boundary(model(kind), *data(kind), columns=columns, n_points=5).figure)


def test_numbers_of_an_explanation_are_apart_from_bars_and_names() -> None:
    for kind in ("small", "classes", "number"):
        ax = PLOTS["explanation"](kind)
        ax.figure.canvas.draw()
        bars = [bar.get_window_extent() for bar in ax.patches]
        names = [label.get_window_extent() for label in ax.get_yticklabels()]
        for text, bar in zip(ax.texts, bars, strict=True):
            box = text.get_window_extent()
            assert min(abs(box.x0 - bar.x1), abs(box.x1 - bar.x0)) >= 2  # beside the end of its bar
            assert not any(box.overlaps(name) for name in names)


@pytest.mark.parametrize(("low", "high"), [(0.02, 0.9), (0.3, 1.7), (1e-5, 30.0), (1e-12, 1.0)])
def test_labels_of_a_logarithmic_axis_are_few_plain_numbers(low: float, high: float) -> None:
    ax = Figure(figsize=(5.6, 3.4)).subplots()
    ax.set_yscale("log")
    ax.plot([0, 1], [low, high])
    set_logarithmic(ax.yaxis)
    ax.figure.canvas.draw()
    labels = drawn_tick_labels(ax.yaxis)
    assert 2 <= len(labels) <= 10
    assert all(low / 10 <= float(label.get_text().replace("−", "-")) <= 10 * high for label in labels)
    check_texts(ax.figure)  # type: ignore[arg-type]


def test_large_numbers_are_written_in_thousands_or_millions() -> None:
    ax = Figure().subplots()
    ax.plot([0, 400_000], [-2e6, 2e6])
    for axis in (ax.xaxis, ax.yaxis):
        set_large_numbers(axis)
    ax.figure.canvas.draw()
    assert {"0", "100k", "400k"} <= {label.get_text() for label in drawn_tick_labels(ax.xaxis)}
    assert {"−2M", "0", "2M"} <= {label.get_text() for label in drawn_tick_labels(ax.yaxis)}


def test_long_names_differ_where_columns_do() -> None:
    assert len({shown(name) for name in LONG}) == 60 and max(len(shown(name)) for name in LONG) <= 28
