"""The step in NumPy computes what message passing and Adam define, whatever threads, models and rows it is divided into."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tabgnm.nn import EmbeddedShape, GNMShape, InputEmbedding, MLPShape
from tabgnm.nn.losses import CrossEntropy, JointCrossEntropy, Loss, Quantiles, SquaredError
from tabgnm.nn.message_passing import backward, forward
from tabgnm.nn.shapes import Shape
from tabgnm.training import Member, counter_random
from tabgnm.training.adam import Adam
from tabgnm.training.dropout import Dropout
from tabgnm.training.flat_weights import FlatLayout
from tabgnm.training.gates import Gates
from tabgnm.training.model_state import ModelState
from tabgnm.training.row_batches import Batch, Block, BlockRows, DeviceTables, RowBatches, RowSet
from tabgnm.training.steps import numpy_step
from tabgnm.training.steps.numpy_step import NumpyStep
from tabgnm.training.thread_pool import ThreadPool, Work
from tabgnm.training.threads import single_threaded_math
from tabgnm.training.validation import Validation
from tests.nn.strategies import activations, embeddings, seeds
from tests.training.examples import CPU, LOSSES, settings_for, table_for

RATE, BETAS, EPSILON = 1e-3, (0.9, 0.999), 1e-8


class Models:
    """Models with their rows, and the epochs of a trainer."""

    def __init__(
        self,
        shape: Shape,
        loss: Loss,
        n_rows: list[int],
        *,
        batch_size: int = 8,
        block_steps: int = 3,
        n_threads: int = 1,
        dropout: float = 0.0,
        dtype: torch.dtype = torch.float64,
        seed: int = 0,
    ) -> None:
        n_rows = sorted(n_rows, reverse=True)
        own_seeds = [seed + i for i in range(len(n_rows))]
        members = [Member(seed=own, dropout=dropout * (own % 3) / 2, learning_rate=RATE) for own in own_seeds]
        how = settings_for(loss, precision="float64" if dtype == torch.float64 else "float32", batch_size=batch_size)
        layout = FlatLayout(shape)
        flat = layout.first_weights(members, CPU, dtype)
        flat += 0.3 * torch.rand(flat.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(
            dtype
        )
        grad = torch.full_like(flat, torch.nan)
        self.adam = Adam(layout, members, how, flat, grad)
        tables = DeviceTables([table_for(loss, 40, shape=shape, seed=seed)], CPU, dtype, dtype)
        random = [torch.Generator().manual_seed(own) for own in own_seeds]
        rows = [torch.randperm(40, generator=own)[:n] for n, own in zip(n_rows, random, strict=True)]
        weights = [torch.rand(n, generator=own).sub(0.2) for n, own in zip(n_rows, random, strict=True)]
        weights = [own.clamp(min=0).double() for own in weights]  # some are 0
        sources = [0] * len(n_rows)
        self.batches = RowBatches(RowSet(tables, sources, rows, weights, dtype), batch_size, block_steps, dtype)
        self.validation = Validation(RowSet(tables, sources, rows, weights, dtype), how, flat)
        self.adam.allocate_rates(self.batches.n_steps)
        size = self.batches.batch_size
        self.dropout = Dropout(shape, members, size, flat)
        self.state = ModelState(shape, how, layout, flat, grad, self.adam, self.dropout, None, size, n_threads)
        self.train_loss = torch.zeros(len(n_rows), dtype=dtype)
        self._seeds = counter_random.seed_array(own_seeds)

    def begin_epoch(self, epoch: int) -> None:
        self.adam.load_epoch(epoch)
        self.adam.begin_epoch(torch.tensor(epoch))
        self.train_loss.zero_()
        self.batches.shuffle(torch.from_numpy(counter_random.keys(self._seeds, counter_random.SHUFFLE, epoch)))
        keys = [
            counter_random.keys(self._seeds, counter_random.DROPOUT, epoch, i) for i in range(self.dropout.n_streams)
        ]
        self.dropout.start([torch.from_numpy(each) for each in keys])

    def train(self, n_epochs: int = 2) -> Models:
        """Train with the step in NumPy."""
        step = NumpyStep(self.state)
        with single_threaded_math(), torch.inference_mode():
            for epoch in range(n_epochs):
                self.begin_epoch(epoch)
                for block in self.batches.blocks:
                    step.train_block(block, self.batches.gather(block, self.adam.rates), self.train_loss)
            self.validation.measure(step.outputs)
        step.close()
        return self

    def train_plainly(self, n_epochs: int = 2) -> Models:
        """Train by the definitions, one model after the other in each step."""
        self.dropout.allocate(rows_last=False)
        moments, squares = self.adam.exp_avg, self.adam.exp_avg_sq
        n_done = [0] * len(self.state.flat)
        for epoch in range(n_epochs):
            self.begin_epoch(epoch)
            for block in self.batches.blocks:
                rows = self.batches.gather(block, self.adam.rates)
                for batch in block.batches:
                    for i in range(batch.n_models):
                        n_done[i] += 1
                        self._plain_step(i, batch, rows)
                        grad, step = self.state.grad[i], n_done[i]
                        moments[i] = BETAS[0] * moments[i] + (1 - BETAS[0]) * grad
                        squares[i] = BETAS[1] * squares[i] + (1 - BETAS[1]) * grad**2
                        corrected = squares[i] / (1 - BETAS[1] ** step)
                        self.state.flat[i] -= RATE / (1 - BETAS[0] ** step) * moments[i] / (corrected.sqrt() + EPSILON)
        shape = self.state.shape
        self.validation.measure(
            lambda x: forward(shape, self.state.layout.views(self.state.flat), x[..., : shape.n_inputs]).output
        )
        return self

    def _plain_step(self, i: int, batch: Batch, rows: BlockRows) -> None:
        shape, layout, loss = self.state.shape, self.state.layout, self.state.settings.loss
        model, places = slice(i, i + 1), slice(batch.start, batch.start + batch.n_rows)
        x, y, weights, shares = (values[model, places] for values in rows[:4])
        x = x[..., : shape.n_inputs]
        parameters, gradients = layout.views(self.state.flat[model]), layout.views(self.state.grad[model])
        trace = forward(shape, parameters, x, self.dropout.factors(model, batch.n_rows), keep=True)
        self.train_loss[i] += (loss.per_row(trace.output, y) * shares).sum()
        backward(shape, parameters, trace, loss.gradient(trace.output, y) * weights.unsqueeze(-1), gradients)

    def results(self) -> tuple[Tensor, ...]:
        return self.state.flat, self.adam.exp_avg, self.train_loss, self.validation.loss


@contextmanager
def divided(*, split: bool = True) -> Iterator[None]:
    """Let several threads share even the smallest networks: their rows, or groups of models."""
    with (
        patch.object(numpy_step, "_SMALLEST_SPLIT", 0 if split else 10**12),
        patch.object(numpy_step, "_PART_ROWS", 2),
        patch.object(numpy_step, "SMALLEST_GROUP", 1),
        patch.object(numpy_step, "_VALIDATION_NUMBERS", 1),
    ):
        yield


@st.composite
def supported_shapes(draw: st.DrawFn, n_outputs: int = 3) -> Shape:
    embedding: InputEmbedding | None = draw(st.none() | embeddings())
    m = draw(st.integers(1, 5)) if embedding is None else embedding.n_outputs
    body: GNMShape | MLPShape
    if draw(st.booleans()):
        hidden = draw(st.lists(st.integers(1, 6), max_size=3))
        body = MLPShape(m, n_outputs, tuple(hidden), draw(activations))
    else:
        n_nodes, n_layers = m + n_outputs + 1 + draw(st.integers(0, 5)), draw(st.integers(1, 4))
        body = GNMShape(m, n_outputs, n_nodes, n_layers, draw(activations), clamp_inputs=draw(st.booleans()))
    return body if embedding is None else EmbeddedShape(embedding, body)


@given(
    shape=supported_shapes(),
    loss=st.sampled_from([*LOSSES, JointCrossEntropy((2, 1)), Quantiles((0.1, 0.5, 0.9))]),
    n_rows=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    n_threads=st.integers(1, 3),
    split=st.booleans(),
    dropout=st.sampled_from([0.0, 0.5]),
    seed=seeds,
)
@settings(max_examples=80)
def test_steps_are_those_of_message_passing_and_adam(
    shape: Shape, loss: Loss, n_rows: list[int], n_threads: int, split: bool, dropout: float, seed: int
) -> None:
    with divided(split=split):
        actual = Models(shape, loss, n_rows, n_threads=n_threads, dropout=dropout, seed=seed).train()
    expected = Models(shape, loss, n_rows, dropout=dropout, seed=seed).train_plainly()
    for one, other in zip(actual.results(), expected.results(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def bits(models: Models) -> list[bytes]:
    return [result.numpy().tobytes() for result in models.results()]


def in_this_thread(self: ThreadPool, work: Work, n_tasks: int) -> None:  # noqa: ARG001 - a method
    for task in range(n_tasks):
        work(0, task)


PERIODIC = EmbeddedShape(
    InputEmbedding(1, 2, n_basis=4, numeric_dim=2, levels=(3, 5), level_dim=2),
    GNMShape(11, 3, n_nodes=24, n_layers=3),
)


@pytest.mark.parametrize("n_models", [1, 2, 5])
@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_results_are_the_same_bits_whichever_thread_computes_them(n_models: int, n_threads: int) -> None:
    def trained() -> Models:
        how = {"n_threads": n_threads, "dropout": 0.5, "dtype": torch.float32, "batch_size": 16}
        with divided():
            return Models(PERIODIC, CrossEntropy(), [40, 39, 37, 20, 5][:n_models], **how).train()

    expected = bits(trained())
    assert all(bits(trained()) == expected for _ in range(5))
    with patch.object(ThreadPool, "run", in_this_thread):
        assert bits(trained()) == expected


def test_the_steps_of_a_block_are_prepared_once_however_many_epochs_follow() -> None:
    models = Models(PERIODIC, CrossEntropy(), [40, 40], batch_size=8, block_steps=2)  # blocks of 2, 2 and 1 batches
    step = NumpyStep(models.state)
    with torch.inference_mode():
        for epoch in range(3):
            models.begin_epoch(epoch)
            for block in models.batches.blocks:
                step.train_block(block, models.batches.gather(block, models.adam.rates), models.train_loss)
    assert len(models.batches.blocks) == 3 and len(step._steps) == 2
    step.close()


def test_one_model_and_models_in_a_fleet_differ_by_rounding_only() -> None:
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-4)):
        fleet = Models(PERIODIC, CrossEntropy(), [40, 33, 21], dropout=0.4, dtype=dtype, n_threads=2).train(1)
        alone = Models(PERIODIC, CrossEntropy(), [40], dropout=0.4, dtype=dtype).train(1)
        torch.testing.assert_close(fleet.state.flat[:1], alone.state.flat, rtol=tolerance, atol=tolerance / 10)


@pytest.mark.parametrize(
    ("n_models", "n_threads", "n_split"),
    [(1, 1, 0), (1, 2, 1), (2, 2, 0), (3, 2, 1), (25, 2, 1), (3, 4, 0), (6, 4, 2), (7, 4, 0)],
)
def test_models_left_over_by_the_threads_have_their_rows_split(n_models: int, n_threads: int, n_split: int) -> None:
    models = Models(GNMShape(5, 3, 16, 3), CrossEntropy(), [40] * n_models, batch_size=40, n_threads=n_threads)
    with divided():
        groups, split = numpy_step._divide(models.state)
    assert len(split) == n_split
    assert len(groups) in (0, n_models) or len(groups) % n_threads == 0
    assert [i for own in [*groups, *split] for i in range(own.start, own.stop)] == list(range(n_models))


def test_rows_without_weight_are_not_looked_at() -> None:
    models = Models(GNMShape(1, 1, 3, 1), SquaredError(), [2, 2], dtype=torch.float32)
    models.state.flat.copy_(torch.tensor([[1e30, 0.0], [1.0, 0.0]]))
    block = Block(2, 2, (Batch(0, 0, 2, 2),))
    weights = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    x = torch.tensor([[[0.0, 1.0], [1.0, 1.0]]] * 2)  # a column and ones
    rows = BlockRows(x, torch.zeros(2, 2, 1), weights, weights, models.adam.rates)
    models.adam.load_epoch(0)
    NumpyStep(models.state).train_block(block, rows, models.train_loss)
    assert models.train_loss.tolist() == [0.0, 1.0]  # the loss of the first model's second row is infinite


def test_extreme_logits_have_finite_losses_and_gradients() -> None:
    models = Models(GNMShape(1, 2, 4, 1), CrossEntropy(), [2], dtype=torch.float32)
    models.state.flat.copy_(torch.tensor([[1e4, -1e4, 0.0, 0.0]]))
    block = Block(2, 1, (Batch(0, 0, 2, 1),))
    weights = torch.tensor([[0.0, 1.0]])
    rows = BlockRows(torch.ones(1, 2, 2), torch.tensor([[0, 1]]), weights, weights, models.adam.rates)
    models.adam.load_epoch(0)
    NumpyStep(models.state).train_block(block, rows, models.train_loss)
    assert models.state.layout.views(models.state.grad)["bias_1"].tolist() == [[1.0, -1.0]]
    assert models.train_loss.tolist() == [2e4]


@pytest.mark.parametrize(
    "variant",
    [
        {"combine": "residual"},
        {"combine": "gated"},
        {"persistent_outputs": True},
        {"tied": True},
        {"learn_initial": True},
    ],
)
def test_other_variants_and_gates_are_left_to_torch(variant: dict[str, Any]) -> None:
    plain = Models(GNMShape(6, 3, 16, 3), CrossEntropy(), [5]).state
    assert NumpyStep.supports(plain)
    assert not NumpyStep.supports(replace(plain, shape=GNMShape(6, 3, 16, 3, **variant)))
    gated = FlatLayout(plain.shape, gates=True)
    gates = Gates(gated, [Member()], gated.first_weights([Member()], CPU, torch.float64))
    assert not NumpyStep.supports(replace(plain, gates=gates))


def test_threads_work_at_the_same_time_without_autograd_and_end() -> None:
    pool, together, seen = ThreadPool(3), threading.Barrier(3, timeout=10), {}

    def work(thread: int, task: int) -> None:
        together.wait()  # nobody gets past this alone
        seen[task] = thread, threading.get_ident(), torch.is_inference_mode_enabled(), np.geterr()["over"]

    with torch.inference_mode(), np.errstate(all="ignore"):
        pool.run(work, 3)
    pool.close()
    threads, idents, inference, overflow = zip(*seen.values(), strict=True)
    assert sorted(threads) == [0, 1, 2] and len(set(idents)) == 3
    assert all(inference) and set(overflow) == {"ignore"}
    assert not any(thread.name == "tabgnm-step" for thread in threading.enumerate())


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_an_exception_is_raised_when_no_thread_works_any_more(n_threads: int) -> None:
    pool, done = ThreadPool(n_threads), []

    def work(thread: int, task: int) -> None:  # noqa: ARG001 - what work takes
        if task == 1:
            raise ZeroDivisionError(task)
        done.append(task)

    with pytest.raises(ZeroDivisionError):
        pool.run(work, 4)
    pool.close()
    assert sorted(done) == ([0] if n_threads == 1 else [0, 2, 3])


def test_threads_that_save_no_time_are_left_alone_for_a_while() -> None:
    pool, threads = ThreadPool(2), []

    def work(thread: int, task: int) -> None:  # noqa: ARG001 - what work takes
        threads.append(thread)
        time.sleep(0.05)  # takes time, but no processor: as if another program had the core

    pool.run(work, 2)
    assert set(threads) == {0, 1}
    threads.clear()
    pool.run(work, 2)
    assert set(threads) == {0}
    pool._resume = 0.0
    pool.run(work, 2)
    assert set(threads) == {0, 1}
    pool.close()
