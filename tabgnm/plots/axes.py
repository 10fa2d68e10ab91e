"""Axes, colours and sizes that all pictures share."""

from __future__ import annotations

from typing import Any

from tabgnm._extras import import_extra

PURPOSE = "drawing a picture"
INK, FAINT, RULE = "#16202c", "#66717d", "#c5ccd3"
POSITIVE, NEGATIVE = "#2b6ca3", "#d9772b"
DARK_POSITIVE, DARK_NEGATIVE = "#1c4a72", "#8f4a14"  # for text
FONT_SIZE = 9.0


def axes_or_new(ax: Any, width: float, height: float) -> Any:
    """Return the given axes, or those of a new figure of a size in inches."""
    if ax is not None:
        return ax
    pyplot = import_extra("matplotlib.pyplot", "plot", PURPOSE)
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]
