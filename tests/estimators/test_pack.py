"""A pack: several candidates on several folds, chosen and weighted by their predictions for left-out rows."""

from __future__ import annotations

import copy
import os
import signal
import threading
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss, make_scorer, mean_absolute_error, r2_score

from tabgnm.estimators import pack
from tabgnm.estimators.effort import _EFFORTS
from tabgnm.estimators.out_of_fold import scaled_by
from tabgnm.table import read_table
from tabgnm.training import History, TrainedModel
from tabgnm.training.concurrent_fleets import Interrupted
from tests.estimators.examples import LEARNS, frame, gnm, gnmr, mlp, mlpr, numbers

X, Y, T = numbers()
N = len(X)
F = frame()
Y3 = np.digitize(T, [35, 60])
SEVERAL: dict[str, Any] = {"n_candidates": 3, "max_epochs": 4}


T_SKEWED = np.exp(T / 15)  # with a long tail, so that a candidate learns its logarithm


def equal_weights(predictions: Any, _losses: Any, _most: int) -> Any:
    """Keep all candidates, whatever they have learned."""
    return np.full(len(predictions), 1 / len(predictions))


@pytest.fixture(scope="module")
def classifier() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pack, "greedy_weights", equal_weights)
        return mlp(**SEVERAL, n_folds=3, calibrated=False).fit(F, Y3)


@pytest.fixture(scope="module")
def regressor() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pack, "greedy_weights", equal_weights)
        model = mlpr(n_candidates=4, n_folds=3).fit(F, T_SKEWED)
    assert {group.targets.transform for group in model.fitted_.groups} == {"none", "log"}
    return model


def reweighted(model: Any, weights: list[float], temperature: float = 1.0) -> Any:
    """Return the model with other weights of its groups."""
    twin = copy.copy(model)
    groups = [replace(group, weight=own) for group, own in zip(model.fitted_.groups, weights, strict=True)]
    twin.fitted_ = replace(model.fitted_, groups=groups, temperature=temperature)
    return twin


def outputs(group: Any, X: Any) -> torch.Tensor:
    """Outputs of the networks of a group one by one, in float64, (networks, rows, c)."""
    x = torch.as_tensor(group.encoder.encode(read_table(X), dtype=np.float32)).double()
    nets = [TrainedModel(group.shape, group.network(i), History(), 0.0).network() for i in range(group.n_networks)]
    with torch.no_grad():
        return torch.stack([net.double().eval()(x) for net in nets])


# --- what is shown of it


def test_pack_shows_every_candidate_with_its_weight_loss_and_settings(classifier: Any) -> None:
    table = classifier.pack_
    assert table["candidate"].tolist() == [0, 1, 2] and table["weight"].sum() == pytest.approx(1)
    assert (table["networks"] == 3).all() and (table["epochs"] >= table["best_epoch"]).all()
    assert np.isfinite(table["loss"]).all() and (table["loss_std"] >= 0).all() and (table["seconds"] >= 0).all()
    assert not table["stopped_by_race"].any()
    assert {"learning_rate", "dropout", "activation", "numeric_embedding"} <= set(table.columns)
    shown = {number: weight for number, weight in enumerate(table["weight"]) if weight > 0}
    kept = [group.weight for group in classifier.fitted_.groups]
    assert sorted(shown.values(), reverse=True) == kept == sorted(kept, reverse=True)


def test_the_loss_of_a_candidate_is_that_of_its_out_of_fold_predictions() -> None:
    model = mlp(n_folds=3, calibrated=False).fit(X, Y)
    expected = [
        log_loss(Y[val], model.oof_prediction_[val])
        for val in (fold.val.numpy() for fold in mlp(n_folds=3)._prepare(X, Y).rows.folds)
    ]
    assert model.pack_["loss"][0] == pytest.approx(np.mean(expected), rel=1e-5)
    assert model.pack_["loss_std"][0] == pytest.approx(np.std(expected), rel=1e-4)


def test_changing_what_pack_returned_changes_nothing(classifier: Any) -> None:
    table = classifier.pack_
    table["weight"] = 7.0
    assert classifier.pack_["weight"].sum() == pytest.approx(1)


