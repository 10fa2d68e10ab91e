"""Every model stops for itself, and keeps the weights of its best epoch; a model that diverges harms nobody."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from tabgnm.nn.losses import CrossEntropy, Loss, SquaredError, loss_by_name
from tabgnm.nn.shapes import Shape
from tabgnm.training import Fleet, History, Member, Table, TrainedModel
from tabgnm.training.flat_weights import FlatLayout
from tests.training.examples import (
    BASE,
    CPU,
    LOSSES,
    SHAPES,
    assert_all_same,
    assert_same,
    different_members,
    settings_for,
    table_for,
    train,
    weights_of,
)


def stopped(history: History, patience: int | None, max_epochs: int) -> tuple[int, int, str]:
    """Epochs, best epoch and status that a list of validation losses should lead to."""
    best, best_epoch = math.inf, 0
    for epoch, loss in enumerate(history.val_loss, start=1):
        if loss < best:
            best, best_epoch = loss, epoch
        if patience is not None and epoch - best_epoch >= patience:
            return epoch, best_epoch, "stopped_early" if epoch < max_epochs else "completed"
    return max_epochs, best_epoch, "completed"


@pytest.mark.parametrize("patience", [1, 2, 5, 20, None])
def test_patience_is_counted_from_the_best_epoch_of_each_model(patience: int | None) -> None:
    members = different_members(10)
    models = train(BASE, members, settings_for(max_epochs=40, patience=patience))
    for model in models:
        history = model.history
        got = history.n_epochs, history.best_epoch, history.status
        assert got == stopped(history, patience, 40)
        assert len(history.val_loss) == len(history.train_loss) == history.n_epochs
    if patience in (1, 2, 5):
        assert len({model.history.n_epochs for model in models}) > 1


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("l0", [0.0, 1e-3])
@pytest.mark.parametrize("loss", [LOSSES[0], LOSSES[4], LOSSES[5]], ids=repr)
def test_the_kept_weights_are_those_of_the_best_epoch(shape: Shape, l0: float, loss: Loss) -> None:
    members, table = different_members(4, l0=l0), table_for(loss)
    for model, member in zip(
        train(shape, members, settings_for(loss, max_epochs=15, patience=4), table), members, strict=True
    ):
        with torch.no_grad():
            output = model.network()(table.x[member.val])
        again = loss.per_row(output, table.y[member.val]).mean().item()
        assert again == pytest.approx(model.history.best_val_loss, rel=1e-9)
        assert model.history.best_val_loss == min(model.history.val_loss)


def test_the_validation_loss_is_weighted_as_the_training_loss() -> None:
    weight = torch.rand(200, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    table, val = table_for(CrossEntropy()), torch.arange(100, 200)
    model = train(BASE, [Member(train=torch.arange(100), val=val, sample_weight=weight)], settings_for(), table)[0]
    with torch.no_grad():
        per_row = CrossEntropy().per_row(model.network()(table.x[val]), table.y[val])
    expected = ((per_row * weight[val]).sum() / weight[val].sum()).item()
    assert model.history.best_val_loss == pytest.approx(expected, rel=1e-9)


def test_many_validation_rows_are_validated_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    members = different_members(3)
    whole = train(BASE, members, settings_for())
    monkeypatch.setattr("tabgnm.training.validation.VALIDATION_ROWS", 7)
    assert_all_same(train(BASE, members, settings_for()), whole, 1e-12)


def test_without_validation_the_last_weights_are_kept() -> None:
    members = [Member(seed=seed, learning_rate=0.05) for seed in range(3)]
    models = train(BASE, members, settings_for(max_epochs=6))
    for member, model in zip(members, models, strict=True):
        history = model.history
        assert (history.n_epochs, history.best_epoch, history.status) == (6, 6, "completed")
        assert history.val_loss == [] and math.isnan(history.best_val_loss)
        # More epochs of the same seed begin with the same ones.
        longer = train(BASE, [member], settings_for(max_epochs=7))[0]
        assert longer.history.train_loss[:6] == pytest.approx(history.train_loss, rel=1e-9)


def test_validation_does_not_change_training() -> None:
    rows = torch.arange(150)
    without = train(BASE, [Member(train=rows)], settings_for())[0]
    beside = train(BASE, [Member(train=rows, val=torch.arange(150, 200))], settings_for())[0]
    assert without.history.train_loss == beside.history.train_loss


# A model that diverges


def with_one_that_explodes(**own: object) -> list[Member]:
    rows = {"train": torch.arange(150), "val": torch.arange(150, 200)}
    calm = [Member(seed=seed, learning_rate=0.01, dropout=0.1 * seed, **rows) for seed in range(4)]
    return [*calm[:2], Member(**(rows | {"seed": 9} | own)), *calm[2:]]  # type: ignore[arg-type]


def assert_diverged(model: TrainedModel) -> None:
    history = model.history
    assert history.status == "diverged"
    last = history.train_loss[-1], history.val_loss[-1]
    assert not all(map(math.isfinite, last))
    assert all(map(math.isfinite, history.train_loss[:-1])) and all(map(math.isfinite, history.val_loss[:-1]))
    assert history.best_epoch < history.n_epochs
    assert torch.isfinite(weights_of(model)).all()


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("chunk_size", [1, 5])
def test_a_model_that_diverges_says_so_and_the_others_go_on(precision: str, chunk_size: int) -> None:
    members = with_one_that_explodes(learning_rate=1e6 if precision == "float32" else 1e60)
    settings = settings_for(SquaredError(), max_epochs=12, precision=precision)
    models = train(BASE, members, settings, chunk_size=chunk_size)
    exploding = models.pop(2)
    assert_diverged(exploding)
    tolerance = 1e-4 if precision == "float32" else 1e-8
    assert_all_same(models, train(BASE, members[:2] + members[3:], settings, chunk_size=chunk_size), tolerance)
    assert [model.history.status for model in models] == ["completed"] * 4
    assert train(BASE, [members[2]], settings)[0].history.n_epochs == exploding.history.n_epochs


def test_a_model_that_diverges_later_keeps_its_best_weights() -> None:
    # One step per epoch, the first with next to no rate; without an activation nothing holds the weights back.
    shape = replace(BASE, activation="identity", n_layers=5)
    settings = settings_for(SquaredError(), max_epochs=40, precision="float32", warmup=0.9, batch_size=1000)
    model = train(shape, with_one_that_explodes(learning_rate=1e6), settings)[2]
    assert_diverged(model)
    assert model.history.best_epoch == 1
    table = table_for(SquaredError())
    with torch.no_grad():
        output = model.network()(table.x[150:].float())
    loss = SquaredError().per_row(output, table.y[150:].float()).mean().item()
    assert loss == pytest.approx(model.history.best_val_loss, rel=1e-4)


def test_a_huge_value_in_a_table_harms_only_who_reads_it() -> None:
    tables = [table_for(SquaredError(), seed=seed) for seed in range(2)]
    x = tables[1].x.clone()
    x[7, 3] = 1e30
    members = [Member(seed=seed, table=seed % 2) for seed in range(4)]
    settings = settings_for(SquaredError(), max_epochs=4, precision="float32")
    models = train(BASE, members, settings, [tables[0], Table(x, tables[1].y)])
    assert [model.history.status for model in models] == ["completed", "diverged"] * 2
    assert [model.history.n_epochs for model in models] == [4, 1, 4, 1]
    for seed in (0, 2):
        assert_same(models[seed], train(BASE, [members[seed]], settings, tables)[0], 1e-4)


def test_a_model_that_diverges_in_its_first_epoch_keeps_its_first_weights() -> None:
    table = table_for(SquaredError())
    x = table.x.clone()
    x[7] = 1e200
    model = train(BASE, [Member(seed=5)], settings_for(SquaredError()), Table(x, table.y))[0]
    assert (model.history.status, model.history.n_epochs, model.history.best_epoch) == ("diverged", 1, 0)
    first = FlatLayout(BASE).views(FlatLayout(BASE).first_weights([Member(seed=5)], CPU, torch.float64)[0])
    assert all(torch.equal(value, first[name]) for name, value in model.parameters.items())


def test_a_fleet_in_which_all_models_diverge_ends() -> None:
    settings = settings_for(SquaredError(), max_epochs=1000, precision="float32")
    result = Fleet(BASE, [Member(seed=s, learning_rate=1e12) for s in range(3)], settings).fit(
        table_for(SquaredError())
    )
    assert [model.history.status for model in result.models] == ["diverged"] * 3


@pytest.mark.parametrize("combine", ["none", "residual"])  # NumpyStep and TorchStep
def test_models_that_diverge_cause_no_floating_point_errors(combine: str) -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(60, 6, generator=generator), 1e18 * torch.randn(60, 3, generator=generator).exp()
    shape = replace(BASE, n_layers=4, activation="silu", combine=combine)
    rows = {"train": torch.arange(40), "val": torch.arange(40, 60)}
    members = [Member(seed=seed, learning_rate=rate, **rows) for seed in range(3) for rate in (1e3, 1e8)]
    with np.errstate(all="raise"):
        models = (
            Fleet(shape, members, settings_for(loss_by_name("poisson"), max_epochs=6, precision="float32"))
            .fit(Table(x, y))
            .models
        )
    assert "diverged" in {model.history.status for model in models}


def test_rates_of_many_steps_cause_no_floating_point_errors() -> None:
    settings = settings_for(max_epochs=2, betas=(0.9, 1e-200))  # its square is 0, as 0.9 to the power of 10,000
    with np.errstate(all="raise"):
        Fleet(BASE, [Member(l1=1e-3)], settings).fit(table_for(CrossEntropy()))
