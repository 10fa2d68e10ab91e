"""Initial distributions of parameters."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Initializer(NamedTuple):
    """The initial distribution of a parameter.

    Attributes
    ----------
    kind : {"normal", "uniform", "constant"}
        The kind of distribution.
    scale : float
        The standard deviation of a normal distribution with mean 0, the bound of a uniform distribution on
        [-scale, scale], or the constant.
    """

    kind: Literal["normal", "uniform", "constant"]
    scale: float
