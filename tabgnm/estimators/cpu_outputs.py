"""Outputs of all networks for many rows on a CPU: each thread applies all networks to one block of rows at a time.

Blocks are small enough for their activations to stay in the cache of a core. Threads share only the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tabgnm.nn.message_passing import forward
from tabgnm.nn.shapes import Shape
from tabgnm.training.flat_weights import FlatLayout
from tabgnm.training.steps.numpy_network import NetworkParameters, NetworkPass
from tabgnm.training.thread_pool import ThreadPool
from tabgnm.training.threads import single_threaded_math

if TYPE_CHECKING:
    from tabgnm.estimators.fitting import FittedPack

Array = NDArray[Any]

_MAX_ROWS = 512  # rows of a block
_MAX_ACTIVATIONS = 2**19  # of one network for a block; limits the rows for wide networks


def map_on_cpu(
    fitted: FittedPack,
    blocks: Iterable[Sequence[Tensor]],
    reduce: Callable[[list[Tensor]], list[Array]],
    n_threads: int,
) -> list[list[Array]]:
    """Apply `reduce` to the outputs of all networks, a few hundred rows at a time.

    Parameters
    ----------
    fitted : FittedPack
    blocks : iterable of sequences of Tensor
        Encoded rows of each block: one tensor (rows, columns) for each of the fitted encoders.
    reduce : callable
        Takes outputs of shape (networks, rows, c) of each group; called in any thread.
    n_threads : int
    """
    # Columns that are not scaled may be so large that float32 would lose more than the documented tolerance.
    exact = any(encoder.settings.scaling == "none" for encoder in fitted.encoders)
    places = {id(encoder): place for place, encoder in enumerate(fitted.encoders)}
    groups: list[tuple[int, _NumpyGroup | _TorchGroup]] = []
    for group in fitted.groups:
        make = _NumpyGroup if NetworkPass.supports(group.shape) else _TorchGroup
        parameters = group.exact_parameters if exact else group.parameters
        groups.append((places[id(group.encoder)], make(group.shape, parameters, n_threads)))
    dtype = torch.float64 if exact else next(iter(fitted.groups[0].parameters.values())).dtype
    widest = max(group.shape.activations_per_row for group in fitted.groups)
    n_rows = max(1, min(_MAX_ROWS, _MAX_ACTIVATIONS // widest))
    results: list[list[Array]] = []
    with single_threaded_math(), torch.inference_mode(), np.errstate(all="ignore"), ThreadPool(n_threads) as pool:
        for encoded in blocks:
            parts = list(zip(*(torch.split(x, n_rows) for x in encoded), strict=True))
            done: list[list[Array]] = [[]] * len(parts)
            pool.run(partial(_map_part, groups, parts, dtype, reduce, done), len(parts))
            results += done
    return results


def _map_part(
    groups: list[tuple[int, _NumpyGroup | _TorchGroup]],
    parts: list[tuple[Tensor, ...]],
    dtype: torch.dtype,
    reduce: Callable[[list[Tensor]], list[Array]],
    done: list[list[Array]],
    thread: int,
    task: int,
) -> None:
    rows = [_RowsOfEncoder(part.to(dtype)) for part in parts[task]]
    outputs = []
    for place, group in groups:
        outputs.append(group.outputs(rows[place], thread))
    done[task] = reduce(outputs)


class _RowsOfEncoder:
    """A block of encoded rows, (rows, columns), also in the transposed form that `_NumpyGroup` requires."""

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows
        self._by_column: Array | None = None

    def by_column(self) -> Array:
        """Return the transposed rows, (columns + 1, rows); the last row is all ones."""
        if self._by_column is None:
            self._by_column = np.ones((self.rows.shape[1] + 1, len(self.rows)), self.rows.numpy().dtype)
            self._by_column[:-1] = self.rows.numpy().T
        return self._by_column


class _NumpyGroup:
    """Computes the networks of a group one after the other in NumPy, whose cosine and small calls are faster."""

    def __init__(self, shape: Shape, stacked: Mapping[str, Tensor], n_threads: int) -> None:
        layout = FlatLayout(shape)
        some = next(iter(stacked.values()))
        flat = torch.empty(len(some), layout.n_flat, dtype=some.dtype)
        for name, view in layout.views(flat).items():
            view.copy_(stacked[name])
        self._parameters = [NetworkParameters(layout, network) for network in flat.unsqueeze(1)]
        self._n_outputs, self._dtype = shape.n_outputs, flat.numpy().dtype
        self._passes = [cache(partial(NetworkPass, shape, self._dtype, 1)) for _ in range(n_threads)]

    def outputs(self, rows: _RowsOfEncoder, thread: int) -> Tensor:
        x = rows.by_column()
        network = self._passes[thread](x.shape[1])
        outputs = np.empty((len(self._parameters), self._n_outputs, x.shape[1]), self._dtype)
        for parameters, own in zip(self._parameters, outputs, strict=True):
            np.copyto(own, network.outputs(parameters, x))
        return torch.from_numpy(outputs).mT


class _TorchGroup:
    """Computes all networks of a group at once in torch, for variants that `_NumpyGroup` does not support."""

    def __init__(self, shape: Shape, stacked: Mapping[str, Tensor], n_threads: int) -> None:  # noqa: ARG002 - as above
        self._shape, self._stacked = shape, stacked

    def outputs(self, rows: _RowsOfEncoder, thread: int) -> Tensor:  # noqa: ARG002
        n_networks = len(next(iter(self._stacked.values())))
        return forward(self._shape, self._stacked, rows.rows.expand(n_networks, -1, -1)).output
