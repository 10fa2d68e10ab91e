"""The step of one small network without variants, in NumPy.

A step of a small network is two dozen operations of a microsecond each. Calling one through torch costs several
microseconds, through NumPy less than one, so a model that trains alone on a CPU takes this way. It computes what
`message_passing.forward` and `backward` compute (the tests compare them), on the same memory.

Two things keep the calls few and short. In the flat buffer a layer's bias stands right below its weights, so the two
are one matrix, and with a node that is always 1 one product serves both, forwards and backwards. And states are kept as
(nodes, rows): the bias node is then one more row, and NumPy's loops run along the rows of a table, which are many, not
along the outputs, which are few.

Large products, which are few too, are torch's: MKL is faster than NumPy's OpenBLAS, and has all threads.
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

# Rows x weights of a step from which on torch's matrix products, with all its threads, make up for its overhead. On two
# cores they are even at 6 million while little else runs; if more does, torch's threads wait for each other.
_LARGEST_STEP = 8_000_000
_LARGE_MATRIX = 20_000  # weights of a layer, from which on torch multiplies faster


def is_plain(shape: Shape) -> bool:
    """Whether a shape has no variants, so that its steps can be taken by code made for this case."""
    return not isinstance(shape, EmbeddedShape) and shape.has_no_variant and shape.activation == "relu"


def is_small(shape: Shape, batch_size: int) -> bool:
    """Whether `PlainStep` is faster than torch."""
    return batch_size * shape.n_effective_parameters() <= _LARGEST_STEP


class PlainStep:
    """Forward pass, gradient of the loss and backward pass of one network on buffers that are used again.

    Parameters
    ----------
    layout : FlatLayout
        Of a shape that `is_plain` accepts, without gates or gaps.
    flat, grad : Tensor
        The network's parameters and their gradients, (P,); `run` overwrites the gradients.
    loss : Loss
    """

    def __init__(self, layout: FlatLayout, flat: Tensor, grad: Tensor, loss: Loss) -> None:
        self._matrices, self._grad_matrices = _matrices(layout, flat), _matrices(layout, grad)
        self._transposed = [matrix.T for matrix in self._matrices]
        self._weights = [matrix[:-1] for matrix in self._matrices]
        self._dots = [_torch_dot if matrix.size >= _LARGE_MATRIX else np.dot for matrix in self._matrices]
        self._dtype = self._matrices[0].dtype
        self._zero = np.zeros((), self._dtype)
        self._widths = [matrix.shape[1] for matrix in self._matrices]
        self._states: dict[int, _States] = {}  # by number of rows
        self._train = _Rows(layout.shape, loss, self._dtype)
        self._val = _Rows(layout.shape, loss, self._dtype)

    def load(self, x: Tensor, y: Tensor, weights: Tensor) -> None:
        """Take over the rows of a block: x (L, m), their targets, and what each counts in its step, (L,)."""
        self._train.load(x, y, weights.numpy())

    def load_validation(self, x: Tensor, y: Tensor, weights: Tensor) -> None:
        """Take over the rows that `validation_loss` is about."""
        self._val.load(x, y, weights.numpy())

    def run(self, start: int, n_rows: int, dropout: DropoutFactors | None) -> None:
        """Write the gradients for rows of the block."""
        states, rows = self._states_of(n_rows), slice(start, start + n_rows)
        x = self._train.x[rows].T
        factors = self._forward(x, states, dropout)
        grad, transposed = states.grads[-1], states.grads_transposed[-1]
        self._train.head.gradient(states.messages[-1], rows, grad)
        for layer in range(len(self._matrices) - 1, 0, -1):
            self._dots[layer](states.sources[layer - 1], transposed, out=self._grad_matrices[layer])
            before, mask = states.grads[layer - 1], states.masks[layer - 1]
            self._dots[layer](self._weights[layer], grad, out=before)
            if factors:
                np.multiply(before, factors[layer - 1], out=before)
            # A dropped node is 0 as a silent one is, and its gradient was multiplied by 0 above.
            np.greater(states.messages[layer - 1], self._zero, out=mask)
            np.multiply(before, mask, out=before)
            grad, transposed = before, states.grads_transposed[layer - 1]
        self._dots[0](x, transposed, out=self._grad_matrices[0])

    def train_loss(self, shares: Tensor) -> float:
        """Sum, over the rows of the block, of the losses that `run` has seen times `shares` (L,)."""
        return self._train.total(shares.numpy())

    def validation_loss(self) -> float:
        """Sum of the weighted losses of the validation rows."""
        n_rows = len(self._val.x)
        states = self._states_of(n_rows)
        self._forward(self._val.x.T, states, None)
        self._val.head.gradient(states.messages[-1], slice(0, n_rows), states.grads[-1])
        return self._val.total(self._val.weights)

    def validation_outputs(self) -> Tensor:
        """Outputs of the validation rows, (L, c), as `validation_loss` has just seen them."""
        return self._states_of(len(self._val.x)).tensors[-1]

    def _states_of(self, n_rows: int) -> _States:
        if n_rows not in self._states:
            self._states[n_rows] = _States(n_rows, self._widths, self._dtype)
        return self._states[n_rows]

    def _forward(self, x: Array, states: _States, dropout: DropoutFactors | None) -> list[Array]:
        """Fill the messages of all layers for rows `x`, (m + 1, n); gives the factors of dropout, if any."""
        factors: list[Array] = []
        sources, last = x, len(self._matrices) - 1
        for layer, message in enumerate(states.messages):
            self._dots[layer](self._transposed[layer], sources, out=message)
            if layer == last:
                break
            np.maximum(message, self._zero, out=message)
            if dropout is not None:
                drawn = dropout(layer + 1, states.tensors[layer])
                assert drawn is not None
                factors.append(drawn.numpy().T)
                np.multiply(message, factors[layer], out=message)
            sources = states.sources[layer]
        return factors


def _torch_dot(left: Array, right: Array, out: Array) -> None:
    torch.mm(torch.from_numpy(left), torch.from_numpy(right), out=torch.from_numpy(out))


def _matrices(layout: FlatLayout, flat: Tensor) -> list[Array]:
    """Views of each layer's weights with the bias as the last row, (sources + 1, targets)."""
    matrices = []
    for layer in range(1, layout.shape.n_layers + 1):
        first = layout.offsets[f"weight_{layer}"]
        sources, targets = layout.sizes[f"weight_{layer}"]
        assert layout.offsets[f"bias_{layer}"] == first + sources * targets
        matrices.append(flat.numpy()[first : first + (sources + 1) * targets].reshape(sources + 1, targets))
    return matrices


