"""Axes, colours and sizes that all pictures share."""

from __future__ import annotations

from typing import Any

from tabgnm._extras import import_extra
from tabgnm._printable import brief, printable

PURPOSE = "drawing a picture"
INK, FAINT, RULE = "#16202c", "#66717d", "#c5ccd3"
GRID = "#e8ecef"
POSITIVE, NEGATIVE = "#2b6ca3", "#d9772b"
DARK_POSITIVE, DARK_NEGATIVE = "#1c4a72", "#8f4a14"  # for text
# For classes and targets: told apart by people with any kind of colour vision (Okabe and Ito, 2008), on white.
COLORS = (POSITIVE, NEGATIVE, "#009e73", "#cc79a7", "#56b4e9", "#b8a200", "#16202c", "#8c6bb1")
FONT_SIZE = 9.0
_LONGEST_NAME = 28


def axes_or_new(ax: Any, width: float, height: float) -> Any:
    """Return the given axes, or those of a new figure of a size in inches."""
    if ax is not None:
        return ax
    pyplot = import_extra("matplotlib.pyplot", "plot", PURPOSE)
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]


def shown(name: object, longest: int = _LONGEST_NAME) -> str:
    r"""Return a name as text to draw: short, without control characters, and with dollars that are no formulas.

    Examples
    --------
    >>> print(shown("price in $"))
    price in \$
    """
    return brief(printable(str(name)), longest).replace("$", r"\$")


def set_style(ax: Any, xlabel: str = "", ylabel: str = "", *, grid: str | None = "y") -> None:
    """Give axes the look that all pictures share: labels, and lines along one axis only."""
    ax.set_xlabel(xlabel, color=FAINT, fontsize=FONT_SIZE)
    ax.set_ylabel(ylabel, color=FAINT, fontsize=FONT_SIZE)
    ax.tick_params(colors=FAINT, labelsize=FONT_SIZE, color=RULE)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(RULE)
    if grid is not None:
        ax.grid(visible=True, axis=grid, color=GRID)
    ax.set_axisbelow(True)


def set_title(ax: Any, title: str) -> None:
    """Write a title at the left."""
    ax.set_title(title, loc="left", color=INK, fontsize=FONT_SIZE + 1)


def add_legend(ax: Any, **options: Any) -> None:
    """Add a legend without a frame."""
    ax.legend(**({"loc": "best", "frameon": False, "fontsize": FONT_SIZE, "labelcolor": INK} | options))
