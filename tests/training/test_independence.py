"""A model's result does not depend on who shares its fleet, on their order, on chunks, or on threads: to the bit."""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tabgnm.nn import GNMShape, MLPShape
from tabgnm.nn.losses import CrossEntropy, Loss, SquaredError
from tabgnm.nn.shapes import Shape
from tabgnm.training import FleetSettings, Member, Table, TrainedModel
from tests.nn.strategies import any_shapes
from tests.training.examples import (
    BASE,
    EMBEDDED,
    EVERYTHING,
    LOSSES,
    PERCEPTRON,
    RESIDUAL,
    SHAPES,
    assert_all_same,
    assert_same,
    different_members,
    settings_for,
    table_for,
    train,
)


def in_single_precision(loss: Loss | None = None, **changes: object) -> FleetSettings:
    """Settings with which rounding differently would soon be seen."""
    return settings_for(loss, **({"max_epochs": 20, "precision": "float32"} | changes))


FIFTY_EPOCHS = in_single_precision(max_epochs=50)


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
    assert_all_same(together, [alone[i] for i in order])


@pytest.mark.parametrize(
    ("shape", "l0"),
    [(EVERYTHING, 0.0), (RESIDUAL, 0.0), (PERCEPTRON, 0.0), (BASE, 1e-3), (EVERYTHING, 1e-3), (PERCEPTRON, 1e-3)],
    ids=["everything", "residual", "mlp", "base-l0", "everything-l0", "mlp-l0"],
)
@pytest.mark.parametrize("optimiser", ["adam", "proximal_adam"])
def test_nor_do_the_results_of_variants(shape: Shape, l0: float, optimiser: str) -> None:
    members = different_members(8, l0=l0)
    how = in_single_precision(max_epochs=12, optimiser=optimiser, schedule="cosine", warmup=0.1, clip_norm=2.0)
    alone = [train(shape, [member], how)[0] for member in members]
    for chunk_size in (3, 8):
        assert_all_same(train(shape, members, how, chunk_size=chunk_size), alone)


def test_nor_does_it_with_factors_of_the_learning_rate() -> None:
    members = different_members(5)
    how = in_single_precision(max_epochs=10, optimiser="proximal_adam", rate_factors={"bias": 0.1, "weight_1": 2.0})
    alone = [train(BASE, [member], how)[0] for member in members]
    assert_all_same(train(BASE, members, how), alone)


@given(
    any_shapes,
    st.sampled_from(LOSSES),
    st.integers(2, 5),
    st.integers(1, 40),
    st.integers(0, 2**31),
    st.sampled_from([0.0, 0.01]),
    st.sampled_from(["float32", "float64"]),
)
@settings(max_examples=80)
def test_nor_does_that_of_any_shape(
    shape: Shape, loss: Loss, n_models: int, batch_size: int, seed: int, l0: float, precision: str
) -> None:
    choose = random.Random(seed)
    table = table_for(loss, 30, shape=shape, seed=seed)
    how = settings_for(loss, max_epochs=3, batch_size=batch_size, precision=precision)
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
    with (
        mock.patch("tabgnm.training.lockstep._SMALL_FLEET", choose.choice([0, 10**12])),  # several threads, or one
        mock.patch("tabgnm.training.validation.VALIDATION_ROWS", choose.choice([7, 4096])),  # in pieces, or at once
    ):
        together = train(shape, members, how, table)
        for member, model in zip(members, together, strict=True):
            assert_same(model, train(shape, [member], how, table)[0])


def test_models_that_stop_early_leave_the_others_as_they_would_be() -> None:
    members = different_members(12)
    how = in_single_precision(max_epochs=60, patience=3)
    together = train(BASE, members, how)
    lengths = {model.history.n_epochs for model in together}
    assert len(lengths) > 3
    assert_all_same(together, [train(BASE, [member], how)[0] for member in members])


