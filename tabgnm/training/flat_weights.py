"""All parameters of M stacked models in one buffer, a row per model, and views of it by name."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tabgnm.nn.hard_concrete import INITIAL_LOG_ALPHA
from tabgnm.nn.shapes import Shape
from tabgnm.training import counter_random

_ALIGN = 8  # matrix kernels read several floats at once; every parameter begins at a multiple of this


class FlatLayout:
    """Where each parameter stands in a row: edges first, then what variants add, then the gates of the l0 penalty."""

    def __init__(self, shape: Shape, *, gates: bool = False) -> None:
        self.shape = shape
        self.gates = gates
        sizes = shape.parameter_shapes()
        edges = shape.edge_parameters()
        self.offsets: dict[str, int] = {}
        end = 0
        for name in [*edges, *(name for name in sizes if name not in edges)]:
            self.offsets[name] = end
            end += -(-math.prod(sizes[name]) // _ALIGN) * _ALIGN
            if name == edges[-1]:
                self.n_edges = end
        self.n_weights = end
        self.n_flat = end + (self.n_edges if gates else 0)
        self.sizes = sizes

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """Parameters by name as views of `flat`: (M, ...) for (M, P), without M for (P,)."""
        views = {}
        for name, size in self.sizes.items():
            offset = self.offsets[name]
            views[name] = flat[..., offset : offset + math.prod(size)].view(*flat.shape[:-1], *size)
        return views

    def first_weights(self, seeds: list[int], device: torch.device, dtype: torch.dtype) -> Tensor:
        """Draw the first weights of every model from its own seed: (M, P)."""
        flat = torch.zeros(len(seeds), self.n_flat, dtype=dtype, device=device)
        for position, (name, how) in enumerate(self.shape.draws().items()):
            n = math.prod(self.sizes[name])
            keys = [counter_random.key(seed, counter_random.INITIAL_WEIGHTS, position) for seed in seeds]
            target = flat[:, self.offsets[name] : self.offsets[name] + n]
            if how.kind == "normal":
                target.copy_(counter_random.normal(keys, n, device).mul_(how.scale))
            elif how.kind == "uniform":
                target.copy_(counter_random.uniform(keys, n, device).mul_(2 * how.scale).sub_(how.scale))
            else:
                target.fill_(how.scale)
        if self.gates:
            flat[:, self.n_weights :] = INITIAL_LOG_ALPHA
        return flat

    def rate_factors(self, factors: dict[str, float], device: torch.device, dtype: torch.dtype) -> Tensor | None:
        """Learning-rate factor of every place in a row, or None if all are 1."""
        if not factors:
            return None
        table = torch.ones(self.n_flat, dtype=dtype, device=device)
        used = set()
        for name, size in self.sizes.items():
            fitting = [start for start in factors if name.startswith(start)]
            if fitting:
                start = max(fitting, key=len)
                used.add(start)
                table[self.offsets[name] : self.offsets[name] + math.prod(size)] = factors[start]
        if set(factors) - used:
            unknown = sorted(set(factors) - used)
            raise ValueError(f"rate_factors name {unknown}, but the parameters are {sorted(self.sizes)}")
        return table
