"""Small models of all kinds of targets, for reports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from tests.estimators.examples import SMALL, frame, gnm, gnmr, mlpr, numbers

HOSTILE = "<script>alert(1)</script>"
HOSTILE_COMMENT = "<!--</script><img src=x onerror=alert(2)>"


# Of a single linear network, which is a small machine without any distilling.
LINEAR: dict[str, Any] = SMALL | {
    "n_layers": 1,
    "n_nodes": "auto",
    "numeric_embedding": None,
    "max_one_hot": 20,
    "n_folds": 0,
}


def mixed() -> tuple[pd.DataFrame, pd.Series, pd.Series]:
    """A table with columns of all kinds, labels, and numbers."""
    X = frame()
    score = X["size"].fillna(0) + (X["colour"] == "red")
    return X, pd.Series(np.where(score > 0.3, "yes", "no"), name="answer"), (10 * score + 50).rename("amount")


def models() -> dict[str, tuple[Any, Any, Any]]:
    """Return an estimator that is not fitted, a table and targets for each kind of target."""
    X, labels, target = numbers()
    several = np.column_stack([labels, X[:, 2] > 0]).astype(int)
    kinds = np.digitize(target, [40, 60])
    counts = np.maximum(target // 10, 0)
    return {
        "binary": (gnm(), X, labels),
        "multiclass": (gnm(n_nodes=40), X, kinds),
        "many classes": (gnm(n_nodes=60, n_folds=1), X, np.arange(len(X)) % 20),
        "multilabel": (gnm(), X, several),
        "several targets with labels": (gnm(n_nodes=40), X, np.column_stack([kinds + 1, labels + 5])),
        "one class": (gnm(), X, np.zeros(len(X), dtype=int)),
        "number": (gnmr(), X, target),
        "several numbers": (gnmr(), X, np.column_stack([target, -target])),
        "quantiles": (gnmr(quantile=[0.1, 0.5, 0.9], loss="quantile"), X, target),
        "one quantile": (gnmr(quantile=0.9, loss="quantile"), X, target),
        "one quantile of several numbers": (gnmr(quantile=0.9, loss="quantile"), X, np.column_stack([target, -target])),
        "counts": (gnmr(loss="poisson"), X, counts),
        "constant target": (gnmr(), X, np.full(len(X), 3.0)),
        "MLP": (mlpr(), X, target),
        "no validation": (gnmr(n_folds=0), X, target),
    }
