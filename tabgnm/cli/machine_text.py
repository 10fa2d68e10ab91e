"""A small machine as text: its units by layer, and what each of them reads."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from tabgnm._printable import brief, printable
from tabgnm.sparsity import Machine
from tabgnm.sparsity.structure import depths

_MAX_EDGES = 200  # of a machine that is drawn
_LONGEST_NAME = 28
_BAR = 8  # characters of the largest weight


def machine_table(machine: Machine) -> Table | None:
    """Return a drawing of a machine: layer by layer, an edge per line; None if it is too large to be read.

    The length of a bar is the size of the weight; the weights are those of scaled columns, so they can be compared.
    """
    if machine.n_edges > _MAX_EDGES:
        return None
    depth = depths(machine)
    largest = max((abs(weight) for unit in machine.units for weight in unit.weights), default=1.0) or 1.0
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading, justify in (("from", "left"), ("", "left"), ("weight", "right"), ("to", "left"), ("layer", "left")):
        table.add_column(heading, justify=justify, no_wrap=True)  # type: ignore[arg-type] # literals
    outputs = dict(zip(machine.outputs, machine.output_names, strict=True))
    units = sorted(range(machine.n_inputs, machine.n_values), key=lambda value: depth[value])
    for value in units:
        unit = machine.unit(value)
        table.add_section()
        name = outputs.get(value, unit.name)
        function = "" if unit.function == "identity" else f" ({unit.function})"
        layer = "output" if value in outputs else f"hidden {depth[value]}"
        edges = sorted(zip(unit.sources, unit.weights, strict=True), key=lambda edge: -abs(edge[1]))
        lines = [(_short(machine.name(source)), weight) for source, weight in edges]
        lines += [("1 (bias)", unit.bias)] if unit.bias or not lines else []
        for place, (source, weight) in enumerate(lines):
            bar = Text(
                "━" * max(1, round(_BAR * min(1.0, abs(weight) / largest))), style="blue" if weight > 0 else "red"
            )
            bar.append("▶")
            first = place == 0
            table.add_row(
                source, bar, f"{weight:+.3g}", _short(name) + function if first else "", layer if first else ""
            )
    return table


def _short(name: str) -> str:
    return brief(printable(name), _LONGEST_NAME)
