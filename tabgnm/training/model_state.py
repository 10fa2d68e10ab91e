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
    """The data of a training step; buffers keep their addresses as long as the models are the same.

    Attributes
    ----------
    shape, settings
        Those of the fleet.
    layout : FlatLayout
        The position of each parameter in a row of `flat`.
    flat, grad : Tensor
        Parameters and their gradients, (M, P).
    adam : Adam
        The optimizer and its moments.
    dropout : Dropout
    gates : Gates or None
        Gates of the l0 penalty.
    batch_size : int
        The maximum number of rows of a model in a step.
    n_threads : int
        The number of threads that a step may use on a CPU.
    """

    shape: Shape
    settings: FleetSettings
    layout: FlatLayout
    flat: Tensor
    grad: Tensor
    adam: Adam
    dropout: Dropout
    gates: Gates | None
    batch_size: int
    n_threads: int
