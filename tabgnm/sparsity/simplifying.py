"""Exact simplification of machines: the same function with fewer edges."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from tabgnm.sparsity.functions import FUNCTIONS
from tabgnm.sparsity.machine import Machine, Unit, weighted

_IDENTITY_ABOVE_0 = ("relu", "leaky_relu", "elu")
_NEVER_NEGATIVE = ("relu", "softplus", "sigmoid")


def simplified(machine: Machine) -> Machine:
    """Return an equivalent machine with fewer edges; its outputs are the same up to rounding.

    - Units that no output depends on are removed.
    - Units that depend on no input are constants, and are added to the biases of the units that read them. So is a ReLU
      whose argument is never positive, such as a negative multiple of another ReLU.
    - Hidden units without an activation function are merged into the units that read them, unless this would add edges.
      The same holds for a ReLU whose argument is never negative, such as a positive multiple of another ReLU.
    - Equal units are merged.

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
            return with_short_names(smaller)
        machine = smaller


def _with_constants_folded(machine: Machine) -> Machine:
    constants: dict[int, float] = {}
    units = []
    is_output, never_negative = set(machine.outputs), _never_negative(machine)
    for value, unit in enumerate(machine.units, start=machine.n_inputs):
        folded = sum(w * constants[s] for s, w in zip(unit.sources, unit.weights, strict=True) if s in constants)
        left = [(s, w) for s, w in zip(unit.sources, unit.weights, strict=True) if s not in constants]
        own = replace(
            unit, sources=tuple(s for s, _ in left), weights=tuple(w for _, w in left), bias=float(unit.bias + folded)
        )
        if own.function == "relu" and own.bias <= 0 and all(s in never_negative and w <= 0 for s, w in left):
            own = replace(own, sources=(), weights=(), bias=0.0)
        if not own.sources:
            constant = float(FUNCTIONS[own.function].scalar(own.bias))
            if value in is_output and (own.bias or not constant):  # otherwise a bias, which is an edge, would be added
                own = replace(own, bias=constant, function="identity")
            constants[value] = constant
        units.append(own)
    return replace(machine, units=tuple(units))


def _with_sums_inlined(machine: Machine) -> Machine:
    """Merge hidden units without a function into the units that read them; the numbering of values does not change."""
    is_sum = _sums(machine)
    n_readers = np.zeros(machine.n_values, dtype=int)
    n_without_bias = np.zeros(machine.n_values, dtype=int)  # readers to which an edge from the bias would be added
    for unit in machine.units:
        n_readers[list(unit.sources)] += 1
        n_without_bias[list(unit.sources)] += unit.bias == 0
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
        n, m = int(n_readers[value]), len(unit.sources)
        n_before = n + unit.n_edges
        n_after = n * m + (int(n_without_bias[value]) if unit.bias else 0)
        if value in is_sum and value not in is_output and n_after <= n_before:
            inlined[value] = unit
        units.append(unit)
    return replace(machine, units=tuple(units))


def _sums(machine: Machine) -> set[int]:
    """Return the units that only compute a sum, because their function does not change its argument."""
    never_negative = _never_negative(machine)
    return {
        value
        for value, unit in enumerate(machine.units, start=machine.n_inputs)
        if unit.function == "identity"
        or (unit.function in _IDENTITY_ABOVE_0 and _has_no_negative_argument(unit, never_negative))
    }


def _never_negative(machine: Machine) -> set[int]:
    """Return units whose value is never negative, as implied by functions and signs of weights."""
    found: set[int] = set()
    for value, unit in enumerate(machine.units, start=machine.n_inputs):
        if unit.function in _NEVER_NEGATIVE or _has_no_negative_argument(unit, found):
            found.add(value)
    return found


def _has_no_negative_argument(unit: Unit, never_negative: set[int]) -> bool:
    edges = zip(unit.sources, unit.weights, strict=True)
    return unit.bias >= 0 and all(source in never_negative and weight >= 0 for source, weight in edges)


def _with_merged(machine: Machine) -> Machine:
    """Replace references to equal units by references to the first of them."""
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


def with_zero_outputs(machine: Machine, is_zero: Sequence[bool]) -> Machine:
    """Return the machine with some outputs replaced by the constant 0, without the edges that only they need.

    Examples
    --------
    >>> units = [Unit(name, 1, (0,), (2.0,), 0.5, "identity") for name in ("y0", "y1")]
    >>> machine = with_zero_outputs(Machine(("x",), units, (1, 2), ("y0", "y1")), [True, False])
    >>> [(unit.name, unit.n_edges) for unit in machine.units]
    [('y0', 0), ('y1', 2)]
    """
    units, outputs = list(machine.units), list(machine.outputs)
    for place, (value, name) in enumerate(zip(machine.outputs, machine.output_names, strict=True)):
        if not is_zero[place]:
            continue
        zero = Unit(name, machine.n_layers, (), (), 0.0, "identity")
        if machine.is_only_output(value):
            units[value - machine.n_inputs] = zero
        else:
            units.append(zero)
            outputs[place] = machine.n_inputs + len(units) - 1
    return without_dead(replace(machine, units=tuple(units), outputs=tuple(outputs)))


def with_short_names(machine: Machine) -> Machine:
    """Give a unit the name of its node if it is the only one, and make all names unique."""
    n_units = Counter(unit.node for unit in machine.units)
    taken = set(machine.input_names) | {unit.name for unit in machine.units if not unit.node}
    units = []
    for unit in machine.units:
        name = unit.name
        if unit.node:
            if n_units[unit.node] == 1 and unit.node not in taken:  # a column may be called "n1"
                name = unit.node
            while name in taken:
                name += "_"
            taken.add(name)
        units.append(replace(unit, name=name))
    return replace(machine, units=tuple(units))


def with_hidden_names(machine: Machine, taken: Iterable[str] = ()) -> Machine:
    """Name hidden units h1, h2, ... in the order of computation, without the names of inputs, outputs and `taken`.

    A unit that updates an input or an output node in an inner layer is a hidden unit, too; its `node` is still the name
    of this node.

    Examples
    --------
    >>> hidden = Unit("y_1", 1, (0,), (1.0,), 0.5, "relu", node="y")
    >>> output = Unit("y", 2, (1,), (2.0,), 0.0, "identity", node="y")
    >>> machine = with_hidden_names(Machine(("h1",), (hidden, output), (2,), ("y",)))
    >>> [unit.name for unit in machine.units]
    ['h2', 'y']
    """
    avoided = {*machine.input_names, *machine.output_names, *taken}
    names = (name for number in itertools.count(1) if (name := f"h{number}") not in avoided)
    outputs = set(machine.outputs)
    units = tuple(
        unit if value in outputs else replace(unit, name=next(names))
        for value, unit in enumerate(machine.units, start=machine.n_inputs)
    )
    return replace(machine, units=units)
