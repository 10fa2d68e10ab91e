"""The step of networks without variants on a CPU, in NumPy.

A step of a small network is two dozen operations of a microsecond each. Calling one through torch costs several
microseconds, through NumPy less than one. It computes what `message_passing.forward` and `backward` compute (the tests
compare them), on the same memory.

Two things keep the calls few and short. In the flat buffer a layer's bias stands right below its weights, so the two
are one matrix, and with a node that is always 1 one product serves both, forwards and backwards. And states are kept as
(nodes, rows): the bias node is then one more row, and NumPy's loops run along the rows of a table, which are many, not
along the outputs, which are few.

A model's numbers are the same to the bit whoever shares its fleet: `np.matmul` multiplies the matrices of each model by
a call of their own, with the same arguments as if the model were alone, and all other operations are computed for each
element, or summed up in the same order. Large products are torch's, one for each model, as MKL is faster than NumPy's
OpenBLAS there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tabgnm.nn.losses import CrossEntropy, Loss, SquaredError
from tabgnm.nn.message_passing import DropoutFactors
from tabgnm.nn.shapes import EmbeddedShape, Shape
from tabgnm.training.flat_weights import FlatLayout

if TYPE_CHECKING:
    Array = NDArray[Any]

_silence = torch.ops.aten.threshold_backward.grad_input  # looked up once
_LARGE_MATRIX = 20_000  # weights of a layer, from which on torch multiplies faster


def is_plain(shape: Shape) -> bool:
    """Whether a shape has no variants, so that its steps can be taken by code made for this case."""
    return not isinstance(shape, EmbeddedShape) and shape.has_no_variant and shape.activation == "relu"


class PlainStep:
    """Forward pass, gradient of the loss and backward pass of M networks on buffers that are used again.

    Parameters
    ----------
    layout : FlatLayout
        Of a shape that `is_plain` accepts, without gates or gaps.
    flat, grad : Tensor
        The networks' parameters and their gradients, (M, P); `run` overwrites the gradients.
    loss : Loss
    """

    def __init__(self, layout: FlatLayout, flat: Tensor, grad: Tensor, loss: Loss) -> None:
        self._matrices, self._grad_matrices = _matrices(layout, flat), _matrices(layout, grad)
        self._scratch: dict[int, _Scratch] = {}  # by number of rows
        self._views: dict[tuple[int, int, int], _Views] = {}  # by models and number of rows
        self._train = _Rows(layout.shape, loss, self._matrices[0].dtype)

    def load(self, x: Tensor, y: Tensor, weights: Tensor) -> None:
        """Take over the rows of a block: x (M, L, m), their targets, and what each counts in its step, (M, L)."""
        self._train.load(x, y, weights.numpy())

    def run(self, models: slice, start: int, n_rows: int, dropout: DropoutFactors | None) -> None:
        """Write the gradients of some models for rows of the block."""
        views, rows = self._views_of(models, n_rows), slice(start, start + n_rows)
        x = self._train.x[views.which, rows].swapaxes(-2, -1)
        factors = self._forward(x, views, dropout)
        grad, transposed = views.grads[-1], views.grads_transposed[-1]
        self._train.head.gradient(views.messages[-1], views.which, rows, grad)
        for layer in range(len(views.matrices) - 1, 0, -1):
            dot = views.dots[layer]
            dot(views.sources[layer - 1], transposed, out=views.grad_matrices[layer])
            before = views.grads[layer - 1]
            dot(views.weights[layer], grad, out=before)
            if factors:
                np.multiply(before, factors[layer - 1], out=before)
            views.silence(layer - 1)  # and those that are dropped
            grad, transposed = before, views.grads_transposed[layer - 1]
        views.dots[0](x, transposed, out=views.grad_matrices[0])

    def train_loss(self, models: slice, n_rows: int, shares: Tensor) -> Array:
        """Sum, over their first rows of the block, of the losses that `run` has seen times `shares` (M, L): (n,)."""
        return self._train.total(models, n_rows, shares.numpy())

    def outputs(self, models: slice, x: Tensor) -> Tensor:
        """Outputs (n, L, c) of some models for rows `x` (n, L, m + 1) with a last column of 1, until the next call."""
        n, n_rows, _ = x.shape
        views = self._views_of(models, n_rows)
        with np.errstate(all="ignore"):
            self._forward((x if n > 1 else x[0]).mT.numpy(), views, None)
        return views.tensors[-1].view(n, n_rows, -1)

    def _views_of(self, models: slice, n_rows: int) -> _Views:
        key = models.start, models.stop, n_rows
        if key not in self._views:
            if n_rows not in self._scratch:
                self._scratch[n_rows] = _Scratch(self._matrices, n_rows)
            self._views[key] = _Views(self._matrices, self._grad_matrices, self._scratch[n_rows], _which(models))
        return self._views[key]

    def _forward(self, x: Array, views: _Views, dropout: DropoutFactors | None) -> list[Array]:
        """Fill the messages of all layers for rows `x` (n, m + 1, B); gives the factors of dropout, if any."""
        factors: list[Array] = []
        sources, last = x, len(views.matrices) - 1
        for layer, message in enumerate(views.messages):
            views.dots[layer](views.transposed[layer], sources, out=message)
            if layer == last:
                break
            np.maximum(message, views.zero, out=message)
            if dropout is not None:
                drawn = dropout(layer + 1, views.tensors[layer])
                assert drawn is not None
                factors.append(drawn.mT.numpy().reshape(message.shape))
                np.multiply(message, factors[layer], out=message)
            sources = views.sources[layer]
        return factors


def _which(models: slice) -> int | slice:
    """Return an index for models that leaves out the dimension of a single one: fewer dimensions are faster."""
    return models.start if models.stop - models.start == 1 else models


def _torch_dot(left: Array, right: Array, out: Array) -> None:
    torch.mm(torch.from_numpy(left), torch.from_numpy(right), out=torch.from_numpy(out))


def _torch_dots(left: Array, right: Array, out: Array) -> None:
    for i in range(len(out)):
        _torch_dot(left[i], right[i], out[i])


def _matrices(layout: FlatLayout, flat: Tensor) -> list[Array]:
    """Views of each layer's weights with the bias as the last row, (M, sources + 1, targets)."""
    matrices = []
    for layer in range(1, layout.shape.n_layers + 1):
        first = layout.offsets[f"weight_{layer}"]
        sources, targets = layout.sizes[f"weight_{layer}"]
        assert layout.offsets[f"bias_{layer}"] == first + sources * targets
        size = len(flat), sources + 1, targets
        matrices.append(flat[:, first : first + (sources + 1) * targets].view(size).numpy())
    return matrices


