"""Hard-concrete gates for a differentiable l0 penalty (Louizos, Welling and Kingma, 2018).

Each edge weight w is multiplied by a gate z in [0, 1]. In training, z is random: a stretched and clipped concrete
variable. In evaluation, z is deterministic, and exactly 0 for removed edges. The expected number of open gates is
differentiable with respect to the parameter `log_alpha` of the gate.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

# The constants of the paper: the temperature and the interval to which concrete variables are stretched.
TEMPERATURE = 2 / 3
LOW, HIGH = -0.1, 1.1
_SPAN = HIGH - LOW
_OPEN_SHIFT = TEMPERATURE * math.log(-LOW / HIGH)

# Gates are mostly open at first: sigmoid(log_alpha) = 0.8.
INITIAL_LOG_ALPHA = math.log(0.8 / 0.2)
# The fixed gate is exactly 1 for log_alpha = CERTAIN and exactly 0 for log_alpha = -CERTAIN.
CERTAIN = 4.0


def _stretched(concrete: Tensor) -> Tensor:
    return (concrete * _SPAN + LOW).clamp(0.0, 1.0)


def _concrete(log_alpha: Tensor, uniform: Tensor) -> Tensor:
    return torch.sigmoid((torch.logit(uniform) + log_alpha) / TEMPERATURE)


def random_gate(log_alpha: Tensor, uniform: Tensor) -> Tensor:
    """Return gates for training, given uniform random numbers in the open interval (0, 1)."""
    return _stretched(_concrete(log_alpha, uniform))


def random_gate_gradient(log_alpha: Tensor, uniform: Tensor) -> Tensor:
    """Return the derivative of `random_gate` with respect to `log_alpha`."""
    concrete = _concrete(log_alpha, uniform)
    stretched = concrete * _SPAN + LOW
    inside = (stretched > 0) & (stretched < 1)
    return torch.where(inside, concrete * (1 - concrete) * (_SPAN / TEMPERATURE), 0.0)


def fixed_gate(log_alpha: Tensor) -> Tensor:
    """Return gates for evaluation, which are exactly 0 or 1 if log_alpha is small or large enough."""
    return _stretched(torch.sigmoid(log_alpha))


def open_probability(log_alpha: Tensor) -> Tensor:
    """Return the probability that each gate is not 0; the sum is the expected l0 norm."""
    return torch.sigmoid(log_alpha - _OPEN_SHIFT)
