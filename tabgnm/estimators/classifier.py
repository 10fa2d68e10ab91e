"""Base class of the classifiers: labels, probabilities and scores."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight, compute_sample_weight
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from tabgnm.estimators.base import Array, TabularEstimator
from tabgnm.estimators.checks import check_lengths, sample_weights
from tabgnm.estimators.class_targets import mean_log_probabilities
from tabgnm.estimators.parameters import ClassifierParameters
from tabgnm.estimators.target_arrays import as_target_array
from tabgnm.estimators.targets import ClassTargets, Targets

if TYPE_CHECKING:
    from sklearn.utils import Tags
    from typing_extensions import Self


class TabularClassifier(ClassifierParameters, ClassifierMixin, TabularEstimator):  # type: ignore[misc] # scikit-learn has no types
    """Base class of the classifiers.

    Labels may be of any sortable type, such as strings, booleans or integers, except bytes and fractions. A matrix of
    zeros and ones is a multilabel target. Several columns of other labels are separate targets, which one network
    learns jointly.
    """

    def _check_y(self, y: Any, name: str) -> Array:
        labels = as_target_array(y, name)
        return labels.reshape(-1) if labels.ndim == 2 and labels.shape[1] == 1 else labels

    def _make_targets(self, y: Array, _weights: Array | None, classes: Any, *, may_vary: bool) -> ClassTargets:  # noqa: ARG002 - for numbers only
        if isinstance(classes, ClassTargets):
            return classes
        return ClassTargets.of(y, self.label_smoothing, classes)

    def _with_own_loss(self, targets: Targets) -> ClassTargets:
        assert isinstance(targets, ClassTargets)
        return replace(targets, label_smoothing=self.label_smoothing)

    def _check_classes(self, targets: Targets, classes: Any) -> None:
        if classes is not None and not isinstance(classes, ClassTargets):
            assert isinstance(targets, ClassTargets)
            targets.refuse_other_classes(classes)

    def _labels_of_all_rows(self, y: Array) -> ClassTargets:
        return ClassTargets.of(y, self.label_smoothing)

    def _row_weights(self, y: Array, sample_weight: Array | None, streamed: Targets | None) -> Array | None:
        if self.class_weight is None:
            return sample_weight
        if streamed is not None:
            assert isinstance(streamed, ClassTargets)
            by_class = _given_class_weights(self.class_weight, y, streamed)
        else:
            try:
                by_class = np.asarray(compute_sample_weight(self.class_weight, y), dtype=np.float64)
            except ValueError as error:
                raise ValueError(
                    f"class_weight={self.class_weight!r:.200} does not match the labels: {error}"
                ) from None
        return by_class if sample_weight is None else by_class * sample_weight

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Train for one epoch on the given rows, starting from the current weights.

        The first call determines the columns, categories and scaling for all later calls. There is no validation, the
        learning rate is constant, and the state of the optimizer is reset in each call.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : array-like, default=None
            All labels that may occur in any call. Required in the first call, and optional in later calls. For several
            targets, a list with the labels of each target; the default is the labels of the first call.

        Returns
        -------
        self
        """
        self._check_parameters()
        given = self.class_weight if isinstance(self.class_weight, list) else [self.class_weight]
        if any(isinstance(group, str) for group in given):
            raise ValueError(
                "class_weight='balanced' is not supported by partial_fit, which sees only some rows; pass a dict from "
                "label to weight, computed on all rows with sklearn.utils.class_weight.compute_class_weight"
            )
        if classes is None and not hasattr(self, "fitted_") and self._check_y(y, "y").ndim < 2:
            raise ValueError(
                "classes must be passed on the first call to partial_fit; pass all labels that may occur in any call"
            )
        return self._partial_fit(X, y, classes, sample_weight)

    @property
    def classes_(self) -> Any:
        """The sorted labels; a list of arrays for several targets, and column numbers for multilabel targets."""
        check_is_fitted(self, "fitted_")
        targets = self._class_targets()
        if targets.kind == "multilabel":
            return np.arange(len(targets.classes))
        return list(targets.classes) if targets.kind == "joint" else targets.classes[0]

    def _class_targets(self) -> ClassTargets:
        assert isinstance(self.fitted_.targets, ClassTargets)
        return self.fitted_.targets

    def _reduce(self, outputs: list[Tensor]) -> list[Array]:
        """Return the logarithm of the networks' weighted mean probability, (rows, classes) per target, in float64."""
        return self._mean_logs([self._class_targets().log_probabilities(own.to(torch.float64)) for own in outputs])

    def _reduce_with_std(self, outputs: list[Tensor]) -> list[Array]:
        """Return what `_reduce` does, then the standard deviations of the networks' probabilities."""
        of_groups = [self._class_targets().log_probabilities(own.to(torch.float64)) for own in outputs]
        weights, deviations = self.fitted_.network_weights, []
        for own in zip(*of_groups, strict=True):
            probabilities = torch.cat(own).exp().numpy()  # (networks, rows, classes)
            mean = np.tensordot(weights, probabilities, 1)
            deviations.append(np.sqrt(np.tensordot(weights, (probabilities - mean) ** 2, 1)))
        return self._mean_logs(of_groups) + deviations

    def _mean_logs(self, of_groups: list[list[Tensor]]) -> list[Array]:
        fitted = self.fitted_
        parts = mean_log_probabilities(of_groups, fitted.network_weights, fitted.temperature)
        return [part.numpy() for part in parts]

    def predict(self, X: Any) -> Array:
        """Predict labels.

        Parameters
        ----------
        X : table of shape (rows, columns)

        Returns
        -------
        array of shape (rows,), or (rows, outputs)
        """
        return self._labels(self._predicted(X, self._reduce))

    def _labels(self, log_probabilities: list[Array]) -> Array:
        targets = self._class_targets()
        if targets.kind == "one":
            return np.repeat(targets.classes[0], len(log_probabilities[0]))
        labels = [
            classes[np.argmax(part, axis=1)] for classes, part in zip(targets.classes, log_probabilities, strict=True)
        ]
        return labels[0] if targets.kind in ("binary", "multiclass") else np.column_stack(labels)

    def predict_proba(self, X: Any, return_std: bool = False) -> Any:
        """Predict class probabilities, averaged over the networks.

        Parameters
        ----------
        X : table of shape (rows, columns)
        return_std : bool, default=False
            Whether to also return the standard deviation of each probability over the networks, before calibration. It
            measures how much the networks disagree.

        Returns
        -------
        array of shape (rows, classes)
            The probabilities. Columns are in the order of `classes_`. For multilabel targets, the probabilities of 1,
            of shape (rows, outputs); for several targets, a list of arrays. If `return_std=True`, a tuple
            (probabilities, standard deviations).
        """
        check_is_fitted(self, "fitted_")
        if return_std and self.fitted_.n_networks == 1:
            raise ValueError("return_std=True requires at least two networks; fit with n_folds>=2")
        parts = self._predicted(X, self._reduce_with_std if return_std else self._reduce)
        kind, n_targets = self._class_targets().kind, len(self._class_targets().classes)
        logs, deviations = parts[:n_targets], parts[n_targets:]
        if kind == "one":
            ones = np.ones((len(logs[0]), 1))
            return (ones, np.zeros_like(ones)) if return_std else ones
        probabilities = self._as_predicted(np.concatenate([np.exp(part) for part in logs], axis=1))
        if not return_std:
            return probabilities
        if kind == "multilabel":
            return probabilities, np.column_stack([part[:, 1] for part in deviations])
        return probabilities, deviations if kind == "joint" else deviations[0]

    def _as_predicted(self, combined: Array) -> Any:
        targets = self._class_targets()
        if targets.kind == "one":
            return np.where(np.isnan(combined[:, :1]), np.nan, 1.0)
        parts = targets.parts(combined)
        if targets.kind == "multilabel":
            return np.column_stack([part[:, 1] for part in parts])
        probabilities = [part / part.sum(axis=1, keepdims=True) for part in parts]
        return probabilities if targets.kind == "joint" else probabilities[0]

    def predict_log_proba(self, X: Any) -> Any:
        """Predict log-probabilities. They are accurate even if a probability would round to 0."""
        parts = self._predicted(X, self._reduce)
        targets = self._class_targets()
        if targets.kind == "one":
            return np.zeros((len(parts[0]), 1))
        if targets.kind == "multilabel":
            return np.column_stack([part[:, 1] for part in parts])
        return parts if targets.kind == "joint" else parts[0]

    def decision_function(self, X: Any) -> Any:
        """Predict log-odds for two classes and for multilabel targets, and log-probabilities otherwise.

        For a single class, this is 0.

        Parameters
        ----------
        X : table of shape (rows, columns)

        Returns
        -------
        array of shape (rows,), (rows, classes) or (rows, outputs), or a list of arrays for several targets
        """
        parts = self._predicted(X, self._reduce)
        targets = self._class_targets()
        if targets.kind == "multilabel":
            return np.column_stack([part[:, 1] - part[:, 0] for part in parts])
        if targets.kind == "one":
            return np.zeros(len(parts[0]))
        if targets.kind == "binary":
            return parts[0][:, 1] - parts[0][:, 0]
        return parts if targets.kind == "joint" else parts[0]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy: the fraction of rows for which all labels are predicted correctly.

        Parameters
        ----------
        X : table of shape (rows, columns)
        y : array-like of shape (rows,) or (rows, outputs)
        sample_weight : array-like of shape (rows,), default=None

        Returns
        -------
        float
        """
        y = self._check_y(y, "y")
        predicted = self.predict(X)
        check_lengths(len(predicted), y)
        self._check_scored(y)
        return self._score_labels(y, predicted, sample_weights(sample_weight, len(y)))

    def _check_scored(self, y: Array) -> None:
        targets = self._class_targets()
        n_columns = len(targets.classes) if targets.kind in ("multilabel", "joint") else None
        if y.shape[1:] != (() if n_columns is None else (n_columns,)):
            shape = (len(y),) if n_columns is None else (len(y), n_columns)
            raise ValueError(f"y has shape {y.shape}; expected {shape}, the shape of the predictions")
        for column, classes in zip(y.reshape(len(y), -1).T, targets.classes, strict=True):
            kinds = [_kind_of_labels(labels) for labels in (column, classes)]
            if kinds[0] != kinds[1] and "others" not in kinds:
                own, known = column[:1].tolist()[0], classes[:1].tolist()[0]
                raise ValueError(
                    f"y holds {kinds[0]} such as {own!r}, but the classes are {kinds[1]} such as {known!r}; "
                    "pass labels of the same type as in fit"
                )

    @staticmethod
    def _score_labels(y: Array, predicted: Array, sample_weight: Any) -> float:
        right = y == predicted
        right = right.all(axis=1) if right.ndim == 2 else right
        return float(np.average(right, weights=sample_weight))

    def _score_reduced(self, parts: list[Array], y: Array, sample_weight: Any) -> float:
        return self._score_labels(y, self._labels(parts), sample_weight)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        return tags


def _kind_of_labels(labels: Array) -> str:
    """Return "numbers" (including booleans), "strings" or "others"."""
    if labels.dtype.kind == "O":
        kinds = {"strings" if isinstance(value, str) else "others" for value in labels}
        return kinds.pop() if len(kinds) == 1 else "others"
    return "numbers" if labels.dtype.kind in "biufc" else "strings" if labels.dtype.kind in "SU" else "others"


def _given_class_weights(class_weight: Any, y: Array, targets: ClassTargets) -> Array:
    """Return the class weight of each row; these rows need not contain all classes."""
    columns = targets.codes(y).reshape(len(y), -1).T
    groups = class_weight if isinstance(class_weight, list) else [class_weight]
    if len(groups) != len(columns):
        raise ValueError(
            f"class_weight={class_weight!r:.100} does not match y with {len(columns)} columns; expected a list of "
            f"{len(columns)} dicts from label to weight, one for each column"
        )
    weights = np.ones(len(y))
    for group, codes, classes in zip(groups, columns, targets.classes, strict=False):
        weights *= compute_class_weight(dict(group), classes=classes, y=classes)[codes]
    return weights
