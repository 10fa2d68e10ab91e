"""The candidates of a pack: different settings, within what a user has fixed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabgnm import GNMClassifier, GNMRegressor, MLPClassifier
from tabgnm.estimators.candidates import BASE, LIST, SHORT_LIST, TableFacts, candidate_settings
from tabgnm.estimators.effort import EFFORT_NAMES, MAX_NUMERIC_INPUTS, MIN_EPOCHS, effort_for
from tests.estimators.examples import frame, gnmr, mlp, numbers

X, Y, T = numbers()
NUMERIC = ("scaling", "numeric_embedding", "n_basis", "numeric_dim", "frequency_scale")
FACTS = TableFacts(n_numbers=5)
AUTO = dict.fromkeys(BASE, "auto")

fixed_values = st.fixed_dictionaries(
    {},
    optional={
        "n_layers": st.integers(1, 5),
        "activation": st.sampled_from(["relu", "tanh"]),
        "learning_rate": st.floats(1e-4, 1e-1),
        "dropout": st.floats(0, 0.9),
        "scaling": st.sampled_from(["quantile", "standard"]),
        "numeric_embedding": st.sampled_from([None, "periodic", "piecewise"]),
        "numeric_dim": st.integers(1, 9),
        "clamp_inputs": st.booleans(),
        "target_transform": st.sampled_from(["none", "log"]),
    },
)


@given(fixed=fixed_values, n=st.integers(1, 30), n_numbers=st.integers(0, 700), long_tail=st.booleans())
def test_a_fixed_parameter_is_fixed_in_all_candidates_and_no_two_are_equal(
    fixed: dict[str, Any], n: int, n_numbers: int, long_tail: bool
) -> None:
    found = candidate_settings(AUTO | fixed, n, TableFacts(n_numbers, long_tail))
    assert 1 <= len(found) <= n
    for settings in found:
        assert set(settings) == set(BASE)
        assert {name: settings[name] for name in fixed} == fixed
    assert len({repr(sorted(settings.items(), key=str)) for settings in found}) == len(found)


@pytest.mark.parametrize("given", [LIST, SHORT_LIST], ids=["long", "short"])
def test_the_candidates_of_the_list_come_first_and_further_ones_are_always_the_same(given: Any) -> None:
    found = candidate_settings(AUTO, 30, FACTS, given)
    assert len(found) == 30
    listed = [
        own
        for own in given
        if own.get("target_transform") != "log" and not own.get("screen_columns") and not own.get("integer_codes")
    ]
    assert found[: len(listed)] == [BASE | own for own in listed]
    assert candidate_settings(AUTO, 30, FACTS, given) == found
    assert candidate_settings(AUTO, 4, FACTS, given) == found[:4]


@pytest.mark.parametrize(
    ("device", "effort"), [("cpu", "fast"), ("cpu", "default"), ("cpu", "best"), ("cuda", "default")]
)
def test_short_training_has_higher_learning_rates(device: str, effort: str) -> None:
    assert effort_for(effort, device, 1000).is_short == (device == "cpu" and effort != "best")
    rates = [[own.get("learning_rate", BASE["learning_rate"]) for own in listed] for listed in (LIST, SHORT_LIST)]
    assert np.mean(rates[1][:8]) > 2 * np.mean(rates[0][:8])


def test_candidates_that_become_equal_count_once() -> None:
    fixed = {name: value for name, value in BASE.items() if name != "activation"}
    found = candidate_settings(AUTO | fixed, 50, FACTS)
    activations = [settings["activation"] for settings in found]
    assert sorted(activations) == sorted(set(activations)) and {"silu", "relu", "tanh", "gelu"} == set(activations)
    assert len(candidate_settings(BASE, 50, FACTS)) == 1


def test_without_numbers_in_the_table_candidates_that_differ_in_their_encoding_are_equal() -> None:
    found = candidate_settings(AUTO, 16, TableFacts(n_numbers=0))
    others = [[value for name, value in sorted(own.items()) if name not in NUMERIC] for own in found]
    assert len({repr(own) for own in others}) == len(found) == 16
    open_to_numbers = dict.fromkeys(NUMERIC, "auto")
    assert len(candidate_settings(BASE | open_to_numbers, 16, TableFacts(n_numbers=0))) == 1
    assert len(candidate_settings(BASE | open_to_numbers, 16, FACTS)) == 16


@given(n_numbers=st.integers(1, 2000))
def test_learned_features_become_fewer_per_column_with_more_columns(n_numbers: int) -> None:
    for settings in candidate_settings(AUTO, 16, TableFacts(n_numbers)):
        assert settings["numeric_dim"] >= 1
        assert settings["numeric_dim"] == 1 or settings["numeric_dim"] * n_numbers <= MAX_NUMERIC_INPUTS
        if n_numbers <= 50:
            assert settings["numeric_dim"] == (8 if settings["numeric_embedding"] == "piecewise" else 4)
    (given,) = candidate_settings(AUTO | {"numeric_dim": 7}, 1, TableFacts(n_numbers))
    assert given["numeric_dim"] == 7


def test_logarithms_are_for_targets_with_a_long_tail_only() -> None:
    for long_tail in (False, True):
        found = candidate_settings(AUTO, 30, TableFacts(5, long_tail))
        assert any(own["target_transform"] == "log" for own in found) == long_tail


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (np.exp(T / 15), True),
        (np.exp(T / 15) * 1e200, True),
        (T, False),
        (T - T.min() + 1, False),  # positive, but symmetric
        (-np.exp(T / 15), False),
        (np.exp(T / 15) - np.exp(T / 15).min(), False),  # 0 has no logarithm
        (np.full(len(T), 3.0), False),
        (np.column_stack([np.exp(T / 15), T]), False),
        (np.column_stack([np.exp(T / 15), np.exp(T / 20)]), True),
    ],
    ids=["skewed", "skewed and large", "symmetric", "positive", "negative", "zero", "constant", "one of two", "both"],
)
def test_a_long_tail_is_one_of_positive_targets_whose_logarithms_are_less_skewed(y: Any, expected: bool) -> None:
    candidates = gnmr(n_nodes=60, n_candidates=6)._prepare(X, y).candidates
    assert any(own.settings["target_transform"] == "log" for own in candidates) == expected


def test_networks_have_the_parameters_of_their_candidate() -> None:
    prepared = GNMClassifier(n_candidates=16, n_folds=2, device="cpu", n_nodes=80)._prepare(X, Y)
    assert len(prepared.candidates) == 16
    for own in prepared.candidates:
        body = getattr(own.shape, "body", own.shape)
        assert (body.n_nodes, body.n_layers, body.activation) == (
            80,
            own.settings["n_layers"],
            own.settings["activation"],
        )
        assert (body.clamp_inputs, body.tied, body.combine) == tuple(
            own.settings[name] for name in ("clamp_inputs", "tied", "combine")
        )
        assert own.data.encoder.settings.scaling == own.settings["scaling"]
        for member in own.members:
            assert member.learning_rate == own.settings["learning_rate"]
            assert member.dropout == own.settings["dropout"]


def test_candidates_with_the_same_encoding_share_one_table() -> None:
    candidates = mlp(n_candidates=8)._prepare(X, Y).candidates
    # Numbers are encoded in the same way whatever the frequencies are.
    names = [name for name in NUMERIC if name != "frequency_scale"]
    encodings = {repr([own.settings[name] for name in names]) for own in candidates}
    assert len({id(own.data.table) for own in candidates}) == len(encodings) < 8


def test_parameters_of_another_kind_of_estimator_make_no_candidates() -> None:
    settings = [own.settings for own in MLPClassifier(n_candidates=16, n_folds=2)._prepare(X, Y).candidates]
    assert not {"tied", "combine", "clamp_inputs", "target_transform"} & set().union(*settings)
    assert {own["n_layers"] for own in settings} >= {3, 4}  # the number of hidden layers differs
    settings = [own.settings for own in mlp(n_candidates=16)._prepare(X, Y).candidates]
    assert not any("n_layers" in own for own in settings)  # hidden=(8,) is given


def test_a_table_without_numbers_is_fitted_by_candidates_that_differ_otherwise() -> None:
    model = mlp(n_candidates=3, max_epochs=1).fit(frame()[["colour", "town"]], Y)
    assert len(model.pack_) == 3 and model.predict(frame()[["colour", "town"]]).shape == (120,)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_more_effort_is_more_of_everything(device: str) -> None:
    fast, default, best = (effort_for(name, device, 5000) for name in EFFORT_NAMES)
    for name in ("n_candidates", "n_folds", "max_epochs", "patience", "n_nodes", "most_networks"):
        assert getattr(fast, name) <= getattr(default, name) <= getattr(best, name)


@given(n_rows=st.integers(1, 10**7), name=st.sampled_from(EFFORT_NAMES))
def test_large_tables_get_fewer_epochs_but_never_hardly_any(n_rows: int, name: str) -> None:
    effort, most = effort_for(name, "cpu", n_rows), effort_for(name, "cpu", 1)
    assert MIN_EPOCHS <= effort.max_epochs <= most.max_epochs
    assert effort.max_epochs == MIN_EPOCHS or effort.max_epochs * n_rows <= effort.most_row_epochs
    assert 1 <= effort.patience <= most.patience


def test_the_default_is_the_effort_of_that_name() -> None:
    prepared = GNMRegressor(device="cpu")._prepare(X, T)
    effort = effort_for("default", "cpu", len(X))
    assert len(prepared.candidates) == effort.n_candidates and len(prepared.rows.folds) == 2 * effort.n_folds
    assert prepared.candidates[0].fleet.max_epochs == effort.max_epochs
    assert prepared.candidates[0].fleet.patience == effort.patience
