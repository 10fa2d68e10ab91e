"""The training step on a CPU, in NumPy: which thread takes which models, or which rows, through the steps of a block."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
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

_CACHE_BYTES = 2**20  # what a group of models works on should fit into the second-level cache of a core
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
        self._buffers = [_Buffers(state) for _ in range(state.n_threads)]  # of each thread, or of each part
        # Each part of a batch has a gradient of its own; that of the first part is the one that Adam reads.
        n_more = state.n_threads - 1 if self._split_models else 0
        self._grads = [state.grad, *(torch.empty_like(state.grad) for _ in range(n_more))]
        self._views: dict[tuple[int, ...], _Views] = {}
        widest = max(max(size) for size in state.shape.parameter_shapes().values())
        self._validation_rows = max(state.batch_size, _VALIDATION_NUMBERS // widest)

    def train_block(self, block: Block, rows: BlockRows, train_loss: Tensor) -> None:
        """Take the steps of a block, and add the losses of its rows times their shares to `train_loss` (M,)."""
        arrays = _BlockArrays(block, rows.x.numpy(), rows.y.numpy(), rows.weights.numpy(), rows.rates.unbind())

        def train(group: slice, places: Sequence[int]) -> None:
            models = slice(group.start, min(group.stop, block.n_models))
            if models.start < models.stop:
                outputs = self._train(models, places, arrays)
                add_losses(self._state.settings.loss, outputs, rows.y[models], rows.shares[models], train_loss[models])

        with np.errstate(all="ignore"):  # a model that diverges is noticed at the end of the epoch
            self._pool.run(lambda thread, i: train(self._groups[i], [thread]), len(self._groups))
            for model in self._split_models:
                train(model, range(len(self._grads)))

    def _train(self, models: slice, places: Sequence[int], arrays: _BlockArrays) -> Tensor:
        """Take some models through the steps of a block, and return the outputs (n, L, c).

        With several `places` for work, the rows of each batch are split among the threads.
        """
        block, adam = arrays.block, self._state.adam
        # By class first, as the passes have them. Rows beyond a model's own are not written, and count nothing.
        outputs = np.zeros((_length(models), self._state.shape.n_outputs, block.n_positions), self._dtype)
        for own, batches in _runs(block, models):
            n_parts = max(1, min(len(places), batches[0].n_rows // _PART_ROWS))
            row_ranges = _ranges(batches[0].n_rows, n_parts)
            parts = [self._part(places[i], own, batches, row_ranges[i], arrays, i) for i in range(n_parts)]
            grad, *other_grads = (grads[own].numpy() for grads in self._grads[:n_parts])
            for i, batch in enumerate(batches):
                if n_parts == 1:
                    parts[0].compute_gradient(i)
                else:
                    self._pool.run(lambda _, part, i=i, parts=parts: parts[part].compute_gradient(i), n_parts)
                    for other in other_grads:
                        np.add(grad, other, out=grad)
                adam.step(own, batch.index, arrays.rates[batch.index - block.batches[0].index])
            for part, range_of_rows in zip(parts, row_ranges, strict=True):
                by_class = _by_batch(outputs.swapaxes(1, 2), slice(0, _length(own)), batches, range_of_rows)
                part.batches.copy_outputs(by_class.swapaxes(2, 3))
        return torch.from_numpy(outputs).mT

    def _part(
        self, place: int, models: slice, batches: list[Batch], rows: slice, arrays: _BlockArrays, which_grad: int
    ) -> _Part:
        """Load some rows of each batch, and return what computes the gradients."""
        buffers, size = self._buffers[place], (_length(models), _length(rows))
        loaded = buffers.batches(*size, len(batches))
        loaded.load(*(_by_batch(values, models, batches, rows) for values in (arrays.x, arrays.y, arrays.weights)))
        return _Part(self._views_of(models, rows, which_grad), buffers.network(*size), loaded)

    def _views_of(self, models: slice, rows: slice, which_grad: int = 0) -> _Views:
        key = models.start, models.stop, rows.start, rows.stop
        if key not in self._views:
            state = self._state
            self._views[key] = _Views(
                NetworkParameters(state.layout, state.flat[models]),
                NetworkParameters(state.layout, self._grads[which_grad][models]),
                DropoutStreams(state.dropout, models, rows) if state.dropout.needed else None,
            )
        return self._views[key]

    def validate(self, validation: Validation) -> None:
        """Add the outputs for all pieces of the validation rows to `validation`."""
        groups = self._groups
        with np.errstate(all="ignore"):
            self._pool.run(lambda thread, i: self._validate(validation, groups[i], thread), len(groups))
            for model in self._split_models:
                self._validate(validation, model, None)

    def _validate(self, validation: Validation, models: slice, thread: int | None) -> None:
        """Add the outputs of some models, computed in this thread, or if None in all of them."""
        parameters = self._views_of(models, slice(0, 0)).parameters
        for piece in validation.pieces(models):
            n_models, n_rows, _ = piece.x.shape
            x, outputs = piece.x.numpy(), np.empty((n_models, self._state.shape.n_outputs, n_rows), self._dtype)
            ranges = _ranges(n_rows, -(-n_rows // self._validation_rows))

            def compute(place: int, i: int, x: Array = x, outputs: Array = outputs, ranges: list[slice] = ranges) -> None:
                network = self._buffers[place].network(len(x), _length(ranges[i]))
                outputs[:, :, ranges[i]] = network.outputs(parameters, x[:, ranges[i]])

            if thread is None:
                self._pool.run(compute, len(ranges))
            else:
                for i in range(len(ranges)):
                    compute(thread, i)
            validation.add(piece, torch.from_numpy(outputs).mT)

    def close(self) -> None:
        """End the threads."""
        self._pool.close()


class _BlockArrays(NamedTuple):
    """What the steps of a block read."""

    block: Block
    x: Array
    y: Array
    weights: Array
    rates: Sequence[Tensor]


class _Views(NamedTuple):
    """Arrays of some models."""

    parameters: NetworkParameters
    gradients: NetworkParameters
    dropout: DropoutStreams | None


class _Part(NamedTuple):
    """Some rows of batches of some models, and what computes their gradients."""

    views: _Views
    network: NetworkPass
    batches: BatchRows

    def compute_gradient(self, i: int) -> None:
        """Write the gradients of batch `i`."""
        (parameters, gradients, dropout), network, batches = self
        network.forward(parameters, batches.x[i], batches.outputs[i], dropout)
        batches.output_gradient(i, network.output_grad, network.output_grad_tensor)
        network.backward(parameters, gradients)


class _Buffers:
    """Passes and batches by their sizes, made once. One thread uses them at a time."""

    def __init__(self, state: ModelState) -> None:
        self._state, self._dtype = state, state.flat.numpy().dtype
        self._networks: dict[tuple[int, int], NetworkPass] = {}
        self._batches: dict[tuple[int, int, int], BatchRows] = {}

    def network(self, n_models: int, n_rows: int) -> NetworkPass:
        key = n_models, n_rows
        if key not in self._networks:
            self._networks[key] = NetworkPass(self._state.shape, *key, self._dtype)
        return self._networks[key]

    def batches(self, n_models: int, n_rows: int, n_batches: int) -> BatchRows:
        key = n_models, n_rows, n_batches
        if key not in self._batches:
            self._batches[key] = BatchRows(self._state.shape, self._state.settings.loss, *key, self._dtype)
        return self._batches[key]


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
