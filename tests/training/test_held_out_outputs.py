"""Outputs for validation rows come from epochs that other rows have chosen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tabgnm.nn.losses import CrossEntropy, Loss, SquaredError
from tabgnm.training import Fleet, FleetSettings, Member, Table, TrainedModel
from tabgnm.training.held_out_outputs import HeldOutOutputs
from tests.training.examples import BASE, different_members, settings_for, table_for

N_EPOCHS = 12


def kept(members: list[Member], settings: FleetSettings, table: Table) -> list[TrainedModel]:
    return Fleet(BASE, members, replace(settings, held_out_outputs=True)).fit(table).models


def outputs_after(n_epochs: int, member: Member, settings: FleetSettings, table: Table) -> torch.Tensor:
    """The outputs for the validation rows after the last of `n_epochs` epochs."""
    own = replace(settings, max_epochs=n_epochs, patience=None)
    result = Fleet(BASE, [replace(member, val=None, val_halves=None)], own).fit(table)
    assert member.val is not None
    return result.predict(table.x[member.val])[0]


@pytest.mark.parametrize("loss", [CrossEntropy(), SquaredError()], ids=repr)
def test_rows_are_predicted_at_the_epoch_that_is_best_for_the_other_half(loss: Loss) -> None:
    table, settings = table_for(loss, 60, shape=BASE), settings_for(loss, max_epochs=N_EPOCHS, patience=4)
    weight = 100.0 ** torch.rand(60, generator=torch.Generator().manual_seed(0))
    uneven = torch.arange(20) < 7
    members = [
        Member(train=torch.arange(40), val=torch.arange(40, 60), seed=1, learning_rate=0.05),
        Member(train=torch.arange(40), val=torch.arange(40, 60), val_halves=uneven, seed=1, learning_rate=0.05),
        Member(train=torch.arange(40), val=torch.arange(40, 60), val_halves=uneven & False, seed=4, learning_rate=0.05),
        Member(train=torch.arange(9, 60), val=torch.arange(9), seed=2, learning_rate=0.1, sample_weight=weight),
        Member(train=torch.arange(1, 60), val=torch.arange(1), seed=3, learning_rate=0.05),
    ]
    chosen = set()
    for model, member in zip(kept(members, settings, table), members, strict=True):
        assert member.val is not None and model.val_outputs is not None
        n, y = len(member.val), table.y[member.val].unsqueeze(0)
        n_epochs = model.history.n_epochs
        outputs = torch.stack([outputs_after(e, member, settings, table) for e in range(1, n_epochs + 1)])
        losses = torch.stack([loss.per_row(own.unsqueeze(0), y)[0] for own in outputs])  # (epochs, rows)
        losses = losses * (1 if member.sample_weight is None else member.sample_weight[member.val])
        is_second = torch.arange(n) % 2 == 1 if member.val_halves is None else member.val_halves
        for half in (is_second, ~is_second):
            others = losses[:, ~half] if (~half).any() else losses
            best = int(others.sum(dim=1).argmin())
            torch.testing.assert_close(model.val_outputs[half], outputs[best, half], rtol=1e-8, atol=1e-8)
            chosen.add(best)
    assert len(chosen) > 1


def test_targets_of_a_row_do_not_affect_its_own_outputs() -> None:
    table, settings = table_for(CrossEntropy(), 60, shape=BASE), settings_for(max_epochs=N_EPOCHS)
    member = Member(train=torch.arange(30), val=torch.arange(30, 60), learning_rate=0.1)
    changed = table.y.clone()
    changed[30::2] = (changed[30::2] + 1) % 3
    (one,), (other,) = kept([member], settings, table), kept([member], settings, Table(table.x, changed))
    assert one.val_outputs is not None and other.val_outputs is not None
    assert torch.equal(one.val_outputs[::2], other.val_outputs[::2])
    assert not torch.equal(one.val_outputs[1::2], other.val_outputs[1::2])


def test_models_that_end_earlier_keep_their_outputs() -> None:
    members, settings = different_members(6), settings_for(max_epochs=30, patience=2)
    table = table_for(CrossEntropy(), shape=BASE)
    members = [replace(own, val=torch.arange(170 + i, 200), l0=0.0, table=0) for i, own in enumerate(members)]
    together = kept(members, settings, table)
    assert len({model.history.n_epochs for model in together}) > 1
    for model, member in zip(together, members, strict=True):
        (alone,) = kept([member], settings, table)
        assert model.val_outputs is not None and alone.val_outputs is not None and member.val is not None
        assert len(model.val_outputs) == len(member.val)
        torch.testing.assert_close(model.val_outputs, alone.val_outputs, rtol=1e-6, atol=1e-6)


def test_only_a_few_rows_are_kept() -> None:
    assert HeldOutOutputs.is_possible(4096, 32)
    assert not HeldOutOutputs.is_possible(4097, 1)
    assert not HeldOutOutputs.is_possible(4096, 33)


@pytest.mark.parametrize("member", [Member(), Member(train=torch.arange(20), val=torch.arange(20, 40))])
def test_they_are_absent_unless_requested(member: Member) -> None:
    table = table_for(CrossEntropy(), 40, shape=BASE)
    (model,) = Fleet(BASE, [member], settings_for()).fit(table).models
    assert model.val_outputs is None
    (model,) = kept([member], settings_for(), table)
    assert (model.val_outputs is None) == (member.val is None)


def test_checkpoints_do_not_have_them(tmp_path: Path) -> None:
    fleet: Any = Fleet(BASE, [Member()], settings_for(held_out_outputs=True))
    with pytest.raises(ValueError, match="checkpoint cannot be used with held_out_outputs=True"):
        fleet.fit(table_for(CrossEntropy(), 40, shape=BASE), checkpoint=tmp_path / "file")
