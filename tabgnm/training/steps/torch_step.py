"""The training step with torch operations, for every network, device, precision and loss."""

from __future__ import annotations

import torch
from torch import Tensor

from tabgnm.nn.message_passing import backward, forward
from tabgnm.training.model_state import ModelState
from tabgnm.training.row_batches import Batch, Block, BlockRows
from tabgnm.training.threads import start_torch_threads, torch_threads
from tabgnm.training.validation import add_losses

# Up to this many multiply-adds in the forward pass of a step, a second thread hardly helps, and costs several times as
# much as it gains if another program uses its core.
_ONE_THREAD_WORK = 12_000_000


class TorchStep:
    """Training steps with `message_passing.forward` and `backward` on stacked weights.

    Used if the faster steps do not support a network: for message-passing variants and gates of the l0 penalty, and on
    a GPU, among others, for more than 128 outputs, float64 and user-defined losses.
    """

    def __init__(self, state: ModelState) -> None:
        self._state = state
        work = len(state.flat) * state.batch_size * state.shape.n_effective_parameters()
        self.n_math_threads = state.n_threads if work > _ONE_THREAD_WORK else 1
        if self.n_math_threads > 1 and state.flat.is_cpu:
            with torch_threads(self.n_math_threads):
                start_torch_threads()
        state.dropout.allocate(rows_last=False)
        # With bf16, copies of the weights and gradients, to which the body's are rounded for every product.
        low = torch.bfloat16 if state.settings.precision == "bf16" else None
        self._low = None if low is None else (state.flat.to(low), torch.zeros_like(state.flat, dtype=low))
        self._views: dict[int, tuple[dict[str, Tensor], dict[str, Tensor]]] = {}

    def train_block(self, block: Block, rows: BlockRows, train_loss: Tensor) -> None:
        """Take the steps of a block, and add the losses of its rows times their shares to `train_loss` (M,)."""
        n = block.n_models
        # Zeros, because models that have no more batches leave places that the loss still reads.
        outputs = self._state.flat.new_zeros(n, block.n_positions, self._state.shape.n_outputs)
        for batch, rates in zip(block.batches, rows.rates, strict=True):
            self._step(batch, rows, rates, outputs)
        add_losses(self._state.settings.loss, outputs, rows.y, rows.shares, train_loss[:n])

    def _step(self, batch: Batch, rows: BlockRows, rates: Tensor, outputs: Tensor) -> None:
        state, shape, loss = self._state, self._state.shape, self._state.settings.loss
        models, places = slice(0, batch.n_models), slice(batch.start, batch.start + batch.n_rows)
        parameters, gradients = self._views_of(batch.n_models)
        flat, grad = state.flat[models], state.grad[models]
        uniform = None if state.gates is None else state.gates.open_randomly(flat, models)
        if self._low is not None:
            self._low[0][models].copy_(flat if state.gates is None else state.gates.effective[models])
        x = rows.x[models, places, : shape.n_inputs]
        trace = forward(shape, parameters, x, state.dropout.factors(models, batch.n_rows), keep=True)
        output = trace.output.to(flat.dtype)
        outputs[models, places] = output
        # Not in place: the gradient belongs to the loss, which may be the user's.
        grad_output = loss.gradient(output, rows.y[models, places]) * rows.weights[models, places].unsqueeze(-1)
        backward(shape, parameters, trace, grad_output.to(trace.output.dtype), gradients)
        if self._low is not None:
            body = slice(0, state.layout.n_body)  # the gradients of embeddings are already in place
            grad[:, body].copy_(self._low[1][models, body])
        if state.gates is not None:
            assert uniform is not None
            state.gates.backward(flat, grad, models, uniform)
        state.adam.step(models, batch.index, rates)

    def _views_of(self, n_models: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return the parameters and gradients of the first models by name."""
        if n_models not in self._views:
            state, models = self._state, slice(0, n_models)
            flat = state.flat if state.gates is None else state.gates.effective
            low, grad_low = (None, None) if self._low is None else (half[models] for half in self._low)
            self._views[n_models] = self._by_name(flat[models], low), self._by_name(state.grad[models], grad_low)
        return self._views[n_models]

    def _by_name(self, flat: Tensor, low: Tensor | None) -> dict[str, Tensor]:
        """Return views of `low`, if it is not None, except that embeddings always have the precision of `flat`."""
        layout, embedding = self._state.layout, self._state.shape.embedding
        views = layout.views(flat if low is None else low)
        if low is not None and embedding is not None:
            exact = layout.views(flat)
            views |= {name: exact[name] for name in embedding.parameter_shapes()}
        return views

    def outputs(self, x: Tensor) -> Tensor:
        """Return the outputs (M, L, c) of all models, without dropout, for rows x (M, L, at least m)."""
        state = self._state
        flat = state.flat if state.gates is None else state.gates.fixed(state.flat)
        parameters = self._by_name(flat, None if self._low is None else flat.to(self._low[0].dtype))
        return forward(state.shape, parameters, x[..., : state.shape.n_inputs]).output.to(flat.dtype)

    def close(self) -> None:
        """Do nothing: there are no threads to release."""
