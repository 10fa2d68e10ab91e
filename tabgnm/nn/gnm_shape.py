"""The shape of a Graph Neural Machine."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any, ClassVar, Literal, NamedTuple

from torch import Tensor

from tabgnm._printable import shown
from tabgnm.nn.activations import get_activation
from tabgnm.nn.checks import check_choice, positive_integer
from tabgnm.nn.initializers import Initializer
from tabgnm.nn.layer_weights import LayerWeights
from tabgnm.nn.layout import NodeLayout

Combine = Literal["none", "residual", "gated"]
COMBINES = ("none", "residual", "gated")
GNM_INITS = ("paper", "kaiming")


class LayerSlices(NamedTuple):
    """The slices of the parameters that one layer uses.

    Attributes
    ----------
    weight, bias : str
        The names of the parameters.
    first_column : int
        The first column that the layer uses; it uses all columns from there on.
    row_ranges : tuple of (int, int) or None
        The rows of each source block. If None, there is a single block with all rows.
    """

    weight: str
    bias: str
    first_column: int
    row_ranges: tuple[tuple[int, int], ...] | None


@dataclass(frozen=True)
class GNMShape:
    """The shape of a Graph Neural Machine.

    The arguments have the same meaning as in `tabgnm.nn.GNM`.

    Notes
    -----
    The n - 1 updated nodes are ordered inputs, hidden nodes, outputs. The sources of a layer are split into blocks
    after clamped inputs and before persistent outputs, so that these states need not be concatenated.
    """

    n_inputs: int
    n_outputs: int
    n_nodes: int = 50
    n_layers: int = 2
    activation: str = "relu"
    init: str = "paper"
    _: KW_ONLY
    combine: Combine = "none"
    clamp_inputs: bool = False
    persistent_outputs: bool = False
    tied: bool = False
    learn_initial: bool = False
    _slices: tuple[LayerSlices, ...] = field(init=False, repr=False, compare=False)
    has_no_variant: bool = field(init=False, repr=False, compare=False)
    layer_names: tuple[tuple[str, str], ...] = field(init=False, repr=False, compare=False)

    embedding: ClassVar[None] = None

    def __post_init__(self) -> None:
        layout = self.layout
        for name in ("n_inputs", "n_outputs", "n_nodes"):
            object.__setattr__(self, name, getattr(layout, name))
        object.__setattr__(self, "n_layers", positive_integer("n_layers", self.n_layers))
        get_activation(self.activation)
        check_choice("init", self.init, GNM_INITS)
        check_choice("combine", self.combine, COMBINES)
        for name in ("clamp_inputs", "persistent_outputs", "tied", "learn_initial"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name}={shown(getattr(self, name))} is not a bool; use True or False")
        # Computed once, because this takes as long as a forward pass of a small network.
        object.__setattr__(self, "_slices", tuple(self._layer_slices(k) for k in range(1, self.n_layers + 1)))
        object.__setattr__(self, "layer_names", tuple((layer.weight, layer.bias) for layer in self._slices))
        variants = self.combine != "none" or self.clamp_inputs or self.persistent_outputs or self.tied
        object.__setattr__(self, "has_no_variant", not (variants or self.learn_initial))

    def settings(self) -> dict[str, Any]:
        """Return the constructor arguments by name."""
        return {own.name: getattr(self, own.name) for own in fields(self) if own.init}

    @property
    def layout(self) -> NodeLayout:
        """The node layout."""
        return NodeLayout(self.n_inputs, self.n_outputs, self.n_nodes)

    # Positions below count the updated nodes only, in the order inputs, hidden nodes, outputs.

    @property
    def n_updated(self) -> int:
        """The number of updated nodes: n - 1, all except the bias."""
        return self.n_nodes - 1

    @property
    def first_free(self) -> int:
        """Position of the first free node; activation and combine apply to free nodes. Clamped inputs are not free."""
        return self.n_inputs if self.clamp_inputs else 0

    @property
    def end_free(self) -> int:
        """Position after the last free node. Persistent outputs are not free."""
        return self.n_updated - (self.n_outputs if self.persistent_outputs else 0)

    @property
    def n_free(self) -> int:
        """The number of nodes that activation, dropout and combine apply to in each layer except the last."""
        return self.end_free - self.first_free

    @property
    def dropout_widths(self) -> tuple[int, ...]:
        """The number of nodes that dropout acts on, for each layer except the last."""
        return (self.n_free,) * (self.n_layers - 1)

    @property
    def activations_per_row(self) -> int:
        """The number of values that a forward pass keeps per row, slightly overestimated."""
        return sum(max(size) for size in self.parameter_shapes().values())

    def first_target(self, layer: int) -> int:
        """Return the position of the first node that layer `layer` computes; it computes all nodes from there on."""
        return self.n_updated - self.n_outputs if layer == self.n_layers else self.first_free

    def source_ranges(self, layer: int) -> list[tuple[int, int]]:
        """Return the positions (start, end) of the source blocks of a layer, without the bias."""
        if layer == 1:
            return [(0, self.n_inputs)]
        cuts = [0, self.first_free, self.end_free, self.n_updated]
        return [(a, b) for a, b in itertools.pairwise(cuts) if a < b]

    def _weight_shape(self, layer: int) -> tuple[int, ...]:
        """Return the shape of the weights of a layer without the bias: (sources, targets)."""
        n_sources = self.n_inputs if layer == 1 else self.n_updated
        return n_sources, self.n_updated - self.first_target(layer)

    def _n_gated(self, layer: int) -> int:
        """Return the number of nodes that the gates of a layer act on."""
        if layer == self.n_layers:
            return 0 if self.persistent_outputs else self.n_outputs
        return self.n_free

    @property
    def _tied_sources(self) -> int:
        """The number of rows of the shared matrix; without learned initial values, a single layer uses only inputs."""
        return self.n_inputs if self.n_layers == 1 and not self.learn_initial else self.n_updated

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each parameter by name, in the order of the layers."""
        shapes: dict[str, tuple[int, ...]] = {}
        if self.tied:
            targets = self.n_updated - self.first_target(1)
            shapes["weight"], shapes["bias"] = (self._tied_sources, targets), (targets,)
        for layer in range(1, self.n_layers + 1):
            sources, targets = self._weight_shape(layer)
            if not self.tied:
                shapes[f"weight_{layer}"], shapes[f"bias_{layer}"] = (sources, targets), (targets,)
                if layer == 1 and self.learn_initial:
                    shapes["weight_initial"] = (self.n_updated - self.n_inputs, targets)
            if self.combine == "gated" and self._n_gated(layer):
                for part in ("gate_state", "gate_message", "gate_bias"):
                    shapes[f"{part}_{layer}"] = (self._n_gated(layer),)
        if self.learn_initial:
            shapes["initial"] = (self.n_updated - self.n_inputs,)
        return shapes

    def initializers(self) -> dict[str, Initializer]:
        """Return the initializer of each parameter.

        "paper": edge weights have standard deviation sqrt(2) / n, because the authors call `kaiming_normal_` on a
        K x n x n tensor, whose fan-in is n^2. "kaiming": the standard deviation is sqrt(2 / fan_in), where fan_in is
        the number of sources of the layer that can be nonzero, including the bias.
        """
        initializers = {}
        for name in self.parameter_shapes():
            if name == "initial" or name.startswith(("gate_state", "gate_message")):
                initializers[name] = Initializer("constant", 0.0)
            elif name.startswith("gate_bias"):
                initializers[name] = Initializer("constant", 1.0)  # mostly open, close to the update without gates
            elif self.init == "paper":
                initializers[name] = Initializer("normal", 2**0.5 / self.n_nodes)
            else:
                first = name in ("weight_1", "bias_1", "weight_initial") or self.n_layers == 1
                fan_in = self.n_inputs + 1 if first else self.n_nodes
                initializers[name] = Initializer("normal", (2 / fan_in) ** 0.5)
        return initializers

    def zero_unused_(self, parameters: Mapping[str, Tensor]) -> None:
        """Set stored weights that no layer uses to 0, so that penalties ignore them. Their gradients are always 0.

        Only a tied GNM with two layers and without learned initial values has such weights: layer 1 uses the edges from
        inputs, layer 2 those to outputs.
        """
        if self.tied and self.n_layers == 2 and not self.learn_initial:
            parameters["weight"][..., self.n_inputs :, : -self.n_outputs] = 0

    def edge_parameters(self) -> list[str]:
        """Return the names of the parameters that are edge weights, including biases. Regularizers act on them."""
        return [name for name in self.parameter_shapes() if name.startswith(("weight", "bias"))]

    def n_parameters(self) -> int:
        """Return the number of parameters as in the paper: K n (n - 1), or n (n - 1) if tied, and those of variants."""
        edges = (1 if self.tied else self.n_layers) * self.n_nodes * (self.n_nodes - 1)
        return edges + self._n_variant_parameters()

    def n_effective_parameters(self) -> int:
        """Return the number of parameters that can affect the output."""
        if self.tied:
            # The layers use overlapping blocks of one matrix: count the largest number of sources of each target.
            sources_of: dict[int, int] = {}
            for layer in range(1, self.n_layers + 1):
                n_sources = self.n_updated if layer == 1 and self.learn_initial else self._weight_shape(layer)[0]
                for target in range(self.first_target(layer), self.n_updated):
                    sources_of[target] = max(sources_of.get(target, 0), n_sources)
            live = sum(n_sources + 1 for n_sources in sources_of.values())
        else:
            shapes = self.parameter_shapes()
            live = sum(math.prod(shapes[name]) for name in self.edge_parameters())
        n_unused_gates = 0
        if self.combine == "gated" and not self.learn_initial and self._n_gated(1):
            # Before layer 1, all nodes except inputs are 0, so their gate_state parameters have no effect.
            n_nonzero = self.n_inputs if self.n_layers > 1 and not self.clamp_inputs else 0
            n_unused_gates = self._n_gated(1) - n_nonzero
        return live + self._n_variant_parameters() - n_unused_gates

    def _n_variant_parameters(self) -> int:
        shapes = self.parameter_shapes()
        return sum(shape[0] for name, shape in shapes.items() if name.startswith("gate") or name == "initial")

    def layer_weights(self, parameters: Mapping[str, Tensor], layer: int) -> LayerWeights:
        """Return the parameters that layer `layer` (counted from 1) uses, with weights split into source blocks."""
        slices = self._slices[layer - 1]
        weight, bias = parameters[slices.weight], parameters[slices.bias]
        if slices.first_column:
            weight, bias = weight[..., slices.first_column :], bias[..., slices.first_column :]
        if slices.row_ranges is None:
            return LayerWeights([weight], bias)
        return LayerWeights([weight[..., start:end, :] for start, end in slices.row_ranges], bias)

    def _layer_slices(self, layer: int) -> LayerSlices:
        ranges = tuple(self.source_ranges(layer))
        if not self.tied:
            return LayerSlices(f"weight_{layer}", f"bias_{layer}", 0, None if len(ranges) == 1 else ranges)
        first_column = self.first_target(layer) - self.first_target(1)
        return LayerSlices("weight", "bias", first_column, None if ranges == ((0, self._tied_sources),) else ranges)

    def initial_weights(self, parameters: Mapping[str, Tensor]) -> Tensor:
        """Return the weights of layer 1 from hidden and output nodes; requires `learn_initial=True`."""
        return parameters["weight"][..., self.n_inputs :, :] if self.tied else parameters["weight_initial"]
