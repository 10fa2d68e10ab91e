from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score

from tabgnm import GNMClassifier, GNMRegressor
from tabgnm._files import FileError
from tabgnm.estimators.score_intervals import Bootstrap
from tabgnm.report import report_html, write_report
from tabgnm.report.evaluation import evaluate
from tabgnm.report.scores import auc, scores_of, share_of_rows
from tabgnm.report.small_machine import _origin
from tabgnm.report.wording import percent
from tests.estimators.examples import LEARNS, gnm, gnmr, mlp, mlpr, numbers
from tests.report.examples import mixed, models


@pytest.mark.parametrize("kind", models())
def test_every_kind_of_target_has_a_report(kind: str) -> None:
    model, X, y = models()[kind]
    page = report_html(model.fit(X, y), X, y, machine=False)
    assert page.count("<section id=") >= 5
    text = re.sub(r"<script>.*?</script>|<style>.*?</style>", "", page, flags=re.DOTALL)
    assert not re.search(r"\b(nan|inf)\b|>None<", text)


def test_a_report_needs_few_rows_only() -> None:
    X, labels, _ = numbers(n_rows=12)
    model = gnm(n_folds=1).fit(X, labels)
    assert "Accuracy" in report_html(model, X[:3], labels[:3], machine=False)
    assert "Accuracy" in report_html(model, X[:1], labels[:1], machine=False)


def test_importance_and_effects_are_left_out_for_a_single_row() -> None:
    X, _, target = numbers()
    model = gnmr().fit(X, target)
    page = report_html(model, X[:1], target[:1], machine=False)
    assert "Importance and effects of columns cannot be measured with a single row." in page
    assert "On 1 row, the mean absolute error is" in page and "of the variance (R²" not in page
    assert "Effect of" not in page and '<ol class="grid effects">' not in page
    assert "nan" not in page.split('id="columns"')[1].lower()


def test_a_column_with_one_value_has_no_chart_of_its_effect() -> None:
    X, _, target = numbers()
    model = gnmr().fit(X, target)
    some = X[:30].copy()
    some[:, 2] = 0.5
    page = report_html(model, some, target[:30], machine=False)
    assert page.count("All rows have the same value, so there is no effect to show.") == 1
    assert len(re.findall("<title>Effect of x[0-9]", page)) == 3 and "Effect of x2" not in page
    page = report_html(model, np.repeat(X[:1], 9, axis=0), target[:9], machine=False)
    assert "There are no charts of effects, because they need rows with different values." in page


def test_rows_of_the_fit_are_judged_out_of_fold() -> None:
    X, labels, target = numbers()
    model = gnmr(**LEARNS).fit(X, target)
    page = report_html(model, X, target, machine=False)
    assert "not trained on" in page
    assert f"R² {model.oof_score_:.3g}" in page
    # Other rows with the same targets are other rows.
    assert "predicted by the whole model" in report_html(model, X[::-1] * 2, target, machine=False)
    other, other_labels, other_target = numbers(seed=1)
    assert "predicted by the whole model" in report_html(model, other, other_target, machine=False)
    calibrated = gnm(calibrated=True, **LEARNS).fit(X, labels)
    shown = percent(calibrated.oof_score_)
    assert f"{shown} of 120 rows that its networks" in report_html(calibrated, X, labels, machine=False)
    assert "predicted by the whole model" in report_html(calibrated, other, other_labels, machine=False)


def test_a_model_is_only_called_better_if_the_baseline_learned_from_the_same_rows() -> None:
    X, _, target = numbers()
    model = gnmr(**LEARNS).fit(X, target)
    verdict = r"This is (better than|worse than|about as good as) ridge regression"
    assert re.search(verdict, report_html(model, X, target, machine=False))
    new_X, _, new_target = numbers(seed=1)
    page = report_html(model, new_X, new_target, machine=False)
    assert not re.search(verdict, page)
    assert "each was fitted on about 96 of them. A model that was fitted on more rows has an advantage" in page


def test_a_headline_warns_of_few_rows() -> None:
    X, labels, _ = numbers()
    model = gnm().fit(X, labels)
    assert "So few rows say little about a model." in report_html(model, X[:20], labels[:20], machine=False)
    assert "So few rows say little" not in report_html(model, X[:40], labels[:40], machine=False)


