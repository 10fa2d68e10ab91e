"""Counted random numbers: as random as they should be, and a function of key and position alone."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tabgnm.training import counter_random as cr
from tests.training.examples import CPU, random_keys

keys = st.integers(-(2**63), 2**63 - 1)
MASK = 2**64 - 1


def splitmix64(key: int, position: int) -> int:
    """The generator of Steele, Lea and Flood (2014), started at `key`, after `position` + 1 steps."""
    z = (key + (position + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


@given(st.lists(keys, min_size=1, max_size=4), st.integers(0, 20))
def test_hashes_are_splitmix64(chosen: list[int], n: int) -> None:
    values = cr.hashes(torch.tensor(chosen), n)
    assert values.shape == (len(chosen), n) and values.dtype == torch.int64
    assert [[v & MASK for v in row] for row in values.tolist()] == [
        [splitmix64(k, j) for j in range(n)] for k in chosen
    ]


def test_the_published_numbers_of_splitmix64() -> None:
    assert [v & MASK for v in cr.hashes(torch.tensor([1234567]), 3)[0].tolist()] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


parts = st.lists(st.integers(0, 1000), max_size=3)


@given(st.integers(-(2**70), 2**70), parts, st.integers(-(2**70), 2**70), parts)
def test_keys_differ_where_seeds_or_purposes_differ(
    seed: int, own: list[int], other_seed: int, other: list[int]
) -> None:
    key = random_keys([seed], *own)
    if (seed % 2**64, own) != (other_seed % 2**64, other):
        assert key != random_keys([other_seed], *other)
    assert key == random_keys([seed], *own)


def standard_numbers(kind: str, chosen: Tensor, n: int) -> Tensor:
    """Random numbers with mean 0 and variance 1."""
    return cr.normal(chosen, n) if kind == "normal" else (cr.uniform(chosen, n) - 0.5) * math.sqrt(12)


@pytest.mark.parametrize(("kind", "kurtosis"), [("uniform", 1.8), ("normal", 3.0)])
def test_moments(kind: str, kurtosis: float) -> None:
    n = 200_000
    for values in standard_numbers(kind, random_keys(range(3), 1), n):
        assert abs(values.mean()) < 5 / math.sqrt(n)
        assert values.square().mean() == pytest.approx(1, abs=0.02)
        assert values.pow(3).mean() == pytest.approx(0, abs=0.05)
        assert values.pow(4).mean() == pytest.approx(kurtosis, abs=0.1)


@pytest.mark.parametrize("kind", ["uniform", "normal"])
def test_numbers_of_different_keys_are_independent(kind: str) -> None:
    n = 50_000
    chosen = torch.cat([random_keys(range(4), purpose, epoch) for purpose in (1, 2) for epoch in range(3)])
    values = standard_numbers(kind, chosen, n)
    for own in (values, values.square() - 1):
        correlation = torch.corrcoef(own) - torch.eye(len(chosen))
        assert correlation.abs().max() < 5 / math.sqrt(n)
    neighbours = (values[:, 1:] * values[:, :-1]).mean(dim=1)
    assert neighbours.abs().max() < 5 / math.sqrt(n)


@given(keys, st.integers(0, 50))
def test_uniform_numbers_lie_in_the_open_interval_and_begin_alike(key: int, n: int) -> None:
    values = cr.uniform(torch.tensor([key]), 60)
    assert values.dtype == torch.float64 and ((values > 0) & (values < 1)).all()
    assert torch.equal(cr.uniform(torch.tensor([key]), n)[0], values[0, :n])
    assert torch.equal(cr.uniform(torch.tensor([3, key]), 60)[1], values[0])


@given(keys, st.integers(0, 9))
def test_normal_numbers_are_finite_and_as_many_as_asked_for(key: int, n: int) -> None:
    values = cr.normal(torch.tensor([key, 1]), n)
    assert values.shape == (2, n) and torch.isfinite(values).all()


@given(st.lists(st.tuples(keys, st.integers(1, 40)), min_size=1, max_size=5), st.integers(0, 10))
def test_an_order_is_a_permutation_that_depends_on_its_own_size_only(models: list[tuple[int, int]], more: int) -> None:
    chosen, sizes = [key for key, _ in models], [size for _, size in models]
    largest = max(sizes) + more
    orders = cr.shuffled(torch.tensor(chosen), largest, torch.tensor(sizes))
    assert orders.shape == (len(models), largest)
    for key, size, order in zip(chosen, sizes, orders, strict=True):
        assert sorted(order[:size].tolist()) == list(range(size))
        assert order[size:].tolist() == list(range(size, largest))
        assert torch.equal(order[:size], cr.shuffled(torch.tensor([key]), size, None)[0])


def test_all_orders_are_equally_likely() -> None:
    n = 12_000
    orders = cr.shuffled(random_keys(range(n), cr.SHUFFLE, 0), 4, None)
    counts = Counter(map(tuple, orders.tolist()))
    assert set(counts) == set(itertools.permutations(range(4)))
    assert all(abs(count - n / 24) < 5 * math.sqrt(n / 24) for count in counts.values())


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3, 0.5, 0.9])
def test_streams_fall_below_a_threshold_at_its_rate(rate: float) -> None:
    streams = cr.Streams(3, (100, 20), CPU)
    streams.start(random_keys(range(3), cr.DROPOUT))
    drawn = torch.stack([(streams.advance(slice(0, 3)) < cr.threshold(rate)).double() for _ in range(200)])
    n = drawn.numel()
    assert abs(drawn.mean() - rate) <= 5 * math.sqrt(rate * (1 - rate) / n)
    # No stream and no step is privileged.
    spread = 6 * math.sqrt(rate * (1 - rate))
    assert (drawn.mean(dim=(1, 2, 3)) - rate).abs().max() <= spread / math.sqrt(n / 200)
    assert (drawn.mean(dim=0) - rate).abs().max() <= spread / math.sqrt(200)


def test_streams_are_independent_from_step_to_step_and_of_each_other() -> None:
    streams = cr.Streams(2, (200,), CPU)
    streams.start(random_keys(range(2), cr.GATES))
    drawn = (
        torch.stack([streams.to_uniform(streams.advance(slice(0, 2)), torch.float64).clone() for _ in range(500)]) - 0.5
    )
    n = 500 * 200
    for lag in (1, 2, 7):
        assert abs((drawn[lag:] * drawn[:-lag]).mean() * 12) < 6 / math.sqrt(n)
        assert abs((drawn[..., lag:] * drawn[..., :-lag]).mean() * 12) < 6 / math.sqrt(n)
    assert abs((drawn[:, 0] * drawn[:, 1]).mean() * 12) < 6 / math.sqrt(n)


def test_a_stream_depends_on_its_key_and_position_only() -> None:
    small, large = cr.Streams(1, (3, 5), CPU), cr.Streams(4, (8, 5), CPU)
    small.start(torch.tensor([11]))
    large.start(torch.tensor([7, 11, 8, 9]))
    for _ in range(3):
        small.advance(slice(0, 1))
        large.advance(slice(0, 3))
        assert torch.equal(small.states[0], large.states[1, :3])
    untouched = (cr.hashes(torch.tensor([9]), 40) >> 32).view(8, 5).int()
    assert torch.equal(large.states[3], untouched)  # its model had no batch in these steps


@given(st.floats(0, 1))
def test_thresholds_rise_with_the_rate(rate: float) -> None:
    assert -(2**31) == cr.threshold(0.0) <= cr.threshold(rate) <= cr.threshold(1.0) == 2**31 - 1
    assert cr.threshold(0.5) == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_uniform_numbers_of_streams_stay_inside_the_open_interval(dtype: torch.dtype) -> None:
    states = torch.tensor([0, -1, 2**31 - 1, -(2**31)], dtype=torch.int32)
    values = cr.Streams.to_uniform(states, dtype)
    assert values.dtype == dtype and ((values > 0) & (values < 1)).all()
