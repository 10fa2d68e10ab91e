"""Machines: sparse networks as lists of units, simplified, described and compiled."""

from tabgnm.sparsity.compiled import CompiledMachine
from tabgnm.sparsity.edge_table import edge_records
from tabgnm.sparsity.machine import Machine, Unit
from tabgnm.sparsity.simplifying import simplified
from tabgnm.sparsity.structure import NotAnMLP, Structure, described, recognized, to_mlp
from tabgnm.sparsity.unrolling import NoMachine, unrolled

__all__ = [
    "CompiledMachine",
    "Machine",
    "NoMachine",
    "NotAnMLP",
    "Structure",
    "Unit",
    "described",
    "edge_records",
    "recognized",
    "simplified",
    "to_mlp",
    "unrolled",
]
