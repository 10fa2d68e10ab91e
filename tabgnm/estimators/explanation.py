"""Contributions of columns to single predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from tabgnm.estimators.checks import check_integer
from tabgnm.estimators.differentiable import Scale
from tabgnm.estimators.frames import as_frame
from tabgnm.estimators.integrated_gradients import PathIntegrals
from tabgnm.estimators.named_outputs import prediction_names
from tabgnm.estimators.targets import ClassTargets
from tabgnm.table import RawTable, read_table
from tabgnm.training.threads import thread_count, torch_threads

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator

Array = NDArray[Any]

N_STEPS = 1024
N_BASE = 20
_BLOCK_ROWS = 256
OUTPUTS = ("prediction", "log_odds")


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Contributions of columns to predictions. The attributes are named as in `shap.Explanation`.

    For each row and output, `base_values + values.sum(axis=1)` equals the prediction up to rounding.

    Attributes
    ----------
    values : array of shape (rows, columns) or (rows, columns, outputs)
        The contributions, with columns in the order of the table. Two-dimensional if there is a single output.
    base_values : array of shape (rows,) or (rows, outputs)
        The prediction for the base, equal in all rows.
    data : array of shape (rows, columns)
        The cells of the table as they were read: numbers, dates, and levels as str, or None if a level is missing.
    feature_names : list of str
    output_names : list
        Labels (for two classes only the second one), or names of targets.
    scale : {"probability", "log_odds", "target"}
        The unit of `values` and `base_values`.
    residuals : array of shape (rows,) or (rows, outputs)
        The error of the numerical integration: prediction minus sum, before this difference was distributed among the
        columns in proportion to their absolute contributions.
    """

    values: Array
    base_values: Array
    data: Array
    feature_names: list[str]
    output_names: list[Any]
    scale: Scale
    residuals: Array

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        n_rows, n_columns = self.values.shape[:2]
        of = ", ".join(map(str, self.output_names[:5])) + (", ..." if len(self.output_names) > 5 else "")
        return f"Explanation({n_rows} rows, {n_columns} columns, {self.scale} of {of})"

    def to_frame(self) -> Any:
        """Return one record per row, output and column: "row", "output", "column", "value" and "contribution".

        Returns
        -------
        pandas.DataFrame, or a list of dicts if pandas is not installed
        """
        values = self.values.reshape(*self.values.shape[:2], -1)
        return as_frame(
            [
                {
                    "row": row,
                    "output": output,
                    "column": name,
                    "value": self.data[row, column],
                    "contribution": float(values[row, column, place]),
                }
                for row in range(len(values))
                for place, output in enumerate(self.output_names)
                for column, name in enumerate(self.feature_names)
            ]
        )


def explain(
    model: TabularEstimator,
    X: Any,
    base: Any = None,
    *,
    output: str = OUTPUTS[0],
    n_steps: int = N_STEPS,
    n_base: int = N_BASE,
) -> Explanation:
    """Return the contributions of columns to the predictions of single rows; see `ExplainingMethods.explain`."""
    check_is_fitted(model, "fitted_")
    n_steps, n_base = check_integer("n_steps", n_steps), check_integer("n_base", n_base)
    scale = _scale(model, output)
    given = read_table(X)
    raw, fitted = model._matched(given), model.fitted_
    raw_base = None if base is None else model._matched(read_table(base))
    names = prediction_names(fitted.targets)
    values, residuals = np.zeros((raw.n_rows, raw.n_columns, len(names))), np.zeros((raw.n_rows, len(names)))
    base_value = torch.ones(len(names), dtype=torch.float64)
    if not (isinstance(fitted.targets, ClassTargets) and fitted.targets.kind == "one"):
        with torch_threads(thread_count(model.n_jobs)), torch.inference_mode(False), torch.enable_grad():
            integrals = PathIntegrals(fitted, raw.n_columns, scale)
            bases = _base_inputs(model, integrals, raw_base, n_base)
            base_value = integrals.predict(bases).mean(dim=0)
            for first in range(0, raw.n_rows, _BLOCK_ROWS):
                block = slice(first, first + _BLOCK_ROWS)
                rows = integrals.inputs(_encoded(model, raw.take(block)))
                own = _contributions(integrals, rows, bases, base_value, n_steps)
                values[block], residuals[block] = own[0].numpy(), own[1].numpy()
    elif scale == "log_odds":
        raise ValueError("output='log_odds' is infinite for a model with a single class; use output='prediction'")
    order = _order(model, given, raw)
    base_values = np.broadcast_to(base_value.numpy(), residuals.shape).copy()
    if len(names) == 1:
        values, base_values, residuals = values[..., 0], base_values[:, 0], residuals[:, 0]
    return Explanation(
        values=values[:, order],
        base_values=base_values,
        data=_data(model, raw, order),
        feature_names=[model._names[column] for column in order],
        output_names=list(names),
        scale=scale,
        residuals=residuals,
    )


