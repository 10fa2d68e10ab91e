"""On a GPU, `CudaStep` computes what message passing and Adam define, in float64 and a step at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tabgnm.nn import EmbeddedShape, GNMShape, InputEmbedding, MLPShape
from tabgnm.nn.losses import CrossEntropy, JointCrossEntropy, Loss, SquaredError
from tabgnm.nn.message_passing import backward, forward
from tabgnm.nn.shapes import Shape
from tabgnm.training import Member
from tabgnm.training.adam import Adam
from tabgnm.training.dropout import Dropout
from tabgnm.training.flat_weights import FlatLayout
from tabgnm.training.model_state import ModelState
from tabgnm.training.row_batches import ALIGN, Batch, Block, BlockRows
from tabgnm.training.settings import FleetSettings
from tabgnm.training.steps.cuda_step import CudaStep
from tests.training.examples import (
    EVERYTHING,
    LOSSES,
    different_members,
    kernel_device,
    on_gpu,
    settings_for,
    table_for,
    train,
)

pytestmark = pytest.mark.gpu

DEVICE = kernel_device()
needs_gpu = pytest.mark.skipif(DEVICE.type != "cuda", reason="needs a GPU, or is very slow without one")
CLASSES = CrossEntropy()
NETWORK = GNMShape(6, 3, n_nodes=40, n_layers=3)
MIXED = InputEmbedding(3, 3, "periodic", 5, 3, 0.5, levels=(3, 40), level_dim=2)
EMBEDDINGS = {
    "periodic": InputEmbedding(2, 3, "periodic", 16, 4),
    "large periodic": InputEmbedding(0, 2, "periodic", 48, 12, 1.0),
    "piecewise": InputEmbedding(0, 4, "piecewise", 32, 8),
    "categories": InputEmbedding(1, 0, levels=(2, 70, 9), level_dim=8),
    "mixed": MIXED,
    "plain": InputEmbedding(40),
}


def members_for(n: int, **changes: Any) -> list[Member]:
    return [Member(seed=seed, learning_rate=0.01 * (1 + seed % 3), **changes) for seed in range(n)]


def state_for(
    shape: Shape, members: list[Member], loss: Loss = CLASSES, *, batch_size: int = 24, **changes: Any
) -> ModelState:
    """Models at the start of their training; with a large eps weights show gradients and not their signs."""
    settings = FleetSettings(loss, device=DEVICE.type, eps=0.1, **changes)
    layout = FlatLayout(shape, align=ALIGN)
    flat = layout.first_weights(members, DEVICE, settings.dtype)
    grad = torch.zeros_like(flat)
    return ModelState(
        shape=shape,
        settings=settings,
        layout=layout,
        flat=flat,
        grad=grad,
        adam=Adam(layout, members, settings, flat, grad),
        dropout=Dropout(shape, members, batch_size, flat),
        gates=None,
        batch_size=batch_size,
        n_threads=1,
    )


def block_for(batch_size: int, n_models: int, n_steps: int = 2) -> Block:
    """Full batches, and a shorter last one that the last model does not take part in."""
    batches = [Batch(i, i * batch_size, batch_size, n_models) for i in range(n_steps)]
    batches.append(Batch(n_steps, n_steps * batch_size, batch_size - 3, max(1, n_models - 1)))
    return Block((n_steps + 1) * batch_size - 3, n_models, tuple(batches))


def rows_for(state: ModelState, block: Block, x_dtype: torch.dtype = torch.float32) -> BlockRows:
    n_models, n_rows, settings = block.n_models, block.n_positions, state.settings
    table = table_for(settings.loss, n_models * n_rows, shape=state.shape)
    x = F.pad(table.x.view(n_models, n_rows, -1), (0, -table.x.shape[1] % ALIGN))
    y = table.y.view(n_models, n_rows, *table.y.shape[1:])
    weights = torch.rand(n_models, n_rows, generator=torch.Generator().manual_seed(0))
    weights[:, 5] = 0.0  # as rows beyond a model's own have
    rates = torch.empty(len(block.batches), 3, n_models, 1, dtype=torch.float64)
    for step in range(len(block.batches)):
        for model, member in enumerate(state.adam.members):
            first, second = (1 - beta ** (step + 1) for beta in settings.betas)
            inverse = first / member.learning_rate
            numbers = [inverse / second**0.5, settings.eps * inverse, member.learning_rate]
            rates[step, :, model, 0] = torch.tensor(numbers)
    shares = weights / n_rows
    for batch in block.batches:
        shares[batch.n_models :, batch.start :] = 0.0  # of models that have no more rows
    y = y.float() if y.is_floating_point() else y
    return BlockRows(*(part.to(DEVICE) for part in (x.to(x_dtype), y, weights / 20, shares, rates.float())))


class Reference:
    """The same models in float64 on the CPU."""

    def __init__(self, state: ModelState) -> None:
        self.state, self.flat = state, state.flat.cpu().double()
        self.moment, self.square = torch.zeros_like(self.flat), torch.zeros_like(self.flat)
        self.dropout = Dropout(state.shape, state.adam.members, state.batch_size, self.flat)
        self.dropout.allocate(rows_last=False)

    def train_block(self, block: Block, rows: BlockRows, train_loss: Tensor) -> None:
        loss = self.state.settings.loss
        x, y, weights, shares, rates = (t.cpu().double() if t.is_floating_point() else t.cpu() for t in rows)
        for batch, own_rates in zip(block.batches, rates, strict=True):
            own = slice(0, batch.n_models), slice(batch.start, batch.start + batch.n_rows)
            views, grad = self.state.layout.views(self.flat[own[0]]), torch.zeros_like(self.flat[own[0]])
            factors = self.dropout.factors(own[0], batch.n_rows)
            trace = forward(self.state.shape, views, x[own][..., : self.state.shape.n_inputs], factors, keep=True)
            by_output = loss.gradient(trace.output, y[own]) * weights[own].unsqueeze(-1)
            backward(self.state.shape, views, trace, by_output, self.state.layout.views(grad))
            train_loss[own[0]] += (loss.per_row(trace.output, y[own]) * shares[own]).sum(dim=1)
            self.adam_step(grad, own_rates[:, own[0]])

    def adam_step(self, grad: Tensor, rates: Tensor) -> None:
        adam, n, edges = self.state.adam, len(grad), self.state.layout.n_edges
        beta_1, beta_2 = self.state.settings.betas
        l2, l1, decay, threshold = (
            torch.zeros(n, 1) if column is None else column[:n].cpu().double()
            for column in (adam.l2, adam.l1_gradient, adam.decay, adam.l1_threshold)
        )
        flat, moment, square = self.flat[:n], self.moment[:n], self.square[:n]
        weights, (scale, offset, rate) = flat[:, :edges], rates
        grad[:, :edges] += l2 * weights + l1 * weights.sign()
        moment.lerp_(grad, 1 - beta_1)
        square.lerp_(grad.square(), 1 - beta_2)
        weights *= 1 - rate * decay
        flat -= moment / (scale * square.sqrt() + offset)
        limit = rate * threshold
        weights.copy_(weights.sign() * (weights.abs() - limit).clamp(min=0))


def assert_steps_are_those_of_the_reference(state: ModelState, tolerance: float = 1e-5, **how: Any) -> None:
    assert CudaStep.supports(state)
    block = block_for(state.batch_size, len(state.flat))
    rows = rows_for(state, block, **how)
    reference, step = Reference(state), CudaStep(state)
    keys = [torch.arange(len(state.flat)) + 1000 * layer for layer in range(state.dropout.n_streams)]
    reference.dropout.start(keys)
    state.dropout.start([key.to(DEVICE) for key in keys])
    losses = torch.zeros(len(state.flat), device=DEVICE), torch.zeros(len(state.flat), dtype=torch.float64)
    step.train_block(block, rows, losses[0])
    reference.train_block(block, rows, losses[1])
    near = {"rtol": tolerance, "atol": tolerance}
    torch.testing.assert_close(state.flat.cpu().double(), reference.flat, **near)
    torch.testing.assert_close(state.adam.exp_avg.cpu().double(), reference.moment, **near)
    torch.testing.assert_close(state.adam.exp_avg_sq.cpu().double(), reference.square, **near)
    torch.testing.assert_close(losses[0].cpu().double(), losses[1], **near)
    for own, expected in zip(state.dropout.streams, reference.dropout.streams, strict=True):
        n, n_rows = block.batches[-1].n_models, block.batches[-1].n_rows  # of the last step
        assert torch.equal(own.states[:n, :n_rows].cpu(), expected.states[:n, :n_rows])
    padding = state.layout.padded_views(state.flat.clone())
    for name, view in state.layout.views(state.flat).items():
        for dim, side in enumerate(view.shape[1:], start=1):
            added = padding[name].narrow(dim, side, padding[name].shape[dim] - side)
            assert not added.any(), f"what was added to align {name} is not 0"


@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "silu", "gelu", "tanh", "identity"])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_steps_with_every_activation(activation: str, dropout: float) -> None:
    shape = replace(NETWORK, activation=activation, init="kaiming")
    assert_steps_are_those_of_the_reference(state_for(shape, members_for(3, dropout=dropout)))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("n_outputs", [1, 3, 19])
def test_steps_with_every_loss(loss: Loss, n_outputs: int) -> None:
    shape = replace(NETWORK, n_outputs=n_outputs)
    assert_steps_are_those_of_the_reference(state_for(shape, members_for(3), loss))


@pytest.mark.parametrize("embedding", EMBEDDINGS.values(), ids=EMBEDDINGS)
@pytest.mark.parametrize("n_layers", [1, 3])
def test_steps_with_every_embedding(embedding: InputEmbedding, n_layers: int) -> None:
    body = GNMShape(embedding.n_outputs, 3, embedding.n_outputs + 20, n_layers, "silu", "kaiming")
    state = state_for(EmbeddedShape(embedding, body), members_for(3, weight_decay=0.1))
    assert_steps_are_those_of_the_reference(state)


@pytest.mark.parametrize("activation", ["relu", "silu"])
@pytest.mark.parametrize("n_layers", [1, 2, 4])
@pytest.mark.parametrize("n_inputs", [5, 16, 33])
def test_steps_with_clamped_inputs(activation: str, n_layers: int, n_inputs: int) -> None:
    for n_hidden in (2, 29):
        shape = GNMShape(n_inputs, 3, n_inputs + n_hidden + 4, n_layers, activation, "kaiming", clamp_inputs=True)
        assert_steps_are_those_of_the_reference(state_for(shape, members_for(3, dropout=0.3)))


@pytest.mark.parametrize("embedding", EMBEDDINGS.values(), ids=EMBEDDINGS)
@pytest.mark.parametrize("n_layers", [1, 3])
def test_steps_with_clamped_embeddings(embedding: InputEmbedding, n_layers: int) -> None:
    n_inputs = embedding.n_outputs
    body = GNMShape(n_inputs, 3, n_inputs + 20, n_layers, "silu", "kaiming", clamp_inputs=True)
    state = state_for(EmbeddedShape(embedding, body), members_for(3, weight_decay=0.1, dropout=0.2))
    assert_steps_are_those_of_the_reference(state)


SHAPES: dict[str, Shape] = {
    "one layer": MLPShape(6, 3, ()),
    "narrow after wide": MLPShape(6, 3, (90, 7, 33)),
    "one node": MLPShape(1, 1, (1,)),
    "whole tiles": MLPShape(16, 16, (64, 64)),
    "wide": GNMShape(21, 100, n_nodes=300, n_layers=2),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("batch_size", [5, 24, 150])
def test_steps_of_every_width_and_batch_size(shape: Shape, batch_size: int) -> None:
    state = state_for(shape, members_for(4, dropout=0.2), SquaredError(), batch_size=batch_size)
    assert_steps_are_those_of_the_reference(state)


@needs_gpu
@pytest.mark.parametrize("n_models", [1, 8, 40, 150])
def test_steps_of_few_and_many_models(n_models: int) -> None:
    """Each number of models has its tiles. ReLU might turn rounding into another gradient in one of so many states."""
    shape = GNMShape(6, 3, n_nodes=100, n_layers=3, activation="silu")
    assert_steps_are_those_of_the_reference(state_for(shape, members_for(n_models, dropout=0.2), batch_size=64))
    embedded = EmbeddedShape(MIXED, replace(shape, n_inputs=MIXED.n_outputs, activation="gelu"))
    assert_steps_are_those_of_the_reference(state_for(embedded, members_for(n_models), batch_size=64))


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "proximal_adam"])
def test_steps_with_every_penalty(optimizer: str) -> None:
    members = members_for(2, l1=1e-2, l2=1e-2, weight_decay=0.1) + members_for(2)
    state = state_for(NETWORK, members, optimizer=optimizer, betas=(0.8, 0.99))
    assert_steps_are_those_of_the_reference(state)


@pytest.mark.parametrize(("precision", "tolerance"), [("tf32", 1e-4), ("bf16", 2e-2)])
def test_steps_with_less_precision(precision: str, tolerance: float) -> None:
    half = torch.bfloat16 if precision == "bf16" else torch.float32
    state = state_for(NETWORK, members_for(3, dropout=0.3), precision=precision)
    assert_steps_are_those_of_the_reference(state, tolerance, x_dtype=half)
    embedded = EmbeddedShape(MIXED, replace(NETWORK, n_inputs=MIXED.n_outputs, activation="silu"))
    assert_steps_are_those_of_the_reference(state_for(embedded, members_for(3), precision=precision), tolerance)
    clamped = state_for(replace(NETWORK, clamp_inputs=True), members_for(3, dropout=0.3), precision=precision)
    assert_steps_are_those_of_the_reference(clamped, tolerance, x_dtype=half)


def test_it_supports_what_it_has_kernels_for() -> None:
    for shape in KINDS:
        assert CudaStep.supports(state_for(shape, members_for(1)))
    for shape in (EVERYTHING, replace(NETWORK, n_nodes=200, n_outputs=129), replace(NETWORK, activation="sigmoid")):
        assert not CudaStep.supports(state_for(shape, members_for(1)))
    large = InputEmbedding(0, 1, n_basis=128, numeric_dim=128)
    assert not CudaStep.supports(state_for(EmbeddedShape(large, MLPShape(129, 3, (8,))), members_for(1)))
    assert not CudaStep.supports(state_for(NETWORK, members_for(1), JointCrossEntropy((2, 1))))
    assert not CudaStep.supports(state_for(NETWORK, members_for(1), precision="float64"))


KINDS = [
    NETWORK,
    EmbeddedShape(MIXED, replace(NETWORK, n_inputs=MIXED.n_outputs)),
    replace(NETWORK, clamp_inputs=True),
    EmbeddedShape(MIXED, replace(NETWORK, n_inputs=MIXED.n_outputs, clamp_inputs=True)),
]


@pytest.mark.parametrize("shape", KINDS)
@pytest.mark.parametrize("aligned", [True, False])
def test_validation_is_the_forward_pass(shape: Shape, aligned: bool) -> None:
    state = state_for(shape, members_for(3, dropout=0.5))
    x = rows_for(state, block_for(100, 3)).x
    x = x[..., : shape.n_inputs] if aligned else x[..., : shape.n_inputs].contiguous()
    outputs = CudaStep(state).outputs(x)
    views = {name: view.cpu().double() for name, view in state.layout.views(state.flat).items()}
    expected = forward(shape, views, x.cpu().double()).output
    torch.testing.assert_close(outputs.cpu().double(), expected, rtol=1e-5, atol=1e-5)


@needs_gpu
@pytest.mark.parametrize("shape", KINDS)
def test_steps_are_the_same_bits_again_and_in_a_graph(shape: Shape) -> None:
    block, results = block_for(24, 4), []
    for captured in (False, False, True):
        state = state_for(shape, members_for(4, dropout=0.3))
        step, loss, rows = CudaStep(state), torch.zeros(4, device=DEVICE), rows_for(state, block)
        keys = [torch.arange(4, device=DEVICE)] * state.dropout.n_streams
        state.dropout.start(keys)
        if captured:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                step.train_block(block, rows, loss)
            graph.replay()
        else:
            step.train_block(block, rows, loss)
        results.append((state.flat.clone(), loss.clone()))
    for flat, loss in results[1:]:
        assert torch.equal(flat, results[0][0])
        assert torch.equal(loss, results[0][1])


def test_a_model_that_diverges_is_noticed() -> None:
    for activation in ("relu", "silu"):
        state = state_for(replace(NETWORK, activation=activation), members_for(2, dropout=0.3))
        state.flat[0, 0] = torch.nan
        block, loss = block_for(24, 2), torch.zeros(2, device=DEVICE)
        step, rows = CudaStep(state), rows_for(state, block)
        state.dropout.start([torch.arange(2, device=DEVICE)] * state.dropout.n_streams)
        step.train_block(block, rows, loss)
        assert loss.isfinite().tolist() == [False, True]


SMOOTH = replace(NETWORK, activation="silu")  # the slope of ReLU jumps where a state is 0 up to rounding


@needs_gpu
@pytest.mark.parametrize(
    "shape",
    [
        SMOOTH,
        EmbeddedShape(MIXED, replace(SMOOTH, n_inputs=MIXED.n_outputs)),
        EmbeddedShape(MIXED, replace(SMOOTH, n_inputs=MIXED.n_outputs, clamp_inputs=True)),
    ],
)
def test_fleets_are_those_of_the_cpu(shape: Shape) -> None:
    settings = settings_for(max_epochs=2, precision="float32", eps=1e-3, batch_size=16)
    members = different_members(5)
    for one, other in zip(train(shape, members, on_gpu(settings)), train(shape, members, settings), strict=True):
        for name, value in other.parameters.items():
            torch.testing.assert_close(one.parameters[name], value, rtol=1e-3, atol=1e-3)
        assert one.history.val_loss == pytest.approx(other.history.val_loss, rel=1e-3)
