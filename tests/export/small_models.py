"""Estimators with one sparse network of random weights, on a table with columns of all kinds and names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch

from tabgnm import GNMClassifier, GNMRegressor
from tabgnm.estimators.pruning import _edge_names

N_ROWS = 240


def mixed_table(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": rng.integers(18, 90, N_ROWS).astype(float),
            "year of sale": rng.integers(2000, 2010, N_ROWS),
            "income (k$)": rng.lognormal(3, 1, N_ROWS),
            "lambda": rng.normal(size=N_ROWS) * 1e-6,
            "relu": rng.normal(1e6, 10, N_ROWS),
            "Größe*2": rng.normal(170, 10, N_ROWS),
            "h0": rng.normal(size=N_ROWS),
            "y": rng.normal(size=N_ROWS),
            "city": rng.choice(["Oslo", "New York", 'a "b" ] c', "Rome"], N_ROWS),
            "sex": rng.choice(["f", "m"], N_ROWS),
            "member": rng.choice([True, False], N_ROWS),
            "size": pd.Categorical(
                rng.choice(["small", "middle", "very large"], N_ROWS),
                categories=["small", "middle", "very large"],
                ordered=True,
            ),
            "when": pd.Timestamp("2019-03-01") + pd.to_timedelta(rng.integers(0, 40_000, N_ROWS), unit="h"),
        }
    )
    X.loc[rng.choice(N_ROWS, 20), "age"] = np.nan
    X.loc[rng.choice(N_ROWS, 20), "city"] = None
    X.loc[rng.choice(N_ROWS, 20), "sex"] = None
    X.loc[rng.choice(N_ROWS, 20), "when"] = pd.NaT
    return X


def small_model(X: Any, y: Any, *, density: float = 0.15, seed: int = 0, **parameters: Any) -> Any:
    """A fitted estimator whose only network has random weights, of which most are 0."""
    classifies = np.asarray(y).dtype.kind in "OUbi" and "loss" not in parameters
    settings = {
        "numeric_embedding": None,
        "scaling": "standard",
        "n_candidates": 1,
        "n_folds": 0,
        "max_epochs": 1,
        "n_nodes": 60,
        "n_layers": 2,
        "activation": "relu",
        "random_state": 0,
    } | parameters
    model = (GNMClassifier if classifies else GNMRegressor)(**settings).fit(X, y)
    generator = torch.Generator().manual_seed(seed)
    [group] = model.fitted_.groups
    for name in _edge_names(group):
        values = group.parameters[name]
        kept = torch.rand(values.shape, generator=generator) < density
        values.copy_(torch.randn(values.shape, generator=generator) * kept)
    return model
