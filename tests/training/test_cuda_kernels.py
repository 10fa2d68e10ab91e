"""On a GPU, each kernel computes what torch does in float64."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from tabgnm.nn.activations import get_activation
from tabgnm.nn.embeddings import InputEmbedding, embed
from tabgnm.nn.losses import CrossEntropy, Gamma, LogLinkLoss, Loss, SquaredError
from tabgnm.training import counter_random
from tabgnm.training.kernels import ACTIVATIONS, kernels_for
from tests.training.examples import LOSSES, kernel_device

pytestmark = pytest.mark.gpu

DEVICE = kernel_device()


def random(*size: int, seed: int = 0) -> Tensor:
    return torch.randn(size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def on_device(*tensors: Tensor) -> list[Tensor]:
    return [tensor.float().to(DEVICE) for tensor in tensors]


def layer_of(weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Weights (M, s, t) and biases (M, t) of a layer in one buffer, as those of models are."""
    flat = torch.cat([weight.flatten(1), bias], dim=1).float().to(DEVICE)
    return flat[:, : -bias.shape[1]].view(weight.shape), flat[:, -bias.shape[1] :]


def assert_near(actual: Tensor, expected: Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(actual.cpu().double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["elementwise", "embedding", "epochs", "layers"])
def test_kernels_pass_their_own_check(name: str) -> None:
    assert kernels_for(DEVICE, name) is not None


SIZES = [(1, 5, 16, 16), (3, 64, 208, 128), (40, 20, 48, 16), (150, 100, 96, 80), (2, 300, 304, 304)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 3e-7), ("tf32", 3e-5), ("bf16", 1e-2)])
def test_products_have_their_precision(size: tuple[int, int, int, int], precision: str, tolerance: float) -> None:
    layers = kernels_for(DEVICE, "layers")
    n_models, n_rows, n_sources, n_targets = size
    source, weight = random(n_models, n_rows, n_sources), random(n_models, n_sources, n_targets, seed=1)
    grads = random(n_models, n_rows, n_targets + n_sources, seed=2)
    source, weight, grads = (each.float().double() for each in (source, weight, grads))
    state, own = (
        torch.empty(n_models, n_rows, n_targets, device=DEVICE),
        layer_of(weight, torch.zeros_like(weight[:, 0])),
    )
    x, by_both = on_device(source, grads)
    parts = layers.PARTS[precision]
    layers.forward_layer(x, *own, state, parts, "identity")
    layers.backward_layer(own[0], by_both[..., :n_targets], by_both[..., n_targets:], parts)
    for actual, expected in (
        (state, source @ weight),
        (by_both[..., n_targets:], grads[..., :n_targets] @ weight.mT),
    ):
        assert (actual.cpu().double() - expected).norm() <= tolerance * expected.norm()


