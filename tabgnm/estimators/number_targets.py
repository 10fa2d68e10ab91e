"""Numbers as targets: conversion to what the loss expects, and of network outputs to predictions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tabgnm.estimators.target_arrays import first_row
from tabgnm.estimators.target_state import check_keys, is_number
from tabgnm.nn.losses import LogLinkLoss, Loss, Pinball, Quantiles, loss_by_name, number_loss_names
from tabgnm.nn.losses.deviances import LARGEST_LOG

Array = NDArray[Any]

# Predicted logarithms are limited to this many standard deviations from their mean.
_MAX_DEVIATIONS = 6.0
# With these limits, sums and differences of predictions do not overflow, and scales are not subnormal.
LARGEST_TARGET = 1e300
LARGEST_PREDICTION = 1e305
_SMALLEST_SCALE = 1e-305
# Unscaled targets would vanish in float32 if all were smaller.
_SMALLEST_UNSCALED = 1e-30


@dataclass(frozen=True, eq=False)
class NumberTargets:
    """One or several numbers per row, standardized for the network.

    Attributes
    ----------
    one_dimensional : bool
        Whether y is (rows,) rather than (rows, targets).
    center, scale : arrays of float
        One per target: the network learns (y - center) / scale. A scale of 0 marks a constant target. With a log link,
        the target is divided by center, its mean, so that initial predictions are close to it; scale is 1 or 0.
    loss : Loss
    transform : {"none", "log"}
        The transform of the target before standardization.
    """

    one_dimensional: bool
    center: Array
    scale: Array
    loss: Loss
    transform: str = "none"

    @classmethod
    def of(
        cls,
        y: Array,
        weights: Array | None,
        loss: Loss,
        *,
        scaled: bool,
        may_vary: bool = True,
        transform: str = "none",
    ) -> NumberTargets:
        """Learn center and scale from the training rows; with `may_vary`, a constant target may vary in later rows."""
        if transform == "log":
            if not (y > 0).all():
                raise ValueError(
                    f"target_transform='log' requires positive targets, but y contains {y.min():g}; use "
                    "target_transform='none'"
                )
            logs = cls.of(np.log(y), weights, loss, scaled=True, may_vary=may_vary)
            return replace(logs, transform="log")
        columns = y.reshape(len(y), -1)
        n_targets = columns.shape[1]
        if isinstance(loss, Quantiles) and n_targets > 1:
            raise ValueError(
                f"quantile={list(loss.quantiles)} was given with {n_targets} targets, but several quantiles require a "
                "single target; fit a regressor for each target, or use a single quantile"
            )
        if isinstance(loss, LogLinkLoss):
            _refuse_all_zero(loss, columns)
        largest = np.abs(columns).max(axis=0)
        if not scaled:
            if 0 < largest.max() < _SMALLEST_UNSCALED:
                raise ValueError(
                    f"all values of y are within {largest.max():g} of 0, which is too small to learn with "
                    "scale_target=False; use scale_target=True, or other units"
                )
            center = np.ones(n_targets) if isinstance(loss, LogLinkLoss) else np.zeros(n_targets)
            return cls(y.ndim == 1, center, np.ones(n_targets), loss)
        # Scaled by a power of 2, because squares of very large (small) numbers would overflow (underflow).
        _, exponent = np.frexp(largest)
        columns = np.ldexp(columns, -exponent)
        center = np.average(columns, axis=0, weights=weights)
        variance = np.average((columns - center) ** 2, axis=0, weights=weights)
        constant = columns.max(axis=0) == columns.min(axis=0)
        # Predictions of a constant target are exactly that constant; its computed mean may differ from it by rounding.
        center = np.ldexp(np.where(constant, columns[0], center), exponent)
        of_constant = 1.0 if may_vary else 0.0
        scale = np.ldexp(np.sqrt(variance), exponent)
        what, unit = ("mean", center) if isinstance(loss, LogLinkLoss) else ("standard deviation", scale)
        too_small = (unit < _SMALLEST_SCALE) & ~constant & (variance > 0)
        if too_small.any():
            raise ValueError(
                f"y has a {what} of {unit[too_small][0]:g}, which is too small to learn; use other units, for instance "
                "y * 1e10"
            )
        if isinstance(loss, LogLinkLoss):
            scale = np.ones(n_targets)
        return cls(y.ndim == 1, center, np.where(constant, of_constant, scale), loss)

    @property
    def quantiles(self) -> tuple[float, ...] | None:
        """The predicted quantiles, if there are several."""
        return self.loss.quantiles if isinstance(self.loss, Quantiles) else None

    @property
    def predicted_quantiles(self) -> tuple[float, ...]:
        """The quantile of each prediction; none if other numbers are predicted."""
        if isinstance(self.loss, Pinball):
            return (self.loss.quantile,) * self.n_targets
        return self.quantiles or ()

    @property
    def n_targets(self) -> int:
        """Number of columns of y."""
        return len(self.center)

    @property
    def n_outputs(self) -> int:
        """Number of outputs of a network."""
        return self.n_targets if self.quantiles is None else len(self.quantiles)

    @property
    def metric_name(self) -> str:
        """What `score` returns: R², or D² of quantiles."""
        return "d2" if self.predicted_quantiles else "r2"

    def tensor(self, y: Array, dtype: torch.dtype, name: str = "y") -> Tensor:
        """Return the targets as the loss expects them."""
        columns = y.reshape(len(y), -1)
        if columns.shape[1] != self.n_targets:
            raise ValueError(
                f"{name} has {columns.shape[1]} columns; expected {self.n_targets}, one per target of the model"
            )
        largest = np.sqrt(torch.finfo(dtype).max) / 1e3
        if isinstance(self.loss, LogLinkLoss):
            scaled, largest = columns / self.center, math.exp(LARGEST_LOG)
            # Very small positive targets would become 0 in float32.
            scaled = np.where(columns > 0, np.maximum(scaled, torch.finfo(dtype).tiny), scaled)
        else:
            if self.transform == "log":
                # Targets of later rows may be 0 or negative: replace them with the smallest possible prediction.
                columns = np.log(np.maximum(columns, np.exp(self.center - _MAX_DEVIATIONS * self.scale)))
            # Computed with halves, because the difference of two large numbers may overflow.
            distance = columns / 2 - self.center / 2
            scaled = np.divide(distance, self.scale / 2, out=np.zeros_like(distance), where=self.scale > 0)
        too_large = np.abs(scaled) > largest
        if too_large.any():
            row = first_row(too_large)
            raise ValueError(
                f"{name} has {columns[row].tolist()} in row {row}, which is too large for targets with a center of "
                f"{self.center.tolist()} and a scale of {self.scale.tolist()}; use scale_target=True, or other units"
            )
        return torch.as_tensor(scaled).to(dtype)

    def strata(self, _y: Array, _name: str = "y") -> Array | None:
        """Return None: validation rows are not stratified."""
        return None

    def spread(self, y: Tensor, weights: Tensor | None) -> float:
        """Return the spread that `metric` requires: the variance of the scaled targets, averaged over the targets.

        For quantiles, it is the quantile loss of the best constants.
        """
        if bool((y == y[0]).all()):  # the computed variance would be a rounding error
            return 0.0
        y = y.to(torch.float64)
        weights = torch.ones(len(y)) if weights is None else weights
        share = weights.to(torch.float64) / weights.sum()
        if isinstance(self.loss, Pinball | Quantiles):
            levels = self.loss.quantiles if isinstance(self.loss, Quantiles) else (self.loss.quantile,)
            constants = np.concatenate([weighted_quantiles(own, levels, share.numpy()) for own in y.numpy().T])
            return float((share * self.loss.metric_per_row(torch.as_tensor(constants).expand(len(y), -1), y)).sum())
        share = share.unsqueeze(-1)
        center = (share * y).sum(dim=0)
        return float((share * (y - center).square()).sum(dim=0).mean())

    def metric(self, values: list[float], spread: float) -> list[float]:
        """Return R² (D²) for mean squared errors (quantile losses); without variance, as defined by scikit-learn."""
        if spread == 0:
            exact = not self.scale.any()  # a constant target is predicted exactly
            return [value if math.isnan(value) else float(exact or value == 0) for value in values]
        return [1 - value / spread for value in values]

    def link(self) -> tuple[Array, Array, float | None]:
        """Return the scale, offset and limit that convert outputs to predictions, for code outside of this package.

        A prediction is scale x output + offset. If the limit is not None, the output is clipped to +-limit, and the
        prediction is the exponential of this number.
        """
        if isinstance(self.loss, LogLinkLoss):
            return self.scale, np.log(self.center), LARGEST_LOG
        return self.scale, self.center, _MAX_DEVIATIONS if self.transform == "log" else None

    def numbers(self, outputs: Tensor) -> Array:
        """Return outputs (..., rows, c) in units of the target, as float64."""
        values = outputs.to(torch.float64).numpy()
        with np.errstate(over="ignore"):
            if isinstance(self.loss, LogLinkLoss):
                numbers = self.center * np.exp(np.clip(values, -LARGEST_LOG, LARGEST_LOG) * self.scale)
            elif self.transform == "log":
                values = np.clip(values, -_MAX_DEVIATIONS, _MAX_DEVIATIONS)
                numbers = np.exp(values * self.scale + self.center)
            else:
                numbers = values * self.scale + self.center
        return self.ordered(np.clip(numbers, -LARGEST_PREDICTION, LARGEST_PREDICTION))

    def ordered(self, numbers: Array) -> Array:
        """Sort predicted quantiles (..., rows, c) in ascending order, which never increases their loss."""
        return numbers if self.quantiles is None else np.sort(numbers, axis=-1)

    def out_of_fold(self, outputs: Tensor) -> Array:
        """Return the values to average over networks: numbers in units of the target, (rows, c)."""
        return self.numbers(outputs)

    def row_losses(self, averaged: Array, y: Tensor) -> Array:
        """Return the loss of each row, (..., rows), for numbers (..., rows, c) in units of the target."""
        if isinstance(self.loss, LogLinkLoss):
            scaled = torch.as_tensor(np.log(averaged / self.center))
        else:
            scaled = torch.as_tensor((averaged - self.center) / np.where(self.scale > 0, self.scale, 1.0))
        return np.asarray(self.loss.per_row(scaled, y.to(torch.float64)).numpy())

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the JSON values and arrays for a model file."""
        quantiles = self.quantiles
        schema = {
            "one_dimensional": self.one_dimensional,
            "loss": self.loss.name,
            "loss_setting": float(self.loss.setting) if quantiles is None else list(quantiles),
            "transform": self.transform,
        }
        return schema, {"center": self.center, "scale": self.scale}

    @classmethod
    def from_state(cls, schema: Mapping[str, Any], arrays: Mapping[str, Array]) -> NumberTargets:
        """Restore from `state`, which is not trusted; raise ValueError if it is invalid."""
        check_keys(schema, {"one_dimensional", "loss", "loss_setting"} | ({"variance", "transform"} & set(schema)))
        if set(arrays) != {"center", "scale"}:
            raise ValueError(f"arrays of the targets are {sorted(arrays)!r:.80}; expected center and scale")
        center, scale = arrays["center"], arrays["scale"]
        if any(array.dtype != np.float64 or array.ndim != 1 or not len(array) for array in (center, scale)):
            raise ValueError("center and scale of the targets are not lists of float64")
        if center.shape != scale.shape or not np.isfinite([center, scale]).all() or not (scale >= 0).all():
            raise ValueError("center and scale of the targets are not finite numbers, one per output")
        one_dimensional = schema["one_dimensional"]
        variance = schema.get("variance", 1.0)  # in early files only, and unused
        if type(one_dimensional) is not bool or (one_dimensional and len(center) != 1):
            raise ValueError(f"one_dimensional={one_dimensional!r:.40} does not fit {len(center)} targets")
        if not is_number(variance) or not variance > 0:
            raise ValueError(f"variance={variance!r:.40} is out of range")
        loss = _stored_loss(schema["loss"], schema["loss_setting"])
        if isinstance(loss, Quantiles) and len(center) > 1:
            raise ValueError(f"{len(loss.quantiles)} quantiles do not fit {len(center)} targets")
        transform = schema.get("transform", "none")
        if transform not in ("none", "log") or (transform == "log" and (np.abs(center) > 800).any()):
            raise ValueError(
                f"transform={transform!r:.40} of the targets is not known, or their center is out of range"
            )
        if isinstance(loss, LogLinkLoss) and (
            transform != "none" or not (center > 0).all() or not np.isin(scale, [0, 1]).all()
        ):
            raise ValueError(f"center, scale or transform={transform!r:.40} of the targets do not fit a log link")
        return cls(one_dimensional, center, scale, loss, transform)