@pytest.mark.parametrize("shape", [*SHAPES.values(), *EMBEDDED.values()], ids=[*SHAPES, *EMBEDDED])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_threads_have_models_of_their_own(shape: Shape, loss: Loss, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tabgnm.training.lockstep._SMALL_FLEET", 0)
    members, how, table = different_members(7), in_single_precision(loss), table_for(loss, shape=shape)
    before, results = torch.get_num_threads(), []
    try:
        for n_threads in (1, 3):
            torch.set_num_threads(n_threads)
            results.append(train(shape, members, how, table))
            assert torch.get_num_threads() == n_threads
    finally:
        torch.set_num_threads(before)
    assert_all_same(*results)
    assert not any("tabgnm-crew" in thread.name for thread in threading.enumerate())


def rows(*sizes: int) -> list[Member]:
    """Members with so many rows for training."""
    return [Member(train=torch.arange(n), seed=i, learning_rate=0.01) for i, n in enumerate(sizes)]


def validated(*sizes: int) -> list[Member]:
    """Members with so many rows for validation."""
    return [
        replace(member, val=torch.arange(6000 - n, 6000)) for member, n in zip(rows(*[150] * 9), sizes, strict=False)
    ]


UNEVEN: dict[str, tuple[Shape, Loss, list[Member], dict[str, Any]]] = {
    "one persistent output": (
        GNMShape(6, 1, n_nodes=30, n_layers=3, persistent_outputs=True), SquaredError(), rows(150, 150, 150), {},
    ),
    "one output of a tied network": (
        GNMShape(6, 1, n_nodes=30, n_layers=3, tied=True, clamp_inputs=True), SquaredError(), rows(150, 120, 90), {},
    ),
    "a last batch of one row": (
        GNMShape(6, 2, n_nodes=30, n_layers=3, tied=True), SquaredError(), rows(129, 129, 97, 65), {"batch_size": 32},
    ),
    "one row and many classes": (MLPShape(6, 20, (30,)), CrossEntropy(0.1), rows(1, 1, 1), {}),
    "one row for validation": (MLPShape(6, 20, (30,)), CrossEntropy(0.1), validated(1, 1, 1), {"patience": 5}),
    "many rows for validation, and few": (BASE, CrossEntropy(), validated(5000, 4096, 100), {"patience": 5}),
    "a full batch of many rows, and of few": (
        GNMShape(6, 3, n_nodes=60, n_layers=3), CrossEntropy(), rows(6000, 100, 99), {"batch_size": 10_000},
    ),
    "many classes": (MLPShape(6, 140, (30,)), CrossEntropy(), rows(150, 150, 70), {}),
    "many gates": (
        GNMShape(6, 3, n_nodes=140, n_layers=3), CrossEntropy(),
        [replace(member, l0=1e-3, learning_rate=0.03) for member in rows(60, 60, 60, 60)], {"max_epochs": 4},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNEVEN)
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_nor_does_it_where_rounding_could_differ(name: str, precision: str) -> None:
    shape, loss, members, changes = UNEVEN[name]
    table, how = table_for(loss, 6000, shape=shape), in_single_precision(loss, **({"precision": precision} | changes))
    before = torch.get_num_threads()
    torch.set_num_threads(4)  # which share tensors in other places than two do
    try:
        together = train(shape, members, how, table)
    finally:
        torch.set_num_threads(before)
    if name.startswith("a full batch"):  # the first one is so large that it is the same up to rounding only
        together, members = together[1:], members[1:]
    assert_all_same(together, [train(shape, [member], how, table)[0] for member in members])


def test_gradients_that_are_infinite_are_those_of_a_model_alone() -> None:
    start = {"weight_1": torch.zeros(1, 20), "bias_1": -torch.ones(20), "bias_2": torch.zeros(1)}
    start["weight_2"] = torch.full((20, 1), 3e38)
    table, how = Table(torch.ones(1, 1), torch.full((1, 1), 100.0)), in_single_precision(SquaredError(), batch_size=1)
    shape, members = MLPShape(1, 1, (20,)), [Member(start=start, seed=i) for i in range(300)]
    together = train(shape, members, how, table)
    assert_same(together[7], train(shape, members[7:8], how, table)[0])


@pytest.mark.parametrize("n_outputs", [1, 4, 12])
@pytest.mark.parametrize("n_nodes", [90, 230])
def test_nor_does_it_in_long_training_of_larger_networks(n_nodes: int, n_outputs: int) -> None:
    """Products of this size are another library's than those of small ones, and single outputs are vectors."""
    shape = GNMShape(6, n_outputs, n_nodes=n_nodes, n_layers=3)
    loss = CrossEntropy() if n_outputs > 1 else SquaredError()
    table = table_for(loss, shape=shape)
    members = [replace(m, train=torch.arange(i % 2, 150)) for i, m in enumerate(different_members(5))]
    how = in_single_precision(loss, max_epochs=100)
    alone = [train(shape, [member], how, table)[0] for member in members]
    assert_all_same(train(shape, members, how, table), alone)


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