def test_scores_are_those_of_the_model_and_lie_within_their_intervals() -> None:
    X, labels, target = numbers()
    new_X, new_labels, new_target = numbers(seed=1)
    for model, new_y in ((gnm(**LEARNS).fit(X, labels), new_labels), (gnmr(**LEARNS).fit(X, target), new_target)):
        evaluation = evaluate(model, new_X, new_y, None)
        found = scores_of(evaluation, Bootstrap(evaluation.n_rows))
        assert found[0].value == pytest.approx(model.score(new_X, new_y))
        ends = [(own.ends[0], own.value, own.ends[1]) for own in found if own.ends is not None]
        assert all(low <= value <= high for low, value, high in ends) and len(ends) >= 3


def test_the_area_under_the_curve_is_that_of_scikit_learn() -> None:
    random = np.random.default_rng(0)
    codes, scores = random.integers(0, 2, 200), random.integers(0, 12, 200) / 12
    weights = random.integers(0, 3, 200)
    assert auc(codes, scores) == pytest.approx(roc_auc_score(codes, scores))
    assert auc(codes, scores, weights) == pytest.approx(roc_auc_score(codes, scores, sample_weight=weights))


def test_an_interval_of_a_perfect_score_is_not_empty() -> None:
    score = share_of_rows("Accuracy", np.ones(50), "")
    assert score.ends is not None and 0.9 < score.ends[0] < 0.95 and score.ends[1] == 1.0


def test_a_page_says_how_its_intervals_were_computed() -> None:
    X, labels, target = numbers()
    page = report_html(mlp(**LEARNS).fit(X, labels), *numbers(seed=1)[:2], machine=False)
    assert (
        "The range below a score is its 95 % interval (Wilson score interval of the accuracy; percentile bootstrap with "
        "1,000 resamples of the rows for the others)."
    ) in page
    page = report_html(mlpr(**LEARNS).fit(X, target), X[:80], target[:80], machine=False)
    assert "is its 95 % interval (percentile bootstrap with 1,000 resamples of the rows)." in page
    assert "The range below a score" not in report_html(mlpr().fit(X, target), X[:2], target[:2], machine=False)


def test_the_same_model_and_rows_give_the_same_page(classifier: GNMClassifier) -> None:
    X, labels, _ = mixed()
    pages = [report_html(classifier, X, labels, machine=False) for _ in range(2)]
    without_date = [re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "", page) for page in pages]
    assert without_date[0] == without_date[1]


def test_a_report_does_not_change_the_table_or_the_targets(classifier: GNMClassifier) -> None:
    X, labels, _ = mixed()
    before = X.copy(), labels.copy()
    report_html(classifier, X, labels, machine=False)
    pd.testing.assert_frame_equal(X, before[0])
    pd.testing.assert_series_equal(labels, before[1])


def test_a_page_loads_nothing_and_has_no_data_uris(written: Path) -> None:
    page = written.read_text()
    assert not re.search(r"(src|href)=[\"']?(https?:|//|data:)", page)
    assert "url(" not in page
    assert "default-src 'none'" in page
    assert len(page.encode()) < 400_000


def test_the_name_of_the_series_is_that_of_the_target(written: Path, classifier: GNMClassifier) -> None:
    assert "<title>Predicting answer</title>" in written.read_text()
    X, labels, _ = mixed()
    page = report_html(classifier, X, labels, machine=False, target_name="reply", title="Replies")
    assert "<title>Replies</title>" in page
    assert "Confusion matrix of reply" in page


def test_new_levels_and_values_beyond_the_range_are_listed(classifier: GNMClassifier) -> None:
    X, labels, _ = mixed()
    changed = X.assign(count=X["count"] + 100)
    page = report_html(classifier, changed, labels, machine=False)
    assert re.search(r'<th scope="row"><span title="count">count</span></th><td class="number">120</td>', page)
    assert "None: all numbers are within the range" in report_html(classifier, X, labels, machine=False)


def test_columns_without_information_are_listed_as_not_used() -> None:
    X, labels, _ = mixed()
    X = X.assign(same=1.0)
    page = report_html(gnm(n_nodes=80).fit(X, labels), X, labels, machine=False)
    assert re.search(
        r'Unused columns</h3>\s*<table class="plain">\s*<tbody>\s*<tr><th scope="row"><span title="same">', page
    )


