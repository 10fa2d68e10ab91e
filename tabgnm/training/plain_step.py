"""The step of one small network without variants, in NumPy.

A step of a small network is a few dozen operations of a microsecond each. Calling one through torch costs several
microseconds, through NumPy less than one, so a model that trains alone on a CPU takes this way. It computes what
`message_passing.forward` and `backward` compute (the tests compare them), on the same memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tabgnm.nn.losses import CrossEntropy, Loss
from tabgnm.nn.message_passing import DropoutFactors
from tabgnm.nn.shapes import EmbeddedShape, Shape

if TYPE_CHECKING:
    Array = NDArray[Any]

# Rows x weights of a step from which on torch's matrix products make up for its overhead.
_LARGEST_STEP = 2_500_000


def is_plain(shape: Shape) -> bool:
    """Whether a shape has no variants, so that its steps can be taken by code made for this case."""
    if isinstance(shape, EmbeddedShape):
        return False
    variants = shape.combine != "none" or shape.clamp_inputs or shape.persistent_outputs
    variants = variants or shape.tied or shape.learn_initial
    return not variants and shape.activation == "relu"


def is_small(shape: Shape, batch_size: int) -> bool:
    """Whether `PlainStep` is faster than torch."""
    return batch_size * shape.n_effective_parameters() <= _LARGEST_STEP


class PlainStep:
    """Forward pass, gradient of the loss and backward pass of one network on buffers that are used again.

    Parameters
    ----------
    shape : Shape
        One that `is_plain` accepts.
    parameters, gradients : dict of Tensor
        Views of the network's buffers by name; the gradients are overwritten by `run`.
    loss : Loss
    """

    def __init__(self, shape: Shape, parameters: dict[str, Tensor], gradients: dict[str, Tensor], loss: Loss) -> None:
        layers = range(1, shape.n_layers + 1)
        self._weights = [parameters[f"weight_{k}"].numpy() for k in layers]
        self._biases = [parameters[f"bias_{k}"].numpy() for k in layers]
        self._grad_weights = [gradients[f"weight_{k}"].numpy() for k in layers]
        self._grad_biases = [gradients[f"bias_{k}"].numpy() for k in layers]
        self._transposed = [weight.T for weight in self._weights]
        self._loss = loss
        self._dtype = self._weights[0].dtype
        self._widths = [weight.shape[1] for weight in self._weights]
        self._buffers: dict[int, _Buffers] = {}
        self._zero = np.zeros((), self._dtype)
        n_outputs = self._widths[-1]
        self._eye = np.eye(n_outputs, dtype=self._dtype)
        if isinstance(loss, CrossEntropy) and loss.label_smoothing:
            share = self._dtype.type(loss.label_smoothing)
            self._eye = (1 - share) * self._eye + share / n_outputs

    def targets(self, y: Tensor) -> Array:
        """Targets of a block as `run` takes them: for cross-entropy, (smoothed) one-hot rows."""
        return self._eye[y.numpy()] if isinstance(self._loss, CrossEntropy) else y.numpy()

    def run(self, x: Array, targets: Array, weights: Array, outputs: Array, dropout: DropoutFactors | None) -> None:
        """Write the gradients for rows `x` (B, m) with `weights` (B, 1); `outputs` (B, c) takes the outputs."""
        n, last = len(x), len(self._weights) - 1
        if n not in self._buffers:
            self._buffers[n] = _Buffers(n, self._widths, self._dtype)
        buffers = self._buffers[n]
        factors: list[Array] = []
        state = x
        for layer, weight in enumerate(self._weights):
            before, state = state, outputs if layer == last else buffers.states[layer]
            np.dot(before, weight, out=state)
            np.add(state, self._biases[layer], out=state)
            if layer < last:
                np.maximum(state, self._zero, out=state)
                if dropout is not None:
                    drawn = dropout(layer + 1, buffers.tensors[layer])
                    assert drawn is not None
                    factors.append(drawn.numpy())
                    np.multiply(state, factors[layer], out=state)

        grad = self._grad_output(outputs, targets, buffers)
        np.multiply(grad, weights, out=grad)
        for layer in range(last, 0, -1):
            state, mask, before = buffers.states[layer - 1], buffers.masks[layer - 1], buffers.grads[layer - 1]
            np.dot(buffers.transposed[layer - 1], grad, out=self._grad_weights[layer])
            np.dot(buffers.ones, grad, out=self._grad_biases[layer])
            np.dot(grad, self._transposed[layer], out=before)
            if factors:
                np.multiply(before, factors[layer - 1], out=before)
            # A dropped node is 0 as a silent one is, and its gradient was multiplied by 0 above.
            np.greater(state, self._zero, out=mask)
            np.multiply(before, mask, out=before)
            grad = before
        np.dot(x.T, grad, out=self._grad_weights[0])
        np.dot(buffers.ones, grad, out=self._grad_biases[0])

    def _grad_output(self, outputs: Array, targets: Array, buffers: _Buffers) -> Array:
        """Gradient of each row's loss by its outputs."""
        grad, column = buffers.grads[-1], buffers.column
        if not isinstance(self._loss, CrossEntropy):
            gradient = self._loss.gradient(torch.from_numpy(outputs), torch.from_numpy(targets))
            np.copyto(grad, gradient.numpy())
            return grad
        np.maximum.reduce(outputs, axis=1, keepdims=True, out=column)
        np.subtract(outputs, column, out=grad)
        np.exp(grad, out=grad)
        np.dot(grad, buffers.ones_outputs, out=column)
        np.divide(grad, column, out=grad)
        np.subtract(grad, targets, out=grad)
        return grad


class _Buffers:
    """Scratch memory of a step with `n_rows` rows."""

    def __init__(self, n_rows: int, widths: list[int], dtype: np.dtype[Any]) -> None:
        self.states = [np.empty((n_rows, width), dtype) for width in widths[:-1]]
        self.transposed = [state.T for state in self.states]
        self.tensors = [torch.from_numpy(state) for state in self.states]
        self.masks = [np.empty((n_rows, width), bool) for width in widths[:-1]]
        self.grads = [np.empty((n_rows, width), dtype) for width in widths]
        self.column = np.empty((n_rows, 1), dtype)
        self.ones = np.ones(n_rows, dtype)
        self.ones_outputs = np.ones((widths[-1], 1), dtype)
