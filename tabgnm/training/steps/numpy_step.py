"""The training step on a CPU, in NumPy: which thread takes which models, or rows, through the steps of a block."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from tabgnm.training.model_state import ModelState
from tabgnm.training.row_batches import Batch, Block, BlockRows
from tabgnm.training.steps.numpy_batches import BatchRows
from tabgnm.training.steps.numpy_network import Array, DropoutStreams, NetworkParameters, NetworkPass, body_of
from tabgnm.training.thread_pool import ThreadPool
from tabgnm.training.validation import Validation, add_losses

_CACHE_BYTES = 2**22  # of what a group of models works on; larger groups gain little, and divide less evenly
# Multiply-adds of a forward pass: of a group, below which a thread of its own does not pay; of a model, from which on
# it pays to split its rows.
_GROUP_WORK = 1_000_000
_SPLIT_WORK = 4_000_000
_PART_ROWS = 16  # fewest rows of a part
_VALIDATION_NUMBERS = 2**16  # of the widest layer at a time


class NumpyStep:
    """Steps of networks without message-passing variants (but `clamp_inputs`) on a CPU.

    It exists because it is several times faster than `TorchStep` for small networks, see `numpy_network`, and uses
    several cores better for all of them. Each thread takes a group of models through all steps of a block, so that
    their weights and moments stay in the cache of its core. Models that are left over when all threads have equally
    many are trained one after the other, with the rows of each batch split among the threads. The division depends on
    sizes only, not on which thread is faster; so the result is always the same.
    """

    n_math_threads = 1

    @staticmethod
    def supports(state: ModelState) -> bool:
        """Whether these models can be trained by this step."""
        body = body_of(state.shape)
        variants = body.combine != "none" or body.persistent_outputs or body.tied or body.learn_initial
        return state.flat.device.type == "cpu" and not variants and state.gates is None

    def __init__(self, state: ModelState) -> None:
        state.dropout.allocate(rows_last=True)
        self._state = state
        self._dtype = state.flat.numpy().dtype
        self._groups, self._split_models = _divide(state)
        self._pool = ThreadPool(state.n_threads)
        self._buffers = [_new_buffers(state) for _ in range(state.n_threads)]  # of each thread, or of each part
        # Each part of a batch has a gradient of its own; that of the first part is the one that Adam reads.
        n_more = state.n_threads - 1 if self._split_models else 0
        self._grads = [state.grad, *(torch.empty_like(state.grad) for _ in range(n_more))]
        self._views: dict[tuple[int, ...], tuple[NetworkParameters, NetworkParameters, DropoutStreams | None]] = {}
        widest = max(max(size) for size in state.shape.parameter_shapes().values())
        self._validation_rows = max(state.batch_size, _VALIDATION_NUMBERS // widest)

    def train_block(self, block: Block, rows: BlockRows, train_loss: Tensor) -> None:
        """Take the steps of a block, and add the losses of its rows times their shares to `train_loss` (M,)."""
        groups = self._groups
        with np.errstate(all="ignore"):  # a model that diverges is noticed at the end of the epoch
            self._pool.run(
                lambda thread, i: self._train(groups[i], [thread], block, rows, train_loss), n_tasks=len(groups)
            )
            for model in self._split_models:
                self._train(model, range(self._state.n_threads), block, rows, train_loss)

    def _train(self, models: slice, buffers: Sequence[int], block: Block, rows: BlockRows, train_loss: Tensor) -> None:
        """Take some models through all steps; with several `buffers`, the rows of a batch are split among threads."""
        models = slice(models.start, min(models.stop, block.n_models))
        if models.start >= models.stop:
            return
        state, rates, first_index = self._state, rows.rates.unbind(), block.batches[0].index
        # By class first, as passes have them. Rows beyond a model's own are not written, and count nothing.
        outputs = np.zeros((_length(models), state.shape.n_outputs, block.n_positions), self._dtype)
        for own, batches in _runs(block, models):
            n_parts = max(1, min(len(buffers), batches[0].n_rows // _PART_ROWS))
            parts = [
                self._load_part(buffers[i], rows, own, batches, part_rows, i)
                for i, part_rows in enumerate(_ranges(batches[0].n_rows, n_parts))
            ]
            grad, *other_grads = (grads[own].numpy() for grads in self._grads[:n_parts])
            for i, batch in enumerate(batches):
                if n_parts == 1:
                    parts[0].compute_gradient(i)
                else:
                    self._pool.run(partial(_compute_gradient, parts, i), n_parts)
                    for other in other_grads:
                        np.add(grad, other, out=grad)
                state.adam.step(own, batch.index, rates[batch.index - first_index])
            for part in parts:
                part.batches.copy_outputs(_by_batch(outputs.swapaxes(1, 2), slice(0, _length(own)), batches, part.rows))
        by_row = torch.from_numpy(outputs).mT
        add_losses(state.settings.loss, by_row, rows.y[models], rows.shares[models], train_loss[models])

    def _load_part(
        self, buffers: int, rows: BlockRows, models: slice, batches: list[Batch], part: slice, which_grad: int
    ) -> _Part:
        """Copy the rows `part` of each batch, and return what computes their gradients."""
        networks, batch_rows = self._buffers[buffers]
        loaded = batch_rows(_length(models), _length(part), len(batches))
        loaded.load(*(_by_batch(values.numpy(), models, batches, part) for values in rows[:3]))
        key = models.start, models.stop, part.start, part.stop
        if key not in self._views:
            state = self._state
            self._views[key] = (
                NetworkParameters(state.layout, state.flat[models]),
                NetworkParameters(state.layout, self._grads[which_grad][models]),
                DropoutStreams(state.dropout, models, part) if state.dropout.needed else None,
            )
        return _Part(part, *self._views[key], networks(_length(models), _length(part)), loaded)

    def validate(self, validation: Validation) -> None:
        """Add the outputs for all pieces of the validation rows to `validation`."""
        groups = self._groups
        with np.errstate(all="ignore"):
            self._pool.run(lambda thread, i: self._validate(validation, groups[i], thread), len(groups))
            for model in self._split_models:
                self._validate(validation, model, None)

    def _validate(self, validation: Validation, models: slice, thread: int | None) -> None:
        """Add the outputs of some models, computed in this thread, or if None in all of them."""
        parameters = NetworkParameters(self._state.layout, self._state.flat[models])
        for piece in validation.pieces(models):
            x = piece.x.numpy()
            outputs = np.empty((len(x), self._state.shape.n_outputs, x.shape[1]), self._dtype)
            ranges = _ranges(x.shape[1], -(-x.shape[1] // self._validation_rows))

            work = partial(self._write_outputs, parameters, x, outputs, ranges)
            if thread is None:
                self._pool.run(work, len(ranges))
            else:
                for i in range(len(ranges)):
                    work(thread, i)
            validation.add(piece, torch.from_numpy(outputs).mT)

    def _write_outputs(
        self, parameters: NetworkParameters, x: Array, outputs: Array, ranges: list[slice], buffers: int, i: int
    ) -> None:
        network = self._buffers[buffers].network(len(x), _length(ranges[i]))
        outputs[:, :, ranges[i]] = network.outputs(parameters, x[:, ranges[i]])

    def close(self) -> None:
        """End the threads."""
        self._pool.close()


class _Part(NamedTuple):
    """Some rows of several batches, and what computes their gradients."""

    rows: slice
    parameters: NetworkParameters
    gradients: NetworkParameters
    dropout: DropoutStreams | None
    network: NetworkPass
    batches: BatchRows

    def compute_gradient(self, i: int) -> None:
        """Write the gradients of batch `i`."""
        _, parameters, gradients, dropout, network, batches = self
        network.forward(parameters, batches.x[i], batches.outputs[i], dropout)
        batches.output_gradient(i, network.output_grad, network.output_grad_tensor)
        network.backward(parameters, gradients)


def _compute_gradient(parts: list[_Part], i: int, thread: int, part: int) -> None:  # noqa: ARG001 - see ThreadPool
    parts[part].compute_gradient(i)


class _Buffers(NamedTuple):
    """Passes and batches by their sizes, made once. They are used by one thread at a time."""

    network: Callable[[int, int], NetworkPass]
    batches: Callable[[int, int, int], BatchRows]


def _new_buffers(state: ModelState) -> _Buffers:
    shape, loss, dtype = state.shape, state.settings.loss, state.flat.numpy().dtype
    return _Buffers(
        cache(lambda n_models, n_rows: NetworkPass(shape, n_models, n_rows, dtype)),
        cache(lambda n_models, n_rows, n_batches: BatchRows(shape, loss, n_models, n_rows, n_batches, dtype)),
    )


def _divide(state: ModelState) -> tuple[list[slice], list[slice]]:
    """Return groups of models that a thread trains together, and models whose rows are split among the threads."""
    n_models, n_threads, shape = len(state.flat), state.n_threads, state.shape
    work = state.batch_size * shape.n_effective_parameters()
    n_split = 0
    if n_threads > 1 and work >= _SPLIT_WORK:
        left_over, n_parts = n_models % n_threads, min(n_threads, state.batch_size // _PART_ROWS)
        # With n parts a model takes about 4 / (3 n) of its time; all of them have to be faster than one more round.
        n_split = left_over if 4 * left_over < 3 * n_parts else 0
    n_grouped = n_models - n_split
    n_numbers = 4 * state.layout.n_flat + 2 * state.batch_size * shape.activations_per_row
    n_groups = -(-n_grouped // max(1, _CACHE_BYTES // (n_numbers * state.flat.element_size())))
    n_busy = min(n_threads, n_grouped * work // _GROUP_WORK)
    if n_busy > 1:
        n_groups = -(-n_groups // n_busy) * n_busy  # equally many for each thread
    groups = _ranges(n_grouped, min(n_groups, n_grouped))
    return groups, [slice(i, i + 1) for i in range(n_grouped, n_models)]


def _runs(block: Block, models: slice) -> Iterator[tuple[slice, list[Batch]]]:
    """Yield consecutive batches with equally many rows and the same of these models, until none takes part."""

    def key(batch: Batch) -> tuple[int, int]:
        return batch.n_rows, min(models.stop, batch.n_models)

    for (_, stop), batches in itertools.groupby(block.batches, key):
        if stop > models.start:
            yield slice(models.start, stop), list(batches)


def _by_batch(values: Array, models: slice, batches: list[Batch], rows: slice) -> Array:
    """View some rows of each batch among `values` (M, L, ...), as (batches, n, rows, ...)."""
    first, n_rows = batches[0].start, batches[0].n_rows
    own = values[models, first : first + len(batches) * n_rows]
    return own.reshape(len(own), len(batches), n_rows, *own.shape[2:])[:, :, rows].swapaxes(0, 1)


def _ranges(n: int, n_ranges: int) -> list[slice]:
    """Cut range(n) into ranges as equal as they can be."""
    ends = [n * i // n_ranges for i in range(n_ranges + 1)] if n else []
    return [slice(first, end) for first, end in itertools.pairwise(ends)]


def _length(range_of: slice) -> int:
    length: int = range_of.stop - range_of.start
    return length
