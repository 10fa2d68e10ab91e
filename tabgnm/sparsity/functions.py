"""The activation functions without torch: for NumPy arrays and for single numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf, expit

Array = NDArray[Any]


@dataclass(frozen=True)
class Function:
    """An activation function.

    Attributes
    ----------
    numpy : callable
        Takes an array and returns an array of the same type.
    scalar : callable
        Takes a float and returns a float.
    """

    numpy: Callable[[Array], Array]
    scalar: Callable[[float], float]


def _softplus(z: Array) -> Array:
    # torch is linear above 20, where the difference is below the precision of float32.
    return np.where(z > 20, z, np.log1p(np.exp(np.minimum(z, 20))))


def _of_array(function: Callable[[Array], Array]) -> Function:
    return Function(function, lambda z: float(function(np.float64(z))))  # type: ignore[arg-type] # a scalar is one


FUNCTIONS: dict[str, Function] = {
    "identity": Function(lambda z: z, lambda z: z),
    "relu": Function(lambda z: np.maximum(z, 0), lambda z: max(z, 0.0)),
    "leaky_relu": _of_array(lambda z: np.where(z > 0, z, z.dtype.type(0.01) * z)),
    "elu": _of_array(lambda z: np.where(z > 0, z, np.expm1(np.minimum(z, 0)))),
    "gelu": _of_array(lambda z: (0.5 * z * (1 + erf(z * math.sqrt(0.5)))).astype(z.dtype)),
    "silu": _of_array(lambda z: z * expit(z)),
    "mish": _of_array(lambda z: z * np.tanh(_softplus(z))),
    "softplus": _of_array(_softplus),
    "tanh": Function(np.tanh, math.tanh),
    "sigmoid": _of_array(expit),
}
