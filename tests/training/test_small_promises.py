"""Small promises that are easy to break: global state, late errors, ignored rows."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tabgnm.nn.losses import CrossEntropy, SquaredError
from tabgnm.training import Callback, EpochReport, Fleet, Member, Table
from tabgnm.training.epoch_loop import EpochLoop
from tests.training.examples import BASE, different_members, settings_for, table_for, train


class Count(Callback):
    def __init__(self) -> None:
        self.epochs = 0

    def on_epoch_end(self, report: EpochReport) -> None:  # noqa: ARG002 - the hook's signature
        self.epochs += 1


def test_a_fit_on_the_cpu_does_not_touch_how_gpus_multiply() -> None:
    before = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = "tf32"  # the new interface, which does not mix with the old one
    try:
        Fleet(BASE, [Member()], settings_for(max_epochs=1)).fit(table_for(CrossEntropy()))
        assert torch.backends.cuda.matmul.fp32_precision == "tf32"
    finally:
        torch.backends.cuda.matmul.fp32_precision = before


def test_a_row_of_weight_0_may_hold_anything_finite() -> None:
    table = table_for(SquaredError())
    y = table.y.clone()
    y[5] = 1e200
    weight = torch.ones(len(y))
    weight[5] = 0
    member = Member(train=torch.arange(100), val=torch.arange(100), sample_weight=weight)
    models = Fleet(BASE, [member], settings_for(SquaredError(), max_epochs=3)).fit(Table(table.x, y)).models
    assert models[0].history.status == "completed"


def test_a_bad_member_is_noticed_before_anything_is_trained() -> None:
    watcher = Count()
    members = [Member(), Member(seed=1), Member(sample_weight=torch.ones(3))]
    with pytest.raises(ValueError, match="sample_weight has shape"):
        Fleet(BASE, members, settings_for(), chunk_size=1).fit(table_for(CrossEntropy()), callbacks=[watcher])
    assert watcher.epochs == 0


def test_finished_chunks_are_saved(tmp_path: Path) -> None:
    class StopInTheThirdChunk(Callback):
        def on_epoch_end(self, report: EpochReport) -> None:
            if report.models == [2]:
                raise RuntimeError("stop")

    fleet = Fleet(BASE, [Member(seed=seed) for seed in range(4)], settings_for(max_epochs=3), chunk_size=1)
    file = tmp_path / "fleet.ckpt"
    with pytest.raises(RuntimeError, match="stop"):
        fleet.fit(table_for(CrossEntropy()), callbacks=[StopInTheThirdChunk()], checkpoint=file)
    watcher = Count()
    resumed = fleet.fit(table_for(CrossEntropy()), callbacks=[watcher], checkpoint=file)
    assert watcher.epochs == 2 * 3  # the first two chunks were not trained again
    for model, again in zip(fleet.fit(table_for(CrossEntropy())).models, resumed.models, strict=True):
        assert all(torch.equal(model.parameters[name], value) for name, value in again.parameters.items())


def test_a_network_from_a_result_leaves_the_random_numbers_alone() -> None:
    model = Fleet(BASE, [Member()], settings_for(max_epochs=1)).fit(table_for(CrossEntropy())).models[0]
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    net = model.network()
    assert torch.equal(torch.rand(3), expected)
    assert all(parameter.requires_grad for parameter in net.parameters())


def test_predict_takes_numpy_and_refuses_no_models() -> None:
    result = Fleet(BASE, [Member()], settings_for(max_epochs=1)).fit(table_for(CrossEntropy()))
    x = table_for(CrossEntropy()).x
    assert torch.equal(result.predict(np.asarray(x)), result.predict(x))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="models is empty"):
        result.predict(x, models=[])
    assert result == result and result != Fleet(BASE, [Member()], settings_for(max_epochs=1)).fit(
        table_for(CrossEntropy())
    )


def test_settings_of_equal_value_are_equal_keys() -> None:
    given = settings_for(max_epochs=5)
    again = replace(given, max_epochs=np.int64(5), betas=[0.9, 0.999])
    assert again == given and hash(again) == hash(given)


def test_a_model_that_diverges_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    settings = settings_for(SquaredError(), max_epochs=50)
    Fleet(BASE, [Member(learning_rate=1e200)], settings).fit(table_for(SquaredError()))
    assert "model 0 diverged in epoch" in caplog.text


def test_the_tiniest_numbers_are_numbers_again_after_a_fit() -> None:
    Fleet(BASE, [Member()], settings_for(max_epochs=1)).fit(table_for(CrossEntropy()))
    assert torch.tensor(1e-40).mul(1.0) != 0


class AbsoluteError:
    """A loss of the user's own, a plain class."""

    name, setting = "absolute", 0.0

    def per_row(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return (outputs - targets).abs().sum(dim=-1)

    def gradient(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return torch.sign(outputs - targets)

    def check(self, n_outputs: int, targets: torch.Tensor) -> None:
        assert targets.shape[-1] == n_outputs


def test_a_loss_of_the_users_own_trains_and_resumes(tmp_path: Path) -> None:
    class Stop(Callback):
        def on_epoch_end(self, report: EpochReport) -> None:
            if report.epoch == 5:
                raise RuntimeError("stop")

    def fleet() -> Fleet:
        return Fleet(BASE, [Member(), Member(seed=1)], settings_for(AbsoluteError(), max_epochs=8))

    table, file = table_for(SquaredError()), tmp_path / "own.ckpt"
    with pytest.raises(RuntimeError, match="stop"):
        fleet().fit(table, callbacks=[Stop()], checkpoint=file, checkpoint_every=2)
    resumed, whole = fleet().fit(table, checkpoint=file).models, fleet().fit(table).models
    for model, again in zip(whole, resumed, strict=True):
        assert model.history.train_loss[-1] < model.history.train_loss[0]
        assert all(torch.equal(model.parameters[name], value) for name, value in again.parameters.items())


def test_what_a_fit_needed_is_free_as_soon_as_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only when the garbage collector comes by: it may be memory of a GPU, and the next fit may want it."""
    alive: list[weakref.ref[EpochLoop]] = []
    begin = EpochLoop.__init__

    def remembered(self: EpochLoop, *how: Any, **more: Any) -> None:
        alive.append(weakref.ref(self))
        begin(self, *how, **more)

    monkeypatch.setattr(EpochLoop, "__init__", remembered)
    gc.disable()
    try:
        train(BASE, different_members(3), settings_for(max_epochs=2))
        assert [each() for each in alive] == [None]
    finally:
        gc.enable()
