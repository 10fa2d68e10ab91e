"""Axes, colours and sizes that all pictures share."""

from __future__ import annotations

from typing import Any

from tabgnm._extras import import_extra
from tabgnm._printable import printable, shortened

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

    Of a long name, the beginning and the end are left: columns often differ only at the end.

    Examples
    --------
    >>> print(shown("price in $"))
    price in \$
    """
    return shortened(printable(str(name)), longest).replace("$", r"\$")


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
    for axis in (ax.xaxis, ax.yaxis):
        set_large_numbers(axis)


def set_large_numbers(axis: Any) -> None:
    """Write large numbers of an axis in thousands or millions: long labels would touch, a power is easily missed."""
    ticker = import_extra("matplotlib.ticker", "plot", PURPOSE)
    largest = max(map(abs, axis.get_view_interval()))
    if type(axis.get_major_formatter()) is not ticker.ScalarFormatter or not 1e4 <= largest < 1e12:
        return
    unit, letter = next((unit, letter) for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if largest >= unit)
    axis.set_major_formatter(
        ticker.FuncFormatter(lambda value, _: f"{value / unit:g}{letter}".replace("-", "−") if value else "0")
    )


def set_logarithmic(axis: Any) -> None:
    """Give a logarithmic axis few labels, as plain numbers; matplotlib's own ones overlap if it spans one decade."""
    ticker = import_extra("matplotlib.ticker", "plot", PURPOSE)
    low, high = axis.get_view_interval()
    axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,), numticks=10))
    axis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
    axis.set_minor_locator(ticker.NullLocator())


def short_number(value: float, digits: int = 3, *, signed: bool = False) -> str:
    """Return a number with so many significant digits, and separators of thousands.

    Examples
    --------
    >>> short_number(163_482), short_number(0.07821, signed=True), short_number(-2.04e10)
    ('163,000', '+0.0782', '−2.04e+10')
    """
    kind = f".{digits}g" if abs(value) >= 1e9 else ",.12g"
    return f"{float(f'{value:.{digits}g}'):{'+' if signed else ''}{kind}}".replace("-", "−", 1 if value < 0 else 0)


def set_title(ax: Any, title: str) -> None:
    """Write a title at the left."""
    ax.set_title(title, loc="left", color=INK, fontsize=FONT_SIZE + 1)


def add_legend(ax: Any, **options: Any) -> None:
    """Add a legend without a frame."""
    ax.legend(**({"loc": "best", "frameon": False, "fontsize": FONT_SIZE, "labelcolor": INK} | options))
