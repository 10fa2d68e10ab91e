"""What a fleet promises about numbers: its own draws to the bit, its arithmetic up to rounding, scores that agree."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from tabgnm.nn import GNMShape, MLPShape
from tabgnm.nn.losses import CrossEntropy, Loss, SquaredError
from tabgnm.nn.shapes import Shape
from tabgnm.training import Member, Table
from tabgnm.training.epoch_loop import EpochLoop
from tabgnm.training.row_batches import DeviceTables, RowSet
from tests.nn.strategies import any_shapes
from tests.training.examples import (
    BASE,
    CPU,
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

pytestmark = pytest.mark.portable

# After one epoch, relative to a model trained alone; the promise of `Fleet`.
NEAR = {"float64": 1e-10, "float32": 1e-4}


def epoch_loop(shape: Shape, members: list[Member]) -> EpochLoop:
    """The loop of a fleet of these members before its first epoch."""
    table = table_for(CrossEntropy(), shape=shape)
    tables = DeviceTables([table], CPU, torch.float64, torch.float64)
    rows = [torch.arange(len(table.x)) if member.train is None else member.train for member in members]
    train_rows = RowSet(tables, [0] * len(rows), rows, [None] * len(rows), torch.float64)
    return EpochLoop(shape, members, settings_for(), train_rows, None)


@pytest.mark.parametrize("shape", [*SHAPES.values(), *EMBEDDED.values()], ids=[*SHAPES, *EMBEDDED])
@pytest.mark.parametrize("l0", [0.0, 1e-3])
def test_the_draws_of_a_model_are_its_own_to_the_bit(shape: Shape, l0: float) -> None:
    members = sorted(different_members(6, l0=l0), key=lambda member: -len(member.train))
    members = [replace(member, dropout=0.3) for member in members]
    together = epoch_loop(shape, members)
    for i, member in enumerate(members):
        alone = epoch_loop(shape, [member])
        assert torch.equal(together.flat[i], alone.flat[0])
        for epoch in range(3):
            n_rows, batch_size = alone.batches.rows.sizes[0], alone.batches.batch_size
            for loop in (together, alone):
                loop.load_epoch(epoch)
                loop.begin_epoch()
            assert torch.equal(together.batches.ids[i, :n_rows], alone.batches.ids[0])
            for stream, own in zip(together.dropout.streams, alone.dropout.streams, strict=True):
                assert torch.equal(stream.states[i, :batch_size], own.states[0])
                assert torch.equal(stream.advance(slice(i, i + 1))[0, :batch_size], own.advance(slice(0, 1))[0])
            if l0:
                assert together.gates is not None and alone.gates is not None
                assert torch.equal(together.gates.streams.states[i], alone.gates.streams.states[0])


@pytest.mark.parametrize("chunk_size", [1, 7, 40, None])
@pytest.mark.parametrize("precision", NEAR)
def test_a_model_is_the_same_alone_and_in_any_fleet_up_to_rounding(chunk_size: int | None, precision: str) -> None:
    members, how = different_members(40), settings_for(max_epochs=1, precision=precision)
    alone = [train(BASE, [member], how)[0] for member in members]
    order = list(range(len(members)))
    random.Random(chunk_size).shuffle(order)
    together = train(BASE, [members[i] for i in order], how, chunk_size=chunk_size)
    assert_all_same(together, [alone[i] for i in order], NEAR[precision])


@pytest.mark.parametrize(
    ("shape", "l0"),
    [(EVERYTHING, 0.0), (RESIDUAL, 0.0), (PERCEPTRON, 0.0), (BASE, 1e-3), (EVERYTHING, 1e-3), (PERCEPTRON, 1e-3)],
    ids=["everything", "residual", "mlp", "base-l0", "everything-l0", "mlp-l0"],
)
@pytest.mark.parametrize("optimizer", ["adam", "proximal_adam"])
def test_so_are_variants_however_they_are_trained(shape: Shape, l0: float, optimizer: str) -> None:
    members = different_members(8, l0=l0)
    options: dict[str, Any] = {"optimizer": optimizer, "schedule": "cosine", "warmup": 0.1}
    how = settings_for(max_epochs=2, **options)
    alone = [train(shape, [member], how)[0] for member in members]
    for chunk_size in (3, 8):
        assert_all_same(train(shape, members, how, chunk_size=chunk_size), alone, 1e-9)


@given(
    any_shapes,
    st.sampled_from(LOSSES),
    st.integers(2, 5),
    st.integers(1, 40),
    st.integers(0, 2**31),
    st.sampled_from([0.0, 0.01]),
    st.integers(1, 3),
)
@settings(max_examples=80)
def test_so_is_a_model_of_any_shape(
    shape: Shape, loss: Loss, n_models: int, batch_size: int, seed: int, l0: float, n_threads: int
) -> None:
    choose = random.Random(seed)
    table = table_for(loss, 30, shape=shape, seed=seed)
    how = settings_for(loss, max_epochs=1, batch_size=batch_size, n_threads=n_threads)
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
    with mock.patch("tabgnm.training.validation.VALIDATION_ROWS", choose.choice([7, 4096])):  # in pieces, or at once
        together = train(shape, members, how, table)
        for member, model in zip(members, together, strict=True):
            # A step of Adam divides by the size of the gradient: where that is all rounding, so is the step.
            assert_same(model, train(shape, [member], how, table)[0], 1e-6)


@pytest.mark.parametrize("shape", [*SHAPES.values(), *EMBEDDED.values()], ids=[*SHAPES, *EMBEDDED])
def test_the_number_of_threads_changes_rounding_at_most(shape: Shape) -> None:
    members, table = different_members(7), table_for(CrossEntropy(), shape=shape)
    one, three = (train(shape, members, settings_for(max_epochs=2, n_threads=n), table) for n in (1, 3))
    assert_all_same(one, three, 1e-9)


def test_scores_after_long_training_in_float32_have_the_same_distribution() -> None:
    """Rounding is amplified, so single models differ; what a search or an ensemble does with them does not."""
    table = table_for(CrossEntropy())
    members = [Member(train=torch.arange(150), val=torch.arange(150, 200), seed=i, dropout=0.1) for i in range(40)]
    how = settings_for(max_epochs=100, precision="float32", metric=True)
    together = train(BASE, members, how, table)
    alone = [train(BASE, [member], how, table)[0] for member in members]
    for metric in ("train_loss", "val_loss", "val_metric"):
        one, other = (np.array([getattr(m.history, metric)[-1] for m in models]) for models in (together, alone))
        assert ks_2samp(one, other).pvalue > 0.01
        assert abs(one.mean() - other.mean()) < 4.5 * one.std() / len(members) ** 0.5


def test_when_a_diverged_model_is_dropped_does_not_depend_on_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropping one changes which models are trained together, and so how the others are rounded."""
    shape = GNMShape(20, 1, n_nodes=200, n_layers=3)  # so large that the rows of one of two models are split
    members = [Member(seed=i, learning_rate=1e30 if i == 0 else 1e-3) for i in range(3)]
    table = table_for(SquaredError(), 400, shape=shape)
    how = settings_for(SquaredError(), max_epochs=12, batch_size=256, precision="float32", n_threads=2)
    results = []
    for seconds in (0.0, 1000.0):
        monkeypatch.setattr("tabgnm.training.chunk_trainer._SECONDS_BETWEEN_REQUESTS", seconds)
        results.append(train(shape, members, how, table))
    assert results[0][0].history.status == "diverged"
    assert_all_same(*results)


