"""Settings of the encoding of tables."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from tabgnm._printable import shown

SCALINGS = ("none", "standard", "robust", "quantile")
NUMERIC_EMBEDDINGS = (None, "periodic", "piecewise")
KINDS = ("number", "category", "datetime", "ignore")

_SMALLEST = {"n_basis": 1, "numeric_dim": 1, "max_one_hot": 0, "level_dim": 0, "min_level_count": 1, "max_levels": 1}


def _integer(name: str, value: object, smallest: int) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}={shown(value)} has type {type(value).__name__}; expected an integer >= {smallest}")
    number = int(value.__index__())
    if number < smallest:
        raise ValueError(f"{name}={number} is too small; expected an integer >= {smallest}")
    return number


@dataclass(frozen=True)
class TableSettings:
    """How columns are encoded as numbers.

    Parameters
    ----------
    scaling : {"quantile", "robust", "standard", "none"}, default="quantile"
        How to scale numbers: to the normal scores of their quantiles; to median 0 and interquartile range 1, with a
        smooth clip to (-3, 3); to mean 0 and standard deviation 1; or not at all.
    numeric_embedding : {None, "periodic", "piecewise"}, default=None
        How the network embeds each number: not at all, with cosines of learned frequencies, or with a learned piecewise
        linear function.
    n_basis : int, default=16
        The number of cosines or bins per embedded number.
    numeric_dim : int, default=4
        The number of learned features per embedded number.
    frequency_scale : float, default=0.1
        The standard deviation of the initial frequencies of "periodic". Larger values suit targets with jumps, smaller
        values smooth targets.
    max_one_hot : int, default=8
        The maximum number of levels of a one-hot encoded category. Categories with more levels get a learned embedding.
    level_dim : int, default=8
        The number of learned features per level. If 0, there are no embeddings: the `max_one_hot` most frequent levels
        have one-hot columns, and the others have none.
    min_level_count : int, default=3
        The minimum number of training rows for a level to have its own embedding. All rarer levels of a column share
        one embedding. A column with only rare levels is not used, with a warning.
    max_levels : int, default=5000
        The maximum number of levels of a column with their own embeddings. Less frequent levels are treated as rare.
    kinds : mapping or None, default=None
        The kinds of some columns, by name or position: "number", "category", "datetime" or "ignore". All other kinds
        are inferred.

    Examples
    --------
    >>> TableSettings(scaling="robust", kinds={"zip": "category"}).max_one_hot
    8
    """

    scaling: str = "quantile"
    numeric_embedding: str | None = None
    n_basis: int = 16
    numeric_dim: int = 4
    frequency_scale: float = 0.1
    max_one_hot: int = 8
    level_dim: int = 8
    min_level_count: int = 3
    max_levels: int = 5000
    kinds: Mapping[str | int, str] | None = None

    def __post_init__(self) -> None:
        for name, known in (("scaling", SCALINGS), ("numeric_embedding", NUMERIC_EMBEDDINGS)):
            check_choice(name, getattr(self, name), known)
        for name, smallest in _SMALLEST.items():
            object.__setattr__(self, name, _integer(name, getattr(self, name), smallest))
        scale = self.frequency_scale
        if isinstance(scale, bool) or not isinstance(scale, numbers.Real) or not (scale > 0 and math.isfinite(scale)):
            raise ValueError(f"frequency_scale={shown(scale)} is out of range; expected a finite number > 0")
        object.__setattr__(self, "frequency_scale", float(scale))
        object.__setattr__(self, "kinds", checked_kinds("kinds", self.kinds))

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as JSON values; `kinds` as pairs, because JSON keys cannot be integers."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values["kinds"] = [[key, kind] for key, kind in (self.kinds or {}).items()]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TableSettings:
        """Restore settings from the result of `as_dict`; raise ValueError if it is invalid."""
        names = {field.name for field in fields(cls)}
        if not isinstance(values, Mapping) or set(values) != names:
            raise ValueError(f"settings must be a mapping with the keys {sorted(names)}; got {shown(values)}")
        try:
            kinds = dict(values["kinds"]) or None
            return cls(**{**values, "kinds": kinds})
        except TypeError as error:
            raise ValueError(f"settings are damaged: {error}") from None


def check_choice(name: str, value: object, known: Sequence[str | None]) -> None:
    """Raise unless the value of a setting or parameter is one of the known values."""
    if not isinstance(value, str | None) or value not in known:
        raise ValueError(f"{name}={shown(value)} is not known; use one of {', '.join(map(repr, known))}")


def checked_kinds(name: str, kinds: object) -> dict[str | int, str] | None:
    """Validate the kinds of columns in the setting `name`, and return them as a dict."""
    if kinds is None:
        return None
    if not isinstance(kinds, Mapping):
        raise TypeError(
            f"{name}={shown(kinds)} has type {type(kinds).__name__}; expected a dict such as {{'zip': 'category'}}"
        )
    checked: dict[str | int, str] = {}
    for key, kind in kinds.items():
        if not isinstance(kind, str) or kind not in KINDS:
            raise ValueError(
                f"{name}[{shown(key)}]={shown(kind)} is not known; use one of {', '.join(map(repr, KINDS))}"
            )
        if isinstance(key, str):
            checked[str(key)] = kind
        elif hasattr(key, "__index__") and not isinstance(key, bool):
            checked[int(key.__index__())] = kind
        else:
            raise TypeError(f"{name} has the key {shown(key)}; expected the name of a column or its position")
    return checked
