"""What kind of network a machine is, in words and as an MLP."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tabgnm.nn import GNM, MLP, activation_names
from tabgnm.sparsity import Machine, NotAnMLP, Unit, described, recognized, simplified, to_mlp, unrolled
from tests.sparsity.examples import assert_same, machines, random_rows, sparse_networks

RELU = Unit("h0", 1, (0, 1), (1.0, -1.0), 0.5, "relu")


def machine(*units: Unit, outputs: tuple[int, ...] | None = None, inputs: tuple[str, ...] = ("age", "pay")) -> Machine:
    outputs = (len(inputs) + len(units) - 1,) if outputs is None else outputs
    names = ("y",) if len(outputs) == 1 else tuple(f"y{place}" for place in range(len(outputs)))
    return Machine(inputs, units, outputs, names)


def test_a_constant_is_described() -> None:
    assert described(machine(Unit("y", 1, (), (), 2.0, "identity"))) == (
        "A constant: no output depends on an input.\nIt has 0 edges and 1 bias.\nIt does not use: age, pay."
    )


def test_a_linear_function_is_described() -> None:
    assert described(machine(Unit("y", 1, (1,), (3.0,), 2.0, "identity"))) == (
        "A linear function with 1 input and 1 output.\n"
        "It has 1 edge and 1 bias.\nIt uses 1 of 2 inputs: pay.\nIt does not use: age."
    )


def test_an_mlp_is_described() -> None:
    assert described(machine(RELU, Unit("y", 2, (2,), (2.0,), 0.0, "identity"))) == (
        "An MLP with 2 inputs, 1 hidden unit (relu) and 1 output.\n"
        "It has 3 edges and 1 bias.\nIt uses 2 of 2 inputs: age, pay."
    )


def test_an_mlp_of_several_hidden_layers_is_described_with_their_widths() -> None:
    network = MLP(3, 2, [4, 2, 3], "tanh")
    assert described(unrolled(network)).startswith(
        "An MLP with 3 inputs, hidden layers of 4, 2 and 3 units (tanh), and 2 outputs.\n"
        "It has 32 edges and 11 biases.\n"
    )


def test_an_mlp_with_skip_edges_is_described() -> None:
    text = described(machine(RELU, Unit("y", 2, (1, 2), (1.0, 2.0), 0.0, "identity")))
    assert text.startswith("An MLP with 2 inputs, 1 hidden unit (relu) and 1 output, and with skip edges.\n")
    assert "1 edge skips a layer: pay -> y." in text


def test_units_of_nodes_that_are_updated_twice_are_listed_and_explained() -> None:
    network = GNM(2, 1, n_nodes=5, n_layers=3, init="kaiming", activation="tanh")
    text = described(unrolled(network, ["unit_price", "age"], ["sales"]))
    text = " ".join(text.split())
    assert "A node of the graph has a unit in each layer that updates it. Units of the same node: " in text
    assert "unit_price_1 and unit_price_2, age_1 and age_2, n0_1 and n0_2, sales_1 and sales_2 and sales." in text
    clamped = GNM(2, 1, n_nodes=4, n_layers=1, clamp_inputs=True)
    assert "Units of the same node" not in described(unrolled(clamped, ["unit_price", "unit_cost"], ["sales"]))


def test_a_constant_output_among_others_is_described_and_is_part_of_an_mlp() -> None:
    own = machine(
        RELU,
        Unit("y0", 2, (2,), (2.0,), 0.0, "identity"),
        Unit("y1", 2, (), (), 3.0, "identity"),
        outputs=(3, 4),
    )
    assert "Outputs that are constant: y1." in described(own)
    assert recognized(own).is_mlp and recognized(own).widths == (2, 1, 2)
    x = random_rows(2)
    np.testing.assert_allclose(to_mlp(own)(torch.as_tensor(x)).detach(), own.run(x), rtol=1e-12)


def test_long_lists_are_cut_and_long_lines_are_wrapped() -> None:
    names = tuple(f"measurement number {place}" for place in range(100))
    text = described(machine(Unit("y", 1, tuple(range(50)), (1.0,) * 50, 0.0, "identity"), inputs=names))
    assert "measurement number 11 and 38 more" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 100


def test_that_something_is_not_an_mlp_is_said_with_the_edges() -> None:
    with pytest.raises(NotAnMLP, match=r"not connect one layer to the next: age -> y, pay -> y$") as caught:
        to_mlp(machine(RELU, Unit("y", 2, (0, 1, 2), (1.0, 1.0, 2.0), 0.0, "identity")))
    assert caught.value.edges == [("age", "y"), ("pay", "y")]


def test_an_output_that_other_units_read_is_not_in_the_last_layer_of_an_mlp() -> None:
    first = Unit("y0", 1, (0,), (1.0,), 0.0, "identity")
    second = Unit("y1", 2, (2,), (2.0,), 1.0, "identity")
    with pytest.raises(NotAnMLP, match="other units read its output y0: y0 -> y1"):
        to_mlp(machine(first, second, outputs=(2, 3)))


def test_other_machines_that_are_not_an_mlp_say_why() -> None:
    with pytest.raises(NotAnMLP, match="its output y is the input pay"):
        to_mlp(machine(outputs=(1,)))
    with pytest.raises(NotAnMLP, match="none of its outputs depends on an input"):
        to_mlp(machine(Unit("y", 1, (), (), 2.0, "identity")))
    other = Unit("h1", 1, (0,), (1.0,), 0.0, "tanh")
    with pytest.raises(NotAnMLP, match=r"different activation functions \(relu, tanh\)"):
        to_mlp(machine(RELU, other, Unit("y", 2, (2, 3), (1.0, 2.0), 0.0, "identity")))
    with pytest.raises(NotAnMLP, match=r"its outputs have an activation function \(relu\)"):
        to_mlp(machine(RELU))


@pytest.mark.portable
@given(st.one_of(machines(), sparse_networks().map(unrolled)))
def test_whatever_is_recognized_as_an_mlp_is_converted_exactly_and_nothing_else(own: Machine) -> None:
    small, x = simplified(own), random_rows(own.n_inputs)
    assert described(small)
    if not recognized(small).is_mlp:
        with pytest.raises(NotAnMLP):
            to_mlp(small)
        return
    with torch.no_grad():
        assert_same(to_mlp(small)(torch.as_tensor(x)), small.run(x), small, x, "float64")


@pytest.mark.portable
@given(st.lists(st.integers(1, 6), max_size=3), st.sampled_from(activation_names()), st.integers(0, 2**31))
def test_a_dense_mlp_is_recognized_and_converted_back(hidden: list[int], activation: str, seed: int) -> None:
    torch.manual_seed(seed)
    network = MLP(3, 2, hidden, activation, dtype=torch.float64)
    own = unrolled(network)
    assert recognized(own).widths == (3, *hidden, 2)
    x = random_rows(3)
    with torch.no_grad():
        back, expected = to_mlp(own)(torch.as_tensor(x)), network(torch.as_tensor(x))
    assert_same(back, expected, own, x, "float64")


def test_a_sum_that_many_units_read_is_kept_where_inlining_it_would_add_edges() -> None:
    total = Unit("s", 1, (0,), (2.0,), 1.0, "identity")
    readers = [Unit(f"h{place}", 2, (2,), (own,), 0.0, "tanh") for place, own in enumerate((1.0, 2.0, 3.0))]
    own = machine(total, *readers, Unit("y", 3, (3, 4, 5), (1.0, 1.0, 1.0), 0.0, "identity"))
    assert simplified(own).n_edges <= own.n_edges


@pytest.mark.parametrize(("weight", "bias", "remains"), [(-2.0, -0.5, False), (-2.0, 0.0, False), (-2.0, 0.5, True)])
def test_a_relu_whose_argument_is_never_positive_is_zero(weight: float, bias: float, remains: bool) -> None:
    second = Unit("h1", 2, (2,), (weight,), bias, "relu")
    own = machine(RELU, second, Unit("y", 3, (0, 3), (1.0, 3.0), 0.5, "identity"))
    small, x = simplified(own), random_rows(2)
    assert ("h1" in [unit.name for unit in small.units]) == remains
    assert (small.run(x) == own.run(x)).all()
    assert remains or small.n_edges == 2


def test_an_output_that_is_never_positive_is_the_constant_zero() -> None:
    own = machine(RELU, Unit("y", 2, (2,), (-1.0,), 0.0, "relu"))
    assert simplified(own).n_edges == 0
    assert (simplified(own).run(random_rows(2)) == 0).all()


@pytest.mark.parametrize(("weight", "bias", "remains"), [(2.0, 0.5, False), (-2.0, 0.5, True), (2.0, -0.5, True)])
def test_a_relu_whose_argument_is_never_negative_is_left_out(weight: float, bias: float, remains: bool) -> None:
    second = Unit("h1", 2, (2,), (weight,), bias, "relu")
    own = machine(RELU, second, Unit("y", 3, (3,), (3.0,), 0.0, "identity"))
    small, x = simplified(own), random_rows(2)
    assert ("h1" in [unit.name for unit in small.units]) == remains
    np.testing.assert_allclose(small.run(x), own.run(x), rtol=1e-12)
