"""Sending numbers that the host computes for each epoch to the device, for many epochs at once.

On a GPU, an epoch is one or a few launches of captured graphs, whose kernels select the numbers of their epoch. So the
host has next to nothing to do between two epochs, which matters if several fleets share it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tabgnm.training.gpu_sharing import mark

_MAX_EPOCHS = 64
_MAX_NUMBERS = 2**18  # of all these epochs


class Prefetch:
    """Numbers of consecutive epochs, computed for many at once, and copied to `target`, a buffer with a fixed address.

    On a GPU, `pick` copies them; on a CPU, `load` does.
    """

    def __init__(self, target: Tensor) -> None:
        self._target = target
        self._n_epochs = max(1, min(_MAX_EPOCHS, _MAX_NUMBERS // target.numel()))
        self._epochs = range(0)
        self._on_device: Tensor | None = None
        if target.device.type == "cuda":
            size = (self._n_epochs, *target.shape)
            self._on_device = torch.empty(size, dtype=target.dtype, device=target.device)
            # Copies from page-locked memory run in the background, so it must not be overwritten before they are done.
            self._locked = torch.empty(size, dtype=target.dtype, pin_memory=True)
            self._copied: torch.cuda.Event | None = None

    def load(self, epoch: int, compute: Callable[[range], NDArray[Any]]) -> None:
        """Make the numbers of an epoch available.

        `compute` returns the numbers of a range of epochs, an array with the shape of the buffer for each. It is not
        stored: as a method of the owner it would create a reference cycle, so that device memory would only be freed by
        the garbage collector.
        """
        if is_new := epoch not in self._epochs:
            first = epoch - epoch % self._n_epochs
            self._epochs = range(first, first + self._n_epochs)
            self._values = compute(self._epochs).reshape(self._n_epochs, *self._target.shape)
        if self._on_device is None:
            np.copyto(self._target.numpy(), self._values[epoch - self._epochs.start], casting="same_kind")
        elif is_new:
            if self._copied is not None:
                self._copied.synchronize()
            np.copyto(self._locked.numpy(), self._values, casting="same_kind")
            self._on_device.copy_(self._locked, non_blocking=True)
            self._copied = mark()

    def pick(self, epoch: Tensor) -> None:
        """Copy the numbers of the epoch to the buffer, on the device."""
        if self._on_device is not None:
            place = epoch.remainder(self._n_epochs).view(1)
            torch.index_select(self._on_device, 0, place, out=self._target.unsqueeze(0))
