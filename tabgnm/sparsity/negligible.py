"""Removal of weights that are rounding errors of training, so that they do not count as edges."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tabgnm.nn.message_passing import forward
from tabgnm.nn.shapes import GNMShape

_SHARE = 1e-6  # fraction of the size of an output, a few times the rounding error of float32
_BLOCK_ROWS = 8192


def without_negligible(
    shape: GNMShape, parameters: Mapping[str, Tensor], x: Tensor, least_size: Tensor
) -> dict[str, Tensor]:
    """Set weights and biases to 0 that change no output by more than a few times the rounding error of float32.

    The effect of a weight on an output is bounded by its largest product with its source over the rows, times the sum
    over all paths from its target to the output of the products of absolute weights, because the slopes of activation
    functions are at most about 1. This bound is compared with the size of the output: the largest term of its sum, or
    `least_size` if that is larger.

    Parameters
    ----------
    shape : GNMShape
        The shape of a network without variants other than clamped inputs.
    parameters : mapping of str to Tensor
    x : Tensor
        The training rows.
    least_size : Tensor
        One number, or one per output.

    Returns
    -------
    dict of str to Tensor
    """
    parameters = {name: value.detach() for name, value in parameters.items()}
    names = shape.layer_names
    terms = [
        parameters[weight].abs() * size for (weight, _), size in zip(names, _sizes(shape, parameters, x), strict=True)
    ]
    last_bias = parameters[names[-1][1]].abs()
    size = torch.cat([terms[-1], last_bias.unsqueeze(0)]).amax(dim=0).maximum(least_size.to(last_bias))
    smallest = torch.finfo(size.dtype).tiny
    effect = torch.diag(1 / size.clamp(min=smallest))  # (targets, outputs): of a change by 1, relative to the output
    kept = {}
    for (weight, bias), own in zip(reversed(names), reversed(terms), strict=True):
        largest = effect.amax(dim=1)
        kept[weight] = torch.where(own * largest < _SHARE, 0, parameters[weight])
        kept[bias] = torch.where(parameters[bias].abs() * largest < _SHARE, 0, parameters[bias])
        effect = (kept[weight].abs() @ effect)[shape.n_inputs :]  # for the nodes of the previous layer
    return {name: kept[name] for name in parameters}


def _sizes(shape: GNMShape, parameters: Mapping[str, Tensor], x: Tensor) -> list[Tensor]:
    """Return the largest absolute value of each source of each layer, (sources, 1)."""
    found: list[Tensor] = []
    with torch.inference_mode():
        for rows in torch.split(x.to(next(iter(parameters.values())).dtype), _BLOCK_ROWS):
            layers = forward(shape, parameters, rows, keep=True).layers
            own = [torch.cat(list(layer.sources), dim=-1).abs().amax(dim=0).unsqueeze(1) for layer in layers]
            found = own if not found else [old.maximum(new) for old, new in zip(found, own, strict=True)]
    return found
