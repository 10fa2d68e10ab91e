"""From trainings to tables: selection, means, differences, statistics."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import wilcoxon

from tabgnm.paper import Published, compare, published, summarize
from tabgnm.paper.protocol import Source
from tabgnm.paper.summary import selected
from tests.paper.examples import some_result

MOONS = Source("noisy_moons", "paper", "digest", "classification", 1000, 2, 1)
WINE = Source("wine", "paper", "digest", "regression", 4898, 11, 1)


def test_within_each_fold_the_lowest_validation_loss_decides_and_test_rows_do_not() -> None:
    results = [
        some_result("a", fold=0, val_loss=0.3, metric1=99.0),
        some_result("b", fold=0, val_loss=0.2, metric1=80.0, width=100),
        some_result("c", fold=1, val_loss=0.1, metric1=70.0),
        some_result("d", fold=1, val_loss=0.1, metric1=90.0, width=100),  # of equal ones the first counts
        some_result("e", fold=1, val_loss=None, metric1=100.0, width=200),
    ]
    assert {fold: result.key for fold, result in selected(results).items()} == {0: "b", 1: "c"}
    [cell] = summarize([MOONS], results)
    assert (cell.mean1, cell.std1, cell.folds, cell.n_configurations) == (75.0, 5.0, (0, 1), (2, 3))


def test_the_paper_is_quoted_in_its_own_numbers() -> None:
    assert len(published()) == 42
    assert published()["dry_bean", "gnm"] == Published(89.14, 0.93, 89.80, 0.87)
    assert published()["year", "mlp"] == Published(989.7, 177.7, -7.282, 1.481)


@pytest.mark.parametrize(
    ("source", "model", "metric1", "expected"),
    [(MOONS, "mlp", 99.6, -1.0), (WINE, "gnm", 0.478, 2.0), (WINE, "mlp", 0.674, -1.0)],
)
def test_differences_are_in_standard_deviations_of_the_paper_and_positive_where_we_are_better(
    source: Source, model: str, metric1: float, expected: float
) -> None:
    [cell] = summarize([source], [some_result(dataset=source.name, model=model, metric1=metric1)])
    assert cell.difference == pytest.approx(expected, abs=1e-6)


def test_a_published_deviation_of_0_gives_no_number_but_a_side() -> None:
    [cell] = summarize([MOONS], [some_result(metric1=99.0)])
    assert cell.difference == -math.inf and cell.as_dict()["difference"] is None
    [cell] = summarize([MOONS], [some_result(metric1=100.0)])
    assert cell.difference == 0


def test_clean_versions_and_samples_are_not_compared_with_the_paper() -> None:
    for name, variant in (("electrical_grid", "clean"), ("susy", "sample")):
        source = Source(name, variant, "digest", "classification", 10000, 12, 1, "the note")
        [cell] = summarize([source], [some_result(dataset=name, variant=variant)])
        assert cell.paper is None and cell.difference is None
        assert cell.label == f"{name} (the note)"


def test_models_are_compared_fold_by_fold_and_over_data_sets() -> None:
    generator = np.random.default_rng(0)
    results, gains = [], []
    for fold in range(10):
        gnm, mlp = generator.normal(90, 1), generator.normal(89, 1)
        gains.append(gnm - mlp)
        for model, value in (("gnm", gnm), ("mlp", mlp)):
            results.append(some_result(f"{model}{fold}", model=model, fold=fold, metric1=value))
            wine = {"dataset": "wine", "model": model, "fold": fold, "metric1": 1 / value}
            results.append(some_result(f"{model}{fold}w", **wine))
    [moons, wine], verdicts = compare(summarize([MOONS, WINE], results))
    assert moons.gain == pytest.approx(np.mean(gains)) and moons.p_value == pytest.approx(wilcoxon(gains).pvalue)
    assert wine.gain > 0  # errors: lower is better
    assert [(own.task, own.n_data_sets, own.n_better) for own in verdicts] == [
        ("classification", 1, 1),
        ("regression", 1, 1),
    ]
    assert all(own.p_value is None for own in verdicts)  # one data set says nothing


def test_models_without_common_folds_are_not_compared() -> None:
    results = [some_result("a", model="gnm", fold=0), some_result("b", model="mlp", fold=1)]
    assert compare(summarize([MOONS], results)) == ([], [])


def test_equal_models_are_not_different() -> None:
    results = [some_result(f"{model}{fold}", model=model, fold=fold) for model in ("gnm", "mlp") for fold in range(3)]
    assert compare(summarize([MOONS], results))[0][0].p_value == 1.0


@settings(max_examples=50)  # with ties every p-value is one over all signs
@given(
    st.lists(st.tuples(st.integers(0, 120), st.integers(0, 120)), min_size=2, max_size=7),
    st.integers(120, 600_000),
)
@example([(100 + gain, 100) for gain in (-3, -1, -1, 0, 3, 1, 1, -1, 1, -1)], 173)
@example([(1025, 1), (2, 1), (101, 100), (59, 60)], 2000)  # 1/1024 is at half a digit
def test_gains_of_as_many_rows_are_ties_though_percentages_are_rounded(
    counts: list[tuple[int, int]], n_rows: int
) -> None:
    results = [
        some_result(f"{model}{fold}", model=model, fold=fold, metric1=100 * (count / n_rows))
        for fold, pair in enumerate(counts)
        for model, count in zip(("gnm", "mlp"), pair, strict=True)
    ]
    gains = np.array([gnm - mlp for gnm, mlp in counts])
    [found], _ = compare(summarize([MOONS], results))
    assert found.p_value == pytest.approx(wilcoxon(gains).pvalue if gains.any() else 1.0)


def test_what_is_selected_does_not_depend_on_the_test_rows() -> None:
    results = [
        some_result("a", fold=0, val_loss=0.1, metric1=None, metric2=None),
        some_result("b", fold=0, val_loss=0.2, metric1=99.0, width=100),
        some_result("c", fold=1, val_loss=0.2, metric1=99.0),
    ]
    assert {fold: result.key for fold, result in selected(results).items()} == {0: "a", 1: "c"}
    [cell] = summarize([MOONS], results)
    assert math.isnan(cell.mean1) and math.isnan(cell.mean2) and cell.difference is None


def test_models_are_compared_on_the_folds_that_both_have() -> None:
    values = {"gnm": {0: 80.0, 1: 91.0, 2: 92.0}, "mlp": {1: 90.0, 2: 90.0, 7: 10.0}}
    results = [
        some_result(f"{model}{fold}", model=model, fold=fold, metric1=value)
        for model, folds in values.items()
        for fold, value in folds.items()
    ]
    [found], [verdict] = compare(summarize([MOONS], results))
    assert (found.n_folds, found.gain) == (2, 1.5)
    assert (verdict.n_data_sets, verdict.n_better) == (1, 1)


def test_a_model_without_finite_outputs_wins_and_loses_nothing() -> None:
    results = [
        some_result(f"{model}{fold}", model=model, fold=fold, metric1=None if model == "gnm" and fold else 90.0)
        for model in ("gnm", "mlp")
        for fold in range(3)
    ]
    [found], verdicts = compare(summarize([MOONS], results))
    assert math.isnan(found.gain) and found.p_value is None and verdicts == []
