"""Checks of the description of targets in model files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def check_keys(schema: Any, keys: set[str]) -> None:
    """Raise unless the schema is a mapping with exactly these keys."""
    if not isinstance(schema, Mapping) or set(schema) != keys:
        raise ValueError(f"targets are {schema!r:.80}; expected {', '.join(sorted(keys))}")


def is_number(value: object) -> bool:
    """Whether a JSON value is a finite number."""
    return type(value) in (int, float) and bool(np.isfinite(value))  # type: ignore[call-overload] # a number by then
