"""What the page of the tables says: gaps, deviations, p-values, and what its picture cannot show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tabgnm.paper import ExperimentPlan, Result, Setting
from tabgnm.paper.output import Page
from tabgnm.paper.pages import tables_page
from tests.paper.examples import small_plan, some_result

FOLDS = (0, 1, 2)


def results_of(plan: ExperimentPlan, change: Callable[[Result], Result | None] = lambda result: result) -> list[Result]:
    """A result for every training of a plan, changed or left out."""
    made = [
        some_result(
            unit.key(training, fold),
            model=unit.body.model,
            width=unit.body.width,
            fold=fold,
            metric1=90.0 + fold,
            dropout=training.dropout,
            learning_rate=training.learning_rate,
        )
        for unit in plan.units
        for training, fold in unit.members()
    ]
    return [changed for result in made if (changed := change(result)) is not None]


def page(change: Callable[[Result], Result | None] = lambda result: result, folds: tuple[int, ...] = FOLDS) -> Page:
    plan = small_plan(24, folds=folds)
    return tables_page(plan, results_of(plan, change), Setting(), folds)


def remarks(change: Callable[[Result], Result | None]) -> list[str]:
    """Those on a data set."""
    return [remark for remark in page(change).remarks if remark.startswith("noisy_moons")]


def test_a_page_of_everything_names_no_gaps() -> None:
    assert remarks(lambda result: result) == []


def test_a_model_that_is_missing_is_called_missing() -> None:
    found = remarks(lambda result: None if result.model == "mlp" else result)
    assert found == ["noisy_moons, MLP: missing, none of its 144 trainings has been done."]


def test_folds_that_are_missing_are_named() -> None:
    found = remarks(lambda result: None if result.model == "gnm" and result.fold > 0 else result)
    assert found == ["noisy_moons, GNM: incomplete, folds 1, 2 missing and not part of the means."]


def test_folds_that_chose_from_a_part_of_the_grid_are_named() -> None:
    found = remarks(lambda result: None if result.fold == 1 and result.width in (50, 100) else result)
    assert found == ["noisy_moons, GNM: incomplete, fold 1 chose from as few as 24 of 48 configurations."]


def test_trainings_that_diverged_are_counted_and_folds_that_are_lost_named() -> None:
    def change(result: Result) -> Result:
        lost = result.model == "gnm" and result.fold == 2
        return replace(result, status="diverged", val_loss=None, metric1=None, metric2=None) if lost else result

    assert remarks(change) == [
        "noisy_moons, GNM: 48 of 144 trainings diverged.",
        "noisy_moons, GNM: no training of fold 2 has a finite validation loss; not part of the means.",
    ]


def test_a_selected_training_without_finite_outputs_shows_in_the_table_and_in_a_remark() -> None:
    def change(result: Result) -> Result:
        broken = result.model == "gnm" and result.fold == 2 and result.width == 50
        return replace(result, val_loss=0.1, metric1=None, metric2=None) if broken else result

    [table, comparison] = page(change).tables
    assert table.rows[0][2] == table.rows[0][5] == "not finite" and table.rows[1][2] == "91.00 ± 0.82"
    assert comparison.rows == [("noisy_moons", "not finite", "3", "")]
    assert remarks(change) == [
        "noisy_moons, GNM: the selected models have outputs that are not finite on the test rows of fold 2."
    ]


def test_the_page_lists_where_its_rows_come_from() -> None:
    made = page(lambda result: replace(result, origin="a GPU, 2026-02-01") if result.fold else result)
    found = [remark for remark in made.remarks if remark.startswith("Trained on")]
    assert found == ["Trained on a GPU, 2026-02-01: 192 trainings.", "Trained on a machine, 2026-01-31: 96 trainings."]
    assert made.content["origins"] == {"a GPU, 2026-02-01": 192, "a machine, 2026-01-31": 96}


def test_one_fold_has_no_deviation() -> None:
    assert page(folds=(0,)).tables[0].rows[0][2] == "90.00"
    assert page().tables[0].rows[0][2] == "91.00 ± 0.82"


def test_very_small_numbers_do_not_read_as_0() -> None:
    made = page(lambda result: replace(result, metric1=2.34e-7 * (1 + result.fold)))
    assert made.tables[0].rows[0][2] == "4.7e-07 ± 1.9e-07"


def test_p_values_come_with_what_they_do_not_say_and_small_ones_are_not_0() -> None:
    def change(result: Result) -> Result:
        return replace(result, metric1=(result.metric1 or 0) + 0.1 * result.fold) if result.model == "gnm" else result

    made = page(change, folds=tuple(range(10)))
    assert made.tables[1].rows[0][3] == "0.004"
    assert any("not corrected" in remark or "corrected for the number of tests" in remark for remark in made.remarks)
    from tabgnm.paper.pages import _p_value

    assert [_p_value(p) for p in (None, 1.0, 0.0006, 0.0001, 0.0)] == ["", "1.000", "0.001", "< 0.001", "< 0.001"]


def test_the_picture_shows_cells_whose_published_deviation_is_0_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.figure import Figure

    drawn: list[Any] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: drawn.append(figure))
    draw = page().draw  # the paper's GNM has 100.00 +- 0.00 on the moons
    assert draw is not None
    draw(tmp_path / "a.png")
    [axis] = drawn[0].axes
    places = [tuple(place) for points in axis.collections for place in getattr(points, "get_offsets", list)()]
    assert (-10.0, pytest.approx(0.12)) in places
    [caption] = drawn[0].texts
    assert "the paper's standard deviation is 0" in caption.get_text()
    drawn[0].draw_without_rendering()
    extent = caption.get_window_extent()
    assert drawn[0].bbox.x0 <= extent.x0 and extent.x1 <= drawn[0].bbox.x1, "the caption is cut off"
