"""What a network looks like, without its weights: the shapes that message passing and the fleet work on.

A shape is hashable. It defines the parameters of a network, how each is initialized, and which block of it a layer
reads. Entries of the paper's n x n matrices that cannot affect the output (hidden columns of layer 1, all but the
output rows of layer K) are not part of it, so they cost nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, NamedTuple

from torch import Tensor

from tabgnm._printable import shown
from tabgnm.nn.activations import get_activation
from tabgnm.nn.draws import Draw
from tabgnm.nn.embeddings import InputEmbedding
from tabgnm.nn.layout import NodeLayout, positive_integer

Combine = Literal["none", "residual", "gated"]
COMBINES = ("none", "residual", "gated")
GNM_INITS = ("paper", "kaiming")
MLP_INITS = ("torch", "kaiming")


class LayerWeights(NamedTuple):
    """The parameters of one layer: one weight block per source block, (..., sources, targets), and the bias."""

    blocks: list[Tensor]
    bias: Tensor


class LayerPlan(NamedTuple):
    """Where a layer's weights stand: its parameters, the columns before its own, and its source blocks if several."""

    weight: str
    bias: str
    skip: int
    blocks: tuple[tuple[int, int], ...] | None


def _one_of(name: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ValueError(f"{name}={shown(value)} is not known; use one of {', '.join(map(repr, allowed))}")


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
        _one_of("init", self.init, MLP_INITS)

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

    def draws(self) -> dict[str, Draw]:
        """How each parameter is drawn: as `torch.nn.Linear` does, or He et al.'s normal with zero biases."""
        draws = {}
        for name in self.parameter_shapes():
            fan_in = self.widths[int(name.rsplit("_", 1)[1]) - 1]
            if self.init == "torch":
                draws[name] = Draw("uniform", fan_in**-0.5)
            elif name.startswith("bias"):
                draws[name] = Draw("constant", 0.0)
            else:
                draws[name] = Draw("normal", (2 / fan_in) ** 0.5)
        return draws

    def clear_dead_(self, parameters: Mapping[str, Tensor]) -> None:
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
    _plans: tuple[LayerPlan, ...] = field(init=False, repr=False, compare=False)
    has_no_variant: bool = field(init=False, repr=False, compare=False)
    layer_names: tuple[tuple[str, str], ...] = field(init=False, repr=False, compare=False)

    embedding: ClassVar[None] = None

    def __post_init__(self) -> None:
        layout = self.layout
        for name in ("n_inputs", "n_outputs", "n_nodes"):
            object.__setattr__(self, name, getattr(layout, name))
        object.__setattr__(self, "n_layers", positive_integer("n_layers", self.n_layers))
        get_activation(self.activation)
        _one_of("init", self.init, GNM_INITS)
        _one_of("combine", self.combine, COMBINES)
        # Worked out once: a forward pass of a small network takes no longer than asking for this every time.
        object.__setattr__(self, "_plans", tuple(self._plan(k) for k in range(1, self.n_layers + 1)))
        object.__setattr__(self, "layer_names", tuple((plan.weight, plan.bias) for plan in self._plans))
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

    def _reads(self, layer: int) -> tuple[int, ...]:
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
            sources, targets = self._reads(layer)
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

    def draws(self) -> dict[str, Draw]:
        """How each parameter is drawn.

        "paper": what the authors' `kaiming_normal_` does to a K x n x n tensor, whose fan-in is then n^2: standard
        deviation sqrt(2) / n for every edge. "kaiming": sqrt(2 / fan-in) with the fan-in of the layer, that is the
        number of its sources that can be non-zero (the bias is one).
        """
        draws = {}
        for name in self.parameter_shapes():
            if name == "initial" or name.startswith(("gate_state", "gate_message")):
                draws[name] = Draw("constant", 0.0)
            elif name.startswith("gate_bias"):
                draws[name] = Draw("constant", 1.0)  # mostly open at first: close to the paper's update
            elif self.init == "paper":
                draws[name] = Draw("normal", 2**0.5 / self.n_nodes)
            else:
                first = name in ("weight_1", "bias_1", "weight_initial") or self.n_layers == 1
                fan_in = self.n_inputs + 1 if first else self.n_nodes
                draws[name] = Draw("normal", (2 / fan_in) ** 0.5)
        return draws

    def clear_dead_(self, parameters: Mapping[str, Tensor]) -> None:
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
                n_sources = self.n_updated if layer == 1 and self.learn_initial else self._reads(layer)[0]
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
        plan = self._plans[layer - 1]
        weight, bias = parameters[plan.weight], parameters[plan.bias]
        if plan.skip:
            weight, bias = weight[..., plan.skip :], bias[..., plan.skip :]
        if plan.blocks is None:
            return LayerWeights([weight], bias)
        return LayerWeights([weight[..., a:b, :] for a, b in plan.blocks], bias)

    def _plan(self, layer: int) -> LayerPlan:
        ranges = tuple(self.source_ranges(layer))
        if not self.tied:
            blocks = None if len(ranges) == 1 else ranges
            return LayerPlan(f"weight_{layer}", f"bias_{layer}", 0, blocks)
        skip = self.first_target(layer) - self.first_target(1)
        return LayerPlan("weight", "bias", skip, None if ranges == ((0, self._tied_sources),) else ranges)

    def initial_weights(self, parameters: Mapping[str, Tensor]) -> Tensor:
        """Layer 1's weights from hidden and output nodes: only learned initial features ever reach them."""
        return parameters["weight"][..., self.n_inputs :, :] if self.tied else parameters["weight_initial"]


@dataclass(frozen=True)
class EmbeddedShape:
    """A network behind learned embeddings: `body` reads what `embedding` makes of the columns of a table.

    Regularizers, weight decay and the gates of the l0 penalty act on the edges of the body only.
    """

    embedding: InputEmbedding
    body: GNMShape | MLPShape

    def __post_init__(self) -> None:
        if not isinstance(self.embedding, InputEmbedding):
            raise TypeError(f"embedding is a {type(self.embedding).__name__}; expected an InputEmbedding")
        if not isinstance(self.body, (GNMShape, MLPShape)):
            raise TypeError(f"body is a {type(self.body).__name__}; expected a GNMShape or MLPShape")
        if self.body.n_inputs != self.embedding.n_outputs:
            raise ValueError(
                f"body.n_inputs={self.body.n_inputs} does not match the embedding, which has "
                f"{self.embedding.n_outputs} outputs for {self.embedding.n_columns} columns; use "
                "n_inputs=embedding.n_outputs for the body"
            )

    def settings(self) -> dict[str, Any]:
        """What the shape was made with, by name."""
        return {"embedding": self.embedding, "body": self.body}

    @property
    def layout(self) -> NodeLayout:
        """Which node of the body is what; its input nodes are the embedded features."""
        return self.body.layout

    @property
    def n_inputs(self) -> int:
        """Columns of the table."""
        return self.embedding.n_columns

    @property
    def n_outputs(self) -> int:
        """Outputs of the body."""
        return self.body.n_outputs

    @property
    def n_layers(self) -> int:
        """Layers of the body."""
        return self.body.n_layers

    @property
    def dropout_widths(self) -> tuple[int, ...]:
        """How many nodes dropout acts on in each layer but the last."""
        return self.body.dropout_widths

    @property
    def activations_per_row(self) -> int:
        """Numbers that a pass holds per row; an estimate, a little too large."""
        return self.embedding.activations_per_row + self.body.activations_per_row

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every parameter: the body's, so drawn as without an embedding, then the embedding's."""
        return self.body.parameter_shapes() | self.embedding.parameter_shapes()

    def draws(self) -> dict[str, Draw]:
        """How each parameter is drawn."""
        return self.body.draws() | self.embedding.draws()

    def clear_dead_(self, parameters: Mapping[str, Tensor]) -> None:
        """Set what is stored but cannot matter to 0."""
        self.body.clear_dead_(parameters)

    def edge_parameters(self) -> list[str]:
        """Names of the parameters that are weights of edges: the body's."""
        return self.body.edge_parameters()

    def n_parameters(self) -> int:
        """Count the body's as the paper does, and the embedding's."""
        return self.body.n_parameters() + self.embedding.n_parameters()

    def n_effective_parameters(self) -> int:
        """Count the parameters that can change the output."""
        return self.body.n_effective_parameters() + self.embedding.n_parameters()


Shape = GNMShape | MLPShape | EmbeddedShape


def body_of(shape: Shape) -> GNMShape | MLPShape:
    """Return the network without its embedding, if it has one."""
    return shape.body if isinstance(shape, EmbeddedShape) else shape


def has_no_variant_but_clamping(shape: Shape) -> bool:
    """Whether `clamp_inputs` is the only variant that the network may have; the fast training steps support these."""
    body = body_of(shape)
    return body.combine == "none" and not (body.persistent_outputs or body.tied or body.learn_initial)


def with_frequency_scale(shape: Shape, scale: float | None) -> Shape:
    """Return a shape whose periodic embeddings start with frequencies of this standard deviation; None changes nothing.

    Only the first weights depend on it, so networks that differ in nothing else can be trained together.
    """
    if scale is None or not isinstance(shape, EmbeddedShape) or shape.embedding.frequency_scale == scale:
        return shape
    return replace(shape, embedding=replace(shape.embedding, frequency_scale=scale))
