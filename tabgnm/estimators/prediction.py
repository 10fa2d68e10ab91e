"""Outputs of all members for any number of rows, computed in pieces that fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from tabgnm.nn.message_passing import forward
from tabgnm.training.threads import thread_count, torch_threads

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator

Array = NDArray[Any]

_BLOCK_ROWS = 16_384  # rows to encode at a time
_BLOCK_ELEMENTS = 2**24  # encoded numbers at a time, for wide rows
_PIECE_ELEMENTS = 2**23  # activations at a time
_SINGLE_THREAD_ELEMENTS = 2**18  # below this, starting a second thread costs more than it saves
_GPU_ROWS = 4096  # below this, copying to a GPU costs more than it saves


def block_rows(n_encoded: int) -> int:
    """Return how many rows to encode at a time."""
    return max(1, min(_BLOCK_ROWS, _BLOCK_ELEMENTS // n_encoded))


def map_outputs(
    estimator: TabularEstimator, blocks: Iterable[Tensor], reduce: Callable[[Tensor], list[Array]]
) -> list[Array]:
    """Compute the outputs of all members piece by piece, and apply `reduce` to each piece.

    The outputs of all members for all rows are never held in memory at once.

    Parameters
    ----------
    estimator : TabularEstimator
    blocks : iterable of Tensor
        Encoded rows, each block of shape (rows, columns).
    reduce : callable
        Takes outputs of shape (members, rows, c), on the CPU; returns arrays with one entry per row.

    Returns
    -------
    list of arrays
        The arrays of all pieces, concatenated.
    """
    check_is_fitted(estimator, "fitted_")
    fitted, n_threads = estimator.fitted_, thread_count(estimator.n_jobs)
    elements_per_row = fitted.n_members * fitted.shape.activations_per_row
    piece_rows = max(1, _PIECE_ELEMENTS // elements_per_row)
    results = []
    for x in blocks:
        device = _device(estimator.device, len(x))
        parameters = fitted.exact_parameters
        if device.type != "cpu":
            parameters = {name: value.to(device) for name, value in fitted.parameters.items()}
        dtype = next(iter(parameters.values())).dtype
        is_small = len(x) * elements_per_row <= _SINGLE_THREAD_ELEMENTS
        with torch.inference_mode(), torch_threads(1 if is_small else n_threads):
            for piece in torch.split(x, piece_rows):
                rows = piece.to(device, dtype).expand(fitted.n_members, -1, -1)  # (members, rows, columns)
                results.append(reduce(forward(fitted.shape, parameters, rows).output.cpu()))
    return [np.concatenate(parts) for parts in zip(*results, strict=True)]


def _device(wanted: str | torch.device, n_rows: int) -> torch.device:
    """Return the device of training if this machine has it, or else the CPU: a model may be used on another machine."""
    cpu = torch.device("cpu")
    if n_rows < _GPU_ROWS or wanted == "cpu" or not torch.cuda.is_available():
        return cpu
    device = torch.device("cuda" if wanted == "auto" else wanted)
    exists = device.type == "cuda" and (device.index or 0) < torch.cuda.device_count()
    return device if exists else cpu
