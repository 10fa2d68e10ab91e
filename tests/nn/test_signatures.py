"""A network takes the parameters of its shape, in the same order and with the same defaults."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from tabgnm.nn import GNM, MLP, EmbeddedNetwork, EmbeddedShape, GNMShape, MLPShape


@pytest.mark.parametrize(("network", "shape"), [(GNM, GNMShape), (MLP, MLPShape), (EmbeddedNetwork, EmbeddedShape)])
def test_a_network_takes_the_parameters_of_its_shape_first(network: Any, shape: Any) -> None:
    ours, theirs = (list(inspect.signature(cls).parameters.values()) for cls in (network, shape))
    seen = [[(own.name, own.default, own.kind) for own in some] for some in (ours[: len(theirs)], theirs)]
    assert seen[0] == seen[1]
    assert [own.name for own in ours[len(theirs) :]] == ["dropout", "l0_gates", "generator", "device", "dtype"]
    assert all(own.kind is own.KEYWORD_ONLY for own in ours[len(theirs) :])


@pytest.mark.parametrize("network", [GNM, MLP])
def test_the_same_positional_arguments_make_the_same_network(network: Any) -> None:
    arguments = (4, 3, 20, 3, "tanh", "kaiming") if network is GNM else (4, 3, (8, 8), "tanh", "kaiming")
    net = network(*arguments)
    assert net.shape == type(net.shape)(*arguments)
    assert net.shape.settings()["activation"] == "tanh" and net.dropout == 0
