"""The forward pass and a hand-derived backward pass, as functions of the parameters.

Both accept a single network (weights (s, t), rows (B, m)) or M stacked networks (weights (M, s, t), rows (M, B, m)).
The modules of `tabgnm.nn` call `forward` and use autograd; the fleet calls both functions.

In layer k = 1..K, where h are the node states and f is the activation function:

    z = A_k h                                   messages to the nodes that are used afterwards
    a = dropout(f(z)), or z in the last layer   candidate states
    h = a | h + a | h + g (a - h)               combine: none | residual | gated, g = sigmoid(s h + t z + r) per node

Clamped inputs keep their values, persistent outputs become h + z in every layer, and the bias node is always 1.
With learned embeddings, the initial states of input nodes are the embedded columns instead of x.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from tabgnm.nn.activations import get_activation
from tabgnm.nn.embeddings import EmbeddingTrace, embed, embed_backward
from tabgnm.nn.shapes import EmbeddedShape, GNMShape, MLPShape, Shape

# Takes a layer (counted from 1) and its activations. Returns factors, 0 or 1 / (1 - p), or None for no dropout.
DropoutFactors = Callable[[int, Tensor], Tensor | None]


class LayerTrace:
    """The tensors of one layer that the backward pass needs."""

    __slots__ = ("activated", "candidate", "factors", "gate", "message", "previous", "sources")

    def __init__(self, sources: list[Tensor]) -> None:
        self.sources = sources
        self.message: Tensor  # z of the nodes that activation and combine apply to
        self.activated: Tensor  # f(z)
        self.candidate: Tensor  # f(z) times the dropout factors
        self.factors: Tensor | None = None
        self.previous: Tensor  # h of the same nodes before the layer; set unless combine is "none"
        self.gate: Tensor  # g; set if combine is "gated"


class Trace:
    """The result of a forward pass: the output, the output after each layer if outputs persist, and layer traces."""

    __slots__ = ("embedding", "layers", "output", "readouts")

    def __init__(self) -> None:
        self.layers: list[LayerTrace] = []
        self.readouts: list[Tensor] = []
        self.output: Tensor
        self.embedding: EmbeddingTrace  # set with keep=True if the network has an embedding


def forward(
    shape: Shape,
    parameters: Mapping[str, Tensor],
    x: Tensor,
    dropout: DropoutFactors | None = None,
    *,
    keep: bool = False,
) -> Trace:
    """Run message passing on the rows `x`; with `keep=True`, record what `backward` needs.

    Shape
    -----
    - x: (B, m), or (M, B, m) for M stacked networks
    - Trace.output: (B, c) or (M, B, c)
    """
    trace = Trace()
    if isinstance(shape, EmbeddedShape):
        recorded = EmbeddingTrace() if keep else None
        x = embed(shape.embedding, parameters, x, recorded)
        if recorded is not None:
            trace.embedding = recorded
        shape = shape.body
        x = x.to(shape.layer_weights(parameters, 1).bias.dtype)  # which may be less precise than the embedding
    if dropout is None and not keep and shape.has_no_variant:
        return _short_forward(shape, parameters, x)
    function = get_activation(shape.activation)
    n_layers, persistent, combine = shape.n_layers, shape.persistent_outputs, shape.combine
    # Not in place where z is used again (gates) or is a slice (persistent outputs), which autograd would copy whole.
    activate = function.forward if combine == "gated" or persistent else (function.in_place or function.forward)
    sources, state, outputs = [x], x, x  # outputs: persistent outputs, set in layer 1
    for layer in range(1, n_layers + 1):
        last = layer == n_layers
        weights, bias = shape.layer_weights(parameters, layer)
        if layer == 1 and isinstance(shape, GNMShape) and shape.learn_initial:
            initial = parameters["initial"].unsqueeze(-2)
            bias = bias + torch.matmul(initial, shape.initial_weights(parameters)).squeeze(-2)
        message = _affine(sources, weights, bias)
        here = LayerTrace(sources)

        if persistent:
            n_free = message.shape[-1] - shape.n_outputs
            message, contribution = message[..., :n_free], message[..., n_free:]
            if layer > 1:
                outputs = outputs + contribution
            elif shape.learn_initial:
                outputs = contribution + parameters["initial"][..., -shape.n_outputs :].unsqueeze(-2)
            else:
                outputs = contribution
            trace.readouts.append(outputs)

        here.message = message
        if persistent and message.shape[-1] == 0:  # this layer computes only persistent outputs
            state = message
        else:
            here.activated = candidate = message if last else activate(message)
            if dropout is not None and not last:
                here.factors = dropout(layer, candidate)
                if here.factors is not None:
                    candidate = candidate * here.factors
            here.candidate = candidate
            if combine == "none":
                state = candidate
            else:
                here.previous = _previous(shape, parameters, layer, state)
                state = _combine(shape, parameters, layer, here)
        if keep:
            trace.layers.append(here)
        sources = _source_blocks(shape, x, state, outputs)
    trace.output = outputs if persistent else state
    return trace


def _short_forward(shape: GNMShape | MLPShape, parameters: Mapping[str, Tensor], x: Tensor) -> Trace:
    """Run `forward` for a network without variants, dropout or recording.

    In a small network, the bookkeeping of the general path takes as long as the matrix products.
    """
    function = get_activation(shape.activation)
    activate = function.in_place or function.forward
    trace, state, hidden = Trace(), x, False
    matrices = x.is_cpu and x.dim() == 2 and not torch.compiler.is_compiling()
    for weight, bias in shape.layer_names:
        sources = activate(state) if hidden else state
        if matrices:
            state = _add_bias(torch.mm(sources, parameters[weight]), parameters[bias])
        else:
            state = _affine([sources], [parameters[weight]], parameters[bias])
        hidden = True
    trace.output = state
    return trace


def _add_bias(product: Tensor, bias: Tensor) -> Tensor:
    """Add the bias, in place if possible: small forward passes then take 10% less time (with two threads)."""
    if product.dtype is bias.dtype:
        try:
            return product.add_(bias)
        except RuntimeError:  # under vmap, if only the bias is batched
            pass
    return product + bias


def backward(
    shape: Shape,
    parameters: Mapping[str, Tensor],
    trace: Trace,
    grad_output: Tensor,
    gradients: Mapping[str, Tensor],
    *,
    input_gradient: bool = False,
) -> Tensor | None:
    """Write the gradient of each parameter into `gradients`; return that of the body's inputs if `input_gradient`.

    `trace` is the result of `forward(..., keep=True)`.
    """
    if isinstance(shape, EmbeddedShape):
        grad_inputs = backward(shape.body, parameters, trace, grad_output, gradients, input_gradient=True)
        assert grad_inputs is not None
        own = trace.embedding
        embed_backward(shape.embedding, parameters, own, grad_inputs.to(own.x.dtype), gradients)
        return grad_inputs
    function = get_activation(shape.activation)
    persistent = shape.persistent_outputs
    if shape.tied:  # all layers add to one matrix
        gradients["weight"].zero_()
        gradients["bias"].zero_()
    grad_x: Tensor | None = None
    grad_state = grad_output  # with respect to the states of the nodes that activation and combine apply to
    grad_outputs = grad_output  # with respect to the persistent outputs
    for layer in range(shape.n_layers, 0, -1):
        here = trace.layers[layer - 1]
        last = layer == shape.n_layers

        grad_previous: Tensor | None = None
        if here.message.shape[-1] == 0:
            grad_message = grad_outputs
        else:
            grad_candidate, grad_gated_message = grad_state, None
            if shape.combine == "residual":
                grad_previous = grad_state
            elif shape.combine == "gated":
                grad_candidate, grad_previous, grad_gated_message = _gate_backward(
                    parameters, gradients, layer, here, grad_state
                )
            if here.factors is not None:
                grad_candidate = grad_candidate * here.factors
            grad_message = grad_candidate
            if not last:
                grad_message = function.backward(grad_candidate, here.message, here.activated)
            if grad_gated_message is not None:
                grad_message = grad_message + grad_gated_message
            if persistent:
                grad_message = torch.cat([grad_message, grad_outputs], dim=-1)

        weights = shape.layer_weights(parameters, layer)
        grad_weights = shape.layer_weights(gradients, layer)
        grad_bias = _sum_rows(grad_message, grad_weights.bias, accumulate=shape.tied)
        for source, grad_weight in zip(here.sources, grad_weights.blocks, strict=True):
            _product(source.mT, grad_message, grad_weight, accumulate=shape.tied)
        if layer == 1:
            if shape.learn_initial:
                _initial_backward(shape, parameters, gradients, grad_bias, grad_previous, grad_outputs)
            if input_gradient:
                from_message = torch.matmul(grad_message, weights.blocks[0].mT)
                grad_x = from_message if grad_x is None else grad_x + from_message
                if grad_previous is not None and not shape.clamp_inputs and shape.n_layers > 1:
                    grad_x = grad_x + grad_previous[..., : shape.n_inputs]
            break

        blocks = list(weights.blocks)
        if shape.clamp_inputs:
            inputs_block = blocks.pop(0)
            if input_gradient:
                from_message = torch.matmul(grad_message, inputs_block.mT)
                grad_x = from_message if grad_x is None else grad_x + from_message
        if persistent:
            grad_outputs = grad_outputs + torch.matmul(grad_message, blocks.pop().mT)
        if not blocks:  # all nodes are clamped inputs or persistent outputs
            grad_state = grad_message[..., :0]
            continue
        grad_state = torch.matmul(grad_message, blocks[0].mT)
        if grad_previous is not None:
            # In the last layer, combine applies to outputs only.
            missing = grad_state.shape[-1] - grad_previous.shape[-1]
            grad_state = grad_state + (F.pad(grad_previous, (missing, 0)) if missing else grad_previous)
    return grad_x


def _affine(blocks: list[Tensor], weights: list[Tensor], bias: Tensor) -> Tensor:
    """Return the bias plus the sum of block @ weight, for a single network (2-D) or stacked networks (3-D)."""
    # A separate addition is faster than addmm on a CPU and than baddbmm, which first copy the bias to every row.
    first, weight = blocks[0], weights[0]
    stacked = weight.dim() == 3
    if stacked:
        out = torch.bmm(first, weight).add_(bias.unsqueeze(-2))
    elif first.is_cpu:
        out = torch.mm(first, weight) + bias  # not in place: under vmap, only the bias may be batched
    else:
        out = torch.addmm(bias, first, weight)
    for block, weight in zip(blocks[1:], weights[1:], strict=True) if len(blocks) > 1 else ():
        out = torch.baddbmm(out, block, weight) if stacked else torch.addmm(out, block, weight)
    return out


def _product(a: Tensor, b: Tensor, out: Tensor, *, accumulate: bool) -> None:
    """Write a @ b into `out`, or add it to `out`."""
    if out.dim() == 3:  # torch.bmm writes into views of a larger buffer one matrix at a time
        out.add_(torch.bmm(a, b)) if accumulate else out.copy_(torch.bmm(a, b))
    else:
        out.addmm_(a, b) if accumulate else torch.mm(a, b, out=out)


def _sum_rows(values: Tensor, out: Tensor, *, accumulate: bool) -> Tensor:
    """Write the sum over the rows into `out`, or add it to `out`. Return the sum."""
    if not accumulate:
        return torch.sum(values, dim=-2, out=out)
    total = values.sum(dim=-2)
    out.add_(total)
    return total


def _source_blocks(shape: GNMShape | MLPShape, x: Tensor, state: Tensor, outputs: Tensor) -> list[Tensor]:
    """Return the sources of the next layer in the blocks of `GNMShape.source_ranges`."""
    if not (shape.clamp_inputs or shape.persistent_outputs):
        return [state]
    blocks = [x, state] if shape.clamp_inputs else [state]
    if shape.persistent_outputs:
        blocks.append(outputs)
    return [block for block in blocks if block.shape[-1]]


def _previous(shape: GNMShape | MLPShape, parameters: Mapping[str, Tensor], layer: int, state: Tensor) -> Tensor:
    """Return the states before the layer of the nodes that combine applies to.

    Before layer 1, `state` is x. Unless clamped, inputs are the first of these nodes; the initial values of hidden and
    output nodes are 0 or learned.
    """
    assert isinstance(shape, GNMShape)
    last = layer == shape.n_layers
    if layer > 1:
        return state[..., -shape.n_outputs :] if last else state
    first, end = (shape.first_target(layer), shape.n_updated) if last else (shape.first_free, shape.end_free)
    inputs = state[..., first : shape.n_inputs]
    previous = F.pad(inputs, (0, end - first - inputs.shape[-1]))
    if shape.learn_initial:
        start = max(first, shape.n_inputs)
        learned = parameters["initial"][..., start - shape.n_inputs : end - shape.n_inputs]
        previous = previous + F.pad(learned, (start - first, 0)).unsqueeze(-2)
    return previous


def _combine(shape: GNMShape | MLPShape, parameters: Mapping[str, Tensor], layer: int, here: LayerTrace) -> Tensor:
    """Return the new states; this is the COMBINE step of the GNN framework, with residuals or gates."""
    if shape.combine == "residual":
        return here.previous + here.candidate
    by_state, by_message, constant = (
        parameters[f"gate_{part}_{layer}"].unsqueeze(-2) for part in ("state", "message", "bias")
    )
    here.gate = torch.sigmoid(by_state * here.previous + by_message * here.message + constant)
    return here.previous + here.gate * (here.candidate - here.previous)


def _gate_backward(
    parameters: Mapping[str, Tensor],
    gradients: Mapping[str, Tensor],
    layer: int,
    here: LayerTrace,
    grad_state: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of h + g (a - h) with respect to a, h, and the message z inside g."""
    gate = here.gate
    grad_logit = grad_state * (here.candidate - here.previous) * gate * (1 - gate)
    torch.sum(grad_logit * here.previous, dim=-2, out=gradients[f"gate_state_{layer}"])
    torch.sum(grad_logit * here.message, dim=-2, out=gradients[f"gate_message_{layer}"])
    torch.sum(grad_logit, dim=-2, out=gradients[f"gate_bias_{layer}"])
    grad_previous = grad_state * (1 - gate) + grad_logit * parameters[f"gate_state_{layer}"].unsqueeze(-2)
    return grad_state * gate, grad_previous, grad_logit * parameters[f"gate_message_{layer}"].unsqueeze(-2)


