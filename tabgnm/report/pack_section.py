"""The candidates of a model with their weights, and how their networks learned."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from tabgnm.estimators.base import TabularEstimator
from tabgnm.estimators.pack import NOT_SETTINGS
from tabgnm.report.class_charts import Chart
from tabgnm.report.svg import Panel, Scale, scale_of, thinned
from tabgnm.report.wording import count, number, percent, text, with_spread

MAX_CANDIDATES = 12
_MAX_GROUPS = 6
_MAX_NETWORKS = 8  # of a candidate whose curves are drawn
_MAX_POINTS = 80


@dataclass(frozen=True)
class CandidateLine:
    """A candidate as it is shown.

    Attributes
    ----------
    number : int
    weight : float
    shown_weight, loss, networks, epochs, seconds : str
    remark : str
        Why it has no weight, if that is known.
    settings : list of (str, str)
        Names and values that differ from those of most candidates.
    """

    number: int
    weight: float
    shown_weight: str
    loss: str
    networks: int
    epochs: str
    seconds: str
    remark: str
    settings: list[tuple[str, str]]


@dataclass(frozen=True)
class PackSection:
    """What the page shows of the pack."""

    summary: str
    common: list[tuple[str, str]]
    candidates: list[CandidateLine]
    n_left_out: int
    curves: list[Chart]
    note: str


def pack_section(model: TabularEstimator) -> PackSection:
    """Describe the candidates and the training of a model."""
    fitted = model.fitted_
    records = fitted.candidates
    ordered = sorted(records, key=lambda own: (-own["weight"], _or_infinite(own["loss"])))
    common = _common(records)
    n_kept = sum(own["weight"] > 0 for own in records) or len(fitted.groups)
    summary = (
        f"{count(len(records), 'candidate')} {'was' if len(records) == 1 else 'were'} trained, and {n_kept} "
        f"{'is' if n_kept == 1 else 'are'} part of the model: {count(fitted.n_networks, 'network')}. A candidate is "
        "one choice of settings, with one network per fold. The prediction is the weighted average of the networks."
        if records
        else f"The model has {count(fitted.n_networks, 'network')}."
    )
    curves = _curves(model)
    drawn = len(curves) and len(fitted.groups) > len(curves)
    return PackSection(
        summary=summary,
        common=sorted(common.items()),
        candidates=[_line(own, common) for own in ordered[:MAX_CANDIDATES]],
        n_left_out=max(0, len(ordered) - MAX_CANDIDATES),
        curves=curves,
        note=f"The {len(curves)} candidates with the largest weights." if drawn else "",
    )


def _or_infinite(value: float) -> float:
    return value if np.isfinite(value) else np.inf


def _shown(value: Any) -> str:
    return "none" if value is None else text(value)


def _common(records: list[dict[str, Any]]) -> dict[str, str]:
    """Return the most frequent value of each setting."""
    names = [name for name in (records[0] if records else {}) if name not in NOT_SETTINGS]
    return {name: Counter(_shown(own.get(name)) for own in records).most_common(1)[0][0] for name in names}


def _line(record: dict[str, Any], common: dict[str, str]) -> CandidateLine:
    loss, spread = float(record["loss"]), float(record["loss_std"])
    shown = number(loss, trimmed=False)
    if np.isfinite(spread) and np.isfinite(loss):
        shown = " ± ".join(with_spread(loss, spread))
    return CandidateLine(
        number=int(record["candidate"]),
        weight=float(record["weight"]),
        shown_weight=percent(float(record["weight"]), 0),
        loss=shown,
        networks=int(record["networks"]),
        epochs=f"{record['best_epoch']:.0f} of {record['epochs']:.0f}",
        seconds=f"{number(float(record['seconds']), 2, trimmed=False)} s",
        remark="stopped early, because it was clearly worse" if record["stopped_by_race"] else "",
        settings=[
            (name, _shown(record.get(name))) for name, usual in common.items() if _shown(record.get(name)) != usual
        ],
    )


def _curves(model: TabularEstimator) -> list[Chart]:
    groups = model.fitted_.groups[:_MAX_GROUPS]
    numbers = _numbers_of_groups(model)
    histories = [[own for own in group.histories[:_MAX_NETWORKS] if own["train_loss"]] for group in groups]
    longest = max((len(own["train_loss"]) for of_group in histories for own in of_group), default=0)
    if longest < 2:
        return []
    charts = []
    for place, (group, own_histories) in enumerate(zip(groups, histories, strict=True)):
        if not own_histories:
            continue
        own_longest = max(len(own["train_loss"]) for own in own_histories)
        values = _scale(own_histories)
        name = f"Candidate {numbers[place]}" if numbers else "Network"
        title = f"Learning curves of {name.lower()}: loss by epoch"
        panel = Panel(Scale(1, max(2, own_longest)), values, title, "epoch", "loss", 340, 220)
        for own in own_histories:
            for kind, classes in (("train_loss", "train"), ("val_loss", "validation")):
                losses = _numbers(own[kind])
                if len(losses) > 1:
                    keep = thinned(len(losses), _MAX_POINTS)
                    panel.line(keep + 1, losses[keep], classes)
        for own in own_histories:
            kind = "val_loss" if own["val_loss"] else "train_loss"
            losses, best = _numbers(own[kind]), int(own["best_epoch"])
            if 1 <= best <= len(losses) and np.isfinite(losses[best - 1]):
                panel.marker(best, float(losses[best - 1]), 0, f"best epoch {best}, loss {number(losses[best - 1])}")
        share = group.weight / sum(own.weight for own in model.fitted_.groups)
        note = f"weight {percent(share, 0)}, {count(group.n_networks, 'network')}"
        charts.append(Chart(name, panel.drawn(), note))
    return charts


def _numbers_of_groups(model: TabularEstimator) -> list[int]:
    """Return the number of the candidate of each group: those with a weight, the largest first."""
    kept = [own for own in model.fitted_.candidates if own["weight"] > 0]
    kept.sort(key=lambda own: -own["weight"])
    return [int(own["candidate"]) for own in kept] if len(kept) == len(model.fitted_.groups) else []


def _numbers(losses: list[Any]) -> Any:
    return np.array([np.nan if value is None else value for value in losses], dtype=np.float64)


def _scale(histories: list[dict[str, Any]]) -> Scale:
    """Return a scale for losses, without the first epochs if these are much larger than all others."""
    values = np.concatenate([_numbers(own[kind]) for own in histories for kind in ("train_loss", "val_loss")])
    values = values[np.isfinite(values)]
    if not len(values):
        return Scale(0.0, 1.0)
    return scale_of(np.minimum(values, np.quantile(values, 0.985)))
