"""Small machines as Python source: one line per input and per unit."""

from __future__ import annotations

from tabgnm.export import python_arrays_runtime, python_cells_runtime, python_machine_runtime
from tabgnm.export.labels import plain_labels
from tabgnm.export.program import Program, code_names
from tabgnm.export.python_names import Identifiers, copied_source, literal
from tabgnm.export.python_recipes import READERS, call_of, part_of
from tabgnm.sparsity import Unit

_MAX_INLINE = 2  # entries of a table that is written inline


def machine_source(program: Program, unnamed: list[str]) -> str:
    """Return the source after the docstring; `unnamed` as in `_columns_of`."""
    machine, names = program.machine, Identifiers()
    constants: list[str] = []
    cells, inputs = {}, []
    lines = ["def _outputs(row: Any, on: Any) -> Any:"]
    functions = sorted({unit.function for unit in machine.units} - {"identity"})
    lines += [f"    {name} = on.{name}" for name in functions]
    for column in program.columns:
        cells[column.position] = name = names.new("c", column.name)
        lines.append(f"    {name} = on.{READERS[column.kind]}(row, {literal(column.name)})")
    for recipe in program.recipes:
        name = names.new("x", recipe.name)
        inputs.append(name)
        if recipe.what == "nothing":
            lines.append(f"    {name} = 0.0")
            continue
        function, arguments = call_of(recipe, "float64")
        written = []
        for value in arguments:
            if isinstance(value, list | dict) and len(value) > _MAX_INLINE:  # created once, not in every call
                constants.append(f"_TABLE_{len(constants) + 1} = {literal(value)}")
                written.append(f"_TABLE_{len(constants)}")
            else:
                written.append(literal(value))
        cell = cells[recipe.column]
        part = part_of(recipe)
        cell = f"on.date_part({cell}, {part!r})" if part else cell
        lines.append(f"    {name} = on.{function}({', '.join([cell, *written])})")
    values = list(inputs)
    for known, unit in zip(code_names(machine)[machine.n_inputs :], machine.units, strict=True):
        # Names of hidden units differ from all others, which have an underscore.
        name = known if known == unit.name else names.new("y", unit.name)
        lines.append(f"    {name} = {_formula(unit, values)}")
        values.append(name)
    returned = ", ".join(values[value] for value in machine.outputs)
    lines.append(f"    return ({returned},)")
    facts = [
        f"LINK = {literal(program.link)}",
        f"COLUMNS = {literal({own.name: own.kind for own in program.columns})}",
        f"UNNAMED: Any = {literal(unnamed)}",
        f"CLASSES: Any = {literal([plain_labels(own)[1] for own in program.classes])}",
        f"CENTER: Any = {literal(list(program.center))}",
        f"MOST = {literal(float(program.most))}",
        f"ONE_DIMENSIONAL = {program.one_dimensional}",
        f"MULTILABEL = {program.multilabel}",
    ]
    parts = [
        copied_source(python_cells_runtime),
        copied_source(python_arrays_runtime),
        "\n".join([*facts, *constants]) + "\n",
        "\n".join(lines) + "\n",
        copied_source(python_machine_runtime),
    ]
    return "\n\n".join(parts)


def _formula(unit: Unit, values: list[str]) -> str:
    terms = [f"{float(weight)!r} * {values[source]}" for source, weight in zip(unit.sources, unit.weights, strict=True)]
    if unit.bias or not terms:
        terms.insert(0, repr(float(unit.bias)))
    total = " + ".join(terms).replace("+ -", "- ")
    return total if unit.function == "identity" else f"{unit.function}({total})"
