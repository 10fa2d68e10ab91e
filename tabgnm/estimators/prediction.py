"""Outputs of all networks for any number of rows, computed in pieces that fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from tabgnm.estimators.cpu_outputs import map_on_cpu
from tabgnm.nn.message_passing import forward
from tabgnm.training.threads import thread_count, torch_threads

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator
    from tabgnm.estimators.fitting import FittedPack, NetworkGroup

Array = NDArray[Any]

_BLOCK_ROWS = 16_384  # rows per encoded block
_BLOCK_ELEMENTS = 2**24  # encoded numbers per block; limits the rows of wide tables
_PIECE_ELEMENTS = 2**23  # activations per piece
_SINGLE_THREAD_ELEMENTS = 2**18  # below this, starting a second thread costs more than it saves
# On a CPU, up to this number of rows is predicted in float64, more rows in the precision of the weights, usually
# float32. Both agree within the documented tolerance of 1e-6: absolute for probabilities, and relative to the larger of
# a prediction and the standard deviation of the target.
EXACT_ROWS = 512
_GPU_ROWS = 4096  # below this, copying to a GPU costs more than it saves


def block_rows(n_encoded: int) -> int:
    """Return the number of rows to encode at once; `n_encoded` is the number of columns of all encoders."""
    return max(1, min(_BLOCK_ROWS, _BLOCK_ELEMENTS // n_encoded))


def elements_per_row(fitted: FittedPack) -> int:
    """Return the number of values per row: of all encodings, or of the activations of the largest group."""
    n_encoded = sum(encoder.n_encoded for encoder in fitted.encoders)
    return max(n_encoded, *(group.n_networks * group.shape.activations_per_row for group in fitted.groups))


def piece_rows(n_elements: int) -> int:
    """Return the number of rows per piece, given the number of values per row."""
    return max(1, _PIECE_ELEMENTS // n_elements)


def map_outputs(
    estimator: TabularEstimator,
    blocks: Iterable[Sequence[Tensor]],
    reduce: Callable[[list[Tensor]], list[Array]],
    n_rows: int,
) -> list[Array]:
    """Compute the outputs of all networks piece by piece, and apply `reduce` to each piece.

    The outputs of all networks for all rows are never held in memory at once.

    Parameters
    ----------
    estimator : TabularEstimator
    blocks : iterable of sequences of Tensor
        Encoded rows of each block: one tensor (rows, columns) for each of the fitted encoders.
    reduce : callable
        Takes outputs of shape (networks, rows, c) of each group, on the CPU; returns arrays with one entry per row.
    n_rows : int
        The number of rows of all blocks.

    Returns
    -------
    list of arrays
        The arrays of all pieces, concatenated.
    """
    check_is_fitted(estimator, "fitted_")
    device = device_for(estimator.device, n_rows)
    if device.type == "cpu" and n_rows > EXACT_ROWS:
        return _joined(map_on_cpu(estimator.fitted_, blocks, reduce, thread_count(estimator.n_jobs)))
    # Few rows on the CPU in float64, or many rows on a GPU: compute all networks of a group at once.
    fitted, n_threads = estimator.fitted_, thread_count(estimator.n_jobs)
    places = {id(encoder): place for place, encoder in enumerate(fitted.encoders)}
    largest = elements_per_row(fitted)
    n_at_once = piece_rows(largest)
    parameters = [_parameters(group, device) for group in fitted.groups]
    dtype = next(iter(parameters[0].values())).dtype
    results = []
    for encoded in blocks:
        is_small = len(encoded[0]) * largest <= _SINGLE_THREAD_ELEMENTS
        with torch.inference_mode(), torch_threads(1 if is_small else n_threads):
            for pieces in zip(*(torch.split(x, n_at_once) for x in encoded), strict=True):
                rows = [piece.to(device, dtype) for piece in pieces]
                outputs = []
                for group, own in zip(fitted.groups, parameters, strict=True):
                    x = rows[places[id(group.encoder)]].expand(group.n_networks, -1, -1)  # (networks, rows, columns)
                    outputs.append(forward(group.shape, own, x).output.cpu())
                results.append(reduce(outputs))
    return _joined(results)


def _joined(results: list[list[Array]]) -> list[Array]:
    return [np.concatenate(parts) for parts in zip(*results, strict=True)]


def _parameters(group: NetworkGroup, device: torch.device) -> dict[str, Tensor]:
    if device.type == "cpu":
        return group.exact_parameters
    return {name: value.to(device) for name, value in group.parameters.items()}


def device_for(wanted: str | torch.device, n_rows: int) -> torch.device:
    """Return the GPU of training for many rows if it exists on this machine, otherwise the CPU."""
    cpu = torch.device("cpu")
    if n_rows < _GPU_ROWS or wanted == "cpu" or not torch.cuda.is_available():
        return cpu
    device = torch.device("cuda" if wanted == "auto" else wanted)
    exists = device.type == "cuda" and (device.index or 0) < torch.cuda.device_count()
    return device if exists else cpu