def test_networks_and_histories_stand_candidate_by_candidate(classifier: Any) -> None:
    n_networks = 3 * len(classifier.fitted_.groups)
    assert len(classifier.members_) == len(classifier.history_) == classifier.fitted_.n_networks == n_networks
    for group, own in enumerate(classifier.fitted_.groups):
        assert classifier.encode(F, group=group).shape == (N, own.encoder.n_encoded)


# --- out-of-fold predictions


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_out_of_fold_predictions_are_those_of_networks_for_rows_that_they_left_out(
    kind: str, request: pytest.FixtureRequest
) -> None:
    y = Y3 if kind == "classifier" else T_SKEWED
    # One epoch and one candidate: nothing is chosen.
    model = clone(request.getfixturevalue(kind)).set_params(max_epochs=1, n_candidates=1).fit(F, y)
    folds = copy.copy(model)._prepare(F, y).rows.folds
    expected = 0.0
    for group in model.fitted_.groups:
        found = outputs(group, F)
        values = torch.softmax(found, -1).numpy() if kind == "classifier" else group.targets.numbers(found)
        own = np.full(values.shape[1:], np.nan)
        for position, fold in enumerate(group.folds):
            val = folds[fold].val.numpy()
            own[val] = values[position][val]
        expected = expected + group.weight * own
    found = model.oof_prediction_.reshape(N, -1)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


def test_the_scores_of_a_classifier_are_those_of_its_out_of_fold_predictions(classifier: Any) -> None:
    scores, proba = classifier.oof_scores_, classifier.oof_prediction_
    assert classifier.oof_score_ == scores["accuracy"] == pytest.approx((proba.argmax(axis=1) == Y3).mean())
    assert scores["log_loss"] == pytest.approx(log_loss(Y3, proba))
    assert 0 <= scores["calibration_error"] <= 1


def test_the_scores_of_a_regressor_are_those_of_its_out_of_fold_predictions(regressor: Any) -> None:
    y, scores, predicted = T_SKEWED, regressor.oof_scores_, regressor.oof_prediction_
    assert regressor.oof_score_ == scores["r2"] == pytest.approx(r2_score(y, predicted))
    assert scores["mse"] == pytest.approx(((predicted - y) ** 2).mean())
    assert scores["mae"] == pytest.approx(np.abs(predicted - y).mean())


def test_scores_count_rows_by_their_weights() -> None:
    weights = np.random.default_rng(0).uniform(0, 3, N)
    weights[:10] = 0
    model = mlpr(**SEVERAL).fit(X, T, weights)
    assert np.flatnonzero(np.isnan(model.oof_prediction_)).tolist() == list(range(10))
    predicted = np.nan_to_num(model.oof_prediction_)
    assert model.oof_score_ == pytest.approx(r2_score(T, predicted, sample_weight=weights))
    labels = mlp(**SEVERAL).fit(X, Y, weights)
    right = np.nan_to_num(labels.oof_prediction_).argmax(axis=1) == Y
    assert labels.oof_score_ == pytest.approx(np.average(right, weights=weights))


def test_rows_of_the_users_own_are_scored_by_all_networks() -> None:
    X_val, _, y_val = numbers(40, seed=1)
    model = mlpr(**SEVERAL).fit(X, T, X_val=X_val, y_val=y_val)
    # Nearly equal: out-of-fold predictions are those of epochs that other rows have chosen.
    np.testing.assert_allclose(model.oof_prediction_, model.predict(X_val), rtol=0.05)
    assert model.oof_score_ == pytest.approx(model.score(X_val, y_val), abs=0.05)


# --- predictions


def test_probabilities_are_the_weighted_mean_of_those_of_the_networks(classifier: Any) -> None:
    for model in (classifier, reweighted(classifier, [0.5, 0.3, 0.2])):
        expected = sum(
            group.weight * torch.softmax(outputs(group, F), -1).mean(dim=0).numpy() for group in model.fitted_.groups
        )
        np.testing.assert_allclose(model.predict_proba(F), expected, atol=1e-9)
        assert (model.predict(F) == expected.argmax(axis=1)).all()


