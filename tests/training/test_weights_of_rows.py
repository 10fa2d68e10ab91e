"""Sample and class weights: what they are equal to, for every loss."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tabgnm.nn.losses import BinaryCrossEntropy, CrossEntropy, Loss
from tabgnm.training import Member, Table, TrainedModel
from tests.training.examples import BASE, LOSSES, SHAPES, assert_all_same, settings_for, table_for, train

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
TRAIN, VAL = torch.arange(150), torch.arange(150, 200)


def some_weights() -> Tensor:
    return 0.1 + torch.rand(200, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def fit(loss: Loss, table: Table | None = None, **own: object) -> list[TrainedModel]:
    """One model alone, and three of different sizes beside each other."""
    members = [Member(train=TRAIN[: 150 - 30 * i], val=VAL, seed=i, **own) for i in range(3)]  # type: ignore[arg-type]
    table = table or table_for(loss)
    how = settings_for(loss, max_epochs=4)
    return train(BASE, members, how, table) + train(BASE, members[:1], how, table)


@every_loss
def test_weights_of_one_are_no_weights(loss: Loss) -> None:
    assert_all_same(fit(loss, sample_weight=torch.ones(200)), fit(loss))


@every_loss
def test_only_the_proportions_of_weights_count(loss: Loss) -> None:
    weights = some_weights()
    expected = fit(loss, sample_weight=weights)
    for factor in (1e-6, 0.3, 1e9):
        assert_all_same(fit(loss, sample_weight=factor * weights), expected, 1e-8)


@every_loss
def test_weights_matter(loss: Loss) -> None:
    plain, weighted = fit(loss)[0], fit(loss, sample_weight=some_weights() ** 4)[0]
    assert plain.history.train_loss != pytest.approx(weighted.history.train_loss, rel=1e-3)


@every_loss
def test_rows_of_weight_zero_do_not_matter(loss: Loss) -> None:
    weights, table = some_weights(), table_for(loss)
    weights[::3] = 0
    y = table.y.clone()
    y[::3] = (1 - y[::3]) if isinstance(loss, BinaryCrossEntropy) else y[::3].roll(1, dims=0)
    if isinstance(loss, CrossEntropy):
        y[::3] = (table.y[::3] + 1) % 3
    x = table.x.clone()
    x[::3] *= -5
    assert_all_same(fit(loss, Table(x, y), sample_weight=weights), fit(loss, table, sample_weight=weights), 1e-12)


@every_loss
@pytest.mark.parametrize("shape", ["base", "everything"])
def test_an_integer_weight_is_the_row_so_many_times(loss: Loss, shape: str) -> None:
    table = table_for(loss)
    counts = torch.randint(1, 4, (150,), generator=torch.Generator().manual_seed(0))
    how = settings_for(loss, max_epochs=5, batch_size=10**6)
    weighted = Member(train=TRAIN, val=VAL, sample_weight=torch.cat([counts, torch.ones(50)]), learning_rate=0.01)
    repeated = replace(weighted, train=TRAIN.repeat_interleave(counts), sample_weight=None)
    assert_all_same(train(SHAPES[shape], [weighted], how, table), train(SHAPES[shape], [repeated], how, table), 1e-8)


def test_models_with_and_without_weights_may_share_a_fleet() -> None:
    members = [Member(seed=i, val=VAL, train=TRAIN, sample_weight=some_weights() if i % 2 else None) for i in range(4)]
    how = settings_for()
    assert_all_same(train(BASE, members, how), [train(BASE, [member], how)[0] for member in members], 1e-8)


@pytest.mark.parametrize("factor", [1e308, 1e-320])
def test_extreme_weights_count_relative_to_each_other(factor: float) -> None:
    equal = fit(CrossEntropy())
    extreme = fit(CrossEntropy(), sample_weight=torch.full((200,), factor, dtype=torch.float64))
    assert_all_same(extreme, equal, 1e-10)
