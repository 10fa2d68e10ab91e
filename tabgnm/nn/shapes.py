"""Shapes of networks: their hyperparameters and the parameters that follow from them, without values.

A shape is hashable. It defines the parameters of a network, their initializers, and the blocks of them that each layer
uses. Entries of the paper's n x n matrices that cannot affect the output (columns of hidden and output nodes in layer
1, all rows except those of outputs in layer K) are not parameters.
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
    """The shape of a network with learned embeddings of its inputs.

    Regularizers, weight decay and the gates of the l0 penalty act on the edges of the body only.

    Parameters
    ----------
    embedding : InputEmbedding
        The embedding of the columns of a table.
    body : GNMShape or MLPShape
        The shape of the network after the embedding; its n_inputs must be `embedding.n_outputs`.
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
        """Return the constructor arguments by name."""
        return {"embedding": self.embedding, "body": self.body}

    @property
    def layout(self) -> NodeLayout:
        """The node layout of the body; its input nodes are the embedded features."""
        return self.body.layout

    @property
    def n_inputs(self) -> int:
        """The number of columns of the table."""
        return self.embedding.n_columns

    @property
    def n_outputs(self) -> int:
        """The number of outputs of the body."""
        return self.body.n_outputs

    @property
    def n_layers(self) -> int:
        """The number of layers of the body."""
        return self.body.n_layers

    @property
    def dropout_widths(self) -> tuple[int, ...]:
        """The number of nodes that dropout acts on, for each layer except the last."""
        return self.body.dropout_widths

    @property
    def activations_per_row(self) -> int:
        """The number of values that a forward pass keeps per row, slightly overestimated."""
        return self.embedding.activations_per_row + self.body.activations_per_row

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each parameter by name."""
        # The body first, so that it is initialized as without an embedding.
        return self.body.parameter_shapes() | self.embedding.parameter_shapes()

    def initializers(self) -> dict[str, Initializer]:
        """Return the initializer of each parameter."""
        return self.body.initializers() | self.embedding.initializers()

    def zero_unused_(self, parameters: Mapping[str, Tensor]) -> None:
        """Set stored weights that no layer uses to 0."""
        self.body.zero_unused_(parameters)

    def edge_parameters(self) -> list[str]:
        """Return the names of the edge weights of the body."""
        return self.body.edge_parameters()

    def n_parameters(self) -> int:
        """Return the number of parameters: those of the body as in the paper, and those of the embedding."""
        return self.body.n_parameters() + self.embedding.n_parameters()

    def n_effective_parameters(self) -> int:
        """Return the number of parameters that can affect the output."""
        return self.body.n_effective_parameters() + self.embedding.n_parameters()


Shape = GNMShape | MLPShape | EmbeddedShape


def body_of(shape: Shape) -> GNMShape | MLPShape:
    """Return the shape without its embedding, if it has one."""
    return shape.body if isinstance(shape, EmbeddedShape) else shape


def has_no_variant_but_clamping(shape: Shape) -> bool:
    """Return whether the network has no variant except `clamp_inputs`; the fast training steps require this."""
    body = body_of(shape)
    return body.combine == "none" and not (body.persistent_outputs or body.tied or body.learn_initial)


def with_frequency_scale(shape: Shape, scale: float | None) -> Shape:
    """Return the shape with this `frequency_scale` of the embedding; None keeps the shape unchanged.

    Only the initial parameters depend on it, so networks that otherwise have the same shape can be trained together.
    """
    if scale is None or not isinstance(shape, EmbeddedShape) or shape.embedding.frequency_scale == scale:
        return shape
    return replace(shape, embedding=replace(shape.embedding, frequency_scale=scale))
