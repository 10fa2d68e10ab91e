"""Exact simplification of machines: what computes the same with fewer edges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tabgnm.sparsity.functions import FUNCTIONS
from tabgnm.sparsity.machine import Machine, Unit, weighted


def simplified(machine: Machine) -> Machine:
    """Return the machine without what it does not need; its outputs are the same up to rounding.

    - units that no output depends on are left out;
    - a unit that depends on no input is a constant, and goes into the biases of those that read it;
    - a hidden unit without a function (a sum) goes into those that read it, unless that would give more edges;
    - units that compute the same are one.

    Examples
    --------
    >>> from tabgnm.sparsity import Machine, Unit, simplified
    >>> constant = Unit("h1", 1, (), (), 2.0, "relu")
    >>> same = [Unit(name, 1, (0,), (1.0,), 0.0, "tanh") for name in ("h2", "h3")]
    >>> output = Unit("y", 2, (1, 2, 3), (0.5, 1.0, 1.0), 0.0, "identity")
    >>> small = simplified(Machine(("x",), (constant, *same, output), (4,), ("y",)))
    >>> [(unit.name, unit.sources, unit.weights, unit.bias) for unit in small.units]
    [('h2', (0,), (1.0,), 0.0), ('y', (1,), (2.0,), 1.0)]
    """
    while True:
        smaller = without_dead(_with_merged(_with_sums_inlined(_with_constants_folded(machine))))
        if smaller == machine:
            return smaller
        machine = smaller


def _with_constants_folded(machine: Machine) -> Machine:
    constants: dict[int, float] = {}
    units = []
    is_output = set(machine.outputs)
    for value, unit in enumerate(machine.units, start=machine.n_inputs):
        folded = sum(w * constants[s] for s, w in zip(unit.sources, unit.weights, strict=True) if s in constants)
        left = [(s, w) for s, w in zip(unit.sources, unit.weights, strict=True) if s not in constants]
        own = replace(
            unit, sources=tuple(s for s, _ in left), weights=tuple(w for _, w in left), bias=float(unit.bias + folded)
        )
        if not own.sources:
            constant = float(FUNCTIONS[own.function].scalar(own.bias))
            if value in is_output:
                own = replace(own, bias=constant, function="identity")
            constants[value] = constant
        units.append(own)
    return replace(machine, units=tuple(units))


def _with_sums_inlined(machine: Machine) -> Machine:
    """Put hidden units without a function into their readers, one at a time so that numbers of values stay."""
    n_readers = np.zeros(machine.n_values, dtype=int)
    for unit in machine.units:
        n_readers[list(unit.sources)] += 1
    is_output = set(machine.outputs)
    inlined: dict[int, Unit] = {}
    units = []
    for value, unit in enumerate(machine.units, start=machine.n_inputs):
        sources, weights, bias = [], [], unit.bias
        for source, weight in zip(unit.sources, unit.weights, strict=True):
            own = inlined.get(source)
            if own is None:
                sources.append(source)
                weights.append(weight)
            else:
                sources += own.sources
                weights += [weight * factor for factor in own.weights]
                bias += weight * own.bias
        merged, factors = weighted(sources, weights)
        unit = replace(unit, sources=merged, weights=factors, bias=bias)
        # With n readers and m edges there are n + m edges before, and n m after.
        n, m = int(n_readers[value]), len(unit.sources)
        if unit.function == "identity" and value not in is_output and n * m <= n + m:
            inlined[value] = unit
        units.append(unit)
    return replace(machine, units=tuple(units))


def _with_merged(machine: Machine) -> Machine:
    """Let units that compute the same be read as one."""
    first: dict[object, int] = {}
    stands_for: dict[int, int] = {}
    units = []
    for value, unit in enumerate(machine.units, start=machine.n_inputs):
        sources, weights = weighted([stands_for.get(s, s) for s in unit.sources], unit.weights)
        unit = replace(unit, sources=sources, weights=weights)
        stands_for[value] = first.setdefault((sources, weights, unit.bias, unit.function), value)
        units.append(unit)
    outputs = tuple(stands_for.get(value, value) for value in machine.outputs)
    return replace(machine, units=tuple(units), outputs=outputs)


def without_dead(machine: Machine) -> Machine:
    """Return the machine without units that no output depends on."""
    needed = set(machine.outputs)
    for value in range(machine.n_values - 1, machine.n_inputs - 1, -1):
        if value in needed:
            needed.update(machine.unit(value).sources)
    kept = [value for value in range(machine.n_inputs, machine.n_values) if value in needed]
    place = {value: machine.n_inputs + i for i, value in enumerate(kept)} | {i: i for i in range(machine.n_inputs)}
    units = tuple(
        replace(unit, sources=tuple(place[source] for source in unit.sources)) for unit in map(machine.unit, kept)
    )
    return replace(machine, units=units, outputs=tuple(place[value] for value in machine.outputs))
