"""The numbers of the paper's tables 1 and 2, to compare with."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Published:
    """Mean and standard deviation over the folds of both measures of a model on a data set."""

    mean1: float
    std1: float
    mean2: float
    std2: float


@cache
def published() -> dict[tuple[str, str], Published]:
    """By data set and model."""
    text = (files("tabgnm.paper") / "published.csv").read_text()
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {
        (row["dataset"], model): Published(
            *(float(row[f"{model}_{name}"]) for name in ("mean1", "std1", "mean2", "std2"))
        )
        for row in rows
        for model in ("gnm", "mlp")
    }
