"""Numbers that the host computes for each epoch, brought to the device for many epochs at once.

On a GPU an epoch is one launch of a captured graph, whose kernels pick the numbers of their epoch by themselves. So
the host has next to nothing to do between two epochs, which counts where several fleets share it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_MOST_EPOCHS = 64
_MOST_NUMBERS = 2**18  # of all these epochs


class Ahead:
    """Brings numbers of each epoch into `target`, a buffer that stays where it is."""

    def __init__(self, target: Tensor) -> None:
        self._target = target
        self._n_epochs = max(1, min(_MOST_EPOCHS, _MOST_NUMBERS // target.numel()))
        self._epochs = range(0)
        self._values: NDArray[Any]
        self._on_device: Tensor | None = None
        if target.device.type == "cuda":
            size = (self._n_epochs, *target.shape)
            self._on_device = torch.empty(size, dtype=target.dtype, device=target.device)
            # Copies from page-locked memory run in the background: not to be written again before they are done.
            self._locked = torch.empty(size, dtype=target.dtype, pin_memory=True)
            self._copied = torch.cuda.Event()  # type: ignore[no-untyped-call] # torch's, without types

    def load(self, epoch: int, compute: Callable[[range], NDArray[Any]]) -> None:
        """See to it that the numbers of an epoch are there; on a CPU, in the buffer.

        `compute` gives the numbers of a range of epochs, one array of the shape of the buffer for each. It is not kept:
        as a method of who owns this it would make a circle, and leave memory of the device to the garbage collector.
        """
        if epoch not in self._epochs:
            first = epoch - epoch % self._n_epochs
            self._epochs = range(first, first + self._n_epochs)
            self._values = compute(self._epochs)
            if self._on_device is not None:
                self._copied.synchronize()
                np.copyto(self._locked.numpy(), self._values.reshape(self._locked.shape), casting="same_kind")
                self._on_device.copy_(self._locked, non_blocking=True)
                self._copied.record()
        if self._on_device is None:
            values = self._values[epoch - self._epochs.start]
            np.copyto(self._target.numpy(), values.reshape(self._target.shape), casting="same_kind")

    def pick(self, epoch: Tensor) -> None:
        """Copy the numbers of the epoch into the buffer, by the device; on a CPU they are there."""
        if self._on_device is not None:
            place = epoch.remainder(self._n_epochs).view(1)
            torch.index_select(self._on_device, 0, place, out=self._target.unsqueeze(0))