def test_numbers_are_the_weighted_mean_of_those_of_the_networks_and_so_is_the_deviation(regressor: Any) -> None:
    for model in (regressor, reweighted(regressor, [0.5, 0.2, 0.2, 0.1])):
        groups = model.fitted_.groups
        values = np.concatenate([group.targets.numbers(outputs(group, F))[:, :, 0] for group in groups])
        weights = np.repeat([group.weight / 3 for group in groups], 3)
        mean, std = model.predict(F, return_std=True)
        np.testing.assert_allclose(mean, np.average(values, axis=0, weights=weights), rtol=1e-9)
        variance = np.average((values - mean) ** 2, axis=0, weights=weights)
        np.testing.assert_allclose(std, np.sqrt(variance), rtol=1e-6, atol=1e-9)


def test_a_temperature_divides_the_logarithms_of_probabilities_and_keeps_the_labels(classifier: Any) -> None:
    plain, warm = (reweighted(classifier, [0.7, 0.2, 0.1], temperature) for temperature in (1.0, 1.4))
    np.testing.assert_allclose(warm.predict_proba(F), scaled_by(plain.predict_proba(F), 1.4), atol=1e-12)
    np.testing.assert_allclose(warm.predict_log_proba(F), np.log(warm.predict_proba(F)), atol=1e-12)
    assert (warm.predict(F) == plain.predict(F)).all()
    assert warm.predict_proba(F).max() < plain.predict_proba(F).max()


def test_probabilities_that_are_not_sure_enough_are_calibrated() -> None:
    # Networks that learn smoothed labels are less sure than they could be.
    unsure = LEARNS | {"label_smoothing": 0.5}
    plain, calibrated = (mlp(**unsure, calibrated=flag).fit(X, Y) for flag in (False, True))
    assert plain.fitted_.temperature == 1.0 and calibrated.fitted_.temperature < 1.0
    assert calibrated.oof_scores_["log_loss"] < plain.oof_scores_["log_loss"]
    assert calibrated.oof_scores_["accuracy"] == plain.oof_scores_["accuracy"]
    assert (calibrated.predict(X) == plain.predict(X)).all()
    np.testing.assert_allclose(
        calibrated.predict_proba(X), scaled_by(plain.predict_proba(X), calibrated.fitted_.temperature), atol=1e-9
    )
    few = mlp(**unsure).fit(X[:40], Y[:40])
    assert few.fitted_.temperature == 1.0  # too few rows to tell


# --- targets of all kinds

KINDS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "binary": (mlp, Y, {}),
    "strings": (mlp, np.where(Y, "yes", "no"), {}),
    "multiclass": (gnm, Y3, {"n_nodes": 60}),
    "multilabel": (mlp, np.column_stack([Y, Y3 > 1, np.zeros(N, dtype=int)]).astype(int), {}),
    "joint": (mlp, np.column_stack([Y + 5, Y3]), {}),
    "one class": (mlp, np.zeros(N), {}),
    "balanced": (mlp, Y3, {"class_weight": "balanced"}),
    "smooth labels": (mlp, Y, {"label_smoothing": 0.1}),
    "number": (gnmr, T, {"n_nodes": 60}),
    "several numbers": (mlpr, np.column_stack([T, -3 * T, T**2]), {}),
    "quantile": (mlpr, T, {"loss": "quantile", "quantile": 0.8}),
    "huber": (mlpr, T, {"loss": "huber"}),
    "absolute error": (mlpr, T, {"loss": "absolute_error"}),
    "counts": (gnmr, np.floor(np.exp(T / 40)), {"n_nodes": 60, "loss": "poisson"}),
    "amounts": (mlpr, np.exp(T / 40), {"loss": "gamma"}),
    "several amounts": (mlpr, np.column_stack([Y * np.exp(T / 40), np.exp(-T / 20)]), {"loss": "tweedie"}),
    "logarithm": (mlpr, np.exp(T / 40), {"target_transform": "log"}),
    "as it is": (mlpr, T / 50, {"scale_target": False}),
    "constant": (mlpr, np.full(N, 3.0), {}),
}


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_pack_learns_targets_of_every_kind(kind: str, weighted: bool) -> None:
    make, y, changed = KINDS[kind]
    weights = np.random.default_rng(0).uniform(0.5, 2, N) if weighted else None
    model = make(**(SEVERAL | changed)).fit(X, y, weights)
    assert model.predict(X).shape == y.shape
    if make in (mlp, gnm):
        assert set(np.unique(model.predict(X))) <= set(np.unique(y))
    assert sum(group.weight for group in model.fitted_.groups) == pytest.approx(1)
    assert np.isfinite(list(model.oof_scores_.values())).all()
    predicted = model.predict_proba(X) if make in (mlp, gnm) else model.predict(X)
    left_out = model.oof_prediction_
    for one, other in zip(*((own if kind == "joint" else [own]) for own in (predicted, left_out)), strict=True):
        assert one.shape == other.shape and np.isfinite(one).all() and np.isfinite(other).all()
    assert model.feature_importances_.sum() == pytest.approx(1)


