"""What a program has set in torch, a loss of its own, or odd members do not spoil a fit without anybody noticing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tabgnm.nn.losses import CrossEntropy, SquaredError
from tabgnm.training import Fleet, FleetSettings, Member, Table
from tabgnm.training.interruption import ctrl_c_raises
from tests.training.examples import BASE, EVERYTHING, PERIODIC, assert_all_same, settings_for, table_for, train
from tests.training.test_callbacks import Diary, RaiseAt


@pytest.mark.parametrize("shape", [BASE, EVERYTHING])
def test_autocast_of_the_program_does_not_apply(shape: Any) -> None:
    settings = settings_for(precision="float32")
    expected = train(shape, [Member(learning_rate=0.01)], settings)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        models = train(shape, [Member(learning_rate=0.01)], settings)
    assert_all_same(models, expected)


@pytest.fixture
def unusual_default() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("shape", [BASE, EVERYTHING, PERIODIC])
def test_neither_does_the_default_type(shape: Any, request: pytest.FixtureRequest) -> None:
    settings, table = settings_for(precision="float32"), table_for(CrossEntropy(), shape=shape)
    members = [Member(train=torch.arange(90), val=torch.arange(100, 150), sample_weight=torch.rand(200)), Member()]
    members[1] = Member(val=torch.arange(9), dropout=0.2)
    expected = train(shape, members, settings, table)
    request.getfixturevalue("unusual_default")
    assert_all_same(train(shape, members, settings, table), expected)


class OfMyOwn(SquaredError):
    """A loss that the trainer does not know."""


class TooWide(OfMyOwn):
    def per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - targets).square()


class TooNarrow(OfMyOwn):
    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - targets).sum(dim=-1)


class InPlace(OfMyOwn):
    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return targets.sub_(outputs).mul(-2)


class MetricOfAll(OfMyOwn):
    def metric_per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - targets).square().mean()


class Masked(OfMyOwn):
    """Ignores targets that are NaN."""

    def per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - targets).square().nan_to_num(0.0).mean(dim=-1)

    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (2 / outputs.shape[-1] * (outputs - targets)).nan_to_num(0.0)

    def check(self, n_outputs: int, targets: Tensor) -> None:
        super().check(n_outputs, targets.nan_to_num(0.0))


class NeverFinite(OfMyOwn):
    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:  # noqa: ARG002 - the signature of losses
        return torch.full_like(outputs, torch.nan)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (TooWide(), r"TooWide.per_row returned \(1, 2, 3\) for outputs of shape \(1, 2, 3\); expected a tensor"),
        (TooNarrow(), r"TooNarrow.gradient returned \(1, 2\) for outputs of shape .* of shape \(1, 2, 3\)"),
        (InPlace(), "InPlace changes its arguments in place"),
        (MetricOfAll(), r"MetricOfAll.metric_per_row returned \(\) for outputs of shape .* of shape \(1, 2\)"),
    ],
)
def test_a_loss_with_wrong_results_is_refused(loss: SquaredError, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train(BASE, [Member()], settings_for(loss), table_for(SquaredError()))


def test_a_loss_may_mark_targets_by_nan() -> None:
    table = table_for(SquaredError())
    y = table.y.double().index_fill(0, torch.arange(0, 200, 3), torch.nan)
    model = train(BASE, [Member(learning_rate=0.01)], settings_for(Masked(), max_epochs=5), Table(table.x, y))[0]
    assert model.history.train_loss[-1] < model.history.train_loss[0]


class WithoutCheck:
    def per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - targets).square().sum(dim=-1)

    gradient = per_row


def test_a_missing_method_of_a_loss_is_named() -> None:
    with pytest.raises(TypeError, match="is not a loss, as it has no method check; use an object"):
        FleetSettings(loss=WithoutCheck())  # type: ignore[arg-type]


@pytest.mark.parametrize("loss", [None, CrossEntropy, 3])
def test_what_is_not_a_loss_is_refused(loss: Any) -> None:
    with pytest.raises(TypeError, match="is not a loss; use an object such as CrossEntropy"):
        FleetSettings(loss=loss)


@pytest.mark.parametrize("n_epochs", [1, 3])
def test_weights_that_are_not_finite_are_never_the_best(n_epochs: int) -> None:
    settings = settings_for(NeverFinite(), max_epochs=n_epochs, batch_size=1000)
    model = train(BASE, [Member()], settings, table_for(SquaredError()))[0]
    assert model.history.best_epoch == 0
    assert all(value.isfinite().all() for value in model.parameters.values())


def test_a_chunk_that_was_done_when_training_was_interrupted_is_not_trained_again(tmp_path: Path) -> None:
    file, members = tmp_path / "checkpoint", [Member(seed=seed) for seed in range(3)]
    fleet = Fleet(BASE, members, settings_for(max_epochs=6), chunk_size=1)
    interrupted = fleet.fit(
        table_for(CrossEntropy()), checkpoint=file, callbacks=[RaiseAt(6, KeyboardInterrupt())]
    ).models
    assert [model.history.status for model in interrupted] == ["completed", "interrupted", "interrupted"]
    diary = Diary()
    models = fleet.fit(table_for(CrossEntropy()), checkpoint=file, callbacks=[diary]).models
    assert [call[0] for call in diary.calls].count("epoch") == 12
    assert not file.exists()
    assert_all_same(models, fleet.fit(table_for(CrossEntropy())).models)


def test_models_with_few_rows_are_not_padded_to_a_very_long_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tabgnm.training.fleet._MANY_ROWS", 1000)
    table = table_for(CrossEntropy(), 900)
    members = [Member(train=torch.arange(60), seed=1), Member(seed=2), Member(train=torch.arange(50), seed=3)]
    sizes: list[int] = []
    epoch_loop = Fleet._epoch_loop

    def counted(self: Fleet, positions: Any, *rest: Any) -> Any:
        sizes.append(len(positions))
        return epoch_loop(self, positions, *rest)

    monkeypatch.setattr(Fleet, "_epoch_loop", counted)
    models = train(BASE, members, settings_for(max_epochs=2), table)
    assert sizes == [1, 2]
    assert_all_same(models, [train(BASE, [member], settings_for(max_epochs=2), table)[0] for member in members], 1e-8)


def test_ctrl_c_in_the_last_epoch_is_not_lost_for_callers_that_want_complete_results() -> None:
    with pytest.raises(KeyboardInterrupt), ctrl_c_raises():
        Fleet(BASE, [Member()], settings_for(max_epochs=3)).fit(
            table_for(CrossEntropy()), callbacks=[RaiseAt(3, KeyboardInterrupt())]
        )
    with ctrl_c_raises():
        train(BASE, [Member()], settings_for(max_epochs=1))


@pytest.mark.parametrize("tables", [[], None, torch.zeros(3, 3), (torch.zeros(3, 6), torch.zeros(3))])
def test_what_is_not_a_table_is_refused(tables: Any) -> None:
    with pytest.raises(TypeError, match=r"tables must be a Table, as in fit\(Table\(x, y\)\)"):
        Fleet(BASE, [Member()], settings_for()).fit(tables)


def test_row_numbers_are_never_those_of_an_empty_table() -> None:
    with pytest.raises(ValueError, match="a model has no train rows"):
        Fleet(BASE, [Member(train=torch.tensor([]))], settings_for()).fit(table_for(CrossEntropy()))
    assert Table([[1.0]], [0]).x.shape == (1, 1)  # type: ignore[arg-type]
