"""Section 6.5: what counts as an edge, how the penalty is chosen, and that it works."""

from __future__ import annotations

import pytest
import torch

from tabgnm.datasets import xor_bayes_accuracy
from tabgnm.nn import GNM
from tabgnm.paper.sparse import PathPoint, SparseMachine, _chosen, _edges, learn_sparse_machines, without_dead_edges


def test_edges_that_lead_from_no_input_or_to_no_output_do_not_count() -> None:
    net = GNM(2, 1, n_nodes=8, n_layers=2)  # inputs 0 and 1, hidden 2 to 5, bias 6, output 7
    matrices = torch.zeros(2, 8, 8)
    matrices[:, 6, 6] = 1
    matrices[0, 2, 0] = 1.0  # input 0 -> 2 -> output
    matrices[1, 7, 2] = 1.0
    matrices[0, 3, 1] = 1.0  # input 1 -> 3, and no further
    matrices[1, 7, 4] = 1.0  # from 4, where nothing arrives
    matrices[0, 5, 6] = 1.0  # bias -> 5 -> output
    matrices[1, 7, 5] = 5e-4  # below the threshold, so neither counts
    net.set_adjacency(matrices)
    assert [edge[:3] for edge in _edges(without_dead_edges(net))] == [(1, 0, 2), (2, 2, 7)]


def test_the_fewest_edges_within_one_standard_error_are_chosen() -> None:
    path = [
        PathPoint(0.1, 90, 0.20, 0.05),
        PathPoint(0.2, 30, 0.22, 0.05),
        PathPoint(0.4, 12, 0.249, 0.05),
        PathPoint(0.8, 6, 0.26, 0.5),
    ]
    assert _chosen(path) == 2


@pytest.fixture(scope="module")
def machines() -> list[SparseMachine]:
    return learn_sparse_machines(range(4), l1_path=(0.5, 0.63, 0.8), device="cpu")


def test_few_edges_are_nearly_as_accurate_as_can_be(machines: list[SparseMachine]) -> None:
    for machine in machines:
        assert machine.n_edges <= 20
        assert machine.accuracy > 100 * xor_bayes_accuracy() - 1.5
        assert machine.success


def test_the_network_has_the_edges_that_are_listed_and_no_others(machines: list[SparseMachine]) -> None:
    for machine in machines:
        bias = machine.network.layout.bias
        matrices = machine.network.adjacency()
        matrices[:, bias, bias] = 0
        assert int((matrices != 0).sum()) == machine.n_edges
        assert all(matrices[e.layer - 1, e.target, e.source] == pytest.approx(e.weight) for e in machine.edges)


def test_a_layered_machine_is_the_mlp_that_it_is_said_to_be(machines: list[SparseMachine]) -> None:
    layered = [machine for machine in machines if not machine.mlp.startswith("not layered")]
    assert layered
    x = torch.randn(50, 2)
    for machine in layered:
        torch.testing.assert_close(machine.network.to_mlp()(x), machine.network(x))


def test_a_seed_gives_the_same_machine_whoever_is_trained_with_it(machines: list[SparseMachine]) -> None:
    [alone] = learn_sparse_machines([2], l1_path=(0.5, 0.63, 0.8), device="cpu")
    assert alone.l1 == machines[2].l1 and alone.n_edges == machines[2].n_edges
    assert alone.accuracy == pytest.approx(machines[2].accuracy, abs=0.05)


@pytest.mark.slow
def test_at_least_15_of_20_seeds_succeed() -> None:
    assert sum(machine.success for machine in learn_sparse_machines(device="cpu")) >= 15
