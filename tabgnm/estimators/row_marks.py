"""Numbers by which the rows of a fit are recognized later, without storing the rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tabgnm.estimators.fitting import FittedPack, PreparedRows
from tabgnm.table import RawTable

Array = NDArray[Any]

_MAX_ROWS = 512
_ROUNDING = 1e-6


class RowMarks(NamedTuple):
    """A number for some of the rows that have out-of-fold predictions, and the positions of these rows."""

    positions: Array
    marks: Array

    @classmethod
    def of(cls, fitted: FittedPack, rows: PreparedRows) -> RowMarks:
        """Mark the rows given to `fit`, or those of X_val."""
        raw = rows.raw if rows.raw_val is None else rows.raw_val
        sample = np.unique(np.linspace(0, raw.n_rows - 1, _MAX_ROWS).round().astype(np.intp))
        positions = sample if rows.raw_val is not None or rows.kept is None else rows.kept[sample]
        return cls(positions, _marks(fitted, raw.take(sample)))

    def match(self, fitted: FittedPack, raw: RawTable) -> bool:
        """Whether a table has these rows."""
        if raw.n_rows <= self.positions[-1]:
            return False
        found = _marks(fitted, raw.take(self.positions))
        return bool(np.allclose(found, self.marks, rtol=_ROUNDING, atol=_ROUNDING))


def _marks(fitted: FittedPack, raw: RawTable) -> Array:
    """Return a weighted sum of the encoded columns of each row."""
    x = fitted.groups[0].encoder.encode(raw, dtype=np.float64)
    return np.asarray(x @ np.cos(np.arange(1, x.shape[1] + 1)))
