"""The gradients of every step by torch's operations are autograd's; the tests of the other steps compare with these."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tabgnm.nn import hard_concrete
from tabgnm.nn.losses import BinaryCrossEntropy, Loss, SquaredError
from tabgnm.nn.message_passing import DropoutFactors, forward
from tabgnm.nn.shapes import Shape
from tabgnm.training import Member, counter_random
from tabgnm.training.adam import Adam
from tabgnm.training.dropout import Dropout
from tabgnm.training.flat_weights import FlatLayout
from tabgnm.training.steps.torch_step import TorchStep
from tests.nn.strategies import any_shapes, seeds
from tests.training.examples import BASE, LOSSES, random_keys, settings_for, table_for, train


@dataclass
class RecordedStep:
    """One step of the models that took part in it."""

    models: slice  # where they stand in the fleet
    weights: Tensor  # (n, P), before the step
    gradient: Tensor  # (n, P), as Adam saw it
    dropout: dict[int, Tensor]  # (n, B, nodes) by layer
    uniform: Tensor | None  # (n, edges), what the gates were drawn from


@contextmanager
def recorded_steps() -> Iterator[list[RecordedStep]]:
    """Record every step; with betas=(0, ...) the first moment is the gradient."""
    steps: list[RecordedStep] = []
    dropout: dict[int, Tensor] = {}
    uniform: list[Tensor] = []
    adam_step, dropout_factors, random_gate = Adam.step, Dropout.factors, hard_concrete.random_gate

    def step(self: Adam, models: slice, *rest: Any) -> None:
        before = self.flat[models].clone()
        adam_step(self, models, *rest)
        numbers = uniform[-1].clone() if uniform else None
        steps.append(RecordedStep(models, before, self.exp_avg[models].clone(), dict(dropout), numbers))

    def factors(self: Dropout, *how: Any, **also: Any) -> Any:
        draw = dropout_factors(self, *how, **also)
        if draw is None:
            return None

        def recording(layer: int, activated: Tensor) -> Tensor | None:
            drawn = draw(layer, activated)
            assert drawn is not None
            dropout[layer] = drawn.clone()
            return drawn

        return recording

    def gate(log_alpha: Tensor, numbers: Tensor) -> Tensor:
        uniform.append(numbers)
        return random_gate(log_alpha, numbers)

    with (
        patch("tabgnm.training.epoch_loop.choose_step", TorchStep),
        patch.object(Adam, "step", step),
        patch.object(Dropout, "factors", factors),
        patch.object(hard_concrete, "random_gate", gate),
    ):
        yield steps


def _steps_of(recorded: Iterator[RecordedStep], n_models: int) -> Iterator[RecordedStep]:
    """Take the next steps, which together are those of so many models."""
    n_done = 0
    while n_done < n_models:
        step = next(recorded)
        assert step.models.start == n_done
        n_done = step.models.stop
        yield step


def real_places(layout: FlatLayout) -> Tensor:
    """Which places of a row hold a parameter or the gate of one; the others are there for alignment."""
    marks = torch.zeros(layout.n_flat, dtype=torch.bool)
    for view in layout.views(marks).values():
        view.fill_(True)
    if layout.gates:
        marks[layout.gate_places] = marks[: layout.n_edges]
    return marks


def drawn_before(factors: dict[int, Tensor]) -> DropoutFactors:
    return lambda layer, _: factors.get(layer)


def loss_of_rows(loss: Loss, output: Tensor, y: Tensor) -> Tensor:
    if isinstance(loss, BinaryCrossEntropy):  # torch's softplus is linear from 20 on, its derivative exactly 1
        return F.binary_cross_entropy_with_logits(output, y, reduction="none").sum(dim=-1)
    return loss.per_row(output, y)


@given(
    shape=any_shapes,
    loss=st.sampled_from(LOSSES),
    seed=seeds,
    n_models=st.sampled_from([1, 3]),
    with_dropout=st.booleans(),
    with_weights=st.booleans(),
    with_l0=st.booleans(),
)
@settings(max_examples=150)
def test_the_gradient_of_a_step_is_autograds(
    shape: Shape, loss: Loss, seed: int, n_models: int, with_dropout: bool, with_weights: bool, with_l0: bool
) -> None:
    choose = random.Random(seed)
    n_rows, batch_size = 12, 5
    table = table_for(loss, n_rows, shape=shape, seed=seed)
    members = [
        Member(
            train=torch.tensor(choose.sample(range(n_rows), choose.randint(1, n_rows))),
            seed=seed + i,
            dropout=choose.choice([0.2, 0.6]) if with_dropout else 0.0,
            l1=choose.choice([0.0, 0.1]),
            l2=choose.choice([0.0, 0.1]),
            l0=choose.choice([0.1, 0.5]) if with_l0 else 0.0,
            sample_weight=torch.tensor([choose.uniform(0.1, 2) for _ in range(n_rows)]) if with_weights else None,
        )
        for i in range(n_models)
    ]
    how = settings_for(loss, max_epochs=2, batch_size=batch_size, betas=(0.0, 0.999))
    with recorded_steps() as steps:
        models = train(shape, members, how, table, chunk_size=n_models)

    # The models with the most rows come first.
    sizes = [len(member.train) for member in members if member.train is not None]
    n_steps = [-(-size // batch_size) for size in sizes]
    order = sorted(range(n_models), key=lambda i: -sizes[i])
    layout = FlatLayout(shape, gates=with_l0)
    real = real_places(layout)
    recorded = iter(steps)
    for epoch in range(2):
        total_loss = [0.0] * n_models
        for index in range(max(n_steps)):
            taking_part = [i for i in order if n_steps[i] > index]
            of_models = [
                (step, row) for step in _steps_of(recorded, len(taking_part)) for row in range(len(step.gradient))
            ]
            for (step, row), i in zip(of_models, taking_part, strict=True):
                member = members[i]
                assert member.train is not None
                keys = random_keys([member.seed], counter_random.SHUFFLE, epoch)
                shuffled = member.train[counter_random.shuffled(keys, len(member.train), None)[0]]
                rows = shuffled[index * batch_size : (index + 1) * batch_size]

                flat = step.weights[row].clone().requires_grad_()
                edges, others = flat[: layout.n_edges], flat[layout.n_edges : layout.n_weights]
                log_alpha = flat[layout.gate_places]
                gate = 1 if step.uniform is None else hard_concrete.random_gate(log_alpha, step.uniform[row].clone())
                parameters = layout.views(torch.cat([edges * gate, others]))

                factors = {layer: drawn[row, : len(rows)].clone() for layer, drawn in step.dropout.items()}
                output = forward(shape, parameters, table.x[rows], drawn_before(factors)).output
                per_row = loss_of_rows(loss, output, table.y[rows])
                if member.sample_weight is not None:
                    weight = member.sample_weight.double()
                    per_row = per_row * weight[rows] / weight[member.train].mean()
                total_loss[i] += per_row.sum().item() / len(member.train)
                objective = per_row.mean() + member.l1 * edges.abs().sum() + member.l2 * edges.square().sum()
                objective = objective + member.l0 * hard_concrete.open_probability(log_alpha).sum()
                objective.backward()
                assert flat.grad is not None
                torch.testing.assert_close(step.gradient[row, real], flat.grad[real], rtol=1e-10, atol=1e-10)
        for i, model in enumerate(models):
            assert model.history.train_loss[epoch] == pytest.approx(total_loss[i], rel=1e-8, abs=1e-8)
    assert next(recorded, None) is None


class _Cached(SquaredError):
    """Returns a tensor that it keeps."""

    kept: ClassVar[dict[torch.Size, Tensor]] = {}

    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:  # noqa: ARG002 - the loss is the sum of outputs
        return self.kept.setdefault(outputs.shape, torch.ones_like(outputs))


@pytest.mark.parametrize("combine", ["none", "gated"])
def test_a_step_does_not_change_the_gradient_that_a_loss_returns(combine: str) -> None:
    members = [Member(sample_weight=torch.linspace(0.5, 1.5, 200), seed=1)]
    train(replace(BASE, combine=combine), members, settings_for(_Cached(), max_epochs=2), table_for(SquaredError()))
    assert _Cached.kept and all(bool((kept == 1).all()) for kept in _Cached.kept.values())
