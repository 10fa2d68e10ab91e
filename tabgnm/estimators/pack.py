"""Training a pack: a fleet plan for all candidates and folds, the race, and the selection of candidates."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from tabgnm.estimators import time_limits, training_length
from tabgnm.estimators.checks import is_auto
from tabgnm.estimators.convergence import convergence_warnings
from tabgnm.estimators.fitting import FittedPack, PreparedFit, never_finite
from tabgnm.estimators.out_of_fold import OutOfFold
from tabgnm.estimators.selection import greedy_weights, survivors
from tabgnm.table.advice import warn_once_about, warned_once
from tabgnm.table.errors import warn_caller
from tabgnm.training import Fleet, FleetPlan, Job, Table, TrainedModel
from tabgnm.training.concurrent_fleets import Interrupted
from tabgnm.training.plan import PlannedFleet
from tabgnm.training.progress import ProgressBar, ProgressLine

if TYPE_CHECKING:
    from tabgnm.estimators.base import TabularEstimator

Array = NDArray[Any]

_log = logging.getLogger("tabgnm")

# A race: all candidates are trained on the first _RACE_FOLDS folds, if there are at least _MIN_RACERS candidates.
_RACE_FOLDS = 2
_MIN_RACERS = 4

# The keys of a record of `pack_` in addition to the settings of its candidate.
NOT_SETTINGS = frozenset(
    ("candidate", "weight", "loss", "loss_std", "networks", "epochs", "best_epoch", "seconds", "stopped_by_race")
)


@dataclass(eq=False)
class TrainedPack:
    """The trained networks by candidate and position, with times, losses and the course of training."""

    prepared: PreparedFit
    networks: dict[int, dict[int, TrainedModel]] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)
    losses: dict[int, tuple[float, float]] = field(default_factory=dict)  # out-of-fold, mean and std over folds
    left_the_race: set[int] = field(default_factory=set)
    tried: list[int] = field(default_factory=list)  # candidates that were only tried for a few epochs, the best first
    n_diverged: int = 0
    interrupted: bool = False
    out_of_time: bool = False
    shortened: bool = False  # fewer epochs than planned, because of a time limit or the first networks
    only_complete: bool = False  # whether networks that the deadline interrupts are discarded

    def add(self, candidate: int, position: int, model: TrainedModel, seconds: float) -> None:
        """Add a network, unless it diverged in its first epoch, or completed no epoch and there already is one."""
        self.seconds[candidate] = self.seconds.get(candidate, 0.0) + seconds
        if never_finite(model):
            self.n_diverged += 1
        elif model.history.n_epochs or position not in self.networks.get(candidate, {}):
            self.networks.setdefault(candidate, {})[position] = self.prepared.candidates[candidate].finished(
                position, model
            )


def jobs_of(prepared: PreparedFit, wanted: Sequence[tuple[int, int]], tables: list[Table]) -> list[Job]:
    """Return the jobs of (candidate, position) pairs; append their tables to `tables` unless they are in it."""
    places = {id(table): place for place, table in enumerate(tables)}
    jobs = []
    for number, position in wanted:
        candidate = prepared.candidates[number]
        table = candidate.table(position)
        if id(table) not in places:
            places[id(table)] = len(tables)
            tables.append(table)
        member = replace(candidate.members[position], table=places[id(table)])
        jobs.append(Job(candidate.shape, candidate.fleet, member))
    return jobs


def train(estimator: TabularEstimator, prepared: PreparedFit, began: float) -> TrainedPack:
    """Train all candidates on all folds, except those that a race or a time limit stops earlier."""
    deadline, shortened = None, False
    if estimator.time_limit is not None:
        deadline = time_limits.training_deadline(began, estimator.time_limit)
        n_epochs = prepared.candidates[0].fleet.max_epochs
        if n_epochs > 1:
            prepared = time_limits.reduced(prepared, deadline)
        shortened = prepared.trial_epochs is not None or prepared.candidates[0].fleet.max_epochs < n_epochs
        deadline = time_limits.training_deadline(began, estimator.time_limit)
    trained = TrainedPack(prepared, shortened=shortened)
    # A single progress line for all rounds; the length of later rounds is not known yet.
    line = ProgressLine(score_name=prepared.rows.targets.metric_name, deadline=deadline) if estimator.verbose else None
    n_expected, n_epochs = sum(n_networks(prepared)), prepared.candidates[0].fleet.max_epochs
    with line.shown(n_expected, n_expected * n_epochs) if line is not None else nullcontext():
        if prepared.trial_epochs is not None:
            trained.prepared = time_limits.trial(prepared)
        for wanted in _rounds(estimator, trained, prepared, deadline, line):
            _run(trained, wanted, deadline, line)
    return trained


def _rounds(
    estimator: TabularEstimator,
    trained: TrainedPack,
    prepared: PreparedFit,
    deadline: float | None,
    line: ProgressLine | None,
) -> Iterator[list[tuple[int, int]]]:
    """Yield the networks of each round, which are trained before the next round is chosen."""

    def expect(n_left: int, candidate: int) -> None:
        if line is not None:
            line.expect(n_left, n_left * trained.prepared.candidates[candidate].fleet.max_epochs)

    wanted = _first_round(trained.prepared)
    if not trained.shortened and training_length.depends_on_first(estimator, prepared):
        first, wanted = wanted[:_RACE_FOLDS], wanted[_RACE_FOLDS:]
        yield first
        if not trained.interrupted:
            trained.prepared = training_length.reduced(prepared, trained.networks.get(first[0][0], {}).values())
            trained.shortened = trained.prepared is not prepared
            if trained.shortened:
                expect(sum(n_networks(prepared)) - len(first), 0)
    if wanted and not trained.interrupted:
        yield wanted
    if trained.networks and not trained.interrupted:
        if prepared.trial_epochs is not None:
            wanted = _rest_after_trial(estimator, trained, prepared, deadline)
        else:
            wanted = _rest_after_race(estimator, trained)
        if wanted:
            expect(len(wanted), wanted[0][0])
            yield wanted
    done: set[tuple[int, int]] = set()
    trained.only_complete = True
    while deadline is not None and not done.issuperset(wanted := time_limits.rest_in_time_left(trained, deadline)):
        done.update(wanted)  # a network that diverged is not trained again
        expect(len(wanted), wanted[0][0])
        yield wanted


def _first_round(prepared: PreparedFit) -> list[tuple[int, int]]:
    """Return the networks of the first round: those of the first folds if there is a race, otherwise all."""
    n_folds = _RACE_FOLDS if _races(prepared) else prepared.first_folds
    return [(number, k) for number, own in enumerate(prepared.candidates) for k in list(range(own.n_folds))[:n_folds]]


def _rest_after_race(estimator: TabularEstimator, trained: TrainedPack) -> list[tuple[int, int]]:
    """Return the networks to train after a race: those of the winners on the other folds; none without a race."""
    candidates = trained.prepared.candidates
    if not _races(trained.prepared):
        return []
    staying = _winners(estimator, trained)
    trained.left_the_race = set(range(len(candidates))) - set(staying)
    return [(number, k) for number in staying for k in range(_RACE_FOLDS, candidates[number].n_folds)]


def _rest_after_trial(
    estimator: TabularEstimator, trained: TrainedPack, prepared: PreparedFit, deadline: float | None
) -> list[tuple[int, int]]:
    """Return the networks to train after a trial on one fold: those of the best candidate, from the first fold on."""
    assert deadline is not None, "only a time limit makes a trial"
    oof = OutOfFold.of(estimator, trained.prepared, trained.networks)
    trained.losses = {number: oof.fold_losses(number) for number in oof.candidates}
    best = oof.candidates[int(np.argmin(oof.losses(oof.predictions)))]
    trained.left_the_race = set(range(len(prepared.candidates))) - {best}
    seconds = trained.seconds.pop(best) / trained.networks[best][0].history.n_epochs
    trained.prepared = time_limits.after_trial(prepared, best, seconds, deadline)
    trained.tried = sorted(trained.networks, key=lambda number: trained.losses[number][0])
    trained.tried.remove(best)
    return [(best, k) for k in range(trained.prepared.candidates[best].n_folds)[: trained.prepared.first_folds]]


def _races(prepared: PreparedFit) -> bool:
    return (
        len(prepared.candidates) >= _MIN_RACERS
        and min(own.n_folds for own in prepared.candidates) > _RACE_FOLDS
        and (prepared.first_folds is None or prepared.first_folds > _RACE_FOLDS)
        and prepared.rows.n_rows >= prepared.effort.race_rows
        and prepared.previous is None
    )


def n_folds_at_once(prepared: PreparedFit) -> int:
    """Return the maximum number of networks of a candidate that are trained in one round."""
    n_folds = max(own.n_folds for own in prepared.candidates)
    return max(_RACE_FOLDS, n_folds - _RACE_FOLDS) if _races(prepared) else n_folds


def _most_winners(prepared: PreparedFit) -> int:
    """Return the maximum number of candidates that are trained on all folds."""
    return -(-len(prepared.candidates) // 2) if _races(prepared) else len(prepared.candidates)


def n_networks(prepared: PreparedFit) -> list[int]:
    """Return the maximum number of networks that are trained for each candidate."""
    most = _most_winners(prepared)
    return [
        own.n_folds if number < most else min(own.n_folds, _RACE_FOLDS)
        for number, own in enumerate(prepared.candidates)
    ]


def _run(
    trained: TrainedPack, wanted: Sequence[tuple[int, int]], deadline: float | None, line: ProgressLine | None
) -> None:
    """Train some networks."""
    tables: list[Table] = []
    prepared = trained.prepared
    plan = FleetPlan(jobs_of(prepared, wanted, tables), tables)

    def bar_of(fleet: PlannedFleet) -> ProgressBar:
        def score(model: int, metric: float) -> float:
            return prepared.score(*wanted[fleet.jobs[model]], metric)

        return ProgressBar(line=line, score=score)

    began = time.monotonic()
    try:
        for fleet, models in plan.run_fleets(deadline=deadline, progress=None if line is None else bar_of):
            n_epochs = sum(max(1, model.history.n_epochs) for model in models)
            now = time.monotonic()
            seconds = plan.seconds.get(fleet.jobs, now - began)
            for place, model in zip(fleet.jobs, models, strict=True):
                if trained.only_complete and model.history.status == "interrupted":
                    continue
                share = max(1, model.history.n_epochs) / n_epochs
                trained.add(*wanted[place], model, share * seconds)
            began = now
    except Interrupted as interrupted:
        trained.interrupted = True
        trained.out_of_time = interrupted.at_deadline
        if trained.prepared.previous is not None:
            _keep_as_before(trained, wanted)


def _keep_as_before(trained: TrainedPack, wanted: Sequence[tuple[int, int]]) -> None:
    """Add the networks whose training was to be continued but did not start, with their previous weights."""
    for number, position in wanted:
        if position not in trained.networks.get(number, {}):
            candidate = trained.prepared.candidates[number]
            fleet = Fleet(candidate.shape, [candidate.members[position]], candidate.fleet)
            trained.add(number, position, fleet.untrained().models[0], 0.0)


def _winners(estimator: TabularEstimator, trained: TrainedPack) -> list[int]:
    """Return the candidates to train on the other folds, too."""
    oof = OutOfFold.of(estimator, trained.prepared, trained.networks)
    trained.losses = {number: oof.fold_losses(number) for number in oof.candidates}
    most = _most_winners(trained.prepared)
    weights = greedy_weights(oof.predictions, oof.losses, most)
    staying = survivors(oof.row_losses(oof.predictions), weights, oof.weights, most)
    _log.info(
        "tried %d settings on the first %d folds; training the best %d on the other folds",
        len(oof.candidates),
        _RACE_FOLDS,
        len(staying),
    )
    return [oof.candidates[i] for i in staying]


def select(estimator: TabularEstimator, trained: TrainedPack) -> tuple[FittedPack, Array | None]:
    """Choose the weights of the candidates, and keep the networks of those with a positive weight.

    Also returns the out-of-fold predictions in the order of the given rows, or None without validation.
    """
    prepared = trained.prepared
    _report_divergence(trained)
    networks: Mapping[int, Mapping[int, TrainedModel]] = trained.networks
    if prepared.previous is None:
        # Use networks that were interrupted in their first epoch only if there are no others.
        networks = {
            number: {place: model for place, model in own.items() if model.history.n_epochs or model.history.best_epoch}
            for number, own in trained.networks.items()
        }
        networks = {number: own for number, own in networks.items() if own} or trained.networks
    oof, weights = None, dict.fromkeys(networks, 1.0 / len(networks))
    if prepared.previous is not None:
        weights = {number: prepared.previous.groups[number].weight for number in networks}
    most = None
    if prepared.rows.validated:
        # Compare only candidates with the most networks: the others have predictions for fewer rows.
        n_folds = max(len(own) for own in networks.values())
        full = {number: own for number, own in networks.items() if len(own) == n_folds}
        oof = OutOfFold.of(estimator, prepared, full if prepared.previous is None else networks)
        if not len(oof.rows):  # no common rows, because networks of different folds diverged
            first = min(full)
            oof = OutOfFold.of(estimator, prepared, {first: full[first]})
        trained.losses |= {number: oof.fold_losses(number) for number in oof.candidates}
        if prepared.previous is None:
            most = prepared.effort.most_candidates(n_folds)
            chosen = greedy_weights(oof.predictions, oof.losses, most)
            weights = {number: float(w) for number, w in zip(oof.candidates, chosen, strict=True) if w > 0}
    ranked = sorted(weights, key=lambda number: (-weights[number], number))
    groups = [prepared.group(number, weights[number], networks[number]) for number in ranked]
    weighted = prepared.rows.score_weights is not None or (prepared.previous is not None and prepared.previous.weighted)
    fitted = FittedPack(groups, prepared.rows.targets, fold_seed=prepared.rows.seeds[0], weighted=weighted)
    if prepared.previous is not None:
        fitted.temperature = prepared.previous.temperature
    if trained.out_of_time and not any(own["best_epoch"] for group in groups for own in group.histories):
        warn_caller(
            f"time_limit={estimator.time_limit:g} stopped training before the end of the first epoch, so the networks "
            "are untrained; use a larger time_limit, or fewer rows",
            ConvergenceWarning,
        )
    limited = trained.interrupted or trained.shortened or bool(estimator.warm_start)
    with warned_once():  # not in every fold of a search
        effort = estimator.effort if is_auto(estimator.max_epochs) else None
        for topic, message in convergence_warnings(prepared, groups, limited=limited, effort_of_epochs=effort):
            warn_once_about(topic, message, ConvergenceWarning)
    if oof is not None:
        oof.combine(np.array([weights.get(number, 0.0) for number in oof.candidates]), most)
        oof.finish(estimator, fitted)
    fitted.candidates = _described(trained, weights)
    return fitted, None if oof is None else oof.as_given()


def _report_divergence(trained: TrainedPack) -> None:
    rates = sorted({own.settings["learning_rate"] for own in trained.prepared.candidates})
    rate = " to ".join(f"{rate:g}" for rate in ([rates[0], rates[-1]] if len(rates) > 1 else rates))
    if not trained.networks:
        raise ValueError(
            f"training of all {trained.n_diverged} networks diverged in the first epoch: the loss is not finite with "
            f"learning_rate={rate}; use a smaller learning_rate, or scaling='standard' if the numbers are large"
        )
    if trained.n_diverged:
        n_all = trained.n_diverged + sum(map(len, trained.networks.values()))
        warn_caller(
            f"training of {trained.n_diverged} of {n_all} networks diverged in the first epoch; these networks are "
            f"left out. A learning_rate smaller than {rate} may help",
            ConvergenceWarning,
        )


def _described(trained: TrainedPack, weights: Mapping[int, float]) -> list[dict[str, Any]]:
    """Return the records of `pack_`, one for each candidate."""
    records = []
    for number, candidate in enumerate(trained.prepared.candidates):
        own = trained.networks.get(number, {})
        loss, spread = trained.losses.get(number, (np.nan, np.nan))
        records.append(
            {
                "candidate": number,
                "weight": weights.get(number, 0.0),
                "loss": loss,
                "loss_std": spread,
                "networks": len(own),
                "epochs": float(np.mean([model.history.n_epochs for model in own.values()])) if own else 0.0,
                "best_epoch": float(np.mean([model.history.best_epoch for model in own.values()])) if own else 0.0,
                "seconds": trained.seconds.get(number, 0.0),
                "stopped_by_race": number in trained.left_the_race,
                **candidate.settings,
            }
        )
    return records
