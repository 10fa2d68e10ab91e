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
    """Where a layer's weights stand: its parameters, the columns before its own, and its source blocks if several."""

    weight: str
    bias: str
    skip: int
    blocks: tuple[tuple[int, int], ...] | None


@dataclass(frozen=True)
class GNMShape:
    """A Graph Neural Machine: `n_nodes` nodes, `n_layers` rounds of message passing, and the variant.

    The n - 1 updated nodes stand in the order inputs, hidden, outputs. A layer reads *source blocks*: what the nodes
    hold, cut where clamped inputs end and persistent outputs begin, so that no variant needs to copy states together.
    The parameters are those of `tabgnm.nn.GNM`, which adds what a module has besides its shape.
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
        # Worked out once: a forward pass of a small network takes no longer than asking for this every time.
        object.__setattr__(self, "_slices", tuple(self._layer_slices(k) for k in range(1, self.n_layers + 1)))
        object.__setattr__(self, "layer_names", tuple((plan.weight, plan.bias) for plan in self._slices))
        variants = self.combine != "none" or self.clamp_inputs or self.persistent_outputs or self.tied
        object.__setattr__(self, "has_no_variant", not (variants or self.learn_initial))
        for name in ("clamp_inputs", "persistent_outputs", "tied", "learn_initial"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name}={shown(getattr(self, name))} is not a bool; use True or False")

    def settings(self) -> dict[str, Any]:
        """What the shape was made with, by name."""
        return {own.name: getattr(self, own.name) for own in fields(self) if own.init}

    @property
    def layout(self) -> NodeLayout:
        """Which node is what."""
        return NodeLayout(self.n_inputs, self.n_outputs, self.n_nodes)

    # The updated nodes, as slices of the order inputs, hidden, outputs.

    @property
    def n_updated(self) -> int:
        """n - 1: all nodes but the bias."""
        return self.n_nodes - 1

    @property
    def first_free(self) -> int:
        """Where the nodes begin that activation and combine apply to (after clamped inputs)."""
        return self.n_inputs if self.clamp_inputs else 0

    @property
    def end_free(self) -> int:
        """Where they end (before persistent outputs)."""
        return self.n_updated - (self.n_outputs if self.persistent_outputs else 0)

    @property
    def n_free(self) -> int:
        """How many nodes activation, dropout and combine apply to in all layers but the last."""
        return self.end_free - self.first_free

    @property
    def dropout_widths(self) -> tuple[int, ...]:
        """How many nodes dropout acts on in each layer but the last."""
        return (self.n_free,) * (self.n_layers - 1)

    @property
    def activations_per_row(self) -> int:
        """Numbers that a pass holds per row; an estimate, a little too large."""
        return sum(max(size) for size in self.parameter_shapes().values())

    def first_target(self, layer: int) -> int:
        """Position of the first updated node that layer `layer` computes; it computes all from there on."""
        return self.n_updated - self.n_outputs if layer == self.n_layers else self.first_free

    def source_ranges(self, layer: int) -> list[tuple[int, int]]:
        """Source blocks of a layer, as positions among the updated nodes. The bias is kept apart."""
        if layer == 1:
            return [(0, self.n_inputs)]
        cuts = [0, self.first_free, self.end_free, self.n_updated]
        return [(a, b) for a, b in itertools.pairwise(cuts) if a < b]

    def _weight_shape(self, layer: int) -> tuple[int, ...]:
        """Shape of the weights of a layer without the bias: (sources, targets)."""
        n_sources = self.n_inputs if layer == 1 else self.n_updated
        return n_sources, self.n_updated - self.first_target(layer)

    def _gated_nodes(self, layer: int) -> int:
        """How many nodes the gates of a layer act on."""
        if layer == self.n_layers:
            return 0 if self.persistent_outputs else self.n_outputs
        return self.n_free

    @property
    def _tied_sources(self) -> int:
        """Rows of the one matrix for all layers; a single layer reads no more of it than an untied one."""
        return self.n_inputs if self.n_layers == 1 and not self.learn_initial else self.n_updated

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every parameter, in the order of the layers."""
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
            if self.combine == "gated" and self._gated_nodes(layer):
                for part in ("gate_state", "gate_message", "gate_bias"):
                    shapes[f"{part}_{layer}"] = (self._gated_nodes(layer),)
        if self.learn_initial:
            shapes["initial"] = (self.n_updated - self.n_inputs,)
        return shapes

    def initializers(self) -> dict[str, Initializer]:
        """How each parameter is drawn.

        "paper": what the authors' `kaiming_normal_` does to a K x n x n tensor, whose fan-in is then n^2: standard
        deviation sqrt(2) / n for every edge. "kaiming": sqrt(2 / fan-in) with the fan-in of the layer, that is the
        number of its sources that can be non-zero (the bias is one).
        """
        draws = {}
        for name in self.parameter_shapes():
            if name == "initial" or name.startswith(("gate_state", "gate_message")):
                draws[name] = Initializer("constant", 0.0)
            elif name.startswith("gate_bias"):
                draws[name] = Initializer("constant", 1.0)  # mostly open at first: close to the paper's update
            elif self.init == "paper":
                draws[name] = Initializer("normal", 2**0.5 / self.n_nodes)
            else:
                first = name in ("weight_1", "bias_1", "weight_initial") or self.n_layers == 1
                fan_in = self.n_inputs + 1 if first else self.n_nodes
                draws[name] = Initializer("normal", (2 / fan_in) ** 0.5)
        return draws

    def zero_unused_(self, parameters: Mapping[str, Tensor]) -> None:
        """Set what is stored but cannot matter to 0, so that no penalty counts it; gradients leave it there.

        The one matrix of a tied machine is stored whole. With two layers, what leads from hidden and output nodes to
        anything but outputs is read by neither.
        """
        if self.tied and self.n_layers == 2 and not self.learn_initial:
            parameters["weight"][..., self.n_inputs :, : -self.n_outputs] = 0

    def edge_parameters(self) -> list[str]:
        """Names of the parameters that are weights of edges; the regularizers act on them."""
        return [name for name in self.parameter_shapes() if name.startswith(("weight", "bias"))]

    def n_parameters(self) -> int:
        """Count as the paper does: K n (n - 1) edges (once if tied), and what a variant adds."""
        edges = (1 if self.tied else self.n_layers) * self.n_nodes * (self.n_nodes - 1)
        return edges + self._n_variant_parameters()

    def n_effective_parameters(self) -> int:
        """Count the parameters that can change the output: the live blocks, and what a variant adds."""
        if self.tied:
            # The layers read overlapping blocks of one matrix: for each target, the most that any layer reads.
            sources_of: dict[int, int] = {}
            for layer in range(1, self.n_layers + 1):
                n_sources = self.n_updated if layer == 1 and self.learn_initial else self._weight_shape(layer)[0]
                for target in range(self.first_target(layer), self.n_updated):
                    sources_of[target] = max(sources_of.get(target, 0), n_sources)
            live = sum(n_sources + 1 for n_sources in sources_of.values())
        else:
            shapes = self.parameter_shapes()
            live = sum(math.prod(shapes[name]) for name in self.edge_parameters())
        silent = 0
        if self.combine == "gated" and not self.learn_initial and self._gated_nodes(1):
            # Before layer 1 only inputs hold something that the gates can look at.
            seen = self.n_inputs if self.n_layers > 1 and not self.clamp_inputs else 0
            silent = self._gated_nodes(1) - seen
        return live + self._n_variant_parameters() - silent

    def _n_variant_parameters(self) -> int:
        shapes = self.parameter_shapes()
        return sum(shape[0] for name, shape in shapes.items() if name.startswith("gate") or name == "initial")

    def layer_weights(self, parameters: Mapping[str, Tensor], layer: int) -> LayerWeights:
        """Return what layer `layer` (from 1 on) reads of `parameters`, cut into its source blocks."""
        plan = self._slices[layer - 1]
        weight, bias = parameters[plan.weight], parameters[plan.bias]
        if plan.skip:
            weight, bias = weight[..., plan.skip :], bias[..., plan.skip :]
        if plan.blocks is None:
            return LayerWeights([weight], bias)
        return LayerWeights([weight[..., a:b, :] for a, b in plan.blocks], bias)

    def _layer_slices(self, layer: int) -> LayerSlices:
        ranges = tuple(self.source_ranges(layer))
        if not self.tied:
            blocks = None if len(ranges) == 1 else ranges
            return LayerSlices(f"weight_{layer}", f"bias_{layer}", 0, blocks)
        skip = self.first_target(layer) - self.first_target(1)
        return LayerSlices("weight", "bias", skip, None if ranges == ((0, self._tied_sources),) else ranges)

    def initial_weights(self, parameters: Mapping[str, Tensor]) -> Tensor:
        """Layer 1's weights from hidden and output nodes: only learned initial features ever reach them."""
        return parameters["weight"][..., self.n_inputs :, :] if self.tied else parameters["weight_initial"]