@pytest.mark.parametrize("n_models", [2, 40, 150])
@pytest.mark.parametrize("relu", [True, False])
def test_gradients_go_back_through_activation_and_dropout(n_models: int, relu: bool) -> None:
    weight, state = random(n_models, 96, 80), random(n_models, 50, 96, seed=1)
    grads, scales = random(n_models, 50, 80 + 96, seed=2), 1 + random(n_models, 1, 1, seed=3).abs()
    expected = grads[..., :80] @ weight.mT * ((state > 0) * scales if relu else state)
    (own, *_), (by_both, given, own_scales) = layer_of(weight, weight[:, 0]), on_device(grads, state, scales)
    how = {"state": given, "scales": own_scales} if relu else {"slope": given}
    kernels_for(DEVICE, "layers").backward_layer(own, by_both[..., :80], by_both[..., 80:], 3, **how)
    assert_near(by_both[..., 80:], expected, 1e-4)


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_activations_and_slopes_are_those_of_torch(activation: str) -> None:
    layers = kernels_for(DEVICE, "layers")
    source, weight, bias = random(2, 40, 16), 2 * random(2, 16, 32, seed=1), random(2, 32, seed=2)
    source[0, 0] = 0.0
    bias[0, 0] = 0.0
    weight[0, :, 1] = torch.nan
    state, slope = torch.empty(2, 40, 32, device=DEVICE), torch.empty(2, 40, 32, device=DEVICE)
    layers.forward_layer(*on_device(source), *layer_of(weight, bias), state, 3, activation, slope)
    message, function = source @ weight + bias.unsqueeze(1), get_activation(activation)
    expected = function.forward(message)
    is_nan = expected.isnan()
    assert torch.equal(state.isnan().cpu(), is_nan)
    assert_near(state.cpu()[~is_nan], expected[~is_nan])
    expected = function.backward(torch.ones_like(message), message, expected)
    assert_near(slope.cpu()[~is_nan], expected[~is_nan])


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_the_step_of_the_optimizer_is_that_of_torch(decay: float) -> None:
    """Columns from 1,500 on are not edges: there is no decay."""
    weight, n_edges, rate, betas, eps = random(3, 2000), 1500, 0.01, (0.8, 0.99), 1e-3
    parameters = [weight[:, :n_edges].clone(), weight[:, n_edges:].clone()]
    groups: list[Any] = [{"params": parameters[:1], "weight_decay": decay}, {"params": parameters[1:]}]
    optimizer = torch.optim.AdamW(groups, lr=rate, betas=betas, eps=eps, weight_decay=0.0)
    flat, moment, square = on_device(weight, torch.zeros_like(weight), torch.zeros_like(weight))
    column = torch.full((3, 1), decay, device=DEVICE)
    for step in range(1, 4):
        grad = random(3, 2000, seed=step)
        parameters[0].grad, parameters[1].grad = grad[:, :n_edges], grad[:, n_edges:]
        optimizer.step()
        first, second = (1 - beta**step for beta in betas)
        numbers = torch.tensor([first / rate / math.sqrt(second), eps * first / rate, rate])
        rates = numbers.view(3, 1, 1).expand(3, 3, 1).contiguous().to(DEVICE)
        kernels = kernels_for(DEVICE, "elementwise")
        buffers = kernels.OptimizerBuffers(flat, moment, square, decay=column if decay else None)
        kernels.adam_step(buffers, *on_device(grad), rates, betas, n_edges)
    assert_near(flat, torch.cat(parameters, dim=1))


@pytest.mark.parametrize("width", [1, 16, 100])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("target", [torch.arange(50), torch.rand(50, 1), torch.rand(50, 3)], ids=["class", "1", "3"])
def test_gathered_rows_are_those_of_a_block(width: int, dtype: torch.dtype, target: Tensor) -> None:
    table, generator = random(50, width).to(dtype), torch.Generator().manual_seed(0)
    ids, (step_weights, epoch_weights) = torch.randint(50, (4, 1000), generator=generator), torch.rand(2, 4, 1000)
    rows, models, size = slice(5 * 17, 5 * 17 + 300), slice(0, 3), (3, 300)  # of steps 5 and later, of three models
    out = [torch.empty(*size, *each.shape[1:], dtype=each.dtype, device=DEVICE) for each in (table, target)]
    weights = torch.empty(2, *size, device=DEVICE)
    of_all = [each.to(DEVICE) for each in (table, target, ids, step_weights, epoch_weights, torch.tensor(5))]
    kernels_for(DEVICE, "elementwise").gather_block(
        (of_all[0], of_all[1]), of_all[2], (of_all[3], of_all[4]), of_all[5], 17, (*out, weights)
    )
    own = ids[models, rows]
    expected = table[own], target[own], torch.stack([step_weights[models, rows], epoch_weights[models, rows]])
    assert all(torch.equal(found.cpu(), other) for found, other in zip([*out, weights], expected, strict=True))


def test_random_numbers_are_those_of_the_cpu() -> None:
    keys = torch.tensor([0, 1, -5, 2**62])
    actual = kernels_for(DEVICE, "epochs").hashes(keys.to(DEVICE), 1500)
    assert torch.equal(actual.cpu(), counter_random.hashes(keys, 1500))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("n_outputs", [1, 5])
