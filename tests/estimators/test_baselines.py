from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    accuracy_score,
    d2_pinball_score,
    log_loss,
    mean_pinball_loss,
    mean_squared_error,
    r2_score,
)
from sklearn.model_selection import GroupKFold, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tabgnm import MLPClassifier, MLPRegressor
from tabgnm.estimators.baselines import baselines

QUICK = {"n_folds": 0, "n_candidates": 1, "max_epochs": 1, "numeric_embedding": None, "random_state": 0}


def test_baselines_of_a_classifier_are_scored_on_rows_that_they_have_not_seen() -> None:
    X, y = load_iris(return_X_y=True)
    found = baselines(MLPClassifier(**QUICK).fit(X, y), X, y)
    assert [own.name for own in found] == ["majority class", "logistic regression"]
    for own in found:
        assert own.prediction.shape == (150, 3)
        np.testing.assert_allclose(own.prediction.sum(axis=1), 1)
        assert own.score == pytest.approx(accuracy_score(y, own.prediction.argmax(axis=1)))
        assert own.loss == pytest.approx(log_loss(y, own.prediction))
    by_hand = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    assert found[1].score == pytest.approx(cross_val_score(by_hand, X, y, cv=folds).mean(), abs=0.03)
    assert found[1].score_std > 0
    assert found[0].score == pytest.approx(1 / 3, abs=0.01)


def test_baselines_of_a_regressor_are_the_mean_and_a_ridge_regression() -> None:
    X, y = load_diabetes(return_X_y=True)
    found = baselines(MLPRegressor(**QUICK).fit(X, y), X, y)
    assert [own.name for own in found] == ["mean", "ridge regression"]
    for own in found:
        assert own.prediction.shape == (442,)
        assert own.score == pytest.approx(r2_score(y, own.prediction))
        assert own.loss == pytest.approx(mean_squared_error(y, own.prediction))
    assert found[0].score < 0.01
    assert 0.4 < found[1].score < 0.55


def test_raw_tables_with_gaps_and_many_levels_have_a_linear_baseline() -> None:
    random = np.random.default_rng(0)
    level = random.choice(["a", "b", *map(str, range(100, 200))], 300)
    frame = pd.DataFrame(
        {"level": level, "gap": np.where(random.random(300) < 0.3, np.nan, random.normal(size=300)), "empty": None}
    )
    frame["date"] = pd.date_range("2020-01-01", periods=300)
    y = (frame["gap"].fillna(0) > 0).to_numpy()
    with pytest.warns(UserWarning, match="column"):
        model = MLPClassifier(**QUICK).fit(frame, y)
    found = baselines(model, frame, y)
    assert found[1].name == "logistic regression"
    assert found[1].score > found[0].score + 0.1


@pytest.mark.parametrize("several", ["multilabel", "joint"])
def test_several_labels_have_one_probability_table_each_and_all_have_to_be_right(several: str) -> None:
    X, y = load_iris(return_X_y=True)
    both = np.column_stack([y == 0, y == 1]).astype(int) if several == "multilabel" else np.column_stack([y, y == 1])
    model = MLPClassifier(**QUICK).fit(X, both)
    for own in baselines(model, X, both):
        shapes = np.shape(own.prediction) if several == "multilabel" else [part.shape for part in own.prediction]
        assert shapes == ((150, 2) if several == "multilabel" else [(150, 3), (150, 2)])
        expected = model.predict_proba(X)
        assert shapes == (expected.shape if several == "multilabel" else [part.shape for part in expected])
        assert 0 <= own.score <= 1


def test_several_numbers_are_predicted_together() -> None:
    X, y = load_diabetes(return_X_y=True)
    both = np.column_stack([y, X[:, 0]])
    found = baselines(MLPRegressor(**QUICK).fit(X, both), X, both)
    assert [own.prediction.shape for own in found] == [(442, 2)] * 2
    assert found[1].score == pytest.approx(r2_score(both, found[1].prediction))


