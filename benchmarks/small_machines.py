"""Size and score of small machines and other readable models: `python -m benchmarks small [OPTIONS]`.

On the first folds of `KFold(10, shuffle=True, random_state=0)`, this compares machines of every size on a path, learned
from labels and distilled from a fitted estimator, decision trees with as many parameters, and with their default
settings EBM (`interpret`), FIGS (`imodels`), logistic or ridge regression, and the estimator that is distilled (the
teacher). There is one JSON line per data set, fold and model; a run resumes an existing file.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from benchmarks.accuracy import N_FOLDS, LabelledTable, built_in_tables, tables_of_folder
from benchmarks.timing import machine
from tabgnm import GNMClassifier, GNMRegressor

SIZES = (30, 50, 100, 200)
MAX_ROWS = 10_000  # training rows: the first ones of a shuffled fold
PARAMETERS_PER_LEAF = 3  # a split has a column and a threshold, a leaf a value
N_SEEDS = 10
STABILITY_EDGES = 50
PEERS = {"ebm": "interpret", "figs": "imodels"}
Record = dict[str, Any]


def _error(table: LabelledTable, predicted: Any, actual: Any) -> float:
    """Return the share of wrong labels, or the mean squared error."""
    predicted = np.asarray(predicted).ravel()
    if table.task == "classification":
        return float(np.mean(predicted != actual))
    return float(np.mean((predicted - actual) ** 2))


def _encoded() -> Any:
    """Return an encoder for peers that require numbers."""
    return make_column_transformer(
        (SimpleImputer(strategy="median", keep_empty_features=True), make_column_selector(dtype_include="number")),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), make_column_selector(dtype_exclude="number")),
    )


def _machines(table: LabelledTable, train: Any, test: Any, quick: bool) -> Iterator[Record]:
    """Fit the teacher and both kinds of paths."""
    x, y = table.x.iloc[train], table.y[train]
    make = GNMClassifier if table.task == "classification" else GNMRegressor
    budget = {"max_epochs": 2, "n_candidates": 1} if quick else {}
    began = time.perf_counter()
    teacher = make(effort="fast", random_state=0, **budget).fit(x, y)
    yield {
        "model": "teacher",
        "error": _error(table, teacher.predict(table.x.iloc[test]), table.y[test]),
        "seconds": time.perf_counter() - began,
    }
    for kind in ("labels", "distilled"):
        began = time.perf_counter()
        small = teacher.fit_sparse(x, y, random_state=0) if kind == "labels" else teacher.distill(x, y, random_state=0)
        seconds = time.perf_counter() - began
        for size in SIZES:
            yield _record(table, test, f"{kind} {size}", small.resized(size), seconds)
        yield _record(table, test, f"{kind} one_se", small, seconds)


def _record(table: LabelledTable, test: Any, model: str, estimator: Any, seconds: float) -> Record:
    used = {estimator.fitted_.groups[0].encoder.owners[place] for place in estimator.machine_.used_inputs}
    return {
        "model": model,
        "error": _error(table, estimator.predict(table.x.iloc[test]), table.y[test]),
        "parameters": estimator.machine_.n_edges,
        "columns": sorted(used),
        "seconds": seconds,
    }


def _peers(table: LabelledTable, train: Any, test: Any, _quick: bool) -> Iterator[Record]:
    x, y, classifies = table.x.iloc[train], table.y[train], table.task == "classification"
    tree: Any = DecisionTreeClassifier if classifies else DecisionTreeRegressor
    makers: dict[str, Callable[[], Any]] = {
        f"tree {size}": (lambda size=size: tree(max_leaf_nodes=max(2, size // PARAMETERS_PER_LEAF), random_state=0))
        for size in SIZES
    }
    makers["linear"] = lambda: (
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
        if classifies
        else (make_pipeline(StandardScaler(), Ridge()))
    )
    if importlib.util.find_spec("imodels"):
        makers["figs"] = lambda: _figs(classifies)
    for model, make in makers.items():
        began = time.perf_counter()
        fitted = make_pipeline(_encoded(), make()).fit(x, y)
        seconds = time.perf_counter() - began
        yield {
            "model": model,
            "error": _error(table, fitted.predict(table.x.iloc[test]), table.y[test]),
            "seconds": seconds,
        }
    if importlib.util.find_spec("interpret"):
        from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

        began = time.perf_counter()
        ebm: Any = (ExplainableBoostingClassifier if classifies else ExplainableBoostingRegressor)(random_state=0)
        as_text = _with_text(table.x)
        ebm.fit(as_text.iloc[train], y)
        seconds = time.perf_counter() - began
        yield {
            "model": "ebm",
            "error": _error(table, ebm.predict(as_text.iloc[test]), table.y[test]),
            "parameters": int(sum(np.prod(np.shape(scores)) for scores in ebm.term_scores_)),
            "seconds": seconds,
        }


def _figs(classifies: bool) -> Any:
    from imodels import FIGSClassifier, FIGSRegressor

    return (FIGSClassifier if classifies else FIGSRegressor)()


def _with_text(x: pd.DataFrame) -> pd.DataFrame:
    """Convert categories to text, as EBM requires."""
    categories = list(x.select_dtypes("category"))
    return x.astype(dict.fromkeys(categories, object)).fillna(dict.fromkeys(categories, ""))


def _stability(table: LabelledTable, train: Any, test: Any, quick: bool) -> Iterator[Record]:
    """Distill the same teacher with different seeds, to see how often the same columns are used."""
    x, y = table.x.iloc[train], table.y[train]
    make = GNMClassifier if table.task == "classification" else GNMRegressor
    budget = {"max_epochs": 2, "n_candidates": 1} if quick else {}
    teacher = make(effort="fast", random_state=0, **budget).fit(x, y)
    for seed in range(2 if quick else N_SEEDS):
        began = time.perf_counter()
        small = teacher.distill(x, y, n_edges=STABILITY_EDGES, random_state=seed)
        yield _record(table, test, f"seed {seed}", small, time.perf_counter() - began)


KINDS = {"machines": _machines, "peers": _peers, "stability": _stability}


def measure(options: argparse.Namespace) -> None:
    """Fit the models that are not in the file yet, and append them."""
    done = set()
    if options.output.exists():
        for line in options.output.read_text().splitlines():
            own = json.loads(line)
            done.add((own["slug"], own["fold"], own["kind"]))
    for table in _tables(options):
        splits = list(KFold(N_FOLDS, shuffle=True, random_state=0).split(table.x))
        for fold in range(options.folds):
            train, test = splits[fold]
            train = np.random.default_rng(fold).permutation(train)[: 300 if options.quick else MAX_ROWS]
            for kind in options.kinds:
                if (table.slug, fold, kind) in done:
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    records = list(KINDS[kind](table, train, test, options.quick))
                with options.output.open("a") as file:
                    for record in records:
                        where = {"slug": table.slug, "task": table.task, "fold": fold, "kind": kind}
                        file.write(json.dumps(where | record | {"machine": machine("cpu")}) + "\n")
                shown = ", ".join(f"{own['model']} {own['error']:.4g}" for own in records)
                print(f"{table.slug} {fold + 1}: {shown}", flush=True)


def _tables(options: argparse.Namespace) -> Iterator[LabelledTable]:
    wanted = options.sets
    for table in built_in_tables():
        if (not wanted and not options.data) or table.slug in wanted:
            yield table
    for folder in options.data:
        yield from tables_of_folder(folder, wanted)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks small", description="Compare small readable models.")
    add = parser.add_argument
    add("--data", action="append", type=Path, default=[], metavar="FOLDER", help="folder with datasets.json")
    add("--sets", type=lambda text: text.split(","), default=[], metavar="A,B", help="data sets (default: all)")
    add("--folds", type=int, default=1, metavar="N", help="number of folds, out of 10 (default: 1)")
    add(
        "--kinds",
        type=lambda text: text.split(","),
        default=["machines", "peers"],
        metavar="A,B",
        help=", ".join(KINDS),
    )
    add("--output", type=Path, default=Path("small.jsonl"), metavar="FILE", help="file to create or resume")
    add("--quick", action="store_true", help="only check that everything runs")
    options = parser.parse_args(arguments)
    for package in PEERS.values():
        if importlib.util.find_spec(package) is None:
            print(f"Left out: a peer that requires {package}; install it to include the peer")
    measure(options)
