"""Networks of a candidate: seeds, validation rows, early stopping, history; nothing is learned from rows to validate on."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss, r2_score

from tabgnm.estimators.pack import TrainedPack
from tabgnm.table import TableEncoder, read_table
from tabgnm.training import Fleet
from tests.estimators.examples import gnm, mlp, mlpr, numbers

X, Y, T = numbers()
X_VAL, Y_VAL, T_VAL = numbers(60, seed=1)


def same_weights(one: Any, other: Any) -> bool:
    pairs = zip(one.fitted_.groups, other.fitted_.groups, strict=True)
    return all(
        ours.parameters.keys() == theirs.parameters.keys()
        and all(torch.equal(values, theirs.parameters[name]) for name, values in ours.parameters.items())
        for ours, theirs in pairs
    )


def validation_rows(model: Any, X: Any = X, y: Any = Y) -> list[list[int]]:
    (candidate,) = model._prepare(X, y).candidates
    return [member.val.tolist() for member in candidate.members]


def test_an_integer_seed_is_reproducible() -> None:
    assert same_weights(gnm().fit(X, Y), gnm().fit(X, Y))
    assert not same_weights(gnm().fit(X, Y), gnm(random_state=1).fit(X, Y))
    assert not same_weights(mlp(random_state=None).fit(X, Y), mlp(random_state=None).fit(X, Y))


def test_a_second_fit_forgets_the_first() -> None:
    model = mlp().fit(X[:, :2], 1 - Y)
    assert same_weights(model.fit(X, Y), mlp().fit(X, Y))
    assert len(model.history_[0]["train_loss"]) == 3 and model.n_features_in_ == 4


def test_networks_differ_in_seed_and_validation_rows() -> None:
    model = mlp(n_folds=3).fit(X, Y)
    assert len(set(model.fitted_.groups[0].seeds)) == 3
    rows = validation_rows(mlp(n_folds=3))
    assert len({tuple(own) for own in rows}) == 3
    weights = [net.state_dict() for net in model.members_]
    assert all(not torch.equal(weights[0][name], weights[1][name]) for name in weights[0] if "bias" not in name)


@pytest.mark.parametrize(("n_folds", "n_own"), [(1, [6, 4, 2]), (5, [12, 8, 4])])
def test_validation_rows_are_a_share_of_each_class_and_not_trained_on(n_folds: int, n_own: list[int]) -> None:
    y = np.repeat([0, 1, 2], [60, 40, 20])
    (candidate,) = mlp(n_folds=n_folds)._prepare(X, y).candidates
    assert len(candidate.members) == n_folds
    for member in candidate.members:
        val, train = member.val.numpy(), member.train.numpy()
        assert sorted([*val, *train]) == list(range(len(X)))
        np.testing.assert_allclose(np.bincount(y[val]), n_own, atol=1)


def test_the_first_networks_do_not_change_when_there_are_more_with_the_same_rows() -> None:
    few, many = (mlp(n_folds=n, precision="float64").fit(X, Y, X_val=X_VAL, y_val=Y_VAL) for n in (2, 4))
    for name, values in few.fitted_.groups[0].parameters.items():
        np.testing.assert_allclose(values, many.fitted_.groups[0].parameters[name][:2], atol=1e-12)


def test_without_validation_the_last_epoch_is_kept_and_there_is_no_validation_loss() -> None:
    model = mlp(n_folds=0, patience=1).fit(X, Y)
    (history,) = model.history_
    assert history["val_loss"] == [] and history["val_accuracy"] == []
    assert history["best_epoch"] == len(history["train_loss"]) == 3 and history["status"] == "completed"


@pytest.mark.parametrize(("make", "metric"), [(mlp, "val_accuracy"), (mlpr, "val_r2")])
def test_the_history_has_losses_and_the_metric_per_epoch_and_network(make: Any, metric: str) -> None:
    model = make(max_epochs=5).fit(X, Y if make is mlp else T)
    assert len(model.history_) == 2
    for history in model.history_:
        assert set(history) == {"train_loss", "val_loss", metric, "best_epoch", "status"}
        assert len(history["train_loss"]) == len(history["val_loss"]) == len(history[metric]) == 5
        assert np.isfinite([history["train_loss"], history["val_loss"], history[metric]]).all()


@pytest.mark.parametrize("make", [mlp, mlpr])
def test_the_best_epoch_is_kept_and_its_loss_and_metric_are_those_of_the_predictions(make: Any) -> None:
    y, y_val = (Y, Y_VAL) if make is mlp else (T, T_VAL)
    # Labels of which many are wrong: validation gets worse soon.
    y = np.where(np.arange(len(y)) % 3 == 0, y[::-1], y)
    plain = {"calibrated": False} if make is mlp else {}
    model = make(n_folds=1, max_epochs=40, learning_rate=0.05, patience=None, **plain)
    model.fit(X, y, X_val=X_VAL, y_val=y_val)
    (history,) = model.history_
    best = history["best_epoch"]
    assert best == 1 + int(np.argmin(history["val_loss"])) < 40
    if make is mlp:
        assert log_loss(y_val, model.predict_proba(X_VAL)) == pytest.approx(history["val_loss"][best - 1], rel=1e-4)
        assert model.score(X_VAL, y_val) == pytest.approx(history["val_accuracy"][best - 1], abs=1e-6)
    else:
        assert model.score(X_VAL, y_val) == pytest.approx(history["val_r2"][best - 1], abs=1e-4)


@pytest.mark.parametrize("scale_target", [True, False])
def test_the_r2_of_several_outputs_weighs_them_by_their_variance_as_the_networks_see_it(scale_target: bool) -> None:
    y, y_val = (np.column_stack([own, 3 * own**2 / 50]) for own in (T, T_VAL))
    model = mlpr(n_folds=1, scale_target=scale_target, max_epochs=5).fit(X, y, X_val=X_VAL, y_val=y_val)
    targets, (history,) = model.fitted_.targets, model.history_
    seen = [(own - targets.center) / targets.scale for own in (y_val, model.predict(X_VAL))]
    expected = r2_score(*seen, multioutput="variance_weighted")
    assert history["val_r2"][history["best_epoch"] - 1] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("targets", ["multilabel", "joint"])
def test_the_accuracy_of_several_labels_counts_rows_with_all_of_them_right(targets: str) -> None:
    y, y_val = ((np.column_stack([own[:, 0] > 0, own[:, 1] > 0, own[:, 2] > 0]).astype(int)) for own in (X, X_VAL))
    if targets == "joint":
        y, y_val = y + 1, y_val + 1
    model = mlp(n_folds=1, max_epochs=5, learning_rate=0.02).fit(X, y, X_val=X_VAL, y_val=y_val)
    (history,) = model.history_
    score = model.score(X_VAL, y_val)
    assert 0.1 < score < (model.predict(X_VAL) == y_val).mean()
    assert history["val_accuracy"][history["best_epoch"] - 1] == pytest.approx(score, abs=1e-6)


@pytest.mark.parametrize("make", [mlp, mlpr])
def test_the_metric_of_each_network_is_that_of_its_own_rows_by_their_weights(make: Any) -> None:
    y, weights = (Y if make is mlp else T), np.random.default_rng(0).uniform(0.1, 5, len(X))
    model = make(n_folds=3)
    (candidate,) = model._prepare(X, y, weights).candidates
    model.fit(X, y, weights)
    (group,) = model.fitted_.groups
    for position, history in enumerate(model.history_):
        rows = candidate.members[position].val.numpy()
        alone = copy.copy(model)
        one = {name: values[position : position + 1] for name, values in group.parameters.items()}
        alone.fitted_ = replace(model.fitted_, groups=[replace(group, parameters=one, seeds=[0])])
        metric = history["val_accuracy" if make is mlp else "val_r2"][history["best_epoch"] - 1]
        assert metric == pytest.approx(alone.score(X[rows], y[rows], weights[rows]), abs=1e-5)


def test_where_targets_to_validate_on_do_not_vary_r2_is_1_or_0_as_in_scikit_learn() -> None:
    (history,) = mlpr(n_folds=1).fit(X, T, X_val=X_VAL, y_val=np.full(len(X_VAL), 0.1)).history_
    assert history["val_r2"] == [0.0] * 3
    (history,) = mlpr(n_folds=1).fit(X, np.full(len(X), 7.3)).history_
    assert history["val_r2"] == [1.0] * 3


def test_patience_stops_a_network_after_that_many_epochs_without_improvement() -> None:
    y = np.where(np.arange(len(Y)) % 3 == 0, Y[::-1], Y)
    model = mlp(max_epochs=200, learning_rate=0.05, patience=4).fit(X, y)
    for history in model.history_:
        assert history["status"] == "stopped_early" and len(history["val_loss"]) == history["best_epoch"] + 4 < 200


def test_rows_to_validate_on_change_neither_encoding_nor_weights() -> None:
    # After one epoch there is nothing to stop: the weights are those of the training rows alone.
    plain = mlp(max_epochs=1, scaling="standard").fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    other = mlp(max_epochs=1, scaling="standard").fit(X, Y, X_val=1e6 * X_VAL + 7, y_val=1 - Y_VAL)
    assert same_weights(plain, other) and (plain.encode(X) == other.encode(X)).all()
    assert plain.history_[0]["val_loss"] != other.history_[0]["val_loss"]
    assert (plain.feature_importances_ == other.feature_importances_).all()
    # The counter-example: an encoder that sees them scales otherwise, and the comparison above would show it.
    leaking = TableEncoder(plain.fitted_.groups[0].encoder.settings).fit(
        read_table(np.concatenate([X, 1e6 * X_VAL + 7]))
    )
    assert not np.allclose(leaking.encode(read_table(X)), plain.encode(X), atol=0.1)


def test_rows_to_validate_on_decide_the_epoch() -> None:
    kept = [
        mlp(max_epochs=20, learning_rate=0.05).fit(X, Y, X_val=X_VAL, y_val=y).history_[0] for y in (Y_VAL, 1 - Y_VAL)
    ]
    assert kept[0]["best_epoch"] > kept[1]["best_epoch"]
    assert kept[0]["train_loss"] == kept[1]["train_loss"][: len(kept[0]["train_loss"])] or (
        kept[1]["train_loss"] == kept[0]["train_loss"][: len(kept[1]["train_loss"])]
    )


@pytest.mark.parametrize("make", [mlp, mlpr])
def test_rows_that_no_network_trains_on_are_not_looked_at(make: Any) -> None:
    y = Y if make is mlp else T
    (held_out,) = validation_rows(make(n_folds=1), X, y)
    X_spoilt, y_spoilt = X.copy(), y.copy()
    X_spoilt[held_out] += 1e6  # different rows, because equal ones would be in the same fold
    if make is mlpr:
        y_spoilt[held_out] = -1e6
    settings = {"n_folds": 1, "max_epochs": 1, "scaling": "standard"}
    plain, spoilt = make(**settings).fit(X, y), make(**settings).fit(X_spoilt, y_spoilt)
    assert same_weights(plain, spoilt) and (plain.predict(X) == spoilt.predict(X)).all()
    leaking = TableEncoder(plain.fitted_.groups[0].encoder.settings).fit(read_table(X_spoilt))
    assert not np.allclose(leaking.encode(read_table(X)), plain.encode(X), atol=0.1)


def test_networks_that_diverge_are_left_out_with_a_warning() -> None:
    model = mlp(n_folds=3)
    prepared = model._prepare(X, Y)
    (candidate,) = prepared.candidates
    trained = Fleet(candidate.shape, candidate.members, candidate.fleet).fit(candidate.data.table).models
    history = replace(trained[1].history, status="diverged", best_epoch=0)
    trained[1] = replace(trained[1], history=history)
    pack = TrainedPack(prepared)
    for position, network in enumerate(trained):
        pack.add(0, position, network, 0.0)
    with pytest.warns(ConvergenceWarning, match="1 of 3 networks diverged"):
        model._keep(pack)
    assert model.fitted_.n_networks == 2 and model.fitted_.groups[0].folds == [0, 2]
    assert np.isfinite(model.predict_proba(X)).all()
    without = np.isnan(model.oof_prediction_).any(axis=1)
    assert np.flatnonzero(without).tolist() == candidate.members[1].val.tolist()
