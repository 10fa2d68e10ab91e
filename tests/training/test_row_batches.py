"""Every model sees its own rows, all of them, in every epoch: whatever their number, the batch size and the table."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tabgnm.nn.losses import CrossEntropy, SquaredError
from tabgnm.nn.message_passing import forward
from tabgnm.training import FleetSettings, Member, Table
from tabgnm.training.flat_weights import FlatLayout
from tabgnm.training.row_batches import DeviceTables, RowBatches, RowSet
from tests.training.examples import (
    BASE,
    CPU,
    assert_all_same,
    assert_same,
    different_members,
    settings_for,
    table_for,
    train,
)

SIZES = [200, 130, 128, 65, 64, 63, 1]


@pytest.mark.parametrize("batch_size", [1, 7, 64, 128, 1000])
def test_models_with_different_numbers_of_rows_train_as_if_alone(batch_size: int) -> None:
    members = [
        Member(train=torch.arange(size), val=torch.arange(199 - size // 3, 200), seed=size, dropout=0.2)
        for size in reversed(SIZES)
    ]
    settings = settings_for(max_epochs=3, batch_size=batch_size)
    together = train(BASE, members, settings)
    assert_all_same(together, [train(BASE, [member], settings)[0] for member in members], 1e-8)


@pytest.mark.parametrize("size", SIZES)
def test_the_mean_loss_counts_every_row_once(size: int) -> None:
    # With a learning rate of 0 the weights stay, and the loss of an epoch is the mean over the rows.
    table, members = table_for(CrossEntropy()), [Member(seed=1, learning_rate=0.0), Member(learning_rate=0.0), Member()]
    members[0] = replace(members[0], train=torch.arange(size))
    history = train(BASE, members, settings_for(max_epochs=2), table)[0].history
    parameters = FlatLayout(BASE).views(FlatLayout(BASE).first_weights([Member(seed=1)], CPU, torch.float64)[0])
    expected = CrossEntropy().per_row(forward(BASE, parameters, table.x[:size]).output, table.y[:size]).mean().item()
    assert history.train_loss == pytest.approx([expected] * 2, rel=1e-12)


def test_a_batch_larger_than_the_table_is_the_whole_table() -> None:
    members = different_members(3)
    whole = train(BASE, members, settings_for(batch_size=200))
    assert_all_same(train(BASE, members, settings_for(batch_size=10**6)), whole)


def test_rows_that_are_listed_twice_count_twice() -> None:
    once = settings_for(SquaredError(), max_epochs=3, batch_size=10**6)
    table = table_for(SquaredError())
    repeated = Table(torch.cat([table.x, table.x[:50]]), torch.cat([table.y, table.y[:50]]))
    rows = torch.cat([torch.arange(200), torch.arange(50)])
    assert_same(train(BASE, [Member(train=rows)], once, table)[0], train(BASE, [Member()], once, repeated)[0], 1e-8)


def test_a_model_may_have_a_table_of_its_own() -> None:
    tables = [table_for(CrossEntropy(), n_rows, seed=n_rows) for n_rows in (200, 90, 310)]
    members = [Member(table=number % 3, seed=number, val=torch.arange(20 + number), dropout=0.1) for number in range(7)]
    settings = settings_for(max_epochs=4)
    together = train(BASE, members, settings, tables)
    for member, model in zip(members, together, strict=True):
        alone = train(BASE, [replace(member, table=0)], settings, tables[member.table])[0]
        assert_same(model, alone, 1e-8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_tables_are_computed_with_in_the_precision_of_the_settings(dtype: torch.dtype) -> None:
    table = table_for(SquaredError())
    given_type = Table(table.x.to(dtype), table.y.to(dtype))
    for precision, expected in (("float32", torch.float32), ("float64", torch.float64)):
        settings = FleetSettings(loss=SquaredError(), max_epochs=1, precision=precision)
        model = train(BASE, [Member()], settings, given_type)[0]
        assert {value.dtype for value in model.parameters.values()} == {expected}


def test_numpy_arrays_will_do_for_a_table() -> None:
    table = table_for(CrossEntropy())
    from_numpy = Table(table.x.numpy(), table.y.numpy())  # type: ignore[arg-type]
    how = settings_for(max_epochs=1)
    assert_same(train(BASE, [Member()], how, from_numpy)[0], train(BASE, [Member()], how, table)[0])


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8])
def test_rows_may_be_integers_of_any_type(dtype: torch.dtype) -> None:
    how, rows = settings_for(max_epochs=1), torch.arange(150)
    expected = train(BASE, [Member(train=rows)], how)[0]
    assert_same(train(BASE, [Member(train=rows.to(dtype))], how)[0], expected)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=5), st.integers(1, 30), st.integers(1, 6))
def test_blocks_with_the_same_pattern_differ_only_in_their_first_step(
    sizes: list[int], batch_size: int, block_steps: int
) -> None:
    """So that a captured graph can serve all of them, which finds its rows by the number of the step."""
    sizes = sorted(sizes, reverse=True)
    table = Table(torch.arange(60.0).unsqueeze(1), torch.arange(60.0).unsqueeze(1))
    rows, weights = [torch.randperm(60)[:size] for size in sizes], [torch.rand(size) for size in sizes]
    tables = DeviceTables([table], CPU, torch.float32, torch.float32)
    batches = RowBatches(
        RowSet(tables, [0] * len(sizes), rows, weights, torch.float32), batch_size, block_steps, torch.float32
    )
    batches.shuffle(torch.arange(len(sizes)))
    rates = torch.rand(max(batches.n_steps), 3, len(sizes), 1)
    first_of_pattern = {block.pattern: block for block in reversed(batches.blocks)}
    expected = [[part.clone() for part in batches.gather(block, rates)] for block in batches.blocks]
    batches.next_step = torch.zeros((), dtype=torch.int64)  # as on a GPU
    for block, parts in zip(batches.blocks, expected, strict=True):
        found = batches.gather(first_of_pattern[block.pattern], rates)
        assert all(torch.equal(own, other) for own, other in zip(found, parts, strict=True))


@given(st.lists(st.integers(1, 60), min_size=1, max_size=5), st.integers(1, 70), st.integers(1, 6))
def test_an_epoch_visits_every_row_of_every_model_once(sizes: list[int], batch_size: int, block_steps: int) -> None:
    sizes = sorted(sizes, reverse=True)
    n_rows = 60
    table = Table(torch.arange(n_rows, dtype=torch.float64).unsqueeze(1), torch.zeros(n_rows, 1).double())
    rows = [torch.randperm(n_rows)[:size] for size in sizes]
    tables = DeviceTables([table], CPU, torch.float64, torch.float64)
    row_set = RowSet(tables, [0] * len(sizes), rows, [None] * len(sizes), torch.float64)
    batches = RowBatches(row_set, batch_size, block_steps, torch.float64)
    batches.shuffle(torch.arange(len(sizes)))
    seen: list[list[float]] = [[] for _ in sizes]
    n_steps = [0] * len(sizes)
    for block in batches.blocks:
        assert len(block.batches) <= block_steps
        gathered = batches.gather(block, torch.zeros(100, 3, len(sizes), 1))
        for batch in block.batches:
            places = slice(batch.start, batch.start + batch.n_rows)
            for model in range(batch.n_models):
                weights, own = gathered.weights[model, places], gathered.x[model, places, 0]
                n_own = int((weights > 0).sum())
                # The rows of a batch weigh the same, together 1. Those beyond a model's own end weigh nothing.
                assert weights.tolist() == pytest.approx([1 / n_own] * n_own + [0.0] * (len(own) - n_own))
                assert set(own.tolist()) <= set(rows[model].tolist())
                seen[model] += own[:n_own].tolist()
                n_steps[model] += 1
    for model, own_rows in enumerate(rows):
        assert sorted(seen[model]) == sorted(own_rows.tolist())
        assert n_steps[model] == -(-sizes[model] // min(batch_size, max(sizes)))
