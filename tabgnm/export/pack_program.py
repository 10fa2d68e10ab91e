"""A whole pack in terms of other languages: recipes, stacked layers, and the conversion of outputs to predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tabgnm.estimators.class_targets import ClassTargets
from tabgnm.estimators.number_targets import LARGEST_PREDICTION, NumberTargets
from tabgnm.export.program import ExportError, RawColumn
from tabgnm.nn import EmbeddedShape, InputEmbedding
from tabgnm.nn.shapes import GNMShape, MLPShape
from tabgnm.table.recipes import Recipe

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator
    from tabgnm.estimators.fitting import NetworkGroup

Array = NDArray[Any]

# What the runtimes of all formats implement.
ACTIVATIONS = frozenset(
    ("identity", "relu", "leaky_relu", "elu", "gelu", "silu", "mish", "softplus", "tanh", "sigmoid")
)
NUMERIC_KINDS = frozenset(("periodic", "piecewise"))

Source = Literal["inputs", "state", "outputs"]


@dataclass(frozen=True, eq=False)
class Combination:
    """How the new states of a layer are computed from the previous states h and the candidates a.

    They are h + a or, with gates, h + g (a - h), where g = sigmoid(s h + t z + r) and z are the messages.

    Attributes
    ----------
    source : {"inputs", "state"}
        The source of h: its columns from `first` on, followed by `n_zeros` zeros.
    first, n_zeros : int
    initial : array (networks, 1, nodes) or None
        Added to h.
    gates : three arrays (networks, 1, nodes), s, t and r, or None
    """

    source: Source
    first: int
    n_zeros: int
    initial: Array | None
    gates: tuple[Array, Array, Array] | None


@dataclass(frozen=True, eq=False)
class PackLayer:
    """One layer of all networks of a group.

    Attributes
    ----------
    sources : tuple of str
        What the layer reads: the "inputs" of the network, its "state" or its persistent "outputs".
    weights : tuple of arrays (networks, sources, nodes)
        One per source.
    bias : array (networks, 1, nodes)
    n_persistent : int
        The number of messages, at the end, that are added to the persistent outputs without an activation.
    is_last : bool
        The last layer has no activation.
    combination : Combination or None
    """

    sources: tuple[Source, ...]
    weights: tuple[Array, ...]
    bias: Array
    n_persistent: int
    is_last: bool
    combination: Combination | None


@dataclass(frozen=True, eq=False)
class NumberLink:
    """How outputs become numbers: scale x output + offset or, with `most`, the exponential of that.

    Attributes
    ----------
    scale, offset : arrays, one number per output
    most : float or None
        If not None, outputs are first clipped to [-most, most].
    """

    scale: Array
    offset: Array
    most: float | None


@dataclass(frozen=True, eq=False)
class PackGroup:
    """The networks of one candidate.

    Attributes
    ----------
    encoder : int
        The position of its list of recipes.
    embedding : InputEmbedding or None
    embedding_parameters : dict of arrays (networks, ...)
    layers : tuple of PackLayer
    activation : str
    shares : array (networks,)
        The weight of each network in the mean.
    link : NumberLink or None
        None for classes.
    """

    encoder: int
    embedding: InputEmbedding | None
    embedding_parameters: dict[str, Array]
    layers: tuple[PackLayer, ...]
    activation: str
    shares: Array
    link: NumberLink | None


@dataclass(frozen=True, eq=False)
class PackProgram:
    """The computation of a pack.

    Attributes
    ----------
    columns : tuple of RawColumn
        The columns that are read, in the order of the table.
    recipes : tuple of lists of Recipe
        One list per encoder, one recipe per encoded column.
    groups : tuple of PackGroup
    dtype : str
        The type of weights and encoded columns: "float32" or "float64".
    exact : bool
        Whether float32 arithmetic would lose digits of columns that are not scaled.
    kind : str
        "number", or the kind of `ClassTargets`.
    classes : tuple of arrays
        The labels of each target.
    temperature : float
        The divisor of the logarithms of probabilities.
    is_sorted : bool
        Whether the numbers of a row are sorted in ascending order (quantiles).
    one_dimensional : bool
        Whether a prediction is one number or label.
    largest : float
        Numbers are clipped to [-largest, largest].
    """

    columns: tuple[RawColumn, ...]
    recipes: tuple[list[Recipe], ...]
    groups: tuple[PackGroup, ...]
    dtype: str
    exact: bool
    kind: str
    classes: tuple[Array, ...]
    temperature: float
    is_sorted: bool
    one_dimensional: bool
    largest: float = LARGEST_PREDICTION

    @property
    def n_bytes(self) -> int:
        """The size of all weights in bytes."""
        return sum(array.nbytes for group in self.groups for array in arrays_of(group))


def arrays_of(group: PackGroup) -> list[Array]:
    """Return all weights of a group."""
    found = list(group.embedding_parameters.values())
    for layer in group.layers:
        found += [*layer.weights, layer.bias]
        if layer.combination is not None:
            found += [layer.combination.initial] if layer.combination.initial is not None else []
            found += layer.combination.gates or ()
    return found


def pack_program_of(estimator: TabularEstimator) -> PackProgram:
    """Return the program of any fitted estimator."""
    fitted = estimator.fitted_
    encoders = fitted.encoders
    places = {id(encoder): place for place, encoder in enumerate(encoders)}
    recipes = tuple(encoder.recipes for encoder in encoders)
    targets = fitted.targets
    shares, start, groups = fitted.network_weights, 0, []
    for group in fitted.groups:
        own = shares[start : start + group.n_networks]
        start += group.n_networks
        groups.append(_group(group, places[id(group.encoder)], own))
    kind, classes, is_sorted = "number", [], False
    if isinstance(targets, ClassTargets):
        kind, classes = targets.kind, targets.classes
        one_dimensional = kind in ("one", "binary", "multiclass")
    else:
        is_sorted = targets.quantiles is not None
        one_dimensional = targets.one_dimensional and not is_sorted
    return PackProgram(
        _columns(recipes),
        recipes,
        tuple(groups),
        np.dtype(fitted.dtype).name,
        any(encoder.settings.scaling == "none" for encoder in encoders),
        kind,
        tuple(classes),
        fitted.temperature,
        is_sorted,
        one_dimensional,
    )


def _columns(recipes: tuple[list[Recipe], ...]) -> tuple[RawColumn, ...]:
    """Return the columns that recipes read."""
    found: dict[int, RawColumn] = {}
    for recipe in (own for recipes_of_encoder in recipes for own in recipes_of_encoder):
        if recipe.what == "nothing":
            continue
        column = RawColumn(recipe.column, recipe.column_name, recipe.kind)
        if found.setdefault(recipe.column, column) != column:
            raise ExportError(
                f"column {recipe.column_name!r} is a {found[recipe.column].kind} for one candidate and a {recipe.kind} "
                "for another; set its kind with column_kinds, and fit again"
            )
    return tuple(found[position] for position in sorted(found))


def _group(group: NetworkGroup, encoder: int, shares: Array) -> PackGroup:
    shape = group.shape
    embedding, body = (shape.embedding, shape.body) if isinstance(shape, EmbeddedShape) else (None, shape)
    if body.activation not in ACTIVATIONS:
        raise ExportError(f"exports do not implement activation={body.activation!r}; save a model file instead")
    if embedding is not None and embedding.numeric not in NUMERIC_KINDS:
        raise ExportError(f"exports do not implement {embedding.numeric!r} embeddings; save a model file instead")
    parameters = group.parameters
    learned = {name: parameters[name].numpy() for name in (embedding.parameter_shapes() if embedding else ())}
    link = _number_link(group.targets) if isinstance(group.targets, NumberTargets) else None
    layers = tuple(_layer(body, parameters, layer) for layer in range(1, body.n_layers + 1))
    return PackGroup(encoder, embedding, learned, layers, body.activation, shares, link)


def _number_link(targets: NumberTargets) -> NumberLink:
    scale, offset, most = targets.link()
    full = [np.broadcast_to(own, targets.n_outputs).copy() for own in (scale, offset)]
    return NumberLink(full[0], full[1], most)


def _layer(shape: GNMShape | MLPShape, parameters: Mapping[str, Tensor], layer: int) -> PackLayer:
    weights, bias = shape.layer_weights(parameters, layer)
    is_last = layer == shape.n_layers
    if layer == 1 and shape.learn_initial:  # the initial values of hidden and output nodes become part of the bias
        assert isinstance(shape, GNMShape)
        initial = parameters["initial"].double()
        bias = bias.double() + (initial.unsqueeze(-2) @ shape.initial_weights(parameters).double()).squeeze(-2)
        if shape.persistent_outputs:
            bias[..., -shape.n_outputs :] += initial[..., -shape.n_outputs :]
    return PackLayer(
        _sources(shape, layer),
        tuple(weight.contiguous().numpy() for weight in weights),
        bias.unsqueeze(-2).numpy(),
        shape.n_outputs if shape.persistent_outputs else 0,
        is_last,
        _combination(shape, parameters, layer) if isinstance(shape, GNMShape) else None,
    )


def _sources(shape: GNMShape | MLPShape, layer: int) -> tuple[Source, ...]:
    if layer == 1:
        return ("inputs",)
    if isinstance(shape, MLPShape):
        return ("state",)
    sources: list[Source] = ["inputs"] if shape.clamp_inputs else []
    sources += ["state"] if shape.n_free else []
    sources += ["outputs"] if shape.persistent_outputs else []
    return tuple(sources)


def _combination(shape: GNMShape, parameters: Mapping[str, Tensor], layer: int) -> Combination | None:
    is_last = layer == shape.n_layers
    n_combined = (0 if shape.persistent_outputs else shape.n_outputs) if is_last else shape.n_free
    if shape.combine == "none" or n_combined == 0:
        return None
    gates = None
    if shape.combine == "gated":
        by_state, by_message, constant = (
            parameters[f"gate_{part}_{layer}"].unsqueeze(-2).numpy() for part in ("state", "message", "bias")
        )
        gates = (by_state, by_message, constant)
    if layer > 1:
        return Combination("state", shape.n_free - n_combined, 0, None, gates)
    first, end = (shape.n_updated - n_combined, shape.n_updated) if is_last else (shape.first_free, shape.end_free)
    n_inputs = max(shape.n_inputs - first, 0)
    initial = None
    if shape.learn_initial:
        start = max(first, shape.n_inputs)
        learned = parameters["initial"][..., start - shape.n_inputs : end - shape.n_inputs].numpy()
        initial = np.concatenate([np.zeros_like(learned, shape=(len(learned), n_inputs)), learned], axis=-1)[:, None]
    return Combination("inputs", min(first, shape.n_inputs), n_combined - n_inputs, initial, gates)
