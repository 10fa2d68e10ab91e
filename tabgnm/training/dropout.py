"""Dropout of M models, drawn from separate random streams for each model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from tabgnm.nn.message_passing import DropoutFactors
from tabgnm.nn.shapes import Shape
from tabgnm.training import counter_random
from tabgnm.training.settings import Member


class Dropout:
    """Random streams for the dropout of M models, each with its own rate.

    Attributes
    ----------
    needed : bool
        Whether any model has dropout.
    streams : list of Streams
        One for each layer except the last, with states (M, batch_size, width); empty before `allocate`.
    thresholds, scales : Tensor
        A node is dropped if the state of its random stream is below the threshold; otherwise it is scaled. (M, 1, 1).
    """

    def __init__(self, shape: Shape, members: Sequence[Member], batch_size: int, like: Tensor) -> None:
        rates = [member.dropout for member in members]
        self.needed = any(rates) and shape.n_layers > 1
        self._sizes = [(batch_size, width) for width in shape.dropout_widths] if self.needed else []
        thresholds = [counter_random.threshold(rate) for rate in rates]
        self.thresholds = torch.tensor(thresholds, dtype=torch.int32, device=like.device).view(-1, 1, 1)
        self.scales = like.new_tensor([1 / (1 - rate) for rate in rates]).view(-1, 1, 1)
        self.streams: list[counter_random.Streams] = []

    @property
    def n_streams(self) -> int:
        """The number of layers with dropout."""
        return len(self._sizes)

    def allocate(self, *, rows_last: bool) -> None:
        """Create the streams in the memory layout that the step requires: contiguous along rows, or along nodes."""
        n, device = len(self.scales), self.scales.device
        self.streams = [counter_random.Streams(n, size, device, rows_last=rows_last) for size in self._sizes]

    def start(self, keys: Sequence[Tensor] | Tensor) -> None:
        """Begin the streams of an epoch, each with a key per model; there may be further keys."""
        for i, stream in enumerate(self.streams):
            stream.start(keys[i])

    def factors(self, models: slice, n_rows: int) -> DropoutFactors | None:
        """Return the function that `forward` calls for the factors of each layer in a step, (n, B, width)."""
        if not self.needed:
            return None

        def draw(layer: int, activated: Tensor) -> Tensor:
            states = self.streams[layer - 1].advance(models)[:, :n_rows]
            thresholds, scales = self.thresholds[models], self.scales[models]
            if states.device.type == "cpu":  # NumPy is faster, above all in multiplying by booleans
                kept = np.greater_equal(states.numpy(), thresholds.numpy())
                return torch.from_numpy(np.multiply(kept, scales.numpy())).to(activated.dtype)
            return (states >= thresholds).to(activated.dtype) * scales.to(activated.dtype)

        return draw
