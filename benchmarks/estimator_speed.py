"""Speed of the estimators: encoding a table, predicting one row and many, and fitting a default model."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.timing import Options, duration, print_table
from tabgnm import GNMClassifier
from tabgnm.table import TableEncoder, TableSettings, read_table

N_ROWS, N_NUMBERS, N_CATEGORIES = 48_842, 6, 8  # the size of Adult


def adult_sized(n_rows: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return numbers, 5 % of them missing, and categories with 2 to 42 levels, and a target that depends on both."""
    random = np.random.default_rng(0)
    columns: dict[str, Any] = {}
    for i in range(N_NUMBERS):
        columns[f"number {i}"] = np.where(random.random(n_rows) < 0.05, np.nan, random.normal(size=n_rows))
    for i, n_levels in enumerate(np.linspace(2, 42, N_CATEGORIES).astype(int)):
        columns[f"category {i}"] = np.array([f"level {j}" for j in range(n_levels)])[
            random.integers(0, n_levels, n_rows)
        ]
    frame = pd.DataFrame(columns)
    score = np.nan_to_num(columns["number 0"] * columns["number 1"]) + (columns["category 7"] < "level 2")
    return frame, np.where(score + 0.5 * random.normal(size=n_rows) > 0.5, ">50K", "<=50K")


def shortest(work: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def run(options: Options) -> dict[str, Any]:
    n_rows = 2000 if options.quick else N_ROWS
    repeats = 3 if options.quick else 200
    frame, labels = adult_sized(n_rows)
    model = GNMClassifier(random_state=0, device=options.device, max_epochs=2 if options.quick else 100)
    fit = shortest(lambda: model.fit(frame, labels), 1)
    numbers = np.random.default_rng(0).normal(size=(n_rows, 30))
    encoder = TableEncoder(TableSettings()).fit(read_table(numbers))
    one_frame, one_encoded = frame[:1], model.encode(frame[:1])
    seconds = {
        "fit, default model": fit,
        "one row: table conversion (pandas, 14 columns)": shortest(lambda: model.encode(one_frame), repeats),
        "one row: predict_proba, all in all": shortest(lambda: model.predict_proba(one_frame), repeats),
        "one row: encoding 30 numbers (numpy)": shortest(lambda: encoder.encode(read_table(numbers[:1])), repeats),
    }
    rows_per_second = {
        "encoding 30 numbers": n_rows / shortest(lambda: encoder.encode(read_table(numbers)), 3),
        "predict_proba, default model": n_rows / shortest(lambda: model.predict_proba(frame), 3),
    }
    beyond = seconds["one row: predict_proba, all in all"] - seconds["one row: table conversion (pandas, 14 columns)"]
    seconds["one row: prediction beyond table conversion"] = beyond
    print_table(
        f"Estimators on {n_rows:,} rows of {N_NUMBERS} numbers and {N_CATEGORIES} categories ({options.device})",
        ["", "time"],
        [[name, duration(value)] for name, value in seconds.items()],
    )
    print_table("", ["", "rows per second"], [[name, f"{value:,.0f}"] for name, value in rows_per_second.items()])
    return {
        "rows": n_rows,
        "encoded_columns": one_encoded.shape[1],
        "seconds": seconds,
        "rows_per_second": rows_per_second,
        "epochs": [len(history["train_loss"]) for history in model.history_],
    }
