"""Targets turned into what a loss learns, and network outputs turned back.

Each kind of target says how many outputs a network needs and which loss learns it, and can be written to a model file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
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


def _is_indicator(y: Array) -> bool:
    """Whether a matrix only has 0 and 1."""
    return y.ndim == 2 and y.dtype.kind in "biuf" and bool(((y == 0) | (y == 1)).all())


@dataclass(frozen=True, eq=False)
class ClassTargets:
    """Labels of one target (one set of classes), of several, or of a multilabel indicator matrix.

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

    @classmethod
    def of(cls, y: Array, label_smoothing: float = 0.0, classes: Any = None) -> ClassTargets:
        """Look at labels, and at the classes that may still come: for several targets a list of them."""
        if y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        if y.dtype.kind in "biufSU":  # scikit-learn knows no other labels, such as dates
            check_classification_targets(y)
        if y.ndim == 1:
            known, _ = sort_classes(y) if classes is None else sort_classes(list_of_labels(classes), "classes")
            return cls(cls._kind(len(known)), [known], label_smoothing)
        lists = None if classes is None else lists_of_labels(classes, y.shape[1])
        if lists is None and _is_indicator(y):
            return cls("multilabel", [np.array([0, 1]) for _ in range(y.shape[1])], label_smoothing)
        return cls("joint", [sort_classes(column)[0] for column in (y.T if lists is None else lists)], label_smoothing)

    def refuse_other_classes(self, classes: Any) -> None:
        """Raise where these are not the classes that were given before."""
        given = [list_of_labels(classes)] if self.kind not in ("multilabel", "joint") else None
        given = lists_of_labels(classes, len(self.classes)) if given is None else given
        for own, known in zip(given or [], self.classes, strict=given is not None):
            if not np.array_equal(sort_classes(own, "classes")[0], known):
                raise ValueError(
                    f"`classes={classes!r}` is not the same as on last call to partial_fit, was: {known.tolist()!r}; "
                    "leave it out, or begin anew with all classes that may come"
                )

    @staticmethod
    def _kind(n_classes: int) -> str:
        return "one" if n_classes == 1 else "binary" if n_classes == 2 else "multiclass"

    @property
    def n_outputs(self) -> int:
        """Outputs a network needs."""
        if self.kind in ("one", "binary"):
            return 1
        return len(self.classes) if self.kind == "multilabel" else sum(map(len, self.classes))

    @property
    def loss(self) -> Loss:
        """What learns them."""
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
        """Class numbers of the labels: (rows,), or (rows, targets)."""
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
        """Return the targets as the loss takes them."""
        codes = torch.as_tensor(self.codes(y, name))
        if self.kind in ("multiclass", "joint"):
            return codes.long()
        codes = codes.to(dtype).reshape(len(y), self.n_outputs)
        return codes * (1 - self.label_smoothing) + self.label_smoothing / 2 if self.label_smoothing else codes

    def strata(self, y: Array) -> Array | None:
        """Groups from which validation rows are drawn evenly, or None."""
        return self.codes(y) if self.kind in ("one", "binary", "multiclass") else None

    metric_name = "accuracy"

    def spread(self, _y: Tensor, _weights: Tensor | None) -> float:
        """Return 1: the share of right labels is not compared with anything."""
        return 1.0

    def metric(self, values: list[float], _spread: float) -> list[float]:
        """What the fleet measured per epoch, as the score of a classifier: the share of rows with the right labels."""
        return values

    def log_probabilities(self, outputs: Tensor) -> list[Tensor]:
        """Logarithms of probabilities (members, rows, classes): one tensor per target; [no, yes] for two classes."""
        if self.kind == "multiclass":
            return [torch.log_softmax(outputs, dim=-1)]
        if self.kind == "joint":
            parts = torch.split(outputs, [len(classes) for classes in self.classes], dim=-1)
            return [torch.log_softmax(part, dim=-1) for part in parts]
        return [
            torch.stack([torch.nn.functional.logsigmoid(-column), torch.nn.functional.logsigmoid(column)], dim=-1)
            for column in outputs.unbind(dim=-1)
        ]

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """What a model file keeps."""
        return {
            "kind": self.kind,
            "label_smoothing": float(self.label_smoothing),
            "classes": [_labels_state(labels) for labels in self.classes],
        }, {}

    @classmethod
    def from_state(cls, schema: Mapping[str, Any]) -> ClassTargets:
        """Read what `state` gave; a ValueError says what is wrong with it."""
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
    """Labels in JSON: numbers, booleans and strings as they are, dates and durations as numbers of their unit."""
    kind = labels.dtype.kind
    if kind in "Mm":
        return {"dtype": labels.dtype.str, "values": labels.view(np.int64).tolist()}
    values = labels.tolist()
    if kind not in "biufUO" or not all(type(value) in (bool, int, float, str) for value in values):
        raise ValueError(
            f"labels of type {labels.dtype} such as {values[0]!r} cannot be written; use str or int labels"
        )
    return {"dtype": labels.dtype.str, "values": values}


