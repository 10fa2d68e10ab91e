"""Batches of some models as `NetworkPass` reads them, and the gradients of their losses."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tabgnm.nn.losses import CrossEntropy, Loss
from tabgnm.nn.shapes import Shape

Array = NDArray[Any]


class BatchRows:
    """The same rows of several batches of equal size, copied together, for `n_models` models.

    Attributes
    ----------
    x, outputs : list of arrays
        For each batch, the columns of the table and one of ones, (columns + 1, rows), and the outputs, (c, rows).
    """

    def __init__(
        self, shape: Shape, loss: Loss, n_models: int, n_rows: int, n_batches: int, dtype: np.dtype[Any]
    ) -> None:
        self._x = np.ones((n_batches, n_models, shape.n_inputs + 1, n_rows), dtype)
        self._outputs = np.empty((n_batches, n_models, shape.n_outputs, n_rows), dtype)
        self.x, self.outputs = (list(_drop_single(array)) for array in (self._x, self._outputs))
        self._head: _Head
        if type(loss) is CrossEntropy:  # not one derived from it, which may compute something else
            self._head = _CrossEntropyHead(loss, self._outputs)
        else:
            self._head = _AnyHead(loss, self._outputs)

    def load(self, x: Array, y: Array, weights: Array) -> None:
        """Copy rows (batches, n, rows, columns), their targets and weights."""
        np.copyto(self._x[:, :, :-1], x.swapaxes(2, 3))
        self._head.load(y, weights)

    def output_gradient(self, batch: int, out: Array, out_tensor: Tensor) -> None:
        """Write the weighted gradient of the losses by the outputs of a batch, (c, rows)."""
        self._head.gradient(batch, out, out_tensor)

    def copy_outputs(self, out: Array) -> None:
        """Write all outputs, (batches, n, rows, c)."""
        np.copyto(out, self._outputs.swapaxes(2, 3))


def _drop_single(array: Array) -> Array:
    """Drop the dimension of the models, the second one, if there is one model only."""
    return array[:, 0] if array.shape[1] == 1 else array


class _Head(Protocol):
    """Gradients of the losses of batches."""

    def load(self, y: Array, weights: Array) -> None:
        """Take over the targets (batches, n, rows, ...) and weights (batches, n, rows)."""
        ...

    def gradient(self, batch: int, out: Array, out_tensor: Tensor) -> None:
        """Write the weighted gradient by the outputs of a batch."""
        ...


class _CrossEntropyHead:
    """`CrossEntropy.gradient` takes 18 us on the small batches of the paper, as long as the rest of a step; this, 2."""

    def __init__(self, loss: CrossEntropy, outputs: Array) -> None:
        self._smoothing = loss.label_smoothing
        self._classes = np.arange(outputs.shape[2])[:, None]
        self._targets = np.empty_like(outputs)
        self._weights = np.empty_like(outputs)  # for each class: half a microsecond less in each step
        self._per_batch = list(
            zip(
                torch.from_numpy(_drop_single(outputs)).unbind(),
                _drop_single(self._weights),
                _drop_single(self._targets),
                strict=True,
            )
        )

    def load(self, y: Array, weights: Array) -> None:
        # The one-hot targets, smoothed and weighted.
        self._weights[...] = weights[:, :, None]
        np.multiply(y[:, :, None] == self._classes, self._weights, out=self._targets)
        if self._smoothing:
            self._targets *= 1 - self._smoothing
            self._targets += self._smoothing / len(self._classes) * self._weights

    def gradient(self, batch: int, out: Array, out_tensor: Tensor) -> None:
        outputs, weights, targets = self._per_batch[batch]
        torch.softmax(outputs, -2, out=out_tensor)
        np.multiply(out, weights, out=out)
        np.subtract(out, targets, out=out)


class _AnyHead:
    def __init__(self, loss: Loss, outputs: Array) -> None:
        self._loss = loss
        self._outputs = torch.from_numpy(_drop_single(outputs)).mT.unbind()

    def load(self, y: Array, weights: Array) -> None:
        self._y = torch.from_numpy(_drop_single(y)).unbind()
        self._weights = _drop_single(weights[:, :, None])

    def gradient(self, batch: int, out: Array, out_tensor: Tensor) -> None:  # noqa: ARG002 - part of the protocol
        slopes = self._loss.gradient(self._outputs[batch], self._y[batch])
        np.multiply(slopes.mT.numpy(), self._weights[batch], out=out)