def test_rows_without_weight_are_left_out() -> None:
    X, y = load_diabetes(return_X_y=True)
    weights = np.where(np.arange(442) < 42, 0.0, 2.0)
    model = MLPRegressor(**QUICK).fit(X, y, weights)
    for weighted, alone in zip(
        baselines(model, X, y, weights), baselines(model, X[42:], y[42:], np.full(400, 2.0)), strict=True
    ):
        assert np.isnan(weighted.prediction[:42]).all()
        np.testing.assert_allclose(weighted.prediction[42:], alone.prediction)
        assert weighted.score == pytest.approx(alone.score)


def test_folds_may_be_given() -> None:
    X, y = load_diabetes(return_X_y=True)
    groups = np.arange(442) % 7
    splits = list(GroupKFold(3).split(X, groups=groups))
    model = MLPRegressor(**QUICK).fit(X, y)
    mean = baselines(model, X, y, cv=splits)[0].prediction
    for train, val in splits:
        np.testing.assert_allclose(mean[val], y[train].mean())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("frame", "y"),
    [
        (pd.DataFrame({"a": [1.0]}), ["x"]),
        (pd.DataFrame({"a": [1.0, 2.0, 3.0]}), ["x", "y", "z"]),
        (pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0]}), ["x", "x", "x", "x"]),
        (pd.DataFrame({"a": [None, None, None, None]}), ["x", "x", "y", "y"]),
        (pd.DataFrame({"a": [1e300, -1e300, 1e308, 0.0, 5.0]}), ["x", "x", "y", "y", "y"]),
        (pd.DataFrame({"a": list("abcdefgh")}), list("xyxyxyxx")),
    ],
)
def test_odd_tables_that_a_model_was_fitted_to_have_fewer_baselines_but_no_error(frame: pd.DataFrame, y: list) -> None:
    model = MLPClassifier(**QUICK).fit(frame, y)
    for own in baselines(model, frame, y):
        assert own.name in ("majority class", "logistic regression")
        assert 0 <= own.score <= 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("y", [[1.0, 1.0, 1.0], [1e300, -1e300, 1e-300], [5.0]])
def test_odd_numbers_have_fewer_baselines_but_no_error(y: list[float]) -> None:
    X = np.arange(len(y), dtype=float)[:, None]
    model = MLPRegressor(**QUICK).fit(X, y)
    assert all(own.name in ("mean", "ridge regression") for own in baselines(model, X, y))


@pytest.mark.parametrize("n_targets", [1, 2])
def test_baselines_of_one_quantile_are_this_quantile_and_a_linear_model_of_it(n_targets: int) -> None:
    X, y = load_diabetes(return_X_y=True)
    y = y if n_targets == 1 else np.column_stack([y, 100 * X[:, 0] + y])
    constant, linear = baselines(MLPRegressor(**QUICK, loss="quantile", quantile=0.9).fit(X, y), X, y)
    assert [constant.name, linear.name] == ["0.9 quantile", "shifted ridge regression"]
    for own in (constant, linear):
        assert own.score == pytest.approx(d2_pinball_score(y, own.prediction, alpha=0.9))
        assert own.loss == pytest.approx(mean_pinball_loss(y, own.prediction, alpha=0.9))
        assert (y <= own.prediction).mean() == pytest.approx(0.9, abs=0.03)
    assert constant.score < 0.01 < 0.25 < linear.score


def test_several_quantiles_have_no_baseline() -> None:
    X, y = load_diabetes(return_X_y=True)
    model = MLPRegressor(**QUICK, loss="quantile", quantile=[0.1, 0.9]).fit(X, y)
    assert baselines(model, X, y) == []


def test_labels_that_the_model_does_not_know_are_learned_by_the_baselines() -> None:
    X, y = load_iris(return_X_y=True)
    model = MLPClassifier(**QUICK).fit(X[:100], y[:100])
    assert baselines(model, X, y)[1].prediction.shape == (150, 3)


def test_a_model_has_to_be_fitted_before_its_baselines() -> None:
    with pytest.raises(NotFittedError, match="call fit before baselines"):
        baselines(MLPRegressor(), [[1.0]], [1.0])
