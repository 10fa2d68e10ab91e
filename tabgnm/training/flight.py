"""One chunk of a fleet from its first to its last epoch: asks, reports, saves, and lets go of models that are done."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Protocol

import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from tabgnm.training.callbacks import Callback, EpochReport
from tabgnm.training.checkpoint import Snapshot, restore
from tabgnm.training.cuda_graph import EpochRunner
from tabgnm.training.history import History
from tabgnm.training.interruption import Interruption
from tabgnm.training.lockstep import Lockstep
from tabgnm.training.settings import FleetSettings

_log = logging.getLogger("tabgnm.training")

# Asking costs as much as several steps, and makes the host wait for a GPU; who looks on wants to see something, though.
_EPOCHS_BETWEEN_QUESTIONS = 10
_SECONDS_BETWEEN_QUESTIONS = 0.2
_MODEL_TENSORS = (
    "flat", "best_flat", "best_loss", "best_epoch", "waited", "active", "diverged", "epoch",
)  # fmt: skip
_MOMENTS = ("exp_avg", "exp_avg_sq")


class Saver(Protocol):
    """Where snapshots go."""

    def wants(self, n_epochs: int) -> bool:
        """Whether to save after so many epochs."""
        ...

    def save(self, snapshot: Snapshot) -> None:
        """Save."""
        ...


class _Threads:
    """One thread where more do not pay.

    NumPy has one because its threads and torch's would keep each other from the same cores. torch has one where steps
    are small: a second gains a fifth at most, and costs ten times the time if somebody else uses its core.
    """

    def __init__(self) -> None:
        self._n_torch = torch.get_num_threads()
        self._limits: threadpool_limits | None = None
        self._one = False

    def use_one(self, wanted: bool, *, in_numpy: bool = False) -> None:
        """Use one thread of torch from now on, or as many as before; and one of NumPy while steps are taken in it."""
        # NumPy's first, as torch may share a library with it: its own number has the last word.
        changed = in_numpy != (self._limits is not None)
        if changed and in_numpy:
            self._limits = threadpool_limits(limits=1, user_api="blas")
        elif changed and self._limits is not None:
            self._limits.restore_original_limits()
            self._limits = None
        if changed or wanted != self._one:
            self._one = wanted
            torch.set_num_threads(1 if wanted else self._n_torch)


class Flight:
    """Trains the models at `positions` of a fleet and puts them into `done`."""

    def __init__(
        self,
        positions: Sequence[int],
        settings: FleetSettings,
        hooks: Sequence[Callback],
        saver: Saver,
        done: dict[int, tuple[Tensor, History]],
        interruption: Interruption,
        *,
        every_epoch: bool,
    ) -> None:
        self.alive = list(positions)
        self.settings, self.hooks, self.saver, self.done = settings, hooks, saver, done
        self.histories = {position: History() for position in positions}
        self._interruption = interruption
        self._every_epoch = every_epoch
        self._pending: list[Tensor] = []

    def run(self, lockstep: Lockstep, snapshot: Snapshot | None) -> None:
        """Train to the end, or until an interruption is asked for."""
        n_epochs = 0
        if snapshot is not None:
            n_epochs = self._resume(lockstep, snapshot)
        on_gpu = lockstep.flat.device.type == "cuda"
        patient = on_gpu or self.settings.patience is None
        between = _EPOCHS_BETWEEN_QUESTIONS if patient and not self._every_epoch else 1
        asked = time.monotonic()
        # On a GPU, making room costs a new capture; on a CPU next to nothing.
        worth_leaving = 0.5 if on_gpu else 1.0
        runner = EpochRunner(lockstep)
        was_active = lockstep.active.cpu().clone()  # a snapshot may hold models that had stopped already
        threads = _Threads()
        try:
            while n_epochs < self.settings.max_epochs and was_active.any() and not self._interruption.requested:
                threads.use_one(lockstep.is_small, in_numpy=lockstep.in_numpy)
                runner.run(n_epochs)
                metric = [] if lockstep.val_metric is None else [lockstep.val_metric]
                self._pending.append(torch.stack([lockstep.train_loss, lockstep.val_loss, lockstep.active, *metric]))
                n_epochs += 1
                save = self.saver.wants(n_epochs)
                waited = time.monotonic() - asked
                enough = len(self._pending) >= between or waited > _SECONDS_BETWEEN_QUESTIONS
                enough = enough or self._interruption.requested
                if not (enough or save or n_epochs == self.settings.max_epochs):
                    continue
                asked = time.monotonic()
                was_active = self._ask(lockstep, n_epochs, was_active)
                n_active = int(was_active.sum())
                if 0 < n_active < len(was_active) and n_active <= worth_leaving * len(was_active):
                    self._leave(lockstep, was_active)
                    runner = EpochRunner(lockstep)
                    was_active = torch.ones(n_active, dtype=torch.bool)
                if save and n_active and n_epochs < self.settings.max_epochs:
                    self.saver.save(self._snapshot(lockstep, n_epochs))
        except KeyboardInterrupt:  # raised by a callback, after an epoch that was written down
            self._interruption.request()
        finally:
            threads.use_one(False)
        self._put_away(lockstep, list(range(len(self.alive))))

    def _ask(self, lockstep: Lockstep, n_epochs: int, was_active: Tensor) -> Tensor:
        """Fetch the epochs since the last question, write them down and report them; gives who is still active."""
        if not self._pending:
            return was_active
        fetched = torch.stack(self._pending).tolist()  # plain lists: operations on short tensors cost more
        first = n_epochs - len(self._pending) + 1
        self._pending = []
        still = was_active.tolist()
        for epoch, (train_loss, val_loss, active, *metric) in enumerate(fetched, start=first):
            trained = [i for i, was in enumerate(still) if was]
            positions = [self.alive[i] for i in trained]
            losses = [train_loss[i] for i in trained]
            val_losses = [val_loss[i] for i in trained] if lockstep.val is not None else []
            metrics = [metric[0][i] for i in trained] if metric else []
            for i, position in enumerate(positions):
                self.histories[position].train_loss.append(losses[i])
                if val_losses:
                    self.histories[position].val_loss.append(val_losses[i])
                if metrics:
                    self.histories[position].val_metric.append(metrics[i])
            still = [was and bool(now) for was, now in zip(still, active, strict=True)]
            report = EpochReport(epoch, positions, losses, val_losses, metrics)
            answers = [hook.on_epoch_end(report) for hook in self.hooks] if positions else []
            if any(answers):
                still = [False] * len(still)
                lockstep.active.fill_(False)
        return torch.tensor(still)

    def _leave(self, lockstep: Lockstep, active: Tensor) -> None:
        """Put away the models that are done, and go on with the others."""
        self._put_away(lockstep, [i for i, still in enumerate(active.tolist()) if not still])
        keep = active.nonzero().flatten()
        lockstep.select(keep)
        self.alive = [self.alive[i] for i in keep.tolist()]

    def _put_away(self, lockstep: Lockstep, rows: list[int]) -> None:
        weights = lockstep.final_weights()
        best, diverged, active = (getattr(lockstep, n).tolist() for n in ("best_epoch", "diverged", "active"))
        for row in rows:
            position = self.alive[row]
            history = self.histories[position]
            history.best_epoch = best[row]
            if diverged[row]:
                history.status = "diverged"
                _log.warning("model %d diverged in epoch %d: its loss is no longer finite", position, history.n_epochs)
            elif history.n_epochs < self.settings.max_epochs:
                history.status = "interrupted" if active[row] else "stopped_early"
            self.done[position] = weights[row].clone(), history
            for hook in self.hooks:
                hook.on_model_end(position, history.n_epochs, history.status)

    def _snapshot(self, lockstep: Lockstep, n_epochs: int) -> Snapshot:
        state = {name: getattr(lockstep, name) for name in _MODEL_TENSORS}
        state |= {name: getattr(lockstep.adam, name) for name in _MOMENTS}
        return Snapshot(self.done, self.alive, n_epochs, [self.histories[i] for i in self.alive], state)

    def _resume(self, lockstep: Lockstep, snapshot: Snapshot) -> int:
        restore(lockstep, _MODEL_TENSORS, snapshot.state)
        restore(lockstep.adam, _MOMENTS, snapshot.state)
        self.histories = dict(zip(snapshot.alive, snapshot.histories, strict=True))
        return snapshot.n_epochs
