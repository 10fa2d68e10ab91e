"""Losses and metrics of the last epochs, recorded on the device and fetched by the host without stopping it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tabgnm.training.gpu_sharing import mark

EPOCHS_KEPT = 32
MAX_REQUESTS = 2

Fetched = NDArray[np.floating[Any]]


class EpochRecords:
    """Numbers such as losses of M models in the last `EPOCHS_KEPT` epochs, `n_numbers` per model and epoch.

    They have the device and type of `like`, a tensor of shape (M, ...).
    """

    def __init__(self, n_numbers: int, like: Tensor) -> None:
        self._kept = like.new_zeros(EPOCHS_KEPT, n_numbers, len(like))
        self._rows = [list(row) for row in self._kept.numpy()] if like.device.type == "cpu" else []
        self._copies: list[Tensor] = []  # page-locked, so that a GPU is not stopped; used in turn
        if like.device.type == "cuda":
            self._copies = [torch.empty_like(self._kept, device="cpu", pin_memory=True) for _ in range(MAX_REQUESTS)]

    def write(self, epoch: Tensor, numbers: Sequence[Tensor]) -> None:
        """Record numbers (M,) of an epoch."""
        if epoch.is_cpu:  # by NumPy, which is faster for few models
            for place, own in zip(self._rows[int(epoch) % EPOCHS_KEPT], numbers, strict=True):
                place[:] = own.numpy()
            return
        recorded = torch.stack(list(numbers))
        self._kept.index_copy_(0, epoch.remainder(EPOCHS_KEPT).view(1), recorded.unsqueeze(0))

    def request(self, epochs: range) -> Callable[[], Fetched]:
        """Request the numbers of epochs; return a function that waits for them, (epochs, numbers, M).

        At most `MAX_REQUESTS` requests may be pending.
        """
        places = [epoch % EPOCHS_KEPT for epoch in epochs]
        if self._kept.device.type == "cpu":
            fetched: Fetched = self._kept.numpy()[places]
            return lambda: fetched
        copy = self._copies.pop(0)
        self._copies.append(copy)
        copy.copy_(self._kept, non_blocking=True)  # the current state: later writes of the device follow this copy
        arrived = mark()

        def wait() -> Fetched:
            arrived.synchronize()
            fetched: Fetched = copy.numpy()[places]
            return fetched

        return wait