class _Scratch:
    """Memory of passes of all models with `n_rows` rows each."""

    def __init__(self, matrices: list[Array], n_rows: int) -> None:
        n, dtype = len(matrices[0]), matrices[0].dtype
        *hidden, last = (matrix.shape[2] for matrix in matrices)
        self.sources = [np.empty((n, width + 1, n_rows), dtype) for width in hidden]
        for source in self.sources:
            source[:, -1] = 1  # the bias node
        self.messages = [*(source[:, :-1] for source in self.sources), np.empty((n, last, n_rows), dtype)]
        self.grads = [np.empty(message.shape, dtype) for message in self.messages]


class _Views:
    """Weights of some models, and memory of their passes: (n, nodes, rows), or (nodes, rows) of a single one.

    What is given is that of all models, and `which` says of which ones.
    """

    def __init__(
        self, matrices: list[Array], grad_matrices: list[Array], scratch: _Scratch, which: int | slice
    ) -> None:
        self.which = which
        self.matrices, self.grad_matrices, self.sources, self.messages, self.grads = (
            [array[which] for array in arrays]
            for arrays in (
                matrices, grad_matrices, scratch.sources, scratch.messages, scratch.grads,
            )
        )  # fmt: skip
        self.transposed = [matrix.swapaxes(-2, -1) for matrix in self.matrices]
        self.weights = [matrix[..., :-1, :] for matrix in self.matrices]
        self.grads_transposed = [grad.swapaxes(-2, -1) for grad in self.grads]
        large = _torch_dot if isinstance(which, int) else _torch_dots
        self.dots = [large if matrix[0].size >= _LARGE_MATRIX else np.matmul for matrix in matrices]
        self.zero = np.zeros((), matrices[0].dtype)
        self.tensors, self._grad_tensors = (
            [torch.from_numpy(array).mT for array in arrays] for arrays in (self.messages, self.grads)
        )

    def silence(self, layer: int) -> None:
        """Set the gradients of nodes to 0 whose state is 0, whatever the gradient is."""
        grads = self._grad_tensors[layer]
        _silence(grads, self.tensors[layer], 0, grad_input=grads)


class _Rows:
    """Rows of a block with their targets."""

    def __init__(self, shape: Shape, loss: Loss, dtype: np.dtype[Any]) -> None:
        self._buffer = np.ones((0, 0, shape.n_inputs + 1), dtype)  # a last column of 1, for the bias
        self.head: _Head
        if type(loss) is CrossEntropy:  # not one derived from it, which may compute something else
            self.head = _CrossEntropyHead(loss, shape.n_outputs, dtype)
        elif type(loss) is SquaredError:
            self.head = _SquaredErrorHead()
        else:
            self.head = _AnyHead(loss, shape.n_outputs, dtype)

    def load(self, x: Tensor, y: Tensor, weights: Array) -> None:
        n, n_rows, n_inputs = x.shape
        if self._buffer.shape[0] < n or self._buffer.shape[1] < n_rows:
            self._buffer = np.ones((n, n_rows, n_inputs + 1), self._buffer.dtype)
        self.x = self._buffer[:n, :n_rows]
        np.copyto(self.x[..., :-1], x.numpy())
        self.head.load(y, weights)

    def total(self, models: slice, n_rows: int, shares: Array) -> Array:
        """Sum, for each of some models, of the losses of its first rows times `shares`."""
        shares = shares[models, :n_rows]
        losses = self.head.losses(models, n_rows)
        total: Array = np.add.reduce(losses * shares, axis=1)
        if np.isfinite(total).all():
            return total
        # 0 x infinity is NaN: what counts nothing must not be looked at
        counted: Array = np.add.reduce(np.where(shares > 0, losses * shares, 0), axis=1)
        return counted


