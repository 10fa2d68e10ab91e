"""Soft thresholding by proximal Adam after each step, for single edges and for all edges of a group of inputs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tabgnm.nn.shapes import body_of
from tabgnm.training.flat_weights import FlatLayout
from tabgnm.training.settings import FleetSettings, Member

_NEVER = 1e30  # keeps a weight at 0 with any positive rate; infinity times a rate of 0 would be NaN


def check_thresholds(layout: FlatLayout, member: Member, settings: FleetSettings) -> None:
    """Raise ValueError unless the l1 factors and input groups match the network and the optimizer."""
    if (member.l1_factors or member.group_l1) and settings.optimizer != "proximal_adam":
        raise ValueError(
            f"optimizer={settings.optimizer!r} does not support l1_factors and group_l1; use "
            "optimizer='proximal_adam', which sets weights to 0"
        )
    edges = layout.shape.edge_parameters()
    for name, factors in (member.l1_factors or {}).items():
        if name not in edges or tuple(factors.shape) != layout.sizes[name]:
            expected = f"{name} of shape {layout.sizes[name]}" if name in edges else f"some of {', '.join(edges)}"
            raise ValueError(f"l1_factors has {name!r} of shape {tuple(factors.shape)}; expected {expected}")
    body = body_of(layout.shape)
    if member.group_l1 and (settings.input_groups is None or len(settings.input_groups) != body.n_inputs):
        given = "none" if settings.input_groups is None else len(settings.input_groups)
        raise ValueError(
            f"group_l1={member.group_l1} requires the group of each of the {body.n_inputs} inputs of the network, but "
            f"input_groups has {given}; use FleetSettings(input_groups=(0, 0, 1, ...))"
        )


class EdgeThresholds:
    """Thresholds per unit of the learning rate for all edges of M models, and for groups of inputs.

    The absolute weight of an edge with factor f decreases by rate x l1 x f, but not below 0. The g edges that leave the
    inputs of a group, with norm s, are scaled by max(0, 1 - rate x group_l1 x sqrt(g) / s).
    """

    def __init__(self, layout: FlatLayout, members: Sequence[Member], settings: FleetSettings, flat: Tensor) -> None:
        self._edges: Tensor | None = None
        if any(member.l1 or member.l1_factors for member in members):
            self._edges = torch.zeros_like(flat)
            views = layout.views(self._edges)
            for row, member in enumerate(members):
                self._edges[row].fill_(member.l1)
                for name, factors in (member.l1_factors or {}).items():
                    own = factors.to(flat).nan_to_num(posinf=_NEVER)
                    views[name][row] = torch.where(own >= _NEVER, own, own * member.l1)
            self._edges = self._edges[:, : layout.n_edges].contiguous()
        strengths = [member.group_l1 for member in members]
        if settings.input_groups is not None and any(strengths):
            shape = layout.shape
            body = body_of(shape)
            names = [body.layer_names[0][0]]
            if body.clamp_inputs and not body.tied:
                names = [weight for weight, _ in body.layer_names]
            self._names, self._layout, self._n_inputs = names, layout, body.n_inputs
            self._groups = torch.tensor(settings.input_groups, device=flat.device)
            self._n_groups = int(self._groups.max()) + 1
            n_targets = sum(layout.sizes[name][1] for name in names)
            sizes = torch.bincount(self._groups, minlength=self._n_groups).to(flat) * n_targets
            self._strength = flat.new_tensor(strengths).unsqueeze(1) * sizes.sqrt()  # (M, groups)
        else:
            self._n_groups = 0

    def apply(self, models: slice, flat: Tensor, rate: Tensor) -> None:
        """Shrink the weights (m, P) of some models after a step with these rates, (m, 1)."""
        if self._edges is not None:
            threshold = self._edges[models] * rate
            weights = flat[:, : self._edges.shape[1]]
            weights.sub_(torch.maximum(torch.minimum(weights, threshold), -threshold))
        if self._n_groups:
            views = self._layout.views(flat)
            blocks = [views[name][:, : self._n_inputs] for name in self._names]  # (m, inputs, targets)
            squares = torch.stack([block.square().sum(dim=2) for block in blocks]).sum(dim=0)
            norms = squares.new_zeros(len(squares), self._n_groups).index_add_(1, self._groups, squares).sqrt_()
            lost = rate * self._strength[models] / norms.clamp(min=1e-30)
            factor = (1 - lost).clamp_(min=0)[:, self._groups].unsqueeze(2)
            for block in blocks:
                block.mul_(factor)
