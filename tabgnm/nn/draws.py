"""How parameters are drawn at first."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Draw(NamedTuple):
    """How a parameter is drawn at first: `scale` is the standard deviation, the half width, or the value itself."""

    kind: Literal["normal", "uniform", "constant"]
    scale: float
