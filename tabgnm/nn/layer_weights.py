"""The parameters of one layer."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class LayerWeights(NamedTuple):
    """The parameters of one layer.

    Attributes
    ----------
    blocks : list of Tensor
        A weight matrix (..., sources, targets) per block of source nodes.
    bias : Tensor
        The bias (..., targets).
    """

    blocks: list[Tensor]
    bias: Tensor
