"""The calibration error has one definition, whoever shows it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from tabgnm.estimators.metrics import calibration_error
from tabgnm.estimators.score_intervals import Bootstrap
from tabgnm.plots import plot_calibration
from tabgnm.report.class_charts import class_charts
from tabgnm.report.evaluation import evaluate
from tabgnm.report.scores import scores_of
from tabgnm.report.wording import percent
from tests.estimators.examples import LEARNS, mlp, numbers

X, LABELS, TARGET = numbers()
NEW_X, NEW_LABELS, NEW_TARGET = numbers(seed=1)


def literal_error(probabilities: Any, codes: Any) -> float:
    """Return the definition of Guo et al. (2017), bin by bin."""
    error, confidence = 0.0, probabilities.max(axis=1)
    for low in range(15):
        rows = (confidence >= low / 15) & ((confidence < (low + 1) / 15) | (low == 14))
        if rows.any():
            accuracy = (probabilities[rows].argmax(axis=1) == codes[rows]).mean()
            error += rows.mean() * abs(confidence[rows].mean() - accuracy)
    return error


@given(st.integers(1, 60), st.integers(2, 5), st.integers(0, 10**6))
def test_the_error_is_the_mean_distance_of_confidence_and_accuracy(n_rows: int, n_classes: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    probabilities, codes = random.dirichlet(np.ones(n_classes), n_rows), random.integers(0, n_classes, n_rows)
    assert calibration_error(probabilities, codes) == pytest.approx(literal_error(probabilities, codes))
    repeats = random.integers(1, 4, n_rows)
    repeated = calibration_error(probabilities.repeat(repeats, axis=0), codes.repeat(repeats))
    assert calibration_error(probabilities, codes, repeats.astype(float)) == pytest.approx(repeated)


TARGETS = {
    "two classes": (np.array(["no", "yes"])[LABELS], np.array(["no", "yes"])[NEW_LABELS]),
    "three classes": (np.digitize(TARGET, [40, 60]), np.digitize(NEW_TARGET, [40, 60])),
    "multilabel": (np.column_stack([LABELS, X[:, 2] > 0]) * 1, np.column_stack([NEW_LABELS, NEW_X[:, 2] > 0]) * 1),
}


@pytest.mark.parametrize("kind", TARGETS)
def test_the_estimator_the_report_and_the_plot_show_the_same_error(kind: str) -> None:
    y, new_y = TARGETS[kind]
    model = mlp(**LEARNS).fit(X, y)
    of_fit, of_new = evaluate(model, X, y, None), evaluate(model, NEW_X, new_y, None)
    assert of_fit.out_of_fold and not of_new.out_of_fold
    assert _tile(of_fit) == pytest.approx(model.oof_scores_["calibration_error"])
    expected = [literal_error(own.probabilities, own.codes) for own in of_new.classes]
    assert _tile(of_new) == pytest.approx(np.mean(expected)) and _tile(of_new) > 0
    for own, error in zip(of_new.classes, expected, strict=True):
        assert f"Calibration error {percent(error)}." in class_charts(own)[-1].note
    for n_bins in (3, 10):
        legend = plot_calibration(model, NEW_X, new_y, Figure().subplots(), n_bins=n_bins).get_legend().get_texts()[1:]
        assert [entry.get_text().rpartition("calibration error ")[2] for entry in legend] == [
            f"{100 * error:.1f} %" for error in expected
        ]


def _tile(evaluation: Any) -> float:
    [score] = [own for own in scores_of(evaluation, Bootstrap(evaluation.n_rows)) if own.name == "Calibration error"]
    return score.value
