"""Plans: models of many shapes and settings, grouped into fleets, the largest first."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial

import torch

from tabgnm.nn.shapes import Shape, with_frequency_scale
from tabgnm.training.callbacks import Callback
from tabgnm.training.cluster import n_cluster_workers, settings_of_worker, split, train_on_cluster
from tabgnm.training.concurrent_fleets import DeviceTask, Interrupted, train_on_devices
from tabgnm.training.data import Table
from tabgnm.training.devices import devices_for
from tabgnm.training.fleet import Fleet
from tabgnm.training.interruption import is_within_fit
from tabgnm.training.progress import ProgressBar, ProgressLine
from tabgnm.training.result import TrainedModel
from tabgnm.training.settings import FleetSettings, Member
from tabgnm.training.steps.numpy_step import SMALLEST_GROUP


@dataclass(frozen=True, eq=False)
class Job:
    """One model to train: its shape, the settings of its fleet, and its own settings."""

    shape: Shape
    settings: FleetSettings
    member: Member


@dataclass(frozen=True)
class PlannedFleet:
    """Jobs that are trained together, by their positions in the plan, and an estimate of the work."""

    jobs: tuple[int, ...]
    shape: Shape
    settings: FleetSettings
    cost: float  # multiply-adds


_EVEN = 1.1  # of an equal share of the work: fleets are not divided for less
_ROUNDING = 1e-6
_SHARED_STEPS = 4  # steps must be this many times longer for threads that share them: these wait more often
_MAX_COPIED = 2**29  # bytes of all copies of a table, for fleets that are trained at once on a CPU


def multiply_adds(shape: Shape, n_rows: float) -> float:
    """Return an estimate of the work of training networks of a shape on `n_rows` rows, those of all epochs together."""
    return 3.0 * sum(math.prod(size) for size in shape.parameter_shapes().values()) * n_rows


def step_work(shape: Shape, settings: FleetSettings, n_models: int) -> int:
    """Return the multiply-adds of a forward pass of some models, each with one batch."""
    return n_models * settings.batch_size * shape.n_effective_parameters()


def division_of_threads(n_threads: int, works: Sequence[int], table_bytes: int) -> tuple[int, int]:
    """Return how many fleets are trained at once on a CPU, and the number of threads of each of them.

    Threads that train their own fleets wait less for each other than threads that share the steps of a fleet, unless
    steps are so short that threads mostly wait for the interpreter lock.

    Parameters
    ----------
    n_threads : int
        The number of threads of all fleets together.
    works : sequence of int
        The `step_work` of each fleet.
    table_bytes : int
        The size of the largest table; each fleet has a copy of its table.
    """
    mean_work = sum(works) // len(works)
    if is_within_fit() or mean_work < SMALLEST_GROUP:
        return 1, n_threads
    n_useful = 2 * mean_work // SMALLEST_GROUP  # with more threads, all of them take longer
    n_at_once = max(1, min(n_threads, n_useful, len(works), _MAX_COPIED // max(1, table_bytes)))
    return n_at_once, max(1, min(n_threads, n_useful // _SHARED_STEPS) // n_at_once)


def divided(fleets: Sequence[PlannedFleet], n_devices: int) -> list[PlannedFleet]:
    """Divide the fleets that are too large to be spread evenly over devices; return the parts, largest first.

    The models of each fleet are given to the device with the least work so far, until it has an equal share of all
    work, then to the next one.
    """
    share = sum(fleet.cost for fleet in fleets) / n_devices
    work = [0.0] * n_devices
    parts = []
    for fleet in fleets:
        rest, cost = fleet.jobs, max(1.0, fleet.cost / len(fleet.jobs))
        while rest:
            place = work.index(min(work))
            n_jobs = len(rest)
            if work[place] + n_jobs * cost > _EVEN * share:
                n_jobs = min(n_jobs, max(1, math.ceil((share - work[place]) / cost - _ROUNDING)))
            parts.append(replace(fleet, jobs=rest[:n_jobs], cost=n_jobs * cost))
            work[place] += n_jobs * cost
            rest = rest[n_jobs:]
    return sorted(parts, key=lambda part: -part.cost)


_BarOf = Callable[[PlannedFleet], Callback]


class FleetPlan:
    """Groups jobs (configurations x folds x members) into fleets, and trains them.

    Parameters
    ----------
    jobs : sequence of Job
        The models to train, in any order. Results are in the same order.
    tables : Table or sequence of Table
        The data. `Member.table` is the position of the table of each model.

    Examples
    --------
    >>> import torch
    >>> from tabgnm.nn import GNMShape, MLPShape
    >>> from tabgnm.nn.losses import SquaredError
    >>> from tabgnm.training import FleetPlan, FleetSettings, Job, Member, Table
    >>> settings = FleetSettings(loss=SquaredError(), max_epochs=2)
    >>> shapes = [GNMShape(1, 1, 10, 2), MLPShape(1, 1, (8,))]
    >>> jobs = [Job(shape, settings, Member(seed=seed)) for seed in range(4) for shape in shapes]
    >>> x = torch.linspace(-1, 1, 64).unsqueeze(1)
    >>> plan = FleetPlan(jobs, Table(x, x**2))
    >>> [len(fleet.jobs) for fleet in plan.fleets], len(plan.run())
    ([4, 4], 8)
    """

    def __init__(self, jobs: Sequence[Job], tables: Table | Sequence[Table]) -> None:
        self.jobs = list(jobs)
        if not self.jobs:
            raise ValueError("jobs is empty; expected at least one Job to train")
        if not all(isinstance(job, Job) for job in self.jobs):
            raise TypeError("jobs must be a sequence of Job, as in FleetPlan([Job(shape, settings, Member())], tables)")
        self.tables = [tables] if isinstance(tables, Table) else list(tables)
        most = max(job.member.table for job in self.jobs)
        if most >= len(self.tables):
            raise ValueError(f"a model has table={most}, but {len(self.tables)} tables were given")
        groups: dict[object, list[int]] = {}
        for position, job in enumerate(self.jobs):
            member = job.member
            shape = with_frequency_scale(job.shape, 1.0)  # models of a fleet may have different scales
            key = (shape, job.settings, member.val is not None, member.l0 > 0)
            groups.setdefault(key, []).append(position)
        fleets = [self._planned(positions) for positions in groups.values()]
        self.fleets = sorted(fleets, key=lambda fleet: -fleet.cost)
        self.seconds: dict[tuple[int, ...], float] = {}  # of fleets trained at once on a CPU, divided by their number
        self._elapsed: dict[tuple[int, ...], float] = {}

    def _planned(self, positions: list[int]) -> PlannedFleet:
        first = self.jobs[positions[0]]
        n_rows = 0
        for position in positions:
            member = self.jobs[position].member
            n_rows += len(self.tables[member.table].x) if member.train is None else member.train.numel()
        cost = multiply_adds(first.shape, n_rows * first.settings.max_epochs)
        return PlannedFleet(tuple(positions), first.shape, first.settings, cost)

    def run(self, *, verbose: int = 0) -> list[TrainedModel]:
        """Train everything; return the models in the order of the jobs.

        After Ctrl-C, models that were not reached have their initial weights, and the status of their histories is
        "interrupted".
        """
        for fleet in self.fleets:  # an error in the last fleet must not discard the others
            of_members, tables = self._fleet_of(fleet)
            of_members.checked_rows(tables)
        trained: dict[int, TrainedModel] = {}
        try:
            for fleet, models in self.run_fleets(verbose=verbose):
                trained.update(zip(fleet.jobs, models, strict=True))
        except Interrupted:
            for fleet in self.fleets:
                missing = tuple(position for position in fleet.jobs if position not in trained)
                if missing:
                    untrained = self._fleet_of(replace(fleet, jobs=missing))[0].untrained()
                    trained.update(zip(missing, untrained.models, strict=True))
        return [trained[position] for position in range(len(self.jobs))]

    def run_fleets(
        self,
        *,
        verbose: int = 0,
        deadline: float | None = None,
        progress: _BarOf | None = None,
        here: bool = False,
    ) -> Iterator[tuple[PlannedFleet, list[TrainedModel]]]:
        """Train fleet after fleet, and yield each with its models when it is done.

        `verbose=1` shows the progress of this plan. To show several plans as one, pass `progress` instead, a function
        that returns the progress bar of a fleet, or any other callback for one fleet.

        Several fleets are trained at once, each in its own thread. With the device "cuda" or "auto", fleets are spread
        over all GPUs of the same model; large ones are divided, and each part is yielded. Within joblib's
        `parallel_config` of a cluster (Dask or Ray), or of several processes (loky) on a CPU, fleets are divided among
        the workers, unless `here` is True.
        After Ctrl-C, or at `deadline`, a time of `time.monotonic`, the fleets that were started are yielded, and
        `Interrupted` (a KeyboardInterrupt) is raised at the end. On a cluster or in several processes, models that were
        not reached at the deadline are yielded with their initial weights, and Ctrl-C discards the fleets that were not
        yielded yet and raises a plain KeyboardInterrupt.
        """
        line = ProgressLine(deadline=deadline)
        shows = bool(verbose) and progress is None
        bar_of = (lambda _fleet: ProgressBar(line=line)) if shows else progress
        own_devices = {fleet.settings.torch_device() for fleet in self.fleets}
        device = own_devices.pop()
        devices = [torch.device("cpu")] if own_devices else devices_for(device, sum(f.cost for f in self.fleets))
        parts = divided(self.fleets, len(devices)) if len(devices) > 1 else self.fleets
        n_at_once, n_threads = None, None
        if own_devices or len(parts) <= len(devices):
            n_at_once = 1
        elif device.type == "cpu":
            n_at_once, n_threads = self.division_of_threads()
            n_threads = n_threads if n_at_once > 1 else None

        def task_of(part: PlannedFleet) -> DeviceTask[list[TrainedModel]]:
            hooks = [] if bar_of is None else [bar_of(part)]
            if n_threads is not None:
                part = replace(part, settings=replace(part.settings, n_threads=n_threads))
            return DeviceTask(partial(self.run_fleet, part, callbacks=hooks), part.cost)

        with line.shown(len(self.jobs), self.n_model_epochs) if shows else nullcontext():
            n_workers = 0 if here else n_cluster_workers(device, sum(fleet.cost for fleet in self.fleets))
            if n_workers:
                yield from self._run_on_cluster(n_workers, deadline, bar_of)
                return
            for number, models in train_on_devices(map(task_of, parts), devices, n_at_once, deadline):
                if n_threads is not None:
                    self.seconds[parts[number].jobs] = self._elapsed[parts[number].jobs] / (n_at_once or 1)
                yield parts[number], models

    def division_of_threads(self) -> tuple[int, int]:
        """Return how many fleets are trained at once on a CPU, and the number of threads of each of them."""
        n_threads = min(fleet.settings.thread_count() for fleet in self.fleets)
        works = [step_work(fleet.shape, fleet.settings, len(fleet.jobs)) for fleet in self.fleets]
        size = max(fleet.settings.dtype.itemsize for fleet in self.fleets)
        return division_of_threads(n_threads, works, max(size * table.x.numel() for table in self.tables))

    @property
    def n_model_epochs(self) -> int:
        """The total number of epochs of all models, if none stops early."""
        return sum(len(fleet.jobs) * fleet.settings.max_epochs for fleet in self.fleets)

    def _run_on_cluster(
        self, n_workers: int, deadline: float | None, bar_of: _BarOf | None
    ) -> Iterator[tuple[PlannedFleet, list[TrainedModel]]]:
        parts = [
            replace(fleet, jobs=jobs) for fleet in self.fleets for jobs in split(fleet.jobs, len(self.jobs), n_workers)
        ]
        tasks = [self._fleet_of(replace(part, settings=settings_of_worker(part.settings, n_workers))) for part in parts]
        for number, models in train_on_cluster(tasks, n_workers, deadline):
            if bar_of is not None:  # workers do not report epochs
                bar = bar_of(parts[number])
                bar.on_train_begin(len(models), parts[number].settings.max_epochs)
                for position, model in enumerate(models):
                    bar.on_model_end(position, 0, model.history.status)
                bar.on_train_end()
            yield parts[number], models

    def run_fleet(
        self, fleet: PlannedFleet, device: torch.device | None = None, *, callbacks: Sequence[Callback] = ()
    ) -> list[TrainedModel]:
        """Train one fleet of the plan; a device with an index, such as "cuda:1", replaces that of its settings."""
        if device is not None and device.index is not None:
            fleet = replace(fleet, settings=replace(fleet.settings, device=str(device)))
        of_members, tables = self._fleet_of(fleet)
        began = time.monotonic()
        models = of_members.fit(tables, callbacks=callbacks).models
        self._elapsed[fleet.jobs] = time.monotonic() - began
        return models

    def _fleet_of(self, fleet: PlannedFleet) -> tuple[Fleet, list[Table]]:
        # Only the tables of these models, because others may have different columns or targets.
        members = [self.jobs[position].member for position in fleet.jobs]
        used = sorted({member.table for member in members})
        scales = [getattr(self.jobs[position].shape.embedding, "frequency_scale", None) for position in fleet.jobs]
        own = [
            replace(member, table=used.index(member.table), frequency_scale=member.frequency_scale or scale)
            for member, scale in zip(members, scales, strict=True)
        ]
        return Fleet(fleet.shape, own, fleet.settings), [self.tables[number] for number in used]