def test_losses_are_added(loss: Loss, n_outputs: int) -> None:
    outputs, weights = 3 * random(4, 2500, n_outputs), random(4, 2500, seed=1).abs()
    targets = random(4, 2500, n_outputs, seed=2)
    y = targets.argmax(dim=2) if isinstance(loss, CrossEntropy) else (targets > 0).double() + isinstance(loss, Gamma)
    expected = (loss.per_row(outputs, y) * weights).sum(dim=1) + 1
    outputs[1, 7], weights[1, 7] = torch.inf, 0.0  # a row without weight is not looked at
    expected[1] = (loss.per_row(outputs[1], y[1]) * weights[1]).nan_to_num(0.0).sum() + 1
    outputs[2, 7] = torch.nan
    total = torch.ones(4, device=DEVICE)
    y = y.to(DEVICE) if isinstance(loss, CrossEntropy) else y.float().to(DEVICE)
    kernels_for(DEVICE, "epochs").add_losses(loss, *on_device(outputs), y, *on_device(weights), total)
    assert total[2].isnan()
    keep = torch.tensor([0, 1, 3])
    assert_near(total.cpu()[keep], expected[keep])


@pytest.mark.parametrize(("largest", "tolerance"), [(1.0, 3e-6), (1000.0, 3e-4)])
def test_periodic_embeddings_are_accurate(largest: float, tolerance: float) -> None:
    """A rounded argument of 1,000 is off by up to 3e-5, and 16 cosines are added up."""
    embedding = InputEmbedding(0, 1, n_basis=16, numeric_dim=3)
    elementwise, embeddings = kernels_for(DEVICE, "elementwise"), kernels_for(DEVICE, "embedding")
    shapes, offsets, end = embedding.parameter_shapes(), {}, 0
    for name, size in shapes.items():
        offsets[name], end = end, end + math.prod(size)
    flat = random(1, end).float()
    flat[:, : offsets["embed_phase"]] = 1.0 / 16
    x = torch.linspace(-1, 1, 5000).view(1, -1, 1) * largest / (2 * math.pi / 16)
    (own,), out = on_device(flat), torch.zeros(1, 5000, 16, device=DEVICE)
    buffers = elementwise.OptimizerBuffers(own, torch.zeros_like(own), torch.zeros_like(own))
    embeddings.Embedding(embedding, buffers, (0.9, 0.999), offsets).forward(own, *on_device(x), out)
    parameters = {
        name: flat[:, offsets[name] : offsets[name] + math.prod(size)].double().view(1, *size)
        for name, size in shapes.items()
    }
    expected = embed(embedding, parameters, x.double())
    assert_near(out[..., 1:4], expected[..., 1:], tolerance)
    assert_near(out[..., 0], x.double()[..., 0], 1e-6)


def test_gradients_of_outputs_are_those_of_the_loss() -> None:
    """With large outputs, too, and 0 for rows without weight."""
    layers = kernels_for(DEVICE, "layers")
    for loss in (*LOSSES, SquaredError()):
        factor = 0.3 if isinstance(loss, LogLinkLoss) else 10  # the rounding of logarithms is that of factors
        source, weight, bias = random(2, 70, 32), factor * random(2, 32, 16, seed=1), random(2, 16, seed=2)
        targets, shares = random(2, 70, 5, seed=3), random(2, 70, seed=4).abs()
        shares[:, 3] = 0.0
        y = (
            targets.argmax(dim=2)
            if isinstance(loss, CrossEntropy)
            else (targets > 0).double() + isinstance(loss, Gamma)
        )
        expected = (source @ weight + bias.unsqueeze(1))[..., :5]
        kept, grad = torch.empty(2, 70, 5, device=DEVICE), torch.empty(2, 70, 16, device=DEVICE)
        own = y.to(DEVICE) if isinstance(loss, CrossEntropy) else y.float().to(DEVICE)
        layer = layer_of(weight, bias)
        layers.output_layer(loss, *on_device(source), *layer, own, *on_device(shares), kept, grad, 3)
        assert_near(kept, expected, 1e-4)
        assert_near(grad[..., :5], loss.gradient(expected, y) * shares.unsqueeze(-1), 1e-3)
        assert not grad[..., 5:].any()
