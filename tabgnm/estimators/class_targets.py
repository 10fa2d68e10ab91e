"""Labels as targets: conversion to class numbers for the loss, and of network outputs to probabilities."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor

from tabgnm._printable import shown
from tabgnm.estimators.target_arrays import list_of_labels, lists_of_labels, sort_classes
from tabgnm.estimators.target_state import check_keys, is_number
from tabgnm.nn.losses import BinaryCrossEntropy, CrossEntropy, JointCrossEntropy, Loss

Array = NDArray[Any]

MIN_PROBABILITY = 1e-7  # in a log-loss, so that a single row does not decide


def _is_indicator(y: Array) -> bool:
    """Whether y is a matrix of 0 and 1."""
    return y.ndim == 2 and y.dtype.kind in "biuf" and bool(((y == 0) | (y == 1)).all())


@dataclass(frozen=True, eq=False)
class ClassTargets:
    """Labels of one target, of several targets, or of a multilabel indicator matrix.

    Attributes
    ----------
    kind : {"one", "binary", "multiclass", "multilabel", "joint"}
        One class, two classes, more classes, columns of 0 and 1, or several targets with their own classes.
    classes : list of arrays
        One array of labels per target; for "multilabel" the two values 0 and 1 of each column.
    label_smoothing : float
    """

    kind: str
    classes: list[Array]
    label_smoothing: float = 0.0
    transform = "none"  # labels are not transformed

    @classmethod
    def of(cls, y: Array, label_smoothing: float = 0.0, classes: Any = None) -> ClassTargets:
        """Learn the classes from y, or from `classes` if given (labels, or a list of labels per target)."""
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
        """Raise if `classes` differ from those of earlier calls."""
        given = [list_of_labels(classes)] if self.kind not in ("multilabel", "joint") else None
        given = lists_of_labels(classes, len(self.classes)) if given is None else given
        for own, known in zip(given or [], self.classes, strict=given is not None):
            if not np.array_equal(sort_classes(own, "classes")[0], known):
                raise ValueError(
                    f"`classes={shown(classes)}` is not the same as on last call to partial_fit, was: "
                    f"{shown(known.tolist())}; omit classes, or start with a new estimator and all classes that may "
                    "occur"
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
                    f"label_smoothing={self.label_smoothing} is not supported for several targets; use "
                    "label_smoothing=0.0, or fit one classifier per target"
                )
            return JointCrossEntropy(tuple(map(len, self.classes)))
        return BinaryCrossEntropy()

    def codes(self, y: Array, name: str = "y") -> Array:
        """Return class numbers, (rows,) or (rows, targets)."""
        if self.kind == "multilabel":
            if not _is_indicator(y) or y.shape[1] != len(self.classes):
                raise ValueError(
                    f"{name} has shape {y.shape}; expected {len(self.classes)} columns of 0 and 1, one per target of "
                    "the model"
                )
            return np.array(y, dtype=np.int64)  # a copy: arrays of frames may be read-only
        columns = y.reshape(len(y), -1).T
        if len(columns) != len(self.classes):
            raise ValueError(
                f"{name} has {len(columns)} columns; expected {len(self.classes)}, one per target of the model"
            )
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
                f"{name} contains classes that were not seen before: {', '.join(unknown)}; expected classes among "
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

    def strata(self, y: Array, name: str = "y") -> Array | None:
        """Return the stratum of each row for stratified validation rows, or None."""
        return self.codes(y, name) if self.kind in ("one", "binary", "multiclass") else None

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
        """Return the values to average over networks: probabilities of all classes of all targets, (rows, classes)."""
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
            losses = losses - np.log(np.maximum(true, MIN_PROBABILITY))
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
        check_keys(schema, {"kind", "label_smoothing", "classes"})
        kind, smoothing = schema["kind"], schema["label_smoothing"]
        if not isinstance(schema["classes"], list):
            raise ValueError("the classes of the targets are not a list")
        classes = [_labels(own, _MAX_LABEL_BYTES // len(schema["classes"])) for own in schema["classes"]]
        n_classes = [len(labels) for labels in classes]
        expected = {
            "one": n_classes == [1],
            "binary": n_classes == [2],
            "multiclass": len(n_classes) == 1 and n_classes[0] > 2,
            "multilabel": len(classes) > 0 and all(labels.tolist() == [0, 1] for labels in classes),
            "joint": len(n_classes) > 1,
        }
        if not isinstance(kind, str) or not expected.get(kind, False):
            raise ValueError(f"targets of kind {shown(kind)} with {shown(n_classes)} classes do not exist")
        if not is_number(smoothing) or not 0 <= smoothing < 1 or (smoothing and kind == "joint"):
            raise ValueError(f"label_smoothing={shown(smoothing)} is out of range for targets of kind {shown(kind)}")
        return cls(kind, classes, smoothing)


def mean_log_probabilities(of_groups: list[list[Tensor]], weights: Array, temperature: float) -> list[Tensor]:
    """Return the logarithm of the networks' weighted mean probability, after calibration.

    Shape
    -----
    - of_groups: (networks, rows, classes) for each group and target
    - weights: (networks of all groups,)
    - output: (rows, classes) for each target
    """
    if len(weights) == 1:
        parts = [part[0] for part in of_groups[0]]
    else:
        logs = torch.as_tensor(np.log(weights)).reshape(-1, 1, 1)
        parts = [torch.logsumexp(torch.cat(own) + logs, dim=0) for own in zip(*of_groups, strict=True)]
    if temperature != 1.0:
        parts = [torch.log_softmax(part / temperature, dim=-1) for part in parts]
    return parts


def _labels_state(labels: Array) -> dict[str, Any]:
    """Return labels as JSON values; dates and durations become integers in their unit."""
    kind = labels.dtype.kind
    if kind in "Mm":
        return {"dtype": labels.dtype.str, "values": labels.view(np.int64).tolist()}
    values = labels.tolist()
    if kind not in "biufUO" or not all(type(value) in (bool, int, float, str) for value in values):
        raise ValueError(
            f"labels of type {labels.dtype} such as {shown(values[0])} cannot be written; use str or int labels"
        )
    return {"dtype": labels.dtype.str, "values": values}


# The label types that a file may name. NumPy has many more, some of which would allocate much memory.
_LABEL_TYPE = re.compile(r"[|<>](b1|[iu][1248]|f[248]|U[1-9]\d{0,7}|O|[Mm]8(\[\d{0,6}(Y|M|W|D|h|m|s|ms|us|ns)\])?)")
_MAX_LABEL_BYTES = 2**25  # of all targets together


def _labels(schema: Any, most_bytes: int) -> Array:
    check_keys(schema, {"dtype", "values"})
    name, values = schema["dtype"], schema["values"]
    if not isinstance(name, str) or not _LABEL_TYPE.fullmatch(name):
        raise ValueError(f"labels of type {shown(name)} do not exist")
    if not isinstance(values, list) or not values or not all(type(v) in (bool, int, float, str) for v in values):
        raise ValueError(f"labels are {shown(values)}; expected a list of numbers or strings")
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
        raise ValueError(f"labels {values[:10]!r:.80} are unsorted, missing or duplicated")
    return labels
