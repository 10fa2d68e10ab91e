"""Outputs of all members for any number of rows, in pieces that fit into memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import nullcontext

import torch
from torch import Tensor

from tabgnm.nn.message_passing import forward
from tabgnm.nn.shapes import Shape

_BLOCK_ROWS = 16_384  # rows encoded at a time
_BLOCK_ELEMENTS = 2**24  # encoded numbers at a time, where rows are wide
_PIECE_ELEMENTS = 2**23  # activations at a time
_ONE_THREAD_ELEMENTS = 2**18  # so few are computed by one thread
GPU_ROWS = 4096  # fewer are not worth the way to a GPU


def block_rows(n_encoded: int) -> int:
    """Return how many rows to encode at a time."""
    return max(1, min(_BLOCK_ROWS, _BLOCK_ELEMENTS // n_encoded))


class _OneThread:
    """Computes with one thread of torch: calling a second one for a few rows costs more than it saves.

    Where other programs use the cores, it costs a hundred times more. torch keeps a number for each thread of Python,
    and one that new threads begin with; so what is restored is the number from before anybody was inside.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before = 1

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._before = torch.get_num_threads()
            self._inside += 1
            if self._before > 1:
                torch.set_num_threads(1)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._before > 1:
                torch.set_num_threads(self._before)


_one_thread = _OneThread()


def outputs(shape: Shape, parameters: Mapping[str, Tensor], x: Tensor, device: torch.device) -> Tensor:
    """Outputs of stacked networks, in the precision of `parameters`.

    Shape
    -----
    - x: (rows, columns)
    - output: (members, rows, c), on the CPU
    """
    some = next(iter(parameters.values()))
    if device.type != "cpu":
        parameters = {name: value.to(device) for name, value in parameters.items()}
    small = device.type == "cpu" and len(x) * len(some) * shape.activations_per_row <= _ONE_THREAD_ELEMENTS
    with torch.inference_mode(), _one_thread if small else nullcontext():
        pieces = [
            forward(shape, parameters, rows.to(device, some.dtype).expand(len(some), *rows.shape)).output.cpu()
            for rows in _pieces(shape, len(some), x)
        ]
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=1)


def _pieces(shape: Shape, n_members: int, x: Tensor) -> Iterator[Tensor]:
    size = max(1, _PIECE_ELEMENTS // (n_members * shape.activations_per_row))
    for first in range(0, max(1, len(x)), size):
        yield x[first : first + size]
