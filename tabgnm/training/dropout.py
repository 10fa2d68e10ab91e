"""Dropout of M models in lockstep, drawn from streams that are each model's own."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from tabgnm.nn.message_passing import DropoutFactors
from tabgnm.nn.shapes import Shape
from tabgnm.training import counter_random
from tabgnm.training.settings import Member


class Dropout:
    """Factors of dropout for M models with a rate each, from streams of their own.

    They are (n, rows, nodes); in memory rows are neighbours if `rows_last`, else nodes.
    """

    def __init__(
        self, shape: Shape, members: Sequence[Member], batch_size: int, like: Tensor, *, rows_last: bool = False
    ) -> None:
        rates = [member.dropout for member in members]
        self.needed = any(rates) and shape.n_layers > 1
        if not self.needed:
            return
        self._sizes = [(batch_size, width) for width in shape.dropout_widths]
        thresholds = [counter_random.threshold(rate) for rate in rates]
        self._thresholds = torch.tensor(thresholds, device=like.device).view(-1, 1, 1)
        self._scales = like.new_tensor([1 / (1 - rate) for rate in rates]).view(-1, 1, 1)
        self._rows_last = rows_last

    @functools.cached_property
    def _streams(self) -> list[counter_random.Streams]:
        """Of each layer; not made where a kernel does without them."""
        n, device, transposed = len(self._scales), self._scales.device, self._rows_last
        return [counter_random.Streams(n, size, device, transposed=transposed) for size in self._sizes]

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

    def factors(self, models: slice, n_rows: int) -> DropoutFactors | None:
        """Return the function that `forward` asks for the factors of each layer of a step, (n, B, width)."""
        if not self.needed:
            return None

        def draw(layer: int, activated: Tensor) -> Tensor:
            states = self._streams[layer - 1].advance(models)[:, :n_rows]
            thresholds, scales = self._thresholds[models], self._scales[models]
            if states.device.type == "cpu":  # NumPy is faster, above all in multiplying by truth values
                kept = np.greater_equal(states.numpy(), thresholds.numpy())
                return torch.from_numpy(np.multiply(kept, scales.numpy())).to(activated.dtype)
            return (states >= thresholds).to(activated.dtype) * scales.to(activated.dtype)

        return draw
