"""Callbacks are told what happens in order, can stop models, and Ctrl-C gives back what there is."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tabgnm.training import Callback, EpochReport, Fleet, FleetResult, Member
from tabgnm.training.flat_weights import FlatLayout
from tests.training.examples import (
    BASE,
    CPU,
    assert_all_same,
    assert_same,
    different_members,
    settings_for,
    table_for,
    train,
    weights_of,
)


class Diary(Callback):
    """Writes down every call."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def on_train_begin(self, n_models: int, max_epochs: int) -> None:
        self.calls.append(("begin", n_models, max_epochs))

    def on_epoch_end(self, report: EpochReport) -> None:
        self.calls.append(("epoch", report))

    def on_model_end(self, model: int, n_epochs: int, status: str) -> None:
        self.calls.append(("model", model, n_epochs, status))

    def on_train_end(self) -> None:
        self.calls.append(("end",))

    def reports(self) -> list[EpochReport]:
        return [call[1] for call in self.calls if call[0] == "epoch"]


class RaiseAt(Callback):
    """Raises an exception at the end of an epoch, the n-th that is reported."""

    def __init__(self, n: int, error: BaseException) -> None:
        self.left, self.error = n, error

    def on_epoch_end(self, report: EpochReport) -> None:  # noqa: ARG002 - the hook's signature
        self.left -= 1
        if self.left == 0:
            raise self.error


def fit(members: list[Member], callbacks: list[Callback], chunk_size: int | None = None, **how: Any) -> FleetResult:
    settings = settings_for(**how)
    return Fleet(BASE, members, settings, chunk_size=chunk_size).fit(table_for(settings.loss), callbacks=callbacks)


def test_hooks_are_called_in_order() -> None:
    diary = Diary()
    fit(different_members(3), [diary], max_epochs=2)
    assert [call[0] for call in diary.calls] == ["begin", "epoch", "epoch", "model", "model", "model", "end"]
    assert diary.calls[0] == ("begin", 3, 2)
    assert sorted(diary.calls[3:6]) == [("model", i, 2, "completed") for i in range(3)]


@pytest.mark.parametrize("chunk_size", [1, 3, 8])
def test_reports_hold_what_the_histories_hold(chunk_size: int) -> None:
    diary = Diary()
    result = fit(different_members(8), [diary], chunk_size, max_epochs=20, patience=2)
    seen: list[list[tuple[float, float]]] = [[] for _ in result.models]
    for report in diary.reports():
        for i, model in enumerate(report.models):
            assert len(seen[model]) == report.epoch - 1
            seen[model].append((report.train_loss[i], report.val_loss[i]))
    for model, told in zip(result.models, seen, strict=True):
        assert told == list(zip(model.history.train_loss, model.history.val_loss, strict=True))
    ends = sorted(call[1:] for call in diary.calls if call[0] == "model")
    assert ends == [(i, m.history.n_epochs, m.history.status) for i, m in enumerate(result.models)]
    assert len({n_epochs for _, n_epochs, _ in ends}) > 1


def test_reports_without_validation_have_no_validation_loss() -> None:
    diary = Diary()
    fit([Member(), Member(seed=1), Member(seed=2)], [diary], max_epochs=2)
    assert [(r.epoch, r.models, len(r.train_loss), r.val_loss) for r in diary.reports()] == [
        (1, [0, 1, 2], 3, []),
        (2, [0, 1, 2], 3, []),
    ]


def test_watching_changes_nothing() -> None:
    members = different_members(4)
    assert_all_same(fit(members, [Diary(), Callback()]).models, fit(members, []).models)


