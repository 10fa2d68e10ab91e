"""The path from a dense network to smaller ones: its number of steps, and weights that are too small to matter."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tabgnm.nn import GNM, activation_names
from tabgnm.nn.losses import SquaredError
from tabgnm.nn.message_passing import forward
from tabgnm.sparsity.negligible import without_negligible
from tabgnm.sparsity.path import PathSettings, _epochs_and_batch_size, learn_path
from tabgnm.training import Table
from tabgnm.training.row_batches import DeviceTables, RowBatches, RowSet


@given(st.integers(1, 20_000), st.integers(1, 5000))
def test_the_number_of_steps_is_near_the_limit_for_any_number_of_rows(n_rows: int, n_steps: int) -> None:
    max_epochs, batch_size = _epochs_and_batch_size(n_rows, n_steps)
    tables = DeviceTables(
        [Table(torch.zeros(n_rows, 1), torch.zeros(n_rows, 1))], torch.device("cpu"), *[torch.float32] * 2
    )
    rows = RowSet(tables, [0], [torch.arange(n_rows)], [None], torch.float32)
    [per_epoch] = RowBatches(rows, batch_size, 16, torch.float32).n_steps
    if per_epoch <= n_steps:
        assert n_steps - per_epoch < max_epochs * per_epoch <= n_steps
    else:
        assert max_epochs == 1


def test_a_table_of_two_rows_is_trained_for_that_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    n_epochs = 0
    shuffle = RowBatches.shuffle

    def counted(self: RowBatches, keys: Tensor) -> None:
        nonlocal n_epochs
        n_epochs += 1
        shuffle(self, keys)

    monkeypatch.setattr(RowBatches, "shuffle", counted)
    table = Table(torch.tensor([[0.0], [1.0]]), torch.tensor([[-1.0], [1.0]]))
    settings = PathSettings(n_hidden=1, n_layers=1, n_steps=50, budgets=())
    learn_path(table, SquaredError(), 1, [torch.arange(2)], [0], settings)
    assert 0 < n_epochs <= 50


@given(st.integers(0, 2**31), st.integers(1, 3), st.integers(1, 2), st.sampled_from(activation_names()))
def test_outputs_do_not_depend_on_negligible_weights(seed: int, n_layers: int, n_outputs: int, activation: str) -> None:
    generator = torch.Generator().manual_seed(seed)
    shape = PathSettings(n_hidden=3, n_layers=n_layers, activation=activation).shape(2, n_outputs)
    network = GNM(**shape.settings(), dtype=torch.float64)
    with torch.no_grad():
        for value in network.parameters():
            sizes = 10.0 ** torch.randint(-12, 1, value.shape, generator=generator)
            value.copy_(torch.randn(value.shape, generator=generator) * sizes)
    x = torch.randn(50, 2, generator=generator, dtype=torch.float64)
    before = network(x)
    parameters = {name: value.detach() for name, value in network.named_parameters()}
    weight, bias = (parameters[name].clone() for name in shape.layer_names[-1])
    sources = torch.cat(list(forward(shape, parameters, x, keep=True).layers[-1].sources), dim=-1)
    size = max(1.0, *(float(own.abs().max()) for own in (weight * sources.abs().amax(dim=0).unsqueeze(1), bias)))
    kept = without_negligible(shape, parameters, x, torch.tensor(1.0))
    n_dropped = sum(int((kept[name] != value).sum()) for name, value in parameters.items())
    network.load_state_dict(kept)
    steepest = 1.2 ** (n_layers - 1)  # of activation functions
    assert float((network(x) - before).detach().abs().max()) <= steepest * 1e-6 * size * n_dropped + 1e-12


def test_weights_are_negligible_relative_to_the_size_of_the_target() -> None:
    shape = PathSettings(n_hidden=0, n_layers=1).shape(2, 1)
    [(weight, bias)] = shape.layer_names
    parameters = {weight: torch.tensor([[1e-9], [1e-3]]), bias: torch.tensor([1e-12])}
    x = torch.ones(5, 2)
    kept = without_negligible(shape, parameters, x, torch.tensor(1.0))
    assert kept[weight].flatten().tolist() == [0.0, pytest.approx(1e-3)] and not kept[bias].any()
    kept = without_negligible(shape, {name: own / 1e6 for name, own in parameters.items()}, x, torch.tensor(1e-9))
    assert kept[weight].count_nonzero() == 1 and not kept[bias].any()
