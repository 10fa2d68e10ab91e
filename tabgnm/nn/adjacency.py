"""Conversion between the compact parameters of a network and the full (K, n, n) matrices of the paper.

An MLP is treated as the GNM of Theorem 5.1: one node per neuron, ordered by layer, and a single bias node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from tabgnm.nn.gnm_shape import GNMShape
from tabgnm.nn.mlp_shape import MLPShape


def edge_blocks(shape: GNMShape | MLPShape, layer: int) -> Iterator[tuple[str, slice, slice, list[int], list[int]]]:
    """Yield the edges of a layer in blocks: parameter name, its rows and columns, source nodes and target nodes.

    For a bias, the rows are slice(None), although the parameter is 1-D, and the only source is the bias node.
    """
    if isinstance(shape, MLPShape):
        yield from _mlp_blocks(shape, layer)
        return
    updated = shape.layout.updated
    targets = updated[shape.first_target(layer) :]
    skip = shape.first_target(layer) - shape.first_target(1) if shape.tied else 0
    columns = slice(skip, None)
    weight, bias = ("weight", "bias") if shape.tied else (f"weight_{layer}", f"bias_{layer}")
    n_sources = shape.n_inputs if layer == 1 else shape.n_updated
    yield weight, slice(0, n_sources), columns, updated[:n_sources], targets
    yield bias, slice(None), columns, [shape.layout.bias], targets
    if layer == 1 and shape.learn_initial:
        if shape.tied:
            yield "weight", slice(shape.n_inputs, None), columns, updated[shape.n_inputs :], targets
        else:
            yield "weight_initial", slice(None), columns, updated[shape.n_inputs :], targets


def _mlp_blocks(shape: MLPShape, layer: int) -> Iterator[tuple[str, slice, slice, list[int], list[int]]]:
    # Neurons are numbered layer by layer; the bias node is between hidden neurons and outputs.
    first_source, first_target = sum(shape.widths[: layer - 1]), sum(shape.widths[:layer])
    sources = list(range(first_source, first_target))
    after_bias = layer == shape.n_layers
    targets = [first_target + after_bias + neuron for neuron in range(shape.widths[layer])]
    every = slice(None)
    yield f"weight_{layer}", every, every, sources, targets
    yield f"bias_{layer}", every, every, [shape.layout.bias], targets


def full_adjacency(shape: GNMShape | MLPShape, parameters: Mapping[str, Tensor]) -> Tensor:
    """Return the (K, n, n) matrices of one network; entries without a parameter are 0, except 1 for the bias itself."""
    n = shape.layout.n_nodes
    some = next(iter(parameters.values()))
    full = torch.zeros(shape.n_layers, n, n, dtype=some.dtype, device=some.device)
    full[:, shape.layout.bias, shape.layout.bias] = 1
    for layer in range(1, shape.n_layers + 1):
        for name, rows, columns, sources, targets in edge_blocks(shape, layer):
            values = parameters[name]
            values = values[columns].unsqueeze(0) if values.dim() == 1 else values[rows, columns]
            full[layer - 1][torch.tensor(targets)[:, None], torch.tensor(sources)] = values.T
    return full


def check_adjacency(shape: GNMShape, matrices: Tensor) -> None:
    """Raise if the matrices are not valid (K, n, n) adjacency matrices for this shape."""
    expected = (shape.n_layers, shape.n_nodes, shape.n_nodes)
    if not isinstance(matrices, Tensor):
        raise TypeError(f"adjacency is a {type(matrices).__name__}; expected a torch.Tensor of shape {expected}")
    if tuple(matrices.shape) != expected:
        raise ValueError(
            f"adjacency has shape {tuple(matrices.shape)}; expected {expected}: (n_layers, n_nodes, n_nodes), where "
            "[k, v, u] is the weight of edge u -> v in layer k + 1"
        )
    if not torch.isfinite(matrices).all():
        layer, target, source = (int(i) for i in (~torch.isfinite(matrices)).nonzero()[0])
        value = matrices[layer, target, source].item()
        raise ValueError(f"adjacency[{layer}, {target}, {source}] is {value}; expected finite weights")
    bias = shape.layout.bias
    row = matrices[:, bias].clone()
    row[:, bias] = 0
    if row.any() or not torch.isin(matrices[:, bias, bias], matrices.new_tensor([0.0, 1.0])).all():
        raise ValueError(
            f"row {bias} of the adjacency belongs to the bias node, which has no incoming edges; expected zeros there "
            f"with 1 (or 0) at [k, {bias}, {bias}]"
        )


def edge_weights(shape: GNMShape, matrices: Tensor) -> dict[str, Tensor]:
    """Return the edge parameters of a GNM with these (K, n, n) matrices."""
    sizes = shape.parameter_shapes()
    edges = {name: matrices.new_zeros(sizes[name]) for name in shape.edge_parameters()}
    written = {name: torch.zeros(sizes[name], dtype=torch.bool, device=matrices.device) for name in edges}
    for layer in range(1, shape.n_layers + 1):
        for name, rows, columns, sources, targets in edge_blocks(shape, layer):
            values = matrices[layer - 1][torch.tensor(targets)[:, None], torch.tensor(sources)].T
            is_bias = edges[name].dim() == 1
            where = (columns,) if is_bias else (rows, columns)
            values = values[0] if is_bias else values
            if (written[name][where] & (edges[name][where] != values)).any():
                raise ValueError(
                    f"tied=True requires the same weights in all layers, but layer {layer} of the adjacency differs "
                    "from an earlier layer; pass one matrix, repeated n_layers times"
                )
            edges[name][where] = values
            written[name][where] = True
    return edges
