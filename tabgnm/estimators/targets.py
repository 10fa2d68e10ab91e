"""Conversion of targets to tensors for the loss, and of network outputs to predictions.

Each kind of target says how many outputs a network needs and which loss learns it, and can be written to a model file.
"""

from __future__ import annotations

from tabgnm.estimators.class_targets import ClassTargets
from tabgnm.estimators.number_targets import NumberTargets

Targets = ClassTargets | NumberTargets

__all__ = ["ClassTargets", "NumberTargets", "Targets"]
