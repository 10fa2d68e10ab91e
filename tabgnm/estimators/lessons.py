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
from tabgnm.estimators.folds import find_copies
from tabgnm.estimators.targets import ClassTargets, Targets
from tabgnm.nn.losses import BinaryCrossEntropy, Loss, Pinball, Quantiles
from tabgnm.nn.soft_cross_entropy import SoftCrossEntropy
from tabgnm.table import RawTable, TableEncoder, TableSettings, read_table
from tabgnm.training import Table

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator

Array = NDArray[Any]

# Smaller tables are augmented to this number of rows. Augmented rows lie where there are no real ones: with more of
# them, or with more columns swapped, a small machine would use edges to fit them that it needs elsewhere.
_AUGMENTED_ROWS = 5_000
_SWAPPED = 0.1  # fraction of the columns that an augmented row takes from another row
_LABEL_SHARE = 0.5  # learning from both labels and predictions is better than learning from either
_MAX_ONE_HOT = 12  # levels of a category; less frequent levels have no input


@dataclass(frozen=True, eq=False)
class Lesson:
    """The training data of a small machine, and the targets to evaluate it on.

    Attributes
    ----------
    encoder : TableEncoder
    table : Table
        Encoded rows with the targets to learn; real rows first, then augmented ones.
    n_real : int
        The number of real rows.
    source : Tensor
        The position of each real row, or of the real row that an augmented row takes most columns from.
    loss : Loss
        The training loss.
    targets : Targets
        Converts outputs to predictions.
    judged : Tensor
        The targets of the real rows for evaluation.
    judged_by : {"target", "model"}
        Whether these are true targets or predictions of the teacher.
    sample_weight : Tensor or None
        Weights of all rows, including class weights; an augmented row has the weight of its source.
    score_weight : Array or None
        Sample weights of the real rows without class weights, as in `score`.
    strata : Array or None
        The stratum of each real row, for stratified folds.
    copies : Array or None
        The distinct row that each real row is a copy of; copies are in the same fold.
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
    copies: Array | None


def _readable_settings(estimator: TabularEstimator) -> TableSettings:
    """Return settings for encoded columns that are easy to interpret."""
    return TableSettings(
        scaling="standard", numeric_embedding=None, max_one_hot=_MAX_ONE_HOT, level_dim=0, kinds=estimator.column_kinds
    )


def lesson_of_labels(estimator: TabularEstimator, X: Any, y: Any, sample_weight: Any) -> tuple[Lesson, RawTable]:
    """Return a lesson for learning from labels, and the table without rows of weight 0."""
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
    copies = find_copies(raw, labels, estimator.column_kinds, strata)
    return Lesson(
        encoder, table, raw.n_rows, source, targets.loss, targets, numbers, "target", own, given, strata, copies
    ), raw


def _taken(weights: Array | None, rows: Array) -> Array | None:
    return None if weights is None else weights[rows]


def _scaled(weights: Array | None) -> Array | None:
    """Scale weights to at most 1, because large ones could overflow float32; only their ratios matter."""
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
    """Return a lesson for learning the predictions of a fitted estimator on real and augmented rows, and the table.

    If there are labels, the targets of real rows are the weighted mean of predictions and labels.
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
    # A quantile of predicted quantiles is not a quantile of the target.
    from_labels = _predicts_quantiles(targets)
    if from_labels and labels is None:
        raise ValueError(
            "a small machine for quantiles learns from targets, because a quantile of predicted quantiles is not a "
            "quantile of the target; call distill(X, y)"
        )
    if from_labels and n_augmented:
        warnings.warn(f"n_augmented={n_augmented} is not used: quantiles are learned from y", stacklevel=3)
    if label_share is None:  # do not learn labels without weights if the teacher learned them with weights
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
    # Predictions are functions of the cells, so rows with equal cells are copies.
    copies = find_copies(raw, np.zeros(n_rows) if y is None else hard, teacher.column_kinds, strata)
    return Lesson(
        encoder, Table(x, taught), n_rows, source, loss, targets, judged, judged_by, own, given, strata, copies
    ), raw


def _predicts_quantiles(targets: Targets) -> bool:
    """Whether the model predicts quantiles other than the median alone."""
    return isinstance(targets.loss, Quantiles) or (isinstance(targets.loss, Pinball) and targets.loss.quantile != 0.5)


def _imitated(targets: Targets, parts: list[Array]) -> tuple[Loss, Tensor]:
    """Return the loss for imitating the predictions of a model, and the targets to learn."""
    if isinstance(targets, ClassTargets):
        return _soft(targets, [np.exp(part) for part in parts])
    return targets.loss, targets.tensor(parts[0], torch.float32)


def _as_taught(targets: Targets, judged: Tensor) -> Tensor:
    """Return true targets in the same form as the targets that `_imitated` returns."""
    if not (isinstance(targets, ClassTargets) and targets.kind in ("multiclass", "joint")):
        return judged.to(torch.float32).reshape(len(judged), -1)
    columns = judged.reshape(len(judged), -1).to(torch.int64).unbind(dim=1)
    one_hot = [F.one_hot(own, len(classes)) for own, classes in zip(columns, targets.classes, strict=True)]
    return torch.cat(one_hot, dim=1).to(torch.float32)


def _soft(targets: ClassTargets, probabilities: list[Array]) -> tuple[Loss, Tensor]:
    """Return the loss for soft labels, given the class probabilities of each target, and the targets to learn."""
    if targets.kind in ("multiclass", "joint"):
        sizes = tuple(map(len, targets.classes))
        return SoftCrossEntropy(sizes), torch.as_tensor(np.concatenate(probabilities, axis=1), dtype=torch.float32)
    of_ones = np.column_stack([part[:, 1] for part in probabilities])
    return BinaryCrossEntropy(), torch.as_tensor(of_ones, dtype=torch.float32)
