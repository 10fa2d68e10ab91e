"""How honest out-of-fold scores are: `python -m benchmarks out-of-fold [OPTIONS]`.

Our estimators are fitted on a few random rows of each table, and their out-of-fold loss is compared with the loss on
all other rows. Also measured: accuracy or R² on rows of pure noise, and the coverage of prediction intervals.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import gmean
from sklearn.metrics import log_loss, mean_squared_error

from benchmarks.accuracy import LabelledTable, built_in_tables, tables_of_folder
from tabgnm import GNMClassifier, GNMRegressor

_NOISE_ROWS, _NOISE_COLUMNS, _NOISE_SEEDS = 60, 20, 6
_MIN_TEST_ROWS = 150
_COVERAGE = 0.9


def noise() -> Iterator[LabelledTable]:
    """Generate tables whose targets are independent of their columns."""
    for task in ("classification", "regression"):
        for seed in range(_NOISE_SEEDS):
            rng = np.random.default_rng(seed)
            x = pd.DataFrame(rng.normal(size=(2000, _NOISE_COLUMNS)))
            y = rng.normal(size=2000)
            yield LabelledTable("noise", task, x, y if task == "regression" else (y > 0).astype(int))


def measure(table: LabelledTable, n_rows: int, effort: str) -> dict[str, float]:
    """Fit the first rows of a table; return out-of-fold losses and scores, and those of the other rows."""
    x, y = table.x.iloc[:n_rows], table.y[:n_rows]
    known = np.ones(len(table.y) - n_rows, bool) if table.task == "regression" else np.isin(table.y[n_rows:], y)
    x_test, y_test = table.x.iloc[n_rows:][known], table.y[n_rows:][known]
    if table.task == "regression":
        regressor = GNMRegressor(effort=effort, random_state=0).fit(x, y)
        low, high = regressor.predict_interval(x_test, _COVERAGE).T
        losses = regressor.oof_scores_["mse"], mean_squared_error(y_test, regressor.predict(x_test))
        return _scores(regressor, losses, x_test, y_test) | {
            "coverage": float(np.mean((low <= y_test) & (y_test <= high)))
        }
    classifier = GNMClassifier(effort=effort, random_state=0).fit(x, y)
    loss = log_loss(y_test, classifier.predict_proba(x_test), labels=classifier.classes_)
    return _scores(classifier, (classifier.oof_scores_["log_loss"], loss), x_test, y_test)


def _scores(model: Any, losses: tuple[float, float], x_test: Any, y_test: Any) -> dict[str, float]:
    return {
        "oof_loss": float(losses[0]),
        "test_loss": float(losses[1]),
        "oof_score": model.oof_score_,
        "test_score": float(model.score(x_test, y_test)),
    }


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks out-of-fold", description=__doc__)
    parser.add_argument("--data", type=Path, action="append", default=[], help="folder with tables and a datasets.json")
    parser.add_argument("--sets", default="", help="names of tables, with commas (default: all)")
    parser.add_argument("--rows", default="150,500", help="numbers of rows to fit (default: 150,500)")
    parser.add_argument("--seeds", type=int, default=2, help="random choices of these rows (default: 2)")
    parser.add_argument("--effort", default="default", choices=["fast", "default", "best"])
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # for example that training did not improve on noise
    for task in ("classification", "regression"):
        found = [measure(table, _NOISE_ROWS, options.effort) for table in noise() if table.task == task]
        own, test = (np.mean([each[name] for each in found]) for name in ("oof_score", "test_score"))
        print(f"noise, {task}, {_NOISE_ROWS} rows: mean out-of-fold score {own:.3f}, test {test:.3f}", flush=True)
    wanted = [name for name in options.sets.split(",") if name]
    for n_rows in map(int, options.rows.split(",")):
        rows = []
        for table in _tables(options.data, wanted):
            if len(table.y) < n_rows + _MIN_TEST_ROWS:
                continue
            for seed in range(options.seeds):
                order = np.random.default_rng(seed).permutation(len(table.y))
                shuffled = LabelledTable(table.slug, table.task, table.x.iloc[order], table.y[order])
                own = measure(shuffled, n_rows, options.effort)
                rows.append(own)
                numbers = ", ".join(f"{name} {value:.4g}" for name, value in own.items())
                print(f"{table.slug}, {n_rows} rows, seed {seed}: {numbers}", flush=True)
        ratio = gmean([own["oof_loss"] / own["test_loss"] for own in rows])
        test = gmean([own["test_loss"] for own in rows])
        coverage = np.mean([own["coverage"] for own in rows if "coverage" in own])
        print(
            f"{n_rows} rows, {len(rows)} fits: out-of-fold / test loss {ratio:.3f}, test loss {test:.4g} (geometric "
            f"means), coverage of {_COVERAGE:.0%} intervals {coverage:.3f}",
            flush=True,
        )


def _tables(folders: Sequence[Path], wanted: Sequence[str]) -> Iterator[LabelledTable]:
    yield from (table for table in built_in_tables() if not wanted or table.slug in wanted)
    for folder in folders:
        yield from tables_of_folder(folder, wanted)
