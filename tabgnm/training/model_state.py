"""The models that are trained together: weights, moments, random streams and settings, in one place for a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from tabgnm.nn.shapes import Shape
from tabgnm.training.adam import Adam
from tabgnm.training.dropout import Dropout
from tabgnm.training.flat_weights import FlatLayout
from tabgnm.training.gates import Gates
from tabgnm.training.settings import FleetSettings, Member


@dataclass(frozen=True, eq=False)
class ModelState:
    """What a training step works on; buffers stay where they are as long as the models are the same.

    Attributes
    ----------
    shape, settings, members
        As given to the fleet; members are ordered by their number of rows, most first.
    layout : FlatLayout
        Where each parameter stands in a row of `flat`.
    flat, grad : Tensor
        Parameters and their gradients, (M, P).
    adam : Adam
        Moments, and the step from gradients to weights.
    dropout : Dropout
    gates : Gates or None
        Gates of the l0 penalty.
    batch_size : int
        Most rows of a model in a step.
    n_threads : int
        Threads that a step may use on a CPU.
    """

    shape: Shape
    settings: FleetSettings
    members: Sequence[Member]
    layout: FlatLayout
    flat: Tensor
    grad: Tensor
    adam: Adam
    dropout: Dropout
    gates: Gates | None
    batch_size: int
    n_threads: int
