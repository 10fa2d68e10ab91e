"""Pictures of training, of what a model has learned, and of single predictions."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from tabgnm.estimators.effects import effects
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
from tabgnm.plots.axes import COLORS, NEGATIVE, POSITIVE
from tests.estimators.examples import frame, mlp, mlpr, numbers

TABLE = frame(90).rename(columns={"size": "size in $ or $"})
X, Y, TARGET = numbers(90)
ONE_THREAD = {"n_jobs": 1}


@cache
def binary() -> Any:
    return mlp(**ONE_THREAD).fit(X, np.array(["no", "yes"])[Y])


@cache
def classes() -> Any:
    return mlp(**ONE_THREAD).fit(X, np.digitize(TARGET, [40, 60]))


@cache
def multilabel() -> Any:
    return mlp(**ONE_THREAD).fit(X, np.column_stack([Y, 1 - Y]))


@cache
def number() -> Any:
    return mlpr(**ONE_THREAD).fit(TABLE, TARGET)


@cache
def several_numbers() -> Any:
    return mlpr(**ONE_THREAD).fit(X, np.column_stack([TARGET, -TARGET]))


def new_axes() -> Any:
    return Figure().subplots()


def texts(labels: Any) -> list[str]:
    return [label.get_text() for label in labels]


def drawn(ax: Any) -> None:
    ax.figure.canvas.draw()  # dollars that are no formula would fail here


@pytest.mark.parametrize(
    "plot",
    [
        lambda ax=None: plot_history(number(), ax),
        lambda ax=None: plot_importance(number(), ax=ax),
        lambda ax=None: plot_importance(number(), TABLE, TARGET, ax=ax),
        lambda ax=None: plot_pack(number(), ax),
        lambda ax=None: plot_explanation(number().explain(TABLE[:3]), 1, ax),
        lambda ax=None: plot_calibration(binary(), X, np.array(["no", "yes"])[Y], ax),
        lambda ax=None: plot_calibration(classes(), X, np.digitize(TARGET, [40, 60]), ax),
        lambda ax=None: plot_calibration(multilabel(), X, np.column_stack([Y, 1 - Y]), ax),
        lambda ax=None: plot_calibration(number(), TABLE, TARGET, ax),
        lambda ax=None: plot_calibration(several_numbers(), X, np.column_stack([TARGET, -TARGET]), ax),
        lambda ax=None: plot_decision_boundary(binary(), X, np.array(["no", "yes"])[Y], ax, n_points=5),
        lambda ax=None: plot_decision_boundary(classes(), X, None, ax, n_points=5),
        lambda ax=None: plot_decision_boundary(
            number(), TABLE, TARGET, ax, columns=("size in $ or $", "count"), n_points=5
        ),
        lambda ax=None: plot_effects(number(), TABLE, "size in $ or $", ax)[0],
        lambda ax=None: plot_effects(classes(), X, 0, ax)[0],
    ],
)
def test_every_picture_is_drawn_into_given_axes_or_new_ones(plot: Any) -> None:
    ax = new_axes()
    assert plot(ax) is ax
    drawn(ax)
    drawn(plot())


def test_losses_of_all_networks_and_their_kept_epochs_are_drawn() -> None:
    ax = plot_history(number(), new_axes())
    thin = [line for line in ax.lines if line.get_linewidth() < 1]
    assert len(thin) == 2 * number().fitted_.n_networks
    np.testing.assert_array_equal(thin[0].get_ydata(), number().history_[0]["train_loss"])
    [kept] = [line for line in ax.lines if line.get_label() == "kept epoch"]
    assert list(kept.get_xdata()) == [own["best_epoch"] for own in number().history_]
    without = mlpr(n_folds=0).fit(X, TARGET)
    assert texts(plot_history(without, new_axes()).get_legend().get_texts()) == ["training, median"]


def test_dollars_in_the_names_of_a_graph_are_not_formulas() -> None:
    ax = plot_graph(mlp(n_jobs=1).fit(pd.DataFrame(X, columns=["$x^$", "$", "$$", "b"]), Y), new_axes())
    drawn(ax)
    assert any(text.startswith(r"\$x^\$") for text in texts(ax.texts))


def test_important_columns_come_first_and_dollars_in_names_are_not_formulas() -> None:
    ax = plot_importance(number(), ax=new_axes(), max_columns=4)
    order = np.argsort(-number().feature_importances_)[:4]
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], number().feature_importances_[order])
    assert texts(ax.get_yticklabels()) == [TABLE.columns[i].replace("$", r"\$") for i in order]
    assert ax.get_xlabel() == "share of importance\n(4 of 6 columns)"
    turned = TABLE[TABLE.columns[::-1].to_list()]
    straight, other = (plot_importance(number(), own, TARGET, new_axes()) for own in (TABLE, turned))
    of = number().permutation_importance(TABLE, TARGET, random_state=0).importances_mean
    assert straight.patches[0].get_width() == pytest.approx(of.max())
    assert set(texts(other.get_yticklabels())) == set(texts(straight.get_yticklabels()))
    with pytest.raises(ValueError, match="X was given without y; pass both"):
        plot_importance(number(), TABLE)


def test_bars_of_an_explanation_lead_from_the_base_to_the_prediction() -> None:
    explanation = number().explain(TABLE[:3], TABLE)
    ax = plot_explanation(explanation, 2, new_axes(), max_columns=4)
    bars = ax.patches
    assert len(bars) == 4 and texts(ax.get_yticklabels())[-1] == "3 other columns"
    assert bars[0].get_x() == pytest.approx(explanation.base_values[2])
    ends = bars[-1].get_x() + bars[-1].get_width()
    assert ends == pytest.approx(number().predict(TABLE[2:3])[0], rel=1e-5)
    sizes = np.array([bar.get_width() for bar in bars[:-1]])
    assert (np.diff(np.abs(sizes)) <= 0).all() and np.abs(sizes[0]) == pytest.approx(
        np.abs(explanation.values[2]).max()
    )
    for bar in bars:
        assert to_hex(bar.get_facecolor()) == (POSITIVE if bar.get_width() >= 0 else NEGATIVE)


def test_cells_of_an_explanation_are_written_as_people_read_them() -> None:
    rows = TABLE[:2].assign(when=[pd.Timestamp("2024-05-01"), pd.Timestamp("2024-05-02 13:30")])
    rows["size in $ or $"] = [np.nan, 1.25]
    explanation = number().explain(rows)
    first, second = (set(texts(plot_explanation(explanation, row, new_axes()).get_yticklabels())) for row in (0, 1))
    assert {r"size in \$ or \$ = missing", "when = 2024-05-01"} < first
    assert {r"size in \$ or \$ = 1.25", "when = 2024-05-02 13:30", f"count = {rows['count'][1]}"} < second


def test_one_output_of_an_explanation_is_chosen() -> None:
    explanation = classes().explain(X[:4])
    best = int(classes().predict_proba(X[:1])[0].argmax())
    assert plot_explanation(explanation, ax=new_axes()).get_xlabel() == f"probability of {best}"
    assert plot_explanation(explanation, ax=new_axes(), output=2).get_xlabel() == "probability of 2"
    with pytest.raises(ValueError, match="output='x' does not exist; expected one of 0, 1, 2"):
        plot_explanation(explanation, output="x")
    with pytest.raises(ValueError, match="row=4 does not exist; the explanation has 4 rows"):
        plot_explanation(explanation, 4)


def test_effects_of_numbers_are_curves_and_of_categories_points() -> None:
    axes = plot_effects(number(), TABLE, ["count", "colour", "size in $ or $", "when"], n_points=4)
    curve, category, missing, date = axes
    expected = effects(number(), TABLE, ["count", "colour"], n_points=4)
    np.testing.assert_array_equal(curve.lines[0].get_ydata(), expected[0].mean[:, 0])
    np.testing.assert_array_equal(curve.lines[0].get_xdata(), expected[0].grid)
    np.testing.assert_array_equal(category.lines[0].get_xdata(), expected[1].mean[:, 0])
    assert texts(category.get_yticklabels())[0].startswith(expected[1].labels[0])
    assert "missing" in texts(missing.texts) and "missing" not in texts(curve.texts)
    assert missing.get_xlabel() == r"size in \$ or \$" and curve.get_ylabel() == "prediction of y"
    drawn(date)


def test_labels_of_the_axes_of_effects_do_not_touch() -> None:
    table = pd.DataFrame(
        {"income": np.linspace(0, 150_000, 90), "joined": pd.date_range("2019-01-01", periods=90, freq="16D")}
    )
    model = mlpr(**ONE_THREAD).fit(table, TARGET)
    for ax in plot_effects(model, table, ["income", "joined"]):
        ax.figure.canvas.draw()
        low, high = ax.get_xlim()
        inside = [
            label for place, label in zip(ax.get_xticks(), ax.get_xticklabels(), strict=True) if low <= place <= high
        ]
        boxes = [label.get_window_extent() for label in inside]
        assert len(boxes) >= 2
        assert all(one.x1 < other.x0 for one, other in pairwise(boxes))


def test_without_columns_the_most_important_ones_are_drawn() -> None:
    axes = plot_effects(binary(), X, n_points=3)
    assert [ax.get_xlabel() for ax in axes] == [f"x{i}" for i in np.argsort(-binary().feature_importances_)]
    assert axes[0].get_ylabel() == "probability of yes"


def test_outputs_of_effects_are_told_apart_or_chosen() -> None:
    several = plot_effects(classes(), X, [0], n_points=3)[0]
    assert [to_hex(line.get_color()) for line in several.lines] == list(COLORS[:3])
    assert texts(several.figure.legends[0].get_texts()) == ["0", "1", "2"]
    one = plot_effects(classes(), X, [0], outputs=[1], n_points=3)[0]
    assert len(one.lines) == 1 and one.get_ylabel() == "probability of 1"
    many = mlp(max_epochs=1, n_folds=0).fit(X, np.arange(90) % 9)
    with pytest.raises(ValueError, match="9 outputs are too many for one plot; choose at most 8"):
        plot_effects(many, X, [0])
    with pytest.raises(ValueError, match="outputs contains 'x'; expected labels or targets among 0, 1"):
        plot_effects(classes(), X, [0], outputs="x")
    with pytest.raises(ValueError, match="axes has 1 axes for 2 columns; pass one for each column"):
        plot_effects(classes(), X, [0, 1], new_axes())


def test_calibration_compares_probabilities_with_frequencies() -> None:
    labels = np.array(["no", "yes"])[Y]
    ax = plot_calibration(binary(), X, labels, new_axes(), n_bins=3)
    order = np.argsort(binary().predict_proba(X)[:, 1], kind="stable")
    x, y = ax.lines[1].get_data()
    np.testing.assert_allclose(x, [binary().predict_proba(X)[own, 1].mean() for own in np.array_split(order, 3)])
    np.testing.assert_allclose(y, [(labels[own] == "yes").mean() for own in np.array_split(order, 3)])
    assert ax.get_xlabel() == "predicted probability of yes"


def test_calibration_of_numbers_is_that_of_intervals_or_quantiles() -> None:
    ax = plot_calibration(number(), TABLE, TARGET, new_axes())
    x, y = ax.lines[1].get_data()
    ends = number().predict_interval(TABLE, 0.5)
    assert y[list(x).index(0.5)] == pytest.approx(((ends[:, 0] <= TARGET) & (ends[:, 1] >= TARGET)).mean())
    quantiles = mlpr(loss="quantile", quantile=[0.2, 0.8]).fit(X, TARGET)
    x, y = plot_calibration(quantiles, X, TARGET, new_axes()).lines[1].get_data()
    np.testing.assert_allclose(y, (TARGET[:, None] <= quantiles.predict(X)).mean(axis=0))
    assert list(x) == [0.2, 0.8]
    labels = np.array([["a", "u"], ["b", "v"], ["c", "u"]] * 30)
    joint = mlp(max_epochs=1).fit(X, labels)
    with pytest.raises(ValueError, match="does not support several targets"):
        plot_calibration(joint, X, labels)


def test_candidates_are_drawn_with_loss_and_weight_and_named_by_their_differences() -> None:
    model = mlp(n_candidates=3, max_epochs=2).fit(X, Y)
    ax = plot_pack(model, new_axes())
    pack = model.pack_.sort_values("loss")
    points = [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "o"]
    np.testing.assert_allclose(points, pack["loss"])
    assert [label.partition(":")[0] for label in texts(ax.get_yticklabels())] == list(map(str, pack["candidate"]))
    shares = [text for text in texts(ax.texts) if text.endswith("%")]
    assert shares == [f"{weight:.0%}" for weight in pack["weight"] if weight > 0]
    with pytest.raises(ValueError, match=r"candidates of this MLPClassifier were not compared.*n_folds>=1"):
        plot_pack(mlp(n_folds=0).fit(X, Y))


def test_the_plane_shows_predictions_for_two_columns() -> None:
    two = mlp(max_epochs=40, learning_rate=0.02).fit(X[:, :2], Y)
    ax = plot_decision_boundary(two, X[:, :2], Y, new_axes(), n_points=60)
    boundary = [
        own for own in ax.collections if len(np.atleast_1d(own.get_linewidth())) and not own.get_offsets().any()
    ]
    vertices = np.concatenate([path.vertices for path in boundary[-1].get_paths() if len(path.vertices)])
    assert np.abs(two.predict_proba(vertices)[:, 1] - 0.5).max() < 0.1
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x0", "x1") and texts(ax.get_legend().get_texts()) == ["0", "1"]


@pytest.mark.parametrize(
    ("model", "table", "columns", "message"),
    [
        (number, TABLE, ("count", "colour"), "column 'colour' is a category, but numbers are required; choose other"),
        (number, TABLE, ("count", "when"), "column 'when' is a date"),
        (binary, X, (1, 1), "is not a pair; expected two different columns"),
        (binary, X, (0, 9), "there is no column 9"),
        (
            several_numbers,
            X,
            (0, 1),
            "several targets or quantiles, which cannot be shown in one plot; use plot_effects",
        ),
        (multilabel, X, (0, 1), "several targets or quantiles"),
    ],
)
def test_a_plane_that_makes_no_sense_is_refused(model: Any, table: Any, columns: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plot_decision_boundary(model(), table, columns=columns)
