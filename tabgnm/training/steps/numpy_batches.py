"""Batches of some models as `NetworkPass` reads them, and the gradients of their losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tabgnm.nn.losses import CrossEntropy, Loss, SquaredError
from tabgnm.nn.shapes import Shape

Array = NDArray[Any]


class BatchRows:
    """The same rows of several batches of equal size, for `n_models` models.

    Attributes
    ----------
    x, outputs : list of arrays
        For each batch, the columns of the table and one of ones, (columns + 1, rows), and the outputs, (c, rows); with
        a first dimension for the models if there are several. `x` are views of what was loaded.
    """

    x: list[Array]

    def __init__(
        self, shape: Shape, loss: Loss, dtype: np.dtype[Any], n_models: int, n_rows: int, n_batches: int
    ) -> None:
        self._loss = loss
        self._outputs = np.empty((n_batches, n_models, shape.n_outputs, n_rows), dtype)
        self.outputs = list(_drop_single(self._outputs))
        self._output_tensors = [torch.from_numpy(outputs) for outputs in self.outputs]

    def load(self, x: Array, y: Array, weights: Array) -> None:
        """Take rows (batches, n, rows, columns + 1), their targets, and their weights (batches, n, rows)."""
        self.x = list(_drop_single(x.swapaxes(2, 3)))
        self._load_targets(y, weights)

    def _load_targets(self, y: Array, weights: Array) -> None:
        self._y = torch.from_numpy(_drop_single(y)).unbind()
        self._weights = _drop_single(weights[:, :, None])

    def output_gradient(self, batch: int, out: Array, out_tensor: Tensor) -> None:  # noqa: ARG002 - for other losses
        """Write the weighted gradient of the losses by the outputs of a batch, given as an array and as a tensor."""
        slopes = self._loss.gradient(self._output_tensors[batch].mT, self._y[batch])
        np.multiply(slopes.mT.numpy(), self._weights[batch], out=out)

    def copy_outputs(self, out: Array) -> None:
        """Write all outputs, (batches, n, rows, c)."""
        np.copyto(out, self._outputs.swapaxes(2, 3))


class _WeightedRows(BatchRows):
    """Rows with targets and weights as large as the outputs: broadcasting takes half a microsecond more every time."""

    def __init__(self, shape: Shape, loss: Loss, dtype: np.dtype[Any], *size: int) -> None:
        super().__init__(shape, loss, dtype, *size)
        self._targets, self._all_weights = np.empty_like(self._outputs), np.empty_like(self._outputs)
        self._per_batch = list(zip(_drop_single(self._targets), _drop_single(self._all_weights), strict=True))


class SquaredErrorRows(_WeightedRows):
    """Rows of `SquaredError`, whose own gradient would make a step of a small network a quarter longer."""

    def _load_targets(self, y: Array, weights: Array) -> None:
        np.copyto(self._targets, y.swapaxes(2, 3))
        np.multiply(weights[:, :, None], 2, out=self._all_weights)

    def output_gradient(self, batch: int, out: Array, out_tensor: Tensor) -> None:  # noqa: ARG002
        """Write the weighted gradient of the losses by the outputs of a batch, given as an array and as a tensor."""
        targets, weights = self._per_batch[batch]
        np.subtract(self.outputs[batch], targets, out=out)
        np.multiply(out, weights, out=out)


class CrossEntropyRows(_WeightedRows):
    """Rows of `CrossEntropy`, whose own gradient would make a step of a small network a third longer."""

    def _load_targets(self, y: Array, weights: Array) -> None:
        assert isinstance(self._loss, CrossEntropy)
        smoothing, n_classes = self._loss.label_smoothing, self._targets.shape[2]
        self._all_weights[...] = weights[:, :, None]
        is_class = y[:, :, None] == np.arange(n_classes)[:, None]
        np.multiply(is_class, self._all_weights, out=self._targets)
        if smoothing:
            self._targets *= 1 - smoothing
            self._targets += smoothing / n_classes * self._all_weights

    def output_gradient(self, batch: int, out: Array, out_tensor: Tensor) -> None:
        """Write the weighted gradient of the losses by the outputs of a batch, given as an array and as a tensor."""
        targets, weights = self._per_batch[batch]
        torch.softmax(self._output_tensors[batch], -2, out=out_tensor)
        np.multiply(out, weights, out=out)
        np.subtract(out, targets, out=out)


def batch_rows_class(loss: Loss) -> type[BatchRows]:
    """Return the class for rows of this loss; losses derived from one of ours may compute something else."""
    own: dict[type, type[BatchRows]] = {SquaredError: SquaredErrorRows, CrossEntropy: CrossEntropyRows}
    return own.get(type(loss), BatchRows)


def _drop_single(array: Array) -> Array:
    """Drop the dimension of the models, the second one, if there is one model only."""
    return array[:, 0] if array.shape[1] == 1 else array
