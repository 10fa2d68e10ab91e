"""From single trainings to the paper's tables: selection within each fold, means, differences, and statistics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import wilcoxon

from tabgnm.paper.published import Published, published
from tabgnm.paper.work import Result


@dataclass(frozen=True)
class Cell:
    """One model on one data set: the selected configuration of each fold on its test rows."""

    dataset: str
    variant: str
    scaling: str
    model: str
    task: str
    n_folds: int
    n_configurations: int  # the most that any fold chose from
    mean1: float
    std1: float
    mean2: float
    std2: float
    fold_values: tuple[float, ...]  # of the first measure
    note: str
    paper: Published | None

    @property
    def comparable(self) -> bool:
        """Whether the published number is of the same data: leaky sets in the paper's variant only, no samples."""
        from tabgnm.paper.run import LEAKY

        return not self.note and (self.dataset not in LEAKY or self.variant == "paper")

    @property
    def difference(self) -> float | None:
        """By how many standard deviations of the paper ours is better (negative: worse) in the first measure."""
        if self.paper is None:
            return None
        gain = self.mean1 - self.paper.mean1 if self.task == "classification" else self.paper.mean1 - self.mean1
        if self.paper.std1 == 0:
            return 0.0 if gain == 0 else math.copysign(math.inf, gain)
        return gain / self.paper.std1

    @property
    def label(self) -> str:
        """Data set as a table names it."""
        variant = "" if self.variant == "clean" else f", {self.variant}"
        note = f", {self.note}" if self.note else ""
        return f"{self.dataset}{variant}{note}"

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self) | {"difference": self.difference, "label": self.label}


def selected(results: Sequence[Result]) -> dict[int, Result]:
    """Of each fold the training with the lowest validation loss; ties go to the first in the order of the store."""
    best: dict[int, Result] = {}
    for result in results:
        if result.val_loss is None or result.metric1 is None:
            continue
        if result.fold not in best or result.val_loss < (best[result.fold].val_loss or math.inf):
            best[result.fold] = result
    return dict(sorted(best.items()))


def summarise(results: Sequence[Result]) -> list[Cell]:
    """One cell per data set, variant, scaling and model."""
    groups: dict[tuple[str, str, str, str], list[Result]] = {}
    for result in results:
        groups.setdefault((result.dataset, result.variant, result.scaling, result.model), []).append(result)
    cells = []
    for (dataset, variant, scaling, model), own in groups.items():
        best = selected(own)
        if not best:
            continue
        values1 = np.array([result.metric1 for result in best.values()], dtype=float)
        values2 = np.array([result.metric2 for result in best.values()], dtype=float)
        per_fold = [sum(result.fold == fold for result in own) for fold in best]
        cells.append(
            Cell(
                dataset=dataset,
                variant=variant,
                scaling=scaling,
                model=model,
                task=_task(dataset),
                n_folds=len(best),
                n_configurations=max(per_fold),
                mean1=float(values1.mean()),
                std1=float(values1.std()),
                mean2=float(values2.mean()),
                std2=float(values2.std()),
                fold_values=tuple(values1.tolist()),
                note=own[0].note,
                paper=published().get((dataset, model)),
            )
        )
    return cells


def _task(dataset: str) -> str:
    from tabgnm.datasets import dataset_info

    return dataset_info(dataset).task


@dataclass(frozen=True)
class Comparison:
    """GNM against MLP on one data set, fold by fold: mean gain of the GNM, and Wilcoxon's p-value (two-sided)."""

    label: str
    gain: float
    p_value: float


def compare(cells: Sequence[Cell]) -> tuple[list[Comparison], float]:
    """Compare the models on every data set that both have, and over all of them (p-value of the relative gains)."""
    by_key = {(cell.dataset, cell.variant, cell.scaling, cell.model): cell for cell in cells}
    comparisons, relative = [], []
    for (dataset, variant, scaling, model), gnm in by_key.items():
        mlp = by_key.get((dataset, variant, scaling, "mlp"))
        if model != "gnm" or mlp is None or len(gnm.fold_values) != len(mlp.fold_values):
            continue
        gains = np.array(gnm.fold_values) - np.array(mlp.fold_values)
        gains = gains if gnm.task == "classification" else -gains
        comparisons.append(Comparison(gnm.label, float(gains.mean()), _p_value(gains)))
        # Errors have units, shares of right labels have not: relative to the spread of the MLP both compare.
        spread = max(mlp.std1, 1e-12)
        relative.append(float(gains.mean()) / spread)
    return comparisons, _p_value(np.array(relative))


def _p_value(gains: np.ndarray[Any, Any]) -> float:
    """Wilcoxon's signed-rank test; 1 where all gains are 0, NaN for fewer than two."""
    if len(gains) < 2:
        return math.nan
    return 1.0 if not gains.any() else float(wilcoxon(gains).pvalue)
