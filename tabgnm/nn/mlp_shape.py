"""The shape of a multi-layer perceptron."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from torch import Tensor

from tabgnm._printable import shown
from tabgnm.nn.activations import get_activation
from tabgnm.nn.checks import check_choice, positive_integer
from tabgnm.nn.initializers import Initializer
from tabgnm.nn.layer_weights import LayerWeights
from tabgnm.nn.layout import NodeLayout

MLP_INITS = ("torch", "kaiming")


@dataclass(frozen=True)
class MLPShape:
    """The shape of a multi-layer perceptron.

    The arguments have the same meaning as in `tabgnm.nn.MLP`.
    """

    n_inputs: int
    n_outputs: int
    hidden: tuple[int, ...] = (64,)
    activation: str = "relu"
    init: str = "torch"

    # An MLP uses message passing without any variant.
    combine = "none"
    clamp_inputs = False
    persistent_outputs = False
    tied = False
    learn_initial = False
    has_no_variant = True
    embedding: ClassVar[None] = None

    def __post_init__(self) -> None:
        for name in ("n_inputs", "n_outputs"):
            object.__setattr__(self, name, positive_integer(name, getattr(self, name)))
        if isinstance(self.hidden, (int, str)) or not isinstance(self.hidden, Sequence):
            raise TypeError(f"hidden={shown(self.hidden)} is not a sequence of widths; use e.g. hidden=(64, 64)")
        widths = tuple(positive_integer(f"hidden[{i}]", width) for i, width in enumerate(self.hidden))
        object.__setattr__(self, "hidden", widths)
        get_activation(self.activation)
        check_choice("init", self.init, MLP_INITS)

    def settings(self) -> dict[str, Any]:
        """Return the constructor arguments by name."""
        return {own.name: getattr(self, own.name) for own in fields(self) if own.init}

    @property
    def n_layers(self) -> int:
        """The number of affine maps: the number of hidden layers plus 1."""
        return len(self.hidden) + 1

    @property
    def layer_names(self) -> tuple[tuple[str, str], ...]:
        """The names of the weight and bias parameters of each layer."""
        return tuple((f"weight_{layer}", f"bias_{layer}") for layer in range(1, self.n_layers + 1))

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths of all layers, including inputs and outputs."""
        return (self.n_inputs, *self.hidden, self.n_outputs)

    @property
    def layout(self) -> NodeLayout:
        """The node layout of the GNM of Theorem 5.1: one node per neuron and a single bias node."""
        return NodeLayout(self.n_inputs, self.n_outputs, sum(self.widths) + 1)

    @property
    def dropout_widths(self) -> tuple[int, ...]:
        """The number of nodes that dropout acts on, for each layer except the last."""
        return self.hidden

    @property
    def activations_per_row(self) -> int:
        """The number of values that a forward pass keeps per row, slightly overestimated."""
        return sum(max(size) for size in self.parameter_shapes().values())

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each parameter by name, in the order of the layers."""
        shapes: dict[str, tuple[int, ...]] = {}
        for layer in range(1, self.n_layers + 1):
            shapes[f"weight_{layer}"] = (self.widths[layer - 1], self.widths[layer])
            shapes[f"bias_{layer}"] = (self.widths[layer],)
        return shapes

    def initializers(self) -> dict[str, Initializer]:
        """Return the initializer of each parameter.

        "torch": as in `torch.nn.Linear`. "kaiming": the normal distribution of He et al., with zero biases.
        """
        initializers = {}
        for name in self.parameter_shapes():
            fan_in = self.widths[int(name.rsplit("_", 1)[1]) - 1]
            if self.init == "torch":
                initializers[name] = Initializer("uniform", fan_in**-0.5)
            elif name.startswith("bias"):
                initializers[name] = Initializer("constant", 0.0)
            else:
                initializers[name] = Initializer("normal", (2 / fan_in) ** 0.5)
        return initializers

    def zero_unused_(self, parameters: Mapping[str, Tensor]) -> None:
        """Do nothing: the outputs of an MLP depend on all of its parameters."""

    def edge_parameters(self) -> list[str]:
        """Return the names of the parameters that regularizers act on: all of them, including biases."""
        return list(self.parameter_shapes())

    def n_parameters(self) -> int:
        """Return the number of weights and biases."""
        return sum((a + 1) * b for a, b in itertools.pairwise(self.widths))

    n_effective_parameters = n_parameters

    def layer_weights(self, parameters: Mapping[str, Tensor], layer: int) -> LayerWeights:
        """Return the parameters that layer `layer` (counted from 1) uses."""
        return LayerWeights([parameters[f"weight_{layer}"]], parameters[f"bias_{layer}"])
