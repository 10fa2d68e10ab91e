"""Run the protocol: plan what is missing, claim it, train it, store it."""

from __future__ import annotations

import itertools
import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tabgnm.datasets import DatasetContentError, dataset_info, dataset_names
from tabgnm.datasets.cache import data_folder
from tabgnm.datasets.retrieval import availability
from tabgnm.paper import data as paper_data
from tabgnm.paper.claims import MAX_WAIT_SECONDS, WaitingForOthers
from tabgnm.paper.engines import Engine, WorkerLostError
from tabgnm.paper.protocol import MODELS, Model, Setting, Skipped, Source, Unit, bodies, units
from tabgnm.paper.store import ResultStore

_log = logging.getLogger("tabgnm.paper")

_ATTEMPTS = 5  # in a row that lost a worker


@dataclass(frozen=True)
class ExperimentPlan:
    """The planned work: fleets, the parts of the grid that are left out, and data sets that are not available."""

    units: list[Unit]
    sources: list[Source]
    skipped: dict[str, list[Skipped]]
    missing: dict[str, str]

    @property
    def n_models(self) -> int:
        """The number of trainings."""
        return sum(unit.n_models for unit in self.units)

    def result_keys(self) -> list[str]:
        """Return the keys of all results."""
        return [key for unit in self.units for key in unit.result_keys()]

    def shard(self, number: int, of: int) -> ExperimentPlan:
        """Return one of `of` parts of about the same cost."""
        if not 1 <= number <= of:
            raise ValueError(f"shard {number}/{of} does not exist; expected 1/{of} to {of}/{of}")
        fair = sum(unit.cost for unit in self.units) / of
        # A fleet of more than half a part would make the parts uneven, so it is split into one fleet per fold.
        pieces = [own for unit in self.units for own in (unit.by_fold() if unit.cost > fair / 2 else [unit])]
        # Each piece goes to the part with the lowest cost. If there are more parts than pieces, the rest is empty.
        loads, own = [0.0] * min(of, len(pieces)), []
        for cost, _, unit in sorted(((-unit.cost, unit.first_key(), unit) for unit in pieces), key=lambda own: own[:2]):
            lightest = loads.index(min(loads))
            loads[lightest] -= cost
            if lightest == number - 1:
                own.append(unit)
        return replace(self, units=own)


def data_sets(only: Sequence[str] = (), data_home: str | None = None) -> list[tuple[str, str]]:
    """Return the names and variants of the data sets of tables 1 and 2, or of the given ones.

    All data sets have the variant of the paper; the two with leaking columns also have the clean variant. If the folder
    only has a sample of a data set, the variant is "sample".
    """
    known = [name for name in dataset_names() if dataset_info(name).in_tables]
    for name in only:
        if name not in known:
            dataset_info(name)  # raises an error with similar names if there is no such data set
            raise ValueError(f"{name!r} is not in the paper's tables; use some of {', '.join(known)}")
    pairs = []
    for name in known:
        if only and name not in only:
            continue
        spec = dataset_info(name)
        sampled = spec.may_be_sampled and availability(spec, data_folder(data_home)).startswith("sample")
        pairs.append((name, "sample" if sampled else "paper"))
        if spec.leaking:
            pairs.append((name, "clean"))
    return pairs


def plan(
    names: Sequence[tuple[str, str]],
    setting: Setting,
    *,
    models: Sequence[Model] = MODELS,
    folds: Sequence[int] | None = None,
    data_home: str | None = None,
) -> ExperimentPlan:
    """Plan the fleets of data sets; data sets that cannot be loaded are listed with the reason."""
    wanted = tuple(range(setting.n_folds)) if folds is None else tuple(sorted(set(folds)))
    outside = [fold for fold in wanted if not 0 <= fold < setting.n_folds]
    if outside or not wanted:
        raise ValueError(f"folds {outside or '[]'} do not exist; expected some of 0 to {setting.n_folds - 1}")
    found: list[Unit] = []
    sources: list[Source] = []
    skipped: dict[str, list[Skipped]] = {}
    missing: dict[str, str] = {}
    for name, variant in names:
        try:
            source = paper_data.load(name, variant, data_home).source
        except (OSError, DatasetContentError) as error:
            missing[f"{name} ({variant})"] = str(error)
            continue
        sources.append(source)
        found += units(source, setting, models, wanted)
        left_out = [own for model in models for own in bodies(source, model)[1]]
        if left_out:
            skipped[f"{name} ({variant})"] = left_out
    found.sort(key=lambda unit: -unit.cost)
    return ExperimentPlan(found, sources, skipped, missing)


def missing_units(store: ResultStore, wanted: Sequence[Unit]) -> list[Unit]:
    """Return the fleets of all results that are not in the store."""
    left = (unit.without(store.done(unit.result_keys())) for unit in wanted)
    return [unit for unit in left if unit is not None]


@dataclass(frozen=True)
class Progress:
    """The progress of a run: finished and total trainings and multiply-adds, and seconds since its start."""

    done: int
    total: int
    cost_done: float
    cost_total: float
    seconds: float

    @property
    def seconds_left(self) -> float:
        """Estimate from the work done so far in this run; NaN before anything was done."""
        if self.cost_done == 0:
            return math.nan
        return self.seconds * (self.cost_total - self.cost_done) / self.cost_done


def run(
    wanted: ExperimentPlan,
    store: ResultStore,
    engine: Engine | None = None,
    *,
    progress: Callable[[Progress], Any] | None = None,
    max_wait: float = MAX_WAIT_SECONDS,
) -> None:
    """Train everything that is missing in the store.

    Other processes may work on the same store. If this process has to wait for others, it logs their names, and raises
    `StoreError` if they store nothing new for `max_wait` seconds.
    """
    engine = engine or Engine()
    began = time.monotonic()
    todo = missing_units(store, wanted.units)
    cost_of = {key: unit.cost / unit.n_models for unit in todo for key in unit.result_keys()}
    left = set(cost_of)

    def report() -> None:
        if progress is not None:
            cost_left = sum(cost_of[key] for key in left)
            total = sum(cost_of.values())
            progress(
                Progress(len(cost_of) - len(left), len(cost_of), total - cost_left, total, time.monotonic() - began)
            )

    report()
    lost_in_a_row = 0
    waiting = WaitingForOthers(store.claims, max_wait)
    with store.claims.renewing():
        while todo:
            claimed, first = _claimed(store, todo), None
            try:
                # An engine may be a cluster: do not start one if other processes have claimed all remaining work.
                first = next(claimed, None)
                for results in engine.run(itertools.chain([first], claimed)) if first is not None else ():
                    store.add(results)
                    lost_in_a_row = 0
                    left.difference_update(result.key for result in results)
                    report()
            except WorkerLostError as error:
                lost_in_a_row += 1
                if lost_in_a_row == _ATTEMPTS:
                    raise
                _log.warning("%s; continuing with the remaining work", error)
            finally:
                store.claims.release()
            todo = missing_units(store, todo)
            left.intersection_update(key for unit in todo for key in unit.result_keys())
            report()
            if todo and first is None:
                waiting.pause([key for unit in todo for key in unit.result_keys()])


def _claimed(store: ResultStore, todo: Sequence[Unit]) -> Iterator[Unit]:
    """Claim the free part of each unit when its turn comes, and yield it."""
    for unit in todo:
        keys = unit.result_keys()
        free = unit.without(set(keys) - store.claims.take(keys))
        if free is not None:
            yield free