def test_rare_classes_have_no_out_of_fold_prediction_but_a_probability() -> None:
    y = Y.astype(int).copy()
    y[7] = 9
    model = mlp(**SEVERAL).fit(X, y)
    assert np.isnan(model.oof_prediction_).any(axis=1).nonzero()[0].tolist() == [7]
    assert model.predict_proba(X).shape == (N, 3) and np.isfinite(model.oof_score_)


def test_without_validation_there_is_a_single_candidate() -> None:
    for model in (mlp(n_candidates=5, n_folds=0).fit(X, Y), mlp(n_candidates=5).partial_fit(X, Y, [0, 1])):
        assert len(model.pack_) == 1 and model.pack_["weight"].tolist() == [1.0]
        for name in ("oof_score_", "oof_scores_"):
            with pytest.raises(AttributeError, match=f"^{name} needs rows that networks were not trained on"):
                getattr(model, name)


def test_continued_training_keeps_candidates_and_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack, "greedy_weights", equal_weights)
    model = mlp(**SEVERAL, warm_start=True).fit(X, Y)
    model = reweighted(model, [0.6, 0.3, 0.1]).fit(X, Y).partial_fit(X, Y)
    assert [group.weight for group in model.fitted_.groups] == [0.6, 0.3, 0.1]
    assert [len(history["train_loss"]) for history in model.history_] == [4 + 4 + 1] * 6


# --- what candidates are chosen by


