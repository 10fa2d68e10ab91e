"""partial_fit and warm_start."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.estimators.examples import gnmr, mlp, mlpr, numbers

X, Y, T = numbers(600)


def test_partial_fit_learns_on_a_stream() -> None:
    classifier, regressor = mlp(learning_rate=0.02), gnmr(learning_rate=0.02)
    for _ in range(3):
        for first in range(0, 600, 100):
            rows = slice(first, first + 100)
            classifier.partial_fit(X[rows], Y[rows], classes=[0, 1])
            regressor.partial_fit(X[rows], T[rows])
    assert classifier.score(X, Y) > 0.9 and regressor.score(X, T) > 0.8
    assert len(classifier.history_[0]["train_loss"]) == 18 == classifier.history_[0]["best_epoch"]


def test_partial_fit_may_first_see_some_of_the_classes() -> None:
    model = mlp(learning_rate=0.02).partial_fit(X[Y == 0], ["no"] * int((Y == 0).sum()), classes=["no", "yes", "maybe"])
    assert model.classes_.tolist() == ["maybe", "no", "yes"] and (model.predict(X) == "no").mean() > 0.9
    for _ in range(5):
        model.partial_fit(X, np.where(Y, "yes", "no"))
    assert (model.predict(X) == np.where(Y, "yes", "no")).mean() > 0.85


def test_partial_fit_takes_class_weights_of_labels_that_these_rows_lack() -> None:
    model = mlp(class_weight={"a": 1.0, "b": 2.0}).partial_fit(X[:20], ["a", "c"] * 10, classes=["a", "b", "c"])
    assert model.predict_proba(X).shape == (600, 3)


@pytest.mark.parametrize("several", [False, True])
def test_class_weights_of_partial_fit_are_weights_of_rows(several: bool) -> None:
    y, weights = Y, np.where(Y, 3.0, 2.0)
    class_weight: Any = {0: 2.0, 1: 3.0}
    if several:
        y, weights, class_weight = (
            np.column_stack([Y, 1 - Y]),
            np.where(Y, 9.0, 4.0),
            [{0: 2.0, 1: 3.0}, {0: 3.0, 1: 2.0}],
        )
    classes = None if several else [0, 1]
    given = mlp(class_weight=class_weight).partial_fit(X, y, classes).predict_proba(X)
    np.testing.assert_allclose(given, mlp().partial_fit(X, y, classes, weights).predict_proba(X), atol=1e-12)


@pytest.mark.parametrize(("n_folds", "n_networks"), [("auto", 4), (3, 3), (1, 1), (0, 1)])
def test_partial_fit_trains_as_many_networks_as_there_would_be_folds(n_folds: Any, n_networks: int) -> None:
    model = mlp(n_folds=n_folds).partial_fit(X, Y, [0, 1]).partial_fit(X, Y)
    assert len(model.members_) == n_networks and not model.fitted_.scores


def test_partial_fit_continues_after_fit() -> None:
    model = mlp().fit(X, Y)
    before = model.predict_proba(X)
    assert model.partial_fit(X, Y) is model
    assert len(model.history_[0]["train_loss"]) == 4
    assert 0 < np.abs(model.predict_proba(X) - before).max() < 0.5


def test_each_call_of_partial_fit_shuffles_differently_and_a_stream_is_reproducible() -> None:
    def stream() -> list[float]:
        model = mlp(learning_rate=0.0, dropout=0.5)
        for _ in range(3):
            model.partial_fit(X, Y, classes=[0, 1])
        losses: list[float] = model.history_[0]["train_loss"]
        return losses

    losses = stream()
    assert len(set(losses)) == 3 and losses == stream()


def test_warm_start_continues_from_the_current_weights() -> None:
    model = mlp(warm_start=True, max_epochs=4, learning_rate=0.01, patience=None).fit(X, Y)
    first = list(model.history_[0]["train_loss"])
    model.fit(X, Y)
    second = model.history_[0]["train_loss"]
    assert second[:4] == first and len(second) == 8 and second[4] < first[0] and second[-1] < first[-1]


def test_warm_start_may_change_training_parameters_but_not_the_network() -> None:
    model = mlpr(warm_start=True).fit(X, T)
    model.set_params(max_epochs=2, learning_rate=0.1, batch_size=64, loss="huber", random_state=5).fit(X, T)
    assert len(model.history_[0]["train_loss"]) == 5 and model.fitted_.targets.loss.name == "huber"
    with pytest.raises(ValueError, match="scale_target=False was True"):
        model.set_params(scale_target=False).fit(X, T)


@pytest.mark.parametrize(
    ("name", "value"), [("column_kinds", {0: "number"}), ("hidden", [8]), ("hidden", np.array([8]))]
)
def test_a_parameter_changed_in_place_is_noticed(name: str, value: Any) -> None:
    model = mlp(warm_start=True, **{name: value}).fit(X, Y).fit(X, Y)
    value[0] = "category" if isinstance(value, dict) else 9
    with pytest.raises(ValueError, match=rf"{name}=.* was .* when training started"):
        model.fit(X, Y)


def test_warm_start_keeps_columns_and_scaling_of_the_first_fit() -> None:
    model = mlp(warm_start=True, scaling="standard").fit(X, Y)
    encoded = model.encode(X)
    assert (model.fit(X * 100, Y).encode(X) == encoded).all()


def test_a_failed_fit_leaves_the_model_as_it_was() -> None:
    model = mlp().fit(X, Y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="inconsistent"):
        model.fit(X, Y[:5])
    assert (model.predict_proba(X) == before).all()


def test_epochs_without_validation_leave_gaps_in_the_history() -> None:
    model = mlp(max_epochs=3).fit(X, Y).partial_fit(X, Y)
    history = model.history_[0]
    assert len(history["train_loss"]) == len(history["val_loss"]) == len(history["val_accuracy"]) == 4
    assert history["val_loss"][3] is None and np.isnan(history["val_accuracy"][3])


def test_warm_start_has_the_same_folds_whichever_candidate_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    def last_leads(predictions: Any, _losses: Any, _most: int) -> Any:
        weights = np.arange(1.0, 1.0 + len(predictions))
        return weights / weights.sum()

    monkeypatch.setattr("tabgnm.estimators.pack.greedy_weights", last_leads)
    model = mlp(n_candidates=3, n_folds=3, warm_start=True, dropout="auto", activation="auto").fit(X, Y)
    before = [fold.val for fold in mlp(n_folds=3)._prepare(X, Y).rows.folds]
    after = [fold.val for fold in model._prepare(X, Y, previous=model.fitted_).rows.folds]
    assert all(own is not None and other is not None for own, other in zip(before, after, strict=True))
    assert [own.tolist() for own in before if own is not None] == [own.tolist() for own in after if own is not None]


def test_partial_fit_keeps_the_temperature_and_says_that_errors_are_gone() -> None:
    classifier = mlp().fit(X, Y)
    classifier.fitted_.temperature = 1.25
    assert classifier.partial_fit(X, Y).fitted_.temperature == 1.25
    with pytest.raises(ValueError, match="partial_fit does not hold out"):
        mlpr().fit(X, T).partial_fit(X, T).predict_interval(X)
