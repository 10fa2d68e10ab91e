"""A small machine and its path of sizes for an interactive page: the drawing, and what would be predicted if."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tabgnm._extras import import_extra
from tabgnm.estimators import small_machines
from tabgnm.estimators.machines import advice
from tabgnm.estimators.number_targets import NumberTargets
from tabgnm.export.equations import line_text
from tabgnm.export.formula_building import formulas_of
from tabgnm.export.formulas import Line
from tabgnm.export.labels import plain_labels
from tabgnm.export.program import Program, program_of, scaled_outputs
from tabgnm.export.small import is_small
from tabgnm.report.machine_columns import column_data, example_rows, input_data
from tabgnm.sparsity import Unit
from tabgnm.table.recipes import Recipe

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator

Key = tuple[int, str, str, tuple[str, ...]]

# Larger machines of a path are points of its chart only: nobody can read them, and they would fill megabytes.
MAX_EDGES = 2_000
_MAX_TERMS = 60  # of an equation that is worth reading
_DIGITS = 4  # significant ones, of the numbers in equations
_WEIGHT_DIGITS = 9  # of weights that float32 does not hold


def machine_data(
    model: TabularEstimator, *, examples: Any = None, target: str | Sequence[str] = ""
) -> dict[str, Any] | None:
    """Describe a small machine and every machine on its path of sizes, as values for JSON.

    Parameters
    ----------
    model : estimator
        Fitted; the result of `distill` or `fit_sparse`, or any estimator with a single network of plain columns.
    examples : table, default=None
        A few rows that a reader can start from; without any, a typical row is all there is.
    target : str or sequence of str, default=""
        Name of the target, or of each of several targets. By default, those that y had in `fit`.

    Returns
    -------
    dict or None
        None if the estimator is not a single small machine.
    """
    check_is_fitted(model, "fitted_")
    if not is_small(model):
        return None
    programs = [None if own is None else _drawable(program_of(own)) for own in _sizes(model)]
    shown = [program for program in programs if program is not None]
    encoder, first = model.fitted_.groups[0].encoder, shown[0]
    used = {_key(recipe) for program in shown for recipe in program.recipes}
    recipes = [recipe for recipe in encoder.recipes if _key(recipe) in used]
    place_of = {_key(recipe): place for place, recipe in enumerate(recipes)}
    positions = sorted({recipe.column for recipe in recipes})
    columns = [
        column_data(position, encoder.plans[position], [own for own in recipes if own.column == position])
        for position in positions
    ]
    alone = {"edges": model.machine_.n_edges, "chosen": True}
    records = model._path if hasattr(model, "_path_fitted") else [alone]
    sizes = [
        _size(record, None if program is None else _machine(program, place_of))
        for record, program in zip(records, programs, strict=True)
    ]
    target = target or model._target_names()
    rows = [] if examples is None else example_rows(model, columns, examples)
    return {
        "estimator": type(model).__name__,
        "targets": [own for own in ([target] if isinstance(target, str) else target) if own],
        "score_name": small_machines.score_name(model),
        "link": first.link,
        "center": list(first.center),
        "most": first.most,
        "single": first.single,
        "outputs": _output_names(model, first),
        "classes": [plain_labels(labels)[1] for labels in first.classes],
        "multilabel": first.multilabel,
        "columns": columns,
        "inputs": [input_data(own, positions.index(own.column), single=first.single) for own in recipes],
        "sizes": sizes,
        "examples": rows,
    }


def machine_html(
    model: TabularEstimator, *, examples: Any = None, target: str | Sequence[str] = "", title: str = ""
) -> str:
    """Return a page with the drawing of a small machine and its what-if, as one HTML file that needs nothing else.

    Parameters
    ----------
    model, examples, target
        As in `machine_data`.
    title : str, default=""
        Of the page.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If the estimator is not a single small machine.
    """
    machine = machine_data(model, examples=examples, target=target)
    if machine is None:
        raise ValueError(
            f"this {type(model).__name__} is not a single small machine, so there is nothing to draw; {advice(model)}"
        )
    jinja2 = import_extra("jinja2", "report", "writing the page of a machine")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tabgnm.report"), autoescape=True, undefined=jinja2.StrictUndefined
    )
    page: str = environment.get_template("machine_page.html.jinja").render(machine=machine, title=title)
    return page


def _sizes(model: TabularEstimator) -> Iterable[TabularEstimator | None]:
    """Return the estimator of each size; None for machines that are too large to be shown."""
    if not hasattr(model, "_path_fitted"):
        yield model
        return
    has_names = hasattr(model, "feature_names_in_")
    for place, record in enumerate(model._path):
        shown = record["chosen"] or record["edges"] <= MAX_EDGES
        yield small_machines.at_place(model, place, model._names, has_names) if shown else None


def _drawable(program: Program) -> Program:
    """Return the program whose outputs are units of their own, which nothing else reads."""
    n_outputs = len(program.machine.outputs)
    return replace(program, machine=scaled_outputs(program.machine, np.ones(n_outputs), np.zeros(n_outputs)))


def _output_names(model: TabularEstimator, program: Program) -> list[str]:
    targets = model.fitted_.targets
    if isinstance(targets, NumberTargets) and targets.quantiles is not None:
        return [f"quantile {share:g}" for share in targets.quantiles]
    return list(program.machine.output_names)


def _size(record: dict[str, Any], machine: dict[str, Any] | None) -> dict[str, Any]:
    """Describe a size; numbers that are not finite become None, as JSON has no others."""
    numbers = {name: value for name, value in record.items() if not isinstance(value, str)}
    known = {name: value if math.isfinite(value) else None for name, value in numbers.items()}
    return known | {"machine": machine}


def _key(recipe: Recipe) -> Key:
    """Return what tells an input from all others; names need not: a column may be called "city=Oslo"."""
    return recipe.column, recipe.what, recipe.part, recipe.levels


def _machine(program: Program, place_of: dict[Key, int]) -> dict[str, Any]:
    """Describe a machine; its values are numbered: the inputs of all sizes first, then its own units."""
    machine = program.machine
    inputs = [place_of[_key(recipe)] for recipe in program.recipes]
    numbers = [*inputs, *(len(place_of) + place for place in range(len(machine.units)))]
    formulas = formulas_of(program, _DIGITS)
    lines = {line.unit: line for line in formulas.lines if line.unit is not None}
    units = [_unit(unit, numbers, lines.get(place)) for place, unit in enumerate(machine.units)]
    others = [line_text(line) for line in formulas.lines if line.unit is None and _is_short(line_text(line))]
    return {
        "inputs": inputs,
        "units": units,
        "outputs": [numbers[value] for value in machine.outputs],
        "equations": others,
        "notes": [note.text for note in formulas.notes if _is_short(note.text)],
    }


def _is_short(text: str) -> bool:
    return len(text) < 2_000


def _unit(unit: Unit, numbers: list[int], line: Line | None) -> dict[str, Any]:
    readable = line is not None and len(unit.sources) <= _MAX_TERMS
    return {
        "name": unit.name,
        "layer": unit.layer,
        "function": unit.function,
        "sources": [numbers[source] for source in unit.sources],
        "weights": [_short(weight) for weight in unit.weights],
        "bias": _short(unit.bias),
        "equation": line_text(line) if readable and line is not None else None,
    }


def _short(number: float) -> float:
    """Return a weight in few digits, without a difference that predictions could show.

    Examples
    --------
    >>> _short(float(np.float32(0.1))), _short(1 / 3)
    (0.1, 0.333333333)
    """
    narrow = np.float32(number)
    return float(str(narrow)) if float(narrow) == number else float(f"{number:.{_WEIGHT_DIGITS}g}")
