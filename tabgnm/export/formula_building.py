"""Conversion of a program to formulas with rounded numbers, and a bound on the effect of rounding."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from typing import Any

from tabgnm._printable import printable
from tabgnm.export.formula_inputs import (
    Combination,
    FormulaInputs,
    Quantity,
    Rounding,
    collected,
    in_quotes,
    latex_text,
    rounded_sum,
    visible,
)
from tabgnm.export.formulas import (
    FUNCTION_NAMES,
    Call,
    Expression,
    Formulas,
    Identifiers,
    Interpolation,
    Line,
    Name,
    Note,
    Ratio,
    Sum,
    note,
)
from tabgnm.export.program import Program
from tabgnm.sparsity.functions import FUNCTIONS

# The largest slope of functions, if it is not 1, and the smallest value of those that are not monotone.
_SLOPES = {"gelu": 1.13, "silu": 1.1, "mish": 1.1, "sigmoid": 0.25}
_LOWEST = {"gelu": -0.17, "silu": -0.279, "mish": -0.309}
_FLOAT32_PREDICTIONS = 1e-6  # see docs/architecture.md
_FLOAT64_PREDICTIONS = 1e-15


def formulas_of(program: Program, digits: int | None) -> Formulas:
    """Return the formulas of a program, with numbers rounded to `digits` significant digits; if None, exact."""
    return _Building(program, Rounding(digits)).formulas()


class _Building:
    def __init__(self, program: Program, rounding: Rounding) -> None:
        self.program, self.machine, self.rounding = program, program.machine, rounding
        self.identifiers = Identifiers()
        self.inputs = FormulaInputs(self.identifiers, rounding)
        self.lines: list[Line] = []
        self.predictions: list[Name] = []
        self.hidden_names: dict[int, Name] = {}  # by the position of the value in the machine
        self.replaced: list[Note] = []  # about targets that have another name in text

    def formulas(self) -> Formulas:
        """Return lines for scaled columns, hidden units, outputs and predictions."""
        program = self.program
        if program.link == "constant":
            name = self._probability_name(program.classes[0][0], 0)
            self._predict(name, Sum((), 1.0))
            only = f"{program.targets[0]} = {visible(program.classes[0][0])}"
            notes = [note(name, f": probability of {printable(only)}, the only class")]
            return Formulas(tuple(self.lines), tuple(self.predictions), tuple(notes))
        self._name_hidden_units()  # before the columns: these may have other names here, which comments explain
        values = self.inputs.combinations(program)
        outputs = self._outputs(values)
        meanings, bound = self._link(outputs)
        lines = (*self.inputs.lines, *self.lines)
        functions = [note(text) for name, text in FUNCTION_NAMES.items() if text and name in _called(lines)]
        numbers = "Numbers are exact." if self.rounding.digits is None else "Numbers are rounded."
        notes = [*meanings, *self.replaced, *self.inputs.notes, *functions, note(f"{numbers} {bound}")]
        return Formulas(lines, tuple(self.predictions), tuple(notes))

    def _outputs(self, values: list[Combination]) -> list[Quantity]:
        """Add the lines of all units; return the outputs."""
        machine = self.machine
        names = self._output_names()
        own_line = {
            value: name for value, name in zip(machine.outputs, names, strict=True) if machine.is_only_output(value)
        }
        for place, unit in enumerate(machine.units):
            total = collected(
                ((weight, values[source]) for source, weight in zip(unit.sources, unit.weights, strict=True)), unit.bias
            )
            value = machine.n_inputs + place
            name = own_line[value] if value in own_line else self.hidden_names[value]
            values.append(Combination(((1.0, self._add(name, total, unit.function, place)),)))
        outputs = []
        for value, name in zip(machine.outputs, names, strict=True):
            outputs.append(
                values[value].terms[0][1] if value in own_line else self._add(name, values[value], "identity")
            )
        return outputs

    def _name_hidden_units(self) -> None:
        machine = self.machine
        for place, unit in enumerate(machine.units):
            value = machine.n_inputs + place
            if not machine.is_only_output(value):
                self.hidden_names[value] = self._symbol(unit.name)

    def _add(self, name: Name, total: Combination, function: str, unit: int | None = None) -> Quantity:
        shown, error = rounded_sum(total, self.rounding)
        self.lines.append(Line(name, shown if function == "identity" else Call(function, (shown,)), unit))
        middle = total.constant + sum(factor * own.middle for factor, own in total.terms)
        width = sum(abs(factor) * own.half_width for factor, own in total.terms)
        ends = [FUNCTIONS[function].scalar(own) for own in (middle - width, middle + width)]
        low = min(*ends, _LOWEST.get(function, math.inf)) if middle - width < 0 else min(ends)
        return Quantity(name, low, max(ends), error * _SLOPES.get(function, 1.0))

    def _output_names(self) -> list[Name]:
        if self.program.link == "identity":
            return [self._target_symbol(name) for name in self.machine.output_names]
        n_outputs = len(self.machine.outputs)
        return [self._symbol("z" if n_outputs == 1 else f"z{output}") for output in range(n_outputs)]

    def _symbol(self, wanted: str) -> Name:
        text = self.identifiers.new(wanted)
        numbered = re.fullmatch(r"([a-z])(\d*)(?:_(\d+))?", text)
        if numbered is None:
            return Name(text, latex_text(wanted))
        letter, number, layer = numbered.groups()
        latex = letter + (f"_{{{number}}}" if number else "") + (f"^{{({layer})}}" if layer else "")
        return Name(text, latex)

    def _target_symbol(self, wanted: str) -> Name:
        """Return the symbol of a predicted number; LaTeX can have any name."""
        text = self.identifiers.new(wanted, "y")
        if text != wanted and not self.program.quantiles:  # quantiles are explained in any case
            self.replaced.append(note(f"{text}: target {in_quotes(wanted)}", of_text=True))
        return Name(text, _target_latex(wanted))

    # From outputs to predictions

    def _link(self, outputs: Sequence[Quantity]) -> tuple[list[Note], str]:
        """Add the lines of predictions; return the meanings of their names, and a sentence on their accuracy."""
        program = self.program
        error = max(own.error for own in outputs)
        if program.link in ("identity", "sorted"):
            if program.link == "sorted":
                self._sort(outputs)
            else:
                self.predictions = [own.name for own in outputs]
            # The network of `predict` has float32; its outputs are scaled and shifted in float64.
            error += max(
                _FLOAT32_PREDICTIONS * max(abs(own.low - shift), abs(own.high - shift), scale)
                + _FLOAT64_PREDICTIONS * abs(shift)
                for own, scale, shift in zip(outputs, program.scales, program.shifts, strict=True)
            )
            return self._quantiles(), _said("predict", error)
        if program.link == "exp":
            for own, name, center in zip(outputs, self.machine.output_names, program.center, strict=True):
                limited: Expression = own.name
                if max(abs(own.low), abs(own.high)) > program.most:
                    limited = Call("clip", (own.name, Sum((), -program.most), Sum((), program.most)))
                shown = self.rounding.significant(center)
                error = max(error, own.error + abs(shown / center - 1))
                self._predict(self._target_symbol(name), Sum(((shown, Call("exp", (limited,))),)))
            return [], _said("predict", math.expm1(error) + _FLOAT32_PREDICTIONS, " times themselves")
        meanings = self._probabilities(outputs)
        slope = 0.25 if program.link == "sigmoid" else 0.5
        return meanings, _said("predict_proba", min(1.0, slope * error + _FLOAT32_PREDICTIONS))

    def _quantiles(self) -> list[Note]:
        """Say which quantiles the predictions are; nothing if they are other numbers."""
        targets = itertools.cycle(self.program.targets)  # several quantiles have a single target
        return [
            note(name, f": estimate of the {quantile:g} quantile of {printable(target)}")
            for name, quantile, target in zip(self.predictions, self.program.quantiles, targets, strict=False)
        ]

    def _predict(self, name: Name, expression: Expression) -> None:
        self.lines.append(Line(name, expression))
        self.predictions.append(name)

    def _sort(self, outputs: Sequence[Quantity]) -> None:
        names = tuple(own.name for own in outputs)
        for place, name in enumerate(self.machine.output_names, start=1):
            self._predict(self._target_symbol(name), Call("kth_smallest", (Sum((), float(place)), *names)))

    def _probabilities(self, outputs: Sequence[Quantity]) -> list[Note]:
        program = self.program
        meanings = []
        several = len(program.classes) > 1
        first = 0
        for target, classes in enumerate(program.classes):
            of = printable(program.targets[target])
            if program.multilabel:
                classes = classes[1:]
            names = [self._probability_name(label, target) for label in classes]
            meanings += [
                note(name, f": probability of {of} = {printable(visible(label))}")
                for name, label in zip(names, classes, strict=True)
            ]
            if program.link == "softmax":
                parts = [Call("exp", (own.name,)) for own in outputs[first : first + len(classes)]]
                first += len(classes)
                total = self._symbol(f"total{target}" if several else "total")
                self.lines.append(Line(total, Sum(tuple((1.0, part) for part in parts))))
                for name, part in zip(names, parts, strict=True):
                    self._predict(name, Ratio(part, total))
                continue
            likely = Call("sigmoid", (outputs[target].name,))
            if not program.multilabel:
                self._predict(names[0], Sum(((-1.0, likely),), 1.0))
            self._predict(names[-1], likely)
        return meanings

    def _probability_name(self, label: Any, target: int) -> Name:
        name = self.program.targets[target]
        of = f"{target}" if name == f"y{target}" else f"_{name}"
        which = re.sub(r"^-(?=\.?\d)", "minus_", str(label))
        text = self.identifiers.new(f"p{of if len(self.program.classes) > 1 else ''}_{which}", "p")
        return Name(text, f"P({_target_latex(name)} = {latex_text(visible(label))})")


def _target_latex(name: str) -> str:
    """Return the name of a target; "y", "y0", ..., which stand for targets without a name, as mathematical symbols."""
    numbered = re.fullmatch(r"y(\d*)", name, re.ASCII)
    if numbered is None:
        return latex_text(name)
    return f"y_{{{numbered[1]}}}" if numbered[1] else "y"


def _said(method: str, bound: float, of: str = "") -> str:
    """Return a sentence on the accuracy of formulas, with a bound that is rounded up.

    The bound of probabilities is at most 1.
    """
    if method == "predict_proba" and bound >= 1:
        return "Rounding may change probabilities by up to 1: use more digits."
    shown = bound
    if 0 < bound < math.inf:
        unit = 10.0 ** (math.floor(math.log10(bound)) - 1)
        shown = math.ceil(bound / unit) * unit
    return f"Within the range of the training data, results differ from those of {method} by less than {shown:.1e}{of}."


def _called(lines: Sequence[Line]) -> set[str]:
    """Return the names of all functions that are called."""
    found: set[str] = set()

    def visit(own: Expression) -> None:
        if isinstance(own, Call):
            found.add(own.function)
            for argument in own.arguments:
                visit(argument)
        elif isinstance(own, Sum):
            for _, term in own.terms:
                visit(term)
        elif isinstance(own, Ratio):
            visit(own.numerator)
            visit(own.denominator)
        elif isinstance(own, Interpolation):
            found.add("interpolate")

    for line in lines:
        visit(line.expression)
    return found