# Types of labels that a file may name; numpy knows many more, some of which are recipes for large memory.
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
    """One or several numbers per row, standardised for the network and returned in their unit.

    Attributes
    ----------
    one_dimensional : bool
        Whether predictions are (rows,) rather than (rows, outputs).
    center, scale : arrays of float
        One per output: the network learns (y - center) / scale. A scale of 0 stands for a constant target.
    loss : Loss
    """

    one_dimensional: bool
    center: Array
    scale: Array
    loss: Loss

    metric_name = "r2"

    @classmethod
    def of(cls, y: Array, weights: Array | None, loss: Loss, *, scaled: bool, may_vary: bool = True) -> NumberTargets:
        """Look at the training rows; `may_vary` says whether rows that are still to come may, where these do not."""
        columns = y.reshape(len(y), -1)
        if not scaled:
            return cls(y.ndim == 1, np.zeros(columns.shape[1]), np.ones(columns.shape[1]), loss)
        # Squares of large numbers would overflow, those of small ones vanish: measured in units of a power of 2.
        _, exponent = np.frexp(np.abs(columns).max(axis=0))
        columns = np.ldexp(columns, -exponent)
        center = np.average(columns, axis=0, weights=weights)
        variance = np.average((columns - center) ** 2, axis=0, weights=weights)
        constant = columns.max(axis=0) == columns.min(axis=0)
        # Predictions of a constant target are that constant, to the last digit; its mean need not be.
        center = np.ldexp(np.where(constant, columns[0], center), exponent)
        scale = np.ldexp(np.sqrt(variance), exponent)
        return cls(y.ndim == 1, center, np.where(constant, 1.0 if may_vary else 0.0, scale), loss)

    @property
    def n_outputs(self) -> int:
        """Outputs a network needs."""
        return len(self.center)

    def tensor(self, y: Array, dtype: torch.dtype, name: str = "y") -> Tensor:
        """Return the targets as the loss takes them."""
        columns = y.reshape(len(y), -1)
        if columns.shape[1] != self.n_outputs:
            raise ValueError(f"{name} has {columns.shape[1]} columns; expected {self.n_outputs}, as the first targets")
        # Halves, as the difference of two large numbers may be too large.
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
        """Return None: validation rows are drawn from all rows alike."""
        return None

    def spread(self, y: Tensor, weights: Tensor | None) -> float:
        """Return the variance of targets as the networks see them, averaged over the outputs; 0 if they do not vary."""
        if bool((y == y[0]).all()):  # of which the variance would be a matter of rounding
            return 0.0
        y = y.to(torch.float64)
        weights = torch.ones(len(y)) if weights is None else weights
        share = (weights.to(torch.float64) / weights.sum()).unsqueeze(-1)
        center = (share * y).sum(dim=0)
        return float((share * (y - center).square()).sum(dim=0).mean())

    def metric(self, values: list[float], spread: float) -> list[float]:
        """Turn mean squared errors into R², as scikit-learn has it: 1 - error / variance, 0 or 1 without variance."""
        if spread == 0:
            exact = not self.scale.any()  # a constant target, which is predicted to the last digit
            return [value if math.isnan(value) else float(exact or value == 0) for value in values]
        return [1 - value / spread for value in values]

    def numbers(self, outputs: Tensor) -> Array:
        """Outputs (..., rows, c) of networks in the unit of the targets, as float64."""
        return np.asarray(outputs.to(torch.float64).numpy() * self.scale + self.center)

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """What a model file keeps."""
        schema = {
            "one_dimensional": self.one_dimensional,
            "loss": self.loss.name,
            "loss_setting": float(self.loss.setting),
        }
        return schema, {"center": self.center, "scale": self.scale}

    @classmethod
    def from_state(cls, schema: Mapping[str, Any], arrays: Mapping[str, Array]) -> NumberTargets:
        """Read what `state` gave; a ValueError says what is wrong with it."""
        _check_keys(schema, {"one_dimensional", "loss", "loss_setting"} | ({"variance"} & set(schema)))
        if set(arrays) != {"center", "scale"}:
            raise ValueError(f"arrays of the targets are {sorted(arrays)!r:.80}; expected center and scale")
        center, scale = arrays["center"], arrays["scale"]
        if any(array.dtype != np.float64 or array.ndim != 1 or not len(array) for array in (center, scale)):
            raise ValueError("center and scale of the targets are not lists of float64")
        if center.shape != scale.shape or not np.isfinite([center, scale]).all() or not (scale >= 0).all():
            raise ValueError("center and scale of the targets are not finite numbers, one per output")
        one_dimensional, setting = schema["one_dimensional"], schema["loss_setting"]
        variance = schema.get("variance", 1.0)  # which early files have, and nothing uses
        if type(one_dimensional) is not bool or (one_dimensional and len(center) != 1):
            raise ValueError(f"one_dimensional={one_dimensional!r:.40} does not fit {len(center)} targets")
        if not _is_number(variance) or not variance > 0 or not _is_number(setting):
            raise ValueError(f"variance={variance!r:.40} or loss_setting={setting!r:.40} is out of range")
        loss = regression_loss(schema["loss"], quantile=setting, huber_delta=setting)
        if loss.setting != setting:
            raise ValueError(f"loss_setting={setting} does not fit loss={schema['loss']!r:.40}")
        return cls(one_dimensional, center, scale, loss)


Targets = ClassTargets | NumberTargets


def regression_loss(name: str, quantile: float, huber_delta: float) -> Loss:
    """Return the loss of that name."""
    if name == "mse":
        return SquaredError()
    if name == "huber":
        return Huber(huber_delta)
    if name == "quantile":
        return Pinball(quantile)
    raise ValueError(f"loss={name!r:.80} is not known; use one of 'mse', 'huber', 'quantile'")
