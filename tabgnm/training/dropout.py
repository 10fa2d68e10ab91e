"""Dropout of M models in lockstep, drawn from streams that are each model's own."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from tabgnm.nn.message_passing import DropoutFactors
from tabgnm.nn.shapes import Shape
from tabgnm.training import counter_random
from tabgnm.training.settings import Member


class Dropout:
    """Factors of dropout for M models with a rate each, from streams of their own."""

    def __init__(self, shape: Shape, members: Sequence[Member], batch_size: int, like: Tensor) -> None:
        rates = [member.dropout for member in members]
        self.needed = any(rates) and shape.n_layers > 1
        if not self.needed:
            return
        self._sizes = [(batch_size, width) for width in shape.dropout_widths]
        thresholds = [counter_random.threshold(rate) for rate in rates]
        self._thresholds = torch.tensor(thresholds, device=like.device).view(-1, 1, 1)
        self._scales = like.new_tensor([1 / (1 - rate) for rate in rates]).view(-1, 1, 1)

    @functools.cached_property
    def _streams(self) -> list[counter_random.Streams]:
        """Of each layer; not made where a kernel does without them."""
        return [counter_random.Streams(len(self._scales), size, self._scales.device) for size in self._sizes]

    @property
    def n_streams(self) -> int:
        """How many layers draw numbers."""
        return len(self._sizes) if self.needed else 0

    def start(self, keys: Sequence[Tensor]) -> None:
        """Begin the streams of an epoch."""
        for stream, own in zip(self._streams if self.needed else (), keys, strict=True):
            stream.start(own)

    def states(self) -> list[tuple[Tensor, Tensor, Tensor]] | None:
        """Stream states, thresholds and scales of each layer but the last, for kernels that draw by themselves."""
        if not self.needed:
            return None
        return [(stream.states, self._thresholds, self._scales) for stream in self._streams]

    def limits(self) -> tuple[Tensor, Tensor] | None:
        """Thresholds below which numbers of the streams drop a node, and scales of what is kept, (M, 1, 1)."""
        return (self._thresholds, self._scales) if self.needed else None

    def factors(self, n_models: int, n_rows: int, squeeze: bool) -> DropoutFactors | None:
        """Return the function that `forward` asks for the factors of each layer of a step."""
        if not self.needed:
            return None

        def draw(layer: int, activated: Tensor) -> Tensor:
            states = self._streams[layer - 1].advance(n_models)[:, :n_rows]
            factors = (states >= self._thresholds[:n_models]).to(activated.dtype) * self._scales[:n_models].to(
                activated.dtype
            )
            return factors[0] if squeeze else factors

        return draw
