"""Maps of numbers: scaling, normal scores of quantiles, bins; for many columns at once."""

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

# Knots that are closer than this would have slopes that no float64 can hold.
SMALLEST_GAP = 1e-290
_LARGEST = float(np.finfo(np.float64).max)
_EMPTY: Floats = np.empty(0)


@dataclass(frozen=True, eq=False)
class NumberMap:
    """How one kind of number is encoded.

    "identity" leaves it as it is; "linear" gives z = (x - centre) / scale; "smooth" z / sqrt(1 + (z / 3)²), which is
    nearly z for small numbers and never beyond 3; "knots" joins the points (knots, targets) by straight lines and is
    constant outside of them. A missing number is encoded as `fill`.
    """

    method: Method
    centre: float = 0.0
    scale: float = 1.0
    fill: float = 0.0
    knots: Floats = field(default_factory=lambda: _EMPTY)
    targets: Floats = field(default_factory=lambda: _EMPTY)


def is_constant(numbers: Floats) -> bool:
    """Whether numbers (none of them missing) are all the same, or as good as that."""
    return len(numbers) == 0 or float(numbers.max()) - float(numbers.min()) <= SMALLEST_GAP


def is_two_valued(numbers: Floats) -> bool:
    """Whether there are at most two distinct numbers."""
    return bool(((numbers == numbers.min()) | (numbers == numbers.max())).all())


def untouched(numbers: Floats) -> NumberMap:
    """Leave numbers as they are; a missing one becomes the median."""
    return NumberMap("identity", fill=_median(numbers))


def fit_scaling(scaling: str, numbers: Floats) -> NumberMap:
    """Return the map that scales numbers like these (finite, not all the same)."""
    if scaling == "none":
        return untouched(numbers)
    if scaling == "standard":
        return _standard(numbers)
    return _robust(numbers) if scaling == "robust" else _normal_scores(numbers)


def fit_bins(n_bins: int, numbers: Floats) -> NumberMap:
    """Return the map to bin coordinates: the index of the bin, plus how far in the bin a number lies.

    Edges are quantiles; where some coincide there are fewer bins. Few distinct numbers are the edges themselves, so
    that a function of the coordinate can take any value at each of them.
    """
    numbers = _without_overflow(numbers)
    edges = np.unique(numbers)
    if len(edges) > n_bins + 1:
        edges = _quantiles(numbers, np.linspace(0, 1, n_bins + 1))
    edges = edges[_apart(edges)]
    targets = np.arange(len(edges), dtype=np.float64)
    fill = float(np.interp(_median(numbers), edges, targets))
    return NumberMap("knots", fill=fill, knots=edges, targets=targets)


def _quantiles(numbers: Floats, fractions: Floats) -> Floats:
    # Halved before and doubled after, exact in binary: the difference of two neighbours never overflows.
    with np.errstate(under="ignore"):
        result: Floats = np.quantile(numbers * 0.5, fractions) * 2
    # Interpolation between neighbours may leave their order by a rounding error.
    return np.maximum.accumulate(np.clip(result, numbers.min(), numbers.max()))


def _without_overflow(numbers: Floats) -> Floats:
    """Bring the largest numbers of all a little closer: the distance of two knots has to be finite."""
    return np.clip(numbers, -_LARGEST / 2.1, _LARGEST / 2.1)


def _median(numbers: Floats) -> float:
    return float(_quantiles(numbers, np.array([0.5]))[0]) if len(numbers) else 0.0


def _apart(ascending: Floats) -> NDArray[np.bool_]:
    """Which of ascending numbers to keep so that no two are (almost) equal."""
    keep = np.ones(len(ascending), dtype=np.bool_)
    with np.errstate(over="ignore"):
        keep[1:] = np.diff(ascending) > SMALLEST_GAP
    return keep


