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
    """A multi-layer perceptron: `hidden` widths between `n_inputs` and `n_outputs`.

    The parameters are those of `tabgnm.nn.MLP`, which adds what a module has besides its shape.
    """

    n_inputs: int
    n_outputs: int
    hidden: tuple[int, ...] = (64,)
    activation: str = "relu"
    init: str = "torch"

    # An MLP is message passing with every variant off.
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
        """What the shape was made with, by name."""
        return {own.name: getattr(self, own.name) for own in fields(self) if own.init}

    @property
    def n_layers(self) -> int:
        """Affine maps, one more than there are hidden layers."""
        return len(self.hidden) + 1

    @property
    def layer_names(self) -> tuple[tuple[str, str], ...]:
        """Names of the weights and the bias of each layer."""
        return tuple((f"weight_{layer}", f"bias_{layer}") for layer in range(1, self.n_layers + 1))

    @property
    def widths(self) -> tuple[int, ...]:
        """Widths from the inputs to the outputs."""
        return (self.n_inputs, *self.hidden, self.n_outputs)

    @property
    def layout(self) -> NodeLayout:
        """Which node is what in the graph of Theorem 5.1: one node per neuron, and a single bias."""
        return NodeLayout(self.n_inputs, self.n_outputs, sum(self.widths) + 1)

    @property
    def dropout_widths(self) -> tuple[int, ...]:
        """How many nodes dropout acts on in each layer but the last."""
        return self.hidden

    @property
    def activations_per_row(self) -> int:
        """Numbers that a pass holds per row; an estimate, a little too large."""
        return sum(max(size) for size in self.parameter_shapes().values())

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every parameter, in the order of the layers."""
        shapes: dict[str, tuple[int, ...]] = {}
        for layer in range(1, self.n_layers + 1):
            shapes[f"weight_{layer}"] = (self.widths[layer - 1], self.widths[layer])
            shapes[f"bias_{layer}"] = (self.widths[layer],)
        return shapes

    def initializers(self) -> dict[str, Initializer]:
        """How each parameter is drawn: as `torch.nn.Linear` does, or He et al.'s normal with zero biases."""
        draws = {}
        for name in self.parameter_shapes():
            fan_in = self.widths[int(name.rsplit("_", 1)[1]) - 1]
            if self.init == "torch":
                draws[name] = Initializer("uniform", fan_in**-0.5)
            elif name.startswith("bias"):
                draws[name] = Initializer("constant", 0.0)
            else:
                draws[name] = Initializer("normal", (2 / fan_in) ** 0.5)
        return draws

    def zero_unused_(self, parameters: Mapping[str, Tensor]) -> None:
        """Set what is stored but cannot matter to 0; an MLP has nothing of the kind."""

    def edge_parameters(self) -> list[str]:
        """Names of the parameters that are weights of edges; the regularizers act on them. Here: all."""
        return list(self.parameter_shapes())

    def n_parameters(self) -> int:
        """Count weights and biases."""
        return sum((a + 1) * b for a, b in itertools.pairwise(self.widths))

    n_effective_parameters = n_parameters

    def layer_weights(self, parameters: Mapping[str, Tensor], layer: int) -> LayerWeights:
        """Return what layer `layer` (from 1 on) reads of `parameters`."""
        return LayerWeights([parameters[f"weight_{layer}"]], parameters[f"bias_{layer}"])
