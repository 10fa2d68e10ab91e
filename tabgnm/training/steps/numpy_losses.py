"""Outputs of some models for the rows of a block, and the gradients of their losses, batch by batch."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from tabgnm.nn.losses import CrossEntropy, Loss, SquaredError

Array = NDArray[Any]


def drop_single(array: Array) -> Array:
    """Drop the dimension of the models if there is one model only."""
    return array[0] if len(array) == 1 else array


class BlockLosses:
    """Outputs and losses of `n_models` models in the batches of a block, for any loss, in buffers that are used again.

    `outputs` are those of all rows of the block, (n, c, rows), and `by_row` the same as (n, rows, c).
    """

    def __init__(
        self, loss: Loss, n_outputs: int, dtype: np.dtype[Any], n_models: int, batch_sizes: tuple[int, ...]
    ) -> None:
        self._loss = loss
        self._firsts = [0, *itertools.accumulate(batch_sizes)]  # row of each batch
        # Rows after a model's last batch are never written. They have no share in its loss.
        self.outputs = np.zeros((n_models, n_outputs, sum(batch_sizes)), dtype)
        self.by_row = torch.from_numpy(self.outputs).mT

    def load(self, y: Array, weights: Array) -> None:
        """Take the targets (n, rows, ...) and weights (n, rows) of a block."""
        self._y, self._weights = torch.from_numpy(y), weights

    def gradient_of(self, batch: int, n_models: int, part: slice, outputs: Array, grad: Array) -> Callable[[], None]:
        """Return a function that writes the weighted gradient by `outputs` into `grad`.

        These are the outputs of the first models for a part of the rows of a batch, (n, c, rows), or (c, rows) for a
        single model.
        """
        first, by_row = self._firsts[batch], torch.from_numpy(outputs).mT
        rows = slice(first + part.start, first + part.stop)

        def write() -> None:
            y = self._y[0, rows] if n_models == 1 else self._y[:n_models, rows]
            slopes = self._loss.gradient(by_row, y)
            np.multiply(slopes.mT.numpy(), drop_single(self._weights[:n_models, None, rows]), out=grad)

        return write


class _Run(NamedTuple):
    """Batches of the same size: their rows, and targets and weights as large as the outputs, (batches, n, c, rows)."""

    rows: slice
    targets: Array
    weights: Array

    def by_batch(self, values: Array) -> Array:
        """View `values` (n, k, rows of the block) as (batches, n, k, rows)."""
        n, k, _ = values.shape
        return values[:, :, self.rows].reshape(n, k, len(self.targets), -1).transpose(2, 0, 1, 3)


class _FastLosses(BlockLosses):
    """`SquaredError` and `CrossEntropy`, whose own gradients would make a step of a small network a third longer.

    Targets and weights are as large as the outputs, and contiguous in each batch.
    """

    def __init__(
        self, loss: Loss, n_outputs: int, dtype: np.dtype[Any], n_models: int, batch_sizes: tuple[int, ...]
    ) -> None:
        super().__init__(loss, n_outputs, dtype, n_models, batch_sizes)
        self._runs: list[_Run] = []
        self._of_batch: list[tuple[Array, Array]] = []
        for n_rows, group in itertools.groupby(batch_sizes):
            first, n_batches = self._firsts[len(self._of_batch)], len(list(group))
            targets, weights = (np.zeros((n_batches, n_models, n_outputs, n_rows), dtype) for _ in range(2))
            self._runs.append(_Run(slice(first, first + n_batches * n_rows), targets, weights))
            self._of_batch += zip(targets, weights, strict=True)

    def load(self, y: Array, weights: Array) -> None:
        """Take the targets and weights of a block; targets of classes are multiplied by the weights."""
        n_outputs = self.outputs.shape[1]
        for run in self._runs:
            np.copyto(run.weights, run.by_batch(weights[:, None]))
            if isinstance(self._loss, CrossEntropy):
                smoothing = self._loss.label_smoothing
                hits = run.by_batch(y[:, None]) == np.arange(n_outputs)[:, None]
                np.multiply(hits, (1 - smoothing) * run.weights, out=run.targets)
                if smoothing:
                    np.add(run.targets, smoothing / n_outputs * run.weights, out=run.targets)
            else:
                np.copyto(run.targets, run.by_batch(y.swapaxes(1, 2)))
                np.multiply(run.weights, 2, out=run.weights)

    def gradient_of(self, batch: int, n_models: int, part: slice, outputs: Array, grad: Array) -> Callable[[], None]:
        """Return a function that writes the weighted gradient by `outputs` into `grad`."""
        targets, weights = (drop_single(each[:n_models, :, part]) for each in self._of_batch[batch])
        output_tensor, grad_tensor = torch.from_numpy(outputs), torch.from_numpy(grad)

        def squared_error() -> None:
            np.subtract(outputs, targets, out=grad)
            np.multiply(grad, weights, out=grad)

        def cross_entropy() -> None:
            torch.softmax(output_tensor, -2, out=grad_tensor)
            np.multiply(grad, weights, out=grad)
            np.subtract(grad, targets, out=grad)

        return cross_entropy if isinstance(self._loss, CrossEntropy) else squared_error


def block_losses_class(loss: Loss) -> type[BlockLosses]:
    """Return the class for this loss; losses derived from one of ours may compute something else."""
    return _FastLosses if type(loss) in (SquaredError, CrossEntropy) else BlockLosses