_MAX_QUANTILES = 10_000  # in a model file


def _stored_loss(name: object, setting: object) -> Loss:
    if name == Quantiles.name:
        if not isinstance(setting, list) or len(setting) > _MAX_QUANTILES or not all(map(is_number, setting)):
            raise ValueError(f"loss_setting={setting!r:.40} are not quantiles")
        return Quantiles(tuple(setting))
    if not isinstance(name, str) or not is_number(setting):
        raise ValueError(f"loss={name!r:.40} or loss_setting={setting!r:.40} is out of range")
    loss = loss_by_name(name, setting)  # type: ignore[arg-type] # a number
    if loss.name not in number_loss_names() or loss.setting != setting:
        raise ValueError(f"loss_setting={setting} does not fit loss={name!r:.40}, or this is not for numbers")
    return loss


def check_number_targets(loss: Loss, y: Array, name: str, row_number: Callable[[int], int]) -> None:
    """Raise if a loss cannot learn these targets; `row_number` maps a position to the row that errors name."""
    columns = y.reshape(len(y), -1)

    def place(wrong: Array) -> str:
        row = first_row(wrong)
        column = int(np.argmax(wrong[row]))
        of = f", column {column}" if columns.shape[1] > 1 else ""
        return f"{name} has {columns[row, column]:g} in row {row_number(row)}{of}"

    too_large = np.abs(columns) > LARGEST_TARGET
    if too_large.any():
        raise ValueError(
            f"{place(too_large)}, which is too large; expected numbers up to {LARGEST_TARGET:g}: use other units, for "
            f"instance {name} / 1e10"
        )
    if not isinstance(loss, LogLinkLoss):
        return
    wrong = columns < 0 if loss.allows_zero else columns <= 0
    if wrong.any():
        expected = "numbers >= 0" if loss.allows_zero else "numbers > 0"
        other = "'squared_error'" if loss.allows_zero or (columns < 0).any() else "'tweedie', which allows zeros"
        raise ValueError(
            f"{place(wrong)}, but loss={loss.name!r} expects {expected}; correct or drop such rows, or use loss={other}"
        )


def _refuse_all_zero(loss: Loss, columns: Array) -> None:
    """Raise if a target is 0 in all training rows, because the logarithm of its mean is not defined."""
    zero = (columns == 0).all(axis=0)
    if zero.any():
        which = f"column {int(np.argmax(zero))} of y" if len(zero) > 1 else "y"
        raise ValueError(
            f"{which} is 0 in all rows, but loss={loss.name!r} needs at least one positive number to learn from; use "
            "loss='squared_error', or more rows"
        )


def weighted_quantiles(values: Array, quantiles: tuple[float, ...], weights: Array) -> Array:
    """Return weighted quantiles: the constants with the lowest quantile loss."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    places = np.searchsorted(reached, np.asarray(quantiles) * reached[-1])
    return np.asarray(values[order][np.minimum(places, len(values) - 1)])
