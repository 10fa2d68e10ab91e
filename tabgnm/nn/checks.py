"""Checks of arguments."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence

from tabgnm._printable import shown


def positive_integer(name: str, value: object, *, smallest: int = 1) -> int:
    """Return `value` as an int; raise unless it is an integer >= `smallest`."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}={shown(value)} has type {type(value).__name__}; expected an integer >= {smallest}")
    number = int(value.__index__())
    if number < smallest:
        raise ValueError(f"{name}={number} is too small; expected an integer >= {smallest}")
    return number


def finite_number(name: str, value: object, *, positive: bool = False) -> float:
    """Return `value` as a float; raise unless it is a finite number >= 0, or > 0 if `positive`."""
    number = float(value) if isinstance(value, numbers.Real) and not isinstance(value, bool) else math.nan
    if not 0 <= number < math.inf or (positive and number == 0):
        sign = ">" if positive else ">="
        raise ValueError(f"{name}={shown(value)} is out of range; expected a finite number {sign} 0")
    return number


def check_choice(name: str, value: object, allowed: Sequence[str]) -> None:
    """Raise ValueError unless `value` is one of the allowed values."""
    if value not in allowed:
        raise ValueError(f"{name}={shown(value)} is not known; use one of {', '.join(map(repr, allowed))}")
