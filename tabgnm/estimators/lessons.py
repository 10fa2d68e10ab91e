"""What a small machine learns from: labels, or the predictions of a fitted estimator."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from tabgnm.estimators import prediction
from tabgnm.estimators.checks import check_lengths, sample_weights
from tabgnm.estimators.targets import ClassTargets, Targets
from tabgnm.nn.losses import BinaryCrossEntropy, Loss, Pinball, Quantiles
from tabgnm.nn.soft_cross_entropy import SoftCrossEntropy
from tabgnm.table import RawTable, TableEncoder, TableSettings, read_table
from tabgnm.training import Table

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator

Array = NDArray[Any]

# Rows in all that a machine is taught on, where there are fewer. Mixed rows lie where no real ones do: more of them, or
# more of their columns swapped, cost a small machine edges that it lacks elsewhere.
_AUGMENTED_ROWS = 5_000
_SWAPPED = 0.1  # share of the columns that an augmented row takes from another one
_LABEL_SHARE = 0.5  # machines that learn from labels and predictions are better than those that learn from either
_MAX_ONE_HOT = 12  # levels of a category; those that are less frequent have no input


@dataclass(frozen=True, eq=False)
class Lesson:
    """What a small machine is to learn, and how it is judged.

    Attributes
    ----------
    encoder : TableEncoder
    table : Table
        Encoded rows with their targets; real rows first, then augmented ones.
    n_real : int
    source : Tensor
        The real row that each row is, or takes most of its columns from.
    loss : Loss
        That is trained with.
    targets : Targets
        In whose terms predictions are made.
    judged : Tensor
        Targets of the real rows that the machine is judged by.
    judged_by : {"target", "model"}
        Whether these are true targets or predictions of the teacher.
    sample_weight : Tensor or None
        Of all rows, times class weights; an augmented row has the weight of its source.
    score_weight : Array or None
        Sample weights of the real rows without class weights: scores are those of `score`.
    strata : Array or None
    """

    encoder: TableEncoder
    table: Table
    n_real: int
    source: Tensor
    loss: Loss
    targets: Targets
    judged: Tensor
    judged_by: str
    sample_weight: Tensor | None
    score_weight: Array | None
    strata: Array | None


def _readable_settings(estimator: TabularEstimator) -> TableSettings:
    """Return the settings of a table whose encoded columns a person can read."""
    return TableSettings(
        scaling="standard", numeric_embedding=None, max_one_hot=_MAX_ONE_HOT, level_dim=0, kinds=estimator.column_kinds
    )


def lesson_of_labels(estimator: TabularEstimator, X: Any, y: Any, sample_weight: Any) -> tuple[Lesson, RawTable]:
    """Return what is to be learned from labels."""
    raw = read_table(X)
    labels = estimator._check_y(y, "y")
    check_lengths(raw.n_rows, labels)
    estimator._check_learnable(labels, "y", raw.source.row)
    given = sample_weights(sample_weight, raw.n_rows)
    weights = estimator._row_weights(labels, given, None)
    classes = None
    if weights is not None and (weights == 0).any():
        rows = _rows_of_positive_weight(weights)
        classes = estimator._labels_of_all_rows(labels)
        raw, labels, weights, given = raw.take(rows), labels[rows], weights[rows], _taken(given, rows)
    weights, given = _scaled(weights), _scaled(given)
    targets = estimator._make_targets(labels, weights, classes, may_vary=False)
    encoder = TableEncoder(_readable_settings(estimator)).fit(raw)
    numbers = targets.tensor(labels, torch.float32)
    table = Table(torch.as_tensor(encoder.encode(raw)), numbers)
    own = None if weights is None else torch.as_tensor(weights)
    source = torch.arange(raw.n_rows)
    strata = targets.strata(labels)
    lesson = Lesson(encoder, table, raw.n_rows, source, targets.loss, targets, numbers, "target", own, given, strata)
    return lesson, raw


def _taken(weights: Array | None, rows: Array) -> Array | None:
    return None if weights is None else weights[rows]


def _scaled(weights: Array | None) -> Array | None:
    """Return weights of at most 1: only their ratios matter, and those of single precision are limited."""
    return None if weights is None else weights / weights.max()


def _rows_of_positive_weight(weights: Array) -> Array:
    rows = np.flatnonzero(weights)
    if not len(rows):
        raise ValueError("all rows have zero weight; expected at least one positive weight")
    return rows


def lesson_of_teacher(
    teacher: TabularEstimator,
    X: Any,
    y: Any,
    sample_weight: Any,
    label_share: float | None,
    n_augmented: int | None,
    rng: np.random.RandomState,
) -> tuple[Lesson, RawTable]:
    """Return what is to be learned from the predictions of a fitted estimator, on real and augmented rows.

    On real rows, it is the weighted mean of predictions and labels, if there are labels.
    """
    raw = teacher._matched(read_table(X))
    fitted = teacher.fitted_
    targets = fitted.targets
    labels = None if y is None else teacher._check_y(y, "y")
    if labels is not None:
        check_lengths(raw.n_rows, labels)
        teacher._check_learnable(labels, "y", raw.source.row)
    given = sample_weights(sample_weight, raw.n_rows)
    weights = given if labels is None else teacher._row_weights(labels, given, None)
    hard = np.asarray(teacher.predict(X)) if labels is None else labels
    if weights is not None and (weights == 0).any():
        rows = _rows_of_positive_weight(weights)
        raw, hard, weights, given = raw.take(rows), hard[rows], weights[rows], _taken(given, rows)
    weights, given = _scaled(weights), _scaled(given)
    # A quantile of predicted quantiles is not a quantile of the target, and neither is their mean.
    from_labels = _predicts_quantiles(targets)
    if from_labels and labels is None:
        raise ValueError(
            "a small machine for quantiles learns from targets, because a quantile of predicted quantiles is not a "
            "quantile of the target; call distill(X, y)"
        )
    if from_labels and n_augmented:
        warnings.warn(f"n_augmented={n_augmented} is not used: quantiles are learned from y", stacklevel=3)
    if label_share is None:  # labels that the teacher learned with weights are not learned without
        label_share = 0.0 if fitted.weighted and given is None else _LABEL_SHARE
    elif from_labels or (labels is None and label_share):
        cause = "quantiles are learned from y" if from_labels else "y is not given"
        warnings.warn(f"label_share={label_share} is not used: {cause}", stacklevel=3)
    n_rows = raw.n_rows
    n_more = max(0, _AUGMENTED_ROWS - n_rows) if n_augmented is None else n_augmented
    n_more = 0 if from_labels else n_more
    first = np.concatenate([np.arange(n_rows), rng.randint(n_rows, size=n_more)])
    second = np.concatenate([np.arange(n_rows), rng.randint(n_rows, size=n_more)])
    swapped = rng.uniform(size=(len(first), raw.n_columns)) < _SWAPPED

    def mixed(encoder: TableEncoder, dtype: Any) -> Tensor:
        encoded = encoder.encode(raw, dtype=dtype)
        own = swapped[:, encoder.owners]
        return torch.as_tensor(np.where(own, encoded[second], encoded[first]))

    encoder = TableEncoder(replace(_readable_settings(teacher), kinds=fitted.encoders[0].learned_kinds)).fit(raw)
    x = mixed(encoder, np.float32)
    judged, strata = targets.tensor(hard, torch.float32), targets.strata(hard)
    if from_labels:
        loss, taught = targets.loss, judged
    else:
        inputs = [mixed(encoder, fitted.dtype) for encoder in fitted.encoders]
        size = prediction.block_rows(max(encoder.n_encoded for encoder in fitted.encoders))
        blocks = ([rows[start : start + size] for rows in inputs] for start in range(0, len(first), size))
        loss, taught = _imitated(targets, prediction.map_outputs(teacher, blocks, teacher._reduce, len(first)))
        if labels is not None:
            real = torch.lerp(taught[:n_rows], _as_taught(targets, judged), label_share)
            taught = torch.cat([real, taught[n_rows:]])
    source = torch.as_tensor(first)
    judged_by = "model" if y is None else "target"
    own = None if weights is None else torch.as_tensor(weights)[source]
    return Lesson(encoder, Table(x, taught), n_rows, source, loss, targets, judged, judged_by, own, given, strata), raw


def _predicts_quantiles(targets: Targets) -> bool:
    """Whether the model predicts quantiles other than the median alone."""
    return isinstance(targets.loss, Quantiles) or (isinstance(targets.loss, Pinball) and targets.loss.quantile != 0.5)


def _imitated(targets: Targets, parts: list[Array]) -> tuple[Loss, Tensor]:
    """Return the loss for imitating the predictions of a model, and what it learns from."""
    if isinstance(targets, ClassTargets):
        return _soft(targets, [np.exp(part) for part in parts])
    return targets.loss, targets.tensor(parts[0], torch.float32)


def _as_taught(targets: Targets, judged: Tensor) -> Tensor:
    """Return true targets in the form of those that `_imitated` returns."""
    if not (isinstance(targets, ClassTargets) and targets.kind in ("multiclass", "joint")):
        return judged.to(torch.float32).reshape(len(judged), -1)
    columns = judged.reshape(len(judged), -1).to(torch.int64).unbind(dim=1)
    one_hot = [F.one_hot(own, len(classes)) for own, classes in zip(columns, targets.classes, strict=True)]
    return torch.cat(one_hot, dim=1).to(torch.float32)


def _soft(targets: ClassTargets, probabilities: list[Array]) -> tuple[Loss, Tensor]:
    """Return the loss for probabilities of the classes of each target, and what it learns from."""
    if targets.kind in ("multiclass", "joint"):
        sizes = tuple(map(len, targets.classes))
        return SoftCrossEntropy(sizes), torch.as_tensor(np.concatenate(probabilities, axis=1), dtype=torch.float32)
    of_ones = np.column_stack([part[:, 1] for part in probabilities])
    return BinaryCrossEntropy(), torch.as_tensor(of_ones, dtype=torch.float32)
