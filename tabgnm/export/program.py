"""A small machine with its encoding and outputs: from the raw columns of a table to predictions."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tabgnm.estimators.class_targets import ClassTargets
from tabgnm.nn.losses import LogLinkLoss
from tabgnm.nn.losses.deviances import LARGEST_LOG
from tabgnm.sparsity import Machine, Unit
from tabgnm.sparsity.machine import weighted
from tabgnm.sparsity.simplifying import without_dead
from tabgnm.table.recipes import Recipe

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator

Array = NDArray[Any]
Link = Literal["identity", "sorted", "exp", "sigmoid", "softmax", "constant"]


class ExportError(ValueError):
    """The estimator cannot be exported to the requested format, or the file cannot be written."""


@dataclass(frozen=True)
class RawColumn:
    """A column of the user's table that a program reads.

    Attributes
    ----------
    position : int
        The position in the table of `fit`.
    name : str
    kind : str
        "number", "boolean", "category", "datetime", "duration" or "time".
    """

    position: int
    name: str
    kind: str


@dataclass(frozen=True, eq=False)
class Program:
    """The computation of a small machine, in terms of every target language.

    `recipes` compute the inputs from raw columns, `machine` computes the outputs, and the link the predictions:

    - "identity": the outputs, in units of the target; "sorted": the outputs in ascending order (quantiles);
    - "exp": center x exp(output), where the output is clipped to [-most, most];
    - "sigmoid": the probability of the second class of each target is sigmoid(output);
    - "softmax": for each target, the softmax of its outputs; `sizes` has the number of outputs of each target;
    - "constant": there is a single class.

    The predicted class is the one with the largest probability, or the first of several.

    Attributes
    ----------
    columns : tuple of RawColumn
        The columns that are read, in the order of the table.
    recipes : tuple of Recipe
        One per input of the machine.
    machine : Machine
        Simplified, in float64.
    link : str
    classes : tuple of arrays
        The labels of each target; empty for numbers.
    sizes : tuple of int
        The number of outputs of each target, for "softmax".
    center : tuple of float
        One per output, for "exp".
    scales, shifts : tuples of float
        One per output, for "identity" and "sorted": an output is scale x (an output of the network) + shift.
    most : float
        The largest absolute output, for "exp".
    multilabel : bool
        Whether the targets are columns of 0 and 1, for which probabilities of 1 are predicted.
    one_dimensional : bool
        Whether a prediction is one number or label, not several.
    targets : tuple of str
        Names of the targets: "y", or "y0", "y1", ... if they have none.
    quantiles : tuple of float
        The quantiles that are predicted; empty for other predictions.
    single : bool
        Whether `predict` rounds the inputs to float32, which affects the last digits of predictions.
    """

    columns: tuple[RawColumn, ...]
    recipes: tuple[Recipe, ...]
    machine: Machine
    link: Link
    classes: tuple[Array, ...] = ()
    sizes: tuple[int, ...] = ()
    center: tuple[float, ...] = ()
    scales: tuple[float, ...] = ()
    shifts: tuple[float, ...] = ()
    most: float = LARGEST_LOG
    multilabel: bool = False
    one_dimensional: bool = True
    targets: tuple[str, ...] = ("y",)
    quantiles: tuple[float, ...] = ()
    single: bool = False

    @property
    def names_of_several(self) -> tuple[str, ...]:
        """The names of several targets; empty if there is a single target, or if they have no names."""
        unnamed = tuple(f"y{place}" for place in range(len(self.targets)))
        return self.targets if len(self.targets) > 1 and self.targets != unnamed else ()


def program_of(estimator: TabularEstimator) -> Program:
    """Return the program of a fitted estimator whose only network reads plain columns.

    Raises
    ------
    NoSingleMachine
        If the estimator has several networks, learned embeddings or gates. The message names the alternatives.
    ExportError
        If the network predicts logarithms.
    """
    machine = estimator.machine_
    group = estimator.fitted_.groups[0]
    targets = group.targets
    common: dict[str, Any] = {"targets": estimator._named_targets(group), "single": group.dtype is np.float32}

    def program(machine: Machine, link: Link, **more: Any) -> Program:
        used = machine.used_inputs
        found = group.encoder.recipes
        recipes = tuple(found[place] for place in used)
        columns = tuple(
            RawColumn(column, name, kind)
            for column, name, kind in sorted({(own.column, own.column_name, own.kind) for own in recipes})
        )
        return Program(columns, recipes, only_used(machine), link, **more, **common)

    if isinstance(targets, ClassTargets):
        link: Link = "softmax" if targets.kind in ("multiclass", "joint") else "sigmoid"
        return program(
            _tempered(machine, estimator.fitted_.temperature),
            "constant" if targets.kind == "one" else link,
            classes=tuple(targets.classes),
            sizes=tuple(map(len, targets.classes)),
            multilabel=targets.kind == "multilabel",
            one_dimensional=len(targets.classes) == 1 and targets.kind != "multilabel",
        )
    common["one_dimensional"] = targets.one_dimensional and targets.quantiles is None
    if isinstance(targets.loss, LogLinkLoss):
        scaled = scaled_outputs(machine, targets.scale, np.zeros(len(targets.scale)))
        return program(scaled, "exp", center=tuple(targets.center.tolist()))
    if targets.transform != "none":
        raise ExportError(
            f"a model with target_transform={targets.transform!r} cannot be written as equations, C or SQL; fit with "
            "target_transform='none', or export to .onnx or .py"
        )
    n_outputs = len(machine.outputs)
    scales, shifts = (np.broadcast_to(own, n_outputs) for own in (targets.scale, targets.center))
    common |= {"scales": tuple(scales.tolist()), "shifts": tuple(shifts.tolist())}
    common["quantiles"] = targets.predicted_quantiles
    return program(scaled_outputs(machine, scales, shifts), "identity" if targets.quantiles is None else "sorted")


def code_names(machine: Machine) -> list[str]:
    """Return an identifier for each value: those of hidden units as in equations, "h3", and "v0", "v1", ... for others.

    Examples
    --------
    >>> hidden, output = Unit("h1", 1, (0,), (1.0,), 0.5, "relu"), Unit("y", 2, (1,), (2.0,), 0.0, "identity")
    >>> code_names(Machine(("age",), (hidden, output), (2,), ("y",)))
    ['v0', 'h1', 'v2']
    """
    names = [f"v{value}" for value in range(machine.n_values)]
    for value in range(machine.n_inputs, machine.n_values):
        name = machine.name(value)
        if value not in machine.outputs and re.fullmatch(r"h[0-9]+", name):
            names[value] = name
    return names


def columns_read(program: Program) -> list[RawColumn]:
    """Return the columns that predictions depend on; none if predictions are constant."""
    if program.link == "constant":
        return []
    read = {recipe.column for recipe in program.recipes if recipe.what != "nothing"}
    return [column for column in program.columns if column.position in read]


def only_used(machine: Machine) -> Machine:
    """Return the machine without unused inputs."""
    used = machine.used_inputs
    place = {old: new for new, old in enumerate(used)}
    place |= {machine.n_inputs + i: len(used) + i for i in range(len(machine.units))}
    units = tuple(replace(unit, sources=tuple(place[source] for source in unit.sources)) for unit in machine.units)
    names = tuple(machine.input_names[i] for i in used)
    return replace(machine, input_names=names, units=units, outputs=tuple(place[own] for own in machine.outputs))


def scaled_outputs(machine: Machine, scale: Array, center: Array) -> Machine:
    """Return a machine whose outputs are multiplied by `scale` and shifted by `center`.

    An output that is multiplied by 0, because its target is constant, becomes the constant `center`.
    """
    units = list(machine.units)
    outputs = []
    for value, factor, offset, name in zip(machine.outputs, scale, center, machine.output_names, strict=True):
        if machine.is_only_output(value) and machine.unit(value).function == "identity":
            unit = machine.unit(value)
            sources, weights = weighted(unit.sources, [float(weight * factor) for weight in unit.weights])
            bias = float(unit.bias * factor + offset)
            units[value - machine.n_inputs] = replace(unit, sources=sources, weights=weights, bias=bias)
            outputs.append(value)
        else:
            sources, weights = weighted([value], [float(factor)])
            units.append(Unit(name, machine.n_layers, sources, weights, float(offset), "identity"))
            outputs.append(machine.n_inputs + len(units) - 1)
    scaled = replace(machine, units=tuple(units), outputs=tuple(outputs))
    return scaled if np.all(scale) else without_dead(scaled)


def _tempered(machine: Machine, temperature: float) -> Machine:
    """Divide log-odds by the temperature of the calibration."""
    if temperature == 1.0:
        return machine
    n = len(machine.outputs)
    return scaled_outputs(machine, np.full(n, 1 / temperature), np.zeros(n))
