"""Validation of parameters, weights and lengths; errors name the value, what was expected and what to do."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from tabgnm._printable import brief, shown
from tabgnm.nn.checks import positive_integer

Array = NDArray[Any]

# Larger integers would overflow counters of the fleet.
_LARGEST_INTEGER = 2**31 - 1
# Sums of larger (or smaller) weights would overflow (or underflow) float64.
_WEIGHT_RANGE = (1e-100, 1e100)


def check_flag(name: str, value: object) -> bool:
    """Return a boolean parameter."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name}={shown(value)} has type {type(value).__name__}; expected a bool, True or False")
    return bool(value)


def check_flag_or_auto(name: str, value: object) -> None:
    """Validate a boolean parameter that may be left to the candidates."""
    if not is_auto(value) and not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name}={shown(value)} has type {type(value).__name__}; expected 'auto', True or False")


def is_auto(value: object) -> bool:
    """Whether a parameter is left to the candidates."""
    return isinstance(value, str) and value == "auto"


def check_integer(name: str, value: object, *, smallest: int = 1, largest: int | None = None) -> int:
    """Return an integer parameter."""
    number = positive_integer(name, value, smallest=smallest)
    largest = _LARGEST_INTEGER if largest is None else largest
    if number > largest:
        raise ValueError(f"{name}={number} is too large; expected an integer <= {largest}")
    return number


def check_number(
    name: str,
    value: object,
    low: float,
    high: float,
    example: str,
    *,
    include_low: bool = False,
    include_high: bool = False,
) -> float:
    """Return a number within an interval; the error suggests `example`."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(
            f"{name}={shown(value)} has type {type(value).__name__}; expected a number, for instance {example}"
        )
    number = float(value)
    if not (low < number < high or (include_low and number == low) or (include_high and number == high)):
        expected = f"a number in {'[' if include_low else '('}{low:g}, {high:g}{']' if include_high else ')'}"
        if math.isinf(high):
            expected = f"a finite number {'>=' if include_low else '>'} {low:g}"
        raise ValueError(f"{name}={shown(value)} is out of range; expected {expected}; use for instance {example}")
    return number


def check_device(value: object) -> None:
    """Raise unless the value can name a device; training checks that the device exists."""
    if not isinstance(value, str | torch.device):
        raise TypeError(f"device={shown(value)} has type {type(value).__name__}; use 'auto', 'cpu' or 'cuda'")


def check_cv(value: object) -> None:
    """Raise unless the value can be folds: None, a splitter, or an iterable of pairs of rows."""
    if isinstance(value, int | float | str) or not (
        value is None or hasattr(value, "split") or isinstance(value, Iterable)
    ):
        raise TypeError(
            f"cv={shown(value)} is not a splitter; use n_folds to set the number of folds, or a splitter of "
            "sklearn.model_selection such as TimeSeriesSplit(5)"
        )


def check_random(value: Any) -> None:
    """Raise unless the value is a valid `random_state`."""
    is_seed = isinstance(value, int | np.integer) and not isinstance(value, bool) and 0 <= value < 2**32
    if not is_seed and not isinstance(value, np.random.RandomState):  # creating one from a seed is slow
        random_numbers(value)


def random_numbers(value: Any) -> np.random.RandomState:
    """Return the generator that `random_state` stands for."""
    try:
        if isinstance(value, bool):
            raise ValueError("a bool is not a seed")
        random: np.random.RandomState = check_random_state(value)
    except Exception as error:  # the message shows the value, which may fail
        raise ValueError(
            f"random_state={shown(value)} is invalid ({brief(str(error), 200)}); expected None, an integer from 0 to "
            "2**32 - 1 or a numpy.random.RandomState"
        ) from None
    return random


def check_verbose(value: object) -> None:
    """Raise unless the value is a valid `verbose`."""
    if not isinstance(value, numbers.Integral | np.bool_):
        raise TypeError(
            f"verbose={shown(value)} has type {type(value).__name__}; expected an integer: 0 for no output, 1 to show "
            "progress"
        )


def check_class_weight(value: object) -> None:
    """Raise unless class weights have a form that scikit-learn accepts, with finite weights >= 0."""
    if value is None or (isinstance(value, str) and value == "balanced"):
        return
    groups = list(value) if isinstance(value, list) else [value]
    for group in groups:
        if isinstance(group, str) and group == "balanced" and isinstance(value, list):
            continue
        if not isinstance(group, Mapping):
            raise ValueError(
                f"class_weight={shown(value)} is invalid; use None, 'balanced', a dict from label to weight, or a list "
                "of these with one entry for each target"
            )
        for label, weight in group.items():
            fits = isinstance(weight, numbers.Real) and not isinstance(weight, bool) and math.isfinite(weight)
            if not fits or weight < 0:
                raise ValueError(
                    f"class_weight[{shown(label)}]={shown(weight)} is out of range; expected a finite number >= 0 for "
                    "each label"
                )


def check_hidden(value: object) -> tuple[int, ...]:
    """Return the widths of hidden layers."""
    if isinstance(value, str | bytes) or not isinstance(value, Sequence | np.ndarray):
        raise TypeError(f"hidden={shown(value)} is not a sequence of widths; use for instance hidden=(64, 64)")
    return tuple(check_integer(f"hidden[{place}]", width) for place, width in enumerate(value))


def check_lengths(n_rows: int, y: Array, name: str = "X") -> None:
    """Raise unless there are as many targets as rows, with the message of scikit-learn."""
    if len(y) != n_rows:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: [{n_rows}, {len(y)}]; expected one target "
            f"for each row of {name}"
        )


def sample_weights(sample_weight: Any, n_rows: int) -> Array | None:
    """Return sample weights as finite float64 numbers >= 0."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, numbers.Real):
        sample_weight = np.full(n_rows, sample_weight)
    given = sample_weight.to_numpy() if hasattr(sample_weight, "to_numpy") else np.asarray(sample_weight)
    try:
        if given.dtype.kind in "USMmVc":
            raise TypeError(f"of type {given.dtype}")
        weights = np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"sample_weight has values that are not numbers ({error}); expected one number per row"
        ) from None
    if weights.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar; got shape {weights.shape}")
    if weights.shape != (n_rows,):
        raise ValueError(f"sample_weight.shape == {weights.shape}, expected ({n_rows},): one weight per row of X")
    if not np.isfinite(weights).all():
        row = int(np.argmin(np.isfinite(weights)))
        what = "NaN" if np.isnan(weights[row]) else "infinity"
        raise ValueError(
            f"Input sample_weight contains {what} in row {row}; expected finite numbers >= 0; use 0 to leave out a row"
        )
    if (weights < 0).any():
        row = int(np.argmax(weights < 0))
        raise ValueError(
            f"Negative values in data passed to `sample_weight`: {weights[row]:g} in row {row}; expected numbers >= 0"
        )
    if not weights.any():
        raise ValueError("all rows have zero weight; expected at least one positive weight")
    return weights


def in_range(weights: Array) -> Array:
    """Return weights divided by the largest one if their sum could overflow or underflow."""
    largest = float(weights.max())
    low, high = _WEIGHT_RANGE
    return weights if largest == 0 or low <= largest <= high else weights / largest
