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
    n_configurations: tuple[int, int]  # the smallest and the largest number of candidates in a fold
    mean1: float  # NaN if the outputs of a selected training are not finite
    std1: float
    mean2: float
    std2: float
    fold_values: tuple[float, ...]  # of the first metric
    paper: Published | None  # None if the published numbers are for other data

    @property
    def difference(self) -> float | None:
        """Improvement of the first metric over the paper, in standard deviations of the paper (negative: worse)."""
        if self.paper is None or not math.isfinite(self.mean1):
            return None
        gain = self.mean1 - self.paper.mean1 if self.task == "classification" else self.paper.mean1 - self.mean1
        if self.paper.std1 == 0:
            return 0.0 if gain == 0 else math.copysign(math.inf, gain)
        return gain / self.paper.std1

    def value_of_fold(self, fold: int) -> float:
        """Return the first metric on the test rows of a fold."""
        return self.fold_values[self.folds.index(fold)]

    @property
    def label(self) -> str:
        """The name of the data set in tables."""
        return f"{self.dataset} ({self.note})" if self.note else self.dataset

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
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
            # Clean variants of leaky data sets, and samples, differ from the paper's data.
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

    If a gain is not finite, because the outputs of a model are not, there is no p-value.
    """

    label: str
    task: str
    n_folds: int
    gain: float
    p_value: float | None


@dataclass(frozen=True)
class Verdict:
    """GNM against MLP over the data sets of one task.

    Clean variants are excluded, because they are the same data again. So are data sets on which the outputs of a model
    are not finite. The attributes are how often the GNM is better, here and by the published numbers of the same data
    sets, and Wilcoxon's p-value (two-sided).
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
        # Errors have units, so across data sets they are compared relative to the MLP's error.
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
    """Return the p-value of Wilcoxon's signed-rank test.

    It is 1 if all gains are 0, and None if there are fewer than two gains or one is not finite.
    """
    if len(gains) < 2 or not np.isfinite(gains).all():
        return None
    ranked = _ranked(gains)
    return 1.0 if not ranked.any() else float(wilcoxon(ranked).pvalue)


def _ranked(gains: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the ranks of the gains by size, with their signs, which is all that Wilcoxon's test depends on.

    Gains of equally many rows are ties, although the last bits of these differences of percentages may differ.
    Rounding could still separate some of them, so two sizes count as different only if there is a gap between them.
    """
    sizes = np.abs(gains)
    order = np.argsort(sizes)
    ranks = np.empty(len(gains))
    ranks[order] = np.cumsum(np.diff(sizes[order], prepend=0.0) > 1e-9 * sizes.max())
    signed: np.ndarray[Any, Any] = np.copysign(ranks, gains)
    return signed
