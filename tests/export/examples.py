"""Estimators with one sparse network, as `fit_sparse` returns them, without its time."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from tabgnm import GNMClassifier, GNMRegressor
from tests.modelfile.examples import codes, frame, numbers, target

PLAIN: dict[str, Any] = {
    "n_candidates": 1,
    "n_folds": 0,
    "max_epochs": 3,
    "learning_rate": 0.01,
    "n_layers": 3,
    "n_nodes": 60,
    "clamp_inputs": True,
    "combine": "none",
    "persistent_outputs": False,
    "tied": False,
    "numeric_embedding": None,
    "scaling": "standard",
    "max_one_hot": 100,
    "random_state": 0,
    "device": "cpu",
}


def sparse(estimator: Any, X: Any, y: Any, share: float = 0.1) -> Any:
    """Fit an estimator, and set all but a share of the weights of its network to 0."""
    estimator.fit(X, y)
    [group] = estimator.fitted_.groups
    rng = np.random.default_rng(0)
    for values in group.parameters.values():
        kept = rng.random(tuple(values.shape)) < share
        kept[..., -1] = True  # so that outputs depend on something
        values.mul_(values.new_tensor(kept))
    vars(group).pop("exact_parameters", None)
    return estimator


def mixed(n_rows: int = 60, seed: int = 0) -> pd.DataFrame:
    """Every kind of column, with an ordered category, and gaps."""
    rng = np.random.default_rng(seed)
    table = frame(n_rows, seed)
    table["size"] = pd.Categorical(rng.choice(["S", "M", "L"], n_rows), ["S", "M", "L"], ordered=True)
    return table


def later(n_rows: int = 40) -> pd.DataFrame:
    """Rows with gaps and levels that the training rows did not have."""
    table = mixed(n_rows, seed=9)
    table.loc[::5, "number"] = np.nan
    table.loc[1::5, "colour"] = "infrared"
    table.loc[2::7, "città"] = None
    table.loc[3::7, "when"] = pd.NaT
    table.loc[4::7, "when"] = pd.Timestamp("1899-12-31 23:59:59.999999")
    table.loc[5::7, "took"] = pd.NaT
    table["size"] = table["size"].astype(object)
    table.loc[6::7, "size"] = "XXL"
    return table


SMALL: dict[str, Any] = {
    "two classes": lambda: sparse(GNMClassifier(**PLAIN), mixed(), np.array(["no", "yes"])[codes(2)]),
    "three classes": lambda: sparse(GNMClassifier(**PLAIN | {"scaling": "robust"}), mixed(), codes(3)),
    "multilabel": lambda: sparse(GNMClassifier(**PLAIN), mixed(), np.stack([codes(2), codes(2, seed=5)], axis=1)),
    "several targets": lambda: sparse(GNMClassifier(**PLAIN), mixed(), np.stack([codes(3), codes(2) + 5], axis=1)),
    "one class": lambda: sparse(GNMClassifier(**PLAIN), mixed(), np.full(60, "only")),
    "number": lambda: sparse(GNMRegressor(**PLAIN | {"scaling": "quantile"}), mixed(), target()),
    "two numbers": lambda: sparse(GNMRegressor(**PLAIN | {"scaling": "none"}), mixed(), target(2)),
    "count": lambda: sparse(GNMRegressor(**PLAIN, loss="poisson"), mixed(), codes(5)),
    "quantiles": lambda: sparse(GNMRegressor(**PLAIN, loss="quantile", quantile=[0.1, 0.9]), mixed(), target()),
    "array": lambda: sparse(GNMClassifier(**PLAIN), numbers(), codes(2), 0.3),
}
ACTIVATIONS = ["identity", "relu", "leaky_relu", "elu", "gelu", "silu", "mish", "softplus", "tanh", "sigmoid"]


@cache
def small(case: str) -> Any:
    """Return the estimator of a case; not to be changed."""
    return SMALL[case]()


def table_of_small(case: str) -> Any:
    return numbers(30, seed=9) if case == "array" else later()


# Text that would do harm where it is taken for code.
HOSTILE = [
    'a"b; import os',
    "line\nbreak = 1",
    '"""\nHACKED = True\n"""',
    "'''\nHACKED = True\n'''",
    "class",
    "\U0001f642",
    "a b",
    "a-b",
    "\\",
    "%s{0}",
    "label",
    "probabilities",
    "constant_1",
    "X",
    "row",
    "1st",
    "\u202eabc",
]


@cache
def hostile(*, is_pack: bool) -> Any:
    """Return an estimator whose columns, levels and labels are all hostile, and a table for it."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({name: rng.normal(size=60) for name in HOSTILE})
    table["#"] = rng.choice(HOSTILE, 60)
    labels = np.array(HOSTILE[:3], dtype=object)[codes(3)]
    changed = {"n_folds": 2, "numeric_embedding": "piecewise", "n_nodes": 150} if is_pack else {"n_nodes": 60}
    estimator = GNMClassifier(**PLAIN | changed)
    return (estimator.fit(table, labels) if is_pack else sparse(estimator, table, labels)), table
