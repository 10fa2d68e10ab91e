"""How good the defaults are: `GNMClassifier()` and `GNMRegressor()` against scikit-learn's on the paper's data sets.

The first folds of `KFold(10, shuffle=True, random_state=0)`; errors in percent, or mean squared errors. Nobody is
tuned: models are what their constructors give, but for scikit-learn's perceptron, which has two layers of 128 nodes,
early stopping, and the preprocessing that it cannot do without. Data sets have to be in the cache (`tabgnm datasets
fetch`); those that are not are left out, and named.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor, make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.model_selection import KFold
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from benchmarks.timing import Options, duration, print_table
from tabgnm import GNMClassifier, GNMRegressor
from tabgnm.datasets import DatasetUnavailableError, load_dataset

QUICK_DATA_SETS = ("noisy_moons", "diabetes")  # need no cache
DATA_SETS = (
    *QUICK_DATA_SETS, "abalone", "auto_mpg", "car", "dry_bean", "electrical_grid", "page_blocks", "phishing",
    "waveform", "wine", "wireless", "yeast",
)  # fmt: skip
N_FOLDS = 3


def models(task: str, options: Options) -> dict[str, BaseEstimator]:
    """Models by name, for a task."""
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    prepare = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), make_column_selector(dtype_exclude="number")),
        remainder=numbers,
    )
    perceptron: dict[str, Any] = {"hidden_layer_sizes": (128, 128), "early_stopping": True, "random_state": 0}
    ours: dict[str, Any] = {"random_state": 0, "device": options.device}
    if options.quick:
        ours |= {"max_epochs": 2, "n_members": 1}
    if task == "classification":
        return {
            "tabgnm": GNMClassifier(**ours),
            "boosted trees": HistGradientBoostingClassifier(random_state=0),
            "perceptron": make_pipeline(prepare, MLPClassifier(**perceptron)),
        }
    scaled = TransformedTargetRegressor(MLPRegressor(**perceptron), transformer=StandardScaler())
    return {
        "tabgnm": GNMRegressor(**ours),
        "boosted trees": HistGradientBoostingRegressor(random_state=0),
        "perceptron": make_pipeline(prepare, scaled),
    }


def errors(model: BaseEstimator, task: str, x: pd.DataFrame, y: Any, n_folds: int) -> list[float]:
    """Error in percent, or mean squared error, of each fold."""
    found = []
    folds = list(KFold(10, shuffle=True, random_state=0).split(x))[:n_folds]
    for train, test in folds:
        predicted = np.asarray(model.fit(x.iloc[train], y[train]).predict(x.iloc[test]))
        wrong = predicted != y[test] if task == "classification" else (predicted - y[test]) ** 2
        found.append(float(np.mean(wrong)) * (100 if task == "classification" else 1))
    return found


def run(options: Options) -> dict[str, Any]:
    n_folds = 1 if options.quick else N_FOLDS
    cells: dict[str, dict[str, Any]] = {}
    table, missing = [], []
    for name in QUICK_DATA_SETS if options.quick else DATA_SETS:
        try:
            data = load_dataset(name, as_frame=True)
        except DatasetUnavailableError:
            missing.append(name)
            continue
        y, cell = data.target.to_numpy(), {}
        for who, model in models(data.task, options).items():
            began = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that a perceptron has not converged, which is its default
                own = errors(model, data.task, data.data, y, n_folds)
            cell[who] = {"errors": own, "seconds_per_fold": (time.perf_counter() - began) / n_folds}
        cells[name] = cell
        means = {who: float(np.mean(each["errors"])) for who, each in cell.items()}
        best = min(means.values())
        shown = [f"{mean:.5g}{' *' if mean == best else ''}" for mean in means.values()]
        times = [duration(each["seconds_per_fold"]) for each in cell.values()]
        table.append([name, str(len(y)), *shown, *times])
    who = list(next(iter(cells.values())))
    header = ["data set", "rows", *who, *(f"{each}, a fold" for each in who)]
    print_table(f"Mean error of {n_folds} of 10 folds, * the least ({options.device})", header, table)
    if missing:
        print(f"not in the cache: {', '.join(missing)}")
    return {"n_folds": n_folds, "cells": cells, "missing": missing}
