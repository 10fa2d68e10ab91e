"""Reducing a fit to what a time limit allows, by a measurement on this machine."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Sequence
from dataclasses import replace

import torch

from tabgnm.estimators.fitting import PreparedCandidate, PreparedFit
from tabgnm.training import Callback, EpochReport, FleetPlan, Job, Table
from tabgnm.training.concurrent_fleets import Interrupted
from tabgnm.training.devices import devices_for
from tabgnm.training.plan import PlannedFleet, multiply_adds

_log = logging.getLogger("tabgnm")

# Of the time limit; the rest is for out-of-fold predictions, selection and importances.
SHARE_OF_TRAINING = 0.9
LEAST_SECONDS = 0.3
_SHARE_OF_PLAN = 0.97  # of what is left for training: a measurement of a few epochs is not exact
# After a trial, plan for more: the learning rate is nearly 0 in the last epochs, so little is lost if they are missing.
_SHARE_AFTER_TRIAL = 1.1
_PROBE_ROWS, _PROBE_EPOCHS = 4096, 2
_SHARE_OF_PROBE = 0.25  # at most, of the time that is left
_USED_EPOCHS = 0.7  # share of the epochs that networks need before they stop early, roughly
_WORTHWHILE_CANDIDATES = 2
_FEWEST_FOLDS = 2
# If there is no time for two candidates: how many are tried, for how many epochs at least, and the share of the time.
_MOST_TRIED, _TRIAL_EPOCHS, _SHARE_OF_TRIAL = 4, 4, 0.3


class _Clock(Callback):
    """Times the ends of epochs of a fleet that is trained on `n_rows` rows."""

    def __init__(self, n_rows: int) -> None:
        self.n_rows = n_rows
        self.times: list[float] = []

    def on_epoch_end(self, report: EpochReport) -> None:  # noqa: ARG002 - the hook's signature
        """Note the time."""
        self.times.append(time.monotonic())

    def rows_per_second(self) -> float:
        """Return the speed of the fastest epoch but the first."""
        fastest = min(after - before for before, after in itertools.pairwise(self.times))
        return self.n_rows / max(fastest, 1e-6)


def reduced(prepared: PreparedFit, deadline: float) -> PreparedFit:
    """Return the fit with as many candidates, folds and epochs as there is time for.

    If there is no time for two candidates, it has some candidates to try, see `trial`, or only the first one.
    """
    first = prepared.candidates[0]
    speed = _rows_per_second(prepared, _SHARE_OF_PROBE * max(0.0, deadline - time.monotonic()))  # of one device
    n_rows = len(first.members[0].train) if first.members[0].train is not None else len(first.data.table.x)
    seconds = max(0.0, deadline - time.monotonic()) * _SHARE_OF_PLAN
    work = multiply_adds(first.shape, seconds * speed)
    budget = seconds * speed * len(devices_for(first.fleet.torch_device(), work)) / max(1, n_rows)  # network epochs
    n_folds, epochs = len(first.members), first.fleet.max_epochs
    n_candidates = int(budget / (n_folds * epochs * _USED_EPOCHS))
    if prepared.previous is not None:  # training continues: all networks stay
        n_candidates = len(prepared.candidates)
        epochs = max(1, min(epochs, int(budget / (n_folds * n_candidates))))
    elif n_candidates < _WORTHWHILE_CANDIDATES:
        n_tried = min(len(prepared.candidates), _MOST_TRIED, int(_SHARE_OF_TRIAL * budget / _TRIAL_EPOCHS))
        if n_tried > 1:
            trial_epochs = min(epochs, int(_SHARE_OF_TRIAL * budget / n_tried))
            _log.info("the time limit allows to try %d settings on one fold for %d epochs", n_tried, trial_epochs)
            return replace(prepared, candidates=prepared.candidates[:n_tried], trial_epochs=trial_epochs)
        n_candidates, n_folds, epochs = 1, *_folds_and_epochs(first, budget)
    n_candidates = min(n_candidates, len(prepared.candidates))
    _log.info("the time limit allows %d settings on %d folds with up to %d epochs", n_candidates, n_folds, epochs)
    return replace(
        prepared, candidates=[_shortened(own, n_folds, epochs) for own in prepared.candidates[:n_candidates]]
    )


def trial(prepared: PreparedFit) -> PreparedFit:
    """Return the fit that tries all candidates on the first fold, for a few epochs."""
    assert prepared.trial_epochs is not None
    return replace(prepared, candidates=[_shortened(own, 1, prepared.trial_epochs) for own in prepared.candidates])


def after_trial(prepared: PreparedFit, number: int, seconds_per_epoch: float, deadline: float) -> PreparedFit:
    """Return the fit in which a candidate has as many folds and epochs as there is time for.

    Parameters
    ----------
    prepared : PreparedFit
    number : int
        Position of the candidate.
    seconds_per_epoch : float
        Duration of an epoch of one network, as measured in the trial.
    deadline : float
        Of `time.monotonic`.
    """
    candidates = list(prepared.candidates)
    chosen = candidates[number]
    seconds = max(0.0, deadline - time.monotonic()) * _SHARE_AFTER_TRIAL
    budget = seconds / max(seconds_per_epoch, 1e-6)
    if chosen.fleet.torch_device().type == "cuda":
        budget *= _FEWEST_FOLDS  # a GPU trains a few networks in the time of one
    n_folds, epochs = _folds_and_epochs(chosen, budget)
    _log.info("the time limit allows the best of them on %d folds with up to %d epochs", n_folds, epochs)
    candidates[number] = _shortened(chosen, n_folds, epochs)
    return replace(prepared, candidates=candidates)


def _folds_and_epochs(candidate: PreparedCandidate, budget: float) -> tuple[int, int]:
    """Return for how many folds and epochs there is time; fewer folds are better than few epochs."""
    epochs, n_threads = candidate.fleet.max_epochs, candidate.fleet.thread_count()
    n_folds = max(_FEWEST_FOLDS, int(budget / epochs))
    # On four threads, four networks take hardly more time than two.
    n_folds = min(len(candidate.members), -(-n_folds // n_threads) * n_threads)
    return n_folds, max(1, min(epochs, int(budget / n_folds)))


def _shortened(candidate: PreparedCandidate, n_folds: int, epochs: int) -> PreparedCandidate:
    fleet = candidate.fleet
    if epochs < fleet.max_epochs:
        patience = None if fleet.patience is None else max(3, round(fleet.patience * epochs / fleet.max_epochs))
        fleet = replace(fleet, max_epochs=epochs, patience=patience)
    return replace(
        candidate,
        fleet=fleet,
        members=candidate.members[:n_folds],
        seeds=candidate.seeds[:n_folds],
        folds=candidate.folds[:n_folds],
        left_out=None if candidate.left_out is None else candidate.left_out[:n_folds],
    )


def _rows_per_second(prepared: PreparedFit, seconds: float) -> float:
    """Measure how many rows the networks that are trained at the same time are trained on in a second.

    The measurement takes at most about `seconds`.
    """
    candidates = [prepared.candidates[0]]
    if candidates[0].fleet.torch_device().type == "cpu":  # as many as are trained at the same time
        candidates += [own for own in prepared.candidates[1:] if not own.settings["screen_columns"]]
        n_at_once, _ = _probe(candidates[: candidates[0].fleet.thread_count()]).division_of_threads()
        candidates = candidates[:n_at_once]
    plan = _probe(candidates)
    clocks: list[_Clock] = []

    def clock_of(fleet: PlannedFleet) -> _Clock:
        rows = (plan.jobs[job].member.train for job in fleet.jobs)
        clocks.append(_Clock(sum(len(own) for own in rows if own is not None)))
        return clocks[-1]

    began = time.monotonic()
    try:
        for _ in plan.run_fleets(progress=clock_of, deadline=began + seconds, here=True):
            pass
    except Interrupted as error:
        if not error.at_deadline:
            raise KeyboardInterrupt("fit was interrupted before training began") from error
    speeds = [clock.rows_per_second() for clock in clocks if len(clock.times) > 1]
    if not speeds:  # all networks diverged, or an epoch takes too long
        n_rows = sum(clock.n_rows * len(clock.times) for clock in clocks)
        return max(1, n_rows) / max(time.monotonic() - began, 1e-6)
    return min(len(clocks), plan.division_of_threads()[0]) * sum(speeds) / len(speeds)


def _probe(candidates: Sequence[PreparedCandidate]) -> FleetPlan:
    """Return a plan that trains some candidates for a moment."""
    jobs: list[Job] = []
    tables: list[Table] = []
    places: dict[int, int] = {}
    for candidate in candidates:
        table = candidate.data.table
        if id(table) not in places:
            places[id(table)] = len(tables)
            tables.append(table)
        settings = replace(candidate.fleet, max_epochs=_PROBE_EPOCHS, patience=None, metric=False)
        for member in candidate.members:
            rows = torch.arange(len(table.x)) if member.train is None else member.train
            own = replace(member, table=places[id(table)], train=rows[:_PROBE_ROWS], val=None)
            jobs.append(Job(candidate.shape, settings, own))
    return FleetPlan(jobs, tables)
