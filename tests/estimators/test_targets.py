"""Targets of all kinds: several, multilabel, quantiles, robust, in their unit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import log_loss, r2_score

from tests.estimators.examples import LEARNS, gnm, gnmr, mlp, mlpr, numbers

X, Y, T = numbers(300)


def test_labels_of_any_type_come_back_as_they_were() -> None:
    for labels in (["no", "yes"], [False, True], [-7, 300], [0.0, 2.0]):
        y = np.array(labels)[Y]
        model = gnm(**LEARNS).fit(X, y)
        assert model.classes_.tolist() == sorted(labels) and model.classes_.dtype == y.dtype
        assert model.predict(X).dtype == y.dtype and model.score(X, y) > 0.9


def test_probabilities_are_the_mean_of_the_members_and_agree_with_each_other() -> None:
    y = np.digitize(T, [40, 55])
    model = mlp(n_folds=3, calibrated=False).fit(X, y)
    proba = model.predict_proba(X)
    encoded = model.encode(X)
    import torch

    own = [torch.softmax(net.double().eval()(torch.as_tensor(encoded).double()), -1) for net in model.members_]
    np.testing.assert_allclose(proba, torch.stack(own).mean(0).detach().numpy(), atol=1e-9)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), proba, atol=1e-12)
    assert (model.classes_[model.decision_function(X).argmax(1)] == model.predict(X)).all()


def test_the_decision_of_two_classes_is_the_log_of_the_odds() -> None:
    model = mlp().fit(X, Y)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(model.decision_function(X), np.log(proba[:, 1] / proba[:, 0]), atol=1e-9)
    assert (model.predict(X) == (model.decision_function(X) > 0)).all()


def test_of_a_single_class_decisions_and_probabilities_say_that_it_is_certain() -> None:
    model = mlp().fit(X, ["only"] * len(X))
    assert (model.predict_proba(X) == 1).all() and (model.predict_log_proba(X) == 0).all()
    assert model.decision_function(X).tolist() == [0.0] * len(X)


def test_multilabel_targets_are_learned_column_by_column() -> None:
    y = np.column_stack([X[:, 0] > 0, X[:, 1] > 0, np.zeros(len(X))]).astype(int)
    model = mlp(**LEARNS).fit(X, y)
    assert model.predict(X).shape == y.shape and (model.predict(X) == y).mean() > 0.95
    assert model.predict_proba(X).shape == y.shape and (model.predict_proba(X)[:, 2] < 0.2).all()
    assert model.decision_function(X).shape == y.shape and model.classes_.tolist() == [0, 1, 2]
    assert model.score(X, y) == (model.predict(X) == y).all(axis=1).mean()


def test_several_targets_are_learned_together_each_with_its_classes() -> None:
    y = np.column_stack(
        [np.where(X[:, 0] > 0, "up", "down"), np.array(["a", "b", "c"])[np.digitize(X[:, 1], [-0.5, 0.5])]]
    )
    model = mlp(**LEARNS).fit(X, y)
    assert [own.tolist() for own in model.classes_] == [["down", "up"], ["a", "b", "c"]]
    assert (model.predict(X) == y).mean() > 0.9
    for proba, own in zip(model.predict_proba(X), model.classes_, strict=True):
        assert proba.shape == (len(X), len(own))
        np.testing.assert_allclose(proba.sum(axis=1), 1)


def test_several_numbers_are_learned_together_each_in_its_unit() -> None:
    y = np.column_stack([1e6 * X[:, 0], 1e-6 * X[:, 1] + 5])
    model = mlpr(**LEARNS).fit(X, y)
    assert model.predict(X).shape == y.shape
    assert np.corrcoef(model.predict(X)[:, 0], y[:, 0])[0, 1] > 0.95
    assert np.corrcoef(model.predict(X)[:, 1], y[:, 1])[0, 1] > 0.95
    mean, std = model.predict(X, return_std=True)
    assert (
        std.shape == y.shape and (std[:, 0] > 1).any() and (std[:, 1] < 1e-5).all() and (mean == model.predict(X)).all()
    )


@pytest.mark.parametrize("make", [mlpr, gnmr])
@pytest.mark.parametrize("scaled", [2.0**20, 1000.0, 1e-5])
def test_a_target_in_another_unit_has_the_same_predictions_in_that_unit(make: Any, scaled: float) -> None:
    plain = make(precision="float64").fit(X, T).predict(X)
    moved = make(precision="float64").fit(X, T * scaled - 3 * scaled).predict(X)
    np.testing.assert_allclose(moved / scaled + 3, plain, rtol=1e-8)


@pytest.mark.parametrize("scaled", [3.0, 5.0])
def test_a_target_that_is_standardised_already_is_no_other_case(scaled: float) -> None:
    y = np.where(np.arange(len(X)) % 2, 1.0, -1.0)  # a mean of exactly 0, a deviation of exactly 1
    plain, moved = (mlpr(n_folds=1, precision="float64").fit(X, y * factor).predict(X) for factor in (1.0, scaled))
    np.testing.assert_allclose(moved / scaled, plain, rtol=1e-8)


def test_scale_target_false_learns_the_target_as_it_is() -> None:
    model = mlpr(scale_target=False).fit(X, T)
    assert model.fitted_.targets.center.tolist() == [0.0] and model.fitted_.targets.scale.tolist() == [1.0]


def test_quantiles_cover_their_share() -> None:
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, size=(800, 1))
    y = x[:, 0] + random.normal(size=800) * 0.3
    train, test = slice(0, 600), slice(600, 800)
    predicted = {}
    for quantile in (0.1, 0.5, 0.9):
        model = mlpr(loss="quantile", quantile=quantile, **LEARNS).fit(x[train], y[train])
        predicted[quantile] = model.predict(x[test])
        assert abs((y[test] <= predicted[quantile]).mean() - quantile) < 0.08
    assert (predicted[0.1] < predicted[0.5]).mean() > 0.98 and (predicted[0.5] < predicted[0.9]).mean() > 0.98


def test_the_huber_loss_is_not_led_astray_by_outliers() -> None:
    y = T.copy()
    y[::15] += 2000
    clean = np.arange(len(y)) % 15 != 0
    errors = {}
    for loss in ("squared_error", "huber"):
        model = mlpr(loss=loss, huber_delta=0.05, **LEARNS).fit(X, y)
        errors[loss] = np.abs(model.predict(X) - T)[clean].mean()
    assert errors["huber"] < 0.5 * errors["squared_error"]


def test_the_deviation_is_that_of_the_members() -> None:
    model = mlpr(n_folds=3).fit(X, T)
    mean, std = model.predict(X, return_std=True)
    import torch

    encoded = torch.as_tensor(model.encode(X)).double()
    targets = model.fitted_.targets
    own = np.stack([net.double().eval()(encoded)[:, 0].detach().numpy() for net in model.members_])
    own = own * targets.scale + targets.center
    np.testing.assert_allclose(mean, own.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(std, own.std(axis=0), rtol=1e-7)


def test_label_smoothing_makes_probabilities_less_sure() -> None:
    for y in (Y, np.digitize(T, [40, 55])):
        sure = mlp(**LEARNS).fit(X, y).predict_proba(X).max(axis=1).mean()
        smooth = mlp(label_smoothing=0.4, **LEARNS).fit(X, y).predict_proba(X).max(axis=1).mean()
        assert smooth < sure - 0.05


def test_balanced_class_weights_find_more_of_a_rare_class() -> None:
    rare = (X[:, 0] + 0.8 * np.random.default_rng(1).normal(size=len(X)) > 1.6).astype(int)
    assert 0.02 < rare.mean() < 0.2
    recall = [mlp(class_weight=how, **LEARNS).fit(X, rare).predict(X)[rare == 1].mean() for how in (None, "balanced")]
    assert recall[1] > recall[0]
    by_hand = len(rare) / (2 * np.bincount(rare))
    given = mlp(class_weight=dict(enumerate(by_hand))).fit(X, rare).predict_proba(X)
    np.testing.assert_allclose(mlp(class_weight="balanced").fit(X, rare).predict_proba(X), given, atol=1e-12)


def test_class_weights_multiply_sample_weights() -> None:
    weights = np.random.default_rng(0).uniform(0.5, 2, len(X))
    together = mlp(class_weight={0: 1.0, 1: 3.0}).fit(X, Y, weights).predict_proba(X)
    by_hand = mlp().fit(X, Y, weights * np.where(Y, 3.0, 1.0)).predict_proba(X)
    np.testing.assert_allclose(together, by_hand, atol=1e-12)


@pytest.mark.parametrize("make", [mlp, gnm])
def test_weights_of_one_are_no_weights(make: Any) -> None:
    np.testing.assert_allclose(
        make().fit(X, Y, np.ones(len(X))).predict_proba(X), make().fit(X, Y).predict_proba(X), atol=1e-12
    )


@pytest.mark.parametrize("make", [mlp, mlpr])
def test_a_row_of_weight_0_is_absent(make: Any) -> None:
    y = Y if make is mlp else T
    weights = (np.arange(len(X)) % 3 > 0).astype(float)
    X_spoilt = X.copy()
    X_spoilt[weights == 0] = 1e6  # were it looked at, scaling would show it
    y_spoilt = np.where(weights == 0, y[::-1] if make is mlp else 1e9, y)
    weighted = make().fit(X_spoilt, y_spoilt, weights)
    absent = make().fit(X[weights > 0], y[weights > 0])
    np.testing.assert_allclose(weighted.predict(X), absent.predict(X), rtol=1e-10)
    assert weighted.feature_importances_.tolist() == absent.feature_importances_.tolist()


def test_weights_count() -> None:
    y = np.where(np.arange(len(X)) % 2, 1, 0)
    heavy = mlp(**LEARNS).fit(X, y, np.where(y, 20.0, 1.0))
    assert heavy.predict_proba(X)[:, 1].mean() > 0.85


def test_a_class_whose_rows_all_have_weight_0_is_still_known() -> None:
    model = mlp().fit(X, Y, Y.astype(float))
    assert model.classes_.tolist() == [0, 1] and model.predict_proba(X).shape == (len(X), 2)


def test_the_score_of_a_classifier_weighs_rows() -> None:
    model = mlp().fit(X, Y)
    weights = np.random.default_rng(0).uniform(size=len(X))
    assert model.score(X, Y, weights) == pytest.approx(np.average(model.predict(X) == Y, weights=weights))


def test_the_score_of_a_regressor_weighs_rows() -> None:
    model = mlpr().fit(X, T)
    weights = np.random.default_rng(0).uniform(size=len(X))
    assert model.score(X, T, weights) == pytest.approx(r2_score(T, model.predict(X), sample_weight=weights))
    assert abs(model.score(X, T, weights) - model.score(X, T)) > 1e-6


def test_rare_classes_survive_and_are_predicted_as_classes() -> None:
    y = np.where(np.arange(len(X)) < 4, np.arange(len(X)) + 10, Y)
    model = mlp(n_folds=4).fit(X, y)
    assert model.classes_.tolist() == [0, 1, 10, 11, 12, 13]
    assert log_loss(y, model.predict_proba(X)) < 3


def test_a_constant_target_is_predicted_exactly() -> None:
    for constant in (7.3, 0.1, -1e20, 0.0):
        model = mlpr().fit(X, np.full(len(X), constant))
        assert (model.predict(X) == constant).all() and model.score(X, np.full(len(X), constant)) == 1.0


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel", "joint"])
def test_the_deviation_of_probabilities_is_that_of_the_members(kind: str) -> None:
    import torch

    classes = np.digitize(T, [40, 55])
    y = {
        "binary": Y,
        "multiclass": classes,
        "multilabel": np.column_stack([Y, classes > 1]).astype(int),
        "joint": np.column_stack([Y + 5, classes]),
    }[kind]
    model = mlp(n_folds=3, n_candidates=2, learning_rate=0.02).fit(X, y)
    proba, deviation = model.predict_proba(X, return_std=True)
    outputs, weights = [], []
    for place, group in enumerate(model.fitted_.groups):
        encoded = torch.as_tensor(model.encode(X, place)).double()
        first = sum(own.n_networks for own in model.fitted_.groups[:place])
        for net in model.members_[first : first + group.n_networks]:
            outputs.append(net.double().eval()(encoded).detach())
            weights.append(group.weight / group.n_networks)
    own = np.stack([model.fitted_.targets.out_of_fold(one) for one in outputs])  # (networks, rows, all classes)
    mean = np.average(own, axis=0, weights=weights)
    expected = model.fitted_.targets.parts(np.sqrt(np.average((own - mean) ** 2, axis=0, weights=weights)))
    if kind == "multilabel":
        expected = [np.column_stack([part[:, 1] for part in expected])]
    pairs = zip(proba, deviation, expected, strict=True) if kind == "joint" else [(proba, deviation, expected[0])]
    for one, found, wanted in pairs:
        assert found.shape == one.shape and (found > 0).any()
        np.testing.assert_allclose(found, wanted, atol=1e-9)
    again = model.predict_proba(X)
    assert all(
        np.array_equal(*both) for both in (zip(proba, again, strict=True) if kind == "joint" else [(proba, again)])
    )


def test_the_deviation_of_a_single_class_is_0_and_of_a_single_network_not_there() -> None:
    proba, deviation = mlp().fit(X, ["only"] * len(X)).predict_proba(X, return_std=True)
    assert (proba == 1).all() and (deviation == 0).all() and deviation.shape == proba.shape
    with pytest.raises(ValueError, match="return_std=True requires at least two networks; fit with n_folds>=2"):
        mlp(n_folds=1).fit(X, Y).predict_proba(X, return_std=True)


@pytest.mark.parametrize("loss", ["squared_error", "poisson", "gamma", "quantile"])
@pytest.mark.parametrize("unit", [2.0**970, 2.0**-970])
def test_targets_of_any_magnitude_keep_their_digits(loss: str, unit: float) -> None:
    y = T - T.min() + 1
    how: dict[str, Any] = {"loss": loss, "precision": "float64", "target_transform": "none", "n_candidates": 2}
    plain, moved = mlpr(**how).fit(X, y), mlpr(**how).fit(X, y * unit)
    for one, other in zip(plain.predict(X, return_std=True), moved.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(other / unit, one, rtol=1e-8)
    np.testing.assert_allclose(moved.predict_interval(X) / unit, plain.predict_interval(X), rtol=1e-6)
    np.testing.assert_allclose(moved.oof_prediction_ / unit, plain.oof_prediction_, rtol=1e-8)
    assert moved.score(X, y * unit) == pytest.approx(plain.score(X, y))
    assert moved.oof_score_ == pytest.approx(plain.oof_score_)


@pytest.mark.parametrize(
    ("y", "changed", "message"),
    [
        (np.where(Y, 1.7e308, -1.7e308), {}, r"y has -?1.7e\+308 in row 0, which is too large; .* up to 1e\+300: use other"),
        (T * 1e-308, {}, "y has a standard deviation of .*e-307, which is too small to learn; use other units"),
        (np.abs(T) * 1e-308, {"loss": "poisson"}, "y has a mean of .*e-307, which is too small to learn; use other units"),
        (T * 1e-300, {"scale_target": False}, "too small to learn with scale_target=False; use scale_target=True"),
        (T * 1e10, {"scale_target": False, "loss": "poisson"}, "too large for targets .* use scale_target=True"),
    ],
)  # fmt: skip
def test_targets_beyond_what_can_be_computed_are_refused(y: Any, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mlpr(**changed).fit(X, np.abs(y) if "loss" in changed else y)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("huber_delta", 1e300),
        ("huber_delta", 1e-300),
        ("quantile", 1e-300),
        ("tweedie_power", 2.0),
        ("tweedie_power", 0),
    ],
)
def test_absurd_settings_of_losses_are_refused_whatever_the_loss(name: str, value: float) -> None:
    with pytest.raises(
        ValueError, match=rf"{name}={value!r} is out of range; expected a number from".replace("+", r"\+")
    ):
        mlpr(**{name: value}).fit(X, T)


def test_the_loss_of_earlier_versions_keeps_its_name() -> None:
    one, other = (mlpr(loss=name).fit(X, T).predict(X) for name in ("mse", "squared_error"))
    assert one.tolist() == other.tolist()
