"""Names and values in Python source: identifiers from any text, and literals."""

from __future__ import annotations

import inspect
import math
import re
from types import ModuleType
from typing import Any

_LONGEST = 40
_CUT = "# " + "-" * 118 + "\n"


class Identifiers:
    """Creates valid, readable and unique identifiers.

    Examples
    --------
    >>> names = Identifiers()
    >>> [names.new("c", text) for text in ("age", "a b", "a-b", "import", "")]
    ['c_age', 'c_a_b', 'c_a_b_2', 'c_import', 'c']
    """

    def __init__(self) -> None:
        self._used: set[str] = set()

    def new(self, prefix: str, text: str) -> str:
        """Return `prefix` and the valid characters of a text, with a number if this identifier is taken."""
        readable = re.sub(r"[^A-Za-z0-9]+", "_", text[: 4 * _LONGEST]).strip("_")[:_LONGEST]
        base = f"{prefix}_{readable}" if readable else prefix
        name, number = base, 1
        while name in self._used:
            number += 1
            name = f"{base}_{number}"
        self._used.add(name)
        return name


def literal(value: Any) -> str:
    """Return the source of a plain value: None, a boolean, number or text, or a list, tuple or dict of these."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(key)}: {literal(own)}" for key, own in value.items()) + "}"
    if isinstance(value, list | tuple):
        inside = ", ".join(map(literal, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside},)" if len(value) == 1 else f"({inside})"
    if value is None or type(value) in (bool, int, str):
        return repr(value)
    if type(value) is float and math.isfinite(value):
        return repr(value)
    raise TypeError(f"{value!r:.60} of type {type(value).__name__} has no literal")


def copied_source(module: ModuleType) -> str:
    """Return the part of a module that exported files contain."""
    return inspect.getsource(module).split(_CUT, 1)[1].strip() + "\n"
