"""The training step on a GPU by Triton kernels: two per layer, and three more for learned embeddings."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from tabgnm.nn.embeddings import InputEmbedding
from tabgnm.nn.losses import BinaryCrossEntropy, CrossEntropy, Huber, Pinball, SquaredError
from tabgnm.nn.shapes import EmbeddedShape
from tabgnm.training.kernels import (
    ACTIVATIONS,
    LOSS_KINDS,
    MOST_EMBEDDED,
    MOST_OUTPUTS,
    embedding_kernels,
    epoch_kernels,
    layer_kernels,
)
from tabgnm.training.model_state import ModelState
from tabgnm.training.row_batches import Batch, Block, BlockRows
from tabgnm.training.validation import Validation, add_losses

_LOSSES = (BinaryCrossEntropy, CrossEntropy, Huber, Pinball, SquaredError)


def _power_of_2(n: int) -> int:
    return 1 << (n - 1).bit_length()


class CudaStep:
    """Steps of networks without message-passing variants, a layer at a time.

    Chosen for float32 weights on a GPU, without gates, clipped gradients or losses of the user's own; `TorchStep` does
    the rest. States and gradients of all layers lie side by side in one buffer each, which every step uses again.
    """

    def __init__(self, state: ModelState) -> None:
        adam, shape, precision = state.adam, state.shape, state.settings.precision
        n_models, device = len(state.flat), state.flat.device
        body = shape.body if isinstance(shape, EmbeddedShape) else shape
        self._flat, self._loss, self._n_outputs = state.flat, state.settings.loss, shape.n_outputs
        self._activation, self._kernels = body.activation, layer_kernels(device)
        assert self._kernels is not None
        self._n_parts: int = self._kernels.PARTS[precision]
        self.n_math_threads = state.n_threads

        parameters = state.layout.padded_views(state.flat)
        self._weights = [parameters[weight] for weight, _ in body.layer_names]
        self._biases = [parameters[bias] for _, bias in body.layer_names]
        widths = [weight.shape[2] for weight in self._weights]
        n_inputs = self._weights[0].shape[1]
        buffers = self._kernels.OptimizerBuffers(
            adam.flat,
            adam.exp_avg,
            adam.exp_avg_sq,
            adam.factors,
            adam.l2,
            adam.l1_gradient,
            adam.decay,
            adam.l1_threshold,
        )
        self._update = self._kernels.Update([n_inputs, *widths], buffers, adam.settings.betas)

        # The gradient by embedded inputs stands behind those of the layers. A single layer has no states.
        self._dtype = torch.bfloat16 if precision == "bf16" else torch.float32  # that of x
        size = n_models, state.batch_size
        self._states = torch.zeros(*size, max(16, sum(widths[:-1])), dtype=self._dtype, device=device)
        self._slopes = None if body.activation == "relu" else torch.zeros_like(self._states)
        self._grads = torch.zeros(*size, sum(widths) + n_inputs * (shape.embedding is not None), device=device)
        ends = list(itertools.accumulate(widths))
        self._columns = [slice(end - width, end) for width, end in zip(widths, ends, strict=True)]

        self._embedding, self._inputs = None, torch.empty(0)
        if shape.embedding is not None:
            kernels = embedding_kernels(device)
            assert kernels is not None
            self._embedding = kernels.Embedding(shape.embedding, buffers, adam.settings.betas, state.layout.offsets)
            self._inputs = torch.zeros(*size, n_inputs, dtype=self._dtype, device=device)
        state.dropout.allocate(rows_last=False)
        self._dropout = state.dropout

    @staticmethod
    def supports(state: ModelState) -> bool:
        """Whether there are kernels for these models."""
        shape, settings, device = state.shape, state.settings, state.flat.device
        body = shape.body if isinstance(shape, EmbeddedShape) else shape
        # Numbers of a model in a buffer are counted in 32 bits.
        widest = sum(max(size) for size in shape.parameter_shapes().values())
        return (
            device.type == "cuda"
            and state.flat.dtype == torch.float32
            and state.gates is None
            and settings.clip_norm is None
            and type(settings.loss) in _LOSSES
            and settings.loss.name in LOSS_KINDS
            and body.has_no_variant
            and body.activation in ACTIVATIONS
            and shape.n_outputs <= MOST_OUTPUTS
            and state.batch_size * widest < 2**31
            and (shape.embedding is None or CudaStep._supports_embedding(shape.embedding, device))
            and layer_kernels(device) is not None
            and epoch_kernels(device) is not None
        )

    @staticmethod
    def _supports_embedding(embedding: InputEmbedding, device: torch.device) -> bool:
        held = _power_of_2(embedding.n_basis) * _power_of_2(embedding.numeric_dim)
        fits = held <= MOST_EMBEDDED and embedding.level_dim <= MOST_OUTPUTS
        return fits and embedding_kernels(device) is not None

    def train_block(self, block: Block, rows: BlockRows, train_loss: Tensor) -> None:
        """Take the steps of a block, and add the losses of its rows times their shares to `train_loss` (M,)."""
        n = block.n_models
        outputs = torch.empty(n, block.n_positions, self._n_outputs, device=self._flat.device)
        for batch, rates in zip(block.batches, rows.rates, strict=True):
            self._step(batch, rows, rates, outputs)
        add_losses(self._loss, outputs, rows.y, rows.shares, train_loss[:n])

    def _step(self, batch: Batch, rows: BlockRows, rates: Tensor, outputs: Tensor) -> None:
        kernels, parts, last = self._kernels, self._n_parts, len(self._weights) - 1
        models, places = slice(0, batch.n_models), slice(batch.start, batch.start + batch.n_rows)
        own = models, slice(0, batch.n_rows)  # in buffers of a batch
        x = rows.x[models, places]
        inputs = x
        if self._embedding is not None:
            inputs = self._inputs[own]
            self._embedding.forward(self._flat, x, inputs)
        states = [inputs, *(self._states[(*own, columns)] for columns in self._columns[:last])]
        grads = [self._grads[(*own, columns)] for columns in self._columns]
        slopes = [None if self._slopes is None else self._slopes[(*own, columns)] for columns in self._columns[:last]]
        dropout = self._dropout
        for layer in range(last):
            streams = (dropout.streams[layer].states, dropout.thresholds, dropout.scales) if dropout.needed else None
            kernels.forward_layer(
                states[layer],
                self._weights[layer],
                self._biases[layer],
                states[layer + 1],
                parts,
                self._activation,
                slopes[layer],
                streams,
            )
        kernels.output_layer(
            self._loss.name,
            self._loss.setting,
            states[last],
            self._weights[last],
            self._biases[last],
            rows.y[models, places],
            rows.weights[models, places],
            outputs[models, places],
            grads[last],
            parts,
        )
        scales = dropout.scales if dropout.needed else None
        for layer in range(last, 0, -1):
            weight, grad, before = self._weights[layer], grads[layer], grads[layer - 1]
            if self._slopes is None:
                kernels.backward_layer(weight, grad, before, parts, state=states[layer], scales=scales)
            else:
                kernels.backward_layer(weight, grad, before, parts, slope=slopes[layer - 1])
        if self._embedding is not None:
            grad_inputs = self._grads[(*own, slice(self._columns[-1].stop, None))]
            kernels.backward_layer(self._weights[0], grads[0], grad_inputs, parts)
            self._embedding.step(x, grad_inputs, rates)
        self._update(inputs, self._states, self._grads, rates, parts)

    def validate(self, validation: Validation) -> None:
        """Add the outputs for all pieces of the validation rows to `validation`."""
        for piece in validation.pieces(slice(0, len(self._flat))):
            validation.add(piece, self._outputs(piece.x))

    def _outputs(self, x: Tensor) -> Tensor:
        """Outputs (M, L, c) of all models for rows `x` (M, L, m), without dropout."""
        state, last = x, len(self._weights) - 1
        if self._embedding is not None:
            # What is added to align the inputs is read, too.
            state = torch.zeros(*x.shape[:2], self._weights[0].shape[1], dtype=self._dtype, device=x.device)
            self._embedding.forward(self._flat, x, state)
        for layer, (weight, bias) in enumerate(zip(self._weights, self._biases, strict=True)):
            before, is_last = state, layer == last
            dtype = torch.float32 if is_last else self._dtype
            state = torch.empty(*x.shape[:2], weight.shape[2], dtype=dtype, device=x.device)
            activation = "identity" if is_last else self._activation
            self._kernels.forward_layer(before, weight, bias, state, self._n_parts, activation)
        return state[..., : self._n_outputs]

    def close(self) -> None:
        """Nothing to give back."""
