"""Effects of columns: how predictions change, on average, with the value of one column (partial dependence)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from tabgnm.estimators.checks import check_integer, random_numbers
from tabgnm.estimators.named_outputs import prediction_names, prediction_values
from tabgnm.estimators.prediction import map_outputs
from tabgnm.estimators.targets import ClassTargets, Targets
from tabgnm.nn.losses import LogLinkLoss
from tabgnm.table import read_table
from tabgnm.table.raw import shortened

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator

Array = NDArray[Any]

N_POINTS = 20
N_ROWS = 200
_QUANTILES = (0.01, 0.99)  # ends of a grid; outliers would stretch it
_SPREAD = (0.1, 0.9)  # quantiles over rows
_BLOCK_ELEMENTS = 2**22  # encoded numbers per block


@dataclass(frozen=True, eq=False)
class Effect:
    """How predictions depend on one column, averaged over rows.

    Attributes
    ----------
    column : str
    kind : {"number", "category", "date"}
        Booleans are categories; durations and times of day are numbers, in seconds.
    grid : array of shape (points,)
        Values of the column that occur in the table: numbers and dates in ascending order, the most frequent levels of
        a category by descending frequency, or in their own order if the category is ordered. If the column has missing
        cells, the last point is the missing value: NaN, NaT or None.
    mean : array of shape (points, outputs)
        Mean prediction if all rows had this value.
    lower, upper : arrays of shape (points, outputs)
        10 % and 90 % quantiles of the curves of single rows, shifted so that all curves have the same mean. Where they
        are far from `mean`, the effect depends on other columns.
    outputs : tuple
        Names of the predictions: labels (for two classes only the second label, whose probability is predicted), "y",
        or "y0", "y1", ... for several targets.
    share : array of shape (points,)
        Fraction of the rows with this level, or closest to this number or date.
    """

    column: str
    kind: Literal["number", "category", "date"]
    grid: Array
    mean: Array
    lower: Array
    upper: Array
    outputs: tuple[Any, ...]
    share: Array

    @property
    def has_missing(self) -> bool:
        """Whether the last point is the missing value."""
        last = self.grid[-1]
        return last is None or bool(last != last)

    @property
    def labels(self) -> list[str]:
        """The grid as text; "missing" for the missing value."""
        known = self.grid[:-1] if self.has_missing else self.grid
        if self.kind == "number":
            texts = [f"{value:.6g}" for value in known]
        elif self.kind == "date":
            whole_days = bool((known == known.astype("datetime64[D]")).all())
            texts = [text.replace("T", " ") for text in np.datetime_as_string(known, unit="D" if whole_days else "m")]
        else:
            texts = [str(value) for value in known]
        return [*texts, "missing"] if self.has_missing else texts

    def to_records(self) -> list[dict[str, Any]]:
        """Return a dict for each point and output."""
        return [
            {
                "column": self.column,
                "value": value,
                "output": output,
                "mean": float(self.mean[point, place]),
                "lower": float(self.lower[point, place]),
                "upper": float(self.upper[point, place]),
                "share": float(self.share[point]),
            }
            for place, output in enumerate(self.outputs)
            for point, value in enumerate(self.grid)
        ]


@dataclass(frozen=True, eq=False)
class _Grid:
    """Points of one column: their values, a row of the table with each value, and shares of the rows."""

    column: int
    kind: Literal["number", "category", "date"]
    values: Array
    rows: Array
    share: Array


def effects(
    model: TabularEstimator,
    X: Any,
    columns: str | int | Sequence[str | int] | None = None,
    *,
    n_points: int = N_POINTS,
    n_rows: int = N_ROWS,
    random_state: Any = 0,
) -> list[Effect]:
    """Return the partial dependence of predictions on columns, with its spread over rows.

    Predictions are probabilities for classifiers, and numbers in units of the target for regressors. All other columns
    keep the values of X, so predictions may be made for combinations of values that never occur; see
    docs/explaining.md.

    Parameters
    ----------
    model : estimator
        A fitted estimator.
    X : table of shape (rows, columns)
        The rows to average over, such as those of `fit` or similar ones. X is not modified.
    columns : name, position in `fit`, or sequence of these, default=None
        The columns. If None, all columns that the model uses.
    n_points : int, default=20
        The maximum number of points per column, not counting the missing value.
    n_rows : int, default=200
        The maximum number of rows to average over, drawn at random. The points and shares of a column are computed on
        all rows.
    random_state : int, RandomState or None, default=0

    Returns
    -------
    list of Effect
    """
    check_is_fitted(model, "fitted_")
    n_points, n_rows = check_integer("n_points", n_points, smallest=2), check_integer("n_rows", n_rows)
    random = random_numbers(random_state)
    raw, fitted = model._matched(read_table(X)), model.fitted_
    encoders = fitted.encoders
    wanted = [column_position(model, column) for column in _as_list(columns)] if columns is not None else _used(model)
    grids = []
    for column in wanted:
        kind, values = encoders[0].readable(raw, column)
        plan = encoders[0].plans[column]
        order = ("False", "True") if plan.kind == "boolean" else plan.order
        grids.append(_grid(column, kind, values, order, n_points))
    sampled = np.sort(random.choice(raw.n_rows, min(n_rows, raw.n_rows), replace=False))
    dtype = fitted.dtype
    base = [torch.as_tensor(encoder.encode(raw.take(sampled), dtype=dtype)) for encoder in encoders]
    owners = [torch.as_tensor(np.asarray(encoder.owners)) for encoder in encoders]
    points = [
        [torch.as_tensor(encoder.encode(raw.take(grid.rows), dtype=dtype)) for encoder in encoders] for grid in grids
    ]
    at_once = max(1, _BLOCK_ELEMENTS // max(x.numel() for x in base))

    def blocks() -> Iterator[list[Tensor]]:
        for grid, of_points in zip(grids, points, strict=True):
            for first in range(0, len(grid.rows), at_once):
                yield [
                    _replaced(x, own[first : first + at_once], of_columns == grid.column)
                    for x, own, of_columns in zip(base, of_points, owners, strict=True)
                ]

    n_predicted = len(sampled) * sum(len(grid.rows) for grid in grids)
    if n_predicted == 0:
        return []
    parts = map_outputs(model, blocks(), model._reduce, n_predicted)
    predicted = prediction_values(fitted.targets, parts)
    bounds = _bounds(fitted.targets)
    found, first = [], 0
    for grid in grids:
        n_own = len(grid.rows) * len(sampled)
        curves = predicted[first : first + n_own].reshape(len(grid.rows), len(sampled), -1)
        found.append(_effect(grid, model._names[grid.column], curves, prediction_names(fitted.targets), bounds))
        first += n_own
    return found


def _bounds(targets: Targets) -> tuple[float, float]:
    """Return the range of possible predictions."""
    if isinstance(targets, ClassTargets):
        return 0.0, 1.0
    return (0.0 if isinstance(targets.loss, LogLinkLoss) else -np.inf), np.inf


def _effect(grid: _Grid, name: str, curves: Array, outputs: tuple[Any, ...], bounds: tuple[float, float]) -> Effect:
    """Summarize the curves of rows, (points, rows, outputs)."""
    centers = np.tensordot(grid.share / grid.share.sum(), curves, 1)  # (rows, outputs)
    moved = curves - centers + centers.mean(axis=0)
    lower, upper = np.clip(np.quantile(moved, _SPREAD, axis=1), *bounds)
    return Effect(name, grid.kind, grid.values, curves.mean(axis=1), lower, upper, outputs, grid.share)


def _replaced(rows: Tensor, points: Tensor, own: Tensor) -> Tensor:
    """Return a copy of all rows for each point, (points x rows, columns), with the point's values in columns `own`."""
    copies = rows.expand(len(points), *rows.shape).clone()
    copies[:, :, own] = points[:, None, own]
    return copies.reshape(-1, rows.shape[1])


