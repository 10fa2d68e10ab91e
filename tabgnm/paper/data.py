"""Data sets as the protocol sees them: encoded per fold, with targets as numbers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tabgnm.datasets import load_dataset
from tabgnm.nn.losses import BinaryCrossEntropy, CrossEntropy, Loss, SquaredError
from tabgnm.paper.protocol import Fold, Setting, Source
from tabgnm.table import RawTable, TableEncoder, TableSettings, read_table
from tabgnm.training import Table

Array = NDArray[Any]

# Every category one-hot, whatever its number of levels: the paper has no embeddings.
_ONE_HOT = 10_000


@dataclass(frozen=True, eq=False)
class PaperData:
    """A loaded data set: the table before encoding, and class numbers or numbers to predict."""

    source: Source
    raw: RawTable
    targets: Array
    categories: tuple[int, ...]

    @property
    def loss(self) -> Loss:
        """Binary or categorical cross-entropy, or squared error."""
        if self.source.task == "regression":
            return SquaredError()
        return BinaryCrossEntropy() if self.source.n_outputs == 1 else CrossEntropy()

    def settings(self, scaling: str) -> TableSettings:
        """How columns are encoded."""
        kinds: dict[str | int, str] = dict.fromkeys(self.categories, "category")
        return TableSettings(
            scaling=scaling, numeric_embedding=None, max_one_hot=_ONE_HOT, min_level_count=1, kinds=kinds or None
        )

    def encoded(self, fold: Fold, setting: Setting) -> Table:
        """Encode all rows by what the training rows of a fold tell."""
        encoder = TableEncoder(self.settings(setting.scaling)).fit(self.raw, rows=fold.train)
        x = torch.as_tensor(encoder.encode(self.raw))
        if x.shape[1] != self.source.n_inputs:
            x = self._padded(x)
        return Table(x, self.target_tensor())

    def _padded(self, x: torch.Tensor) -> torch.Tensor:
        """Add inputs that are always 0: a rare level that a fold has not seen must not change the network's shape."""
        missing = self.source.n_inputs - x.shape[1]
        if missing < 0:
            raise ValueError(f"a fold has {x.shape[1]} encoded inputs, but all rows together {self.source.n_inputs}")
        return torch.nn.functional.pad(x, (0, missing))

    def target_tensor(self) -> torch.Tensor:
        """Targets as the loss takes them; numbers are not scaled, as in the paper."""
        targets = torch.as_tensor(self.targets)
        if self.source.task == "regression" or self.source.n_outputs == 1:
            return targets.float().unsqueeze(1)
        return targets.long()


@lru_cache(maxsize=4)
def load(name: str, variant: str, data_home: str | None) -> PaperData:
    """Load a data set; workers that do several fleets of one data set in a row read it once."""
    bunch = load_dataset(name, variant=variant, data_home=data_home)  # type: ignore[arg-type]
    raw = read_table(bunch.data)
    categories = tuple(bunch.feature_names.index(own) for own in bunch.categorical_features)
    if bunch.task == "classification":
        labels, targets = np.unique(bunch.target, return_inverse=True)
        n_outputs = 1 if len(labels) == 2 else len(labels)
    else:
        targets, n_outputs = np.asarray(bunch.target, dtype=np.float64), 1
    note = f"{raw.n_rows:,} of {bunch.n_samples_original:,} rows" if bunch.is_sample else ""
    digest = _digest(bunch.data, targets)
    blank = Source(name, variant, digest, bunch.task, raw.n_rows, 1, n_outputs, note)
    data = PaperData(blank, raw, targets, categories)
    n_inputs = TableEncoder(data.settings("none")).fit(raw).n_encoded
    source = Source(name, variant, digest, bunch.task, raw.n_rows, n_inputs, n_outputs, note)
    return PaperData(source, raw, targets, categories)


def _digest(rows: Array, targets: Array) -> str:
    digest = hashlib.sha256(np.ascontiguousarray(targets).tobytes())
    values = rows if rows.dtype.kind == "f" else np.array([str(value) for value in rows.ravel()])
    digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()
