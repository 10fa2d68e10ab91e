"""Targets that are never negative: Poisson, Gamma and Tweedie losses with a log link, and the absolute error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import mean_gamma_deviance, mean_poisson_deviance, mean_tweedie_deviance, r2_score

from tabgnm import FleetSearchCV, GNMRegressor, load
from tests.estimators.examples import LEARNS, gnmr, mlpr, numbers

N = 300
X, _, T = numbers(N)
RATE = np.exp(np.sin(2 * X[:, 0]) + 0.5 * X[:, 1])
RANDOM = np.random.default_rng(0)
COUNTS = RANDOM.poisson(RATE).astype(float)
AMOUNTS = RANDOM.gamma(2.0, RATE)
CLAIMS = np.where(COUNTS > 0, AMOUNTS, 0.0)
TARGETS = {"poisson": COUNTS, "gamma": AMOUNTS, "tweedie": CLAIMS}
DEVIANCES: dict[str, Any] = {
    "poisson": mean_poisson_deviance,
    "gamma": mean_gamma_deviance,
    "tweedie": lambda y, p, **how: mean_tweedie_deviance(y, p, power=1.5, **how),
}
every_loss = pytest.mark.parametrize("loss", TARGETS)


@every_loss
def test_predictions_are_positive_and_better_than_the_mean(loss: str) -> None:
    y = TARGETS[loss]
    model = mlpr(loss=loss, **LEARNS).fit(X, y)
    far = 100 * X  # where a straight line would be far below 0
    assert (model.predict(X) > 0).all() and (model.predict(far) > 0).all() and np.isfinite(model.predict(far)).all()
    deviance = DEVIANCES[loss]
    assert deviance(y, model.predict(X)) < 0.8 * deviance(y, np.full(N, y.mean()))
    assert model.score(X, y) == pytest.approx(r2_score(y, model.predict(X)))


@pytest.mark.slow
def test_counts_are_predicted_better_than_by_squared_error() -> None:
    def made(n: int, seed: int) -> tuple[Any, Any]:
        random = np.random.default_rng(seed)
        x = random.uniform(-2, 2, (n, 5))
        log_rate = np.sin(2 * x[:, 0]) + 0.6 * x[:, 1] ** 2 + 0.5 * x[:, 2] * (x[:, 3] > 0) - 1
        return x, random.poisson(np.exp(log_rate)).astype(float)

    (x, y), (x_test, y_test) = made(1500, 0), made(3000, 1)
    found = {}
    for loss in ("squared_error", "poisson"):
        predicted = GNMRegressor(loss=loss, effort="fast", random_state=0, device="cpu").fit(x, y).predict(x_test)
        found[loss] = mean_poisson_deviance(y_test, np.maximum(predicted, 1e-3))
    assert (predicted > 0).all() and found["poisson"] < found["squared_error"]


@every_loss
def test_training_starts_near_the_mean_of_the_target(loss: str) -> None:
    y = 1e6 * TARGETS[loss]
    model = gnmr(loss=loss, learning_rate=0.0, init="paper").fit(X, y)  # its first weights are small
    np.testing.assert_allclose(model.predict(X), y.mean(), rtol=0.2)


@every_loss
def test_a_target_in_another_unit_has_the_same_predictions_in_that_unit(loss: str) -> None:
    y = TARGETS[loss]
    plain, moved = (mlpr(loss=loss, precision="float64").fit(X, y * unit).predict(X) / unit for unit in (1.0, 2.0**40))
    np.testing.assert_allclose(moved, plain, rtol=1e-9)


@settings(max_examples=12, deadline=None)
@given(
    loss=st.sampled_from(list(TARGETS)),
    y=st.lists(st.sampled_from([0.0, 1.0, 3.0, 1e6, 1e12, 1e-12]), min_size=20, max_size=20),
    scaled=st.booleans(),
)
def test_any_counts_are_learned_with_finite_positive_predictions(loss: str, y: list[float], scaled: bool) -> None:
    target = np.array(y) + (1e-9 if loss == "gamma" else 0.0)
    target[0] = 2.0
    if not scaled:
        target = np.minimum(target, 1e8)
    model = mlpr(loss=loss, scale_target=scaled, max_epochs=2, numeric_embedding=None).fit(X[:20], target)
    predicted = model.predict(X)
    assert np.isfinite(predicted).all() and (predicted > 0).all()
    assert np.isfinite([own["train_loss"] for own in model.history_]).all()


@every_loss
def test_selection_is_by_out_of_fold_deviance_and_scores_tell_it(loss: str) -> None:
    y, weights = TARGETS[loss], np.random.default_rng(1).uniform(0.5, 2, N)
    model = mlpr(loss=loss, n_candidates=3).fit(X, y, weights)
    scores, left_out = model.oof_scores_, model.oof_prediction_
    deviance = DEVIANCES[loss](y, left_out, sample_weight=weights)
    assert scores[f"{loss}_deviance"] == pytest.approx(deviance, rel=1e-6)
    assert model.oof_score_ == scores["r2"] == pytest.approx(r2_score(y, left_out, sample_weight=weights))
    power = {"poisson": 1.0, "gamma": 2.0, "tweedie": 1.5}[loss]
    unit = np.average(y, weights=weights) ** (2 - power)  # the loss is that of targets with a mean of 1
    found = model._prepare(X, y, weights).rows.targets.row_losses(left_out[:, None], _tensor(model, y, weights))
    assert np.average(found, weights=weights) * unit == pytest.approx(deviance, rel=1e-6)


def _tensor(model: Any, y: Any, weights: Any) -> Any:
    import torch

    return model._prepare(X, y, weights).rows.target_tensor(model.fitted_.targets, torch.float64)


@every_loss
@pytest.mark.parametrize("metric", ["poisson_deviance", "gamma_deviance", "tweedie_deviance", "mae", "r2"])
def test_deviances_are_metrics_by_name(loss: str, metric: str) -> None:
    model = mlpr(loss=loss, metric=metric, n_candidates=2, tweedie_power=1.3).fit(X, AMOUNTS)
    power = {"poisson": 1.0, "gamma": 2.0, "tweedie": 1.3}
    if metric.endswith("deviance"):
        own = power[loss] if metric.startswith("tweedie") else power[metric.partition("_")[0]]
        expected = -mean_tweedie_deviance(AMOUNTS, model.oof_prediction_, power=own)
        assert model.oof_scores_["metric"] == pytest.approx(expected, rel=1e-6)


def test_a_metric_for_positive_predictions_is_refused_for_others() -> None:
    with pytest.raises(
        ValueError, match=r"metric='poisson_deviance' requires positive predictions.*use loss='poisson'"
    ):
        mlpr(metric="poisson_deviance").fit(X, COUNTS)
    assert mlpr(metric="poisson_deviance", target_transform="log").fit(X, AMOUNTS).oof_scores_["metric"] < 0


def test_weights_count() -> None:
    weights = np.where(np.median(COUNTS) < COUNTS, 20.0, 1.0)
    plain, heavy = (mlpr(loss="poisson", **LEARNS).fit(X, COUNTS, own).predict(X).mean() for own in (None, weights))
    assert heavy > 1.3 * plain


def test_several_targets_are_learned_together_each_in_its_unit() -> None:
    y = np.column_stack([COUNTS, 1e6 * AMOUNTS])
    model = mlpr(loss="tweedie", **LEARNS).fit(X, y)
    predicted, deviation = model.predict(X, return_std=True)
    assert predicted.shape == deviation.shape == y.shape and (predicted > 0).all() and (deviation >= 0).all()
    for column in range(2):
        assert np.corrcoef(predicted[:, column], y[:, column])[0, 1] > 0.4


@every_loss
def test_intervals_do_not_reach_below_0(loss: str) -> None:
    model = mlpr(loss=loss, **LEARNS).fit(X, TARGETS[loss])
    ends = model.predict_interval(X)
    assert (ends[:, 0] >= 0).all() and (ends[:, 0] == 0).any() and (ends[:, 1] >= ends[:, 0]).all()
    inside = (ends[:, 0] <= TARGETS[loss]) & (TARGETS[loss] <= ends[:, 1])
    assert inside.mean() > 0.85


def test_candidates_with_a_logarithm_are_left_out() -> None:
    y = np.exp(T / 15)
    transforms = [
        set(mlpr(loss=loss, n_candidates=6).fit(X, y).pack_["target_transform"]) for loss in ("huber", "gamma")
    ]
    assert transforms == [{"none", "log"}, {"none"}]
    with pytest.raises(
        ValueError, match=r"target_transform='log' cannot be combined with loss='gamma'.*use .*'auto' or 'none'"
    ):
        mlpr(loss="gamma", target_transform="log").fit(X, y)


def test_a_search_may_compare_losses() -> None:
    grid = {"loss": ["squared_error", "absolute_error", "poisson", "tweedie"]}
    search = FleetSearchCV(mlpr(), grid, cv=2, scoring="neg_mean_absolute_error").fit(X, COUNTS)
    for place, loss in enumerate(grid["loss"]):
        alone = [
            -np.abs(mlpr(loss=loss).fit(X[train], COUNTS[train]).predict(X[test]) - COUNTS[test]).mean()
            for train, test in ((np.arange(150, 300), np.arange(150)), (np.arange(150), np.arange(150, 300)))
        ]
        assert search.cv_results_["mean_test_score"][place] == pytest.approx(np.mean(alone), rel=1e-3)


@every_loss
def test_files_keep_the_loss(loss: str, tmp_path: Any) -> None:
    model = mlpr(loss=loss, tweedie_power=1.7, n_candidates=2).fit(X, TARGETS[loss])
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.predict(X).tolist() == model.predict(X).tolist()
    assert again.predict_interval(X).tolist() == model.predict_interval(X).tolist()
    assert again.fitted_.targets.loss == model.fitted_.targets.loss and again.oof_scores_ == model.oof_scores_


def test_a_constant_count_is_predicted_exactly() -> None:
    model = mlpr(loss="poisson").fit(X, np.full(N, 7.3))
    assert (model.predict(X) == 7.3).all() and model.score(X, np.full(N, 7.3)) == 1.0


def test_streams_of_counts_may_begin_with_equal_ones() -> None:
    model = mlpr(loss="poisson").partial_fit(X, np.full(N, 2.0))
    for _ in range(5):
        model.partial_fit(X, COUNTS)
    assert np.ptp(model.predict(X)) > 0.01


@pytest.mark.parametrize(
    ("loss", "value", "message"),
    [
        ("poisson", -2.0, "y has -2 in row 11, but loss='poisson' expects numbers >= 0; .* use loss='squared_error'"),
        ("tweedie", -2.0, "y has -2 in row 11, but loss='tweedie' expects numbers >= 0"),
        ("gamma", 0.0, "y has 0 in row 11, but loss='gamma' expects numbers > 0; .* use loss='tweedie', which allows"),
        ("gamma", -1.0, "y has -1 in row 11, .* use loss='squared_error'"),
    ],
)
def test_targets_that_a_loss_cannot_learn_are_named_before_training(loss: str, value: float, message: str) -> None:
    y = AMOUNTS.copy()
    y[11] = value
    weights = np.where(np.arange(N) < 5, 0.0, 1.0)  # rows are counted as they were given
    for how in ({}, {"sample_weight": weights}):
        with pytest.raises(ValueError, match=message):
            mlpr(loss=loss).fit(X, y, **how)
    with pytest.raises(ValueError, match=message.replace("y has", "y_val has", 1)):
        mlpr(loss=loss).fit(X, AMOUNTS, X_val=X, y_val=y)
    with pytest.raises(ValueError, match="in row 11, column 1, but"):
        mlpr(loss=loss).fit(X, np.column_stack([AMOUNTS, y]))


def test_a_search_names_the_row_not_its_place_in_a_fold() -> None:
    y = COUNTS.copy()
    y[211] = -1
    with pytest.raises(ValueError, match="y has -1 in row 211, but loss='poisson'"):
        FleetSearchCV(mlpr(), {"loss": ["poisson"]}, cv=2, error_score="raise").fit(X, y)


def test_counts_that_are_all_0_are_refused() -> None:
    with pytest.raises(ValueError, match="y is 0 in all rows, but loss='poisson' needs at least one positive number"):
        mlpr(loss="poisson").fit(X, np.zeros(N))
    with pytest.raises(ValueError, match="column 1 of y is 0 in all rows"):
        mlpr(loss="tweedie").fit(X, np.column_stack([COUNTS, np.zeros(N)]))


def test_continued_training_keeps_the_link() -> None:
    model = mlpr(loss="poisson", warm_start=True).fit(X, COUNTS)
    model.set_params(loss="tweedie").fit(X, COUNTS)
    assert (model.predict(X) > 0).all()
    with pytest.raises(
        ValueError, match=r"loss='huber'.* cannot continue training that was started with Tweedie.*warm_start=False"
    ):
        model.set_params(loss="huber").fit(X, COUNTS)


def test_the_absolute_error_leads_to_the_median() -> None:
    y = np.where(np.arange(N) % 4 == 0, 1000.0, 10.0)
    model = mlpr(loss="absolute_error", **LEARNS).fit(X[:, 3:], y)
    assert np.median(model.predict(X[:, 3:])) < 100 < y.mean()
    assert model.oof_scores_.keys() == {"r2", "mse", "mae"}
