"""Pruning by a threshold, as in section 6.5 of the paper, and the table of edges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError

import tabgnm
from tabgnm import GNMClassifier, GNMRegressor, MLPClassifier

RNG = np.random.default_rng(0)
X = pd.DataFrame({"age": RNG.normal(size=80), "city": RNG.choice(["Oslo", "Rome", "Paris"], 80)})
Y = (X["age"] > 0).to_numpy()


@pytest.fixture(scope="module")
def pack() -> Any:
    return GNMClassifier(n_candidates=2, n_folds=2, max_epochs=3, random_state=0).fit(X, Y)


def edge_weights(model: Any) -> list[torch.Tensor]:
    found = []
    for group in model.fitted_.groups:
        body = getattr(group.shape, "body", group.shape)
        found += [group.parameters[name].flatten() for name in body.edge_parameters()]
    return found


def test_exactly_the_weights_below_the_threshold_become_zero_in_all_networks(pack: Any) -> None:
    before = torch.cat(edge_weights(pack))
    small = pack.prune(0.05)
    after = torch.cat(edge_weights(small))
    assert small.fitted_.n_networks == pack.fitted_.n_networks > 1
    assert torch.equal(after, torch.where(before.abs() < 0.05, 0.0, before))
    assert 0 < (after == 0).sum() < len(after)
    assert small.pruning_ == {
        "threshold": 0.05,
        "n_edges_before": int((before != 0).sum()),
        "n_edges_after": int((after != 0).sum()),
    }


def test_the_estimator_itself_and_learned_embeddings_stay_as_they_are(pack: Any) -> None:
    before, predicted = torch.cat(edge_weights(pack)), pack.predict_proba(X)
    small = pack.prune(0.1)
    assert torch.equal(torch.cat(edge_weights(pack)), before)
    np.testing.assert_array_equal(pack.predict_proba(X), predicted)
    assert not np.allclose(small.predict_proba(X), predicted)
    embedded = 0
    for own, other in zip(pack.fitted_.groups, small.fitted_.groups, strict=True):
        names = set(own.parameters) - set(getattr(own.shape, "body", own.shape).edge_parameters())
        embedded += len(names)
        assert all(torch.equal(own.parameters[name], other.parameters[name]) for name in names)
    assert embedded


def test_the_default_threshold_is_that_of_the_paper(pack: Any) -> None:
    assert pack.prune().pruning_["threshold"] == 1e-3


def test_scores_before_and_after_are_kept(pack: Any) -> None:
    small = pack.prune(0.2, X, Y)
    assert small.pruning_["score_before"] == pack.score(X, Y)
    assert small.pruning_["score_after"] == small.score(X, Y)


def test_out_of_fold_scores_do_not_survive(pack: Any) -> None:
    small = pack.prune(0.1)
    assert pack.oof_scores_
    for name in ("oof_scores_", "oof_prediction_"):
        with pytest.raises(AttributeError):
            getattr(small, name)


def test_a_pruned_estimator_can_be_saved(pack: Any, tmp_path: Path) -> None:
    small = pack.prune(0.1)
    small.save(tmp_path / "small.tabgnm")
    np.testing.assert_array_equal(tabgnm.load(tmp_path / "small.tabgnm").predict_proba(X), small.predict_proba(X))


def test_wrong_arguments_are_refused(pack: Any) -> None:
    with pytest.raises(NotFittedError):
        GNMClassifier().prune()
    with pytest.raises(ValueError, match="threshold=-1 is out of range"):
        pack.prune(-1)
    with pytest.raises(ValueError, match="X and y must be given together"):
        pack.prune(X=X)


@pytest.fixture(scope="module")
def single() -> Any:
    model = GNMRegressor(
        numeric_embedding=None, scaling="standard", n_candidates=1, n_folds=0, max_epochs=1, n_nodes=12, random_state=0
    )
    return model.fit(X, X["age"])


def test_edges_are_a_table_in_the_names_of_the_user(single: Any) -> None:
    edges = single.prune(0.2).edges()
    machine = single.prune(0.2).machine_
    assert list(edges.columns) == ["layer", "source", "target", "weight", "column"]
    assert len(edges) == machine.n_edges
    assert set(edges["source"]) <= {*machine.input_names, *(unit.name for unit in machine.units), "bias"}
    of_column = edges[edges["source"] == "city=Oslo"]
    assert len(of_column) and set(of_column["column"]) == {"city"}
    assert set(edges.loc[edges["source"].isin(["bias"]), "column"]) <= {""}


def test_edges_are_sorted_by_layer_target_and_size(single: Any) -> None:
    edges = single.edges()
    assert edges["layer"].is_monotonic_increasing
    for _, own in edges[edges["source"] != "bias"].groupby(["layer", "target"]):
        assert (own["weight"].abs().diff().dropna() <= 0).all()


def test_packs_have_no_edges_or_equations_but_say_what_to_do(pack: Any) -> None:
    for method in (pack.edges, pack.equations, pack.describe):
        with pytest.raises(ValueError, match=r"call distill\(X\)"):
            method()
    assert not hasattr(pack, "machine_")


def test_an_mlp_can_be_pruned_too() -> None:
    model = MLPClassifier(hidden=(8,), numeric_embedding=None, n_candidates=1, n_folds=0, max_epochs=1).fit(X, Y)
    small = model.prune(0.1)
    assert small.pruning_["n_edges_after"] < small.pruning_["n_edges_before"]
    assert small.machine_.n_edges <= small.pruning_["n_edges_after"]