def test_models_that_stop_early_leave_the_others_as_they_would_be() -> None:
    members = different_members(12)
    how = settings_for(max_epochs=60, patience=3)
    together = train(BASE, members, how)
    lengths = {model.history.n_epochs for model in together}
    assert len(lengths) > 3
    assert_all_same(together, [train(BASE, [member], how)[0] for member in members], 1e-6)


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


@pytest.mark.parametrize(
    ("shape", "sizes", "batch_size"),
    [
        (GNMShape(6, 1, n_nodes=30, n_layers=3, tied=True, clamp_inputs=True), (150, 120, 90), 64),
        (GNMShape(6, 2, n_nodes=30, n_layers=3, tied=True), (129, 129, 97, 65), 32),
        (GNMShape(6, 3, n_nodes=60, n_layers=3), (6000, 100, 99), 10_000),
        (MLPShape(6, 2, (30,)), (1, 1, 1), 64),
    ],
    ids=["ragged", "a last batch of one row", "a batch of many rows, and of few", "one row"],
)
def test_a_model_does_not_notice_the_rows_of_others(shape: Shape, sizes: tuple[int, ...], batch_size: int) -> None:
    members = [Member(train=torch.arange(n), seed=i, learning_rate=0.01) for i, n in enumerate(sizes)]
    table = table_for(SquaredError(), 6000, shape=shape)
    how = settings_for(SquaredError(), max_epochs=2, batch_size=batch_size)
    assert_all_same(train(shape, members, how, table), [train(shape, [m], how, table)[0] for m in members], 1e-9)


def test_gradients_that_are_infinite_are_those_of_a_model_alone() -> None:
    start = {"weight_1": torch.zeros(1, 20), "bias_1": -torch.ones(20), "bias_2": torch.zeros(1)}
    start["weight_2"] = torch.full((20, 1), 3e38)
    table = Table(torch.ones(1, 1), torch.full((1, 1), 100.0))
    how = settings_for(SquaredError(), batch_size=1, precision="float32")
    shape, members = MLPShape(1, 1, (20,)), [Member(start=start, seed=i) for i in range(300)]
    together = train(shape, members, how, table)
    assert_same(together[7], train(shape, members[7:8], how, table)[0], 1e-6)


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