def _initial_backward(
    shape: Shape,
    parameters: Mapping[str, Tensor],
    gradients: Mapping[str, Tensor],
    grad_bias: Tensor,
    grad_previous: Tensor | None,
    grad_outputs: Tensor,
) -> None:
    """Write the gradients of the learned initial values and of the weights of layer 1 from these nodes."""
    assert isinstance(shape, GNMShape)
    weights, grad_weights = shape.initial_weights(parameters), shape.initial_weights(gradients)
    outer = parameters["initial"].unsqueeze(-1) * grad_bias.unsqueeze(-2)
    grad_weights.add_(outer) if shape.tied else grad_weights.copy_(outer)
    grad_initial = gradients["initial"]
    grad_initial.copy_(torch.matmul(weights, grad_bias.unsqueeze(-1)).squeeze(-1))
    if grad_previous is not None:
        last = shape.n_layers == 1
        first, end = (shape.first_target(1), shape.n_updated) if last else (shape.first_free, shape.end_free)
        start = max(first, shape.n_inputs)
        learned = grad_initial[..., start - shape.n_inputs : end - shape.n_inputs]
        learned.add_(grad_previous[..., start - first :].sum(dim=-2))
    if shape.persistent_outputs:
        grad_initial[..., -shape.n_outputs :].add_(grad_outputs.sum(dim=-2))
