"""Small estimators and tables that the tests share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from tabgnm import GNMClassifier, GNMRegressor, MLPClassifier, MLPRegressor

SMALL: dict[str, Any] = {
    "n_candidates": 1,
    "n_folds": 2,
    "max_epochs": 3,
    "batch_size": 16,
    "patience": None,  # the epochs are few on purpose
    "random_state": 0,
    "device": "cpu",
}
# Enough to learn something easy in a fraction of a second.
LEARNS: dict[str, Any] = {"max_epochs": 40, "learning_rate": 0.02, "batch_size": 32}


def mlp(**changed: Any) -> MLPClassifier:
    return MLPClassifier(**({"hidden": (8,)} | SMALL | changed))


def gnm(**changed: Any) -> GNMClassifier:
    return GNMClassifier(**({"n_nodes": 24, "n_layers": 2} | SMALL | changed))


def mlpr(**changed: Any) -> MLPRegressor:
    return MLPRegressor(**({"hidden": (8,)} | SMALL | changed))


def gnmr(**changed: Any) -> GNMRegressor:
    return GNMRegressor(**({"n_nodes": 24, "n_layers": 2} | SMALL | changed))


def numbers(n_rows: int = 120, seed: int = 0) -> tuple[Any, Any, Any]:
    """Four columns, of which the first two matter; labels 0 and 1; a target."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, 4)).round(3)
    target = 2 * X[:, 0] - X[:, 1]
    return X, (target > 0).astype(int), 10 * target + 50


def frame(n_rows: int = 120, seed: int = 0) -> pd.DataFrame:
    """Columns of several types, with gaps."""
    random = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "size": np.where(random.random(n_rows) < 0.1, np.nan, random.normal(size=n_rows)),
            "count": random.integers(0, 9, n_rows),
            "colour": pd.Series(random.choice(["red", "green", "blue"], n_rows), dtype=object),
            "town": pd.Series(random.choice([f"t{i}" for i in range(15)], n_rows), dtype=object),
            "flag": random.random(n_rows) < 0.5,
            "when": pd.Timestamp("2024-02-20") + pd.to_timedelta(random.integers(0, 10**4, n_rows), unit="h"),
        }
    )
