"""The step of networks without variants on a GPU: matrix products by cuBLAS, everything between them fused.

It computes what `message_passing.forward` and `backward` compute (the tests compare them), with nine kernels for two
layers and fourteen for three where torch's operations take sixteen and twenty-four.
"""

from __future__ import annotations

from types import ModuleType

import torch
from torch import Tensor

from tabgnm.nn.losses import Loss
from tabgnm.nn.shapes import Shape


class PlainGpuStep:
    """Forward pass, gradient of the loss and backward pass of M networks on buffers that are used again.

    Parameters
    ----------
    kernels : module
        `triton_kernels`.
    shape : Shape
        One without variants.
    parameters, gradients : dict of Tensor
        Views of the networks' buffers by name, (M, ...), aligned; the gradients are overwritten by `run`.
    loss : Loss
    batch_size : int
        Most rows of a step.
    """

    def __init__(
        self,
        kernels: ModuleType,
        shape: Shape,
        parameters: dict[str, Tensor],
        gradients: dict[str, Tensor],
        loss: Loss,
        batch_size: int,
    ) -> None:
        self._kernels, self._loss = kernels, loss
        layers = range(1, shape.n_layers + 1)
        self._weights = [parameters[f"weight_{k}"] for k in layers]
        self._biases = [parameters[f"bias_{k}"] for k in layers]
        self._grad_weights = [gradients[f"weight_{k}"] for k in layers]
        self._grad_biases = [gradients[f"bias_{k}"] for k in layers]
        n_models, device = len(self._weights[0]), self._weights[0].device
        self._n_outputs = shape.n_outputs
        sizes = [(n_models, batch_size, weight.shape[2]) for weight in self._weights]
        self._states = [torch.zeros(size, device=device) for size in sizes]
        self._grads = [torch.zeros(size, device=device) for size in sizes]

    def run(
        self,
        x: Tensor,
        targets: Tensor,
        weights: Tensor,
        kept: Tensor,
        dropout: list[tuple[Tensor, Tensor, Tensor]] | None,
    ) -> None:
        """Write the gradients of the first models, as many as `x` (n, B, aligned m) has, and the outputs into `kept`.

        `dropout` holds stream states, thresholds and scales for each layer but the last.
        """
        n, n_rows, _ = x.shape
        states = [x, *(state[:n, :n_rows] for state in self._states)]
        grads = [grad[:n, :n_rows] for grad in self._grads]
        last = len(self._weights) - 1
        for layer, weight in enumerate(self._weights):
            torch.bmm(states[layer], weight[:n], out=states[layer + 1])
            if layer < last:
                drop = None if dropout is None else dropout[layer]
                self._kernels.activate(states[layer + 1], self._biases[layer][:n], drop)
        self._kernels.loss_gradient(
            self._loss.name,
            self._loss.setting,
            states[-1][..., : self._n_outputs],
            targets,
            weights,
            kept,
            grads[last][..., : self._n_outputs],
            self._biases[last][:n],
            self._grad_biases[last][:n],
        )
        for layer in range(last, -1, -1):
            torch.bmm(states[layer].mT, grads[layer], out=self._grad_weights[layer][:n])
            if layer:
                torch.bmm(grads[layer], self._weights[layer][:n].mT, out=grads[layer - 1])
                scales = None if dropout is None else dropout[layer - 1][2]
                self._kernels.deactivate(grads[layer - 1], states[layer], self._grad_biases[layer - 1][:n], scales)