class _Head(Protocol):
    """The loss of rows that come step by step; outputs are (n, c, rows), or (c, rows) of a single model."""

    def load(self, y: Tensor, weights: Array) -> None:
        """Take over the targets (M, L, ...) and the weights (M, L) of all rows."""
        ...

    def gradient(self, outputs: Array, which: int | slice, rows: slice, grad: Array) -> None:
        """Write the weighted gradient of these models' and rows' losses by their outputs."""
        ...

    def losses(self, models: slice, n_rows: int) -> Array:
        """Loss of each of the first rows, as `gradient` saw it, (n, rows)."""
        ...


class _CrossEntropyHead:
    def __init__(self, loss: CrossEntropy, n_outputs: int, dtype: np.dtype[Any]) -> None:
        share = dtype.type(loss.label_smoothing)
        self._rows_of_classes = (1 - share) * np.eye(n_outputs, dtype=dtype) + share / dtype.type(n_outputs)

    def load(self, y: Tensor, weights: Array) -> None:
        # smoothed one-hot, (M, c, L), also in memory: the order of a sum depends on that
        self._targets = np.ascontiguousarray(self._rows_of_classes[y.numpy()].swapaxes(1, 2))
        self._weighted_targets = self._targets * weights[:, None]
        self._weights = weights
        self._shifted, self._sums = np.empty_like(self._targets), np.empty_like(weights)

    def gradient(self, outputs: Array, which: int | slice, rows: slice, grad: Array) -> None:
        # softmax = exp(o - largest o) / its sum; both parts are kept for the loss
        shifted, sums = self._shifted[which, :, rows], self._sums[which, rows]
        np.subtract(outputs, np.maximum.reduce(outputs, axis=-2, keepdims=True), out=shifted)
        np.exp(shifted, out=grad)
        np.add.reduce(grad, axis=-2, out=sums)
        np.multiply(grad, (self._weights[which, rows] / sums)[..., None, :], out=grad)
        np.subtract(grad, self._weighted_targets[which, :, rows], out=grad)

    def losses(self, models: slice, n_rows: int) -> Array:
        by_class = self._shifted[models, :, :n_rows] * self._targets[models, :, :n_rows]
        log_sums: Array = np.log(self._sums[models, :n_rows])
        return np.subtract(log_sums, np.add.reduce(by_class, axis=1), out=log_sums)


class _SquaredErrorHead:
    def load(self, y: Tensor, weights: Array) -> None:
        self._targets = np.ascontiguousarray(y.mT.numpy())
        self._doubled = 2 * weights
        self._errors = np.empty_like(self._targets)

    def gradient(self, outputs: Array, which: int | slice, rows: slice, grad: Array) -> None:
        errors = self._errors[which, :, rows]
        np.subtract(outputs, self._targets[which, :, rows], out=errors)
        np.multiply(errors, self._doubled[which, None, rows], out=grad)

    def losses(self, models: slice, n_rows: int) -> Array:
        errors = self._errors[models, :, :n_rows]
        losses: Array = np.add.reduce(errors * errors, axis=1)
        return losses


class _AnyHead:
    def __init__(self, loss: Loss, n_outputs: int, dtype: np.dtype[Any]) -> None:
        self._loss, self._n_outputs, self._dtype = loss, n_outputs, dtype

    def load(self, y: Tensor, weights: Array) -> None:
        self._y, self._weights = y, weights
        self._outputs = torch.from_numpy(np.empty((*weights.shape, self._n_outputs), self._dtype))

    def gradient(self, outputs: Array, which: int | slice, rows: slice, grad: Array) -> None:
        own = self._outputs[which, rows]
        own.copy_(torch.from_numpy(outputs).mT)
        slopes = self._loss.gradient(own, self._y[which, rows])
        np.multiply(slopes.mT.numpy(), self._weights[which, None, rows], out=grad)

    def losses(self, models: slice, n_rows: int) -> Array:
        per_row: Array = self._loss.per_row(self._outputs[models, :n_rows], self._y[models, :n_rows]).numpy()
        return per_row
