"""With metric=True every epoch's validation metric is recorded, and nothing else changes."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tabgnm.nn import GNMShape
from tabgnm.nn.losses import (
    BinaryCrossEntropy,
    CrossEntropy,
    Huber,
    JointCrossEntropy,
    Loss,
    LossWithMetric,
    Pinball,
    Poisson,
    Quantiles,
    SquaredError,
)
from tabgnm.training import Fleet, History, Member, Table
from tests.training.examples import (
    BASE,
    EVERYTHING,
    PERIODIC,
    assert_all_same,
    different_members,
    settings_for,
    table_for,
    train,
)
from tests.training.test_callbacks import Diary, RaiseAt

LOSSES: list[LossWithMetric] = [
    CrossEntropy(),
    BinaryCrossEntropy(),
    JointCrossEntropy((2, 1)),
    SquaredError(),
    Huber(0.3),
    Pinball(0.8),
    Poisson(),
    Quantiles((0.1, 0.5, 0.9)),
]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("shape", [BASE, EVERYTHING, PERIODIC], ids=["base", "everything", "periodic"])
@pytest.mark.parametrize("n_models", [1, 4])
def test_the_metric_is_the_mean_over_the_validation_rows(loss: LossWithMetric, shape: Any, n_models: int) -> None:
    table = table_for(loss, shape=shape)
    weight = torch.rand(200, dtype=torch.float64)
    members = [replace(member, sample_weight=weight) for member in different_members(n_models)]
    models = train(shape, members, settings_for(loss, max_epochs=6, metric=True), table)
    for member, model in zip(members, models, strict=True):
        assert len(model.history.val_metric) == 6
        with torch.no_grad():
            outputs = model.network()(table.x[member.val])
        per_row = loss.metric_per_row(outputs, table.y[member.val])
        expected = (per_row * weight[member.val]).sum() / weight[member.val].sum()
        assert model.history.val_metric[model.history.best_epoch - 1] == pytest.approx(expected.item(), rel=1e-9)


@pytest.mark.parametrize("chunk_size", [1, 3, 8])
def test_asking_for_it_changes_nothing_else(chunk_size: int) -> None:
    members, settings = different_members(8), settings_for(max_epochs=30, patience=3)
    plain = train(BASE, members, settings, chunk_size=chunk_size)
    models = train(BASE, members, replace(settings, metric=True), chunk_size=chunk_size)
    for one, other in zip(models, plain, strict=True):
        assert other.history.val_metric == []
        assert len(one.history.val_metric) == one.history.n_epochs
        one.history.val_metric.clear()
    assert_all_same(models, plain)


def test_it_does_not_depend_on_the_fleet() -> None:
    members, settings = different_members(6), settings_for(max_epochs=10, metric=True)
    assert_all_same(train(BASE, members, settings), [train(BASE, [m], settings)[0] for m in members], 1e-8)


def test_it_is_computed_piece_by_piece_where_rows_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    members, settings = different_members(4), settings_for(metric=True)
    whole = train(BASE, members, settings)
    monkeypatch.setattr("tabgnm.training.validation.VALIDATION_ROWS", 7)
    assert_all_same(train(BASE, members, settings), whole, 1e-8)


def test_reports_hold_what_the_histories_hold() -> None:
    diary, settings = Diary(), settings_for(max_epochs=20, patience=2, metric=True)
    result = Fleet(BASE, different_members(6), settings).fit(table_for(settings.loss), callbacks=[diary])
    seen: list[list[float]] = [[] for _ in result.models]
    for report in diary.reports():
        for i, model in enumerate(report.models):
            seen[model].append(report.val_metric[i])
    assert seen == [model.history.val_metric for model in result.models]


def test_without_validation_rows_there_is_none() -> None:
    diary = Diary()
    model = train(BASE, [Member()], settings_for(metric=True), callbacks=[diary])[0]
    assert model.history.val_metric == [] and all(report.val_metric == [] for report in diary.reports())


def test_a_resumed_run_has_the_whole_of_it(tmp_path: Path) -> None:
    members, settings = different_members(4), settings_for(max_epochs=10, metric=True)
    path, table = tmp_path / "fleet.safetensors", table_for(settings.loss)
    with pytest.raises(RuntimeError, match="the power is off"):
        Fleet(BASE, members, settings).fit(
            table, checkpoint=path, checkpoint_every=3, callbacks=[RaiseAt(7, RuntimeError("the power is off"))]
        )
    resumed = Fleet(BASE, members, settings).fit(table, checkpoint=path, checkpoint_every=3).models
    assert_all_same(resumed, Fleet(BASE, members, settings).fit(table, checkpoint_every=3).models)


def test_it_survives_json() -> None:
    history = train(BASE, different_members(1), settings_for(metric=True))[0].history
    assert history.val_metric and History.from_dict(json.loads(json.dumps(history.as_dict()))) == history


@dataclass(frozen=True)
class LossOfMyOwn:
    """A loss as a user may write it: without a metric."""

    name: str = "my own"
    setting: float = 0.0

    def per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - targets).square().sum(dim=-1)

    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return 2 * (outputs - targets)

    def check(self, n_outputs: int, targets: Tensor) -> None:
        pass


def test_a_loss_without_a_metric_works_as_long_as_nobody_asks() -> None:
    loss: Loss = LossOfMyOwn()
    members = different_members(3)
    assert_all_same(train(BASE, members, settings_for(loss)), train(BASE, members, settings_for(SquaredError())))
    with pytest.raises(
        ValueError,
        match=r"metric=True requires a loss with a metric, but LossOfMyOwn has none; add a method metric_per_row",
    ):
        settings_for(loss, metric=True)
    with pytest.raises(TypeError, match="metric='accuracy' is not a bool; use True or False"):
        settings_for(metric="accuracy")


@pytest.mark.parametrize("n_models", [1, 4])
def test_several_class_targets_are_learned_at_once(n_models: int) -> None:
    loss = JointCrossEntropy((3, 2))
    x = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
    y = torch.stack([x[:, :3].argmax(dim=1), (x[:, 3] > 0).long()], dim=1)
    rows: dict[str, Any] = {"train": torch.arange(200), "val": torch.arange(200, 300)}
    members = [Member(seed=seed, learning_rate=0.02, **rows) for seed in range(n_models)]
    shape = GNMShape(4, 5, n_nodes=30, n_layers=2, init="kaiming")
    settings = settings_for(loss, max_epochs=30, precision="float32", metric=True)
    models = train(shape, members, settings, Table(x, y))
    assert min(model.history.val_metric[-1] for model in models) > 0.8  # of the rows have both right
