"""Data sets encoded for the protocol: numbers raw or standardised, categories one-hot, targets as numbers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tabgnm.datasets import dataset_info, load_dataset
from tabgnm.nn.losses import BinaryCrossEntropy, CrossEntropy, Loss, SquaredError
from tabgnm.paper.protocol import Fold, Setting, Source
from tabgnm.training import Table

Array = NDArray[Any]

# With one column per day, there would be more inputs than nodes in any network of the grid; year, month and weekday are
# columns already.
LEFT_OUT = {"bike_sharing": ("dteday",)}
# The published error of 0.0004 is consistent with the published R² of 0.999 only if the target has variance 1.
STANDARDISED_TARGETS = {("bike_sharing", "paper")}


@dataclass(frozen=True, eq=False)
class Encoded:
    """The rows for one fold, and the scaling of targets: `target * scale + offset` is the original target."""

    table: Table
    offset: float = 0.0
    scale: float = 1.0


@dataclass(frozen=True, eq=False)
class PaperData:
    """A loaded data set: numbers (NaN if missing), one-hot categories, and class indices or numeric targets.

    The levels of a category are those of all rows. A level that does not occur in the training rows of a fold is an
    input that is always 0 there, so networks have the same shape in every fold.
    """

    source: Source
    numbers: Array  # (rows, numeric columns), float64
    one_hots: Array  # (rows, levels of all categories), float32
    targets: Array

    @property
    def loss(self) -> Loss:
        """Binary or categorical cross-entropy, or squared error."""
        if self.source.task == "regression":
            return SquaredError()
        return BinaryCrossEntropy() if self.source.n_outputs == 1 else CrossEntropy()

    def encoded(self, folds: list[Fold], setting: Setting) -> list[Encoded]:
        """Encode all rows for each fold, fitted on its training rows; folds share a table if it is the same."""
        if setting.scaling == "none" and not np.isnan(self.numbers).any() and not self._target_is_scaled(setting):
            shared = self._encode(folds[0], setting)
            return [shared] * len(folds)
        return [self._encode(fold, setting) for fold in folds]

    def _encode(self, fold: Fold, setting: Setting) -> Encoded:
        numbers = self.numbers
        if numbers.size:
            seen = numbers[fold.train]
            known = ~np.isnan(seen)
            count = np.maximum(known.sum(axis=0), 1)
            mean = np.where(known, seen, 0.0).sum(axis=0) / count
            numbers = np.where(np.isnan(numbers), mean, numbers)
            if setting.scaling == "standard":
                deviation = np.sqrt((np.where(known, seen - mean, 0.0) ** 2).sum(axis=0) / count)
                numbers = (numbers - mean) / np.where(deviation > 0, deviation, 1.0)
        x = torch.as_tensor(np.concatenate([numbers.astype(np.float32), self.one_hots], axis=1))
        if self.source.task == "classification":
            targets = torch.as_tensor(self.targets)
            return Encoded(Table(x, targets.float().unsqueeze(1) if self.source.n_outputs == 1 else targets.long()))
        offset, scale = 0.0, 1.0
        if self._target_is_scaled(setting):
            offset, scale = float(self.targets[fold.train].mean()), float(self.targets[fold.train].std()) or 1.0
        y = torch.as_tensor((self.targets - offset) / scale, dtype=torch.float32).unsqueeze(1)
        if (self.source.name, self.source.variant) in STANDARDISED_TARGETS:
            offset, scale = 0.0, 1.0  # errors remain in these units, as in the paper
        return Encoded(Table(x, y), offset, scale)

    def _target_is_scaled(self, setting: Setting) -> bool:
        if self.source.task == "classification":
            return False
        return setting.scaling == "standard" or (self.source.name, self.source.variant) in STANDARDISED_TARGETS


@lru_cache(maxsize=32)
def load(name: str, variant: str, data_home: str | None) -> PaperData:
    """Load a data set. A process that trains several fleets on it reads it only once."""
    bunch = load_dataset(name, variant=variant, data_home=data_home)  # type: ignore[arg-type] # checked there
    left_out = LEFT_OUT.get(name, ())
    columns = {own: bunch.data[:, at] for at, own in enumerate(bunch.feature_names) if own not in left_out}
    categories = set(bunch.categorical_features) - set(left_out)
    numeric = [values.astype(np.float64) for own, values in columns.items() if own not in categories]
    numbers = np.stack(numeric, axis=1) if numeric else np.zeros((len(bunch.target), 0))
    one_hots = [_one_hot(values) for own, values in columns.items() if own in categories]
    levels = np.concatenate([np.zeros((len(bunch.target), 0), np.float32), *one_hots], axis=1)
    if bunch.task == "classification":
        labels, targets = np.unique(bunch.target, return_inverse=True)
        n_outputs = 1 if len(labels) == 2 else len(labels)
    else:
        targets, n_outputs = np.asarray(bunch.target, dtype=np.float64), 1
    digest = hashlib.sha256()
    for part in (numbers, levels, targets):
        digest.update(np.ascontiguousarray(part).tobytes())
    source = Source(
        name=name,
        variant=variant,
        digest=digest.hexdigest(),
        task=bunch.task,
        n_rows=len(targets),
        n_inputs=numbers.shape[1] + levels.shape[1],
        n_outputs=n_outputs,
    )
    return PaperData(replace(source, note=_note(source, bunch.leaking_features)), numbers, levels, targets)


def _one_hot(values: Array) -> Array:
    """Return one column per level, in the order of their names; a missing value is a level of its own."""
    names = np.array(["" if value != value else str(value) for value in values])
    _, codes = np.unique(names, return_inverse=True)
    return np.eye(codes.max() + 1, dtype=np.float32)[codes]


def _note(source: Source, leaking: list[str]) -> str:
    """Return a remark about the rows, for readers of a table."""
    expected = dataset_info(source.name).n_samples
    notes = []
    if source.n_rows < expected:
        notes.append(f"a sample: {source.n_rows:,} of {expected:,} rows")
    if leaking:
        notes.append(f"leaky: with {' and '.join(leaking)}")
    elif dataset_info(source.name).leaking:
        notes.append(f"clean: without {' and '.join(dataset_info(source.name).leaking)}")
    if (source.name, source.variant) in STANDARDISED_TARGETS:
        notes.append("target standardised")
    return "; ".join(notes)
