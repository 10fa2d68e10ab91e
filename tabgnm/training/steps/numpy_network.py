"""Message passing of a few models in NumPy, forward and backward, in reused buffers.

A step of a small network consists of a dozen operations of a microsecond each, so the overhead of calls matters. It is
lower in NumPy than in torch, and two things keep calls few and fast. In the flat buffer, the bias of a layer follows
its weights, so that both are one matrix: with a node that is always 1, one product handles both, forward and backward.
And rows are the last dimension, (nodes, rows), so that inner loops run along the many rows, not the few outputs.

Arrays are (n, nodes, rows) for n models, and (nodes, rows) for a single one, because fewer dimensions are faster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tabgnm.nn.activations import get_activation
from tabgnm.nn.shapes import Shape, body_of
from tabgnm.training.counter_random import STREAM_FACTOR, STREAM_STEP
from tabgnm.training.dropout import Dropout
from tabgnm.training.flat_weights import FlatLayout
from tabgnm.training.steps.numpy_embedding import EmbeddingPass
from tabgnm.training.steps.numpy_losses import drop_single

Array = NDArray[Any]

_relu_backward = torch.ops.aten.threshold_backward.grad_input  # looked up once


class NetworkParameters:
    """Views of the parameters of some models, or of their gradients, in rows (n, P) of a flat buffer.

    `matrices` are the weights of each layer with the bias as the last row, (sources + 1, targets); `transposed` and
    `without_bias` are views of them; `embedding` are the parameters of the embedding by name.
    """

    def __init__(self, layout: FlatLayout, flat: Tensor) -> None:
        self.matrices: list[Array] = []
        for weight, bias in body_of(layout.shape).layer_names:
            first, (n_sources, n_targets) = layout.offsets[weight], layout.sizes[weight]
            assert layout.offsets[bias] == first + n_sources * n_targets
            matrix = flat[:, first : first + (n_sources + 1) * n_targets].view(-1, n_sources + 1, n_targets)
            self.matrices.append(drop_single(matrix.numpy()))
        self.transposed = [matrix.swapaxes(-2, -1) for matrix in self.matrices]
        self.without_bias = [matrix[..., :-1, :] for matrix in self.matrices]
        self.embedding: dict[str, Array] = {}
        if layout.shape.embedding is not None:
            views, names = layout.views(flat), layout.shape.embedding.parameter_shapes()
            self.embedding = {name: drop_single(views[name].numpy()) for name in names}


class DropoutStreams:
    """Views of the random streams of some models, for some rows of a batch."""

    def __init__(self, dropout: Dropout, first_model: int, end_model: int, first_row: int, end_row: int) -> None:
        models, rows = slice(first_model, end_model), slice(first_row, end_row)
        self._states = [drop_single(stream.states[models, rows].mT.numpy()) for stream in dropout.streams]
        self._unsigned = [states.view(np.uint32) for states in self._states]
        self._thresholds = drop_single(dropout.thresholds[models].numpy())
        self._scales = drop_single(dropout.scales[models].numpy())
        self._factor, self._step = np.uint32(STREAM_FACTOR), np.uint32(STREAM_STEP)

    def draw(self, layer: int, out: Array) -> None:
        """Write the next factors of a hidden layer, counted from 0; each is 0 or the scale."""
        states = self._unsigned[layer]
        np.multiply(states, self._factor, out=states)
        np.add(states, self._step, out=states)
        np.multiply(np.greater_equal(self._states[layer], self._thresholds), self._scales, out=out)


class NetworkPass:
    """Forward and backward pass of `n_models` models with `n_rows` rows each, and their buffers.

    The shape may have any activation and an embedding; `clamp_inputs` is the only variant it may have.
    """

    def __init__(self, shape: Shape, dtype: np.dtype[Any], n_models: int, n_rows: int) -> None:
        def empty(n_nodes: int) -> Array:
            return drop_single(np.empty((n_models, n_nodes, n_rows), dtype))

        body = body_of(shape)
        sizes = body.parameter_shapes()
        *hidden, n_outputs = (sizes[bias][0] for _, bias in body.layer_names)
        self._activation = get_activation(body.activation)
        self._is_relu = body.activation == "relu"
        # Clamped inputs come before the other nodes in the sources of a layer, and in their gradient.
        self._n_clamped = n_clamped = body.n_inputs if body.clamp_inputs else 0
        self._sources = [empty(n_clamped + width + 1) for width in hidden]
        for source in self._sources:
            source[..., -1, :] = 1
        self._states = [source[..., n_clamped:-1, :] for source in self._sources]
        self._messages = self._states if self._is_relu else [empty(width) for width in hidden]
        self._source_grads = [empty(n_clamped + width) for width in hidden]
        self.output, self.output_grad = empty(n_outputs), empty(n_outputs)
        self._grads = [*(grad[..., n_clamped:, :] for grad in self._source_grads), self.output_grad]
        self._transposed_grads = [grad.swapaxes(-2, -1) for grad in self._grads]
        self._factors = [np.empty_like(state) for state in self._states]
        self._state_tensors, self._message_tensors, self._grad_tensors = (
            [torch.from_numpy(array) for array in arrays] for arrays in (self._states, self._messages, self._grads)
        )
        self._activated = list(self._state_tensors)
        self._embedding: EmbeddingPass | None = None
        if shape.embedding is not None:
            self._embedding = EmbeddingPass(shape.embedding, dtype, n_models, n_rows)
            self._embedded, self._embedded_grad = empty(body.n_inputs + 1), empty(body.n_inputs)
            self._embedded[..., -1, :] = 1
        # For two matrices, the method takes half a microsecond less than `np.matmul`.
        self._product: Callable[[Array, Array, Array], Array] = np.ndarray.dot if n_models == 1 else np.matmul

    def forward(
        self, parameters: NetworkParameters, x: Array, outputs: Array, dropout: DropoutStreams | None = None
    ) -> None:
        """Write the outputs for rows `x`: the columns of a table and a last column of ones, (columns + 1, rows)."""
        product, self._dropout = self._product, dropout
        if self._embedding is not None:
            self._embedding.forward(parameters.embedding, x, self._embedded)
            x = self._embedded
        if self._n_clamped:
            for source in self._sources:
                source[..., : self._n_clamped, :] = x[..., :-1, :]
        self._inputs = source = x
        for layer, message in enumerate(self._messages):
            product(parameters.transposed[layer], source, message)
            if self._is_relu:
                self._message_tensors[layer].relu_()
            else:
                self._activated[layer] = self._activation.forward(self._message_tensors[layer])
                self._state_tensors[layer].copy_(self._activated[layer])
            if dropout is not None:
                state, factors = self._states[layer], self._factors[layer]
                dropout.draw(layer, factors)
                np.multiply(state, factors, out=state)
            source = self._sources[layer]
        product(parameters.transposed[-1], source, outputs)

    def backward(self, parameters: NetworkParameters, gradients: NetworkParameters) -> None:
        """Write the gradients of the last forward pass, given `output_grad`."""
        product, grad = self._product, self.output_grad
        for layer in range(len(self._sources), 0, -1):
            product(self._sources[layer - 1], self._transposed_grads[layer], gradients.matrices[layer])
            product(parameters.without_bias[layer], grad, self._source_grads[layer - 1])
            grad = self._grads[layer - 1]
            if self._dropout is not None:
                np.multiply(grad, self._factors[layer - 1], out=grad)
            grad_tensor, state = self._grad_tensors[layer - 1], self._state_tensors[layer - 1]
            if self._is_relu:
                _relu_backward(grad_tensor, state, 0, grad_input=grad_tensor)  # dropped nodes are 0, too
            else:
                message, activated = self._message_tensors[layer - 1], self._activated[layer - 1]
                grad_tensor.copy_(self._activation.backward(grad_tensor, message, activated))
        product(self._inputs, self._transposed_grads[0], gradients.matrices[0])
        if self._embedding is not None:
            product(parameters.without_bias[0], grad, self._embedded_grad)
            if self._n_clamped:
                for source_grad in self._source_grads:
                    self._embedded_grad += source_grad[..., : self._n_clamped, :]
            self._embedding.backward(parameters.embedding, self._embedded_grad, gradients.embedding)
