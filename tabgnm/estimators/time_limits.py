"""Reduction of the candidates, folds and epochs of a fit to a time limit, based on the measured training speed."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from tabgnm.estimators.effort import effort_for
from tabgnm.estimators.fitting import PreparedCandidate, PreparedFit
from tabgnm.nn.shapes import Shape
from tabgnm.training import Callback, EpochReport, FleetPlan, Job, Table
from tabgnm.training.concurrent_fleets import Interrupted
from tabgnm.training.devices import devices_for
from tabgnm.training.plan import PlannedFleet, multiply_adds

if TYPE_CHECKING:
    from tabgnm.estimators.pack import TrainedPack

_log = logging.getLogger("tabgnm")

# Time reserved for out-of-fold predictions, selection and importances: this fraction of the time limit, but at least
# this many seconds.
_SHARE_AFTER_TRAINING, _SECONDS_AFTER_TRAINING = 0.1, 0.3
_MIN_SECONDS = 0.3  # of training, even if preparations took all of the time
_SHARE_OF_PLAN = 0.97  # fraction of the training time to plan for: the measured speed is not exact
# After a trial, plan for more than the time left: in the last epochs, the learning rate is nearly 0, so little is lost
# if they are missing.
_SHARE_AFTER_TRIAL = 1.1
_PROBE_ROWS, _PROBE_EPOCHS = 4096, 2
_SHARE_OF_PROBE = 0.25  # maximum fraction of the time left
_USED_EPOCHS = 0.7  # approximate fraction of the epochs before networks stop early
_WORTHWHILE_CANDIDATES = 2
# If there is time for this fraction of the epochs of effort="fast", two candidates are trained on the folds of "fast".
# With so few epochs, networks stop early only near the end.
_SHARE_OF_FAST, _USED_OF_FEW_EPOCHS = 0.75, 0.9
_MIN_FOLDS = 2
# A trial, if there is no time for two candidates: the maximum number of candidates, their minimum number of epochs, and
# the fraction of the time.
_MAX_TRIED, _TRIAL_EPOCHS, _SHARE_OF_TRIAL = 4, 4, 0.3


class _Clock(Callback):
    """Measures the training speed of a fleet.

    Parameters
    ----------
    n_rows : sequence of int
        The number of training rows of each model.

    Attributes
    ----------
    rows_per_second : float or None
        The speed of the fastest epoch, not counting the first; None if there was only one.
    n_rows_done : int
        The number of rows of all epochs.
    """

    def __init__(self, n_rows: Sequence[int]) -> None:
        self._n_rows = n_rows
        self._last: EpochReport | None = None
        self._time = 0.0
        self.rows_per_second: float | None = None
        self.n_rows_done = 0

    def on_epoch_end(self, report: EpochReport) -> None:
        """Update the speed. A fleet may be trained in chunks, so compare only with an epoch of the same models."""
        now, n_rows = time.monotonic(), sum(self._n_rows[model] for model in report.models)
        self.n_rows_done += n_rows
        if self._last is not None and self._last.models == report.models:
            speed = n_rows / max(now - self._time, 1e-6)
            self.rows_per_second = max(speed, self.rows_per_second or 0.0)
        self._last, self._time = report, now


def training_deadline(began: float, time_limit: float) -> float:
    """Return the time at which training has to end; times are those of `time.monotonic`."""
    after_training = max(_SHARE_AFTER_TRAINING * time_limit, _SECONDS_AFTER_TRAINING)
    return max(began + time_limit - after_training, time.monotonic() + _MIN_SECONDS)


def reduced(prepared: PreparedFit, deadline: float) -> PreparedFit:
    """Reduce candidates, folds and epochs to the available time.

    If there is no time for two candidates, even on fewer folds, the result has a few candidates for a trial (see
    `trial`), or only the first candidate.
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
        fast = effort_for("fast", first.fleet.torch_device().type, prepared.rows.n_rows)
        n_few = min(n_folds, fast.n_folds)
        few_epochs = int(budget / (_WORTHWHILE_CANDIDATES * n_few * _USED_OF_FEW_EPOCHS))
        is_enough = few_epochs >= _SHARE_OF_FAST * min(epochs, fast.max_epochs)
        n_tried = min(len(prepared.candidates), _MAX_TRIED, int(_SHARE_OF_TRIAL * budget / _TRIAL_EPOCHS))
        if is_enough and len(prepared.candidates) >= _WORTHWHILE_CANDIDATES:
            n_candidates, n_folds, epochs = _WORTHWHILE_CANDIDATES, n_few, min(epochs, few_epochs)
        elif n_tried > 1:
            trial_epochs = min(epochs, int(_SHARE_OF_TRIAL * budget / n_tried))
            _log.info("the time limit allows a trial of %d settings on one fold for %d epochs", n_tried, trial_epochs)
            return replace(prepared, candidates=prepared.candidates[:n_tried], trial_epochs=trial_epochs)
        else:
            n_candidates, n_folds, epochs = 1, *_folds_and_epochs(first, budget)
    n_candidates = min(n_candidates, len(prepared.candidates))
    _log.info("the time limit allows %d settings on %d folds with up to %d epochs", n_candidates, n_folds, epochs)
    candidates = [own.with_epochs(epochs) for own in prepared.candidates]
    return replace(
        prepared, candidates=candidates[:n_candidates], first_folds=n_folds, spare=tuple(candidates[n_candidates:])
    )