class _States:
    """Scratch memory of a pass with `n_rows` rows; everything is (nodes, rows)."""

    def __init__(self, n_rows: int, widths: list[int], dtype: np.dtype[Any]) -> None:
        self.sources = [np.ones((width + 1, n_rows), dtype) for width in widths[:-1]]  # the last one is the bias node
        self.messages = [*(source[:-1] for source in self.sources), np.empty((widths[-1], n_rows), dtype)]
        self.tensors = [torch.from_numpy(message).T for message in self.messages]
        self.masks = [np.empty(message.shape, bool) for message in self.messages]
        self.grads = [np.empty(message.shape, dtype) for message in self.messages]
        self.grads_transposed = [grad.T for grad in self.grads]


class _Rows:
    """Rows with their targets: those of a block, or those of the validation."""

    def __init__(self, shape: Shape, loss: Loss, dtype: np.dtype[Any]) -> None:
        self._buffer = np.ones((0, shape.n_inputs + 1), dtype)  # a last column of 1, for the bias
        self.head: _Head
        if type(loss) is CrossEntropy:  # not one derived from it, which may compute something else
            self.head = _CrossEntropyHead(loss, shape.n_outputs, dtype)
        elif type(loss) is SquaredError:
            self.head = _SquaredErrorHead()
        else:
            self.head = _AnyHead(loss, shape.n_outputs, dtype)

    def load(self, x: Tensor, y: Tensor, weights: Array) -> None:
        if len(self._buffer) < len(x):
            self._buffer = np.ones((len(x), self._buffer.shape[1]), self._buffer.dtype)
        self.x, self.weights = self._buffer[: len(x)], weights
        np.copyto(self.x[:, :-1], x.numpy())
        self.head.load(y, weights)

    def total(self, shares: Array) -> float:
        """Sum of losses times `shares`."""
        losses = self.head.losses()
        total = float(np.dot(losses, shares))
        if np.isfinite(total):
            return total
        counted = shares > 0  # 0 x infinity is NaN: what counts nothing must not be looked at
        return float(np.dot(losses[counted], shares[counted]))


