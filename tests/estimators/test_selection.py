"""Choosing candidates: greedy selection of weights, and the race."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tabgnm.estimators.selection import greedy_weights, standard_error, survivors


def squared_errors(target: np.ndarray) -> Any:
    return lambda predictions: ((predictions - target) ** 2).mean(axis=-1)


packs = st.tuples(st.integers(1, 6), st.integers(1, 12)).flatmap(
    lambda size: st.tuples(
        arrays(np.float64, size, elements=st.floats(-10, 10, width=32)),
        arrays(np.float64, size[1], elements=st.floats(-10, 10, width=32)),
    )
)


@given(pack=packs, most=st.integers(1, 6))
def test_greedy_weights_are_shares_of_few_candidates_and_never_worse_than_the_best_one(pack: Any, most: int) -> None:
    predictions, target = pack
    losses = squared_errors(target)
    weights = greedy_weights(predictions, losses, most)
    assert weights.shape == (len(predictions),) and (weights >= 0).all()
    np.testing.assert_allclose(weights.sum(), 1)
    assert np.count_nonzero(weights) <= most
    combined = losses(np.tensordot(weights, predictions, 1)[None])[0]
    assert combined <= losses(predictions).min() * (1 + 1e-6) + 1e-9


def test_a_standard_error_counts_rows_by_their_weight() -> None:
    values = np.random.default_rng(0).normal(size=(2, 200))
    plain = values.std(axis=1) / np.sqrt(200)
    np.testing.assert_allclose(standard_error(values, None), plain)
    np.testing.assert_allclose(standard_error(values, np.full(200, 3.0)), plain)
    half = (np.arange(200) < 100).astype(float)  # rows without weight do not count
    np.testing.assert_allclose(standard_error(values, half), values[:, :100].std(axis=1) / np.sqrt(100))


@given(pack=packs)
def test_a_single_candidate_is_the_one_with_the_lowest_loss(pack: Any) -> None:
    predictions, target = pack
    losses = squared_errors(target)
    (chosen,) = np.flatnonzero(greedy_weights(predictions, losses, most=1))
    assert losses(predictions)[chosen] == losses(predictions).min()


def test_candidates_whose_errors_cancel_out_share_the_weight() -> None:
    target = np.zeros(10)
    predictions = np.stack([target + 1, target - 1, target + 5])
    np.testing.assert_allclose(greedy_weights(predictions, squared_errors(target), most=3), [0.5, 0.5, 0])


def test_a_candidate_that_is_better_for_a_share_of_rows_gets_a_share() -> None:
    target = np.zeros(8)
    predictions = np.stack([target + 1, target - 3])
    np.testing.assert_allclose(greedy_weights(predictions, squared_errors(target), most=2), [0.75, 0.25])


def test_gains_that_are_noise_add_no_candidates() -> None:
    target = np.zeros(4)
    predictions = np.stack([target + 1, target + 1 - 1e-9])
    assert np.count_nonzero(greedy_weights(predictions, squared_errors(target), most=2)) == 1


def test_candidates_whose_loss_is_not_finite_are_not_chosen() -> None:
    target = np.zeros(4)
    predictions = np.stack([target + np.nan, target + 2, target + np.inf])
    with np.errstate(invalid="ignore"):
        assert greedy_weights(predictions, squared_errors(target), most=3).tolist() == [0, 1, 0]


def test_predictions_may_have_several_numbers_per_row() -> None:
    target = np.zeros((6, 3))
    predictions = np.stack([target + 1, target - 1])
    weights = greedy_weights(predictions, lambda own: ((own - target) ** 2).mean(axis=(-1, -2)), most=2)
    np.testing.assert_allclose(weights, [0.5, 0.5])


# --- the race


def test_a_candidate_that_is_clearly_behind_leaves_the_race_unless_it_has_a_weight() -> None:
    losses = np.tile([0.0, 1.0], 50)
    row_losses = np.stack([losses, losses[::-1] + 0.01, losses + 1])
    weights = np.array([1.0, 0.0, 0.0])
    assert survivors(row_losses, weights, None, most=3) == [0, 1]
    weights = np.array([0.8, 0.0, 0.2])
    assert survivors(row_losses, weights, None, most=3) == [0, 2, 1]


def test_a_candidate_that_differs_by_chance_only_stays_in_the_race() -> None:
    first = np.tile([0.0, 1.0], 50)
    second = first[::-1] + 0.01  # behind by far less than the spread of the differences
    third = first + 0.01  # behind in every single row
    assert survivors(np.stack([first, second, third]), np.array([1.0, 0, 0]), None, most=3) == [0, 1]


def test_weights_of_rows_decide_who_is_behind() -> None:
    row_losses = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 0.5, 0.5, 0.5]])
    weights = np.zeros(2)
    assert survivors(row_losses, weights, np.array([1.0, 100, 100, 100]), most=1) == [0]
    assert survivors(row_losses, weights, np.array([100.0, 1, 1, 1]), most=1) == [1]


def test_a_candidate_with_a_loss_that_is_not_finite_leaves_the_race() -> None:
    row_losses = np.array([[1.0, 1.0], [np.nan, 1.0], [np.inf, 0.0]])
    assert survivors(row_losses, np.array([1.0, 0, 0]), None, most=3) == [0]


@given(
    row_losses=st.tuples(st.integers(1, 8), st.integers(1, 10)).flatmap(
        lambda size: arrays(np.float64, size, elements=st.floats(0, 10, width=32))
    ),
    data=st.data(),
)
def test_the_best_candidates_stay_at_most_as_many_as_allowed(row_losses: Any, data: Any) -> None:
    n = len(row_losses)
    counts = data.draw(arrays(np.int64, n, elements=st.integers(0, 3)))
    weights = counts / max(1, counts.sum())
    most = -(-n // 2)
    staying = survivors(row_losses, weights, None, most)
    assert 1 <= len(staying) <= most and len(set(staying)) == len(staying)
    left = sorted(set(range(n)) - set(staying))
    # Nobody leaves who has a larger weight than one that stays.
    assert all(weights[own] <= weights[staying].min() for own in left)
    if not counts.any():
        assert row_losses[staying[0]].mean() == row_losses.mean(axis=1).min()