def trial(prepared: PreparedFit) -> PreparedFit:
    """Return a fit that trains all candidates on the first fold for a few epochs."""
    assert prepared.trial_epochs is not None
    candidates = [own.with_epochs(prepared.trial_epochs) for own in prepared.candidates]
    return replace(prepared, candidates=candidates, first_folds=1)


def after_trial(prepared: PreparedFit, number: int, seconds_per_epoch: float, deadline: float) -> PreparedFit:
    """Reduce the folds and epochs of the best candidate of a trial to the available time.

    Parameters
    ----------
    prepared : PreparedFit
    number : int
        The position of the candidate.
    seconds_per_epoch : float
        The duration of an epoch of one network, as measured in the trial.
    deadline : float
        The time at which training has to end.
    """
    chosen = prepared.candidates[number]
    seconds = max(0.0, deadline - time.monotonic()) * _SHARE_AFTER_TRIAL
    budget = seconds / max(seconds_per_epoch, 1e-6)
    if chosen.fleet.torch_device().type == "cuda":
        budget *= _MIN_FOLDS  # a GPU trains a few networks in the time of one
    n_folds, epochs = _folds_and_epochs(chosen, budget)
    _log.info("the time limit allows the best of them on %d folds with up to %d epochs", n_folds, epochs)
    return replace(prepared, candidates=[own.with_epochs(epochs) for own in prepared.candidates], first_folds=n_folds)


