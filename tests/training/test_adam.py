"""Training is the plain PyTorch loop: the same batches, the same optimizers, the same weights."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from tabgnm.nn.losses import CrossEntropy, Loss
from tabgnm.nn.message_passing import forward
from tabgnm.nn.shapes import Shape
from tabgnm.training import FleetSettings, Member, Table, counter_random
from tabgnm.training.flat_weights import FlatLayout
from tests.training.examples import (
    BASE,
    CPU,
    EVERYTHING,
    LOSSES,
    PERIODIC,
    SHAPES,
    random_keys,
    settings_for,
    table_for,
    train,
    weights_of,
)

TRAIN, VAL = torch.arange(0, 130), torch.arange(130, 200)


def learning_rate_factor(settings: FleetSettings, done: float) -> float:
    factor = {"constant": 1.0, "cosine": 0.5 * (1 + math.cos(math.pi * done))}[settings.schedule]
    return factor * min(1.0, done / settings.warmup) if settings.warmup else factor


def plain_loop(shape: Shape, member: Member, settings: FleetSettings, table: Table) -> dict[str, Tensor]:
    """What anybody would write with torch.optim, autograd and a loop over batches."""
    assert member.train is not None
    first = FlatLayout(shape).first_weights([member], CPU, torch.float64)[0]
    parameters = {name: value.clone().requires_grad_() for name, value in FlatLayout(shape).views(first).items()}
    edges = [parameters[name] for name in shape.edge_parameters()]
    groups: list[dict[str, Any]] = []
    for name, parameter in parameters.items():
        decay = member.weight_decay if name in shape.edge_parameters() else 0.0
        groups.append({"params": [parameter], "weight_decay": decay})
    make = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[settings.optimizer]
    optimizer = make(groups, betas=settings.betas, eps=settings.eps)

    n_steps = -(-len(member.train) // settings.batch_size)
    done = 0
    for epoch in range(settings.max_epochs):
        keys = random_keys([member.seed], counter_random.SHUFFLE, epoch)
        order = counter_random.shuffled(keys, len(member.train), None)[0]
        for rows in member.train[order].split(settings.batch_size):
            optimizer.zero_grad()
            loss = settings.loss.per_row(forward(shape, parameters, table.x[rows]).output, table.y[rows]).mean()
            loss = loss + member.l1 * sum(edge.abs().sum() for edge in edges)
            loss = loss + member.l2 * sum(edge.square().sum() for edge in edges)
            loss.backward()  # type: ignore[no-untyped-call]
            rate = member.learning_rate * learning_rate_factor(settings, done / (n_steps * settings.max_epochs))
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
            done += 1
    return {name: parameter.detach() for name, parameter in parameters.items()}


def assert_trains_as_the_plain_loop(
    shape: Shape, member: Member, settings: FleetSettings, beside: list[Member] | None = None
) -> None:
    table = table_for(settings.loss)
    expected = plain_loop(shape, member, settings, table)
    model = train(shape, [member, *(beside or [])], settings, table)[0]
    for name, value in expected.items():
        torch.testing.assert_close(
            model.parameters[name], value, rtol=1e-10, atol=1e-10, msg=lambda m, n=name: f"{n}: {m}"
        )


CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "adam": ({}, {}),
    "other betas and eps": ({"betas": (0.5, 0.9), "eps": 1e-3}, {}),
    "adam with l2 decay": ({}, {"weight_decay": 0.1}),
    "adamw": ({"optimizer": "adamw"}, {"weight_decay": 0.1}),
    "l1": ({}, {"l1": 1e-2}),
    "l2": ({}, {"l2": 1e-2}),
    "adamw with l1 and l2": ({"optimizer": "adamw"}, {"weight_decay": 0.1, "l1": 1e-3, "l2": 1e-3}),
    "cosine": ({"schedule": "cosine"}, {}),
    "warm-up": ({"warmup": 0.4}, {}),
    "cosine with warm-up": ({"schedule": "cosine", "warmup": 0.25, "optimizer": "adamw"}, {"weight_decay": 0.1}),
}  # fmt: skip


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "in a fleet"])
@pytest.mark.parametrize("case", CASES)
def test_training_is_the_plain_torch_loop(case: str, alone: bool) -> None:
    shared, own = CASES[case]
    member = Member(train=TRAIN, seed=3, learning_rate=0.01, **own)
    beside = [] if alone else [Member(train=TRAIN[:70], seed=9), Member(seed=10, learning_rate=0.1)]
    assert_trains_as_the_plain_loop(BASE, member, settings_for(**shared), beside)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_so_it_is_for_every_shape_and_loss(shape: Shape, loss: Loss) -> None:
    member = Member(train=TRAIN, seed=3, learning_rate=0.01, weight_decay=0.01)
    assert_trains_as_the_plain_loop(shape, member, settings_for(loss, max_epochs=3, optimizer="adamw"))


@pytest.mark.parametrize("batch_size", [1, 13, 64, 130, 1000])
def test_so_it_is_for_every_batch_size(batch_size: int) -> None:
    member = Member(train=TRAIN, seed=3, learning_rate=0.01)
    assert_trains_as_the_plain_loop(BASE, member, settings_for(max_epochs=2, batch_size=batch_size))


def test_proximal_adam_gives_exact_zeros_and_adam_does_not() -> None:
    member = Member(learning_rate=0.01, l1=0.1)
    zeros = {}
    for optimizer in ("adam", "adamw", "proximal_adam"):
        model = train(BASE, [member], settings_for(max_epochs=30, optimizer=optimizer))[0]
        zeros[optimizer] = int((weights_of(model) == 0).sum())
    assert zeros["adam"] == zeros["adamw"] == 0
    assert zeros["proximal_adam"] > 10


def test_the_proximal_step_is_a_soft_threshold_after_adams() -> None:
    how = settings_for(max_epochs=1, batch_size=1000)
    member = Member(learning_rate=0.01, l1=2.0)
    before = weights_of(train(BASE, [replace(member, l1=0.0)], how)[0])
    after = weights_of(train(BASE, [member], replace(how, optimizer="proximal_adam"))[0])
    shrunk = before.sign() * (before.abs() - 0.01 * 2.0).clamp(min=0)
    torch.testing.assert_close(after, shrunk, rtol=1e-12, atol=1e-12)


def test_without_penalties_the_three_optimizers_are_one() -> None:
    models = [
        train(BASE, [Member(learning_rate=0.01)], settings_for(optimizer=optimizer))[0]
        for optimizer in ("adam", "adamw", "proximal_adam")
    ]
    for model in models[1:]:
        torch.testing.assert_close(weights_of(model), weights_of(models[0]), rtol=1e-12, atol=1e-12)


def test_decay_and_penalties_leave_alone_what_is_no_edge() -> None:
    settings = settings_for(max_epochs=1, batch_size=1000, optimizer="proximal_adam")  # one step
    plain = train(EVERYTHING, [Member(learning_rate=0.01)], settings)[0].parameters
    member = Member(learning_rate=0.01, weight_decay=1.0, l1=1.0, l2=1.0)
    penalized = train(EVERYTHING, [member], settings)[0].parameters
    for name, value in penalized.items():
        same = torch.allclose(value, plain[name], rtol=1e-10, atol=1e-12)
        assert same is (name not in EVERYTHING.edge_parameters()), name


def test_a_learning_rate_of_zero_changes_nothing() -> None:
    for alone in (True, False):
        members = [Member(learning_rate=0.0, weight_decay=0.1, l1=0.1), *([] if alone else [Member(), Member()])]
        for optimizer in ("adam", "adamw", "proximal_adam"):
            model = train(BASE, members, settings_for(max_epochs=2, optimizer=optimizer))[0]
            first = FlatLayout(BASE).views(FlatLayout(BASE).first_weights([Member()], CPU, torch.float64)[0])
            for name, value in model.parameters.items():
                assert torch.equal(value, first[name]), (optimizer, name)


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_without_torchs_fused_kernels_the_steps_are_the_same(optimizer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    members = [Member(learning_rate=10.0**-i, weight_decay=0.1 * (i % 2), seed=i) for i in range(1, 5)]
    for shape in (BASE, PERIODIC):  # weight decay is for edges only, and embeddings are not edges
        settings, table = settings_for(optimizer=optimizer, schedule="cosine"), table_for(CrossEntropy(), shape=shape)
        fused = train(shape, members, settings, table)
        with monkeypatch.context() as patched:
            for name in ("_fused_adam", "_fused_adamw"):
                patched.setattr(f"tabgnm.training.adam.{name}", None)
            single = train(shape, members, settings, table)
        for one, other in zip(single, fused, strict=True):
            torch.testing.assert_close(weights_of(one), weights_of(other), rtol=1e-10, atol=1e-10)
