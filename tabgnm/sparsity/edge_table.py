"""The edges of a machine as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tabgnm.sparsity.machine import Machine

EDGE_COLUMNS = ("layer", "source", "target", "weight", "column")


def edge_records(machine: Machine, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Return one record per edge, in the order of the units, then by decreasing absolute weight.

    Parameters
    ----------
    machine : Machine
    columns : sequence of str or None, default=None
        For each input, the column of the table that it comes from. If None, the names of the inputs.

    Returns
    -------
    list of dict
        Each has the keys "layer", "source", "target", "weight" and "column". The source of a bias is "bias"; "column"
        is "" unless the source is an input.

    Examples
    --------
    >>> from tabgnm.sparsity import Machine, Unit
    >>> output = Unit("y", 1, (0, 1), (1.0, -2.0), 0.5, "identity")
    >>> machine = Machine(("age", "city=Oslo"), (output,), (2,), ("y",))
    >>> for record in edge_records(machine, ["age", "city"]):
    ...     print(record["source"], "->", record["target"], record["weight"], record["column"] or "-")
    city=Oslo -> y -2.0 city
    age -> y 1.0 age
    bias -> y 0.5 -
    """
    columns = machine.input_names if columns is None else columns
    records = []
    for unit in sorted(machine.units, key=lambda own: own.layer):  # stable: units of a layer stay in their order
        edges = sorted(zip(unit.sources, unit.weights, strict=True), key=lambda edge: -abs(edge[1]))
        for source, weight in edges:
            column = columns[source] if source < machine.n_inputs else ""
            records.append(_record(unit.layer, machine.name(source), unit.name, weight, column))
        if unit.bias:
            records.append(_record(unit.layer, "bias", unit.name, unit.bias, ""))
    return records


def _record(layer: int, source: str, target: str, weight: float, column: str) -> dict[str, Any]:
    return dict(zip(EDGE_COLUMNS, (layer, source, target, float(weight), column), strict=True))
