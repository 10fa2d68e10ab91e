"""A run that was interrupted and goes on from its checkpoint ends exactly as one that was not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from safetensors.torch import save_file

from tabgnm.nn.losses import CrossEntropy
from tabgnm.nn.shapes import Shape
from tabgnm.training import CheckpointError, Fleet, FleetResult, FleetSettings, Member, Table, checkpoint_file
from tabgnm.training.checkpoint import fingerprint
from tabgnm.training.interruption import Interruption
from tests.training.examples import (
    BASE,
    EVERYTHING,
    PERCEPTRON,
    assert_all_same,
    different_members,
    settings_for,
    table_for,
    train,
)
from tests.training.test_callbacks import Diary, RaiseAt

TABLE = table_for(CrossEntropy())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "fleet.safetensors"


def fit(
    path: Path | str | None, members: list[Member], settings: FleetSettings, shape: Shape = BASE, **how: Any
) -> FleetResult:
    chunk_size = how.pop("chunk_size", None)
    fleet = Fleet(shape, members, settings, chunk_size=chunk_size)
    return fleet.fit(TABLE, checkpoint=path, **({"checkpoint_every": 3} | how))


def interrupt(path: Path, *how: Any, after: int, **also: Any) -> None:
    with pytest.raises(RuntimeError, match="the power is off"):
        fit(path, *how, callbacks=[RaiseAt(after, RuntimeError("the power is off"))], **also)
    assert path.exists()


@pytest.mark.parametrize("shape", [BASE, EVERYTHING, PERCEPTRON], ids=["base", "everything", "mlp"])
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize(("n_models", "l0"), [(1, 0.0), (5, 0.0), (5, 1e-3)])
def test_a_resumed_run_is_bit_identical(path: Path, shape: Shape, precision: str, n_models: int, l0: float) -> None:
    members = different_members(n_models, l0=l0)
    settings = settings_for(max_epochs=12, precision=precision, schedule="cosine", warmup=0.1)
    interrupt(path, members, settings, shape, after=7)
    diary = Diary()
    resumed = fit(path, members, settings, shape, callbacks=[diary])
    assert [report.epoch for report in diary.reports()] == list(range(7, 13))
    assert_all_same(resumed.models, fit(None, members, settings, shape).models)
    assert not path.exists()


@pytest.mark.parametrize("chunk_size", [1, 2, 3])
@pytest.mark.parametrize("after", [7, 25, 50])
def test_so_it_is_with_chunks_and_early_stopping(path: Path, chunk_size: int, after: int) -> None:
    members = different_members(6)
    settings = settings_for(max_epochs=30, patience=4, precision="float32")
    how = {"chunk_size": chunk_size}
    interrupt(path, members, settings, after=after, **how)
    assert_all_same(fit(path, members, settings, **how).models, fit(None, members, settings, **how).models)
    assert not path.exists()


def test_so_it_is_after_models_have_stopped(path: Path) -> None:
    members, settings = different_members(12), settings_for(max_epochs=60, patience=3)
    whole = fit(None, members, settings).models
    lengths = sorted(model.history.n_epochs for model in whole)
    assert lengths[0] + 4 < lengths[-1]
    for after in (lengths[0] + 3, lengths[5] + 1, lengths[-1]):
        interrupt(path, members, settings, after=after, checkpoint_every=1)
        assert_all_same(fit(path, members, settings, checkpoint_every=1).models, whole)


def test_so_it_is_after_several_interruptions(path: Path) -> None:
    members, settings = different_members(4), settings_for(max_epochs=20)
    for after in (4, 4, 1, 9):
        interrupt(path, members, settings, after=after)
    assert_all_same(fit(path, members, settings).models, fit(None, members, settings).models)


def test_ctrl_c_keeps_the_file_and_going_on_gives_the_whole_run(path: Path) -> None:
    members, settings = different_members(4), settings_for(max_epochs=12)
    partial = fit(path, members, settings, callbacks=[RaiseAt(8, KeyboardInterrupt())])
    assert {model.history.status for model in partial.models} == {"interrupted"}
    assert path.exists()
    assert_all_same(fit(path, members, settings).models, fit(None, members, settings).models)
    assert not path.exists()


def test_the_file_may_be_named_by_a_string_and_chunks_may_change(path: Path) -> None:
    members, settings = different_members(6), settings_for(max_epochs=9)
    interrupt(path, members, settings, after=13, chunk_size=2)
    resumed = fit(str(path), members, settings, chunk_size=6).models
    assert_all_same(resumed, fit(None, members, settings).models, 1e-8)


def test_saving_changes_nothing_and_leaves_nothing_behind(path: Path) -> None:
    members, settings = different_members(4), settings_for(max_epochs=8)
    assert_all_same(
        fit(path, members, settings, checkpoint_every=1).models, fit(None, members, settings, checkpoint_every=1).models
    )
    assert list(path.parent.iterdir()) == []


def test_models_that_diverged_are_remembered(path: Path) -> None:
    members = [Member(seed=0), Member(seed=1, learning_rate=1e60), Member(seed=2)]
    settings = settings_for(max_epochs=12)
    interrupt(path, members, settings, after=8)
    resumed, whole = fit(path, members, settings).models, fit(None, members, settings).models
    assert [model.history.status for model in resumed] == [model.history.status for model in whole]
    assert resumed[1].history.n_epochs == whole[1].history.n_epochs
    assert_all_same(resumed[::2], whole[::2])


def changed_table(column: str) -> Table:
    value = getattr(TABLE, column).clone()
    value[0] = (value[0] + 1) % 3
    return replace(TABLE, **{column: value})


@pytest.mark.parametrize(
    "change",
    [
        lambda shape, members, settings: (shape, members[1:], settings, TABLE),
        lambda shape, members, settings: (shape, members[::-1], settings, TABLE),
        lambda shape, members, settings: (shape, [*members[:-1], replace(members[-1], seed=99)], settings, TABLE),
        lambda shape, members, settings: (shape, [*members[:-1], replace(members[-1], l2=0.5)], settings, TABLE),
        lambda shape, members, settings: (
            shape,
            [replace(members[0], sample_weight=torch.ones(200)), *members[1:]],
            settings,
            TABLE,
        ),
        lambda shape, members, settings: (shape, members, replace(settings, max_epochs=13), TABLE),
        lambda shape, members, settings: (shape, members, replace(settings, loss=CrossEntropy(0.1)), TABLE),
        lambda shape, members, settings: (replace(shape, n_nodes=17), members, settings, TABLE),
        lambda shape, members, settings: (shape, members, settings, changed_table("x")),
        lambda shape, members, settings: (shape, members, settings, changed_table("y")),
    ],
    ids=["fewer", "order", "seed", "l2", "weights", "epochs", "loss", "shape", "x", "y"],
)
def test_the_file_of_another_fleet_is_refused(path: Path, change: Any) -> None:
    members, settings = different_members(3), settings_for(max_epochs=12)
    interrupt(path, members, settings, after=7)
    before = path.read_bytes()
    shape, members, settings, table = change(BASE, members, settings)
    with pytest.raises(
        CheckpointError, match=r"belongs to a different fleet: the shape, the settings.*delete this one"
    ):
        Fleet(shape, members, settings).fit(table, checkpoint=path)
    assert path.read_bytes() == before


@given(
    st.lists(
        st.tuples(st.integers(0, 200), st.floats(0, 100), st.floats(0, 1), st.integers(0, 20)), min_size=2, max_size=2
    )
)
@example([(1, 10.5, 0.0, 0), (11, 0.5, 0.0, 0)])
@example([(1, 0.1, 0.0, 10), (1, 0.1, 0.01, 0)])
def test_different_members_have_different_fingerprints(values: list[tuple[int, float, float, int]]) -> None:
    one, other = (
        fingerprint(BASE, settings_for(), [Member(seed=seed, learning_rate=rate, l0=l0, table=table)], [TABLE])
        for seed, rate, l0, table in values
    )
    assert (one == other) == (values[0] == values[1])


def test_auto_is_the_device_that_it_stands_for() -> None:
    members, here = different_members(2), "cuda" if torch.cuda.is_available() else "cpu"
    assert len({fingerprint(BASE, settings_for(device=name), members, [TABLE]) for name in ("auto", here)}) == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: b"not a checkpoint",
        lambda content: content[:-10],
        lambda content: content[:100],
        lambda content: b"\xff" * 8 + content[8:],
    ],
    ids=["empty", "text", "short", "very short", "header"],
)
def test_a_damaged_file_is_refused(path: Path, damage: Any) -> None:
    members, settings = different_members(2), settings_for(max_epochs=12)
    interrupt(path, members, settings, after=7)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CheckpointError, match=r"is not a usable checkpoint .*; delete it to start over"):
        fit(path, members, settings)


def test_a_file_of_something_else_is_refused(path: Path) -> None:
    save_file({"a": torch.zeros(3)}, path)
    with pytest.raises(CheckpointError, match="is not a usable checkpoint"):
        fit(path, [Member()], settings_for())
    save_file({"a": torch.zeros(3)}, path, metadata={"tabgnm": '{"format": 3}'})
    with pytest.raises(
        CheckpointError, match=r"it is not a checkpoint, or was written by another version\); delete it"
    ):
        fit(path, [Member()], settings_for())


def test_a_file_of_another_version_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    members, settings = different_members(2), settings_for(max_epochs=12)
    monkeypatch.setattr(checkpoint_file, "_BEGIN", b"tabgnm checkpoint 9\n")
    interrupt(path, members, settings, after=7)
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match=r"it is not a checkpoint, or was written by another version\); delete"):
        fit(path, members, settings)


def test_a_folder_is_refused_as_a_file(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"is not a usable checkpoint .*; use another path$"):
        fit(tmp_path, [Member()], settings_for())


def test_a_missing_folder_is_noticed_before_training(path: Path) -> None:
    diary = Diary()
    with pytest.raises(ValueError, match=r"checkpoint='.*missing.*': the folder does not exist; create it first"):
        train(BASE, [Member()], settings_for(), checkpoint=path.parent / "missing" / "file", callbacks=[diary])
    assert diary.calls == []


class SlottedLoss:
    """A loss of the user's own whose settings are not in a `__dict__`."""

    __slots__ = ("factor",)
    name, setting = "slotted", 0.0

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def per_row(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return self.factor * CrossEntropy().per_row(outputs, targets)

    def gradient(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return self.factor * CrossEntropy().gradient(outputs, targets)

    def check(self, n_outputs: int, targets: torch.Tensor) -> None:
        CrossEntropy().check(n_outputs, targets)


def test_losses_with_slots_are_told_apart_by_their_settings() -> None:
    found = [
        fingerprint(BASE, settings_for(SlottedLoss(factor)), different_members(2), [TABLE])
        for factor in (1.0, 2.0, 1.0)
    ]
    assert found[0] == found[2] != found[1]


def test_losses_are_told_apart_by_every_number_of_a_tensor() -> None:
    factors = torch.ones(5000)
    changed = factors.clone()
    changed[2500] = 2.0
    losses = [SlottedLoss(own) for own in (factors, changed, factors.clone())]  # type: ignore[arg-type]
    found = [fingerprint(BASE, settings_for(loss), different_members(2), [TABLE]) for loss in losses]
    assert found[0] == found[2] != found[1]


@pytest.mark.parametrize("factors", [np.arange(3.0)[::-1], np.array(["a", "b"]), np.array([1, 2], ">f4")], ids=str)
def test_losses_may_have_arrays_of_any_type(factors: Any) -> None:
    losses = [SlottedLoss(own) for own in (factors, factors[::-1], factors.copy())]
    found = [fingerprint(BASE, settings_for(loss), different_members(2), [TABLE]) for loss in losses]
    assert found[0] == found[2] != found[1]


def test_ctrl_c_saves_the_last_epoch(path: Path) -> None:
    members, settings = different_members(3), settings_for(max_epochs=12)
    fit(path, members, settings, callbacks=[RaiseAt(7, KeyboardInterrupt())], checkpoint_every=50)
    diary = Diary()
    resumed = fit(path, members, settings, callbacks=[diary])
    assert_all_same(resumed.models, fit(None, members, settings).models)
    assert diary.reports()[0].epoch == 8


def test_a_resumed_run_reports_models_that_were_done(path: Path) -> None:
    members, settings = different_members(6), settings_for(max_epochs=5)
    interrupt(path, members, settings, after=8, chunk_size=2)
    diary = Diary()
    fit(path, members, settings, callbacks=[diary], chunk_size=2)
    assert sorted(call[1] for call in diary.calls if call[0] == "model") == list(range(6))


def test_ctrl_c_before_a_resumed_epoch_keeps_the_weights_so_far(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    members, settings = different_members(3), settings_for(max_epochs=12)
    interrupt(path, members, settings, after=7)
    monkeypatch.setattr(Interruption, "requested", True)
    monkeypatch.setattr(Interruption, "by_user", True)
    stopped = fit(path, members, settings).models
    monkeypatch.undo()
    assert [(model.history.n_epochs, model.history.status) for model in stopped] == [(6, "interrupted")] * 3
    so_far = train(BASE, members, replace(settings, max_epochs=6))
    for model, expected in zip(stopped, so_far, strict=True):
        assert all(torch.equal(model.parameters[name], value) for name, value in expected.parameters.items())
    assert_all_same(fit(path, members, settings).models, fit(None, members, settings).models)


def test_tables_may_have_any_type_of_number() -> None:
    tables = [Table(TABLE.x.to(torch.bfloat16) + shift, TABLE.y) for shift in (0, 1, 0)]
    found = [fingerprint(BASE, settings_for(), different_members(2), [table]) for table in tables]
    assert found[0] == found[2] != found[1]
