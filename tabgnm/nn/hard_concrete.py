"""Hard-concrete gates: an l0 penalty that gradients can follow (Louizos, Welling, Kingma, 2018).

Each edge weight w is multiplied by a gate z in [0, 1]. In training z is random, a stretched and clipped concrete
variable; in evaluation it is a fixed number, exactly 0 for edges that were given up. The expected number of open gates
is differentiable in the gate's parameter `log_alpha`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

# The constants of the paper: temperature, and the interval that the concrete variable is stretched to.
TEMPERATURE = 2 / 3
LOW, HIGH = -0.1, 1.1
_SPAN = HIGH - LOW
_OPEN_SHIFT = TEMPERATURE * math.log(-LOW / HIGH)

# Gates start mostly open: a rate of 0.2 of being pushed towards 0.
INITIAL_LOG_ALPHA = math.log(0.8 / 0.2)
# log_alpha of an edge that is known to be there, or known not to be: the fixed gate is then exactly 1 or 0.
CERTAIN = 4.0


def _stretched(concrete: Tensor) -> Tensor:
    return (concrete * _SPAN + LOW).clamp(0.0, 1.0)


def _concrete(log_alpha: Tensor, uniform: Tensor) -> Tensor:
    return torch.sigmoid((torch.logit(uniform) + log_alpha) / TEMPERATURE)


def random_gate(log_alpha: Tensor, uniform: Tensor) -> Tensor:
    """Gates for training, from uniform random numbers in the open interval (0, 1)."""
    return _stretched(_concrete(log_alpha, uniform))


def random_gate_gradient(log_alpha: Tensor, uniform: Tensor) -> Tensor:
    """Derivative of `random_gate` by `log_alpha`."""
    concrete = _concrete(log_alpha, uniform)
    stretched = concrete * _SPAN + LOW
    inside = (stretched > 0) & (stretched < 1)
    return torch.where(inside, concrete * (1 - concrete) * (_SPAN / TEMPERATURE), 0.0)


def fixed_gate(log_alpha: Tensor) -> Tensor:
    """Gates for evaluation: exact zeros and ones where the edge is decided."""
    return _stretched(torch.sigmoid(log_alpha))


def open_probability(log_alpha: Tensor) -> Tensor:
    """Probability that a gate is not 0; its sum is the expected l0 norm."""
    return torch.sigmoid(log_alpha - _OPEN_SHIFT)
