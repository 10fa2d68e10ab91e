"""Brings small tables of numbers from the host to a device, epoch by epoch, without waiting for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# Copies from page-locked memory run in the background, so a slot must not be written again before its copy is done.
# The host waits for the device at least every ten epochs (see `flight`); this is well beyond.
_N_SLOTS = 32


class Staging:
    """Copies arrays of one shape into `target`, which stays where it is."""

    def __init__(self, target: Tensor) -> None:
        self.target = target
        self._slots: list[Tensor] = []
        if target.device.type == "cuda":
            self._slots = [torch.empty(target.shape, dtype=target.dtype, pin_memory=True) for _ in range(_N_SLOTS)]
        self._next = 0

    def send(self, values: NDArray[Any]) -> None:
        """Copy `values` to the device; they may be overwritten at once."""
        if not self._slots:
            np.copyto(self.target.numpy(), values.reshape(self.target.shape), casting="same_kind")
            return
        slot = self._slots[self._next].copy_(torch.from_numpy(values).view(self.target.shape))
        self._next = (self._next + 1) % _N_SLOTS
        self.target.copy_(slot, non_blocking=True)
