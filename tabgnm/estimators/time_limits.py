"""Reducing a fit to what a time limit allows, by a measurement on this machine."""

from __future__ import annotations

import logging
import time
from dataclasses import replace

import torch

from tabgnm.estimators.fitting import PreparedCandidate, PreparedFit
from tabgnm.training import Callback, EpochReport, Fleet
from tabgnm.training.devices import devices_for
from tabgnm.training.plan import multiply_adds

_log = logging.getLogger("tabgnm")

# Of the time limit; the rest is for out-of-fold predictions, selection and importances.
SHARE_OF_TRAINING = 0.9
LEAST_SECONDS = 0.3
_SHARE_OF_PLAN = 0.97  # of what is left for training: a measurement of a few epochs is not exact
_PROBE_ROWS, _PROBE_EPOCHS = 4096, 2
_USED_EPOCHS = 0.7  # share of the epochs that networks need before they stop early, roughly
_WORTHWHILE_CANDIDATES = 2
_FEW_EPOCHS, _FEWEST_FOLDS = 8, 3


class _Clock(Callback):
    """Times the ends of epochs."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_epoch_end(self, report: EpochReport) -> None:  # noqa: ARG002 - the hook's signature
        """Note the time."""
        self.times.append(time.monotonic())


def reduced(prepared: PreparedFit, deadline: float) -> PreparedFit:
    """Return the fit with as many candidates, folds and epochs as there is time for."""
    first = prepared.candidates[0]
    speed = _rows_per_second(first)  # of one device
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
        # Two different candidates for fewer epochs are better than one for many; and fewer folds than few epochs.
        n_candidates = min(_WORTHWHILE_CANDIDATES, len(prepared.candidates))
        n_folds = min(n_folds, _FEWEST_FOLDS)
        if budget / (n_folds * n_candidates) < _FEW_EPOCHS:
            n_candidates = 1
        epochs = max(1, min(epochs, int(budget / (n_folds * n_candidates))))
    n_candidates = min(n_candidates, len(prepared.candidates))
    _log.info("the time limit allows %d settings on %d folds with up to %d epochs", n_candidates, n_folds, epochs)
    kept = [_shortened(own, n_folds, epochs) for own in prepared.candidates[:n_candidates]]
    return replace(prepared, candidates=kept)


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


def _rows_per_second(candidate: PreparedCandidate) -> float:
    """Measure how many rows the networks of a candidate together are trained on in a second."""
    clock = _Clock()
    members = []
    for member in candidate.members:
        rows = torch.arange(len(candidate.data.table.x)) if member.train is None else member.train
        members.append(replace(member, train=rows[:_PROBE_ROWS], val=None))
    settings = replace(candidate.fleet, max_epochs=_PROBE_EPOCHS, patience=None, metric=False)
    fleet = Fleet(candidate.shape, members, settings)
    models = fleet.fit(candidate.data.table, callbacks=[clock]).models
    if any(model.history.status == "interrupted" for model in models):
        raise KeyboardInterrupt("fit was interrupted before training began")
    gaps = [after - before for before, after in zip(clock.times, clock.times[1:], strict=False)]
    fastest = min(gaps, default=0.0)  # none if all networks diverged in the first epoch
    return sum(len(member.train) for member in members if member.train is not None) / max(fastest, 1e-6)
