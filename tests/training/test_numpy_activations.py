"""Activations of the step in NumPy are those of `tabgnm.nn.activations`, in any precision and memory layout."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tabgnm.nn.activations import activation_names, get_activation
from tabgnm.training.steps.numpy_activations import activation_call, gradient_call


@pytest.mark.portable
@pytest.mark.parametrize("shape", [(3, 5), (2, 10, 256)])
@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", activation_names())
def test_values_and_gradients_are_those_of_the_definition(
    name: str, dtype: str, strided: bool, shape: tuple[int, ...]
) -> None:
    random = np.random.default_rng(0)

    def drawn() -> np.ndarray:
        larger = (*shape[:-2], shape[-2] + 1, shape[-1])  # without its last row, it is not contiguous
        array: np.ndarray = random.normal(scale=2, size=larger if strided else shape).astype(dtype)
        return array[..., :-1, :] if strided else array

    activation = get_activation(name)
    z, grad, a = drawn(), drawn(), drawn()
    argument, slope = (torch.from_numpy(array.copy()).double() for array in (z, grad))
    value = activation.forward(argument)
    expected = activation.backward(slope, argument, value).numpy()
    out = z if get_activation(name).in_place else a
    activation_call(name, z, out)()
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(out, value.numpy(), rtol=tolerance, atol=tolerance)
    gradient_call(name, grad, z, out)()
    np.testing.assert_allclose(grad, expected, rtol=tolerance, atol=tolerance)
