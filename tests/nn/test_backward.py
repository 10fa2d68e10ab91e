"""The hand-derived backward pass gives autograd's gradients."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tabgnm.nn.message_passing import backward, forward
from tabgnm.nn.shapes import Shape
from tests.nn.strategies import any_shapes, random_columns, seeds

pytestmark = pytest.mark.portable


@given(any_shapes, seeds, st.integers(1, 6), st.sampled_from([None, 1, 3]), st.booleans())
@settings(max_examples=400)
def test_gradients_equal_autograds(
    shape: Shape, seed: int, n_rows: int, n_models: int | None, with_dropout: bool
) -> None:
    torch.manual_seed(seed)
    stack = () if n_models is None else (n_models,)
    parameters = {
        name: torch.randn(*stack, *size, dtype=torch.float64).div_(2).requires_grad_()
        for name, size in shape.parameter_shapes().items()
    }
    x = random_columns(shape, *stack, n_rows).requires_grad_()
    factors: dict[int, torch.Tensor] = {}

    def dropout(layer: int, activated: torch.Tensor) -> torch.Tensor:
        return factors.setdefault(layer, torch.bernoulli(torch.full_like(activated, 0.7)) / 0.7)

    drop = dropout if with_dropout else None
    trace = forward(shape, parameters, x, drop)
    direction = torch.randn_like(trace.output)
    trace.output.backward(direction)

    detached = {name: p.detach() for name, p in parameters.items()}
    trace = forward(shape, detached, x.detach(), drop, keep=True)
    gradients = {name: torch.full_like(p, torch.nan) for name, p in detached.items()}
    grad_x = backward(shape, detached, trace, direction, gradients, input_gradient=True)

    if shape.embedding is None:
        assert grad_x is not None
        torch.testing.assert_close(grad_x, x.grad, rtol=1e-10, atol=1e-10)
    for name, parameter in parameters.items():
        expected = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        torch.testing.assert_close(gradients[name], expected, rtol=1e-10, atol=1e-10, msg=lambda m, n=name: f"{n}: {m}")
