"""Message passing of a few models in NumPy, forward and backward, in reused buffers.

A step of a small network consists of some fifty operations of a few microseconds each, so the overhead of calls
matters, above all with several threads: between these operations, only one of them can run. Four things keep calls few
and fast:

- NumPy has less overhead than torch; torch is used only where its kernels are faster.
- All arrays of a step have fixed addresses, so a pass is a list of calls that is made once, with their arguments.
- In the flat buffer, the bias of a layer follows its weights, so that both are one matrix: with a node that is always
  1, one product handles both, forward and backward.
- Rows are the last dimension, (nodes, rows), so that inner loops run along the many rows, not the few outputs.

Arrays are (n, nodes, rows) for n models, and (nodes, rows) for a single one, because fewer dimensions are faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tabgnm.nn.activations import get_activation
from tabgnm.nn.shapes import Shape, body_of, has_no_variant_but_clamping
from tabgnm.training.counter_random import STREAM_FACTOR, STREAM_STEP
from tabgnm.training.dropout import Dropout
from tabgnm.training.flat_weights import FlatLayout
from tabgnm.training.steps.numpy_activations import Call, activation_call, gradient_call
from tabgnm.training.steps.numpy_embedding import NUMERIC_KINDS, EmbeddingPass
from tabgnm.training.steps.numpy_losses import drop_single

Array = NDArray[Any]


def run_calls(calls: Iterable[Call]) -> None:
    """Make some calls, one after the other."""
    for call in calls:
        call()


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
        self._thresholds = drop_single(dropout.thresholds[models].numpy())
        self._scales = drop_single(dropout.scales[models].numpy())

    def draw_calls(self, layer: int, out: Array) -> list[Call]:
        """Return calls that write the next factors of a hidden layer, counted from 0; each is 0 or the scale."""
        states, kept = self._states[layer], np.empty(out.shape, bool)
        unsigned = states.view(np.uint32)
        return [
            partial(np.multiply, unsigned, np.uint32(STREAM_FACTOR), unsigned),
            partial(np.add, unsigned, np.uint32(STREAM_STEP), unsigned),
            partial(np.greater_equal, states, self._thresholds, kept),
            partial(np.multiply, kept, self._scales, out),
        ]


class NetworkPass:
    """Forward and backward pass of `n_models` models with `n_rows` rows each, and their buffers.

    The shape may have any activation and an embedding; `clamp_inputs` is the only variant it may have, see `supports`.

    A training step makes `input_calls`, `forward_calls`, a call that writes `output_grad`, `backward_calls` and
    `input_gradient_calls`. Only the first and the last of them depend on the rows.

    Attributes
    ----------
    output, output_grad : array
        The outputs, and the gradient of the loss with respect to them, (n, c, rows).
    """

    @staticmethod
    def supports(shape: Shape) -> bool:
        """Whether networks of this shape can be computed by this class."""
        known = shape.embedding is None or shape.embedding.numeric in NUMERIC_KINDS
        return known and has_no_variant_but_clamping(shape)

    def __init__(self, shape: Shape, dtype: np.dtype[Any], n_models: int, n_rows: int) -> None:
        def empty(n_nodes: int) -> Array:
            return drop_single(np.empty((n_models, n_nodes, n_rows), dtype))

        body = body_of(shape)
        sizes = body.parameter_shapes()
        *hidden, n_outputs = (sizes[bias][0] for _, bias in body.layer_names)
        self._activation = body.activation
        # Clamped inputs come before the other nodes in the sources of a layer, and in their gradient.
        self._n_clamped = n_clamped = body.n_inputs if body.clamp_inputs else 0
        self._sources = [empty(n_clamped + width + 1) for width in hidden]
        for source in self._sources:
            source[..., -1, :] = 1
        self._states = [source[..., n_clamped:-1, :] for source in self._sources]
        self._arguments = None if get_activation(self._activation).in_place else [empty(width) for width in hidden]
        self._undropped, self._factors = ([empty(width) for width in hidden] for _ in range(2))  # with dropout
        self._source_grads = [empty(n_clamped + width) for width in hidden]
        self.output, self.output_grad = empty(n_outputs), empty(n_outputs)
        self._grads = [*(grad[..., n_clamped:, :] for grad in self._source_grads), self.output_grad]
        self._transposed_grads = [grad.swapaxes(-2, -1) for grad in self._grads]
        self._embedding: EmbeddingPass | None = None
        if shape.embedding is not None:
            self._embedding = EmbeddingPass(shape.embedding, dtype, n_models, n_rows)
            self._embedded, self._embedded_grad = empty(body.n_inputs + 1), empty(body.n_inputs)
            self._embedded[..., -1, :] = 1
        # For two matrices, the method takes half a microsecond less than `np.matmul`.
        self._product: Callable[[Array, Array, Array], Array] = np.ndarray.dot if n_models == 1 else np.matmul
        self._calls_of: dict[NetworkParameters, list[Call]] = {}

    def outputs(self, parameters: NetworkParameters, x: Array) -> Array:
        """Return the outputs without dropout for rows `x`, see `input_calls`. The next pass overwrites them."""
        calls = self._calls_of.get(parameters)
        if calls is None:
            calls = self._calls_of[parameters] = self.forward_calls(parameters, None)
        run_calls(self.input_calls(parameters, x, dropout=False))
        run_calls(calls)
        return self.output

    def input_calls(self, parameters: NetworkParameters, x: Array, *, dropout: bool) -> list[Call]:
        """Return the calls that read rows `x`, (columns + 1, rows): the columns of a table, and ones."""
        if self._embedding is not None:
            return self._embedding.input_calls(x, self._embedded)
        return self._first_layer_calls(parameters, x, dropout=dropout)

    def forward_calls(self, parameters: NetworkParameters, dropout: DropoutStreams | None) -> list[Call]:
        """Return the other calls that write the outputs."""
        has_dropout = dropout is not None
        calls: list[Call] = []
        if self._embedding is not None:
            calls += self._embedding.forward_calls(parameters.embedding, self._embedded)
            calls += self._first_layer_calls(parameters, self._embedded, dropout=has_dropout)
        messages, activated = self._messages(dropout=has_dropout), self._activated(dropout=has_dropout)
        for layer, source in enumerate(self._sources):
            calls.append(activation_call(self._activation, messages[layer], activated[layer]))
            if dropout is not None:
                factors = self._factors[layer]
                calls += dropout.draw_calls(layer, factors)
                calls.append(partial(np.multiply, activated[layer], factors, self._states[layer]))
            calls.append(partial(self._product, parameters.transposed[layer + 1], source, messages[layer + 1]))
        return calls

    def _first_layer_calls(self, parameters: NetworkParameters, inputs: Array, *, dropout: bool) -> list[Call]:
        n = self._n_clamped
        calls: list[Call] = [
            partial(np.copyto, source[..., :n, :], inputs[..., :-1, :]) for source in self._sources if n
        ]
        return [*calls, partial(self._product, parameters.transposed[0], inputs, self._messages(dropout=dropout)[0])]

    def _activated(self, *, dropout: bool) -> list[Array]:
        """Return the values of activations in each hidden layer, which dropout multiplies to give the states."""
        return self._undropped if dropout else self._states

    def _messages(self, *, dropout: bool) -> list[Array]:
        """Return the arguments of activations in each hidden layer, and the outputs."""
        return [*(self._arguments or self._activated(dropout=dropout)), self.output]

    def backward_calls(
        self, parameters: NetworkParameters, gradients: NetworkParameters, *, dropout: bool
    ) -> list[Call]:
        """Return the calls that write the gradients of the last forward pass, given `output_grad`."""
        calls: list[Call] = []
        messages, activated = self._messages(dropout=dropout), self._activated(dropout=dropout)
        for layer in range(len(self._sources), 0, -1):
            place, grad = layer - 1, self._grads[layer - 1]
            calls.append(
                partial(self._product, self._sources[place], self._transposed_grads[layer], gradients.matrices[layer])
            )
            calls.append(
                self._source_grad_call(parameters.without_bias[layer], self._grads[layer], self._source_grads[place])
            )
            if dropout:
                calls.append(partial(np.multiply, grad, self._factors[place], grad))
            calls.append(gradient_call(self._activation, grad, messages[place], activated[place]))
        if self._embedding is not None:
            inputs, grad, n = self._embedded, self._embedded_grad, self._n_clamped
            calls.append(partial(self._product, inputs, self._transposed_grads[0], gradients.matrices[0]))
            calls.append(self._source_grad_call(parameters.without_bias[0], self._grads[0], grad))
            calls += [partial(np.add, grad, source_grad[..., :n, :], grad) for source_grad in self._source_grads if n]
            calls += self._embedding.backward_calls(parameters.embedding, grad, gradients.embedding)
        return calls

    def input_gradient_calls(self, gradients: NetworkParameters, x: Array) -> list[Call]:
        """Return the calls of the backward pass that read rows `x`."""
        if self._embedding is not None:
            return []
        return [partial(self._product, x, self._transposed_grads[0], gradients.matrices[0])]

    def _source_grad_call(self, weights: Array, grad: Array, out: Array) -> Call:
        if weights.shape[-1] == 1:  # one output: NumPy takes ten times as long for this product
            factors = torch.from_numpy(weights), torch.from_numpy(grad)
            return partial(torch.mul, *factors, out=torch.from_numpy(out))
        return partial(self._product, weights, grad, out)
