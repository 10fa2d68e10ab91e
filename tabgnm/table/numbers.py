"""Maps of numbers (scaling, normal scores of quantiles, bins), applied to many columns at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from tabgnm.table.values import Floats

Method = Literal["identity", "linear", "smooth", "knots"]
METHODS: tuple[Method, ...] = ("identity", "linear", "smooth", "knots")

# Knots that are closer than this, in a column of numbers of ordinary size, are merged, so that slopes are finite.
_SMALLEST_GAP = 1e-290
_SMALL = 1e-150  # columns without larger numbers are converted to larger units before computations
_SMALLEST = float(np.nextafter(0.0, 1.0))
_LARGEST = float(np.finfo(np.float64).max)
_EMPTY: Floats = np.empty(0)


@dataclass(frozen=True, eq=False)
class NumberMap:
    """How one feature is encoded.

    "identity" returns a number x unchanged; "linear" returns z = (x - center) / scale; "smooth" returns
    z / sqrt(1 + (z / 3)²), which is close to z for small z and always between -3 and 3; "knots" interpolates linearly
    between the points (knots, targets) and is constant outside them. A missing number is encoded as `fill`.
    """

    method: Method
    centre: float = 0.0
    scale: float = 1.0
    fill: float = 0.0
    knots: Floats = field(default_factory=lambda: _EMPTY)
    targets: Floats = field(default_factory=lambda: _EMPTY)


# All maps below are fitted to finite numbers in ascending order, so that numbers are sorted only once and the order of
# the rows does not affect the result, not even by rounding.


def _unit(ascending: Floats) -> float:
    """Return a power of two that scales tiny numbers to ordinary size; 1 for all other numbers.

    Without it, differences, slopes and squares of numbers such as 1e-300 would be out of the range of float64.
    """
    largest = max(-float(ascending[0]), float(ascending[-1]))
    return 2.0 ** min(-np.frexp(largest)[1], 1000) if 0 < largest < _SMALL else 1.0


def is_constant(ascending: Floats) -> bool:
    """Whether all numbers are equal, or almost equal."""
    if len(ascending) == 0:
        return True
    unit = _unit(ascending)
    return float(ascending[-1]) * unit - float(ascending[0]) * unit <= _SMALLEST_GAP


def is_two_valued(ascending: Floats) -> bool:
    """Whether there are at most two distinct numbers."""
    return bool(np.searchsorted(ascending, ascending[0], "right") >= np.searchsorted(ascending, ascending[-1], "left"))


def untouched(ascending: Floats) -> NumberMap:
    """Return the map that leaves numbers unchanged; a missing number becomes the median."""
    return NumberMap("identity", fill=_median(ascending))


def fit_scaling(scaling: str, ascending: Floats) -> NumberMap:
    """Return the map that scales numbers with the distribution of the given ones, which must not all be equal."""
    if scaling == "none":
        return untouched(ascending)
    if scaling == "standard":
        return _standard(ascending)
    return _robust(ascending) if scaling == "robust" else _normal_scores(ascending)


def fit_bins(n_bins: int, ascending: Floats) -> NumberMap:
    """Return the map to bin coordinates: the index of the bin, plus the relative position of a number in the bin.

    Edges are quantiles. If some of them coincide, as in a column that is mostly 0, further edges are quantiles of the
    other numbers. If there are few distinct numbers, these are the edges, so that a function of the coordinate can take
    any value at each of them; there are then fewer bins.
    """
    ascending = _without_overflow(ascending)
    edges = ascending[_apart(ascending)]
    if len(edges) > n_bins + 1:
        edges = np.unique(_quantiles(ascending, np.linspace(0, 1, n_bins + 1)))
        for _ in range(3):  # most of the other numbers may be equal again
            left_over = n_bins + 1 - len(edges)
            others = ascending[~np.isin(ascending, edges)]
            if left_over and len(others):
                edges = np.union1d(edges, _quantiles(others, np.linspace(0, 1, left_over + 2)[1:-1]))
        edges = edges[_apart(edges)]
    targets = np.arange(len(edges), dtype=np.float64)
    unit = _unit(edges)
    fill = float(np.interp(_median(ascending) * unit, edges * unit, targets))
    return NumberMap("knots", fill=fill, knots=edges, targets=targets)


def _quantiles(ascending: Floats, fractions: Floats) -> Floats:
    places = fractions * (len(ascending) - 1)
    lower = places.astype(np.intp)
    upper = np.minimum(lower + 1, len(ascending) - 1)
    # A weighted sum, because the difference of two numbers could overflow.
    share = places - lower
    with np.errstate(under="ignore"):
        between = ascending[lower] * (1 - share) + ascending[upper] * share
    # Rounding errors may exceed the two neighbours.
    return np.clip(between, ascending[lower], ascending[upper])


def _without_overflow(numbers: Floats) -> Floats:
    """Clip the largest numbers of float64, so that the difference of two knots is finite."""
    return np.clip(numbers, -_LARGEST / 2.1, _LARGEST / 2.1)


def _median(ascending: Floats) -> float:
    return float(_quantiles(ascending, np.array([0.5]))[0])


def _apart(ascending: Floats) -> NDArray[np.bool_]:
    """Return which of some ascending numbers to keep so that no two are (almost) equal."""
    keep = np.ones(len(ascending), dtype=np.bool_)
    np.greater(np.diff(ascending * _unit(ascending)), _SMALLEST_GAP, out=keep[1:])
    return keep


def _standard(ascending: Floats) -> NumberMap:
    unit = _unit(ascending)
    ascending = ascending * unit
    # Relative to the largest number, so that sums and squares do not overflow or underflow.
    largest = float(max(-ascending[0], ascending[-1]))
    centre = float(np.mean(ascending / largest)) * largest
    with np.errstate(over="ignore", under="ignore"):
        deviations = np.clip(ascending - centre, -_LARGEST, _LARGEST)
        widest = float(np.abs(deviations).max())
        scale = widest * float(np.sqrt(np.mean((deviations / widest) ** 2))) if widest > 0 else 0.0
    return NumberMap("linear", centre=centre / unit, scale=_scale_of(scale if scale > _SMALLEST_GAP else 1.0, unit))


def _robust(ascending: Floats) -> NumberMap:
    unit = _unit(ascending)
    ascending = ascending * unit
    low, centre, high = _quantiles(ascending, np.array([0.25, 0.5, 0.75]))
    scale = min(float(high / 2 - low / 2) * 2, _LARGEST)
    if scale <= _SMALLEST_GAP:  # more than half of the numbers are equal
        scale = float(ascending[-1] / 2 - ascending[0] / 2)
    return NumberMap("smooth", centre=float(centre) / unit, scale=_scale_of(max(scale, _SMALLEST_GAP), unit))


def _scale_of(scale: float, unit: float) -> float:
    return max(scale / unit, _SMALLEST)


def _normal_scores(ascending: Floats) -> NumberMap:
    """Map quantiles to those of the normal distribution.

    The map interpolates linearly, so that exported models need no normal distribution. There is one knot per 30 rows,
    as in the reference code of tabular deep learning; more would follow the noise of the sample. Equal quantiles become
    one knot with the mean of their probabilities.
    """
    n_knots = max(min(len(ascending) // 30, 1000), 10)
    probabilities = np.linspace(0, 1, n_knots)
    knots = _quantiles(_without_overflow(ascending), probabilities)
    first = np.flatnonzero(_apart(knots))
    sizes = np.diff(np.append(first, n_knots))
    means = np.add.reduceat(probabilities, first) / sizes
    # The smallest of n numbers represents the first 1/n of the distribution, not minus infinity.
    outermost = 0.5 / max(len(ascending), n_knots)
    scores: Floats = ndtri(np.clip(means, outermost, 1 - outermost))
    return NumberMap("knots", knots=knots[first], targets=scores)


def unit_of_knots(one: NumberMap) -> float:
    """Return the factor to scale numbers and knots by before they are compared; 1 unless the knots are tiny."""
    return _unit(one.knots) if one.method == "knots" else 1.0


class NumberMaps:
    """The maps of many features, applied together.

    Parameters
    ----------
    maps : sequence of NumberMap
        One per feature.
    """

    def __init__(self, maps: Sequence[NumberMap]) -> None:
        self.maps = list(maps)
        self._fill = np.array([one.fill for one in maps], dtype=np.float64)
        self._linear = self._features("linear", "smooth")
        self._smooth = self._features("smooth")
        # Tiny knots are stored in larger units, see `_unit`.
        units = [unit_of_knots(one) for one in maps]
        self._knots = [
            (index, one.knots * unit, one.targets, unit)
            for index, (one, unit) in enumerate(zip(maps, units, strict=True))
            if one.method == "knots"
        ]
        chosen = [one for one in maps if one.method in ("linear", "smooth")]
        self._centre = np.array([one.centre for one in chosen], dtype=np.float64)[:, None]
        self._scale = np.array([one.scale for one in chosen], dtype=np.float64)[:, None]

    def _features(self, *methods: Method) -> slice | NDArray[np.intp] | None:
        found = [index for index, one in enumerate(self.maps) if one.method in methods]
        if not found:
            return None
        # Usually all features have the same method; a slice then gives a view without a copy.
        return slice(None) if len(found) == len(self.maps) else np.array(found, dtype=np.intp)

    def apply(self, numbers: Floats, missing: NDArray[np.bool_] | None) -> None:
        """Encode numbers in place.

        Shape
        -----
        numbers : (features, rows), finite or NaN
        missing : (features, rows), True where numbers are NaN; None if there are none
        """
        if self._linear is not None:
            with np.errstate(over="ignore", under="ignore"):
                scaled = np.clip(numbers[self._linear] - self._centre, -_LARGEST, _LARGEST)
                scaled /= self._scale
                np.clip(scaled, -_LARGEST, _LARGEST, out=scaled)
            numbers[self._linear] = scaled
        if self._smooth is not None:
            scaled = np.clip(numbers[self._smooth], -1e9, 1e9)  # squares have to stay finite
            with np.errstate(under="ignore"):
                numbers[self._smooth] = scaled / np.sqrt(1 + (scaled / 3) ** 2)
        for index, knots, targets, unit in self._knots:
            if unit != 1:
                with np.errstate(over="ignore"):  # a number outside the knots may become infinite, with the same result
                    numbers[index] *= unit
            numbers[index] = np.interp(numbers[index], knots, targets)
        if missing is not None:
            features, rows = np.nonzero(missing)
            numbers[features, rows] = self._fill[features]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all maps as arrays, for a file."""
        return {
            "number_method": np.array([METHODS.index(one.method) for one in self.maps], dtype=np.uint8),
            "number_centre": np.array([one.centre for one in self.maps], dtype=np.float64),
            "number_scale": np.array([one.scale for one in self.maps], dtype=np.float64),
            "number_fill": self._fill,
            "knot_counts": np.array([len(one.knots) for one in self.maps], dtype=np.int64),
            "knots": np.concatenate([_EMPTY, *(one.knots for one in self.maps)]),
            "targets": np.concatenate([_EMPTY, *(one.targets for one in self.maps)]),
        }