def _scale(model: TabularEstimator, output: str) -> Scale:
    if output not in OUTPUTS:
        raise ValueError(f"output={output!r} is not known; use 'prediction' or 'log_odds'")
    if isinstance(model.fitted_.targets, ClassTargets):
        return "probability" if output == "prediction" else "log_odds"
    if output == "log_odds":
        raise ValueError(
            f"output='log_odds' is only available for classifiers; use output='prediction' for a {type(model).__name__}"
        )
    return "target"


def _encoded(model: TabularEstimator, raw: RawTable) -> list[Tensor]:
    fitted = model.fitted_
    return [torch.as_tensor(encoder.encode(raw, dtype=fitted.dtype)) for encoder in fitted.encoders]


def _base_inputs(model: TabularEstimator, integrals: PathIntegrals, raw: RawTable | None, n_base: int) -> list[Tensor]:
    """Return the inputs of the base: the reference point, or rows chosen evenly in the order of their predictions."""
    if raw is None:
        return integrals.typical_inputs()
    if raw.n_rows > n_base:
        predicted = np.concatenate(
            [
                integrals.predict(integrals.inputs(_encoded(model, raw.take(slice(first, first + _BLOCK_ROWS)))))
                for first in range(0, raw.n_rows, _BLOCK_ROWS)
            ]
        )
        largest = predicted.argmax(axis=1)
        order = np.lexsort((predicted.max(axis=1), largest))
        places = (np.arange(n_base) + 0.5) * raw.n_rows / n_base
        raw = raw.take(order[places.astype(np.intp)])
    return integrals.inputs(_encoded(model, raw))


def _contributions(
    integrals: PathIntegrals, rows: list[Tensor], bases: list[Tensor], base_value: Tensor, n_steps: int
) -> tuple[Tensor, Tensor]:
    """Return contributions, (rows, columns, outputs), corrected by the integration error, and this error."""
    values = integrals.contributions(rows, bases, n_steps)
    residuals = integrals.predict(rows) - base_value - values.sum(dim=1)  # (rows, outputs)
    sizes = values.abs()
    shares = sizes / sizes.sum(dim=1, keepdim=True).clamp(min=torch.finfo(sizes.dtype).tiny)
    return values + shares * residuals[:, None], residuals


def _order(model: TabularEstimator, given: RawTable, raw: RawTable) -> list[int]:
    """Return the positions in fit of the columns of the given table."""
    if raw is given:
        return list(range(raw.n_columns))
    in_fit = {name: column for column, name in enumerate(model._names)}
    return [in_fit[name] for name in given.names]


def _data(model: TabularEstimator, raw: RawTable, order: list[int]) -> Array:
    encoder = model.fitted_.encoders[0]
    columns = [encoder.readable(raw, column) for column in order]
    are_numbers = all(kind == "number" for kind, _ in columns)
    data = np.empty((raw.n_rows, len(order)), dtype=np.float64 if are_numbers else object)
    for place, (_, cells) in enumerate(columns):
        data[:, place] = cells
    return data
