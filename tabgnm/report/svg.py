"""Charts as inline SVG: scales, ticks and a panel with axes to draw on.

Colours, dashes and fonts come from the style sheet of the page through classes, so that a chart follows its theme.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tabgnm.report.wording import number, shortened

Floats = NDArray[np.float64]

N_SERIES = 6  # of different colours, dashes and markers in the style sheet
_CHARACTER = 6.1  # mean width of a character of a label


@dataclass(frozen=True)
class Svg:
    """A finished drawing; Jinja does not escape what has `__html__`."""

    code: str

    def __html__(self) -> str:
        return self.code


@dataclass(frozen=True)
class Scale:
    """A linear map from values to positions."""

    low: float
    high: float
    start: float = 0.0
    end: float = 1.0

    def __call__(self, values: object) -> Floats:
        """Return the positions of values."""
        shares = (np.asarray(values, dtype=np.float64) - self.low) / ((self.high - self.low) or 1.0)
        return np.asarray(self.start + shares * (self.end - self.start))

    def between(self, start: float, end: float) -> Scale:
        """Return the scale with other positions."""
        return Scale(self.low, self.high, start, end)


def scale_of(values: object, *, margin: float = 0.04, with_zero: bool = False) -> Scale:
    """Return a scale that contains all finite values, with a margin."""
    found = np.asarray(values, dtype=np.float64).reshape(-1)
    found = found[np.isfinite(found)]
    low, high = (float(found.min()), float(found.max())) if len(found) else (0.0, 1.0)
    if with_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if high - low <= 1e-12 * max(abs(low), abs(high)):  # the same up to rounding
        room = abs(low) / 2 or 1.0
        return Scale(low - room, high + room)
    room = margin * (high - low)
    return Scale(low if with_zero and low == 0 else low - room, high if with_zero and high == 0 else high + room)


def ticks(scale: Scale, most: int = 5) -> list[float]:
    """Return round values within a scale, at most so many steps apart.

    Examples
    --------
    >>> ticks(Scale(0, 1), 5)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    span = scale.high - scale.low
    if not math.isfinite(span) or span <= 0:
        return []
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10, 20) if span / (factor * power) <= most)
    first = math.ceil(scale.low / step - 1e-9)
    last = math.floor(scale.high / step + 1e-9)
    return [round(place * step, 12 - math.floor(math.log10(step))) + 0.0 for place in range(first, last + 1)]


def tick_labels(values: Sequence[float]) -> list[str]:
    """Return the labels of ticks, all with the same number of decimals."""
    if len(values) < 2:
        return [number(value) for value in values]
    largest, step = max(map(abs, values)), values[1] - values[0]
    if largest >= 1e6 or largest < 1e-3:
        return [number(value, 2) if largest >= 1e9 or largest < 1e-3 else compact(value) for value in values]
    decimals = next((d for d in range(9) if abs(round(step, d) - step) < 1e-6 * step), 9)
    return [f"{value:,.{decimals}f}".replace("-", "−") for value in values]


def compact(value: float) -> str:
    """Return a large number in thousands or millions.

    Examples
    --------
    >>> compact(2_500_000)
    '2.5M'
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{number(value / size)}{letter}"
    return number(value)


def escaped(value: str) -> str:
    """Return a text for the content or an attribute of an element."""
    return html.escape(value, quote=True)


def coordinate(value: float) -> str:
    """Return a position with one decimal, without a trailing zero: files stay small."""
    return f"{value:.1f}".removesuffix(".0")


def opening(width: float, height: float, title: str) -> str:
    """Return the first tag of a chart, with its title for people who cannot see it, and as a tooltip."""
    return (
        f'<svg class="chart report-svg" viewBox="0 0 {coordinate(width)} {coordinate(height)}" role="img" '
        f'aria-label="{escaped(title)}"><title>{escaped(title)}</title>'
    )


def label(x: float, y: float, shown: str, classes: str = "", longest: int = 40, full: str | None = None) -> str:
    """Return a text element; what is cut off is in its title."""
    full = shown if full is None else full
    short = shortened(shown, longest)
    title = f"<title>{escaped(full)}</title>" if short != full else ""
    return f'<text x="{coordinate(x)}" y="{coordinate(y)}" class="{classes}">{title}{escaped(short)}</text>'


def path_of(xs: Floats, ys: Floats) -> str:
    """Return the data of a line through points; it is broken where a value is not finite."""
    pieces, broken = [], True
    for x, y in zip(xs.tolist(), ys.tolist(), strict=True):
        if not (math.isfinite(x) and math.isfinite(y)):
            broken = True
            continue
        pieces.append(f"{'M' if broken else 'L'}{coordinate(x)} {coordinate(y)}")
        broken = False
    return "".join(pieces)


def thinned(n: int, most: int) -> NDArray[np.intp]:
    """Return at most so many of n positions, evenly spread, with the first and the last."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.intp))


