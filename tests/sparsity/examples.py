"""Random sparse networks and machines, and how large rounding errors of a machine may be."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from numpy.typing import NDArray

from tabgnm.nn import GNM, MLP, activation_names
from tabgnm.sparsity import Machine, Unit

TOLERANCE = {"float32": 1e-6, "float64": 1e-12}
DTYPES = {"float32": torch.float32, "float64": torch.float64}
dtypes = st.sampled_from(["float32", "float64"])
N_ROWS = 7


@st.composite
def sparse_networks(draw: st.DrawFn, dtype: str = "float64") -> GNM | MLP:
    """A GNM of any variant that machines can express, or an MLP, of whose weights most are 0."""
    torch.manual_seed(draw(st.integers(0, 2**31)))
    activation, n_inputs, n_outputs = (
        draw(st.sampled_from(activation_names())),
        draw(st.integers(1, 5)),
        draw(st.integers(1, 3)),
    )
    network: GNM | MLP
    if draw(st.integers(0, 4)) == 0:
        hidden = draw(st.lists(st.integers(1, 6), max_size=3))
        network = MLP(n_inputs, n_outputs, hidden, activation, dtype=DTYPES[dtype])
    else:
        network = GNM(
            n_inputs,
            n_outputs,
            n_inputs + n_outputs + 1 + draw(st.integers(0, 6)),
            draw(st.integers(1, 4)),
            activation,
            "kaiming",
            combine=draw(st.sampled_from(["none", "residual"])),
            clamp_inputs=draw(st.booleans()),
            persistent_outputs=draw(st.booleans()),
            tied=draw(st.booleans()),
            learn_initial=draw(st.booleans()),
            dtype=DTYPES[dtype],
        )
    density = draw(st.sampled_from([0.0, 0.1, 0.3, 0.6, 1.0]))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn_like(parameter) * (torch.rand_like(parameter) < density))
            if draw(st.booleans()):  # equal weights, so that units may compute the same
                parameter.copy_(parameter.round())
    return network


@st.composite
def machines(draw: st.DrawFn, max_units: int = 8) -> Machine:
    """A machine made by hand, with units that nothing reads, constants and duplicates."""
    n_inputs, n_units = draw(st.integers(1, 4)), draw(st.integers(1, max_units))
    weights = st.sampled_from([-2.0, -1.0, -0.3, 0.5, 1.0, 1.7])
    units: list[Unit] = []
    for number in range(n_inputs, n_inputs + n_units):
        sources = sorted(draw(st.sets(st.integers(0, number - 1), max_size=3)))
        function = draw(st.sampled_from(["identity", "identity", "relu", "tanh", "softplus"]))
        bias = draw(st.sampled_from([0.0, 0.0, 1.0, -0.7]))
        own = tuple(draw(weights) for _ in sources)
        units.append(Unit(f"u{number}", number - n_inputs + 1, tuple(sources), own, bias, function))
    outputs = draw(st.lists(st.integers(0, n_inputs + n_units - 1), min_size=1, max_size=3))
    names = tuple(f"y{place}" for place in range(len(outputs)))
    return Machine(tuple(f"x{place}" for place in range(n_inputs)), tuple(units), tuple(outputs), names)


def random_rows(n_inputs: int, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).standard_normal((N_ROWS, n_inputs))


def assert_same(actual: Any, expected: Any, machine: Machine, x: NDArray[Any], dtype: str) -> None:
    """Compare outputs up to rounding, relative to the sum of the absolute values that each output is made of."""
    size = np.abs(x).T
    sizes = [*size]
    for unit in machine.units:
        parts = [abs(weight) * sizes[source] for source, weight in zip(unit.sources, unit.weights, strict=True)]
        sizes.append(sum(parts, np.full(len(x), abs(unit.bias) + 1)))  # no function is larger than |z| + 1
    allowed = TOLERANCE[dtype] * np.stack([sizes[value] for value in machine.outputs], axis=1)
    assert (np.abs(np.asarray(actual, float) - np.asarray(expected, float)) <= allowed).all()