def test_returning_true_stops_the_models_of_the_report() -> None:
    class StopAtThree(Diary):
        def on_epoch_end(self, report: EpochReport) -> bool:  # type: ignore[override]
            super().on_epoch_end(report)
            return report.epoch == 3

    members, diary, other = different_members(4), StopAtThree(), Diary()
    models = fit(members, [diary, other], 2, max_epochs=10).models
    assert [(m.history.n_epochs, m.history.status) for m in models] == [(3, "stopped_early")] * 4
    assert [report.epoch for report in diary.reports()] == [1, 2, 3] * 2
    assert diary.calls == other.calls
    shorter = fit(members, [], max_epochs=3).models
    for one, expected in zip(models, shorter, strict=True):
        torch.testing.assert_close(weights_of(one), weights_of(expected), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("chunk_size", [None, 1])
def test_an_exception_ends_training_and_reaches_the_caller(chunk_size: int | None) -> None:
    before, after = Diary(), Diary()
    with pytest.raises(RuntimeError, match="enough"):
        fit(different_members(3), [before, RaiseAt(2, RuntimeError("enough")), after], chunk_size)
    for diary in (before, after):
        assert diary.calls[-1] == ("end",) and diary.calls.count(("end",)) == 1
    assert [report.epoch for report in before.reports()] == [1, 2]
    assert not torch.is_inference_mode_enabled()


def test_ctrl_c_gives_back_the_best_weights_so_far() -> None:
    members, diary = different_members(6), Diary()
    models = fit(members, [diary, RaiseAt(5, KeyboardInterrupt())], max_epochs=50).models
    assert [(m.history.n_epochs, m.history.status) for m in models] == [(5, "interrupted")] * 6
    assert diary.calls[-1] == ("end",)
    assert sorted(call[1:] for call in diary.calls if call[0] == "model") == [(i, 5, "interrupted") for i in range(6)]
    table = table_for(settings_for().loss)
    for member, model in zip(members, models, strict=True):
        with torch.no_grad():
            output = model.network()(table.x[member.val])
        loss = settings_for().loss.per_row(output, table.y[member.val]).mean().item()
        assert loss == pytest.approx(min(model.history.val_loss), rel=1e-9)
    for one, expected in zip(models, fit(members, [], max_epochs=5).models, strict=True):
        assert one.history.val_loss == pytest.approx(expected.history.val_loss, rel=1e-9)
        assert one.history.best_epoch == expected.history.best_epoch


def test_ctrl_c_leaves_models_that_had_no_turn_with_their_first_weights() -> None:
    members = [Member(seed=seed) for seed in range(6)]
    models = fit(members, [RaiseAt(12, KeyboardInterrupt())], chunk_size=2, max_epochs=8).models
    assert [(m.history.n_epochs, m.history.status) for m in models] == [
        *[(8, "completed")] * 2,
        *[(4, "interrupted")] * 2,
        *[(0, "interrupted")] * 2,
    ]
    assert_all_same(models[:2], fit(members[:2], [], max_epochs=8).models, 1e-8)
    for model, member in zip(models[4:], members[4:], strict=True):
        first = FlatLayout(BASE).views(FlatLayout(BASE).first_weights([member], CPU, torch.float64)[0])
        assert all(torch.equal(value, first[name]) for name, value in model.parameters.items())
        assert model.history.best_epoch == 0


def test_ctrl_c_spares_who_stopped_before() -> None:
    members = different_members(12)
    how: dict[str, Any] = {"max_epochs": 60, "patience": 3}
    whole = fit(members, [], **how).models
    last = sorted(model.history.n_epochs for model in whole)[-2]
    models = fit(members, [RaiseAt(last, KeyboardInterrupt())], **how).models
    statuses = {model.history.status for model in models}
    assert statuses == {"stopped_early", "interrupted"}
    for one, expected in zip(models, whole, strict=True):
        if one.history.status == "stopped_early":
            assert_same(one, expected)


def test_threads_and_arithmetic_are_as_before_after_every_way_out() -> None:
    before = torch.get_num_threads(), torch.backends.cuda.matmul.allow_tf32
    fit([Member()], [RaiseAt(1, KeyboardInterrupt())])
    with pytest.raises(RuntimeError):
        fit([Member()], [RaiseAt(1, RuntimeError())])
    assert (torch.get_num_threads(), torch.backends.cuda.matmul.allow_tf32) == before
    assert not torch.is_inference_mode_enabled()


def test_trained_weights_can_be_trained_on() -> None:
    model = train(BASE, [Member()], settings_for(max_epochs=1))[0]
    net = model.network().train()
    net(torch.zeros(2, 6, dtype=torch.float64)).sum().backward()
    assert all(parameter.grad is not None for parameter in net.parameters())
    for value in model.parameters.values():
        value.clone().requires_grad_().sum().backward()
        value.add_(1.0)
