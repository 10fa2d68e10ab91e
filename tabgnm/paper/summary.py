"""Summaries of trainings as in the tables of the paper: selection in each fold, means, differences, statistics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import wilcoxon

from tabgnm.paper.protocol import MODELS, Source
from tabgnm.paper.published import Published, published
from tabgnm.paper.work import Result


@dataclass(frozen=True)
class Cell:
    """The results of one model on one data set: the selected training of each fold, evaluated on its test rows."""

    dataset: str
    variant: str
    note: str
    task: str
    model: str
    folds: tuple[int, ...]
    n_configurations: tuple[int, int]  # the fewest and the most that a fold chose from
    mean1: float  # NaN if a selected training gave no finite outputs
    std1: float
    mean2: float
    std2: float
    fold_values: tuple[float, ...]  # of the first measure
    paper: Published | None  # None where the paper's numbers are of other data

    @property
    def difference(self) -> float | None:
        """How much better the first metric is than published, in standard deviations of the paper (negative: worse)."""
        if self.paper is None or not math.isfinite(self.mean1):
            return None
        gain = self.mean1 - self.paper.mean1 if self.task == "classification" else self.paper.mean1 - self.mean1
        if self.paper.std1 == 0:
            return 0.0 if gain == 0 else math.copysign(math.inf, gain)
        return gain / self.paper.std1

    def value_of_fold(self, fold: int) -> float:
        """Return the first measure on the test rows of a fold."""
        return self.fold_values[self.folds.index(fold)]

    @property
    def label(self) -> str:
        """Data set as a table names it."""
        return f"{self.dataset} ({self.note})" if self.note else self.dataset

    def as_dict(self) -> dict[str, Any]:
        """Plain values, which JSON can write."""
        difference = self.difference
        finite = difference is not None and math.isfinite(difference)
        return asdict(self) | {"difference": difference if finite else None, "label": self.label}


def selected(results: Sequence[Result]) -> dict[int, Result]:
    """Return the training with the lowest validation loss of each fold; of equal ones, the first in the store.

    Test rows are not used for the selection: a training whose test outputs are not finite may be selected.
    """
    best: dict[int, Result] = {}
    for result in results:
        if result.val_loss is None:
            continue
        known = best.get(result.fold)
        if known is None or known.val_loss is None or result.val_loss < known.val_loss:
            best[result.fold] = result
    return dict(sorted(best.items()))


def summarize(sources: Sequence[Source], results: Sequence[Result]) -> list[Cell]:
    """Return one cell per data set and model, in the order of the sources; `results` are those of one setting."""
    cells = []
    for source in sources:
        for model in MODELS:
            own = [r for r in results if (r.dataset, r.variant, r.model) == (source.name, source.variant, model)]
            best = selected(own)
            if not best:
                continue
            first, second = (
                np.array([getattr(r, name) for r in best.values()], float) for name in ("metric1", "metric2")
            )
            per_fold = [sum(result.fold == fold for result in own) for fold in best]
            # Clean versions of leaky data sets and samples are other data than the paper's.
            same_data = source.variant == "paper"
            cells.append(
                Cell(
                    dataset=source.name,
                    variant=source.variant,
                    note=source.note,
                    task=source.task,
                    model=model,
                    folds=tuple(best),
                    n_configurations=(min(per_fold), max(per_fold)),
                    mean1=float(first.mean()),
                    std1=float(first.std()),
                    mean2=float(second.mean()),
                    std2=float(second.std()),
                    fold_values=tuple(first.tolist()),
                    paper=published().get((source.name, model)) if same_data else None,
                )
            )
    return cells


@dataclass(frozen=True)
class Comparison:
    """GNM against MLP on the folds that both have: mean gain of the GNM, and Wilcoxon's p-value (two-sided).

    A gain that is not finite, as a model's outputs are not, has no p-value.
    """

    label: str
    task: str
    n_folds: int
    gain: float
    p_value: float | None


@dataclass(frozen=True)
class Verdict:
    """GNM against MLP over data sets of one task, without the clean variants, which are the same data once more.

    Data sets on which a model gives no finite outputs do not count either.

    How often it is better, here and by the published numbers of the same data sets, and Wilcoxon's p-value (two-sided).
    """

    task: str
    n_data_sets: int
    n_better: int
    n_equal: int
    n_better_published: int
    p_value: float | None


def compare(cells: Sequence[Cell]) -> tuple[list[Comparison], list[Verdict]]:
    """Compare the models on every data set and fold that both have, and over the data sets of each task."""
    by_model = {(cell.dataset, cell.variant, cell.model): cell for cell in cells}
    comparisons = []
    relative: dict[str, dict[str, float]] = {}
    for gnm in cells:
        mlp = by_model.get((gnm.dataset, gnm.variant, "mlp"))
        if gnm.model != "gnm" or mlp is None:
            continue
        both = sorted(set(gnm.folds) & set(mlp.folds))
        if not both:
            continue
        ours, theirs = (np.array([cell.value_of_fold(fold) for fold in both]) for cell in (gnm, mlp))
        gains = ours - theirs if gnm.task == "classification" else theirs - ours
        comparisons.append(Comparison(gnm.label, gnm.task, len(gains), float(gains.mean()), _p_value(gains)))
        if gnm.variant == "clean" or not np.isfinite(gains).all():
            continue
        # Errors have units: over data sets they are compared in shares of the MLP's error.
        error = float(100 - theirs.mean() if gnm.task == "classification" else theirs.mean())
        relative.setdefault(gnm.task, {})[gnm.dataset] = float(gains.mean()) / max(error, 1e-12)
    verdicts = []
    for task, of_data_sets in relative.items():
        gains = np.array(list(of_data_sets.values())).round(12)  # means of equal values may differ in the last digit
        n_published = sum(_is_better_published(name, task) for name in of_data_sets)
        n_better, n_equal = int((gains > 0).sum()), int((gains == 0).sum())
        verdicts.append(Verdict(task, len(gains), n_better, n_equal, n_published, _p_value(gains)))
    return comparisons, verdicts


def _is_better_published(name: str, task: str) -> bool:
    gnm, mlp = (published()[name, model].mean1 for model in MODELS)
    return gnm > mlp if task == "classification" else gnm < mlp


def _p_value(gains: np.ndarray[Any, Any]) -> float | None:
    """Wilcoxon's signed-rank test; 1 where all gains are 0, None for fewer than two or any that is not finite."""
    if len(gains) < 2 or not np.isfinite(gains).all():
        return None
    ranked = _ranked(gains)
    return 1.0 if not ranked.any() else float(wilcoxon(ranked).pvalue)


def _ranked(gains: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The order of the gains' sizes, with their signs, which is all that Wilcoxon's test sees of them.

    Gains of as many rows are ties, though as differences of percentages their last bits differ. Rounding would still
    tear some apart, those at half a digit; so sizes count as different where there is a gap between them.
    """
    sizes = np.abs(gains)
    order = np.argsort(sizes)
    ranks = np.empty(len(gains))
    ranks[order] = np.cumsum(np.diff(sizes[order], prepend=0.0) > 1e-9 * sizes.max())
    signed: np.ndarray[Any, Any] = np.copysign(ranks, gains)
    return signed
