"""Distributions of initial parameters."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Draw(NamedTuple):
    """The distribution of an initial parameter; `scale` is the standard deviation, the half width, or the value."""

    kind: Literal["normal", "uniform", "constant"]
    scale: float
