"""Fast execution of machines: level by level, as a dense or sparse matrix product, whichever is faster."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from tabgnm.sparsity.functions import FUNCTIONS
from tabgnm.sparsity.machine import Machine

Array = NDArray[Any]

_TRIED_ROWS = 1024
_TRIES = 5
_MAX_SPARSE = 0.3  # maximum density of a sparse product; above it, measurements that favor one are noise


@dataclass(frozen=True, eq=False)
class _Level:
    """Units that read only earlier levels."""

    sources: slice | Array  # the values that the units read
    sparse: scipy.sparse.csr_array  # (units, sources)
    dense: Array
    bias: Array
    functions: tuple[tuple[str, slice], ...]
    targets: slice

    def compute(self, values: Array, *, use_sparse: bool) -> Array:
        """Return the values of the units, (units, rows)."""
        read = values[self.sources]
        z = self.sparse @ read if use_sparse else self.dense @ read
        z += self.bias
        for function, own in self.functions:
            if function != "identity":
                z[own] = FUNCTIONS[function].numpy(z[own])
        return z


class CompiledMachine:
    """A machine compiled for many rows. Its results equal those of `machine.run` up to rounding.

    Units are grouped into levels. The units of a level read only earlier levels and are computed at once. For each
    level, a dense and a sparse product are timed once, and the faster one is used afterwards.

    Parameters
    ----------
    machine : Machine

    Attributes
    ----------
    machine : Machine
    n_levels : int
    n_sparse : int
        The number of levels with a sparse product.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        dtype = np.dtype(machine.dtype)
        self._used = np.array(machine.used_inputs, dtype=np.intp)
        level_of = {int(value): 0 for value in self._used}
        levels: list[list[int]] = []
        for value, unit in enumerate(machine.units, start=machine.n_inputs):
            level = 1 + max((level_of[source] for source in unit.sources), default=0)
            level_of[value] = level
            while len(levels) < level:
                levels.append([])
            levels[level - 1].append(value)
        # Units of a level are sorted by function, so that each function is applied to a contiguous part.
        order = [int(value) for value in self._used]
        self._levels: list[_Level] = []
        place = {value: i for i, value in enumerate(order)}
        for own in levels:
            own.sort(key=lambda value: (machine.unit(value).function, value))
            first = len(order)
            order += own
            place |= {value: first + i for i, value in enumerate(own)}
            self._levels.append(_level(machine, own, place, first, dtype))
        self._n_values = len(order)
        self._outputs = np.array([place[value] for value in machine.outputs], dtype=np.intp)
        self._choose()

    @property
    def n_levels(self) -> int:
        """The number of levels."""
        return len(self._levels)

    @property
    def n_sparse(self) -> int:
        """The number of levels with a sparse product."""
        return sum(self._use_sparse)

    def _choose(self) -> None:
        """Time both products of each level, and keep the faster one."""
        rows = np.random.default_rng(0).standard_normal((self._n_values, _TRIED_ROWS)).astype(self.machine.dtype)
        self._use_sparse = []
        for level in self._levels:
            if level.sparse.nnz > _MAX_SPARSE * level.dense.size:
                self._use_sparse.append(False)
                continue
            seconds = {}
            for use_sparse in (False, True):
                times = []
                for _ in range(_TRIES):
                    began = time.perf_counter()
                    level.compute(rows, use_sparse=use_sparse)
                    times.append(time.perf_counter() - began)
                seconds[use_sparse] = min(times)
            self._use_sparse.append(seconds[True] < seconds[False])

    def run(self, x: ArrayLike) -> Array:
        """Compute the outputs.

        Shape
        -----
        - x: (rows, inputs)
        - output: (rows, outputs)
        """
        rows = np.asarray(x, dtype=self.machine.dtype)
        if rows.ndim != 2 or rows.shape[1] != self.machine.n_inputs:
            raise ValueError(f"x has shape {rows.shape}; expected (rows, {self.machine.n_inputs})")
        values = np.empty((self._n_values, len(rows)), dtype=self.machine.dtype)
        values[: len(self._used)] = rows.T[self._used]
        for level, use_sparse in zip(self._levels, self._use_sparse, strict=True):
            values[level.targets] = level.compute(values, use_sparse=use_sparse)
        return np.ascontiguousarray(values[self._outputs].T)


def _level(machine: Machine, own: list[int], place: dict[int, int], first: int, dtype: np.dtype[Any]) -> _Level:
    units = [machine.unit(value) for value in own]
    read = sorted({place[source] for unit in units for source in unit.sources})
    column = {number: i for i, number in enumerate(read)}
    dense = np.zeros((len(units), len(read)), dtype=dtype)
    for row, unit in enumerate(units):
        for source, weight in zip(unit.sources, unit.weights, strict=True):
            dense[row, column[place[source]]] = weight
    functions, start = [], 0
    for row, unit in enumerate(units):
        if row + 1 == len(units) or units[row + 1].function != unit.function:
            functions.append((unit.function, slice(start, row + 1)))
            start = row + 1
    contiguous = bool(read) and read[-1] - read[0] + 1 == len(read)
    return _Level(
        slice(read[0], read[-1] + 1) if contiguous else np.array(read, dtype=np.intp),
        scipy.sparse.csr_array(dense),
        dense,
        np.array([[unit.bias] for unit in units], dtype=dtype),
        tuple(functions),
        slice(first, first + len(own)),
    )
