"""Learned embeddings of the inputs in NumPy, as `tabgnm.nn.embeddings` defines them, with rows as the last dimension.

On 256 rows of 8 periodic numbers, NumPy takes a tenth of the time of torch: its products of many small matrices have no
overhead, and its cosine is four times as fast.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabgnm.nn.embeddings import InputEmbedding

Array = NDArray[Any]


class EmbeddingPass:
    """Forward and backward pass of the embeddings of `n_models` models with `n_rows` rows each, and their buffers.

    Arrays have no dimension for the models if there is only one model.
    """

    def __init__(self, embedding: InputEmbedding, dtype: np.dtype[Any], n_models: int, n_rows: int) -> None:
        self._embedding = embedding
        n = () if n_models == 1 else (n_models,)
        n_numeric, n_basis, n_categories = embedding.n_numeric, embedding.n_basis, len(embedding.levels)
        self._end_numeric = embedding.n_plain + n_numeric * embedding.numeric_width
        # Shapes of the outputs for numbers and for categories.
        self._numeric_shape = *n, n_numeric, embedding.numeric_width, n_rows
        self._level_shape = *n, n_categories, embedding.level_dim, n_rows
        self._basis, self._angle = (np.empty((*n, n_numeric, n_basis, n_rows), dtype) for _ in range(2))
        # angle = (2 pi f, b) (x, 1)^T, one product for each number
        self._lines, self._line_grads = (np.empty((*n, n_numeric, n_basis, 2), dtype) for _ in range(2))
        self._points = np.ones((*n, n_numeric, 2, n_rows), dtype)
        self._bins = np.arange(n_basis, dtype=dtype)[:, None]
        # The position of the first level of each model and category in the flat array, for each of its numbers.
        n_levels, dim = sum(embedding.levels), embedding.level_dim
        starts = np.array([0, *itertools.accumulate(embedding.levels)][:-1], np.int64)
        starts = np.arange(n_models)[:, None] * n_levels + starts
        self._starts = (starts[..., None, None] * dim + np.arange(dim)[:, None]).reshape(*n, n_categories, dim, 1)
        self._places = np.empty(self._level_shape, np.int64)

    def forward(self, parameters: Mapping[str, Array], x: Array, out: Array) -> None:
        """Write the embedded columns of `x` (columns, rows) into the first rows of `out`."""
        embedding = self._embedding
        first, end = embedding.n_plain, embedding.first_category
        out[..., :first, :] = x[..., :first, :]
        if embedding.n_numeric:
            self._embed_numbers(parameters, x[..., first:end, :], self._numeric_part(out))
        if embedding.levels:
            codes = x[..., end : end + len(embedding.levels), :].astype(np.int64, order="C")
            np.multiply(codes, embedding.level_dim, out=codes)
            np.add(codes[..., None, :], self._starts, out=self._places)
            self._level_part(out)[...] = parameters["embed_level"].reshape(-1)[self._places]

    def backward(self, parameters: Mapping[str, Array], grad: Array, gradients: Mapping[str, Array]) -> None:
        """Write the gradient of every parameter, given the gradient of the outputs of `forward`."""
        if self._embedding.n_numeric:
            self._numbers_backward(parameters, self._numeric_part(grad), gradients)
        if self._embedding.levels:
            levels = gradients["embed_level"]
            # In the order of the rows, so the result is always the same.
            sums = np.bincount(self._places.reshape(-1), self._level_part(grad).reshape(-1), minlength=levels.size)
            levels[...] = sums.reshape(levels.shape)

    def _numeric_part(self, outputs: Array) -> Array:
        """Return the outputs of each number, (n_numeric, width, rows)."""
        return outputs[..., self._embedding.n_plain : self._end_numeric, :].reshape(self._numeric_shape)

    def _level_part(self, outputs: Array) -> Array:
        """Return the outputs of each category, (categories, level_dim, rows)."""
        end = self._embedding.n_outputs
        return outputs[..., self._end_numeric : end, :].reshape(self._level_shape)

    def _embed_numbers(self, parameters: Mapping[str, Array], x: Array, out: Array) -> None:
        if self._embedding.numeric == "periodic":
            np.multiply(parameters["embed_frequency"], 2 * math.pi, out=self._lines[..., 0])
            self._lines[..., 1] = parameters["embed_phase"]
            self._points[..., 0, :] = x
            np.matmul(self._lines, self._points, out=self._angle)
            np.cos(self._angle, out=self._basis)
            out[..., 0, :] = x
            out = out[..., 1:, :]
        else:
            np.subtract(x[..., None, :], self._bins, out=self._basis)
            np.clip(self._basis, 0, 1, out=self._basis)
        np.matmul(parameters["embed_weight"].swapaxes(-2, -1), self._basis, out=out)
        np.add(out, parameters["embed_bias"][..., None], out=out)

    def _numbers_backward(self, parameters: Mapping[str, Array], grad: Array, gradients: Mapping[str, Array]) -> None:
        periodic = self._embedding.numeric == "periodic"
        grad = grad[..., 1:, :] if periodic else grad
        np.matmul(self._basis, grad.swapaxes(-2, -1), out=gradients["embed_weight"])
        np.add.reduce(grad, axis=-1, out=gradients["embed_bias"])
        if periodic:
            by_basis, slopes = self._basis, self._angle  # buffers that are no longer needed
            np.matmul(parameters["embed_weight"], grad, out=by_basis)
            np.sin(self._angle, out=slopes)  # the derivative of the cosine is -sin
            np.multiply(by_basis, slopes, out=slopes)
            np.matmul(slopes, self._points.swapaxes(-2, -1), out=self._line_grads)
            np.multiply(self._line_grads[..., 0], -2 * math.pi, out=gradients["embed_frequency"])
            np.negative(self._line_grads[..., 1], out=gradients["embed_phase"])
