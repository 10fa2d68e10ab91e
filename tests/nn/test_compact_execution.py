"""Compact execution computes exactly what the paper's formula computes on full matrices."""

from __future__ import annotations

from dataclasses import replace

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tabgnm.nn import GNM, GNMShape, l1_penalty
from tabgnm.nn.adjacency import full_adjacency
from tests.nn.literal import literal_forward, live_edges
from tests.nn.strategies import gnm_shapes, seeds


def machine(shape: GNMShape) -> GNM:
    return GNM(**shape.settings(), dtype=torch.float64)


def random_case(shape: GNMShape, seed: int, n_rows: int) -> tuple[GNM, torch.Tensor, torch.Tensor]:
    """A machine, the full random matrices it took over (dead entries random too), and rows."""
    torch.manual_seed(seed)
    net = machine(shape)
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter)
    n_matrices = 1 if shape.tied else shape.n_layers
    full = torch.randn(n_matrices, shape.n_nodes, shape.n_nodes, dtype=torch.float64) / shape.n_nodes**0.5
    full[:, shape.layout.bias] = 0
    full[:, shape.layout.bias, shape.layout.bias] = 1
    full = full.expand(shape.n_layers, -1, -1)
    net.set_adjacency(full)
    return net, full, torch.randn(n_rows, shape.n_inputs, dtype=torch.float64)


@given(gnm_shapes(), seeds, st.integers(1, 9))
@settings(max_examples=300)
def test_outputs_and_gradients_equal_the_papers_formula(shape: GNMShape, seed: int, n_rows: int) -> None:
    net, full, x = random_case(shape, seed, n_rows)
    full = (full[:1].clone() if shape.tied else full.clone()).requires_grad_()
    extra = {
        name: value.detach().clone().requires_grad_()
        for name, value in net.named_parameters()
        if name.startswith("gate") or name == "initial"
    }
    matrices = full.expand(shape.n_layers, -1, -1)
    expected = literal_forward(shape, matrices, x, extra)
    direction = torch.randn_like(expected[-1])
    (expected[-1] * direction).sum().backward()

    output = net(x)
    (output * direction).sum().backward()

    torch.testing.assert_close(output, expected[-1], rtol=1e-12, atol=1e-12)
    gradients = {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in net.named_parameters()}
    for name, value in extra.items():
        grad = torch.zeros_like(value) if value.grad is None else value.grad
        torch.testing.assert_close(gradients[name], grad, rtol=1e-12, atol=1e-12)
    compact = full_adjacency(shape, gradients)
    compact[:, shape.layout.bias] = 0
    assert full.grad is not None
    literal = full.grad.clone()
    literal[:, shape.layout.bias] = 0
    if shape.tied:  # every layer shows the same stored matrix; together they cover all of it
        covered = live_edges(shape).any(dim=0)
        compact = torch.where(live_edges(shape), compact, 0).abs().amax(dim=0) * covered
        literal = literal[0].abs()
    torch.testing.assert_close(compact, literal, rtol=1e-12, atol=1e-12)


@given(gnm_shapes(), seeds)
@settings(max_examples=100)
def test_entries_that_are_not_live_cannot_change_the_output(shape: GNMShape, seed: int) -> None:
    net, full, x = random_case(shape, seed, 4)
    extra = {name: value.detach() for name, value in net.named_parameters()}
    live = live_edges(shape)
    live = live.any(dim=0) if shape.tied else live
    other = torch.where(live, full, full + torch.randn(shape.n_nodes, shape.n_nodes, dtype=torch.float64))
    other[:, shape.layout.bias] = full[:, shape.layout.bias]
    torch.testing.assert_close(
        literal_forward(shape, other, x, extra)[-1], literal_forward(shape, full, x, extra)[-1], rtol=1e-12, atol=1e-12
    )


@given(gnm_shapes(), seeds)
@settings(max_examples=100)
def test_adjacency_can_be_read_and_set_back(shape: GNMShape, seed: int) -> None:
    torch.manual_seed(seed)
    net, other = machine(shape), machine(shape)
    other.set_adjacency(net.adjacency())
    for name in shape.edge_parameters():
        assert torch.equal(getattr(other, name), getattr(net, name))


@given(gnm_shapes(), seeds)
@settings(max_examples=100)
def test_effective_parameters_are_those_with_a_gradient(shape: GNMShape, seed: int) -> None:
    # tanh: no node is silent by chance, as it may be with ReLU
    net, _, x = random_case(replace(shape, activation="tanh"), seed, 5)
    net(x).square().sum().backward()
    n_moving = sum(int((p.grad != 0).sum()) for p in net.parameters() if p.grad is not None)
    assert net.n_effective_parameters() == n_moving


@given(gnm_shapes(), seeds)
@settings(max_examples=60)
def test_what_cannot_matter_is_not_penalised(shape: GNMShape, seed: int) -> None:
    torch.manual_seed(seed)
    net = machine(shape)
    live = live_edges(shape)
    weights = net.adjacency().abs()
    expected = (weights * live).amax(dim=0).sum() if shape.tied else (weights * live).sum()
    torch.testing.assert_close(l1_penalty(net), expected)


@given(gnm_shapes(), seeds)
@settings(max_examples=60)
def test_anytime_readouts_are_the_output_nodes_after_every_layer(shape: GNMShape, seed: int) -> None:
    net, full, x = random_case(shape, seed, 3)
    if shape.persistent_outputs:
        extra = {name: value.detach() for name, value in net.named_parameters()}
        expected = torch.stack(literal_forward(shape, full, x, extra))
        torch.testing.assert_close(net.anytime(x), expected, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(net.anytime(x)[-1], net(x), rtol=0, atol=0)


def test_parameter_counts_are_the_papers() -> None:
    assert GNM(2, 1, n_nodes=50, n_layers=2).n_parameters() == 4_900
    assert GNM(21, 4, n_nodes=500, n_layers=2).n_parameters() == 499_000
    # layer 1: 499 targets from 21 inputs and the bias; layer 2: 4 targets from all 500 nodes
    assert GNM(21, 4, n_nodes=500, n_layers=2).n_effective_parameters() == 499 * 22 + 4 * 500
    assert GNM(2, 1, n_nodes=50, n_layers=3, tied=True).n_parameters() == 50 * 49
