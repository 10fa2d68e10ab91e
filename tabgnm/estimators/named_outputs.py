"""Names of the predictions of an estimator, and their values as one array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabgnm.estimators.targets import ClassTargets, NumberTargets, Targets

Array = NDArray[Any]


def prediction_names(targets: Targets) -> tuple[Any, ...]:
    """Return the names of the columns of `prediction_values`.

    Labels, for two classes only the second one; "y0=red" for several targets with labels; "y", or "y0", "y1", ... for
    numbers and multilabel targets; "quantile 0.1" for several quantiles.
    """
    if isinstance(targets, NumberTargets):
        if targets.quantiles is not None:
            return tuple(f"quantile {quantile:g}" for quantile in targets.quantiles)
        return ("y",) if targets.one_dimensional else _numbered(targets.n_targets)
    if targets.kind == "multilabel":
        return _numbered(len(targets.classes))
    if targets.kind == "joint":
        return tuple(f"y{place}={label}" for place, labels in enumerate(targets.classes) for label in labels)
    labels = targets.classes[0].tolist()
    return tuple(labels[-1:] if targets.kind == "binary" else labels)


def _numbered(n_targets: int) -> tuple[str, ...]:
    return tuple(f"y{target}" for target in range(n_targets))


def prediction_values(targets: Targets, parts: list[Array]) -> Array:
    """Return probabilities or numbers, (rows, outputs), from what `_reduce` of an estimator returns."""
    if not isinstance(targets, ClassTargets):
        return parts[0]
    if targets.kind == "one":
        return np.ones((len(parts[0]), 1))
    chosen = [part[:, 1:] for part in parts] if targets.kind in ("binary", "multilabel") else parts
    return np.asarray(np.exp(np.concatenate(chosen, axis=1)))
