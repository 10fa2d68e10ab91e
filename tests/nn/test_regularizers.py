"""l1, l2, elastic net over the updated rows, and l0 by hard-concrete gates."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tabgnm.nn import GNM, MLP, elastic_penalty, expected_l0, l1_penalty, l2_penalty
from tabgnm.nn import hard_concrete as hc


def test_l1_and_l2_are_sums_over_the_updated_rows_of_the_papers_matrices() -> None:
    net = GNM(3, 2, n_nodes=9, n_layers=3)
    rows = net.adjacency()[:, net.layout.updated]
    torch.testing.assert_close(l1_penalty(net), rows.abs().sum())
    torch.testing.assert_close(l2_penalty(net), rows.square().sum())
    torch.testing.assert_close(elastic_penalty(net, 0.3, 0.1), 0.3 * rows.abs().sum() + 0.1 * rows.square().sum())


def test_what_variants_add_is_not_penalised() -> None:
    net = GNM(3, 2, n_nodes=9, n_layers=2, combine="gated", learn_initial=True)
    before = l1_penalty(net)
    with torch.no_grad():
        net.initial.add_(5.0)
        net.gate_bias_1.add_(5.0)
    torch.testing.assert_close(l1_penalty(net), before)


@given(st.floats(-6, 6), st.integers(0, 1000))
def test_the_derivative_of_the_gate_is_autograds(log_alpha: float, seed: int) -> None:
    torch.manual_seed(seed)
    la = torch.full((200,), log_alpha, dtype=torch.float64, requires_grad=True)
    uniform = torch.rand(200, dtype=torch.float64)
    hc.random_gate(la, uniform).sum().backward()
    torch.testing.assert_close(hc.random_gate_gradient(la.detach(), uniform), la.grad, rtol=1e-12, atol=1e-12)


def test_random_gates_are_open_as_often_as_expected() -> None:
    torch.manual_seed(0)
    for log_alpha in (-2.0, 0.0, 1.5):
        la = torch.full((200_000,), log_alpha)
        open_rate = (hc.random_gate(la, torch.rand(200_000)) > 0).float().mean()
        assert float(open_rate) == pytest.approx(float(hc.open_probability(la[:1])), abs=0.005)


def test_gates_are_random_in_training_and_exact_in_evaluation() -> None:
    torch.manual_seed(0)
    net = GNM(3, 2, n_nodes=12, n_layers=2, l0_gates=True)
    with torch.no_grad():
        net.log_alpha_weight_1[:, ::2] = -5.0
    x = torch.randn(8, 3)
    net.train()
    assert not torch.equal(net(x), net(x))
    net.eval()
    assert torch.equal(net(x), net(x))
    assert (net.adjacency()[0][net.layout.updated][::2, : net.shape.n_inputs] == 0).all()
    live = (net.adjacency()[:, net.layout.updated] != 0).sum()
    assert live == net.n_effective_parameters() - net.log_alpha_weight_1[:, ::2].numel()


def test_the_l0_penalty_closes_gates() -> None:
    torch.manual_seed(0)
    net = MLP(5, 1, (8,), l0_gates=True)
    x = torch.randn(256, 5)
    y = x[:, :1].clone()  # one feature of five matters
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    before = expected_l0(net).item()
    for _ in range(300):
        optimizer.zero_grad()
        ((net(x) - y).square().mean() + 0.01 * expected_l0(net)).backward()
        optimizer.step()
    net.eval()
    assert expected_l0(net).item() < 0.5 * before
    zeros = sum(int((p == 0).sum()) for p in net.effective_parameters().values())
    assert zeros > net.n_parameters() / 2
    assert (net(x) - y).square().mean().item() < 0.1


def test_an_adjacency_that_is_set_decides_the_gates() -> None:
    net = GNM(2, 1, n_nodes=7, n_layers=2, l0_gates=True)
    matrices = net.adjacency() * (torch.rand(2, 7, 7) > 0.5)
    matrices[:, net.layout.bias, net.layout.bias] = 1
    net.set_adjacency(matrices)
    assert torch.equal(net.adjacency(), matrices)


def test_expected_l0_needs_gates() -> None:
    with pytest.raises(ValueError, match="l0_gates=True"):
        expected_l0(GNM(2, 1))
