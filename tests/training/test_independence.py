"""A model's result does not depend on who shares its fleet, on their order, or on chunks."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tabgnm.nn import MLPShape
from tabgnm.nn.losses import CrossEntropy, Loss, SquaredError
from tabgnm.nn.shapes import Shape
from tabgnm.training import FleetSettings, Member, Table, TrainedModel
from tests.nn.strategies import any_shapes
from tests.training.examples import (
    BASE,
    EVERYTHING,
    PERCEPTRON,
    RESIDUAL,
    assert_all_same,
    assert_same,
    different_members,
    settings_for,
    table_for,
    train,
)

FIFTY_EPOCHS = settings_for(max_epochs=50)


@pytest.fixture(scope="module")
def members() -> list[Member]:
    return different_members(40)


@pytest.fixture(scope="module")
def alone(members: list[Member]) -> list[TrainedModel]:
    return [train(BASE, [member], FIFTY_EPOCHS)[0] for member in members]


@pytest.mark.parametrize("chunk_size", [1, 7, 40, None])
def test_a_models_result_does_not_depend_on_its_fleet(
    members: list[Member], alone: list[TrainedModel], chunk_size: int | None
) -> None:
    order = list(range(len(members)))
    random.Random(chunk_size).shuffle(order)
    together = train(BASE, [members[i] for i in order], FIFTY_EPOCHS, chunk_size=chunk_size)
    assert_all_same(together, [alone[i] for i in order], 1e-8)


@pytest.mark.parametrize(
    ("shape", "l0"),
    [(EVERYTHING, 0.0), (RESIDUAL, 0.0), (PERCEPTRON, 0.0), (BASE, 1e-3), (EVERYTHING, 1e-3), (PERCEPTRON, 1e-3)],
    ids=["everything", "residual", "mlp", "base-l0", "everything-l0", "mlp-l0"],
)
@pytest.mark.parametrize("optimiser", ["adam", "proximal_adam"])
def test_nor_do_the_results_of_variants(shape: Shape, l0: float, optimiser: str) -> None:
    members = different_members(8, l0=l0)
    how = settings_for(max_epochs=12, optimiser=optimiser, schedule="cosine", warmup=0.1, clip_norm=2.0)
    alone = [train(shape, [member], how)[0] for member in members]
    for chunk_size in (3, 8):
        assert_all_same(train(shape, members, how, chunk_size=chunk_size), alone, 1e-8)


def test_nor_does_it_with_factors_of_the_learning_rate() -> None:
    members = different_members(5)
    how = settings_for(max_epochs=10, optimiser="proximal_adam", rate_factors={"bias": 0.1, "weight_1": 2.0})
    alone = [train(BASE, [member], how)[0] for member in members]
    assert_all_same(train(BASE, members, how), alone, 1e-8)


@given(any_shapes, st.integers(1, 5), st.integers(1, 40), st.integers(0, 2**31), st.sampled_from([0.0, 0.01]))
@settings(max_examples=40)
def test_nor_does_that_of_any_shape(shape: Shape, n_models: int, batch_size: int, seed: int, l0: float) -> None:
    choose = random.Random(seed)
    table = table_for(SquaredError(), 30, shape=shape, seed=seed)
    how = settings_for(SquaredError(), max_epochs=2, batch_size=batch_size)
    members = [
        Member(
            train=torch.tensor(choose.sample(range(30), choose.randint(1, 30))),
            val=torch.tensor(choose.sample(range(30), choose.randint(1, 30))),
            seed=seed + i,
            dropout=choose.choice([0.0, 0.3]),
            l0=l0,
        )
        for i in range(n_models)
    ]
    together = train(shape, members, how, table)
    for member, model in zip(members, together, strict=True):
        assert_same(model, train(shape, [member], how, table)[0], 1e-8)


def test_models_that_stop_early_leave_the_others_as_they_would_be() -> None:
    members = different_members(12)
    how = settings_for(max_epochs=60, patience=3)
    together = train(BASE, members, how)
    lengths = {model.history.n_epochs for model in together}
    assert len(lengths) > 3
    assert_all_same(together, [train(BASE, [member], how)[0] for member in members], 1e-8)


def in_single_precision(**changes: object) -> FleetSettings:
    return settings_for(SquaredError(), max_epochs=20, precision="float32", **changes)


def test_chunks_with_the_same_arithmetic_are_bit_equal() -> None:
    # With the same numbers of rows, no sum is padded differently in another chunk.
    members = [replace(m, train=torch.arange(i, 130 + i)) for i, m in enumerate(different_members(6, val=False))]
    whole = train(BASE, members, in_single_precision(), chunk_size=6)
    assert_all_same(train(BASE, members, in_single_precision(), chunk_size=3), whole)


@pytest.mark.parametrize("chunk_size", [1, 2, 4])
def test_in_single_precision_validation_losses_are_close(chunk_size: int) -> None:
    members = different_members(6)
    whole = train(BASE, members, in_single_precision(), chunk_size=6)
    chunked = train(BASE, members, in_single_precision(), chunk_size=chunk_size)
    for one, other in zip(chunked, whole, strict=True):
        assert one.history.val_loss[-1] == pytest.approx(other.history.val_loss[-1], abs=1e-3)


@pytest.mark.parametrize("loss", [SquaredError(), CrossEntropy()], ids=repr)
def test_a_huge_value_in_a_row_of_nobody_changes_nobody(loss: Loss) -> None:
    # Models with fewer rows than others are padded; what stands in the padding must not reach them.
    table = table_for(loss)
    x = table.x.float()
    x[0] = 3e38
    members = [Member(train=torch.arange(1, 1 + n), val=torch.arange(150, 150 + n // 4), seed=n) for n in (130, 90, 50)]
    shape, how = MLPShape(6, 3, (12, 8), init="kaiming"), settings_for(loss, precision="float32")
    expected = train(shape, members, how, Table(table.x.float(), table.y), chunk_size=3)
    assert_all_same(train(shape, members, how, Table(x, table.y), chunk_size=3), expected, 1e-4)


def test_members_with_nothing_but_a_different_seed_differ() -> None:
    first, second = train(BASE, [Member(seed=1), Member(seed=2)], settings_for(max_epochs=1))
    assert all(not torch.equal(first.parameters[name], second.parameters[name]) for name in first.parameters)


def test_the_tables_and_members_are_not_written_to() -> None:
    table = table_for(CrossEntropy())
    x, y = table.x.clone(), table.y.clone()
    weight = torch.rand(200, dtype=torch.float64)
    member = Member(train=torch.arange(150), val=torch.arange(150, 200), sample_weight=weight.clone())
    train(BASE, [member], settings_for(), table)
    assert torch.equal(table.x, x) and torch.equal(table.y, y)
    assert member.train is not None and torch.equal(member.train, torch.arange(150))
    assert member.sample_weight is not None and torch.equal(member.sample_weight, weight)
