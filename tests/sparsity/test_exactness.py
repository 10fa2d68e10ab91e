"""Networks, machines, simplified machines and compiled machines compute the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tabgnm.nn import GNM, MLP, activation_names
from tabgnm.nn.activations import get_activation
from tabgnm.sparsity import CompiledMachine, Machine, NoMachine, Unit, simplified, unrolled
from tabgnm.sparsity.functions import FUNCTIONS
from tests.sparsity.examples import DTYPES, assert_same, dtypes, machines, random_rows, sparse_networks

pytestmark = pytest.mark.portable


@given(st.data(), dtypes)
def test_a_machine_computes_what_its_network_does(data: st.DataObject, dtype: str) -> None:
    network = data.draw(sparse_networks(dtype))
    x = random_rows(network.shape.n_inputs)
    machine = unrolled(network)
    assert machine.dtype == dtype
    with torch.no_grad():
        expected = network(torch.as_tensor(x, dtype=DTYPES[dtype])).numpy()
    assert_same(machine.run(x), expected, machine, x, dtype)


@given(st.data(), dtypes)
def test_a_simplified_machine_computes_the_same_with_no_more_edges_units_or_inputs(
    data: st.DataObject, dtype: str
) -> None:
    machine = unrolled(data.draw(sparse_networks(dtype)))
    small, x = simplified(machine), random_rows(machine.n_inputs)
    assert_same(small.run(x), machine.run(x), machine, x, dtype)
    assert small.n_edges <= machine.n_edges
    assert len(small.units) <= len(machine.units)
    assert set(small.used_inputs) <= set(machine.used_inputs)


@given(machines())
def test_machines_made_by_hand_are_simplified_exactly_and_never_grow(machine: Machine) -> None:
    small, x = simplified(machine), random_rows(machine.n_inputs)
    assert_same(small.run(x), machine.run(x), machine, x, "float64")
    assert small.n_edges <= machine.n_edges and len(small.units) <= len(machine.units)


@given(st.one_of(machines(), sparse_networks().map(unrolled)))
def test_a_simplified_machine_cannot_be_simplified_further(machine: Machine) -> None:
    small = simplified(machine)
    assert simplified(small) == small


@given(st.one_of(machines(), sparse_networks().map(unrolled)))
def test_a_simplified_machine_has_no_dead_units_hidden_constants_or_duplicates(machine: Machine) -> None:
    small = simplified(machine)
    read = {source for unit in small.units for source in unit.sources}
    for value, unit in enumerate(small.units, start=small.n_inputs):
        assert value in read or value in small.outputs
        assert unit.sources or value in small.outputs
        assert unit.sources or value not in read
    computed = [(unit.sources, unit.weights, unit.bias, unit.function) for unit in small.units]
    assert len(set(computed)) == len(computed)


@given(st.one_of(machines(), sparse_networks().map(unrolled)), dtypes, st.booleans())
def test_a_compiled_machine_computes_the_same_with_dense_and_with_sparse_products(
    machine: Machine, dtype: str, use_sparse: bool
) -> None:
    machine = replace(machine, dtype=dtype)
    compiled, x = CompiledMachine(machine), random_rows(machine.n_inputs)
    assert_same(compiled.run(x), machine.run(x), machine, x, dtype)
    compiled._use_sparse = [use_sparse] * compiled.n_levels
    assert_same(compiled.run(x), machine.run(x), machine, x, dtype)


def test_a_compiled_machine_runs_on_no_rows_and_refuses_rows_of_another_width() -> None:
    compiled = CompiledMachine(Machine(("a",), (Unit("y", 1, (0,), (2.0,), 0.0, "identity"),), (1,), ("y",)))
    assert compiled.run(np.empty((0, 1))).shape == (0, 1)
    with pytest.raises(ValueError, match=r"x has shape \(2, 3\); expected \(rows, 1\)"):
        compiled.run(np.zeros((2, 3)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", activation_names())
def test_every_function_is_that_of_torch(name: str, dtype: str) -> None:
    z = np.concatenate([np.linspace(-40, 40, 801), [-1e3, 1e3, 19.999, 20.001]]).astype(dtype)
    expected = get_activation(name).forward(torch.as_tensor(z)).numpy()
    actual = FUNCTIONS[name].numpy(z)
    rounding = 1e-6 if dtype == "float32" else 1e-14
    assert actual.dtype == z.dtype
    np.testing.assert_allclose(actual, expected, rtol=rounding, atol=rounding)
    if dtype == "float64":
        np.testing.assert_allclose([FUNCTIONS[name].scalar(float(own)) for own in z], actual, rtol=1e-14, atol=1e-14)


def test_a_gated_network_is_no_machine() -> None:
    with pytest.raises(NoMachine, match="use combine='none' or 'residual'"):
        unrolled(GNM(2, 1, 6, 2, combine="gated"))


def test_names_must_fit_the_network() -> None:
    with pytest.raises(ValueError, match="3 input names and 1 output names; expected 2 and 1"):
        unrolled(MLP(2, 1, [3]), ["a", "b", "c"], ["y"])


def dense_gnm(**variant: object) -> GNM:
    torch.manual_seed(0)
    return GNM(2, 1, n_nodes=5, n_layers=3, init="kaiming", activation="tanh", **variant)  # type: ignore[arg-type]


def test_units_have_the_names_of_the_users_columns_and_of_the_nodes_of_the_graph() -> None:
    machine = unrolled(dense_gnm(), ["age", "n0"], ["price"])
    names = [unit.name for unit in machine.units]
    assert names == ["age_1", "n0_1", "n0_1_", "price_1", "age_2", "n0_2", "n0_2_", "price_2", "price"]
    assert {unit.node for unit in machine.units} == {"age", "n0", "price"}


def test_a_node_with_one_unit_gives_it_its_name_unless_a_column_is_called_so() -> None:
    machine = unrolled(MLP(2, 1, [2]), ["age", "n1"], ["price"])
    assert [unit.name for unit in machine.units] == ["n0", "n1_1", "price"]
    machine = unrolled(MLP(1, 1, []), ["y"], ["y"])
    assert [unit.name for unit in machine.units] == ["y_"]


@given(sparse_networks())
def test_no_two_values_have_the_same_name(network: GNM | MLP) -> None:
    columns = ["n0", "y0", "n0_1", "n1", "y0_"][: network.shape.n_inputs]
    for machine in (unrolled(network, columns), simplified(unrolled(network, columns))):
        names = [machine.name(value) for value in range(machine.n_values)]
        assert len(set(names)) == len(names)
