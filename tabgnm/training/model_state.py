"""The state of models that are trained together, for a training step: weights, moments, random streams, settings."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from tabgnm.nn.shapes import Shape
from tabgnm.training.adam import Adam
from tabgnm.training.dropout import Dropout
from tabgnm.training.flat_weights import FlatLayout
from tabgnm.training.gates import Gates
from tabgnm.training.settings import FleetSettings


@dataclass(frozen=True, eq=False)
class ModelState:
    """The data of a training step; buffers keep their addresses as long as the models are the same."""

    shape: Shape
    settings: FleetSettings
    layout: FlatLayout
    flat: Tensor  # parameters, (M, P)
    grad: Tensor  # their gradients
    adam: Adam
    dropout: Dropout
    gates: Gates | None  # of the l0 penalty
    batch_size: int  # the maximum number of rows of a model in a step
    n_threads: int  # that a step may use on a CPU
