"""Conversion of targets to tensors for the loss, and of network outputs to predictions.

Each kind of target says how many outputs a network needs and which loss learns it, and can be written to a model file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor

from tabgnm.estimators.target_arrays import first_row, list_of_labels, lists_of_labels, sort_classes
from tabgnm.nn.losses import (
    BinaryCrossEntropy,
    CrossEntropy,
    Huber,
    JointCrossEntropy,
    Loss,
    Pinball,
    SquaredError,
)

Array = NDArray[Any]

_LEAST_PROBABILITY = 1e-7  # so that a single row does not decide
# Logarithms that are predicted are this many standard deviations from their mean at most.
_MOST_DEVIATIONS = 6.0


def _is_indicator(y: Array) -> bool:
    """Whether y is a matrix of 0 and 1."""
    return y.ndim == 2 and y.dtype.kind in "biuf" and bool(((y == 0) | (y == 1)).all())


@dataclass(frozen=True, eq=False)
class ClassTargets:
    """Labels of one target, of several targets, or of a multilabel indicator matrix.

    Attributes
    ----------
    kind : {"one", "binary", "multiclass", "multilabel", "joint"}
        A single class, two, more; columns of 0 and 1; or several targets with classes of their own.
    classes : list of arrays
        One array of labels per target; for "multilabel" the two values 0 and 1 of each column.
    label_smoothing : float
    """

    kind: str
    classes: list[Array]
    label_smoothing: float = 0.0
    transform = "none"  # not of a target that is a label

    @classmethod
    def of(cls, y: Array, label_smoothing: float = 0.0, classes: Any = None) -> ClassTargets:
        """Learn the classes from y, or from `classes` if given: labels, or a list of labels per target."""
        if y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        if y.dtype.kind in "biufSU":  # scikit-learn does not know other labels, such as dates
            check_classification_targets(y)
        if y.ndim == 1:
            known, _ = sort_classes(y) if classes is None else sort_classes(list_of_labels(classes), "classes")
            return cls(cls._kind(len(known)), [known], label_smoothing)
        lists = None if classes is None else lists_of_labels(classes, y.shape[1])
        if lists is None and _is_indicator(y):
            return cls("multilabel", [np.array([0, 1]) for _ in range(y.shape[1])], label_smoothing)
        return cls("joint", [sort_classes(column)[0] for column in (y.T if lists is None else lists)], label_smoothing)

    def refuse_other_classes(self, classes: Any) -> None:
        """Raise if these differ from the classes of earlier calls."""
        given = [list_of_labels(classes)] if self.kind not in ("multilabel", "joint") else None
        given = lists_of_labels(classes, len(self.classes)) if given is None else given
        for own, known in zip(given or [], self.classes, strict=given is not None):
            if not np.array_equal(sort_classes(own, "classes")[0], known):
                raise ValueError(
                    f"`classes={classes!r}` is not the same as on last call to partial_fit, was: {known.tolist()!r}; "
                    "leave it out, or start again with all classes that may occur"
                )

    @staticmethod
    def _kind(n_classes: int) -> str:
        return "one" if n_classes == 1 else "binary" if n_classes == 2 else "multiclass"

    @property
    def n_outputs(self) -> int:
        """Number of outputs of a network."""
        if self.kind in ("one", "binary"):
            return 1
        return len(self.classes) if self.kind == "multilabel" else sum(map(len, self.classes))

    @property
    def loss(self) -> Loss:
        """The loss for these targets."""
        if self.kind == "multiclass":
            return CrossEntropy(self.label_smoothing)
        if self.kind == "joint":
            if self.label_smoothing:
                raise ValueError(
                    f"label_smoothing={self.label_smoothing} is not supported for several targets with classes of "
                    "their own; use label_smoothing=0.0, or one classifier per target"
                )
            return JointCrossEntropy(tuple(map(len, self.classes)))
        return BinaryCrossEntropy()

    def codes(self, y: Array, name: str = "y") -> Array:
        """Return class numbers, (rows,) or (rows, targets)."""
        if self.kind == "multilabel":
            if not _is_indicator(y) or y.shape[1] != len(self.classes):
                raise ValueError(
                    f"{name} has shape {y.shape}; expected {len(self.classes)} columns of 0 and 1, as the first targets"
                )
            return np.array(y, dtype=np.int64)  # a copy: arrays of frames may be read-only
        columns = y.reshape(len(y), -1).T
        if len(columns) != len(self.classes):
            raise ValueError(f"{name} has {len(columns)} columns; expected {len(self.classes)}, as the first targets")
        codes = [self._codes(column, classes, name) for column, classes in zip(columns, self.classes, strict=True)]
        return codes[0] if self.kind != "joint" else np.stack(codes, axis=1)

    @staticmethod
    def _codes(column: Array, classes: Array, name: str) -> Array:
        labels, inverse = sort_classes(column, name)
        try:
            places = np.searchsorted(classes, labels)
            known = (places < len(classes)) & (classes[np.minimum(places, len(classes) - 1)] == labels)
        except (TypeError, np.exceptions.DTypePromotionError):  # strings and numbers
            known = np.zeros(len(labels), dtype=bool)
        if not np.all(known):
            unknown = [repr(label) for label in labels[~known].tolist()[:5]]
            raise ValueError(
                f"{name} holds classes that were not there before: {', '.join(unknown)}; expected some of "
                f"{classes.tolist()[:10]}"
            )
        return np.asarray(places[inverse])

    def tensor(self, y: Array, dtype: torch.dtype, name: str = "y") -> Tensor:
        """Return the targets as the loss expects them."""
        codes = torch.as_tensor(self.codes(y, name))
        if self.kind in ("multiclass", "joint"):
            return codes.long()
        codes = codes.to(dtype).reshape(len(y), self.n_outputs)
        return codes * (1 - self.label_smoothing) + self.label_smoothing / 2 if self.label_smoothing else codes

    def strata(self, y: Array) -> Array | None:
        """Return the strata of the rows for drawing validation rows, or None."""
        return self.codes(y) if self.kind in ("one", "binary", "multiclass") else None

    metric_name = "accuracy"

    def spread(self, _y: Tensor, _weights: Tensor | None) -> float:
        """Return 1: accuracy needs no scale."""
        return 1.0

    def metric(self, values: list[float], _spread: float) -> list[float]:
        """Return the metric of each epoch: the accuracy, as measured by the fleet."""
        return values

    def log_probabilities(self, outputs: Tensor) -> list[Tensor]:
        """Return log-probabilities (members, rows, classes), one tensor per target."""
        if self.kind == "multiclass":
            return [torch.log_softmax(outputs, dim=-1)]
        if self.kind == "joint":
            parts = torch.split(outputs, [len(classes) for classes in self.classes], dim=-1)
            return [torch.log_softmax(part, dim=-1) for part in parts]
        return [
            torch.stack([torch.nn.functional.logsigmoid(-column), torch.nn.functional.logsigmoid(column)], dim=-1)
            for column in outputs.unbind(dim=-1)
        ]

    def out_of_fold(self, outputs: Tensor) -> Array:
        """Return what is averaged over networks: the probabilities of all classes of all targets, (rows, classes)."""
        parts = self.log_probabilities(outputs.unsqueeze(0).to(torch.float64))
        return np.concatenate([np.exp(part[0].numpy()) for part in parts], axis=1)

    def parts(self, averaged: Array) -> list[Array]:
        """Split averaged probabilities (..., rows, classes) by target."""
        n_classes = [2] if self.kind == "one" else [len(own) for own in self.classes]
        return np.split(averaged, np.cumsum(n_classes)[:-1], axis=-1)

    def row_losses(self, averaged: Array, y: Tensor) -> Array:
        """Return the log-loss of each row, (..., rows), for averaged probabilities (..., rows, classes)."""
        codes = y.numpy().reshape(len(y), -1).round().astype(np.int64)
        losses = 0.0
        for part, column in zip(self.parts(averaged), codes.T, strict=True):
            true = np.take_along_axis(part, np.broadcast_to(column[:, None], (*part.shape[:-1], 1)), axis=-1)[..., 0]
            losses = losses - np.log(np.maximum(true, _LEAST_PROBABILITY))
        return np.asarray(losses)

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the JSON values and arrays for a model file."""
        return {
            "kind": self.kind,
            "label_smoothing": float(self.label_smoothing),
            "classes": [_labels_state(labels) for labels in self.classes],
        }, {}

    @classmethod
    def from_state(cls, schema: Mapping[str, Any]) -> ClassTargets:
        """Restore from `state`, which is not trusted; raise ValueError if it is invalid."""
        _check_keys(schema, {"kind", "label_smoothing", "classes"})
        kind, smoothing = schema["kind"], schema["label_smoothing"]
        if not isinstance(schema["classes"], list):
            raise ValueError("the classes of the targets are not a list")
        classes = [_labels(own, _MOST_LABEL_BYTES // len(schema["classes"])) for own in schema["classes"]]
        n_classes = [len(labels) for labels in classes]
        expected = {
            "one": n_classes == [1],
            "binary": n_classes == [2],
            "multiclass": len(n_classes) == 1 and n_classes[0] > 2,
            "multilabel": len(classes) > 0 and all(labels.tolist() == [0, 1] for labels in classes),
            "joint": len(n_classes) > 1,
        }
        if not isinstance(kind, str) or not expected.get(kind, False):
            raise ValueError(f"targets of kind {kind!r:.40} with {n_classes!r:.80} classes do not exist")
        if not _is_number(smoothing) or not 0 <= smoothing < 1 or (smoothing and kind == "joint"):
            raise ValueError(f"label_smoothing={smoothing!r:.40} is out of range for targets of kind {kind!r}")
        return cls(kind, classes, smoothing)


def _check_keys(schema: Any, keys: set[str]) -> None:
    if not isinstance(schema, Mapping) or set(schema) != keys:
        raise ValueError(f"targets are {schema!r:.80}; expected {', '.join(sorted(keys))}")


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and bool(np.isfinite(value))  # type: ignore[call-overload] # a number by then


def _labels_state(labels: Array) -> dict[str, Any]:
    """Return labels as JSON values; dates and durations become integers in their unit."""
    kind = labels.dtype.kind
    if kind in "Mm":
        return {"dtype": labels.dtype.str, "values": labels.view(np.int64).tolist()}
    values = labels.tolist()
    if kind not in "biufUO" or not all(type(value) in (bool, int, float, str) for value in values):
        raise ValueError(
            f"labels of type {labels.dtype} such as {values[0]!r} cannot be written; use str or int labels"
        )
    return {"dtype": labels.dtype.str, "values": values}


# Types of labels that a file may name; NumPy has many more, some of which would allocate much memory.
_LABEL_TYPE = re.compile(r"[|<>](b1|[iu][1248]|f[248]|U[1-9]\d{0,7}|O|[Mm]8(\[\d{0,6}(Y|M|W|D|h|m|s|ms|us|ns)\])?)")
_MOST_LABEL_BYTES = 2**25  # of all targets together


def _labels(schema: Any, most_bytes: int) -> Array:
    _check_keys(schema, {"dtype", "values"})
    name, values = schema["dtype"], schema["values"]
    if not isinstance(name, str) or not _LABEL_TYPE.fullmatch(name):
        raise ValueError(f"labels of type {name!r:.40} do not exist")
    if not isinstance(values, list) or not values or not all(type(v) in (bool, int, float, str) for v in values):
        raise ValueError(f"labels are {values!r:.80}; expected a list of numbers or strings")
    dtype = np.dtype(name)
    if dtype.itemsize * len(values) > most_bytes:
        raise ValueError(f"{len(values)} labels of type {dtype} take more than {most_bytes} bytes")
    stored = np.dtype(np.int64) if dtype.kind in "Mm" else dtype
    labels = np.array(values, dtype=stored)
    if [(type(v), v) for v in labels.tolist()] != [(type(v), v) for v in values]:
        raise ValueError(f"labels {values[:3]!r:.80} are not of type {dtype}")
    labels = labels.view(dtype)
    # NaN and NaT are not equal to themselves.
    if not np.all(labels[1:] > labels[:-1]) or not np.all(labels == labels):
        raise ValueError(f"labels {values[:10]!r:.80} are not in order, or some are missing or there twice")
    return labels


@dataclass(frozen=True, eq=False)
class NumberTargets:
    """One or several numbers per row, standardised for the network.

    Attributes
    ----------
    one_dimensional : bool
        Whether predictions are (rows,) rather than (rows, outputs).
    center, scale : arrays of float
        One per output: the network learns (y - center) / scale. A scale of 0 marks a constant target.
    loss : Loss
    transform : {"none", "log"}
        The network learns this of the target; center and scale are those of its values.
    """

    one_dimensional: bool
    center: Array
    scale: Array
    loss: Loss
    transform: str = "none"

    metric_name = "r2"

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
        """Learn centre and scale from the training rows; `may_vary` is for targets that are constant only in these."""
        if transform == "log":
            if not (y > 0).all():
                raise ValueError(
                    f"target_transform='log', but y has {y.min():g}; expected positive targets: use "
                    "target_transform='none'"
                )
            logs = cls.of(np.log(y), weights, loss, scaled=True, may_vary=may_vary)
            return replace(logs, transform="log")
        columns = y.reshape(len(y), -1)
        if not scaled:
            return cls(y.ndim == 1, np.zeros(columns.shape[1]), np.ones(columns.shape[1]), loss)
        # In units of a power of 2, as squares of very large (small) numbers would overflow (underflow).
        _, exponent = np.frexp(np.abs(columns).max(axis=0))
        columns = np.ldexp(columns, -exponent)
        center = np.average(columns, axis=0, weights=weights)
        variance = np.average((columns - center) ** 2, axis=0, weights=weights)
        constant = columns.max(axis=0) == columns.min(axis=0)
        # Predictions of a constant target are exactly that constant, which its mean need not be.
        center = np.ldexp(np.where(constant, columns[0], center), exponent)
        scale = np.ldexp(np.sqrt(variance), exponent)
        return cls(y.ndim == 1, center, np.where(constant, 1.0 if may_vary else 0.0, scale), loss)

    @property
    def n_outputs(self) -> int:
        """Number of outputs of a network."""
        return len(self.center)

    def tensor(self, y: Array, dtype: torch.dtype, name: str = "y") -> Tensor:
        """Return the targets as the loss expects them."""
        columns = y.reshape(len(y), -1)
        if columns.shape[1] != self.n_outputs:
            raise ValueError(f"{name} has {columns.shape[1]} columns; expected {self.n_outputs}, as the first targets")
        if self.transform == "log":
            # Targets of later rows may be 0 or negative: the smallest number whose logarithm was to be expected.
            columns = np.log(np.maximum(columns, np.exp(self.center - _MOST_DEVIATIONS * self.scale)))
        # Halves, as the difference of two large numbers may overflow.
        distance = columns / 2 - self.center / 2
        scaled = np.divide(distance, self.scale / 2, out=np.zeros_like(distance), where=self.scale > 0)
        too_large = np.abs(scaled) > np.sqrt(torch.finfo(dtype).max) / 1e3
        if too_large.any():
            row = first_row(too_large)
            raise ValueError(
                f"{name} has {columns[row].tolist()} in row {row}, which is too large to learn beside a center of "
                f"{self.center.tolist()} and a scale of {self.scale.tolist()}; use scale_target=True, or other units"
            )
        return torch.as_tensor(scaled).to(dtype)

    def strata(self, _y: Array) -> Array | None:
        """Return None: validation rows are not stratified."""
        return None

    def spread(self, y: Tensor, weights: Tensor | None) -> float:
        """Return the variance of standardised targets, averaged over the outputs."""
        if bool((y == y[0]).all()):  # whose computed variance would be a rounding error
            return 0.0
        y = y.to(torch.float64)
        weights = torch.ones(len(y)) if weights is None else weights
        share = (weights.to(torch.float64) / weights.sum()).unsqueeze(-1)
        center = (share * y).sum(dim=0)
        return float((share * (y - center).square()).sum(dim=0).mean())

    def metric(self, values: list[float], spread: float) -> list[float]:
        """Return R² for mean squared errors, as scikit-learn defines it: 0 or 1 without variance."""
        if spread == 0:
            exact = not self.scale.any()  # a constant target, which is predicted exactly
            return [value if math.isnan(value) else float(exact or value == 0) for value in values]
        return [1 - value / spread for value in values]

    def numbers(self, outputs: Tensor) -> Array:
        """Return outputs (..., rows, c) in units of the target, as float64."""
        values = outputs.to(torch.float64).numpy()
        if self.transform == "log":
            values = np.clip(values, -_MOST_DEVIATIONS, _MOST_DEVIATIONS)
            return np.asarray(np.exp(values * self.scale + self.center))
        return np.asarray(values * self.scale + self.center)

    def out_of_fold(self, outputs: Tensor) -> Array:
        """Return what is averaged over networks: numbers in units of the target, (rows, c)."""
        return self.numbers(outputs)

    def row_losses(self, averaged: Array, y: Tensor) -> Array:
        """Return the loss of each row, (..., rows), for numbers (..., rows, c) in units of the target."""
        scale = np.where(self.scale > 0, self.scale, 1.0)
        scaled = torch.as_tensor((averaged - self.center) / scale)
        return np.asarray(self.loss.per_row(scaled, y.to(torch.float64)).numpy())

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the JSON values and arrays for a model file."""
        schema = {
            "one_dimensional": self.one_dimensional,
            "loss": self.loss.name,
            "loss_setting": float(self.loss.setting),
            "transform": self.transform,
        }
        return schema, {"center": self.center, "scale": self.scale}

    @classmethod
    def from_state(cls, schema: Mapping[str, Any], arrays: Mapping[str, Array]) -> NumberTargets:
        """Restore from `state`, which is not trusted; raise ValueError if it is invalid."""
        _check_keys(schema, {"one_dimensional", "loss", "loss_setting"} | ({"variance", "transform"} & set(schema)))
        if set(arrays) != {"center", "scale"}:
            raise ValueError(f"arrays of the targets are {sorted(arrays)!r:.80}; expected center and scale")
        center, scale = arrays["center"], arrays["scale"]
        if any(array.dtype != np.float64 or array.ndim != 1 or not len(array) for array in (center, scale)):
            raise ValueError("center and scale of the targets are not lists of float64")
        if center.shape != scale.shape or not np.isfinite([center, scale]).all() or not (scale >= 0).all():
            raise ValueError("center and scale of the targets are not finite numbers, one per output")
        one_dimensional, setting = schema["one_dimensional"], schema["loss_setting"]
        variance = schema.get("variance", 1.0)  # in early files only, and unused
        if type(one_dimensional) is not bool or (one_dimensional and len(center) != 1):
            raise ValueError(f"one_dimensional={one_dimensional!r:.40} does not fit {len(center)} targets")
        if not _is_number(variance) or not variance > 0 or not _is_number(setting):
            raise ValueError(f"variance={variance!r:.40} or loss_setting={setting!r:.40} is out of range")
        transform = schema.get("transform", "none")
        if transform not in ("none", "log") or (transform == "log" and (np.abs(center) > 800).any()):
            raise ValueError(
                f"transform={transform!r:.40} of the targets is not known, or their center is out of range"
            )
        loss = regression_loss(schema["loss"], quantile=setting, huber_delta=setting)
        if loss.setting != setting:
            raise ValueError(f"loss_setting={setting} does not fit loss={schema['loss']!r:.40}")
        return cls(one_dimensional, center, scale, loss, transform)


Targets = ClassTargets | NumberTargets


def regression_loss(name: str, quantile: float, huber_delta: float) -> Loss:
    """Return the loss with this name."""
    if name == "mse":
        return SquaredError()
    if name == "huber":
        return Huber(huber_delta)
    if name == "quantile":
        return Pinball(quantile)
    raise ValueError(f"loss={name!r:.80} is not known; use one of 'mse', 'huber', 'quantile'")
