"""The training step on a GPU with Triton kernels: two per layer, and three more for learned embeddings."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tabgnm.nn.embeddings import InputEmbedding
from tabgnm.nn.shapes import body_of, has_no_variant_but_clamping
from tabgnm.training import kernels
from tabgnm.training.model_state import ModelState
from tabgnm.training.row_batches import ALIGN, Batch, Block, BlockRows
from tabgnm.training.validation import VALIDATION_ROWS, add_losses


class _Places(NamedTuple):
    """Columns of the buffer between two layers: those that the first writes, and those that the second reads."""

    written: slice
    read: slice
    n_columns: int  # of both, and of padding

    @classmethod
    def after(cls, n_before: int, n_clamped: int, n_written: int, n_read: int) -> _Places:
        """Return the columns that follow `n_before` others; the clamped inputs come before the states."""
        first_state = n_before + n_clamped
        n_columns = -(-(n_clamped + n_written) // ALIGN) * ALIGN
        return cls(slice(first_state, first_state + n_written), slice(n_before, n_before + n_read), n_columns)


class CudaStep:
    """Training steps of networks without message-passing variants other than `clamp_inputs`, one layer at a time.

    What the layers except the first read is side by side in one buffer: the clamped inputs, if there are any, followed
    by the states of the previous layer. The gradients of all layers are in another one; every step reuses both. The
    gradient of a weight is never stored: the kernel that computes it also performs the optimizer's step.
    """

    def __init__(self, state: ModelState) -> None:
        adam, shape, precision = state.adam, state.shape, state.settings.precision
        body, device = body_of(shape), state.flat.device
        layers = kernels.kernels_for(device, "layers")
        assert layers is not None
        self._layers, self._n_parts, self._activation = layers, layers.PARTS[precision], body.activation
        self._flat, self._loss = state.flat, state.settings.loss
        self._n_columns, self._n_outputs = shape.n_inputs, shape.n_outputs
        self.n_math_threads = state.n_threads

        parameters = state.layout.padded_views(state.flat)
        self._weights = [(parameters[weight], parameters[bias]) for weight, bias in body.layer_names]
        n_inputs, widths = self._weights[0][0].shape[1], [weight.shape[2] for weight, _ in self._weights]
        self._n_clamped = body.n_inputs if body.clamp_inputs else 0
        self._n_free = body.dropout_widths  # without padding
        self._places: list[_Places] = []
        n_columns = 0
        for (weight, _), (following, _) in itertools.pairwise(self._weights):
            self._places.append(_Places.after(n_columns, self._n_clamped, weight.shape[2], following.shape[1]))
            n_columns += self._places[-1].n_columns
        buffers = layers.OptimizerBuffers(*adam.buffers)
        firsts = [0, *(own.read.start for own in self._places)]
        sizes = [
            layers.LayerSize(*weight.shape[1:], first) for (weight, _), first in zip(self._weights, firsts, strict=True)
        ]
        self._update = layers.Update(sizes, buffers, adam.settings.betas)
        self._embedding: Any = None  # its module may not be available
        if shape.embedding is not None:
            embeddings = kernels.kernels_for(device, "embedding")
            assert embeddings is not None
            self._embedding = embeddings.Embedding(shape.embedding, buffers, adam.settings.betas, state.layout.offsets)

        ends = list(itertools.accumulate(widths))
        self._grad_columns = [slice(end - width, end) for width, end in zip(widths, ends, strict=True)]
        # The gradient of embedded inputs follows those of the layers. A single layer has no states.
        size, n_embedded = (len(state.flat), state.batch_size), 0 if self._embedding is None else n_inputs
        self._dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        self._inputs = torch.zeros(*size, n_embedded, dtype=self._dtype, device=device)
        self._states = torch.zeros(*size, max(ALIGN, n_columns), dtype=self._dtype, device=device)
        self._slopes = None if body.activation == "relu" else torch.zeros_like(self._states)
        self._grads = torch.zeros(*size, sum(widths) + n_embedded, dtype=torch.float32, device=device)
        dropout = state.dropout
        dropout.allocate(rows_last=False)
        self._scales = dropout.scales if dropout.needed else None
        self._dropout = [(stream.states, dropout.thresholds, dropout.scales) for stream in dropout.streams]

    @staticmethod
    def supports(state: ModelState) -> bool:
        """Whether there are kernels for these models."""
        shape, settings, device = state.shape, state.settings, state.flat.device
        body = body_of(shape)
        return (
            state.flat.dtype == torch.float32
            and state.gates is None
            and state.adam.thresholds is None
            and kernels.loss_kind(settings.loss) is not None
            and shape.n_outputs <= kernels.MAX_OUTPUTS
            and has_no_variant_but_clamping(shape)
            and body.activation in kernels.ACTIVATIONS
            and max(state.batch_size, VALIDATION_ROWS) * 2 * shape.activations_per_row < 2**31  # 32-bit offsets
            and kernels.kernels_for(device, "layers") is not None
            and kernels.kernels_for(device, "epochs") is not None
            and (shape.embedding is None or CudaStep._supports_embedding(shape.embedding, device))
        )

    @staticmethod
    def _supports_embedding(embedding: InputEmbedding, device: torch.device) -> bool:
        largest = max(embedding.n_basis, embedding.numeric_dim, embedding.level_dim)
        n_weights = embedding.n_basis * embedding.numeric_dim
        return (
            embedding.numeric in kernels.NUMERIC_KINDS
            and largest <= kernels.MAX_OUTPUTS
            and n_weights <= kernels.MAX_EMBEDDED
            and kernels.kernels_for(device, "embedding") is not None
        )

    def train_block(self, block: Block, rows: BlockRows, train_loss: Tensor) -> None:
        """Take the steps of a block, and add the losses of its rows times their shares to `train_loss` (M,)."""
        outputs = self._flat.new_empty(block.n_models, block.n_positions, self._n_outputs)
        for batch, rates in zip(block.batches, rows.rates, strict=True):
            self._step(batch, rows, rates, outputs)
        add_losses(self._loss, outputs, rows.y, rows.shares, train_loss[: block.n_models])

    def _step(self, batch: Batch, rows: BlockRows, rates: Tensor, outputs: Tensor) -> None:
        layers, parts, last = self._layers, self._n_parts, len(self._weights) - 1
        models, positions = slice(0, batch.n_models), slice(batch.start, batch.start + batch.n_rows)
        own = models, slice(0, batch.n_rows)  # in buffers with the size of a batch
        x = inputs = rows.x[models, positions]
        if self._embedding is not None:
            inputs = self._inputs[own]
            self._embedding.forward(self._flat, x, inputs)
        held, all_slopes = self._states[own], None if self._slopes is None else self._slopes[own]
        states = [held[..., places.written] for places in self._places]
        slopes = [None if all_slopes is None else all_slopes[..., places.written] for places in self._places]
        grads = [self._grads[own][..., columns] for columns in self._grad_columns]
        sources = self._sources(inputs, held, slopes, self._dropout or [None] * last)
        read = rows.y[models, positions], rows.weights[models, positions]
        layers.output_layer(
            self._loss, sources[last], *self._weights[last], *read, outputs[models, positions], grads[last], parts
        )
        by_inputs = self._grads[own][..., self._grad_columns[-1].stop :]
        for layer in range(last, 0, -1):
            weight, state = self._weights[layer][0], states[layer - 1] if self._slopes is None else None
            if self._n_clamped:
                if self._embedding is not None:
                    layers.backward_layer(
                        weight[:, : self._n_clamped], grads[layer], by_inputs, parts, adds=layer < last
                    )
                weight = weight[:, self._n_clamped : self._n_clamped + self._n_free[layer - 1]]
            layers.backward_layer(weight, grads[layer], grads[layer - 1], parts, state, slopes[layer - 1], self._scales)
        if self._embedding is not None:
            adds = bool(self._n_clamped) and last > 0
            layers.backward_layer(self._weights[0][0], grads[0], by_inputs, parts, adds=adds)
            self._embedding.step(x, by_inputs, rates)
        self._update(inputs, self._states, self._grads, rates, parts)

    def _sources(
        self, inputs: Tensor, held: Tensor, slopes: Sequence[Tensor | None], dropout: Sequence[Any]
    ) -> list[Tensor]:
        """Compute the hidden layers into `held`, the buffer for all of them; return what each layer reads."""
        sources = [inputs, *(held[..., places.read] for places in self._places)]
        if self._n_clamped and self._places:
            clamped = held.view(*held.shape[:2], len(self._places), -1)  # all hidden layers are equally wide
            clamped[..., : self._n_clamped].copy_(inputs[..., : self._n_clamped].unsqueeze(2))
        for layer, places in enumerate(self._places):
            arguments = sources[layer], *self._weights[layer], held[..., places.written], self._n_parts
            self._layers.forward_layer(*arguments, self._activation, slopes[layer], dropout[layer])
        return sources

    def outputs(self, x: Tensor) -> Tensor:
        """Return the outputs (M, L, c) of all models, without dropout, for rows x (M, L, at least m)."""
        inputs = x = x[..., : self._n_columns]
        if self._embedding is not None:
            inputs = x.new_zeros(*x.shape[:2], self._inputs.shape[2], dtype=self._dtype)
            self._embedding.forward(self._flat, x, inputs)
        new, none = x.new_zeros if self._n_clamped else x.new_empty, [None] * len(self._places)
        held = new(*x.shape[:2], self._states.shape[2], dtype=self._dtype)
        source = self._sources(inputs, held, none, none)[-1]
        weight, bias = self._weights[-1]
        outputs = x.new_empty(*x.shape[:2], weight.shape[2], dtype=torch.float32)
        self._layers.forward_layer(source, weight, bias, outputs, self._n_parts, "identity")
        return outputs[..., : self._n_outputs]

    def close(self) -> None:
        """Do nothing: there are no threads to release."""