def test_a_model_that_is_a_small_machine_is_shown_itself(small_machine: GNMClassifier) -> None:
    X, labels, _ = mixed()
    page = report_html(small_machine, X, labels)
    assert "This is the model itself." in page
    assert 'id="machine-data"' in page


def test_a_machine_is_distilled_from_a_pack_unless_it_is_not_wanted() -> None:
    X, labels, _ = numbers(n_rows=60)
    model = gnm().fit(X, labels)
    page = report_html(model, X, labels)
    assert re.search(r"distilled from the model with all 60 rows. It has \d+ edges?, and its accuracy", page)
    assert 'id="machine"' not in report_html(model, X, labels, machine=False)


def test_a_machine_that_is_much_worse_than_its_model_is_called_a_rough_sketch() -> None:
    X, labels, _ = numbers()
    evaluation = evaluate(gnm(**LEARNS).fit(X, labels), X, labels, None)
    assert "rough sketch" in _origin(evaluation, 120, {"score": 0.1, "edges": 5})
    assert "rough sketch" not in _origin(evaluation, 120, {"score": 1.0, "edges": 5})


def test_a_page_says_how_many_rows_its_machine_was_distilled_with() -> None:
    X, labels, _ = numbers()
    evaluation = evaluate(gnm().fit(X, labels), X, labels, None)
    chosen = {"score": 1.0, "edges": 5}
    assert "distilled from the model with all 120 rows." in _origin(evaluation, 120, chosen)
    assert "distilled from the model with 80 of the 120 rows." in _origin(evaluation, 80, chosen)


def test_no_machine_is_distilled_from_several_quantiles() -> None:
    model, X, y = models()["quantiles"]
    assert "No small machine is distilled from a model of several quantiles." in report_html(model.fit(X, y), X, y)


def test_a_report_does_not_repeat_the_warnings_of_the_fit() -> None:
    X, labels, _ = numbers(n_rows=60)
    table = pd.DataFrame(X).rename(columns=str).assign(code=[f"number {place // 2}" for place in range(60)])
    with pytest.warns(UserWarning, match="'code'"):
        model = gnm(n_nodes=60).fit(table, labels)
    assert "This small machine was distilled from the model" in report_html(model, table, labels)  # warnings are errors


def test_a_machine_of_another_type_is_refused(classifier: GNMClassifier) -> None:
    X, labels, _ = mixed()
    wrong: Any = True
    with pytest.raises(TypeError, match=r"machine=True has type bool; expected an estimator .*, None or False"):
        report_html(classifier, X, labels, machine=wrong)
    with pytest.raises(ValueError, match=r"machine=GNMClassifier\(...\) is not a single small machine"):
        report_html(classifier, X, labels, machine=classifier)


def test_models_that_are_not_fitted_and_wrong_targets_are_refused(classifier: GNMClassifier, tmp_path: Path) -> None:
    X, labels, _ = mixed()
    with pytest.raises(NotFittedError):
        write_report(GNMRegressor(), X, labels, tmp_path / "report.html")
    with pytest.raises(ValueError, match="classes that were not seen before: 'perhaps'"):
        report_html(classifier, X, labels.replace("yes", "perhaps"))
    with pytest.raises(ValueError, match=r"120.*119|119.*120"):
        report_html(classifier, X, labels[:-1])
    with pytest.raises(FileError, match="does not exist; create it first"):
        classifier.report(X, labels, tmp_path / "missing" / "report.html", machine=False)


@pytest.mark.slow
def test_a_page_of_many_columns_and_rows_stays_small() -> None:
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(3000, 100)), columns=[f"{place} {'long name ' * 20}" for place in range(100)])
    y = (X.iloc[:, 0] > 0).astype(int)
    model = mlp(numeric_embedding=None, max_epochs=1, batch_size=512).fit(X, y)
    large = pd.concat([X] * 34, ignore_index=True)[:100_000]
    page = report_html(model, large, np.resize(y, 100_000), machine=False)
    assert len(page.encode()) < 1_000_000
    assert "20,000 of 100,000 rows, drawn at random" in page