@dataclass
class Panel:
    """A chart with two axes.

    Parameters
    ----------
    x, y : Scale
        Of the values; positions are set by the panel.
    title : str
        What the chart shows, for people who cannot see it, and as a tooltip.
    x_label, y_label : str
    width, height : float
    x_ticks, y_ticks : list of (value, label), default=None
        None: round numbers.
    slanted : bool, default=False
        Whether the labels of the horizontal axis are slanted, which takes more height.
    """

    x: Scale
    y: Scale
    title: str
    x_label: str = ""
    y_label: str = ""
    width: float = 340.0
    height: float = 250.0
    x_ticks: list[tuple[float, str]] | None = None
    y_ticks: list[tuple[float, str]] | None = None
    grid: bool = True
    slanted: bool = False
    _marks: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.x_ticks is None:
            values = ticks(self.x, max(3, int(self.width / 75)))
            self.x_ticks = list(zip(values, tick_labels(values), strict=True))
        if self.y_ticks is None:
            values = ticks(self.y, max(3, int(self.height / 45)))
            self.y_ticks = list(zip(values, tick_labels(values), strict=True))
        widest = max((len(shown) for _, shown in self.y_ticks), default=0)
        self.left = 8 + _CHARACTER * widest
        self.top = 26.0 if self.y_label else 10.0
        self.bottom = self.height - (40.0 if self.x_label else 24.0) - (30.0 if self.slanted else 0.0)
        self.right = self.width - 12
        self.x = self.x.between(self.left, self.right)
        self.y = self.y.between(self.bottom, self.top)

    def add(self, code: str) -> None:
        """Add an element as it is."""
        self._marks.append(code)

    def line(self, xs: object, ys: object, classes: str = "", title: str = "") -> None:
        """Draw a line through points."""
        data = path_of(self.x(xs), np.clip(self.y(ys), self.top - 1, self.bottom + 1))
        inside = f"<title>{escaped(title)}</title>" if title else ""
        self.add(f'<path d="{data}" class="line {classes}">{inside}</path>')

    def band(self, xs: object, low: object, high: object, classes: str = "") -> None:
        """Fill the space between two lines."""
        across = self.x(xs)
        there = path_of(across, np.clip(self.y(high), self.top, self.bottom))
        back = path_of(across[::-1], np.clip(self.y(low), self.top, self.bottom)[::-1])
        self.add(f'<path d="{there}{back.replace("M", "L")}Z" class="band {classes}"></path>')

    def points(self, xs: object, ys: object, classes: str = "", radius: float = 2.0) -> None:
        """Draw many points as one path of short round strokes."""
        data = "".join(
            f"M{coordinate(x)} {coordinate(y)}h0"
            for x, y in zip(self.x(xs).tolist(), self.y(ys).tolist(), strict=True)
            if math.isfinite(x) and math.isfinite(y)
        )
        self.add(f'<path d="{data}" class="points {classes}" style="stroke-width:{coordinate(2 * radius)}"></path>')

    def marker(self, x: float, y: float, series: int = 0, title: str = "") -> None:
        """Draw one marker: circle, square, diamond or triangle by the number of the series."""
        (across,), (down,) = self.x([x]), np.clip(self.y([y]), self.top, self.bottom)
        self.add(marker(float(across), float(down), series, title))

    def bar(self, x_low: float, x_high: float, y_low: float, y_high: float, classes: str = "", title: str = "") -> None:
        """Draw a rectangle between values."""
        left, right = sorted(self.x([x_low, x_high]).tolist())
        top, bottom = sorted(np.clip(self.y([y_low, y_high]), self.top, self.bottom).tolist())
        inside = f"<title>{escaped(title)}</title>" if title else ""
        self.add(
            f'<rect x="{coordinate(left)}" y="{coordinate(top)}" width="{coordinate(max(right - left, 0.5))}" '
            f'height="{coordinate(bottom - top)}" class="bar {classes}">{inside}</rect>'
        )

    def drawn(self) -> Svg:
        """Return the chart."""
        parts = [opening(self.width, self.height, self.title)]
        for value, shown in self.y_ticks or ():
            (down,) = self.y([value])
            if self.grid:
                parts.append(
                    f'<path d="M{coordinate(self.left)} {coordinate(down)}H{coordinate(self.right)}" class="grid"/>'
                )
            parts.append(label(self.left - 6, down + 3.5, shown, "tick end"))
        parts.append(
            f'<path d="M{coordinate(self.left)} {coordinate(self.bottom)}H{coordinate(self.right)}" class="axis"/>'
        )
        for value, shown in self.x_ticks or ():
            (across,) = self.x([value])
            parts.append(f'<path d="M{coordinate(across)} {coordinate(self.bottom)}v4" class="axis"/>')
            if self.slanted:
                x, y = coordinate(float(across) + 4), coordinate(self.bottom + 12)
                turned = label(0, 0, shown, "tick end")
                parts.append(f'<g transform="translate({x} {y}) rotate(-35)">{turned}</g>')
                continue
            # Labels at the edges stay within the drawing.
            half = _CHARACTER * len(shown) / 2
            across = min(max(float(across), half + 2), self.width - half - 2)
            parts.append(label(across, self.bottom + 16, shown, "tick middle"))
        if self.x_label:
            place = (self.left + self.right) / 2
            parts.append(label(place, self.height - 6, self.x_label, "label middle", int(self.width / _CHARACTER)))
        if self.y_label:
            parts.append(label(2, 12, self.y_label, "label", int(self.width / _CHARACTER)))
        return Svg("".join((*parts, *self._marks, "</svg>")))


def marker(x: float, y: float, series: int = 0, title: str = "") -> str:
    """Return a marker at a position: circle, square, diamond or triangle by the number of the series."""
    shape = (
        "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0",
        "M-3.5 -3.5h7v7h-7Z",
        "M0 -5L5 0L0 5L-5 0Z",
        "M0 -4.5L4.5 3.5H-4.5Z",
        "M0 4.5L4.5 -3.5H-4.5Z",
        "M-4 -1.5h2.5V-4h3v2.5H4v3H1.5V4h-3V1.5H-4Z",
    )[series % N_SERIES]
    inside = f"<title>{escaped(title)}</title>" if title else ""
    return (
        f'<path transform="translate({coordinate(x)} {coordinate(y)})" d="{shape}" '
        f'class="marker s{series % N_SERIES}">{inside}</path>'
    )
