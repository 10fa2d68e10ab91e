"""Conversion of targets to tensors for the loss, and of network outputs to predictions.

Each kind of target determines the number of outputs of a network and the loss, and can be written to a model file.
"""

from __future__ import annotations

from tabgnm.estimators.class_targets import ClassTargets
from tabgnm.estimators.number_targets import NumberTargets

Targets = ClassTargets | NumberTargets

__all__ = ["ClassTargets", "NumberTargets", "Targets"]
