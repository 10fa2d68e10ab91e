"""Fingerprints of the rows of a fit, to recognize them later without storing them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from tabgnm.estimators.fitting import FittedPack, PreparedRows
from tabgnm.table import RawTable

Array = NDArray[Any]

_MAX_ROWS = 512
_ROUNDING = 1e-6


class RowMarks(NamedTuple):
    """Numbers for some of the rows that have out-of-fold predictions, and the positions of these rows.

    Shape
    -----
    - positions: (marked rows,)
    - marks: (marked rows, 2), one number for the cells and one for the targets
    """

    positions: Array
    marks: Array

    @classmethod
    def of(cls, fitted: FittedPack, rows: PreparedRows) -> RowMarks:
        """Mark the rows given to `fit`, or those of X_val."""
        raw, y = (rows.raw, rows.y) if rows.raw_val is None else (rows.raw_val, rows.y_val)
        assert y is not None
        sample = np.unique(np.linspace(0, raw.n_rows - 1, _MAX_ROWS).round().astype(np.intp))
        positions = sample if rows.raw_val is not None or rows.kept is None else rows.kept[sample]
        return cls(positions, _marks(fitted, raw.take(sample), y[sample]))

    def match(self, fitted: FittedPack, raw: RawTable, y: Array) -> bool:
        """Whether a table has these rows with these targets."""
        if raw.n_rows <= self.positions[-1]:
            return False
        try:
            found = _marks(fitted, raw.take(self.positions), y[self.positions])
        except (TypeError, ValueError):  # targets that were not in fit
            return False
        return bool(np.allclose(found, self.marks, rtol=_ROUNDING, atol=_ROUNDING))


def _marks(fitted: FittedPack, raw: RawTable, y: Array) -> Array:
    """Return weighted sums of the encoded columns and of the scaled targets of each row.

    The inverse hyperbolic sine keeps large numbers, of a column that is not scaled, from hiding changes of others.
    """
    x = fitted.groups[0].encoder.encode(raw, dtype=np.float64, warn=False)
    targets = fitted.targets.tensor(y, torch.float64).numpy().reshape(len(y), -1)
    return np.column_stack([np.arcsinh(values) @ np.cos(np.arange(1, values.shape[1] + 1)) for values in (x, targets)])
