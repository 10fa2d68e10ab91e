"""Tables with every kind of column under difficult names, estimators with sparse weights, and reference predictions."""

from __future__ import annotations

import datetime
import functools
import warnings
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from tabgnm import GNMClassifier, GNMRegressor
from tabgnm.nn import activation_names

Array = NDArray[Any]

ACTIVATIONS = activation_names()
SCALINGS = ("standard", "robust", "quantile", "none")

KINDS = {
    "number": "number",
    "count": "integer",
    "gaps": "number",
    "flag": "boolean",
    "two": "category",
    "color": "category",
    "size": "category",
    "when": "datetime",
    "long": "duration",
    "clock": "time",
}
# Quotes, keywords, escapes and signs that mean something in C or SQL.
NASTY_NAMES = {
    "number": 'a"b; DROP TABLE t; --',
    "count": "int",
    "gaps": "select",
    "flag": "*/ x /*",
    "two": "größe 🙂",
    "color": "line\nbreak",
    "size": "what??/",
    "when": "it's",
    "long": "%s {0} \\",
    "clock": "tab\there",
}
COLORS = ("red", "it's; DROP TABLE t; --", 'quo"te\\', "??/", "é1", "new\nline", "", "\\'", "*/")
SIZES = ("small", "medium", "large")


def frame(n_rows: int = 200, seed: int = 0, *, nasty: bool = False) -> pd.DataFrame:
    """Return a table with a column of every kind, some cells missing."""
    rng = np.random.default_rng(seed)

    def gaps(values: pd.Series, share: float = 0.15) -> pd.Series:
        return values.mask(rng.uniform(size=n_rows) < share)

    seconds = rng.integers(-3_000_000_000, 4_000_000_000, n_rows)
    times = [datetime.time(int(h), int(m), int(s)) for h, m, s in rng.integers(0, (24, 60, 60), (n_rows, 3))]
    table = pd.DataFrame(
        {
            "number": rng.standard_normal(n_rows),
            "count": rng.integers(0, 50, n_rows),
            "gaps": gaps(pd.Series(rng.lognormal(size=n_rows) * 100)),
            "flag": gaps(pd.Series(rng.uniform(size=n_rows) < 0.5, dtype=object)),
            "two": gaps(pd.Series(rng.choice(["no", "yes"], n_rows), dtype=object)),
            "color": gaps(pd.Series(rng.choice(COLORS, n_rows), dtype=object)),
            "size": gaps(pd.Series(pd.Categorical(rng.choice(SIZES, n_rows), SIZES, ordered=True))),
            "when": gaps(pd.Series(seconds.astype("datetime64[s]").astype("datetime64[us]"))),
            "long": gaps(pd.Series((rng.integers(0, 10**6, n_rows) * 1000).astype("timedelta64[ms]"))),
            "clock": gaps(pd.Series(times, dtype=object)),
        }
    )
    return table.rename(columns=NASTY_NAMES) if nasty else table


def unseen(table: pd.DataFrame) -> pd.DataFrame:
    """Return rows with levels, numbers and dates that no training row had, and with nothing at all."""
    rows = table.iloc[:6].reset_index(drop=True).copy()
    columns = dict(zip(NASTY_NAMES, table.columns, strict=True))
    rows[columns["color"]] = ["violet", "Red", "red ", "é", None, "red"]
    rows[columns["two"]] = ["no", "perhaps", "NO", None, "yes", "yes"]
    rows[columns["number"]] = [1e30, -1e30, 0.0, -0.0, 1e-30, np.nan]
    moments = ["1700-03-01", "2400-02-29T23:59:59.999", "1969-12-31T23:59:59", "1970-01-01", "2000-02-29T12:30", "NaT"]
    rows[columns["when"]] = np.array(moments, dtype="datetime64[us]")
    nothing = pd.DataFrame(
        {name: pd.Series([None], dtype=table[name].dtype) for name in table if table[name].dtype != int}
    )
    nothing[columns["count"]] = 0
    return pd.concat([rows, nothing[list(table.columns)]], ignore_index=True)


