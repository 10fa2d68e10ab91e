"""Labels in types that are available in other languages."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]


def plain_labels(labels: Array) -> tuple[str, list[Any]]:
    """Return the type of labels ("bool", "int64", "float64" or "string") and the labels as Python values.

    Labels that are neither booleans nor numbers become text; dates and durations have NumPy's format.

    Examples
    --------
    >>> import numpy as np
    >>> plain_labels(np.array(["2024-02-29"], dtype="datetime64[D]"))
    ('string', ['2024-02-29'])
    """
    kind = labels.dtype.kind
    values = labels.tolist()
    if kind == "b" or (kind == "O" and all(type(value) is bool for value in values)):
        return "bool", values
    if kind in "iuO" and all(type(value) is int and abs(value) < 2**63 for value in values):
        return "int64", values
    if kind in "fO" and all(type(value) in (int, float) for value in values):
        return "float64", [float(value) for value in values]
    return "string", [value if isinstance(value, str) else str(own) for value, own in zip(values, labels, strict=True)]
