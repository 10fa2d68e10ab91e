"""What the sliders of the page set, and within which bounds; messages are checked here before anything uses them."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from tabgnm._files.errors import FileError
from tabgnm._files.strict_json import loads
from tabgnm._printable import shown

GENERATED = ("xor", "moons", "circles", "spiral")
OWN_DATA = "yours"
ACTIONS = ("play", "pause", "step", "reset")

_WHOLE = ("n_nodes", "n_layers")


class BadMessage(ValueError):
    """The page, or a program in its place, sent something that is not understood."""


@dataclass(frozen=True)
class Bounds:
    """The smallest and the largest value of a setting."""

    low: float
    high: float


@dataclass(frozen=True)
class Settings:
    """What the user has chosen.

    Attributes
    ----------
    dataset : str
        One of `GENERATED`, or `OWN_DATA`.
    noise : float
        How much the classes of a generated data set overlap, from 0 to 1.
    n_nodes, n_layers : int
        As in `tabgnm.nn.GNM`.
    penalty : float
        The l1 penalty: after each step, weights move towards 0 by learning rate times penalty.
    learning_rate : float
    """

    dataset: str = "xor"
    noise: float = 0.3
    n_nodes: int = 12
    n_layers: int = 2
    penalty: float = 0.0
    learning_rate: float = 0.01

    def changed(self, message: object, has_own_data: bool) -> Settings:
        """Return the settings with the values of a message; raise `BadMessage` if one is unknown or out of bounds."""
        if not isinstance(message, dict) or not message:
            raise BadMessage(f"expected an object with some of {', '.join(asdict(self))}; got {shown(message)}")
        return replace(self, **{name: _checked(name, value, has_own_data) for name, value in message.items()})


BOUNDS = {
    "noise": Bounds(0.0, 1.0),
    "n_nodes": Bounds(5, 16),
    "n_layers": Bounds(1, 4),
    "penalty": Bounds(0.0, 1.0),
    "learning_rate": Bounds(0.001, 0.1),
}


def _checked(name: str, value: Any, has_own_data: bool) -> Any:
    if name == "dataset":
        known = (*GENERATED, OWN_DATA) if has_own_data else GENERATED
        if value not in known:
            raise BadMessage(f"dataset={shown(value)} is unknown; use one of {', '.join(known)}")
        return value
    if name not in BOUNDS:
        raise BadMessage(f"{shown(name)} is not a setting; use dataset, {', '.join(BOUNDS)}")
    bounds, whole = BOUNDS[name], name in _WHOLE
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not bounds.low <= value <= bounds.high or (whole and value != int(value)):
        kind = "an integer" if whole else "a number"
        raise BadMessage(f"{name}={shown(value)} is not valid; expected {kind} from {bounds.low:g} to {bounds.high:g}")
    return int(value) if whole else float(value)


def parsed(body: bytes) -> Any:
    """Return the content of a message; raise `BadMessage` if it is not JSON."""
    try:
        return loads(body)
    except FileError:
        raise BadMessage("the message is not valid JSON") from None


def parsed_action(message: object) -> str:
    """Return the action that a message asks for."""
    if not isinstance(message, dict) or set(message) != {"action"} or message["action"] not in ACTIONS:
        raise BadMessage(f'expected {{"action": ...}} with one of {", ".join(ACTIONS)}; got {shown(message)}')
    return str(message["action"])
