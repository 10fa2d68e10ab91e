"""Learned embeddings of the inputs in JAX, with the names and shapes of `InputEmbedding.parameter_shapes`.

Each form below was the fastest of several on the CPU at fleet size. For numbers, columns before rows was faster than
one product per column, rows before columns, and a product with a block-diagonal matrix. For levels, a lookup, whose
gradient is a scatter, was faster than products with one-hot rows.
"""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np

from tabgnm.nn import InputEmbedding


def embed(
    embedding: InputEmbedding, parameters: dict[str, jax.Array], x: jax.Array, precision: str = "default"
) -> jax.Array:
    """Embed the columns of one batch of one model: (B, n_columns) to (B, n_outputs)."""
    if embedding.n_plain or embedding.numeric != "periodic":
        raise ValueError(
            f"an embedding with {embedding.n_plain} plain columns and numeric={embedding.numeric!r} is not implemented "
            "in JAX; use only periodic numbers and categories, like the default network"
        )
    numbers, codes = x[:, : embedding.n_numeric], x[:, embedding.n_numeric :].astype(jnp.int32)
    parts = [_embed_numbers(parameters, numbers, precision)]
    if embedding.levels:
        starts = np.array([0, *itertools.accumulate(embedding.levels[:-1])], dtype=np.int32)
        # All codes are valid; "clip" avoids a check.
        rows = jnp.take(parameters["embed_level"], codes + starts, axis=0, mode="clip")  # (B, categories, level_dim)
        parts.append(rows.reshape(len(x), -1))
    return jnp.concatenate(parts, axis=-1)


def _embed_numbers(parameters: dict[str, jax.Array], x: jax.Array, precision: str) -> jax.Array:
    """Return [x, cos(2 pi f x + b) W + c] for every column, (B, n_numeric * width)."""
    frequency, phase = (parameters[f"embed_{name}"][:, None, :] for name in ("frequency", "phase"))
    basis = jnp.cos(2 * math.pi * frequency * x.T[:, :, None] + phase)  # (n_numeric, B, n_basis)
    mixed = jnp.einsum("nbk,nkd->bnd", basis, parameters["embed_weight"], precision=precision)
    return jnp.concatenate([x[:, :, None], mixed + parameters["embed_bias"]], axis=-1).reshape(len(x), -1)
