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
    """The gates of M models with an l0 penalty; the parameters stand behind the weights in each row."""

    def __init__(self, layout: FlatLayout, members: Sequence[Member], flat: Tensor) -> None:
        self.layout = layout
        self.penalty = flat.new_tensor([member.l0 for member in members]).unsqueeze(1)
        self.streams = counter_random.Streams(len(members), (layout.n_edges,), flat.device)
        self.effective = torch.empty_like(flat)
        self._uniform: Tensor

    def select(self, keep: Tensor) -> None:
        """Keep these models only."""
        on_device = keep.to(self.penalty.device)
        self.penalty, self.effective = self.penalty[on_device], self.effective[on_device]
        self.streams.states = self.streams.states[on_device]

    def open_randomly(self, flat: Tensor) -> Tensor:
        """Weights for a training step of the first models, as many as `flat` has."""
        n, layout = len(flat), self.layout
        self._uniform = self.streams.to_uniform(self.streams.advance(n), flat.dtype)
        gate = hard_concrete.random_gate(flat[:, layout.n_weights :], self._uniform)
        return self._apply(flat, gate)

    def fixed(self, flat: Tensor) -> Tensor:
        """Weights for evaluation, exact zeros included."""
        return self._apply(flat, hard_concrete.fixed_gate(flat[:, self.layout.n_weights :]))

    def _apply(self, flat: Tensor, gate: Tensor) -> Tensor:
        effective = self.effective[: len(flat)]
        effective.copy_(flat)
        effective[:, : self.layout.n_edges].mul_(gate)
        return effective

    def backward(self, flat: Tensor, grad: Tensor) -> None:
        """Turn the gradient by the effective weights into those by weights and gates, and add the penalty's."""
        n, layout = len(flat), self.layout
        log_alpha, uniform = flat[:, layout.n_weights :], self._uniform
        by_effective = grad[:, : layout.n_edges]
        by_gate = by_effective * flat[:, : layout.n_edges]
        probability = hard_concrete.open_probability(log_alpha)
        grad[:, layout.n_weights :] = by_gate * hard_concrete.random_gate_gradient(log_alpha, uniform)
        grad[:, layout.n_weights :].addcmul_(probability * (1 - probability), self.penalty[:n])
        by_effective.mul_(hard_concrete.random_gate(log_alpha, uniform))