class _Head(Protocol):
    """The loss of rows that come step by step; outputs are (c, rows)."""

    def load(self, y: Tensor, weights: Array) -> None:
        """Take over the targets and the weights of all rows."""
        ...

    def gradient(self, outputs: Array, rows: slice, grad: Array) -> None:
        """Write the weighted gradient of these rows' losses by their outputs."""
        ...

    def losses(self) -> Array:
        """Loss of each row, as `gradient` saw it."""
        ...


class _CrossEntropyHead:
    def __init__(self, loss: CrossEntropy, n_outputs: int, dtype: np.dtype[Any]) -> None:
        share = dtype.type(loss.label_smoothing)
        self._rows_of_classes = (1 - share) * np.eye(n_outputs, dtype=dtype) + share / dtype.type(n_outputs)

    def load(self, y: Tensor, weights: Array) -> None:
        self._targets = self._rows_of_classes.take(y.numpy(), axis=1)  # smoothed one-hot; the matrix is symmetric
        self._weighted_targets = self._targets * weights
        self._weights = weights
        self._shifted, self._sums = np.empty_like(self._targets), np.empty_like(weights)

    def gradient(self, outputs: Array, rows: slice, grad: Array) -> None:
        # softmax = exp(o - largest o) / its sum; both parts are kept for the loss
        shifted, sums = self._shifted[:, rows], self._sums[rows]
        np.subtract(outputs, np.maximum.reduce(outputs, axis=0), out=shifted)
        np.exp(shifted, out=grad)
        np.add.reduce(grad, axis=0, out=sums)
        np.multiply(grad, self._weights[rows] / sums, out=grad)
        np.subtract(grad, self._weighted_targets[:, rows], out=grad)

    def losses(self) -> Array:
        np.multiply(self._shifted, self._targets, out=self._shifted)
        log_sums: Array = np.log(self._sums)
        return np.subtract(log_sums, np.add.reduce(self._shifted, axis=0), out=log_sums)


class _SquaredErrorHead:
    def load(self, y: Tensor, weights: Array) -> None:
        self._targets = np.ascontiguousarray(y.numpy().T)
        self._doubled = 2 * weights
        self._errors = np.empty_like(self._targets)

    def gradient(self, outputs: Array, rows: slice, grad: Array) -> None:
        errors = self._errors[:, rows]
        np.subtract(outputs, self._targets[:, rows], out=errors)
        np.multiply(errors, self._doubled[rows], out=grad)

    def losses(self) -> Array:
        np.multiply(self._errors, self._errors, out=self._errors)
        losses: Array = np.add.reduce(self._errors, axis=0)
        return losses


class _AnyHead:
    def __init__(self, loss: Loss, n_outputs: int, dtype: np.dtype[Any]) -> None:
        self._loss, self._n_outputs, self._dtype = loss, n_outputs, dtype

    def load(self, y: Tensor, weights: Array) -> None:
        self._y, self._weights = y, weights
        self._outputs = torch.from_numpy(np.empty((len(y), self._n_outputs), self._dtype))

    def gradient(self, outputs: Array, rows: slice, grad: Array) -> None:
        own = self._outputs[rows]
        own.copy_(torch.from_numpy(outputs).T)
        np.multiply(self._loss.gradient(own, self._y[rows]).numpy().T, self._weights[rows], out=grad)

    def losses(self) -> Array:
        per_row: Array = self._loss.per_row(self._outputs, self._y).numpy()
        return per_row
