"""Machines: sparse networks as lists of units, simplified, described and compiled."""

from tabgnm.sparsity.compiled import CompiledMachine
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
    "recognized",
    "simplified",
    "to_mlp",
    "unrolled",
]
