"""Standings of result files: `python -m benchmarks standings FILE... [--anchors FILE]`.

Each line of a file describes a model on a data set: `slug`, `model`, `task`, and `fold_m1` with the accuracy in percent
or the mean squared error of each fold. Models are compared on the folds that all models of a data set have.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.accuracy_models import PEERS
from benchmarks.timing import duration, print_table

Result = dict[str, Any]
Results = dict[tuple[str, str], Result]  # by data set and model


def read_results(paths: Iterable[Path]) -> Results:
    """Read result files; of two results of a model on a data set, keep the one with more folds, or the later one."""
    results: Results = {}
    for path in paths:
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            try:
                result = json.loads(line)
                key, n_folds = (result["slug"], result["model"]), len(result["fold_m1"])
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{path}, line {number} is not a result: {error!r}; remove the line") from error
            if key not in results or n_folds >= len(results[key]["fold_m1"]):
                results[key] = result
    return results


@dataclass
class Wins:
    """The number of data sets on which a model is better than another; a tie counts one half."""

    won: float = 0.0
    total: int = 0

    def add(self, ours: float, theirs: float) -> None:
        self.won += (ours < theirs) + 0.5 * (ours == theirs)
        self.total += 1

    def __str__(self) -> str:
        return f"{self.won:g} of {self.total}"


@dataclass
class Standings:
    """Comparison of models over data sets.

    Rank 1 is the best, and ties share the mean rank. A gap is the fraction by which a model's error would have to
    decrease to equal the smallest error.
    """

    ours: list[str]
    peers: list[str]
    n_folds: dict[str, int] = field(default_factory=dict)
    errors: dict[str, dict[str, float]] = field(default_factory=dict)
    ranks: dict[str, list[float]] = field(default_factory=dict)
    gaps: dict[str, list[float]] = field(default_factory=dict)
    wins: dict[tuple[str, str], Wins] = field(default_factory=dict)

    @property
    def models(self) -> list[str]:
        return [*self.ours, *self.peers]


def compare(results: Results) -> Standings:
    """Compare all models on the data sets with results of our models; if there are none of ours, on all."""
    models = sorted({model for _, model in results})
    standings = Standings([each for each in models if each not in PEERS], [each for each in models if each in PEERS])
    for slug in sorted({slug for slug, _ in results}):
        own = {model: results[slug, model] for model in standings.models if (slug, model) in results}
        if standings.ours and not own.keys() & set(standings.ours):
            continue
        n_folds = min(len(result["fold_m1"]) for result in own.values())
        errors = {model: _error(result, n_folds) for model, result in own.items()}
        standings.n_folds[slug], standings.errors[slug] = n_folds, errors
        best = min(errors.values())
        for model, error in errors.items():
            better, equal = (sum(e < error for e in errors.values()), sum(e == error for e in errors.values()))
            standings.ranks.setdefault(model, []).append(better + (equal + 1) / 2)
            standings.gaps.setdefault(model, []).append((error - best) / error if error else 0.0)
        _count_wins(standings.wins, standings, errors)
    return standings


def _error(result: Result, n_folds: int) -> float:
    """Return the error rate in percent, or the mean squared error; lower is better."""
    mean = float(sum(result["fold_m1"][:n_folds]) / n_folds)
    return 100 - mean if result["task"] == "classification" else mean


def _count_wins(wins: dict[tuple[str, str], Wins], models: Standings, values: Mapping[str, float]) -> None:
    for our in models.ours:
        for peer in models.peers:
            if our in values and peer in values:
                wins.setdefault((our, peer), Wins()).add(values[our], values[peer])


def compare_log_loss(results: Results, models: Standings) -> dict[tuple[str, str], Wins]:
    """Count the data sets on which our log-loss is lower than a peer's, on the folds that both have."""
    wins: dict[tuple[str, str], Wins] = {}
    losses = {key: result["log_loss"] for key, result in results.items() if result.get("log_loss")}
    for (slug, our), own in losses.items():
        for peer in models.peers if our in models.ours else ():
            if theirs := losses.get((slug, peer)):
                n_folds = min(len(own), len(theirs))
                means = statistics.fmean(own[:n_folds]), statistics.fmean(theirs[:n_folds])
                wins.setdefault((our, peer), Wins()).add(*means)
    return wins


def print_standings(measured: Sequence[Path], anchors: Sequence[Path] = ()) -> None:
    """Print errors, mean ranks and wins of all files, but log-losses and seconds only of measured files.

    Anchors have no log-loss, and their seconds come from other machines.
    """
    standings, own = compare(read_results([*anchors, *measured])), read_results(measured)
    models = standings.models

    def cells(values: Mapping[str, str]) -> list[str]:
        return [values.get(model, "-") for model in models]

    rows = []
    for slug, errors in standings.errors.items():
        best = min(errors.values())
        shown = {model: f"{error:.5g}{'*' if error == best else ' '}" for model, error in errors.items()}
        rows.append([f"{slug}/{standings.n_folds[slug]}", *cells(shown)])
    ranks = {model: f"{statistics.fmean(values):.2f} " for model, values in standings.ranks.items()}
    gaps = {model: f"{100 * statistics.fmean(values):.1f}% " for model, values in standings.gaps.items()}
    rows += [["mean rank", *cells(ranks)], ["improvable by", *cells(gaps)]]
    print_table("Error in percent or mean squared error, * the least", ["data set/folds", *models], rows)

    log_loss = compare_log_loss(own, standings)
    if standings.wins:
        pairs = [
            [our, peer, str(standings.wins[our, peer]), str(log_loss.get((our, peer), "-"))]
            for our, peer in sorted(standings.wins)
        ]
        print_table("Data sets on which ours is better", ["ours", "peer", "error", "log-loss"], pairs)
    seconds: dict[str, list[float]] = {}
    for (_, model), result in own.items():
        if "sec_per_fold" in result:
            seconds.setdefault(model, []).append(result["sec_per_fold"])
    times = [
        [each, duration(statistics.median(seconds[each])), len(seconds[each])] for each in models if each in seconds
    ]
    print_table("Median time of a fit, over the data sets of each model", ["model", "a fold", "data sets"], times)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks standings", description="Compare results of models.")
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="results of `python -m benchmarks accuracy`"
    )
    parser.add_argument(
        "--anchors", action="append", type=Path, default=[], metavar="FILE", help="results of others to compare with"
    )
    options = parser.parse_args(arguments)
    print_standings(options.files, options.anchors)
