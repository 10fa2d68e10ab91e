"""Out-of-fold predictions and scores do not depend on choices that were made with the same rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from tabgnm import GNMClassifier, GNMRegressor
from tabgnm.estimators.out_of_fold import OutOfFold
from tabgnm.estimators.unseen_levels import with_neutral_levels
from tabgnm.training import Fleet, FleetResult
from tests.estimators.examples import mlp, mlpr


@pytest.mark.parametrize(("make", "chance"), [(GNMClassifier, 0.5), (GNMRegressor, 0.0)])
def test_scores_of_noise_are_those_of_chance(make: Any, chance: float) -> None:
    """With epochs and weights chosen by the same rows, the mean accuracy was 0.65, and the mean R² 0.26."""
    found = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(60, 20)), rng.normal(size=60)
        found.append(
            make(effort="fast", random_state=0, n_jobs=1).fit(X, y > 0 if make is GNMClassifier else y).oof_score_
        )
    assert np.mean(found) < chance + 0.08, found


def test_rows_of_levels_without_training_rows_are_predicted_with_their_final_embedding() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"number": rng.normal(size=120), "site": rng.choice(list("abcdefghijkl"), 120)})
    X.loc[7, "site"] = "only here"
    y = rng.integers(0, 2, 120)
    prepared = mlp(n_folds=3, min_level_count=1, max_one_hot=2)._prepare(X, y)
    (candidate,) = prepared.candidates
    x = candidate.data.table.x
    for position, member in enumerate(candidate.members):
        (model,) = Fleet(candidate.shape, [member], candidate.fleet).fit(candidate.table(position)).models
        assert member.val is not None and member.train is not None and model.val_outputs is not None
        neutral = with_neutral_levels(model, x, member.train, member.val)
        assert neutral.val_outputs is not None
        unseen = ~torch.isin(x[member.val][:, -1], x[member.train][:, -1])
        assert unseen.any() == (7 in member.val.tolist())
        expected = FleetResult(neutral.shape, [neutral]).predict(x[member.val][unseen])[0]
        np.testing.assert_allclose(neutral.val_outputs[unseen], expected)
        np.testing.assert_array_equal(neutral.val_outputs[~unseen], model.val_outputs[~unseen])


def test_scores_do_not_depend_on_the_order_of_the_rows() -> None:
    """Each half of the rows must have all classes: with halves by position, the log-loss of these rows was 0.9."""
    losses = []
    for order in (np.arange(100), np.random.default_rng(0).permutation(100)):
        found = []
        for seed in range(4):
            rng = np.random.default_rng(seed)
            X, y = rng.normal(size=(300, 10)), np.tile([0, 1], 150)
            X[:, 0] += 0.6 * y
            clf = GNMClassifier(effort="fast", random_state=0, n_jobs=1)
            clf.fit(X[:200], y[:200], X_val=X[200:][order], y_val=y[200:][order])
            found.append(clf.oof_scores_["log_loss"])
        losses.append(np.mean(found))
    assert abs(losses[0] - losses[1]) < 0.06, losses


@pytest.mark.parametrize("of_units", [lambda rows: {}, lambda rows: {"groups": rows}], ids=["copies", "groups"])
def test_copies_and_groups_of_a_row_do_not_choose_its_epoch(of_units: Any) -> None:
    """Copies on both sides of the halves, their scores would be those of the rows that chose."""
    scores = {}
    for name, rows in (("once", np.arange(120)), ("repeated", np.arange(120).repeat(3))):
        found = []
        for seed in range(6):
            rng = np.random.default_rng(seed)
            X, y = rng.normal(size=(120, 20)), rng.normal(size=120)
            model = GNMRegressor(effort="fast", random_state=0, n_jobs=1)
            found.append(model.fit(X[rows], y[rows], **of_units(rows)).oof_score_)
        scores[name] = np.mean(found)
    assert abs(scores["repeated"] - scores["once"]) < 0.15, scores


def test_rows_and_others_of_their_group_do_not_choose_the_weights_that_combine_them() -> None:
    rng = np.random.default_rng(0)
    groups, y = np.arange(60).repeat(2), rng.random(120)
    prepared = mlpr(n_folds=2, n_candidates=2)._prepare(rng.normal(size=(120, 2)), y, groups=groups)
    predictions = np.stack([np.zeros((120, 1)), np.ones((120, 1))])  # combined, they are the weight of the second one

    def combined(y: Any, of_rows: Any = None) -> Any:
        targets = torch.from_numpy(y)[:, None]
        out_of_fold = OutOfFold(prepared, [0, 1], np.arange(120), predictions, targets, of_rows, "auto")
        out_of_fold.combine(np.ones(2), 2)
        assert out_of_fold.combined is not None
        return out_of_fold.combined[:, 0]

    weights = combined(y)
    is_second = weights == weights.max()
    assert 0 < is_second.sum() < 120 and (is_second[::2] == is_second[1::2]).all()
    changed = combined(np.where(is_second, 0.2 * y, y))
    np.testing.assert_array_equal(changed[is_second], weights[is_second])
    assert (changed[~is_second] < weights[~is_second]).all()
    assert (combined(y, np.where(y > 0.5, 1e-6, 1.0)) < weights).all()