def rest_in_time_left(trained: TrainedPack, deadline: float) -> list[tuple[int, int]]:
    """Return further networks that can be trained in the time that is left.

    These are networks on further folds of the trained candidates or, if there are none, all networks of one more
    candidate: the best one of a trial, otherwise the next one.
    """
    prepared = trained.prepared
    own = {number: networks for number, networks in trained.networks.items() if number not in trained.tried}
    n_epochs = prepared.candidates[0].fleet.max_epochs
    if trained.interrupted or not own or prepared.previous is not None or n_epochs <= 1:
        return []
    left = deadline - time.monotonic()
    n_folds = max(map(len, own.values()))
    main = [number for number, networks in own.items() if len(networks) == n_folds]
    for number in main:
        candidate = prepared.candidates[number]
        missing = [k for k in range(candidate.n_folds) if k not in own[number]]
        seconds = trained.seconds[number] / n_folds
        if missing:
            n_more = _n_in_time(candidate, len(missing), n_folds, seconds * len(main), left)
            return [(number, k) for number in main for k in missing[:n_more]]
    if trained.tried:
        number = trained.tried[0]
        candidate = prepared.candidates[number]
    elif prepared.spare:
        number, candidate = len(prepared.candidates), prepared.spare[0]
    else:
        return []
    of_others = [(trained.seconds[i] / n_folds, prepared.candidates[i].shape) for i in main]
    seconds = max(seconds * _relative_work(candidate.shape, shape) for seconds, shape in of_others)
    if _n_in_time(candidate, n_folds, n_folds, seconds, left) < n_folds:
        return []
    if trained.tried:
        trained.tried.remove(number)
        trained.left_the_race.discard(number)
        trained.seconds.pop(number)
        trained.networks.pop(number)  # the network of the trial has few epochs; do not mix it with the others
    else:
        trained.prepared = replace(prepared, candidates=[*prepared.candidates, candidate], spare=prepared.spare[1:])
    return [(number, k) for k in range(n_folds)]


def _relative_work(shape: Shape, other: Shape) -> float:
    return multiply_adds(shape, 1.0) / multiply_adds(other, 1.0)


def _n_in_time(candidate: PreparedCandidate, n_wanted: int, n_before: int, seconds: float, left: float) -> int:
    """Return how many networks of a candidate can be trained in the time left, at most `n_wanted`.

    Parameters
    ----------
    candidate : PreparedCandidate
    n_wanted : int
    n_before : int
        The number of networks that each candidate has so far.
    seconds : float
        The average time per network.
    left : float
        The time left in seconds.
    """
    # One network takes as long as several on several threads, or in one fleet on a GPU, so train multiples of these.
    at_once = candidate.fleet.thread_count() if candidate.fleet.torch_device().type == "cpu" else n_before
    n_fitting = at_once * int(_SHARE_OF_PLAN * left / (at_once * max(seconds, 1e-6)))
    return min(n_wanted, n_fitting)


def _folds_and_epochs(candidate: PreparedCandidate, budget: float) -> tuple[int, int]:
    """Return the numbers of folds and epochs for a budget of epochs; reduce the folds rather than the epochs."""
    epochs, n_threads = candidate.fleet.max_epochs, candidate.fleet.thread_count()
    n_folds = max(_MIN_FOLDS, int(budget / epochs))
    # Use all threads: with four threads, four networks take hardly more time than two.
    n_folds = min(len(candidate.members), -(-n_folds // n_threads) * n_threads)
    return n_folds, max(1, min(epochs, int(budget / n_folds)))


def _rows_per_second(prepared: PreparedFit, seconds: float) -> float:
    """Measure the training speed in rows per second, summed over the networks that are trained at the same time.

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
        clocks.append(_Clock([0 if own is None else len(own) for own in rows]))
        return clocks[-1]

    began = time.monotonic()
    try:
        for _ in plan.run_fleets(progress=clock_of, deadline=began + seconds, here=True):
            pass
    except Interrupted as error:
        if not error.at_deadline:
            raise KeyboardInterrupt("fit was interrupted before training began") from error
    speeds = [clock.rows_per_second for clock in clocks if clock.rows_per_second is not None]
    if not speeds:  # all networks diverged, or an epoch takes too long
        n_rows = sum(clock.n_rows_done for clock in clocks)
        return max(1, n_rows) / max(time.monotonic() - began, 1e-6)
    return min(len(clocks), plan.division_of_threads()[0]) * sum(speeds) / len(speeds)


def _probe(candidates: Sequence[PreparedCandidate]) -> FleetPlan:
    """Return a plan that trains some candidates for a few epochs on some of the rows, to measure the speed."""
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
            own = replace(member, table=places[id(table)], train=rows[:_PROBE_ROWS], val=None, val_halves=None)
            jobs.append(Job(candidate.shape, settings, own))
    return FleetPlan(jobs, tables)
