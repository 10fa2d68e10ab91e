"""The step in NumPy computes what message passing and Adam define, whatever threads, models and rows it is divided into."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tabgnm.nn import EmbeddedShape, GNMShape, InputEmbedding, MLPShape
from tabgnm.nn.losses import JointCrossEntropy, Loss
from tabgnm.nn.message_passing import backward, forward
from tabgnm.nn.shapes import Shape
from tabgnm.training import Member, counter_random
from tabgnm.training.adam import Adam
from tabgnm.training.dropout import Dropout
from tabgnm.training.flat_weights import FlatLayout
from tabgnm.training.model_state import ModelState
from tabgnm.training.row_batches import Batch, BlockRows, DeviceTables, RowBatches, RowSet
from tabgnm.training.steps import numpy_step
from tabgnm.training.steps.numpy_step import NumpyStep
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
        flat = layout.first_weights(own_seeds, CPU, dtype)
        flat += 0.3 * torch.rand(flat.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(
            dtype
        )
        grad = torch.full_like(flat, torch.nan)
        self.adam = Adam(layout, members, how, flat, grad)
        tables = DeviceTables([table_for(loss, 40, shape=shape, seed=seed)], CPU, dtype, dtype)
        random = torch.Generator().manual_seed(seed)
        rows = [torch.randperm(40, generator=random)[:n] for n in n_rows]
        # Some rows have weight 0.
        weights = [torch.rand(n, dtype=torch.float64, generator=random).sub(0.2).clamp(min=0) for n in n_rows]
        sources = [0] * len(n_rows)
        self.batches = RowBatches(RowSet(tables, sources, rows, weights, dtype), batch_size, block_steps, dtype)
        self.validation = Validation(RowSet(tables, sources, rows, weights, dtype), how, flat)
        self.adam.allocate_rates(self.batches.n_steps)
        size = self.batches.batch_size
        self.dropout = Dropout(shape, members, size, flat)
        self.state = ModelState(shape, how, members, layout, flat, grad, self.adam, self.dropout, None, size, n_threads)
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
        with torch.inference_mode():
            for epoch in range(n_epochs):
                self.begin_epoch(epoch)
                for block in self.batches.blocks:
                    step.train_block(block, self.batches.gather(block, self.adam.rates), self.train_loss)
            self.validation.begin()
            step.validate(self.validation)
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
        self.validation.begin()
        for piece in self.validation.pieces(slice(0, len(n_done))):
            outputs = forward(self.state.shape, self.state.layout.views(self.state.flat), piece.x).output
            self.validation.add(piece, outputs)
        return self

    def _plain_step(self, i: int, batch: Batch, rows: BlockRows) -> None:
        shape, layout, loss = self.state.shape, self.state.layout, self.state.settings.loss
        model, places = slice(i, i + 1), slice(batch.start, batch.start + batch.n_rows)
        x, y, weights, shares = (values[model, places] for values in rows[:4])
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
        patch.object(numpy_step, "_SPLIT_WORK", 0 if split else 10**12),
        patch.object(numpy_step, "_PART_ROWS", 2),
        patch.object(numpy_step, "_GROUP_WORK", 1),
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
    loss=st.sampled_from([*LOSSES, JointCrossEntropy((2, 1))]),
    n_rows=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    n_threads=st.integers(1, 3),
    split=st.booleans(),
    dropout=st.sampled_from([0.0, 0.5]),
    seed=seeds,
)
@settings(max_examples=150)
def test_steps_are_those_of_message_passing_and_adam(
    shape: Shape, loss: Loss, n_rows: list[int], n_threads: int, split: bool, dropout: float, seed: int
) -> None:
    with divided(split=split):
        actual = Models(shape, loss, n_rows, n_threads=n_threads, dropout=dropout, seed=seed).train()
    expected = Models(shape, loss, n_rows, dropout=dropout, seed=seed).train_plainly()
    for one, other in zip(actual.results(), expected.results(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
