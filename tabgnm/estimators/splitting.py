"""Which rows each member of an ensemble trains on, and which it is validated on."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def check_fraction(value: object) -> float:
    """Return a valid share of validation rows."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= float(value) < 1:
        raise ValueError(
            f"validation_fraction={value!r} is out of range; expected a share of the rows in [0, 1), for instance 0.1"
        )
    return float(value)


def validation_rows(n_rows: int, strata: Array | None, fraction: float, seed: int) -> Array:
    """Draw validation rows: `fraction` of all, evenly from each stratum, and never the last row of a stratum.

    A stratum whose share is less than a row gives one with that probability, so rare classes are validated on by some
    members. At least one row is drawn if any stratum has two.
    """
    random = np.random.default_rng([seed, 0x5EED])
    if fraction == 0 or n_rows < 2:
        return np.arange(0)
    groups = [np.arange(n_rows)]
    if strata is not None:
        # One sort for all strata: there may be very many.
        order = np.argsort(strata, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(strata[order])) + 1)
    chosen = []
    for rows in groups:
        share = fraction * len(rows)
        n_own = int(share) + (random.random() < share % 1)
        chosen.append(random.permutation(rows)[: min(n_own, len(rows) - 1)])
    drawn = np.concatenate(chosen)
    if len(drawn) == 0:
        largest = max(groups, key=len)
        if len(largest) > 1:
            drawn = random.choice(largest, 1)
    return np.sort(drawn)
