"""Accuracy of the models: `python -m benchmarks accuracy [OPTIONS]`.

Every model is fitted on the first folds of `KFold(10, shuffle=True, random_state=0)`; there is one JSON line per data
set and model. The file is rewritten after each fit, and a run resumes an existing file. Our models have the same seed
in all folds; the seed of peers is this seed plus the number of the fold.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_diabetes, make_moons
from sklearn.metrics import f1_score, r2_score
from sklearn.model_selection import KFold

from benchmarks.accuracy_models import MODELS, OURS, PACKAGES, ModelSettings, is_installed
from benchmarks.standings import Result, print_standings, read_results
from benchmarks.timing import duration, machine, synchronise
from tabgnm.datasets import dataset_info, dataset_names, load_dataset
from tabgnm.datasets.cache import data_folder
from tabgnm.datasets.retrieval import availability

N_FOLDS = 10
MORE_EXCLUDED = {"bike_sharing": ["dteday"]}  # a date as text; its year, month and weekday are columns already
MIN_PROBABILITY = 1e-7  # for log-losses: a single-precision probability of 0 must not decide a comparison
PER_FOLD = ("fold_m1", "fold_m2", "log_loss", "seconds", "predict_seconds")


@dataclass(frozen=True)
class LabelledTable:
    """A data set; classes are numbered from 0."""

    slug: str
    task: str
    x: pd.DataFrame
    y: np.ndarray[Any, Any]


def built_in_tables() -> Iterator[LabelledTable]:
    """Generate or load the data sets that do not need files."""
    x, y = make_moons(1000, noise=0.1, random_state=0)
    yield LabelledTable("noisy_moons", "classification", pd.DataFrame(x, columns=["x0", "x1"]), y)
    diabetes = load_diabetes(scaled=False, as_frame=True)
    yield LabelledTable("diabetes", "regression", diabetes.data, diabetes.target.to_numpy(float))


def tables_of_folder(folder: Path, wanted: Sequence[str]) -> Iterator[LabelledTable]:
    """Read the data sets in a folder's `datasets.json`; all of them if `wanted` is empty."""
    for slug, entry in json.loads((folder / "datasets.json").read_text()).items():
        if wanted and slug not in wanted:
            continue
        frame = pd.read_csv(folder / entry["file"], dtype=dict.fromkeys(entry["categorical"], str))
        y = _numbered(frame.pop(entry["target"]), entry["task"])
        excluded = [*entry["exclude_columns"], *MORE_EXCLUDED.get(slug, [])]
        x = frame.drop(columns=[name for name in excluded if name in frame])
        categories = [name for name in entry["categorical"] if name in x]
        yield LabelledTable(slug, entry["task"], x.astype(dict.fromkeys(categories, "category")), y)


def tables_of_cache(wanted: Sequence[str]) -> Iterator[LabelledTable]:
    """Load the paper's data sets that are in tabgnm's cache; print the names of the others."""
    missing = []
    for slug in dataset_names():
        spec = dataset_info(slug)
        if slug in ("noisy_moons", "diabetes", "xor") or (wanted and slug not in wanted):
            continue
        if availability(spec, data_folder()) not in ("cached", "archive"):
            missing.append(slug)
            continue
        data = load_dataset(slug, as_frame=True)
        yield LabelledTable(slug, data.task, data.data, _numbered(data.target, data.task))
    if missing:
        print(f"Not in the cache: {', '.join(missing)}; use `tabgnm datasets fetch` or --data")


def _numbered(target: pd.Series[Any], task: str) -> np.ndarray[Any, Any]:
    values = target.to_numpy()
    return np.asarray(values, float) if task == "regression" else np.unique(values, return_inverse=True)[1]


def fit_fold(table: LabelledTable, model: str, fold: int, options: argparse.Namespace) -> dict[str, float]:
    """Fit a model on a fold; return its scores and times by the names in `PER_FOLD`."""
    train, test = list(KFold(N_FOLDS, shuffle=True, random_state=0).split(table.x))[fold]
    seed = options.seed + (0 if model in OURS else fold)
    estimator = MODELS[model](ModelSettings(table.task, seed, options.device, options.quick))
    x_test, y_test = table.x.iloc[test], table.y[test]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # for example that a model with default settings has not converged
        started = time.perf_counter()
        estimator.fit(table.x.iloc[train], table.y[train])
        synchronise(options.device)
        fitted = time.perf_counter()
        predicted = np.asarray(estimator.predict(x_test)).ravel()
        done = time.perf_counter()
        times = {"seconds": fitted - started, "predict_seconds": done - fitted}
        if table.task == "regression":
            errors = (predicted - y_test) ** 2
            return {"fold_m1": float(errors.mean()), "fold_m2": float(r2_score(y_test, predicted))} | times
        probabilities = np.zeros((len(y_test), table.y.max() + 1))
        probabilities[:, estimator.classes_] = estimator.predict_proba(x_test)
    of_truth = np.clip(probabilities[np.arange(len(y_test)), y_test], MIN_PROBABILITY, 1)
    return {
        "fold_m1": 100 * float(np.mean(predicted == y_test)),
        "fold_m2": 100 * float(f1_score(y_test, predicted, average="macro")),
        "log_loss": float(-np.log(of_truth).mean()),
    } | times


