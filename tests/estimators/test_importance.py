"""How much columns matter: by gradients, and by shuffling them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn import inspection
from sklearn.metrics import fbeta_score, get_scorer, make_scorer, max_error

from tests.estimators.examples import LEARNS, frame, gnmr, mlp, numbers

X, Y, T = numbers(400)
X_TEST, Y_TEST, T_TEST = numbers(300, seed=1)
WIDE: dict[str, Any] = {"n_nodes": 40}


@pytest.fixture(scope="module", params=["classifier", "regressor"])
def fitted(request: Any) -> tuple[Any, Any]:
    if request.param == "classifier":
        return mlp(**LEARNS).fit(X, Y), Y_TEST
    return gnmr(**WIDE, **LEARNS).fit(X, T), T_TEST


def test_gradients_find_the_columns_that_matter(fitted: tuple[Any, Any]) -> None:
    importances = fitted[0].feature_importances_
    assert importances.shape == (4,) and importances.sum() == pytest.approx(1) and (importances >= 0).all()
    assert importances[0] > importances[1] > 2 * importances[2:].max()


def test_gradients_are_those_of_the_largest_output() -> None:
    model = mlp(numeric_embedding=None).fit(X, np.digitize(T, [30, 50, 70]))
    x = torch.as_tensor(model.encode(X))
    total = torch.zeros(4)
    for net in model.members_:
        inputs = x.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(net(inputs).abs().amax(dim=-1).sum(), inputs)
        total += (gradient * x).abs().mean(dim=0)
    np.testing.assert_allclose(model.feature_importances_, total / total.sum(), rtol=1e-4)


def test_shuffling_agrees_with_scikit_learn(fitted: tuple[Any, Any]) -> None:
    model, y = fitted
    ours = model.permutation_importance(X_TEST, y, n_repeats=10, random_state=0)
    theirs = inspection.permutation_importance(model, X_TEST, y, n_repeats=10, random_state=0)
    assert ours.importances.shape == (4, 10)
    np.testing.assert_allclose(ours.importances_mean, ours.importances.mean(axis=1))
    np.testing.assert_allclose(ours.importances_std, ours.importances.std(axis=1))
    noise = 4 * np.hypot(theirs.importances_std, ours.importances_std) / np.sqrt(10) + 1e-3
    assert (np.abs(ours.importances_mean - theirs.importances_mean) < noise).all()
    assert ours.importances_mean[:2].min() > 5 * np.abs(ours.importances_mean[2:]).max()


SCORES = {
    "classifier": ["accuracy", "neg_log_loss", "roc_auc", make_scorer(fbeta_score, beta=2.0)],
    "regressor": ["r2", "neg_mean_absolute_error", "mae", make_scorer(max_error, greater_is_better=False)],
}


@pytest.mark.parametrize("place", range(4))
def test_any_score_is_the_one_of_scikit_learn(fitted: tuple[Any, Any], place: int) -> None:
    model, y = fitted
    scoring = SCORES["classifier" if hasattr(model, "classes_") else "regressor"][place]
    weights = None if place == 3 else np.random.default_rng(0).uniform(0, 3, 300)
    ours = model.permutation_importance(X_TEST, y, scoring=scoring, sample_weight=weights, random_state=0)
    scorer = get_scorer("neg_mean_absolute_error" if scoring == "mae" else scoring)
    # The same columns shuffled in the same order, but each copy of the table predicted by itself.
    random, more = np.random.RandomState(0), {} if weights is None else {"sample_weight": weights}
    before = scorer(model, X_TEST, y, **more)
    for column in range(4):
        for repeat in range(5):
            shuffled = X_TEST.copy()
            shuffled[:, column] = shuffled[random.permutation(300), column]
            drop = before - scorer(model, shuffled, y, **more)
            assert ours.importances[column, repeat] == pytest.approx(drop, rel=1e-4, abs=1e-5 * abs(before))


def test_a_function_of_the_user_gets_shuffled_tables(fitted: tuple[Any, Any]) -> None:
    model, y = fitted
    test = pd.DataFrame(X_TEST, columns=list("abcd"))
    named = type(model)(**model.get_params()).fit(pd.DataFrame(X, columns=list("abcd")), Y if y is Y_TEST else T)

    def half(estimator: Any, rows: Any, labels: Any) -> float:
        assert list(rows.columns) == list("abcd")
        return float(estimator.score(rows[:150], labels[:150]))

    ours = named.permutation_importance(test, y, scoring=half, n_repeats=3, random_state=0)
    theirs = inspection.permutation_importance(named, test, y, scoring=half, n_repeats=3, random_state=0)
    np.testing.assert_array_equal(ours.importances, theirs.importances)
    with pytest.raises(TypeError, match=r"X is a DataFrame, which cannot be shuffled .* a pandas"):
        named.permutation_importance(pl.from_pandas(test), y, scoring=half)
    scored = named.permutation_importance(pl.from_pandas(test), y, scoring="r2", n_repeats=1, random_state=0)
    assert scored.importances.shape == (4, 1)


def test_a_score_that_is_not_known_is_named(fitted: tuple[Any, Any]) -> None:
    model, y = fitted
    for scoring in ("no_such", 3):
        with pytest.raises(ValueError, match=rf"scoring={scoring!r} is not known; use None, one of 'mae'"):
            model.permutation_importance(X_TEST, y, scoring=scoring)
    with pytest.raises(ValueError, match=r"scoring=max_error is a function of labels and predictions, not a scorer"):
        model.permutation_importance(X_TEST, y, scoring=max_error)
    with pytest.raises(ValueError, match="does not support sample weights; use sample_weight=None"):
        model.permutation_importance(X_TEST, y, scoring=make_scorer(max_error), sample_weight=np.ones(300))


def test_several_classes_and_labels_are_scored() -> None:
    several = mlp(**LEARNS).fit(X, np.digitize(T, [30, 50, 70]))
    classes = np.digitize(T_TEST, [30, 50, 70])
    labels = mlp(**LEARNS).fit(X, np.column_stack([Y, 1 - Y]))
    for model, y, scoring in (
        (several, classes, "roc_auc"),
        (several, classes, "neg_log_loss"),
        (labels, np.column_stack([Y_TEST, 1 - Y_TEST]), "f1_macro"),
    ):
        means = model.permutation_importance(X_TEST, y, scoring=scoring, random_state=0).importances_mean
        assert means[0] > means[1] > np.abs(means[2:]).max()


def test_shuffling_is_reproducible_and_weighs_rows(fitted: tuple[Any, Any]) -> None:
    model, y = fitted
    first = model.permutation_importance(X_TEST, y, random_state=3)
    assert (first.importances == model.permutation_importance(X_TEST, y, random_state=3).importances).all()
    ones = model.permutation_importance(X_TEST, y, random_state=3, sample_weight=np.ones(300))
    np.testing.assert_allclose(ones.importances, first.importances, atol=1e-12)
    weights = np.random.default_rng(0).uniform(0, 3, 300)
    weighted = model.permutation_importance(X_TEST, y, random_state=3, sample_weight=weights)
    assert np.abs(weighted.importances - first.importances).max() > 1e-4


def test_shuffling_in_small_groups_returns_the_same(fitted: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    model, y = fitted
    at_once = model.permutation_importance(X_TEST, y, random_state=0).importances
    monkeypatch.setattr("tabgnm.estimators.importance._SHUFFLED_ELEMENTS", 1)
    one_by_one = model.permutation_importance(X_TEST, y, random_state=0).importances
    np.testing.assert_allclose(
        one_by_one, at_once, rtol=1e-5, atol=1e-6
    )  # products of other sizes may round differently


def test_columns_of_all_kinds_are_shuffled_as_wholes() -> None:
    X = frame(300)
    y = (X["colour"] == "red").astype(int) ^ (X["count"] > 4).astype(int)
    model = mlp(hidden=(32,), max_epochs=60, learning_rate=0.02, batch_size=32).fit(X, y)
    assert model.score(X, y) > 0.85
    for importances in (
        model.permutation_importance(X, y, random_state=0).importances_mean,
        model.feature_importances_,
    ):
        assert set(np.argsort(importances)[-2:]) == {1, 2}


def test_importances_of_shuffling_stand_in_the_order_of_the_given_table() -> None:
    names = ["first", "second", "noise", "more noise"]
    model, test = mlp(**LEARNS).fit(pd.DataFrame(X, columns=names), Y), pd.DataFrame(X_TEST, columns=names)
    in_order = model.permutation_importance(test, Y_TEST, n_repeats=3, random_state=0)
    turned = model.permutation_importance(test[names[::-1]], Y_TEST, n_repeats=3, random_state=0)
    for name, values in in_order.items():
        np.testing.assert_array_equal(turned[name], values[::-1])
    theirs = inspection.permutation_importance(model, test[names[::-1]], Y_TEST, n_repeats=3, random_state=0)
    assert turned.importances_mean.argmax() == theirs.importances_mean.argmax() == 3


def test_a_column_that_is_not_used_has_no_importance() -> None:
    X = pd.DataFrame({"used": numbers()[0][:, 0], "constant": 1.0})
    model = mlp().fit(X, numbers()[1])
    assert model.feature_importances_.tolist() == [1.0, 0.0]
    assert (model.permutation_importance(X, numbers()[1]).importances[1] == 0).all()


@pytest.mark.filterwarnings("ignore:no column can be used")
def test_where_nothing_can_be_used_nothing_is_important() -> None:
    model = mlp().fit(np.ones((20, 4)), [0, 1] * 10)
    np.testing.assert_array_equal(model.feature_importances_, 0)
