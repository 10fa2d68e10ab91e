"""The published results of tables 1 and 2 of the paper."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Published:
    """Published mean and standard deviation over the folds of both metrics of a model on a data set."""

    mean1: float
    std1: float
    mean2: float
    std2: float


@cache
def published() -> dict[tuple[str, str], Published]:
    """Return the published results by data set and model."""
    text = (files("tabgnm.paper") / "published.csv").read_text()
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {
        (row["dataset"], model): Published(
            *(float(row[f"{model}_{name}"]) for name in ("mean1", "std1", "mean2", "std2"))
        )
        for row in rows
        for model in ("gnm", "mlp")
    }
