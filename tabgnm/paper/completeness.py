"""Remarks for readers of the means: which trainings are missing, diverged, or have outputs that are not finite."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tabgnm.paper.protocol import MODELS, Unit
from tabgnm.paper.run import ExperimentPlan
from tabgnm.paper.summary import selected
from tabgnm.paper.work import Result


def gaps(plan: ExperimentPlan, results: Sequence[Result]) -> list[str]:
    """Compare planned and stored trainings of each data set and model; return a sentence for every difference."""
    found = {result.key: result for result in results}
    return [
        f"{source.label}, {model.upper()}: {gap}."
        for source in plan.sources
        for model in MODELS
        for gap in _gaps([unit for unit in plan.units if (unit.source, unit.body.model) == (source, model)], found)
    ]


def _gaps(units: Sequence[Unit], found: Mapping[str, Result]) -> Iterator[str]:
    """Yield the gaps of one model on one data set."""
    wanted: dict[int, list[str]] = {}
    for unit in units:
        for training, fold in unit.members():
            wanted.setdefault(fold, []).append(unit.key(training, fold))
    there = {fold: [found[key] for key in keys if key in found] for fold, keys in sorted(wanted.items())}
    results = [result for own in there.values() for result in own]
    if wanted and not results:
        yield f"missing, none of its {sum(map(len, wanted.values())):,} trainings has been done"
        return
    absent = [fold for fold, own in there.items() if not own]
    if absent:
        yield f"incomplete, {_folds(absent)} missing and not part of the means"
    partial = [fold for fold, own in there.items() if 0 < len(own) < len(wanted[fold])]
    if partial:
        fewest = min(partial, key=lambda fold: len(there[fold]))
        n_configurations = f"{len(there[fewest])} of {len(wanted[fewest])} configurations"
        yield f"incomplete, {_folds(partial)} chose from as few as {n_configurations}"
    n_diverged = sum(result.status == "diverged" for result in results)
    if n_diverged:
        yield f"{n_diverged:,} of {len(results):,} trainings diverged"
    lost = [fold for fold, own in there.items() if own and all(result.val_loss is None for result in own)]
    if lost:
        yield f"no training of {_folds(lost)} has a finite validation loss; not part of the means"
    broken = [fold for fold, result in selected(results).items() if result.metric1 is None]
    if broken:
        yield f"the selected models have outputs that are not finite on the test rows of {_folds(broken)}"


def _folds(numbers: Sequence[int]) -> str:
    return f"{'fold' if len(numbers) == 1 else 'folds'} {', '.join(map(str, numbers))}"
