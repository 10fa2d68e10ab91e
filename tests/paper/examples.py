"""Small work for tests: data sets that need no file, few epochs, the smallest networks."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from tabgnm.datasets import dataset_info
from tabgnm.paper import ExperimentPlan, Result, ResultStore, Setting, plan


def small_plan(
    n_units: int = 4, *, name: str = "noisy_moons", max_epochs: int = 1, folds: tuple[int, ...] = (0,)
) -> ExperimentPlan:
    """The cheapest fleets of a data set."""
    whole = plan([(name, "paper")], Setting(max_epochs=max_epochs), folds=folds)
    return ExperimentPlan(sorted(whole.units, key=lambda unit: unit.cost)[:n_units], whole.sources, {}, {})


def table(store: ResultStore) -> list[tuple[Any, ...]]:
    """All of a store but times and dates, which no two runs share."""
    return [
        tuple(v for name, v in vars(result).items() if name not in ("seconds", "origin")) for result in store.results()
    ]


def made_up(name: str, variant: str, n_rows: int) -> Bunch:
    """Rows with the columns of a data set, and nothing of its content."""
    spec = dataset_info(name)
    generator = np.random.default_rng(0)
    features = spec.feature_names(variant)  # type: ignore[arg-type]
    data = np.empty((n_rows, len(features)), dtype=object)
    for at, feature in enumerate(features):
        data[:, at] = generator.choice(["a", "b"], n_rows) if feature in spec.categorical else generator.random(n_rows)
    target = generator.integers(spec.n_classes, size=n_rows) if spec.n_classes else generator.random(n_rows)
    return Bunch(
        data=data,
        target=target,
        task=spec.task,
        feature_names=list(features),
        categorical_features=[own for own in features if own in spec.categorical],
        leaking_features=[own for own in features if own in spec.leaking],
    )


def some_result(key: str = "k", **changes: Any) -> Result:
    """A row of the store."""
    values: dict[str, Any] = {
        "key": key,
        "dataset": "noisy_moons",
        "variant": "paper",
        "scaling": "none",
        "epochs": 300,
        "model": "gnm",
        "width": 50,
        "n_layers": 2,
        "dropout": 0.0,
        "learning_rate": 0.01,
        "fold": 0,
        "n_parameters": 4900,
        "best_epoch": 7,
        "status": "completed",
        "val_loss": 0.25,
        "metric1": 90.0,
        "metric2": 89.0,
        "seconds": 1.5,
        "origin": "a machine, 2026-01-31",
    }
    return Result(**(values | changes))


def change(path: Path, statement: str, values: tuple[Any, ...] = ()) -> None:
    """Do to a store what a failing disk or a stranger would do."""
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement, values)
    connection.close()
