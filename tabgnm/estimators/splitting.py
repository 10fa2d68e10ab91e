"""Drawing the validation rows of a member."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def check_fraction(value: object) -> float:
    """Return a valid fraction of validation rows."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= float(value) < 1:
        raise ValueError(
            f"validation_fraction={value!r} is out of range; expected a fraction in [0, 1), for instance 0.1"
        )
    return float(value)


def validation_rows(n_rows: int, strata: Array | None, fraction: float, seed: int) -> Array:
    """Draw validation rows: `fraction` of each stratum, but never all of its rows.

    The number of rows of a stratum is rounded up or down at random, so that some members also validate on rare classes.
    At least one row is drawn if any stratum has two.
    """
    random = np.random.default_rng([seed, 0x5EED])
    if fraction == 0 or n_rows < 2:
        return np.arange(0)
    groups = [np.arange(n_rows)]
    if strata is not None:
        # A single sort, as there may be very many strata.
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
