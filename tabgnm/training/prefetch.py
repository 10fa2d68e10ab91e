"""Sending numbers that the host computes for each epoch to the device, for many epochs at once.

On a GPU, an epoch is one or a few launches of captured graphs, whose kernels select the numbers of their epoch. So the
host has next to nothing to do between two epochs, which matters if several fleets share it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tabgnm.training.gpu_sharing import mark

T = TypeVar("T")

_MAX_EPOCHS = 64
_MAX_NUMBERS = 2**18  # of all these epochs


class EpochWindow(Generic[T]):
    """Values of consecutive epochs; computing them for many epochs costs hardly more than for one."""

    values: T  # of all epochs of the window

    def __init__(self, numbers_per_epoch: int) -> None:
        self.n_epochs = max(1, min(_MAX_EPOCHS, _MAX_NUMBERS // numbers_per_epoch))
        self._epochs = range(0)

    def move_to(self, epoch: int, compute: Callable[[range], T]) -> bool:
        """Make the values of an epoch available; return whether they had to be computed."""
        if epoch in self._epochs:
            return False
        first = epoch - epoch % self.n_epochs
        self._epochs = range(first, first + self.n_epochs)
        self.values = compute(self._epochs)
        return True

    def place(self, epoch: int) -> int:
        """Return the position of an epoch in `values`."""
        return epoch - self._epochs.start


class Prefetch:
    """Copies the numbers of each epoch to `target`, a buffer with a fixed address."""

    def __init__(self, target: Tensor) -> None:
        self._target = target
        self._window = EpochWindow[NDArray[Any]](target.numel())
        self._on_device: Tensor | None = None
        if target.device.type == "cuda":
            size = (self._window.n_epochs, *target.shape)
            self._on_device = torch.empty(size, dtype=target.dtype, device=target.device)
            # Copies from page-locked memory run in the background, so it must not be overwritten before they are done.
            self._locked = torch.empty(size, dtype=target.dtype, pin_memory=True)
            self._copied: torch.cuda.Event | None = None

    def load(self, epoch: int, compute: Callable[[range], NDArray[Any]]) -> None:
        """Make the numbers of an epoch available; on a CPU, in the buffer.

        `compute` returns the numbers of a range of epochs, an array with the shape of the buffer for each. It is not
        stored: as a method of the owner it would create a reference cycle, so that device memory would only be freed by
        the garbage collector.
        """
        is_new = self._window.move_to(epoch, compute)
        if self._on_device is None:
            values = self._window.values[self._window.place(epoch)]
            np.copyto(self._target.numpy(), values.reshape(self._target.shape), casting="same_kind")
        elif is_new:
            if self._copied is not None:
                self._copied.synchronize()
            np.copyto(self._locked.numpy(), self._window.values.reshape(self._locked.shape), casting="same_kind")
            self._on_device.copy_(self._locked, non_blocking=True)
            self._copied = mark()

    def pick(self, epoch: Tensor) -> None:
        """Copy the numbers of the epoch to the buffer, on the device; on a CPU, `load` has already done this."""
        if self._on_device is not None:
            place = epoch.remainder(self._window.n_epochs).view(1)
            torch.index_select(self._on_device, 0, place, out=self._target.unsqueeze(0))
