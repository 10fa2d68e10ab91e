"""JSON from untrusted sources: bounded in memory and depth, without duplicate keys, NaN or infinity."""

from __future__ import annotations

import json
import math
from typing import Any

from tabgnm._files.errors import FileError
from tabgnm._printable import shown

# Upper bounds, in bytes, of the memory that a value takes, by the character that introduces it: "[]," is three
# characters of text, but takes a list of 56 bytes and an entry in another list.
_COST = {b",": 80, b"[": 96, b"{": 96, b":": 120}
_COST_OF_TEXT = 4  # a single character outside the basic plane makes the whole string that wide
LARGEST_COST = 96 * 2**20
_LONGEST_NUMBER = 400  # the time to parse an integer is quadratic in its length


def dumps(value: Any) -> bytes:
    """Return a value as ASCII JSON; equal values give the same bytes."""
    try:
        return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError) as error:
        raise FileError(f"a value cannot be written as JSON: {error}; use plain numbers and strings") from None


def check_cost(text: bytes) -> None:
    """Raise if the parsed values could take too much memory. Called before any of them is created."""
    cost = _COST_OF_TEXT * len(text) + sum(each * text.count(sign) for sign, each in _COST.items())
    if cost > LARGEST_COST:
        raise FileError(
            f"its description could take {cost // 2**20} MiB of memory; expected at most {LARGEST_COST // 2**20} MiB"
        )


def loads(text: bytes) -> Any:
    """Parse JSON; raise FileError if it is invalid."""
    check_cost(text)
    try:
        return json.loads(
            text.decode("ascii"),
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=_constant,
        )
    except RecursionError:
        raise FileError("its description is nested too deeply; it is damaged") from None
    except UnicodeDecodeError:
        raise FileError("its description has characters outside of ASCII; it is damaged") from None
    except json.JSONDecodeError as error:
        raise FileError(f"its description is not JSON ({error.msg} at {error.pos}); it is damaged") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise FileError("its description has a duplicate key; it is damaged")
    return values


def _integer(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        raise FileError(f"a number of {len(text)} digits is too long; expected at most {_LONGEST_NUMBER}")
    return int(text)


def _float(text: str) -> float:
    number = float(text) if len(text) <= _LONGEST_NUMBER else math.inf
    if not math.isfinite(number):
        raise FileError(f"the number {shown(text)} is too large or too long; expected a finite float64")
    return number


def _constant(text: str) -> float:
    raise FileError(f"its description contains {text}; expected finite numbers only")
