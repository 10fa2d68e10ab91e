"""The step of networks without variants on a GPU, in two ways; `cuda_networks` has a third, for small ones.

All compute what `message_passing.forward` and `backward` compute (the tests compare them):

- `LayerGpuStep`: the optimiser's step included, with two kernels per layer;
- `PlainGpuStep`: gradients only, with matrix products one by one and everything between them fused: nine kernels for
  two layers and fourteen for three where torch's operations take sixteen and twenty-four. For clipped gradients, for
  hundreds of outputs, and where the kernels of the other way cannot be used.
"""

from __future__ import annotations

import itertools
from types import ModuleType

import torch
from torch import Tensor

from tabgnm.nn.losses import Loss
from tabgnm.nn.shapes import Shape
from tabgnm.training.fused import fused_products
from tabgnm.training.optimisers import Adam

Dropout = list[tuple[Tensor, Tensor, Tensor]]  # stream states, thresholds and scales for each layer but the last


def _torch_product(left: Tensor, right: Tensor, out: Tensor) -> None:
    torch.bmm(left, right, out=out)


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
        products = fused_products(next(iter(parameters.values())).device)
        self._multiply = _torch_product if products is None else products.product_into
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
        dropout: Dropout | None,
    ) -> None:
        """Write the gradients of the first models, as many as `x` (n, B, aligned m) has; the outputs go to `kept`."""
        n, n_rows, _ = x.shape
        states = [x, *(state[:n, :n_rows] for state in self._states)]
        grads = [grad[:n, :n_rows] for grad in self._grads]
        last = len(self._weights) - 1
        for layer, weight in enumerate(self._weights):
            self._multiply(states[layer], weight[:n], states[layer + 1])
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
            self._multiply(states[layer].mT, grads[layer], self._grad_weights[layer][:n])
            if layer:
                self._multiply(grads[layer], self._weights[layer][:n].mT, grads[layer - 1])
                scales = None if dropout is None else dropout[layer - 1][2]
                self._kernels.deactivate(grads[layer - 1], states[layer], self._grad_biases[layer - 1][:n], scales)


class LayerGpuStep:
    """Forward pass, backward pass and the optimiser's step of M networks, a layer at a time.

    Parameters
    ----------
    kernels : module
        `triton_layers`.
    shape : Shape
        One without variants.
    adam : Adam
        Whose weights and moments are stepped.
    loss : Loss
    batch_size : int
        Most rows of a step; 0 if it is there for `outputs` only.
    """

    def __init__(self, kernels: ModuleType, shape: Shape, adam: Adam, loss: Loss, batch_size: int) -> None:
        self._kernels, self._loss = kernels, loss
        self._how, self._n_outputs = kernels.PRODUCTS[adam.settings.precision], shape.n_outputs
        parameters = adam.layout.padded_views(adam.flat)
        layers = range(1, shape.n_layers + 1)
        self._weights = [parameters[f"weight_{k}"] for k in layers]
        self._biases = [parameters[f"bias_{k}"] for k in layers]
        widths = [(weight.shape[1], weight.shape[2]) for weight in self._weights]
        self._update = kernels.Update(
            widths,
            adam.flat,
            adam.exp_avg,
            adam.exp_avg_sq,
            adam.settings.betas,
            adam.l2,
            adam.l1_gradient,
            adam.decay,
            adam.l1_threshold,
            adam.factors,
        )
        # Those of all layers side by side; one layer has no states.
        targets = [width for _, width in widths]
        n_models, device = adam.flat.shape[0], adam.flat.device
        dtype = torch.bfloat16 if self._how == "bf16" else torch.float32  # as the table has
        self._all_states = torch.zeros(n_models, batch_size, max(16, sum(targets[:-1])), dtype=dtype, device=device)
        self._all_grads = torch.zeros(n_models, batch_size, sum(targets), device=device)
        ends = list(itertools.accumulate(targets))
        self._states = [self._all_states[..., end - own : end] for own, end in zip(targets[:-1], ends, strict=False)]
        self._grads = [self._all_grads[..., end - own : end] for own, end in zip(targets, ends, strict=True)]

    def outputs(self, x: Tensor) -> Tensor:
        """Outputs of all models for rows `x` (M, L, m or aligned), without dropout: (M, L, c)."""
        state, last = x, len(self._weights) - 1
        for layer, (weight, bias) in enumerate(zip(self._weights, self._biases, strict=True)):
            before, state = state, torch.empty(*x.shape[:2], weight.shape[2], device=x.device)
            self._kernels.forward_layer(before, weight, bias, state, None, self._how, relu=layer < last)
        return state[..., : self._n_outputs]

    @staticmethod
    def can_do(kernels: ModuleType, shape: Shape, adam: Adam) -> bool:
        """Whether a fleet is one for these kernels; clipping needs all gradients before the first step."""
        return shape.n_outputs <= kernels.MOST_OUTPUTS and adam.settings.clip_norm is None

    def run(
        self, x: Tensor, targets: Tensor, weights: Tensor, kept: Tensor, dropout: Dropout | None, rates: Tensor
    ) -> None:
        """Step the first models, as many as `x` (n, B, aligned m) has; the outputs go into `kept`."""
        n, n_rows, _ = x.shape
        states = [x, *(state[:n, :n_rows] for state in self._states)]
        grads = [grad[:n, :n_rows] for grad in self._grads]
        kernels, last, how = self._kernels, len(self._weights) - 1, self._how
        for layer in range(last):
            drop = None if dropout is None else dropout[layer]
            kernels.forward_layer(
                states[layer], self._weights[layer], self._biases[layer], states[layer + 1], drop, how
            )
        kernels.output_layer(
            self._loss.name,
            self._loss.setting,
            states[last],
            self._weights[last],
            self._biases[last],
            targets,
            weights,
            kept,
            grads[last],
            how,
        )
        for layer in range(last, 0, -1):
            scales = None if dropout is None else dropout[layer - 1][2]
            kernels.backward_layer(states[layer], self._weights[layer], grads[layer], grads[layer - 1], scales, how)
        self._update(x, self._all_states, self._all_grads, rates, how)
