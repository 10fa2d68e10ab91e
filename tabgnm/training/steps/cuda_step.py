"""The training step on a GPU with Triton kernels: two per layer, and three more for learned embeddings."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor

from tabgnm.nn.embeddings import InputEmbedding
from tabgnm.nn.shapes import EmbeddedShape
from tabgnm.training import kernels
from tabgnm.training.model_state import ModelState
from tabgnm.training.row_batches import Batch, Block, BlockRows
from tabgnm.training.validation import Validation, add_losses


class CudaStep:
    """Training steps of networks without message-passing variants, one layer at a time.

    The states of all layers are side by side in one buffer, and so are their gradients; every step reuses both. The
    gradient of a weight is never stored: the kernel that computes it also performs the optimizer's step.
    """

    def __init__(self, state: ModelState) -> None:
        adam, shape, precision = state.adam, state.shape, state.settings.precision
        body = shape.body if isinstance(shape, EmbeddedShape) else shape
        device = state.flat.device
        layers = kernels.layer_kernels(device)
        assert layers is not None
        self._layers, self._n_parts, self._activation = layers, layers.PARTS[precision], body.activation
        self._flat, self._loss = state.flat, state.settings.loss
        self._n_columns, self._n_outputs = shape.n_inputs, shape.n_outputs
        self.n_math_threads = state.n_threads

        parameters = state.layout.padded_views(state.flat)
        self._weights = [(parameters[weight], parameters[bias]) for weight, bias in body.layer_names]
        n_inputs, widths = self._weights[0][0].shape[1], [weight.shape[2] for weight, _ in self._weights]
        penalties = adam.l2, adam.l1_gradient, adam.decay, adam.l1_threshold
        buffers = layers.OptimizerBuffers(state.flat, adam.exp_avg, adam.exp_avg_sq, adam.factors, *penalties)
        self._update = layers.Update([n_inputs, *widths], buffers, adam.settings.betas)
        self._embedding: Any = None  # its module may not be available
        if shape.embedding is not None:
            embeddings = kernels.embedding_kernels(device)
            assert embeddings is not None
            self._embedding = embeddings.Embedding(shape.embedding, buffers, adam.settings.betas, state.layout.offsets)

        ends = list(itertools.accumulate(widths))
        self._columns = [slice(end - width, end) for width, end in zip(widths, ends, strict=True)]
        # The gradient of embedded inputs follows those of the layers. A single layer has no states.
        size, n_embedded = (len(state.flat), state.batch_size), 0 if self._embedding is None else n_inputs
        self._dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        self._inputs = torch.zeros(*size, n_embedded, dtype=self._dtype, device=device)
        self._states = torch.zeros(*size, max(16, sum(widths[:-1])), dtype=self._dtype, device=device)
        self._slopes = None if body.activation == "relu" else torch.zeros_like(self._states)
        self._grads = torch.zeros(*size, sum(widths) + n_embedded, device=device)
        dropout = state.dropout
        dropout.allocate(rows_last=False)
        self._scales = dropout.scales if dropout.needed else None
        self._dropout = [(stream.states, dropout.thresholds, dropout.scales) for stream in dropout.streams]

    @staticmethod
    def supports(state: ModelState) -> bool:
        """Whether there are kernels for these models."""
        shape, settings, device = state.shape, state.settings, state.flat.device
        body = shape.body if isinstance(shape, EmbeddedShape) else shape
        return (
            device.type == "cuda"
            and state.flat.dtype == torch.float32
            and state.gates is None
            and settings.clip_norm is None
            and state.adam.thresholds is None
            and kernels.loss_kind(settings.loss) is not None
            and shape.n_outputs <= kernels.MOST_OUTPUTS
            and body.has_no_variant
            and body.activation in kernels.ACTIVATIONS
            and state.batch_size * 2 * shape.activations_per_row < 2**31  # offsets are 32-bit integers
            and kernels.layer_kernels(device) is not None
            and kernels.epoch_kernels(device) is not None
            and (shape.embedding is None or CudaStep._supports_embedding(shape.embedding, device))
        )

    @staticmethod
    def _supports_embedding(embedding: InputEmbedding, device: torch.device) -> bool:
        largest = max(embedding.n_basis, embedding.numeric_dim, embedding.level_dim)
        n_weights = embedding.n_basis * embedding.numeric_dim
        fits = largest <= kernels.MOST_OUTPUTS and n_weights <= kernels.MOST_EMBEDDED
        return fits and kernels.embedding_kernels(device) is not None

    def train_block(self, block: Block, rows: BlockRows, train_loss: Tensor) -> None:
        """Take the steps of a block, and add the losses of its rows times their shares to `train_loss` (M,)."""
        outputs = torch.empty(block.n_models, block.n_positions, self._n_outputs, device=self._flat.device)
        for batch, rates in zip(block.batches, rows.rates, strict=True):
            self._step(batch, rows, rates, outputs)
        add_losses(self._loss, outputs, rows.y, rows.shares, train_loss[: block.n_models])

    def _step(self, batch: Batch, rows: BlockRows, rates: Tensor, outputs: Tensor) -> None:
        layers, parts, last = self._layers, self._n_parts, len(self._weights) - 1
        models, places = slice(0, batch.n_models), slice(batch.start, batch.start + batch.n_rows)
        own = models, slice(0, batch.n_rows)  # in buffers with the size of a batch
        x = inputs = rows.x[models, places]
        if self._embedding is not None:
            inputs = self._inputs[own]
            self._embedding.forward(self._flat, x, inputs)
        states = [inputs, *(self._states[own][..., columns] for columns in self._columns[:-1])]
        slopes = [None if self._slopes is None else self._slopes[own][..., columns] for columns in self._columns[:-1]]
        grads = [self._grads[own][..., columns] for columns in self._columns]

        for layer in range(last):
            target, dropout = states[layer + 1], self._dropout[layer] if self._dropout else None
            source, weights = states[layer], self._weights[layer]
            layers.forward_layer(source, *weights, target, parts, self._activation, slopes[layer], dropout)
        read = rows.y[models, places], rows.weights[models, places]
        layers.output_layer(
            self._loss, states[last], *self._weights[last], *read, outputs[models, places], grads[last], parts
        )
        for layer in range(last, 0, -1):
            weight, state = self._weights[layer][0], states[layer] if self._slopes is None else None
            layers.backward_layer(weight, grads[layer], grads[layer - 1], parts, state, slopes[layer - 1], self._scales)
        if self._embedding is not None:
            by_inputs = self._grads[own][..., self._columns[-1].stop :]
            layers.backward_layer(self._weights[0][0], grads[0], by_inputs, parts)
            self._embedding.step(x, by_inputs, rates)
        self._update(inputs, self._states, self._grads, rates, parts)

    def validate(self, validation: Validation) -> None:
        """Add the outputs for all pieces of the validation rows to `validation`."""
        for piece in validation.pieces(slice(0, len(self._flat))):
            validation.add(piece, self._outputs(piece.x[..., : self._n_columns]))

    def _outputs(self, x: Tensor) -> Tensor:
        """Return the outputs (M, L, c) of all models for rows `x` (M, L, m), without dropout."""
        state, last = x, len(self._weights) - 1
        if self._embedding is not None:
            state = x.new_zeros(*x.shape[:2], self._inputs.shape[2], dtype=self._dtype)
            self._embedding.forward(self._flat, x, state)
        for layer, (weight, bias) in enumerate(self._weights):
            source, dtype = state, self._dtype if layer < last else torch.float32
            state = x.new_empty(*x.shape[:2], weight.shape[2], dtype=dtype)
            activation = self._activation if layer < last else "identity"
            self._layers.forward_layer(source, weight, bias, state, self._n_parts, activation)
        return state[..., : self._n_outputs]

    def close(self) -> None:
        """Do nothing: there are no threads to release."""
