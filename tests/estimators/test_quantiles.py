"""Several quantiles in one fit: never crossing, each covering its share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import d2_absolute_error_score, d2_pinball_score, mean_pinball_loss
from sklearn.model_selection import cross_val_score

from tabgnm import FleetSearchCV, load
from tabgnm.estimators.metrics import d2_of_quantiles
from tests.estimators.examples import LEARNS, gnmr, mlpr, numbers

N = 300
X, _, T = numbers(N)
SEVERAL: dict[str, Any] = {"loss": "quantile", "quantile": [0.1, 0.5, 0.9]}


@settings(max_examples=15, deadline=None)
@given(
    quantiles=st.lists(st.floats(0.01, 0.99), min_size=1, max_size=6, unique=True).map(sorted),
    transform=st.sampled_from(["none", "log"]),
    n_candidates=st.integers(1, 3),
    unit=st.sampled_from([1.0, 1e6, 1e-6]),
    learning_rate=st.sampled_from([0.0, 0.02]),
    seed=st.integers(0, 3),
)
def test_quantiles_never_cross(
    quantiles: list[float], transform: str, n_candidates: int, unit: float, learning_rate: float, seed: int
) -> None:
    y = unit * np.exp(np.random.default_rng(seed).normal(size=60))
    changed = {"target_transform": transform, "n_candidates": n_candidates, "learning_rate": learning_rate}
    changed |= {"n_folds": 3, "max_epochs": 2, "random_state": seed, "numeric_embedding": None}
    model = mlpr(loss="quantile", quantile=quantiles, **changed).fit(X[:60], y, np.linspace(1, 2, 60))
    for rows in (X, 1e4 * X):
        predicted = model.predict(rows)
        assert predicted.shape == (len(rows), len(quantiles)) and (np.diff(predicted, axis=1) >= 0).all()
    assert (np.diff(model.oof_prediction_, axis=1) >= 0).all()


def test_each_quantile_covers_its_share() -> None:
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, size=(800, 1))
    y = 5e4 * (x[:, 0] + random.normal(size=800) * 0.3)
    train, test = slice(0, 600), slice(600, 800)
    model = mlpr(**SEVERAL, **LEARNS).fit(x[train], y[train])
    predicted = model.predict(x[test])
    np.testing.assert_allclose((y[test, None] <= predicted).mean(axis=0), [0.1, 0.5, 0.9], atol=0.08)
    constant = np.quantile(y[test], [0.1, 0.5, 0.9])
    losses = [
        [mean_pinball_loss(y[test], own, alpha=alpha) for own, alpha in zip(columns, (0.1, 0.5, 0.9), strict=True)]
        for columns in (predicted.T, np.repeat(constant[:, None], 200, axis=1))
    ]
    assert model.score(x[test], y[test]) == pytest.approx(1 - sum(losses[0]) / sum(losses[1]), abs=0.01)
    assert model.score(x[test], y[test]) > 0.4


def test_the_score_of_one_quantile_is_scikit_learns() -> None:
    random = np.random.default_rng(0)
    y, predicted, weights = random.normal(size=101), random.normal(size=(101, 1)), random.uniform(0.5, 2, 101)
    for alpha in (0.1, 0.5, 0.9):
        own = d2_of_quantiles(y, predicted, (alpha,), None)
        assert own == pytest.approx(d2_pinball_score(y, predicted[:, 0], alpha=alpha))
        own = d2_of_quantiles(y, predicted, (alpha,), weights)
        expected = d2_pinball_score(y, predicted[:, 0], sample_weight=weights, alpha=alpha)
        assert own == pytest.approx(expected)
    huge = d2_of_quantiles(y * 1e300, predicted * 1e300, (0.1,), None)
    assert huge == pytest.approx(d2_of_quantiles(y, predicted, (0.1,), None))
    assert d2_of_quantiles(np.ones(5), np.ones((5, 2)), (0.1, 0.9), None) == 1.0


@pytest.mark.parametrize("quantile", [0.5, 0.9])
def test_a_model_of_one_quantile_is_scored_by_d2_as_one_of_a_list(quantile: float) -> None:
    weights = np.random.default_rng(0).uniform(0.5, 2, N)
    one, of_list = (mlpr(loss="quantile", quantile=own, **LEARNS).fit(X, T, weights) for own in (quantile, [quantile]))
    assert one.score(X, T, weights) == pytest.approx(
        d2_pinball_score(T, one.predict(X), sample_weight=weights, alpha=quantile)
    )
    assert one.oof_score_ == pytest.approx(
        d2_pinball_score(T, one.oof_prediction_, sample_weight=weights, alpha=quantile)
    )
    assert one.oof_score_ == pytest.approx(of_list.oof_score_) and one.oof_scores_.keys() == {"d2", "quantile"}
    for own, other in zip(one.history_, of_list.history_, strict=True):
        assert own.keys() == other.keys() and own["val_d2"] == pytest.approx(other["val_d2"])
    if quantile == 0.5:
        assert one.score(X, T) == pytest.approx(d2_absolute_error_score(T, one.predict(X)))


def test_the_d2_of_an_epoch_is_that_of_the_logarithm_if_this_is_learned() -> None:
    settings = {"loss": "quantile", "quantile": 0.8, "target_transform": "log", "precision": "float64"} | LEARNS
    y, y_val = np.exp(T / 20), np.exp(T[:80] / 20)
    model = mlpr(**settings, n_folds=1).fit(X, y, X_val=X[:80], y_val=y_val)
    expected = d2_pinball_score(np.log(y_val), np.log(model.predict(X[:80])), alpha=0.8)
    (history,) = model.history_
    assert history["val_d2"][history["best_epoch"] - 1] == pytest.approx(expected)


def test_one_quantile_of_several_targets_is_scored_by_the_mean_d2() -> None:
    both = np.column_stack([T, -100 * T])
    model = mlpr(loss="quantile", quantile=0.8, **LEARNS).fit(X, both)
    assert model.score(X, both) == pytest.approx(d2_pinball_score(both, model.predict(X), alpha=0.8))
    assert model.oof_score_ == pytest.approx(d2_pinball_score(both, model.oof_prediction_, alpha=0.8))


def test_searches_score_one_quantile_by_d2() -> None:
    model = mlpr(loss="quantile", quantile=0.9, **LEARNS)
    search = FleetSearchCV(model, {"n_folds": [0]}, cv=2).fit(X, T)
    expected = cross_val_score(model.set_params(n_folds=0), X, T, cv=2)
    assert search.cv_results_["mean_test_score"][0] == pytest.approx(expected.mean(), abs=1e-6)
    assert expected.mean() > 0


def test_left_out_rows_are_scored_as_score_does() -> None:
    weights = np.random.default_rng(0).uniform(0.5, 2, N)
    model = gnmr(**SEVERAL, n_candidates=2).fit(X, T, weights)
    left_out = model.oof_prediction_
    assert left_out.shape == (N, 3) and model.oof_scores_.keys() == {"d2", "quantile"}
    assert model.oof_score_ == pytest.approx(d2_of_quantiles(T, left_out, (0.1, 0.5, 0.9), weights))
    losses = [
        mean_pinball_loss(T, left_out[:, i], sample_weight=weights, alpha=q) for i, q in enumerate((0.1, 0.5, 0.9))
    ]
    assert model.oof_scores_["quantile"] == pytest.approx(np.mean(losses))
    assert all(len(own["val_d2"]) == len(own["val_loss"]) for own in model.history_)
    single = mlpr(loss="quantile", quantile=0.9).fit(X, T, weights)
    expected = mean_pinball_loss(T, single.oof_prediction_, sample_weight=weights, alpha=0.9)
    assert single.oof_scores_["quantile"] == pytest.approx(expected)


def test_the_d2_of_an_epoch_is_that_of_its_validation_rows() -> None:
    X_val, _, y_val = numbers(80, seed=1)
    model = mlpr(**SEVERAL, n_folds=1, max_epochs=6, precision="float64").fit(X, T, X_val=X_val, y_val=y_val)
    (history,) = model.history_
    # Outputs are sorted for predictions, which can only raise the score.
    assert max(history["val_d2"]) <= model.score(X_val, y_val) + 1e-6
    assert history["val_d2"][history["best_epoch"] - 1] == pytest.approx(model.score(X_val, y_val), abs=0.05)


def test_a_list_of_one_has_one_column_and_a_number_none() -> None:
    one, plain = (mlpr(loss="quantile", quantile=own).fit(X, T).predict(X) for own in ([0.8], 0.8))
    assert one.shape == (N, 1) and plain.shape == (N,)
    np.testing.assert_allclose(one[:, 0], plain, rtol=1e-5)
    as_array = mlpr(loss="quantile", quantile=np.array([0.8])).fit(X, T).predict(X)
    assert as_array.tolist() == one.tolist()


def test_files_keep_quantiles(tmp_path: Any) -> None:
    model = mlpr(**SEVERAL, n_candidates=2).fit(X, T)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.predict(X).tolist() == model.predict(X).tolist() and again.quantile == [0.1, 0.5, 0.9]
    assert again.score(X, T) == model.score(X, T) and again.oof_score_ == model.oof_score_


def test_the_deviation_is_that_of_each_quantile() -> None:
    mean, deviation = mlpr(**SEVERAL).fit(X, T).predict(X, return_std=True)
    assert mean.shape == deviation.shape == (N, 3) and (deviation > 0).any()


def test_searches_and_importances_score_all_quantiles() -> None:
    search = FleetSearchCV(mlpr(**SEVERAL), {"quantile": [[0.1, 0.9], [0.4, 0.5, 0.6]]}, cv=2).fit(X, T)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    found = mlpr(**SEVERAL, **LEARNS).fit(X, T).permutation_importance(X, T, random_state=0).importances_mean
    assert found.argmax() == 0


@pytest.mark.parametrize(
    ("changed", "y", "message"),
    [
        ({"quantile": [0.9, 0.1]}, T, r"quantile=\[0.9, 0.1\] is not in ascending order"),
        ({"quantile": [0.1, 1.0]}, T, r"quantile\[1\]=1.0 is out of range"),
        ({"quantile": []}, T, r"quantile=\[\] is not a list of quantiles; use"),
        (
            {"loss": "huber"},
            T,
            r"quantile=\[0.1, 0.5, 0.9\] was given with loss='huber'; several quantiles require loss='quantile'",
        ),
        ({}, np.column_stack([T, T]), r"quantile=\[0.1, 0.5, 0.9\] was given with 2 targets, .* a regressor for each"),
        ({"metric": "mae"}, T, r"metric='mae' cannot score these targets"),
    ],
)
def test_what_cannot_be_is_refused_before_training(changed: dict[str, Any], y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mlpr(**(SEVERAL | changed)).fit(X, y)


def test_intervals_are_for_one_prediction_per_row() -> None:
    with pytest.raises(
        ValueError, match=r"predict_interval requires one prediction per row.*the lowest and the highest"
    ):
        mlpr(**SEVERAL).fit(X, T).predict_interval(X)


def test_continued_training_may_move_quantiles_but_not_add_any() -> None:
    model = mlpr(**SEVERAL, warm_start=True).fit(X, T).set_params(quantile=[0.2, 0.5, 0.8]).fit(X, T)
    assert model.predict(X).shape == (N, 3)
    for other in (0.5, [0.1, 0.9]):
        with pytest.raises(ValueError, match="cannot continue training that was started with Quantiles"):
            model.set_params(quantile=other).fit(X, T)


@pytest.mark.parametrize("quantile", [0.9, [0.1, 0.9]])
def test_a_quantile_without_its_loss_is_refused(quantile: Any) -> None:
    with pytest.raises(ValueError, match=r"quantile=.* was given with loss='huber'.*loss='quantile'"):
        mlpr(loss="huber", quantile=quantile).fit(X, T)
