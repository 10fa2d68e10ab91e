"""Random network shapes for property-based tests."""

from __future__ import annotations

from hypothesis import strategies as st

from tabgnm.nn import GNMShape, MLPShape, activation_names
from tabgnm.nn.shapes import COMBINES

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


any_shapes = st.one_of(gnm_shapes(), mlp_shapes())
