"""The same seed gives the same model, to the last bit; another seed another one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tabgnm.nn.losses import SquaredError
from tabgnm.nn.shapes import Shape
from tabgnm.training import Member
from tabgnm.training.validation import add_losses
from tests.training.examples import (
    BASE,
    SHAPES,
    assert_all_same,
    assert_same,
    different_members,
    settings_for,
    train,
    weights_of,
)

pytestmark = pytest.mark.portable


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("n_models", [1, 5])
@pytest.mark.parametrize("l0", [0.0, 1e-3])
def test_the_same_seed_twice_is_bit_equal(shape: Shape, precision: str, n_models: int, l0: float) -> None:
    members, how = different_members(n_models, l0=l0), settings_for(precision=precision)
    assert_all_same(train(shape, members, how), train(shape, members, how))


def test_torchs_own_generator_plays_no_part() -> None:
    members = different_members(3)
    torch.manual_seed(1)
    first = train(BASE, members, settings_for())
    torch.manual_seed(2)
    state = torch.get_rng_state()
    assert_all_same(train(BASE, members, settings_for()), first)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("parts", [{}, {"dropout": 0.3}, {"l0": 0.01}], ids=["weights-and-order", "dropout", "gates"])
def test_different_seeds_give_different_models(parts: dict[str, float]) -> None:
    models = train(BASE, [Member(seed=seed, **parts) for seed in range(4)], settings_for(max_epochs=2))  # type: ignore[arg-type]
    for i, one in enumerate(models):
        for other in models[:i]:
            assert not torch.isclose(weights_of(one), weights_of(other)).any()


@pytest.mark.parametrize("seed", [-1, 0, 2**31, 2**63, 2**70])
def test_any_integer_is_a_seed(seed: int) -> None:
    first, same, other = train(BASE, [Member(seed=s) for s in (seed, seed, seed + 1)], settings_for(max_epochs=1))
    assert_same(first, same, 1e-12)
    assert not torch.isclose(weights_of(first), weights_of(other)).any()


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
def test_numpys_integers_are_seeds_as_pythons_are(kind: type) -> None:
    how = settings_for(max_epochs=1)
    assert_same(train(BASE, [Member(seed=kind(7))], how)[0], train(BASE, [Member(seed=7)], how)[0])


@pytest.mark.parametrize("garbage", [float("nan"), float("inf"), -1e30, 7.0])
def test_what_rows_without_weight_hold_does_not_change_a_loss_by_a_bit(garbage: float) -> None:
    outputs, y = torch.randn(3, 1000, 1), torch.randn(3, 1000, 1)
    weights = torch.rand(3, 1000) * (torch.rand(3, 1000) > 0.3)
    totals = []
    for value in (0.0, garbage):
        totals.append(torch.zeros(3))
        add_losses(SquaredError(), torch.where(weights.unsqueeze(-1) > 0, outputs, value), y, weights, totals[-1])
    assert torch.equal(*totals)
