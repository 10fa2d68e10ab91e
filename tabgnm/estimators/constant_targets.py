"""Machines for constant targets: predictions do not depend on the network, so the machine has no edges for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tabgnm.estimators.targets import ClassTargets, Targets
from tabgnm.nn import GNM, MLP
from tabgnm.sparsity import Machine, simplified, unrolled
from tabgnm.sparsity.simplifying import with_zero_outputs


def constant_outputs(targets: Targets) -> list[bool]:
    """Return whether the target of each output of a network is constant, or has a single class."""
    if isinstance(targets, ClassTargets):
        if targets.kind in ("one", "joint"):
            return [len(classes) == 1 for classes in targets.classes for _ in classes]
        return [False] * targets.n_outputs
    return [bool(scale == 0) for scale in np.broadcast_to(targets.scale, targets.n_outputs)]


def machine_of(
    network: GNM | MLP,
    targets: Targets,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
) -> Machine:
    """Return the simplified machine of a network, in which outputs for constant targets are 0.

    Raises
    ------
    NoMachine
        If the network has gates.
    """
    machine = unrolled(network, input_names, output_names)
    is_constant = constant_outputs(targets)
    return simplified(with_zero_outputs(machine, is_constant) if any(is_constant) else machine)