def _standard(numbers: Floats) -> NumberMap:
    # Relative to the largest one, so that neither sums nor squares overflow or vanish.
    largest = float(np.abs(numbers).max())
    centre = float(np.mean(numbers / largest)) * largest
    with np.errstate(over="ignore", under="ignore"):
        deviations = np.clip(numbers - centre, -_LARGEST, _LARGEST)
        widest = float(np.abs(deviations).max())
        scale = widest * float(np.sqrt(np.mean((deviations / widest) ** 2))) if widest > 0 else 0.0
    return NumberMap("linear", centre=centre, scale=scale if scale > SMALLEST_GAP else 1.0)


def _robust(numbers: Floats) -> NumberMap:
    low, centre, high = _quantiles(numbers, np.array([0.25, 0.5, 0.75]))
    scale = min(float(high / 2 - low / 2) * 2, _LARGEST)
    if scale <= SMALLEST_GAP:  # more than half of the numbers are equal
        scale = float(numbers.max() / 2 - numbers.min() / 2)
    return NumberMap("smooth", centre=float(centre), scale=max(scale, SMALLEST_GAP))


def _normal_scores(numbers: Floats) -> NumberMap:
    """Map quantiles to those of the normal distribution.

    Scores are joined by straight lines, so that a model needs no other function than these where it is exported to.
    One knot for 30 rows, as in the reference code of tabular deep learning: more would follow the noise of the sample.
    Equal quantiles are one knot with the mean of their probabilities.
    """
    numbers = _without_overflow(numbers)
    n_knots = max(min(len(numbers) // 30, 1000), 10)
    probabilities = np.linspace(0, 1, n_knots)
    knots = _quantiles(numbers, probabilities)
    first = np.flatnonzero(_apart(knots))
    sizes = np.diff(np.append(first, n_knots))
    means = np.add.reduceat(probabilities, first) / sizes
    # The smallest of n numbers stands for the first 1/n of the distribution, not for its end at minus infinity.
    outermost = 0.5 / max(len(numbers), n_knots)
    scores: Floats = ndtri(np.clip(means, outermost, 1 - outermost))
    return NumberMap("knots", knots=knots[first], targets=scores)


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
        self._knots = [(index, one.knots, one.targets) for index, one in enumerate(maps) if one.method == "knots"]
        chosen = [one for one in maps if one.method in ("linear", "smooth")]
        self._centre = np.array([one.centre for one in chosen], dtype=np.float64)[:, None]
        self._scale = np.array([one.scale for one in chosen], dtype=np.float64)[:, None]

    def _features(self, *methods: Method) -> slice | NDArray[np.intp] | None:
        found = [index for index, one in enumerate(self.maps) if one.method in methods]
        if not found:
            return None
        # A slice is a view: nothing has to be gathered where all features are alike, the usual case.
        return slice(None) if len(found) == len(self.maps) else np.array(found, dtype=np.intp)

    def apply(self, numbers: Floats, missing: NDArray[np.bool_] | None) -> None:
        """Encode numbers in place.

        Shape
        -----
        numbers : (features, rows), finite or NaN
        missing : (features, rows), where numbers are NaN; None if nowhere
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
        for index, knots, targets in self._knots:
            numbers[index] = np.interp(numbers[index], knots, targets)
        if missing is not None:
            features, rows = np.nonzero(missing)
            numbers[features, rows] = self._fill[features]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays for a file."""
        return {
            "number_method": np.array([METHODS.index(one.method) for one in self.maps], dtype=np.uint8),
            "number_centre": np.array([one.centre for one in self.maps], dtype=np.float64),
            "number_scale": np.array([one.scale for one in self.maps], dtype=np.float64),
            "number_fill": self._fill,
            "knot_counts": np.array([len(one.knots) for one in self.maps], dtype=np.int64),
            "knots": np.concatenate([_EMPTY, *(one.knots for one in self.maps)]),
            "targets": np.concatenate([_EMPTY, *(one.targets for one in self.maps)]),
        }
