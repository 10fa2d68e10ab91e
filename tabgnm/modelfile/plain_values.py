"""Conversion of parameters and histories to JSON values and back."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any, get_args

import numpy as np
import torch

from tabgnm._printable import shown
from tabgnm.modelfile.errors import ModelFileError
from tabgnm.training.history import Status

_DEEPEST = 6
_MAX_FIELDS = 100
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def plain(name: str, value: Any, depth: int = 0) -> Any:
    """Return a parameter as a JSON value; containers become {"pairs": ...}, {"list": ...} or {"tuple": ...}.

    A random generator becomes None, because its state is not a setting.
    """
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, torch.device):
        value = str(value)
    if depth > _DEEPEST:
        raise ModelFileError(f"{name}={shown(value)} is nested too deeply to be stored; use at most {_DEEPEST} levels")
    if isinstance(value, Mapping):
        return {"pairs": [[plain(name, key, depth + 1), plain(name, own, depth + 1)] for key, own in value.items()]}
    if isinstance(value, tuple | list | np.ndarray):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [plain(name, own, depth + 1) for own in value]}
    if value is None or isinstance(value, bool | str | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    raise ModelFileError(
        f"{name}={shown(value)} of type {type(value).__name__} cannot be stored; use set_params({name}=...) with "
        "finite numbers, strings, booleans, None, or lists, tuples and dicts of them"
    )


def parameter(name: str, value: Any, depth: int = 0) -> Any:
    """Return the parameter that `plain` was called with."""
    if depth <= _DEEPEST and (value is None or isinstance(value, bool | str | int | float)):
        return value
    if depth <= _DEEPEST and isinstance(value, dict) and len(value) == 1:
        ((kind, values),) = value.items()
        if isinstance(values, list):
            if kind == "pairs" and all(isinstance(pair, list) and len(pair) == 2 for pair in values):
                keys = [parameter(name, key, depth + 1) for key, _ in values]
                pairs = dict(zip(keys, (parameter(name, own, depth + 1) for _, own in values), strict=True))
                if len(pairs) == len(values):
                    return pairs
            elif kind in ("list", "tuple"):
                members = [parameter(name, own, depth + 1) for own in values]
                return members if kind == "list" else tuple(members)
    raise ModelFileError(f"its parameter {shown(name)} is {shown(value)}; expected a plain value")


def plain_history(history: Mapping[str, Any]) -> dict[str, Any]:
    """Return the history of a member as JSON values; NaN and infinity become strings."""
    return {
        name: [_plain_number(own) for own in value] if isinstance(value, list) else value
        for name, value in history.items()
    }


def _plain_number(value: float | None) -> float | str | None:
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def history(values: Any, metric_name: str) -> dict[str, Any]:
    """Return the history that `plain_history` was called with."""
    # Early files have R² for models of one quantile.
    is_early = metric_name == "d2" and isinstance(values, dict) and "val_r2" in values
    lists = ("train_loss", "val_loss", "val_r2" if is_early else f"val_{metric_name}")
    if not isinstance(values, dict) or set(values) != {*lists, "best_epoch", "status"}:
        raise ModelFileError(f"a history is {shown(values)}; expected {', '.join(lists)}, best_epoch and status")
    best, status = values["best_epoch"], values["status"]
    if type(best) is not int or not 0 <= best < 2**31:
        raise ModelFileError(f"the best epoch of a history is {shown(best)}; expected an integer >= 0")
    if not isinstance(status, str) or status not in get_args(Status):
        raise ModelFileError(f"the status of a history is {shown(status)}; expected one of {get_args(Status)}")
    return {name: _numbers(name, value) if name in lists else value for name, value in values.items()}


def _numbers(name: str, values: Any) -> list[float | None]:
    if not isinstance(values, list):
        raise ModelFileError(f"{name} in a history is {shown(values)}; expected a list of numbers")
    return [_number(name, value) for value in values]


def _number(name: str, value: Any) -> float | None:
    if value is None or type(value) is float:
        return value
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    raise ModelFileError(f"{name} in a history holds {shown(value)}; expected numbers")


def plain_record(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a flat dict of numbers, strings, booleans and None as JSON values; NaN and infinity become strings."""
    plain_ones = {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}
    return {name: _plain_number(value) if isinstance(value, float) else value for name, value in plain_ones.items()}


def record(values: Any) -> dict[str, Any]:
    """Return the dict that `plain_record` was called with."""
    if not isinstance(values, dict) or len(values) > _MAX_FIELDS:
        raise ModelFileError(f"a candidate is {shown(values)}; expected an object with at most {_MAX_FIELDS} entries")
    read = {}
    for name, value in values.items():
        texts = [name, value] if isinstance(value, str) else [name]
        if not all(text.isascii() for text in texts) or not isinstance(value, bool | int | float | str | None):
            raise ModelFileError(f"{shown(name)} of a candidate is {shown(value)}; expected a plain value")
        read[name] = _NOT_FINITE.get(value, value) if isinstance(value, str) else value
    return read


def scores(values: Any) -> dict[str, float]:
    """Return scores by name."""
    read = record(values)
    if not all(isinstance(value, float) for value in read.values()):
        raise ModelFileError(f"its scores are {shown(values)}; expected only numbers")
    return read
