"""What a network looks like, without its weights: the shapes that message passing and the fleet work on.

A shape is hashable. It defines the parameters of a network, how each is initialized, and which block of it a layer
reads. Entries of the paper's n x n matrices that cannot affect the output (hidden columns of layer 1, all but the
output rows of layer K) are not part of it, so they cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from tabgnm.nn.embeddings import InputEmbedding
from tabgnm.nn.gnm_shape import COMBINES, GNM_INITS, Combine, GNMShape
from tabgnm.nn.initializers import Initializer
from tabgnm.nn.layout import NodeLayout
from tabgnm.nn.mlp_shape import MLP_INITS, MLPShape

__all__ = [
    "COMBINES",
    "GNM_INITS",
    "MLP_INITS",
    "Combine",
    "EmbeddedShape",
    "GNMShape",
    "MLPShape",
    "Shape",
    "body_of",
    "has_no_variant_but_clamping",
    "with_frequency_scale",
]


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

    def initializers(self) -> dict[str, Initializer]:
        """How each parameter is drawn."""
        return self.body.initializers() | self.embedding.initializers()

    def zero_unused_(self, parameters: Mapping[str, Tensor]) -> None:
        """Set what is stored but cannot matter to 0."""
        self.body.zero_unused_(parameters)

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
