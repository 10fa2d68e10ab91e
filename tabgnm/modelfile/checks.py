"""Checks of single values from a file."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from tabgnm._printable import shown
from tabgnm.modelfile.errors import ModelFileError


def check_same(what: str, found: object, expected: object) -> None:
    """Raise unless two values are equal."""
    if found != expected:
        raise ModelFileError(f"{what}: {shown(found, 300)}; expected {shown(expected, 300)}")


def check_keys(what: str, values: Any, required: Set[str], *, optional: Set[str] = frozenset()) -> None:
    """Raise unless `values` is an object with the required keys, and no others except optional ones."""
    if not isinstance(values, dict):
        raise ModelFileError(f"{what}: {shown(values)}; expected an object")
    check_same(what, sorted(set(values) - optional), sorted(required))


def check_list(what: str, values: Any, most: int, *, smallest: int = 1) -> list[Any]:
    """Return a list whose length is within bounds."""
    if not isinstance(values, list) or not smallest <= len(values) <= most:
        raise ModelFileError(f"its {what} are {shown(values)}; expected a list of {smallest} to {most} items")
    return values


def check_positive(what: str, value: Any, smallest: float, largest: float) -> float:
    """Return a float within bounds."""
    if type(value) is not float or not smallest <= value <= largest:
        raise ModelFileError(f"{what} is {shown(value)}; expected a number from {smallest:g} to {largest:g}")
    return value


def check_count(what: str, value: Any, smallest: int, largest: int = 2**31 - 1) -> int:
    """Return an integer within bounds."""
    if type(value) is not int or not smallest <= value <= largest:
        raise ModelFileError(f"{what} is {shown(value)}; expected an integer from {smallest} to {largest}")
    return value