@pytest.mark.parametrize(
    ("make", "metric"),
    [
        (mlp, "accuracy"),
        (mlp, "roc_auc"),
        (mlp, "auc"),
        (mlp, "log_loss"),
        (mlp, make_scorer(log_loss, response_method="predict_proba", greater_is_better=False)),
        (mlpr, "mae"),
        (mlpr, "rmse"),
        (mlpr, "r2"),
        (mlpr, make_scorer(mean_absolute_error, greater_is_better=False)),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_scores_of_scikit_learn_choose_candidates(make: Any, metric: Any) -> None:
    y = Y if make is mlp else T
    weights = np.random.default_rng(0).uniform(0.5, 2, N)
    model = make(**SEVERAL, metric=metric).fit(X, y, weights)
    assert len(model.pack_) == 3 and sum(group.weight for group in model.fitted_.groups) == pytest.approx(1)


@pytest.mark.parametrize("kind", ["multiclass", "multilabel", "joint", "several numbers"])
def test_scorers_get_predictions_in_the_form_of_the_estimators(kind: str) -> None:
    make, y, changed = KINDS[kind]
    seen: list[Any] = []

    def score(estimator: Any, _X: Any, y: Any) -> float:
        seen.append((y, estimator.predict(None)))
        return float((estimator.predict(None) == y).mean())

    fitted = make(**(SEVERAL | changed), metric=score).fit(X, y)
    assert all(own.shape == predicted.shape and own.shape[1:] == y.shape[1:] for own, predicted in seen)
    assert len(seen[-1][0]) == len(y)  # first a few rows, to see whether the scorer fits
    assert seen[0][1].dtype == fitted.predict(X).dtype


def test_another_metric_may_choose_other_candidates() -> None:
    """A scorer that prefers low numbers takes the candidate with the lowest predictions."""

    def low(estimator: Any, _X: Any, _y: Any) -> float:
        return -float(estimator.predict(None).mean())

    model = mlpr(**SEVERAL, metric=low).fit(X, T)
    found = {}
    for number in range(3):
        candidates = mlpr(**SEVERAL)
        prepared = candidates._prepare(X, T)
        one = replace(prepared, candidates=[prepared.candidates[number]])
        found[number] = candidates._train(one, 0.0).oof_prediction_.mean()
    assert model.pack_["weight"].idxmax() == min(found, key=lambda number: found[number])
    assert model.pack_["weight"].max() == 1.0


# --- the race


def test_candidates_that_are_clearly_behind_are_trained_on_the_first_folds_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    efforts = {key: replace(effort, race_rows=100) for key, effort in _EFFORTS.items()}
    monkeypatch.setattr("tabgnm.estimators.effort._EFFORTS", efforts)
    model = mlp(n_candidates=6, n_folds=4, max_epochs=2).fit(X, Y)
    table = model.pack_
    assert table["stopped_by_race"].sum() >= 3  # at most half go on
    assert (table["networks"] == np.where(table["stopped_by_race"], 2, 4)).all()
    assert (table["weight"][table["stopped_by_race"]] == 0).all() and table["weight"].sum() == pytest.approx(1)
    assert np.isfinite(table["loss"]).all() and np.isfinite(model.oof_prediction_).all()


def test_small_tables_have_no_race() -> None:
    assert (mlp(n_candidates=6, n_folds=4, max_epochs=2).fit(X, Y).pack_["networks"] == 4).all()


# --- its end


@pytest.mark.filterwarnings("ignore:time_limit")
@pytest.mark.parametrize("how", ["time limit", "Ctrl-C"])
def test_continued_training_that_is_ended_keeps_the_networks_that_it_did_not_reach(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack, "greedy_weights", equal_weights)
    model = mlpr(**SEVERAL, warm_start=True).fit(X, T)
    before = [group.parameters for group in model.fitted_.groups]
    if how == "time limit":
        model.set_params(time_limit=1e-6).fit(X, T)
    else:
        run_fleets = pack.FleetPlan.run_fleets

        def only_one(self: Any, **arguments: Any) -> Any:
            yield next(run_fleets(self, **arguments))
            raise Interrupted

        monkeypatch.setattr(pack.FleetPlan, "run_fleets", only_one)
        with pytest.raises(KeyboardInterrupt, match="best weights"):
            model.fit(X, T)
        kept = [
            all(torch.equal(values, after.parameters[name]) for name, values in own.items())
            for own, after in zip(before, model.fitted_.groups, strict=True)
        ]
        assert sum(kept) == 2
    assert model.fitted_.n_networks == 6 and [group.weight for group in model.fitted_.groups] == [1 / 3] * 3
    assert np.isfinite(model.predict(X)).all() and np.isfinite(model.oof_prediction_).all()


def test_ctrl_c_keeps_the_candidates_that_were_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first fleet is complete; the second one is interrupted in its first epochs."""
    n_fleets = [0]
    run_fleet = pack.FleetPlan.run_fleet

    def interrupting(self: Any, fleet: Any, *device: Any, **arguments: Any) -> Any:
        n_fleets[0] += 1
        if n_fleets[0] == 2:
            timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
            timer.start()
            endless = replace(fleet, settings=replace(fleet.settings, max_epochs=10**6, patience=None))
            return run_fleet(self, endless, *device, **arguments)
        return run_fleet(self, fleet, *device, **arguments)

    monkeypatch.setattr(pack.FleetPlan, "run_fleet", interrupting)
    model = mlpr(n_candidates=4, max_epochs=2)
    with pytest.raises(KeyboardInterrupt, match="best weights"):
        model.fit(X, T)
    assert n_fleets == [2] and len(model.pack_) == 4
    assert (model.pack_["networks"] == 0).any() and (model.pack_["networks"] == 2).any()
    assert model.pack_["weight"].sum() == pytest.approx(1) and np.isfinite(model.predict(X)).all()
    assert np.isfinite(model.oof_score_)


@pytest.mark.parametrize("time_limit", [None, 60])
@pytest.mark.parametrize("race_rows", [10, 10_000])
def test_training_that_diverges_in_all_networks_is_an_error_that_names_the_rate(
    time_limit: float | None, race_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    efforts = {key: replace(effort, race_rows=race_rows) for key, effort in _EFFORTS.items()}
    monkeypatch.setattr("tabgnm.estimators.effort._EFFORTS", efforts)
    diverging = mlpr(n_candidates=4, n_folds=3, learning_rate=1e30, warmup=0.0, time_limit=time_limit)
    with pytest.raises(ValueError, match=r"all \d+ networks.*learning_rate=1e\+30; use a smaller learning_rate"):
        diverging.fit(X, T)


# --- found by review


@pytest.mark.parametrize(
    ("make", "y", "metric"),
    [
        (mlpr, T, "accuracy"),
        (mlp, np.where(Y, "yes", "no"), "mae"),
        (mlp, np.where(Y, "yes", "no"), "f1"),
        (mlp, Y, lambda _a, _b: 1.0),
    ],
)
def test_a_metric_that_does_not_fit_is_refused_before_training(
    make: Any, y: Any, metric: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack, "train", lambda *_: pytest.fail("training began"))
    with pytest.raises(ValueError, match="cannot score these targets"):
        make(metric=metric).fit(X, y)


def test_the_area_under_the_curve_of_several_classes_is_one_against_the_rest() -> None:
    assert 0.5 < mlp(metric="roc_auc", **LEARNS).fit(X, Y3).oof_scores_["metric"] <= 1


def test_scorers_whose_function_takes_no_weights_are_not_given_any() -> None:
    scorer = make_scorer(lambda a, b: float(np.mean(a == b)))
    assert mlp(metric=scorer, class_weight="balanced").fit(X, Y).oof_scores_["metric"] > 0


def test_out_of_fold_scores_have_no_class_weights() -> None:
    few = (np.arange(N) % 10 == 0).astype(int)
    model = mlp(class_weight="balanced").fit(X, few)
    assert model.oof_score_ == pytest.approx(np.mean(model.oof_prediction_.argmax(axis=1) == few))


def test_a_row_of_validation_counts_once_in_an_interval() -> None:
    model = mlpr(n_folds=4).fit(X, T, X_val=X[:10], y_val=T[:10])
    assert model.fitted_.n_left_out == 10 and len(model.fitted_.residuals) == 1
    with pytest.raises(ValueError, match=r"coverage=0.95 requires more than 10 rows"):
        model.predict_interval(X, 0.95)
    low, high = model.predict_interval(X, 0.05).T
    assert (low <= high).all()


def test_rows_of_a_class_with_a_single_row_have_no_prediction_out_of_fold() -> None:
    rare = np.where(np.arange(len(X)) == 5, 7, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = mlp(n_folds=2).fit(X, rare)
    assert np.flatnonzero(np.isnan(model.oof_prediction_).any(axis=1)).tolist() == [5]
    known = np.arange(len(X)) != 5
    right = model.classes_[model.oof_prediction_[known].argmax(axis=1)] == rare[known]
    assert model.oof_score_ == pytest.approx(right.mean())


def test_a_metric_that_is_no_number_for_any_candidate_does_not_choose_the_first_one_silently() -> None:
    unknown = make_scorer(lambda _y, _predicted: np.nan)
    with pytest.warns(
        UserWarning, match=r"is not a finite number for any candidate on \d+ left-out rows; .* by their loss"
    ):
        model = mlp(**SEVERAL, metric=unknown).fit(X, Y)
    expected = mlp(**SEVERAL).fit(X, Y)
    assert model.pack_["weight"].tolist() == expected.pack_["weight"].tolist()


@pytest.mark.parametrize("metric", ["log_loss", "roc_auc", "neg_brier_score", "average_precision"])
def test_a_metric_scores_rows_that_lack_a_class(metric: str) -> None:
    rare = np.where(np.arange(len(X)) == 5, 7, Y)  # in no validation fold
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=ConvergenceWarning)
        model = mlp(**SEVERAL, metric=metric).fit(X, rare)
    assert np.isfinite(model.oof_scores_["metric"])


def test_a_metric_that_fails_for_the_left_out_rows_is_replaced_by_the_loss() -> None:
    def fails(y: Any, _predicted: Any) -> float:
        if len(y) > N // 2:
            raise RuntimeError("too many rows")
        return 0.0

    with pytest.warns(UserWarning, match="is not a finite number for any candidate") as caught:
        model = mlp(**SEVERAL, metric=make_scorer(fails)).fit(X, Y)
    assert caught[0].filename == __file__ and np.isnan(model.oof_scores_["metric"])
    assert model.pack_["weight"].tolist() == mlp(**SEVERAL).fit(X, Y).pack_["weight"].tolist()


@pytest.mark.parametrize("metric", ["mae", "r2", "neg_median_absolute_error"])
def test_metrics_of_numbers_are_refused_for_classes(metric: str) -> None:
    with pytest.raises(ValueError, match=rf"metric='{metric}' cannot score these targets \(it compares numbers"):
        mlp(metric=metric).fit(X, Y)
