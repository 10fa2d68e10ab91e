"""Learned embeddings of the inputs in NumPy, as `tabgnm.nn.embeddings` defines them, with rows as the last dimension.

On 256 rows of 8 periodic numbers, NumPy takes a tenth of the time of torch: its products of many small matrices have no
overhead, and its cosine is four times as fast.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabgnm.nn.embeddings import InputEmbedding
from tabgnm.training.steps.numpy_activations import Call

Array = NDArray[Any]

NUMERIC_KINDS = ("periodic", "piecewise")  # that are implemented here; `tabgnm.nn` may have more


class EmbeddingPass:
    """Forward and backward pass of the embeddings of `n_models` models with `n_rows` rows each, and their buffers.

    Arrays have no dimension for the models if there is only one model. The passes are lists of calls, see
    `numpy_network`: `input_calls`, `forward_calls` and `backward_calls`. Only the first depend on the rows.
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

    def input_calls(self, x: Array, out: Array) -> list[Call]:
        """Return the calls that read the columns of `x` (columns, rows), and copy some of them to `out`."""
        embedding = self._embedding
        first, end = embedding.n_plain, embedding.first_category
        numbers = x[..., first:end, :]
        calls: list[Call] = []
        if first:
            calls.append(partial(np.copyto, out[..., :first, :], x[..., :first, :]))
        if embedding.n_numeric and embedding.numeric == "periodic":
            calls.append(partial(np.copyto, self._points[..., 0, :], numbers))
            calls.append(partial(np.copyto, self._numeric_part(out)[..., 0, :], numbers))
        elif embedding.n_numeric:
            calls.append(partial(np.subtract, numbers[..., None, :], self._bins, self._basis))
        if embedding.levels:
            codes = x[..., end : end + len(embedding.levels), :]
            calls.append(partial(self._find_levels, codes))
        return calls

    def forward_calls(self, parameters: Mapping[str, Array], out: Array) -> list[Call]:
        """Return the calls that write the embedded columns into the first rows of `out`."""
        calls: list[Call] = []
        if self._embedding.n_numeric:
            part = self._numeric_part(out)
            if self._embedding.numeric == "periodic":
                calls += [
                    partial(np.multiply, parameters["embed_frequency"], 2 * math.pi, self._lines[..., 0]),
                    partial(np.copyto, self._lines[..., 1], parameters["embed_phase"]),
                    partial(np.matmul, self._lines, self._points, self._angle),
                    partial(np.cos, self._angle, self._basis),
                ]
                part = part[..., 1:, :]
            else:
                calls.append(partial(np.clip, self._basis, 0, 1, self._basis))
            calls += [
                partial(np.matmul, parameters["embed_weight"].swapaxes(-2, -1), self._basis, part),
                partial(np.add, part, parameters["embed_bias"][..., None], part),
            ]
        if self._embedding.levels:
            calls.append(partial(self._take_levels, parameters["embed_level"], self._level_part(out)))
        return calls

    def backward_calls(
        self, parameters: Mapping[str, Array], grad: Array, gradients: Mapping[str, Array]
    ) -> list[Call]:
        """Return the calls that write the gradient of every parameter, given that of the embedded columns."""
        calls: list[Call] = []
        if self._embedding.n_numeric:
            periodic = self._embedding.numeric == "periodic"
            part = self._numeric_part(grad)[..., 1 if periodic else 0 :, :]
            calls += [
                partial(np.matmul, self._basis, part.swapaxes(-2, -1), gradients["embed_weight"]),
                partial(np.add.reduce, part, axis=-1, out=gradients["embed_bias"]),
            ]
            if periodic:
                by_basis, slopes = self._basis, self._angle  # buffers that are no longer needed
                lines = self._line_grads
                calls += [
                    partial(np.matmul, parameters["embed_weight"], part, by_basis),
                    partial(np.sin, self._angle, slopes),  # the derivative of the cosine is -sin
                    partial(np.multiply, by_basis, slopes, slopes),
                    partial(np.matmul, slopes, self._points.swapaxes(-2, -1), lines),
                    partial(np.multiply, lines[..., 0], -2 * math.pi, gradients["embed_frequency"]),
                    partial(np.negative, lines[..., 1], gradients["embed_phase"]),
                ]
        if self._embedding.levels:
            calls.append(partial(self._add_up_levels, self._level_part(grad), gradients["embed_level"]))
        return calls

    def _numeric_part(self, outputs: Array) -> Array:
        """Return the outputs of each number, (n_numeric, width, rows)."""
        return outputs[..., self._embedding.n_plain : self._end_numeric, :].reshape(self._numeric_shape)

    def _level_part(self, outputs: Array) -> Array:
        """Return the outputs of each category, (categories, level_dim, rows)."""
        end = self._embedding.n_outputs
        return outputs[..., self._end_numeric : end, :].reshape(self._level_shape)

    def _find_levels(self, codes: Array) -> None:
        """Write the position of each number of each row's level."""
        positions = codes.astype(np.int64, order="C")
        np.multiply(positions, self._embedding.level_dim, out=positions)
        np.add(positions[..., None, :], self._starts, out=self._places)

    def _take_levels(self, levels: Array, out: Array) -> None:
        out[...] = levels.reshape(-1)[self._places]

    def _add_up_levels(self, grad: Array, out: Array) -> None:
        # In the order of the rows, so the result is always the same.
        sums = np.bincount(self._places.reshape(-1), grad.reshape(-1), minlength=out.size)
        out[...] = sums.reshape(out.shape)
