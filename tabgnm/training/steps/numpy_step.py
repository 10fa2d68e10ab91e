"""The training step on a CPU, in NumPy: which thread takes which models, or rows, through the steps of a block."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from tabgnm.training.model_state import ModelState
from tabgnm.training.row_batches import Batch, Block, BlockRows
from tabgnm.training.steps.numpy_batches import BatchRows, batch_rows_class
from tabgnm.training.steps.numpy_network import (
    Array,
    DropoutStreams,
    NetworkParameters,
    NetworkPass,
    drop_single,
    has_numpy_pass,
)
from tabgnm.training.thread_pool import ThreadPool
from tabgnm.training.validation import Validation, add_losses

# Multiply-adds of a forward pass: fewest and most of a group, and fewest of a model that is worth splitting. The longer
# an operation takes, the less the threads wait for the interpreter lock between operations: with 40 networks of 100
# nodes, groups of 2 make two threads as slow as one. Groups that are too large are harder to divide evenly.
_SMALLEST_GROUP, _LARGEST_GROUP = 2_000_000, 40_000_000
_SMALLEST_SPLIT = 10_000_000
_PART_ROWS = 64  # fewest of a part: with 32 rows and 300 nodes, moving weights between the cores takes what is saved
_VALIDATION_NUMBERS = 2**16  # of the widest layer at a time

_Views = tuple[NetworkParameters, NetworkParameters, DropoutStreams | None]  # parameters, gradients, streams


class NumpyStep:
    """Training step for CPUs, chosen for networks without gates and without variants other than `clamp_inputs`.

    It is several times faster than `TorchStep` for small networks, see `numpy_network`, and uses several cores:

    - Models are divided into groups. A thread takes a group through all steps of a block before it takes the next one,
      so that weights and moments stay in the cache of its core.
    - Models left over when all threads have the same number are trained one after the other, with the rows of each
      batch split among the threads.

    The division depends on sizes and `n_threads` only, so the same call always gives the same bits.
    """

    n_math_threads = 1

    @staticmethod
    def supports(state: ModelState) -> bool:
        """Whether these models can be trained by this step."""
        return state.flat.device.type == "cpu" and has_numpy_pass(state.shape) and state.gates is None

    def __init__(self, state: ModelState) -> None:
        state.dropout.allocate(rows_last=True)
        self._state = state
        self._groups, self._split_models = _divide(state)
        self._pool = ThreadPool(state.n_threads)
        # Buffers by their sizes, for each thread, or for each part of the rows.
        self._dtype = dtype = state.flat.numpy().dtype
        loss, threads = state.settings.loss, range(state.n_threads)
        self._networks = [cache(partial(NetworkPass, state.shape, dtype)) for _ in threads]
        self._batches = [cache(partial(batch_rows_class(loss), state.shape, loss, dtype)) for _ in threads]
        # The first part of a split batch writes its gradient where Adam reads it, the others into these.
        n_more = _n_parts(state.batch_size, state.n_threads) - 1 if self._split_models else 0
        self._part_grads = [torch.zeros_like(state.grad[:1]) for _ in range(n_more)]
        self._views: dict[tuple[int, ...], _Views] = {}
        widest = max(max(size) for size in state.shape.parameter_shapes().values())
        self._validation_rows = max(state.batch_size, _VALIDATION_NUMBERS // widest)

    def train_block(self, block: Block, rows: BlockRows, train_loss: Tensor) -> None:
        """Take the steps of a block, and add the losses of its rows times their shares to `train_loss` (M,)."""
        groups = self._groups
        with np.errstate(all="ignore"):  # the trainer notices models that diverge
            self._pool.run(lambda thread, i: self._train(groups[i], [thread], block, rows, train_loss), len(groups))
            for model in self._split_models:
                self._train(model, range(1 + len(self._part_grads)), block, rows, train_loss)

    def _train(self, models: slice, buffers: Sequence[int], block: Block, rows: BlockRows, train_loss: Tensor) -> None:
        """Take some models through all steps; with several `buffers`, the rows of batches are split among threads."""
        models = slice(models.start, min(models.stop, block.n_models))
        if models.start >= models.stop:
            return
        state = self._state
        # Rows after a model's last batch are not written; their share is 0.
        outputs = np.zeros((_length(models), state.shape.n_outputs, block.n_positions), self._dtype)
        for own, batches in _runs(block, models):
            n_parts = _n_parts(batches[0].n_rows, len(buffers))
            grad, *other_grads = grads = [state.grad[own], *self._part_grads[: n_parts - 1]]
            parts = [
                self._load_part(buffers[i], rows, own, batches, part_rows, grads[i])
                for i, part_rows in enumerate(_ranges(batches[0].n_rows, n_parts))
            ]
            for i, batch in enumerate(batches):
                if n_parts == 1:
                    parts[0].compute_gradient(i)
                else:
                    self._pool.run(partial(_compute_gradient, parts, i), n_parts)
                    for other in other_grads:
                        grad += other
                state.adam.step(own, batch.index)
            for part in parts:
                part.batches.copy_outputs(_by_batch(outputs.swapaxes(1, 2), slice(0, _length(own)), batches, part.rows))
        by_row = torch.from_numpy(outputs).mT
        add_losses(state.settings.loss, by_row, rows.y[models], rows.shares[models], train_loss[models])

    def _load_part(
        self, buffers: int, rows: BlockRows, models: slice, batches: list[Batch], part: slice, grad: Tensor
    ) -> _Part:
        """Take the rows `part` of each batch, and return what computes their gradients."""
        size = _length(models), _length(part)
        loaded = self._batches[buffers](*size, len(batches))
        loaded.load(*(_by_batch(values.numpy(), models, batches, part) for values in rows[:3]))
        return _Part(part, *self._views_of(models, part, grad), self._networks[buffers](*size), loaded)

    def _views_of(self, models: slice, rows: slice, grad: Tensor) -> _Views:
        key = models.start, models.stop, rows.start, rows.stop, grad.data_ptr()
        if key not in self._views:
            state = self._state
            self._views[key] = (
                NetworkParameters(state.layout, state.flat[models]),
                NetworkParameters(state.layout, grad),
                DropoutStreams(state.dropout, models, rows) if state.dropout.needed else None,
            )
        return self._views[key]

    def validate(self, validation: Validation) -> None:
        """Add the outputs for all pieces of the validation rows to `validation`."""
        n_models, groups = len(self._state.flat), [*self._groups, *self._split_models]
        for piece in validation.pieces(slice(0, n_models)):
            n_rows = piece.x.shape[1]
            outputs = np.empty((n_models, self._state.shape.n_outputs, n_rows), self._dtype)
            tasks = list(itertools.product(groups, _ranges(n_rows, -(-n_rows // self._validation_rows))))
            with np.errstate(all="ignore"):
                self._pool.run(partial(self._write_outputs, piece.x.numpy(), outputs, tasks), len(tasks))
            validation.add(piece, torch.from_numpy(outputs).mT)

    def _write_outputs(self, x: Array, out: Array, tasks: list[tuple[slice, slice]], thread: int, task: int) -> None:
        models, rows = tasks[task]
        parameters, *_ = self._views_of(models, slice(0, 0), self._state.grad[models])
        network = self._networks[thread](_length(models), _length(rows))
        network.forward(parameters, drop_single(x[models, rows].swapaxes(1, 2)), network.output_grad)
        out[models, :, rows] = network.output_grad

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


def _divide(state: ModelState) -> tuple[list[slice], list[slice]]:
    """Return groups of models that a thread trains together, and models whose rows are split among the threads."""
    n_models, n_threads = len(state.flat), state.n_threads
    work = state.batch_size * state.shape.n_effective_parameters()
    n_split = 0
    if n_threads > 1 and work >= _SMALLEST_SPLIT:
        left_over, n_parts = n_models % n_threads, _n_parts(state.batch_size, n_threads)
        # With n parts a model takes about 4 / (3 n) of its time; together they have to be faster than one more round.
        n_split = left_over if 4 * left_over < 3 * n_parts else 0
    n_grouped = n_models - n_split
    n_groups = -(-n_grouped // max(1, _LARGEST_GROUP // work))
    n_busy = min(n_threads, n_grouped * work // _SMALLEST_GROUP)
    if n_busy > 1:
        n_groups = -(-n_groups // n_busy) * n_busy  # equally many for each thread
    groups = _ranges(n_grouped, min(n_groups, n_grouped))
    return groups, [slice(i, i + 1) for i in range(n_grouped, n_models)]


def _runs(block: Block, models: slice) -> Iterator[tuple[slice, list[Batch]]]:
    """Yield runs of batches with the same number of rows and the same of these models taking part."""

    def key(batch: Batch) -> tuple[int, int]:
        return batch.n_rows, min(models.stop, batch.n_models)

    for (_, stop), batches in itertools.groupby(block.batches, key):
        if stop > models.start:
            yield slice(models.start, stop), list(batches)


def _n_parts(n_rows: int, n_threads: int) -> int:
    """Return into how many parts the rows of a batch are split."""
    return max(1, min(n_threads, n_rows // _PART_ROWS))


def _by_batch(values: Array, models: slice, batches: list[Batch], rows: slice) -> Array:
    """View some rows of each batch among `values` (M, L, ...), as (batches, n, rows, ...)."""
    first, n_rows = batches[0].start, batches[0].n_rows
    own = values[models, first : first + len(batches) * n_rows]
    return own.reshape(len(own), len(batches), n_rows, *own.shape[2:])[:, :, rows].swapaxes(0, 1)


def _ranges(n: int, n_ranges: int) -> list[slice]:
    """Divide range(n) into ranges of about the same length."""
    ends = [n * i // n_ranges for i in range(n_ranges + 1)] if n else []
    return [slice(first, end) for first, end in itertools.pairwise(ends)]


def _length(range_of: slice) -> int:
    length: int = range_of.stop - range_of.start
    return length
