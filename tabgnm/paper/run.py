"""Run the protocol: plan what is missing, claim it, train it, store it; and read the store again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tabgnm.datasets import dataset_names
from tabgnm.paper import data as paper_data
from tabgnm.paper.engines import Engine, run_units
from tabgnm.paper.protocol import MODELS, Model, Setting, Skipped, Unit, bodies, units
from tabgnm.paper.store import ResultStore

_log = logging.getLogger("tabgnm.paper")

# Data sets of the paper's tables, as (name, variant): the two with a leak in both forms.
LEAKY = ("electrical_grid", "bike_sharing")


@dataclass(frozen=True)
class Plan:
    """What there is to do: fleets, the parts of the grid that are left out, and data sets that are not there."""

    units: list[Unit]
    skipped: dict[str, list[Skipped]]
    missing: dict[str, str]

    @property
    def n_models(self) -> int:
        """Trainings."""
        return sum(unit.n_models for unit in self.units)

    @property
    def cost(self) -> float:
        """Multiply-adds."""
        return sum(unit.cost for unit in self.units)

    def shard(self, number: int, of: int) -> Plan:
        """Return one of `of` parts of about the same cost: fleets are dealt out, the largest first."""
        if not 1 <= number <= of:
            raise ValueError(f"shard {number}/{of} does not exist; expected 1/{of} to {of}/{of}")
        loads, parts = [0.0] * of, [[] for _ in range(of)]  # type: ignore[var-annotated]
        for unit in sorted(self.units, key=lambda unit: (-unit.cost, unit.name)):
            lightest = loads.index(min(loads))
            loads[lightest] += unit.cost
            parts[lightest].append(unit)
        return Plan(parts[number - 1], self.skipped, self.missing)


def all_data_sets() -> list[tuple[str, str]]:
    """Names and variants of all data sets of the tables."""
    pairs = []
    for name in dataset_names():
        if name == "xor":
            continue  # of the sparse experiment
        pairs.append((name, "clean"))
        if name in LEAKY:
            pairs.append((name, "paper"))
    return pairs


def plan(
    data_sets: Sequence[tuple[str, str]],
    setting: Setting,
    *,
    models: Sequence[Model] = MODELS,
    folds: Sequence[int] | None = None,
    data_home: str | None = None,
) -> Plan:
    """List the fleets of data sets; those that cannot be loaded are named with the reason."""
    wanted = tuple(range(setting.n_folds)) if folds is None else tuple(sorted(set(folds)))
    outside = [fold for fold in wanted if not 0 <= fold < setting.n_folds]
    if outside or not wanted:
        raise ValueError(f"folds {outside or '[]'} do not exist; expected some of 0 to {setting.n_folds - 1}")
    found: list[Unit] = []
    skipped: dict[str, list[Skipped]] = {}
    missing: dict[str, str] = {}
    for name, variant in data_sets:
        label = name if variant == "clean" else f"{name} ({variant})"
        try:
            source = paper_data.load(name, variant, data_home).source
        except (OSError, ValueError, RuntimeError) as error:
            missing[label] = str(error)
            continue
        found += units(source, setting, tuple(models), wanted)
        left_out = [own for model in models for own in bodies(source, model)[1]]
        if left_out:
            skipped[label] = left_out
    found.sort(key=lambda unit: -unit.cost)
    return Plan(found, skipped, missing)


@dataclass(frozen=True)
class Progress:
    """How far a run is: fleets and multiply-adds done of all, and seconds since it began."""

    done: int
    total: int
    cost_done: float
    cost_total: float
    seconds: float

    @property
    def seconds_left(self) -> float:
        """Estimate from the work done so far in this run; NaN before anything was done."""
        if self.cost_done == 0:
            return float("nan")
        return self.seconds * (self.cost_total - self.cost_done) / self.cost_done


def missing_units(store: ResultStore, wanted: Sequence[Unit]) -> list[Unit]:
    """Fleets whose results are not all in the store."""
    return [unit for unit in wanted if len(store.done(unit.keys())) < unit.n_models]


def run(
    wanted: Plan,
    store: ResultStore,
    *,
    engine: Engine = "local",
    n_jobs: int = 1,
    address: str | None = None,
    data_home: str | None = None,
    device: str = "auto",
    verbose: int = 0,
    progress: Callable[[Progress], Any] | None = None,
) -> None:
    """Train what is missing. Other processes on the same store may do a part of it; this one waits for them."""
    began = time.monotonic()
    todo = missing_units(store, wanted.units)
    total, cost_total = len(todo), sum(unit.cost for unit in todo)
    by_key = {unit.keys()[0]: unit for unit in todo}
    done, cost_done = 0, 0.0

    def report() -> None:
        if progress is not None:
            progress(Progress(done, total, cost_done, cost_total, time.monotonic() - began))

    report()
    with store.renewing():
        while todo:
            claimed: list[Unit] = []
            try:
                for results in run_units(
                    _claimed(store, todo, claimed) if engine == "local" and n_jobs == 1 else _all(store, todo, claimed),
                    engine=engine,
                    n_jobs=n_jobs,
                    address=address,
                    data_home=data_home,
                    device=device,
                    verbose=verbose,
                    remaining=lambda: missing_units(store, claimed),
                ):
                    store.add(results)
                    unit = by_key[results[0].key]
                    store.release(unit.name)
                    done, cost_done = done + 1, cost_done + unit.cost
                    report()
            finally:
                for unit in claimed:
                    store.release(unit.name)
            before = len(todo)
            todo = missing_units(store, todo)
            if todo and len(todo) == before and not claimed:
                time.sleep(1.0)  # others are at it
        done, cost_done = total, cost_total
        report()


class _claimed(Sequence[Unit]):  # noqa: N801
    """Units that are claimed one by one, when their turn comes."""

    def __init__(self, store: ResultStore, todo: Sequence[Unit], claimed: list[Unit]) -> None:
        self._store, self._todo, self._own = store, todo, claimed

    def __len__(self) -> int:
        return len(self._todo)

    def __getitem__(self, index: Any) -> Any:
        return self._todo[index]

    def __iter__(self) -> Iterator[Unit]:
        for unit in self._todo:
            if not self._store.claim(unit.name):
                continue
            if not missing_units(self._store, [unit]):  # another process was faster
                self._store.release(unit.name)
                continue
            self._own.append(unit)
            yield unit


def _all(store: ResultStore, todo: Sequence[Unit], claimed: list[Unit]) -> list[Unit]:
    """Units that are claimed at once, for workers that take them in any order."""
    own = list(_claimed(store, todo, claimed))
    return own
