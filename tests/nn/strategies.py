"""Random network shapes for property-based tests."""

from __future__ import annotations

from dataclasses import replace

import torch
from hypothesis import strategies as st

from tabgnm.nn import EmbeddedShape, GNMShape, InputEmbedding, MLPShape, activation_names
from tabgnm.nn.shapes import COMBINES, Shape

activations = st.sampled_from(activation_names())
seeds = st.integers(0, 2**31)


@st.composite
def gnm_shapes(draw: st.DrawFn, smallest_hidden: int = 0) -> GNMShape:
    m, c = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    return GNMShape(
        n_inputs=m,
        n_outputs=c,
        n_nodes=m + c + 1 + draw(st.integers(smallest_hidden, 7)),
        n_layers=draw(st.integers(1, 5)),
        activation=draw(activations),
        init=draw(st.sampled_from(["paper", "kaiming"])),
        combine=draw(st.sampled_from(COMBINES)),
        clamp_inputs=draw(st.booleans()),
        persistent_outputs=draw(st.booleans()),
        tied=draw(st.booleans()),
        learn_initial=draw(st.booleans()),
    )


@st.composite
def mlp_shapes(draw: st.DrawFn, most_hidden: int = 4) -> MLPShape:
    width = st.integers(1, 12)
    hidden = draw(st.lists(width, min_size=1, max_size=most_hidden))
    return MLPShape(
        draw(width), draw(width), tuple(hidden), draw(activations), draw(st.sampled_from(["torch", "kaiming"]))
    )


@st.composite
def embeddings(draw: st.DrawFn) -> InputEmbedding:
    few = st.integers(0, 3)
    n_numeric, levels = draw(few), tuple(draw(st.lists(st.integers(1, 6), max_size=3)))
    return InputEmbedding(
        n_plain=draw(few if n_numeric or levels else st.just(1)),
        n_numeric=n_numeric,
        numeric=draw(st.sampled_from(["periodic", "piecewise"])),
        n_basis=draw(st.integers(1, 5)),
        numeric_dim=draw(st.integers(1, 4)),
        levels=levels,
        level_dim=draw(st.integers(1, 4)),
    )


@st.composite
def embedded_shapes(draw: st.DrawFn) -> EmbeddedShape:
    embedding, body = draw(embeddings()), draw(plain_shapes)
    wider = embedding.n_outputs - body.n_inputs
    more = {"n_nodes": body.n_nodes + wider} if isinstance(body, GNMShape) else {}
    return EmbeddedShape(embedding, replace(body, n_inputs=embedding.n_outputs, **more))


plain_shapes = st.one_of(gnm_shapes(), mlp_shapes())
any_shapes = st.one_of(gnm_shapes(), mlp_shapes(), embedded_shapes())


def random_columns(shape: Shape, *size: int, generator: torch.Generator | None = None) -> torch.Tensor:
    """Rows that a network of this shape can read: (*size, n_inputs), with codes where it has categories."""
    x = torch.randn(*size, shape.n_inputs, dtype=torch.float64, generator=generator)
    if shape.embedding is not None:
        for column, n_levels in enumerate(shape.embedding.levels, start=shape.embedding.first_category):
            x[..., column] = torch.randint(n_levels, size, generator=generator).double()
        if shape.embedding.numeric == "piecewise":
            x[..., shape.embedding.n_plain : shape.embedding.first_category] *= shape.embedding.n_basis
    return x