def _as_list(columns: str | int | Sequence[str | int]) -> list[str | int]:
    return [columns] if isinstance(columns, str | int | np.integer) else list(columns)


def _used(model: TabularEstimator) -> list[int]:
    """Return the columns that any network reads."""
    return sorted({owner for encoder in model.fitted_.encoders if not encoder.is_empty for owner in encoder.owners})


def column_position(model: TabularEstimator, column: str | int) -> int:
    """Return the position in fit of a column that is given by name or position."""
    names = model._names
    if isinstance(column, str) and column in names:
        return names.index(column)
    if isinstance(column, int | np.integer) and not isinstance(column, bool) and 0 <= column < len(names):
        return int(column)
    raise ValueError(
        f"there is no column {column!r}; expected one of {shortened(names)}, or positions from 0 to {len(names) - 1}"
    )


def _grid(
    column: int, kind: Literal["number", "category", "date"], values: Array, order: Sequence[str] | None, n_points: int
) -> _Grid:
    """Choose the points of a column from its values in all rows; NaN, NaT and None are missing values."""
    missing = np.array([value is None for value in values]) if kind == "category" else np.isnan(values)
    present = values[~missing]
    points, counts = _levels(present, order, n_points) if kind == "category" else _quantiles(present, n_points)
    if missing.any():
        points = np.append(points, values[missing][:1])
        counts = np.append(counts, missing.sum())
    first_rows = [int(np.argmax(missing if point is None or point != point else values == point)) for point in points]
    return _Grid(column, kind, points, np.array(first_rows), counts / len(values))


def _quantiles(present: Array, n_points: int) -> tuple[Array, Array]:
    """Return values that occur, in ascending order, and the number of rows closest to each."""
    distinct = np.unique(present)
    if len(distinct) > n_points:
        ascending = np.sort(present)
        places = np.linspace(*_QUANTILES, n_points) * (len(ascending) - 1)
        distinct = np.unique(ascending[np.round(places).astype(np.intp)])
        # If quantiles coincide, as in a column that is mostly 0, use other values for the remaining points.
        others = np.unique(ascending[int(places[0]) : int(places[-1]) + 1])
        others = others[~np.isin(others, distinct)]
        chosen = np.linspace(0, len(others) - 1, min(n_points - len(distinct), len(others)))
        distinct = np.union1d(distinct, others[np.round(chosen).astype(np.intp)])
    # Half differences instead of half sums, which are not defined for dates.
    middles = distinct[:-1] + (distinct[1:] - distinct[:-1]) / 2
    return distinct, np.bincount(np.searchsorted(middles, present), minlength=len(distinct))


def _levels(present: Array, order: Sequence[str] | None, n_points: int) -> tuple[Array, Array]:
    """Return the most frequent levels and their numbers of rows."""
    frequent = sorted(Counter(present.tolist()).items(), key=lambda item: (-item[1], item[0]))[:n_points]
    if order is not None:
        place = {level: rank for rank, level in enumerate(order)}
        frequent.sort(key=lambda item: place.get(item[0], len(place)))
    levels = np.array([level for level, _ in frequent], dtype=object)
    return levels, np.array([count for _, count in frequent], dtype=np.intp)