def with_fold(result: Result, scores: dict[str, float], where: dict[str, Any]) -> Result:
    """Append a fold to a result; `machine` and `commit` list those of all folds."""
    folds = {name: [*result.get(name, []), scores[name]] for name in PER_FOLD if name in scores}
    summary = {
        "folds": len(folds["fold_m1"]),
        "m1": float(np.mean(folds["fold_m1"])),
        "s1": float(np.std(folds["fold_m1"])),
        "m2": float(np.mean(folds["fold_m2"])),
        "s2": float(np.std(folds["fold_m2"])),
        "sec_per_fold": float(np.mean(folds["seconds"])),
    }
    origin = {}
    for name in ("machine", "commit"):
        known = [each for each in (result.get(name), where[name]) if each]
        origin[name] = known[0] if known and known[-1] in known[0].split("; ") else "; ".join(known)
    return result | summary | folds | origin


def store(path: Path, result: Result) -> None:
    """Replace a result in the file, or add it, atomically."""
    results = read_results([path] if path.exists() else [])
    results[result["slug"], result["model"]] = result
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_text("".join(json.dumps(each) + "\n" for each in results.values()))
    temporary.replace(path)


def measure(options: argparse.Namespace) -> list[str]:
    """Fit the models that are not in the file yet; return those that failed, with the reasons."""
    started = time.monotonic()
    failures: list[str] = []
    description = machine(options.device)
    where = {
        "machine": description["gpu"]
        if options.device == "cuda"
        else f"{description['cpu']}, {description['cores']} cores",
        "commit": description["commit"],
    }
    settings = {"seed": options.seed} | ({"quick": True} if options.quick else {})
    for table in _tables(options):
        for model in options.models:
            found = read_results([options.output] if options.output.exists() else [])
            result = found.get((table.slug, model), {"slug": table.slug, "model": model, "task": table.task} | settings)
            if {name: result.get(name) for name in ("seed", "quick")} != {"quick": None} | settings:
                raise SystemExit(
                    f"{options.output} has {model} on {table.slug} with seed={result.get('seed')}, "
                    f"quick={result.get('quick', False)}; use the same settings or another --output"
                )
            for fold in range(len(result.get("fold_m1", [])), options.folds):
                if options.time_limit is not None and time.monotonic() - started > options.time_limit:
                    print(f"Stopped after --time-limit {options.time_limit:g} seconds; run again to continue")
                    return failures
                try:
                    scores = fit_fold(table, model, fold, options)
                except Exception as error:  # continue with the other models
                    traceback.print_exc()
                    failures.append(f"{model} on {table.slug}, fold {fold + 1}: {error!r}")
                    break
                result = with_fold(result, scores, where)
                store(options.output, result)
                print(
                    f"{table.slug} {model} {fold + 1}: {scores['fold_m1']:.5g}, {duration(scores['seconds'])}",
                    flush=True,
                )
    return failures


def _tables(options: argparse.Namespace) -> Iterator[LabelledTable]:
    """Yield the data sets that `--sets` and `--max-rows` select."""

    def every() -> Iterator[LabelledTable]:
        yield from built_in_tables()
        for folder in options.data:
            yield from tables_of_folder(folder, options.sets)
        if not options.data and not options.quick:
            yield from tables_of_cache(options.sets)

    unknown = set(options.sets)
    for table in every():
        unknown.discard(table.slug)
        if options.sets and table.slug not in options.sets:
            continue
        if options.max_rows is not None and len(table.y) > options.max_rows:
            print(f"{table.slug} left out: {len(table.y)} rows")
        else:
            yield table
    if unknown:
        print(f"No such data set: {', '.join(sorted(unknown))}")


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks accuracy", description="Compare accuracy with peers.")
    add = parser.add_argument
    add(
        "--data",
        action="append",
        type=Path,
        default=[],
        metavar="FOLDER",
        help="folder with datasets.json (default: the cache)",
    )
    add("--sets", type=_names, default=[], metavar="A,B", help="data sets (default: all)")
    add("--models", type=_names, default=list(MODELS), metavar="A,B", help=f"any of {', '.join(MODELS)} (default: all)")
    add("--folds", type=int, metavar="N", help="number of folds, out of 10 (default: 3, with --quick 1)")
    add("--max-rows", type=int, metavar="N", help="leave out larger data sets")
    add("--seed", type=int, default=0, help="seed of the models (default: 0); the folds are always the same")
    add("--device", choices=["cpu", "cuda"], default="cpu", help="where networks are trained (default: cpu)")
    add("--time-limit", type=float, metavar="SECONDS", help="start no fit after this time")
    add("--output", type=Path, metavar="FILE", help="file to create or resume (default: accuracy.jsonl)")
    add("--anchors", action="append", type=Path, default=[], metavar="FILE", help="results of others to compare with")
    add("--quick", action="store_true", help="only check that everything runs, without data files")
    options = parser.parse_args(arguments)
    options.folds = (1 if options.quick else 3) if options.folds is None else options.folds
    options.output = options.output or Path("accuracy-quick.jsonl" if options.quick else "accuracy.jsonl")
    if not 1 <= options.folds <= N_FOLDS:
        parser.error(f"--folds must be from 1 to {N_FOLDS}; got {options.folds}")
    for model in options.models:
        if model not in MODELS:
            parser.error(f"there is no model {model!r}; use {', '.join(MODELS)}")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda is not available, because torch finds no CUDA device; use --device cpu")
    if missing := [model for model in options.models if not is_installed(model)]:
        packages = ", ".join(dict.fromkeys(PACKAGES[model] for model in missing))
        print(f"Left out: {', '.join(missing)}; to include them, install {packages}")
        options.models = [model for model in options.models if model not in missing]
    return options


def main(arguments: Sequence[str]) -> None:
    options = options_of(arguments)
    failures = measure(options)
    if options.output.exists():
        print_standings([options.output], options.anchors)
    if failures:
        raise SystemExit("\n".join(["Failed:", *failures]))
