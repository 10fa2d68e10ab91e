"""The gradients of every step are autograd's, and the step in NumPy computes what message passing computes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock
from unittest.mock import patch

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tabgnm.nn import GNMShape, hard_concrete
from tabgnm.nn.losses import BinaryCrossEntropy, CrossEntropy, Loss, SquaredError
from tabgnm.nn.message_passing import DropoutFactors, backward, forward
from tabgnm.nn.shapes import Shape
from tabgnm.training import Member, counter_random, plain_step
from tabgnm.training.dropout import Dropout
from tabgnm.training.flat_weights import FlatLayout
from tabgnm.training.optimisers import Adam
from tabgnm.training.plain_step import PlainStep
from tabgnm.training.rows import ALIGN
from tests.nn.strategies import any_shapes, mlp_shapes, seeds
from tests.training.examples import CPU, LOSSES, settings_for, table_for, train


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
    """Write down every step; with betas=(0, ...) the first moment is the gradient."""
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

    # The fleet trains those with the most rows first, and takes the steps of those with equally many together.
    sizes = [len(member.train) for member in members if member.train is not None]
    n_steps = [-(-size // batch_size) for size in sizes]
    order = sorted(range(n_models), key=lambda i: -sizes[i])
    layout = FlatLayout(shape, gates=with_l0, align_rows=ALIGN)
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
                keys = [counter_random.key(member.seed, counter_random.SHUFFLE, epoch)]
                shuffled = member.train[counter_random.shuffled(keys, len(member.train), None, CPU)[0]]
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


@st.composite
def plain_shapes(draw: st.DrawFn) -> Shape:
    if draw(st.booleans()):
        shape = draw(mlp_shapes())
        return type(shape)(**(shape.settings() | {"activation": "relu"}))
    m, c = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    return GNMShape(m, c, n_nodes=m + c + 1 + draw(st.integers(0, 7)), n_layers=draw(st.integers(1, 5)))


few_batches = st.lists(st.integers(1, 6), min_size=1, max_size=3)


def stacked(loss: Loss, shape: Shape, n_models: int, n_rows: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows x (M, L, m), targets and weights (M, L) of models."""
    tables = [table_for(loss, n_rows, shape=shape, seed=seed + i) for i in range(n_models)]
    weights = torch.rand(n_models, n_rows, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return torch.stack([table.x for table in tables]), torch.stack([table.y for table in tables]), weights


@given(
    plain_shapes(),
    st.sampled_from(LOSSES),
    seeds,
    st.integers(1, 3),
    few_batches,
    st.booleans(),
    st.sampled_from([0, 20, 20_000]),
)
@settings(max_examples=200)
def test_the_step_in_numpy_is_message_passing(
    shape: Shape,
    loss: Loss,
    seed: int,
    n_models: int,
    batches: list[int],
    with_dropout: bool,
    large: int,
) -> None:
    torch.manual_seed(seed)
    layout = FlatLayout(shape)
    flat = torch.randn(n_models, layout.n_flat, dtype=torch.float64) / 2
    grad, expected = (torch.full_like(flat, torch.nan) for _ in range(2))
    parameters = layout.views(flat)
    every = slice(0, n_models)
    with mock.patch.object(plain_step, "_LARGE_MATRIX", large):  # from which on products are torch's
        plain = PlainStep(layout, flat, grad, loss)
        for n_rows in batches:  # its buffers are used again
            x, y, weights = stacked(loss, shape, n_models, n_rows, seed)
            factors: dict[int, Tensor] = {}

            def dropout(layer: int, activated: Tensor, factors: dict[int, Tensor] = factors) -> Tensor:
                size = n_models, activated.shape[-2], activated.shape[-1]
                return factors.setdefault(layer, torch.bernoulli(torch.full(size, 0.7, dtype=torch.float64)) / 0.7)

            drop = dropout if with_dropout else None
            plain.load(x, y, weights)
            plain.run(every, 0, n_rows, drop)
            trace = forward(shape, parameters, x, drop, keep=True)
            grad_output = loss.gradient(trace.output, y) * weights.unsqueeze(-1)
            backward(shape, parameters, trace, grad_output, layout.views(expected))
            torch.testing.assert_close(grad, expected, rtol=1e-12, atol=1e-12)
            total = (loss.per_row(trace.output, y) * weights).sum(dim=1).tolist()
            assert plain.train_loss(every, n_rows, weights) == pytest.approx(total, rel=1e-12, abs=1e-12)
            outputs = plain.outputs(every, F.pad(x, (0, 1), value=1.0))
            torch.testing.assert_close(outputs, forward(shape, parameters, x).output, rtol=1e-12, atol=1e-12)


@given(plain_shapes(), st.sampled_from(LOSSES), seeds, st.lists(st.integers(1, 4), min_size=2, max_size=4))
@settings(max_examples=50)
def test_steps_in_numpy_take_models_and_rows_from_the_block(
    shape: Shape, loss: Loss, seed: int, batches: list[int]
) -> None:
    layout, n_models = FlatLayout(shape), 3
    flat = layout.first_weights(list(range(seed, seed + n_models)), CPU, torch.float64)
    grad = torch.zeros_like(flat)
    n_all = sum(batches)
    x, y, weights = stacked(loss, shape, n_models, n_all, seed)
    in_block = PlainStep(layout, flat, grad, loss)
    in_block.load(x, y, weights)
    start, total = 0, np.zeros(n_models)
    for n_rows in batches:
        rows = slice(start, start + n_rows)
        for models in (slice(0, 2), slice(2, 3)):
            in_block.run(models, start, n_rows, None)
        for i in range(n_models):
            one, expected = slice(i, i + 1), torch.zeros_like(flat[:1])
            alone = PlainStep(layout, flat[one], expected, loss)
            alone.load(x[one, rows], y[one, rows], weights[one, rows])
            alone.run(slice(0, 1), 0, n_rows, None)
            assert torch.equal(grad[one], expected)
            total[i] += alone.train_loss(slice(0, 1), n_rows, weights[one, rows])[0]
        start += n_rows
    assert in_block.train_loss(slice(0, n_models), n_all, weights) == pytest.approx(total, rel=1e-12, abs=1e-12)


def test_rows_that_count_nothing_are_not_looked_at_in_numpy() -> None:
    layout = FlatLayout(GNMShape(1, 1, 3, 1))
    flat = torch.tensor([[1e30, 0.0], [1.0, 0.0]])
    plain = PlainStep(layout, flat, torch.zeros(2, 2), SquaredError())
    weights = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    plain.load(torch.tensor([[[0.0], [1.0]]] * 2), torch.zeros(2, 2, 1), weights)
    both = slice(0, 2)
    with np.errstate(all="ignore"):
        plain.run(both, 0, 2, None)
        assert plain.train_loss(both, 2, weights).tolist() == [0.0, 1.0]  # that of the first one's second row is inf


def test_extreme_logits_give_finite_gradients_in_numpy() -> None:
    layout = FlatLayout(GNMShape(1, 2, 4, 1))
    grad, one = torch.zeros(1, 4), slice(0, 1)
    plain = PlainStep(layout, torch.tensor([[1e4, -1e4, 0.0, 0.0]]), grad, CrossEntropy())
    plain.load(torch.ones(1, 2, 1), torch.tensor([[0, 1]]), torch.ones(1, 2))
    plain.run(one, 0, 2, None)
    assert layout.views(grad)["bias_1"].tolist() == [[1.0, -1.0]]
    assert plain.train_loss(one, 2, torch.tensor([[0.0, 1.0]])).tolist() == [2e4]