def sparse(estimator: Any, seed: int = 0, share: float = 0.6) -> Any:
    """Set most weights of a fitted estimator to 0, and the others to numbers that matter."""
    generator = torch.Generator().manual_seed(seed)
    size = 0.7 if estimator.scaling != "none" else 0.01  # years are large
    for values in estimator.fitted_.groups[0].parameters.values():
        values.copy_(torch.randn(values.shape, generator=generator) * size)
        values[torch.rand(values.shape, generator=generator) < share] = 0
    estimator.fitted_.groups[0].__dict__.pop("exact_parameters", None)
    return estimator


SETTINGS: dict[str, Any] = {
    "numeric_embedding": None,
    "n_folds": 0,
    "n_candidates": 1,
    "max_epochs": 1,
    "n_nodes": 40,
    "n_layers": 3,
    "max_one_hot": 50,
    "random_state": 0,
    "n_jobs": 1,
}


def fitted(table: pd.DataFrame, target: str, seed: int = 0, **settings: Any) -> Any:
    """Return an estimator for one of `TARGETS` with sparse random weights."""
    rng = np.random.default_rng(seed)
    n = len(table)
    cls, y = {
        "number": lambda: (GNMRegressor, rng.normal(5, 2, n)),
        "numbers": lambda: (GNMRegressor, rng.normal(5, 2, (n, 3))),
        "quantiles": lambda: (GNMRegressor, rng.normal(5, 2, n)),
        "counts": lambda: (GNMRegressor, rng.poisson(3, n)),
        "binary": lambda: (GNMClassifier, rng.choice(["it's", 'y"es'], n)),
        "multiclass": lambda: (GNMClassifier, rng.integers(0, 4, n)),
        "multilabel": lambda: (GNMClassifier, rng.integers(0, 2, (n, 3))),
        "joint": lambda: (
            GNMClassifier,
            np.column_stack([rng.choice(["a", "b", "c"], n), rng.choice(["u", "v"], n)]).astype(object),
        ),
        "one": lambda: (GNMClassifier, np.ones(n, dtype=int)),
    }[target]()
    more = {"quantiles": {"loss": "quantile", "quantile": [0.1, 0.5, 0.9, 0.95]}, "counts": {"loss": "poisson"}}.get(
        target, {}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = cls(**(SETTINGS | more | settings)).fit(table, y)
    return sparse(estimator, seed)


TARGETS = ("number", "numbers", "quantiles", "counts", "binary", "multiclass", "multilabel", "joint", "one")


def predictions(estimator: Any, table: pd.DataFrame) -> tuple[Array, Array | None]:
    """Return predictions as classes by number or as numbers, (rows, targets), and all probabilities in one array."""
    predicted = estimator.predict(table)
    if not hasattr(estimator, "predict_proba"):
        return predicted.reshape(len(table), -1), None
    probabilities = estimator.predict_proba(table)
    joined = np.concatenate(probabilities, axis=1) if isinstance(probabilities, list) else probabilities
    return predicted.reshape(len(table), -1), joined


# A target for every activation.
EXAMPLES = (*TARGETS, *(f"number_{place}" for place in range(len(ACTIVATIONS) - len(TARGETS))))


@functools.cache
def examples() -> dict[str, Any]:
    """Return an estimator for every kind of target, with all activations and all scalings among them."""
    table = frame(nasty=True)
    return {
        name: fitted(table, name.partition("_")[0], activation=activation, scaling=SCALINGS[place % len(SCALINGS)])
        for place, (name, activation) in enumerate(zip(EXAMPLES, ACTIVATIONS, strict=True))
    }


@functools.cache
def rows() -> pd.DataFrame:
    """Return rows to predict for the examples: ordinary ones, and those that are unlike any training row."""
    table = frame(40, seed=1, nasty=True)
    return pd.concat([table, unseen(table)], ignore_index=True)


def assert_same(
    found: tuple[Array, Array | None], estimator: Any, table: pd.DataFrame, tolerance: float = 1e-12
) -> None:
    """Assert that predictions, and probabilities if there are any, are those of an estimator."""
    predicted, probabilities = predictions(estimator, table)
    if probabilities is None:
        np.testing.assert_allclose(found[0].astype(float), predicted, rtol=tolerance, atol=tolerance)
        return
    assert found[0].astype(str).tolist() == predicted.astype(str).tolist()
    assert found[1] is not None
    np.testing.assert_allclose(found[1], probabilities, rtol=0, atol=tolerance)
