"""The training step on a CPU, in NumPy: how models, or rows, are divided among threads."""

from __future__ import annotations

import itertools
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from tabgnm.training.model_state import ModelState
from tabgnm.training.row_batches import Block, BlockRows
from tabgnm.training.steps.numpy_activations import Call
from tabgnm.training.steps.numpy_losses import BlockLosses, block_losses_class, drop_single
from tabgnm.training.steps.numpy_network import Array, DropoutStreams, NetworkParameters, NetworkPass, run_calls
from tabgnm.training.thread_pool import ThreadPool
from tabgnm.training.validation import add_losses

# Multiply-adds of a forward pass: the minimum and maximum of a group, and the minimum of a model that is worth
# splitting. The longer an operation takes, the less time threads spend waiting for the interpreter lock: with 40
# networks of 100 nodes and groups of 2, two threads are as slow as one. Large groups are harder to divide evenly.
SMALLEST_GROUP, _LARGEST_GROUP = 2_000_000, 40_000_000
_SMALLEST_SPLIT = 10_000_000
_PART_ROWS = 64  # minimum per part: with 32 rows and 300 nodes, moving weights between cores costs what is saved
_VALIDATION_NUMBERS = 2**16  # in the widest layer at a time


class NumpyStep:
    """Training step for CPUs, used for networks without l0 gates and without variants other than `clamp_inputs`.

    It is several times faster than `TorchStep` for small networks, see `numpy_network`, and uses several cores:

    - Models are divided into groups. A thread trains a group for all steps of a block before it continues with the next
      group, so that weights and moments stay in the cache of its core.
    - Models that cannot be divided evenly among the threads are trained one after the other, with the rows of each
      batch split among the threads.

    The division depends only on sizes and `n_threads`, so the same call always gives identical results.
    """

    n_math_threads = 1

    @staticmethod
    def supports(state: ModelState) -> bool:
        """Whether this step supports these models."""
        return state.flat.device.type == "cpu" and NetworkPass.supports(state.shape) and state.gates is None

    def __init__(self, state: ModelState) -> None:
        state.dropout.allocate(rows_last=True)
        self._state = state
        self._groups, self._split_models = _divide(state)
        self._pool = ThreadPool(state.n_threads)
        # Buffers by size, for each thread or for each part of the rows.
        self._dtype = dtype = state.flat.numpy().dtype
        shape, loss, threads = state.shape, state.settings.loss, range(state.n_threads)
        self._networks = [cache(partial(NetworkPass, shape, dtype)) for _ in threads]
        self._losses = [cache(partial(block_losses_class(loss), loss, shape.n_outputs, dtype)) for _ in threads]
        # The first part of a split batch writes its gradient to the buffer of Adam, the others to these.
        n_more = _n_parts(state.batch_size, state.n_threads) - 1 if self._split_models else 0
        self._part_grads = [torch.zeros_like(state.grad[:1]) for _ in range(n_more)]
        self._views: dict[tuple[int, int], NetworkParameters] = {}
        self._steps: dict[tuple[object, ...], _Steps] = {}
        self._passes: dict[tuple[int, ...], tuple[list[Call], list[Call]]] = {}  # forward and backward
        widest = max(max(size) for size in shape.parameter_shapes().values())
        self._validation_rows = max(state.batch_size, _VALIDATION_NUMBERS // widest)

    def train_block(self, block: Block, rows: BlockRows, train_loss: Tensor) -> None:
        """Take the steps of a block, and add the losses of its rows times their shares to `train_loss` (M,)."""
        groups = self._groups
        self._pool.run(lambda thread, i: self._train(groups[i], thread, 1, block, rows, train_loss), len(groups))
        for model in self._split_models:
            self._train(model, 0, 1 + len(self._part_grads), block, rows, train_loss)

    def _train(
        self, models: slice, buffers: int, most_parts: int, block: Block, rows: BlockRows, train_loss: Tensor
    ) -> None:
        """Take some models through all steps; with several parts, the rows of batches are split among threads."""
        models = slice(models.start, min(models.stop, block.n_models))
        if models.start >= models.stop:
            return
        y, loss, adam = rows.y[models], self._state.settings.loss, self._state.adam
        # Rows of such blocks lie in the same place, so views of them are made once.
        key = models.start, models.stop, buffers, block.pattern, rows.x.data_ptr()
        steps = self._steps.get(key)
        if steps is None:
            steps = self._steps[key] = self._steps_of(models, buffers, most_parts, block, rows.x.numpy())
        steps.losses.load(y.numpy(), rows.weights[models].numpy())
        for batch, (own, parts) in zip(block.batches, steps.batches, strict=False):
            if len(parts) == 1:
                run_calls(parts[0])
            else:
                self._pool.run(partial(_run_part, parts), len(parts))
                for other in self._part_grads[: len(parts) - 1]:
                    self._state.grad[own] += other
            adam.step(own, batch.index)
        add_losses(loss, steps.losses.by_row, y, rows.shares[models], train_loss[models])

    def _steps_of(self, models: slice, buffers: int, most_parts: int, block: Block, x: Array) -> _Steps:
        """Prepare the steps of some models through blocks like this one."""
        state, dropout = self._state, self._state.dropout.needed
        losses = self._losses[buffers](_length(models), tuple(batch.n_rows for batch in block.batches))
        steps = _Steps(losses, [])
        for number, batch in enumerate(block.batches):
            own = slice(models.start, min(models.stop, batch.n_models))
            if own.start >= own.stop:  # these models have no more batches
                break
            parameters = self._views_of(state.flat[own])
            parts: list[list[Call]] = []
            for i, in_batch in enumerate(ranges(batch.n_rows, _n_parts(batch.n_rows, most_parts))):
                n, rows = _length(own), slice(batch.start + in_batch.start, batch.start + in_batch.stop)
                gradients = self._views_of(self._part_grads[i - 1] if i else state.grad[own])
                network = self._networks[buffers + i](n, _length(rows))
                key = own.start, own.stop, in_batch.start, in_batch.stop, buffers + i
                if key not in self._passes:  # the same calls for all such batches
                    streams = DropoutStreams(state.dropout, *key[:4]) if dropout else None
                    forward = network.forward_calls(parameters, streams)
                    self._passes[key] = forward, network.backward_calls(parameters, gradients, dropout=dropout)
                forward, backward = self._passes[key]
                own_x = drop_single(x[own, rows].swapaxes(1, 2))
                parts.append(
                    [
                        *network.input_calls(parameters, own_x, dropout=dropout),
                        *forward,
                        partial(np.copyto, drop_single(losses.outputs[:n, :, rows]), network.output),
                        losses.gradient_of(number, n, in_batch, network.output, network.output_grad),
                        *backward,
                        *network.input_gradient_calls(gradients, own_x),
                    ]
                )
            steps.batches.append((own, parts))
        return steps

    def _views_of(self, flat: Tensor) -> NetworkParameters:
        key = flat.data_ptr(), len(flat)
        if key not in self._views:
            self._views[key] = NetworkParameters(self._state.layout, flat)
        return self._views[key]

    def outputs(self, x: Tensor) -> Tensor:
        """Return the outputs (M, L, c) of all models, without dropout, for rows x (M, L, at least m)."""
        n_models, n_rows = x.shape[:2]
        outputs = np.empty((n_models, self._state.shape.n_outputs, n_rows), self._dtype)
        parts = ranges(n_rows, -(-n_rows // self._validation_rows))
        tasks = list(itertools.product([*self._groups, *self._split_models], parts))
        self._pool.run(partial(self._write_outputs, x.numpy(), outputs, tasks), len(tasks))
        return torch.from_numpy(outputs).mT

    def _write_outputs(self, x: Array, out: Array, tasks: list[tuple[slice, slice]], thread: int, task: int) -> None:
        models, rows = tasks[task]
        parameters = self._views_of(self._state.flat[models])
        network = self._networks[thread](_length(models), _length(rows))
        out[models, :, rows] = network.outputs(parameters, drop_single(x[models, rows].swapaxes(1, 2)))

    def close(self) -> None:
        """End the threads."""
        self._pool.close()


class _Steps(NamedTuple):
    """Steps of some models through a block: who takes part in each, and the calls for each part of its rows."""

    losses: BlockLosses
    batches: list[tuple[slice, list[list[Call]]]]


def _run_part(parts: list[list[Call]], thread: int, part: int) -> None:  # noqa: ARG001 - see ThreadPool
    run_calls(parts[part])


def _divide(state: ModelState) -> tuple[list[slice], list[slice]]:
    """Return groups of models that a thread trains together, and models whose rows are split among the threads."""
    n_models, n_threads = len(state.flat), state.n_threads
    work = state.batch_size * state.shape.n_effective_parameters()
    n_split = 0
    if n_threads > 1 and work >= _SMALLEST_SPLIT:
        left_over, n_parts = n_models % n_threads, _n_parts(state.batch_size, n_threads)
        # With n parts, a model takes about 4 / (3 n) of its time; all of them must be faster than one more round.
        n_split = left_over if 4 * left_over < 3 * n_parts else 0
    n_grouped = n_models - n_split
    n_groups = -(-n_grouped // max(1, _LARGEST_GROUP // work))
    n_busy = min(n_threads, n_grouped * work // SMALLEST_GROUP)
    if n_busy > 1:
        n_groups = -(-n_groups // n_busy) * n_busy  # the same number for each thread
    groups = ranges(n_grouped, min(n_groups, n_grouped))
    return groups, [slice(i, i + 1) for i in range(n_grouped, n_models)]


def _n_parts(n_rows: int, n_threads: int) -> int:
    """Return the number of parts into which the rows of a batch are split."""
    return max(1, min(n_threads, n_rows // _PART_ROWS))


def ranges(n: int, n_ranges: int) -> list[slice]:
    """Divide range(n) into ranges of about the same length."""
    ends = [n * i // n_ranges for i in range(n_ranges + 1)] if n else []
    return [slice(first, end) for first, end in itertools.pairwise(ends)]


def _length(range_of: slice) -> int:
    length: int = range_of.stop - range_of.start
    return length
