"""Hard-concrete gates on the flat buffers of stacked models: effective weights, and gradients through the gates."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tabgnm.nn import hard_concrete
from tabgnm.training import counter_random
from tabgnm.training.flat_weights import FlatLayout
from tabgnm.training.settings import Member


class Gates:
    """The gates of M models with an l0 penalty; their parameters follow the weights in each row."""

    def __init__(self, layout: FlatLayout, members: Sequence[Member], flat: Tensor) -> None:
        self.layout = layout
        self.penalty = flat.new_tensor([member.l0 for member in members]).unsqueeze(1)
        self.streams = counter_random.Streams(len(members), (layout.n_edges,), flat.device)
        self.effective = torch.empty_like(flat)

    def open_randomly(self, flat: Tensor, models: slice) -> Tensor:
        """Compute the effective weights of models for a training step from their `flat`; return the random numbers."""
        uniform = self.streams.to_uniform(self.streams.advance(models), flat.dtype)
        self._apply(flat, hard_concrete.random_gate(flat[:, self.layout.gate_places], uniform), models)
        return uniform

    def fixed(self, flat: Tensor) -> Tensor:
        """Return the weights for evaluation, including exact zeros."""
        return self._apply(flat, hard_concrete.fixed_gate(flat[:, self.layout.gate_places]), slice(None))

    def _apply(self, flat: Tensor, gate: Tensor, models: slice) -> Tensor:
        effective = self.effective[models]
        effective.copy_(flat)
        effective[:, : self.layout.n_edges].mul_(gate)
        return effective

    def backward(self, flat: Tensor, grad: Tensor, models: slice, uniform: Tensor) -> None:
        """Convert gradients of effective weights to those of weights and gates, and add the gradient of the penalty."""
        layout = self.layout
        log_alpha, by_log_alpha = flat[:, layout.gate_places], grad[:, layout.gate_places]
        by_effective = grad[:, : layout.n_edges]
        by_gate = by_effective * flat[:, : layout.n_edges]
        probability = hard_concrete.open_probability(log_alpha)
        by_log_alpha.copy_(by_gate * hard_concrete.random_gate_gradient(log_alpha, uniform))
        by_log_alpha.addcmul_(probability * (1 - probability), self.penalty[models])
        by_effective.mul_(hard_concrete.random_gate(log_alpha, uniform))
