"""A model may start from given weights, and is otherwise trained like any other."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tabgnm.nn import hard_concrete
from tabgnm.nn.losses import CrossEntropy
from tabgnm.nn.shapes import Shape
from tabgnm.training import CheckpointError, Fleet, FleetPlan, Job, Member, TrainedModel
from tests.training.examples import (
    BASE,
    EMBEDDED,
    SHAPES,
    assert_all_same,
    assert_same,
    different_members,
    settings_for,
    table_for,
    train,
)
from tests.training.test_callbacks import RaiseAt

ALL = {**SHAPES, **EMBEDDED}
every_shape = pytest.mark.parametrize("shape", ALL.values(), ids=ALL)


def trained(shape: Shape, n_models: int = 1, **how: Any) -> list[TrainedModel]:
    return train(shape, [Member(seed=10 + seed, learning_rate=0.01) for seed in range(n_models)], settings_for(**how))


def same_weights(one: TrainedModel, other: TrainedModel) -> bool:
    return all(torch.equal(value, other.parameters[name]) for name, value in one.parameters.items())


@every_shape
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("option", [{}, {"optimizer": "proximal_adam"}], ids=repr)
def test_with_a_rate_of_0_it_stays_exactly_there(shape: Shape, precision: str, option: dict[str, Any]) -> None:
    models = trained(shape, 3, precision=precision)
    for model in models:  # not even what is exactly 0 moves
        next(iter(model.parameters.values())).mul_(torch.rand(1) < 0.5)
    settings = settings_for(precision=precision, **option)
    members = [Member(start=m.parameters, learning_rate=0.0, l1=0.1, weight_decay=0.1, dropout=0.2) for m in models]
    for chunk_size in (1, 3):
        for model, again in zip(models, train(shape, members, settings, chunk_size=chunk_size), strict=True):
            assert same_weights(again, model)


def test_training_on_goes_down_from_where_the_model_was() -> None:
    first = trained(BASE, max_epochs=30)[0]
    longer = train(BASE, [Member(start=first.parameters, learning_rate=0.01)], settings_for(max_epochs=5))[0]
    fresh = train(BASE, [Member(learning_rate=0.01)], settings_for(max_epochs=5))[0]
    assert longer.history.train_loss[0] < 1.1 * first.history.train_loss[-1]
    assert longer.history.train_loss[-1] < 0.9 * fresh.history.train_loss[-1]


def test_given_weights_are_what_would_have_been_drawn_or_anything_else() -> None:
    drawn = Fleet(BASE, [Member(seed=3)], settings_for()).untrained().models[0]
    member = Member(seed=3, learning_rate=0.01, dropout=0.2)
    assert_same(*(train(BASE, [own], settings_for())[0] for own in (member, replace(member, start=drawn.parameters))))


@every_shape
@pytest.mark.parametrize("l0", [0.0, 1e-3])
def test_a_models_result_does_not_depend_on_its_fleet(shape: Shape, l0: float) -> None:
    starts = trained(shape, 3)
    members = different_members(6, l0=l0)
    members = [replace(m, start=starts[i // 2].parameters if i % 2 else None) for i, m in enumerate(members)]
    alone = [train(shape, [member], settings_for())[0] for member in members]
    for chunk_size in (4, 6):
        assert_all_same(train(shape, members, settings_for(), chunk_size=chunk_size), alone, 1e-8)


def test_with_an_l0_penalty_gates_are_as_open_as_at_any_start() -> None:
    start = trained(BASE)[0].parameters
    model = train(BASE, [Member(start=start, learning_rate=0.0, l0=0.1)], settings_for())[0]
    gate = hard_concrete.fixed_gate(torch.tensor(hard_concrete.INITIAL_LOG_ALPHA, dtype=torch.float64))
    for name, value in start.items():
        torch.testing.assert_close(model.parameters[name], value * gate, rtol=1e-12, atol=0)


def test_what_was_given_is_not_written_to() -> None:
    start = trained(BASE)[0].parameters
    before = {name: value.clone() for name, value in start.items()}
    train(BASE, [Member(start=start, learning_rate=0.1)], settings_for())
    assert all(torch.equal(value, before[name]) for name, value in start.items())


def test_models_without_a_turn_keep_what_they_were_given() -> None:
    start = trained(BASE)[0]
    members = [Member(), Member(start=start.parameters)]
    assert same_weights(Fleet(BASE, members, settings_for()).untrained().models[1], start)
    models = train(BASE, members, settings_for(), chunk_size=1, callbacks=[RaiseAt(2, KeyboardInterrupt())])
    assert models[1].history.status == "interrupted" and same_weights(models[1], start)


def test_a_plan_takes_them_along_and_modules_can_be_trained_on() -> None:
    start = trained(BASE)[0]
    settings = settings_for()
    members = [Member(start=dict(start.network().named_parameters()), learning_rate=0.0), Member()]
    jobs = [Job(BASE, settings, member) for member in members]
    assert same_weights(FleetPlan(jobs, table_for(settings.loss)).run()[0], start)


def test_a_checkpoint_belongs_to_its_start(tmp_path: Path) -> None:
    one, other = trained(BASE, 2)
    path, settings, table = tmp_path / "fleet.safetensors", settings_for(max_epochs=9), table_for(CrossEntropy())
    member = Member(start=one.parameters)
    stop = RaiseAt(5, RuntimeError("the power is off"))
    with pytest.raises(RuntimeError, match="the power is off"):
        Fleet(BASE, [member], settings).fit(table, checkpoint=path, checkpoint_every=2, callbacks=[stop])
    renamed = {name: one.parameters[name] for name in reversed(one.parameters)}
    for changed in (other.parameters, None):
        with pytest.raises(CheckpointError, match="belongs to a different fleet"):
            Fleet(BASE, [Member(start=changed)], settings).fit(table, checkpoint=path)
    resumed = Fleet(BASE, [Member(start=renamed)], settings).fit(table, checkpoint=path, checkpoint_every=2).models
    assert_all_same(resumed, Fleet(BASE, [member], settings).fit(table).models)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda start: {"weight_1": start["weight_1"]}, ValueError, r"start lacks \['bias_1', .*; expected the parameters"),
        (lambda start: start | {"gate": torch.zeros(3)}, ValueError, r"start has unknown \['gate'\]; expected"),
        (lambda start: start | {"bias_1": torch.zeros(3)}, ValueError, r"start\['bias_1'\] has shape \(3,\); expected \(15,\)"),
        (lambda start: start | {"bias_1": torch.full((15,), math.nan)}, ValueError, r"start\['bias_1'\] contains NaN"),
        (lambda start: list(start.values()), TypeError, "start is a list; expected a mapping from names to tensors"),
    ],
    ids=["lacks", "unknown", "shape", "nan", "list"],
)  # fmt: skip
def test_what_does_not_fit_is_refused(change: Any, error: type[Exception], message: str) -> None:
    start = Fleet(BASE, [Member()], settings_for()).untrained().models[0].parameters
    with pytest.raises(error, match=message):
        Fleet(BASE, [Member(), Member(start=change(start))], settings_for())
