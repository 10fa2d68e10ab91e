"""One chunk of a fleet from its first to its last epoch: asks, reports, saves, and lets go of models that are done."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch import Tensor

from tabgnm.training.callbacks import Callback, EpochReport
from tabgnm.training.checkpoint import Snapshot, restore
from tabgnm.training.cuda_graph import EpochRunner
from tabgnm.training.history import History
from tabgnm.training.interruption import Interruption
from tabgnm.training.lockstep import Lockstep
from tabgnm.training.notes import Fetched
from tabgnm.training.settings import FleetSettings

_log = logging.getLogger("tabgnm.training")

# Asking costs as much as several steps; who looks on wants to see something, though. A GPU goes on while an answer is
# on its way, and where models may stop early it should not go on for long.
_EPOCHS_BETWEEN_QUESTIONS = 10
_EPOCHS_IF_ONE_MAY_STOP = 5
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

    NumPy has one because its threads and torch's would keep each other from the same cores. torch has one where models
    are shared out among threads, see `crews`, and where steps are small: a second one gains a fifth at most, and costs
    ten times the time if somebody else uses its core.
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
        self._n_asked = 0  # epochs that the device was asked about
        self._questions: list[tuple[range, Callable[[], Fetched]]] = []  # without an answer yet
        self._trained = np.ones(len(self.alive), dtype=bool)  # who was still trained after the last answer
        self._told_to_stop = False

    def run(
        self, lockstep: Lockstep, snapshot: Snapshot | None, when_set_up: Callable[[], None] = lambda: None
    ) -> None:
        """Train to the end, or until an interruption is asked for.

        `when_set_up` is called as soon as the device goes through epochs by itself.
        """
        n_epochs = 0
        if snapshot is not None:
            n_epochs = self._resume(lockstep, snapshot)
        on_gpu = lockstep.flat.device.type == "cuda"
        at_once = self._every_epoch or not on_gpu  # wait for answers before the next epoch
        between = _EPOCHS_BETWEEN_QUESTIONS
        if self.settings.patience is not None:
            between = _EPOCHS_IF_ONE_MAY_STOP if on_gpu else 1
        between = 1 if self._every_epoch else between
        asked = time.monotonic()
        # On a GPU, making room costs a new capture; on a CPU next to nothing.
        worth_leaving = 0.5 if on_gpu else 1.0
        runner = EpochRunner(lockstep, when_set_up)
        if snapshot is not None:  # it may hold models that had stopped already
            self._trained = lockstep.active.cpu().numpy().copy()
        n_active = int(self._trained.sum())
        threads = _Threads()
        try:
            while n_epochs < self.settings.max_epochs and n_active and not self._interruption.requested:
                threads.use_one(lockstep.one_thread, in_numpy=not on_gpu)
                runner.run(n_epochs)
                n_epochs += 1
                save = self.saver.wants(n_epochs)
                waited = time.monotonic() - asked
                enough = n_epochs - self._n_asked >= between or waited > _SECONDS_BETWEEN_QUESTIONS
                enough = enough or self._interruption.requested
                is_last = n_epochs == self.settings.max_epochs
                if not (enough or save or is_last):
                    continue
                asked = time.monotonic()
                self._ask(lockstep, n_epochs)
                n_active = self._hear(lockstep, all_of_them=at_once or save or is_last)
                if 0 < n_active < len(self.alive) and n_active <= worth_leaving * len(self.alive):
                    n_active = self._hear(lockstep)  # answers are about the models that are there now
                    if n_active:
                        self._leave(lockstep)
                        runner = EpochRunner(lockstep, when_set_up)
                if save and n_active and not is_last:
                    self.saver.save(self._snapshot(lockstep, n_epochs))
            if n_epochs > self._n_asked:
                self._ask(lockstep, n_epochs)
            self._hear(lockstep)
        except KeyboardInterrupt:  # raised by a callback, after an epoch that was written down
            self._interruption.request()
            self._hear(lockstep, tell=False)
        finally:
            lockstep.crews.close()
            threads.use_one(False)
        self._put_away(lockstep, list(range(len(self.alive))))

    def _ask(self, lockstep: Lockstep, n_epochs: int) -> None:
        """Ask about the epochs since the last question."""
        epochs = range(self._n_asked + 1, n_epochs + 1)
        self._questions.append((epochs, lockstep.notes.ask(epochs)))
        self._n_asked = n_epochs

    def _hear(self, lockstep: Lockstep, *, all_of_them: bool = True, tell: bool = True) -> int:
        """Write down answers, all or all but the last question's, and report them; gives how many models go on."""
        while len(self._questions) > (0 if all_of_them else 1):
            epochs, answer = self._questions.pop(0)
            notes = answer()
            before = self._trained
            after = self._write_down(notes, before.nonzero()[0].tolist(), validated=lockstep.validation is not None)
            self._trained = after[-1]
            if not tell:
                continue
            # All epochs are written down by now: the weights are those after the last one, whoever stops at the first.
            for epoch, trained, numbers in zip(epochs, [before, *after[:-1]], notes, strict=True):
                if self.hooks and trained.any() and any(self._report(epoch, trained, numbers, lockstep)):
                    self._told_to_stop = True
                    lockstep.active.fill_(False)
        return 0 if self._told_to_stop else int(self._trained.sum())

    def _write_down(self, notes: NDArray[Any], trained: list[int], *, validated: bool) -> NDArray[np.bool_]:
        """Add notes (epochs, what, M) to the histories of models; gives who goes on after each epoch, (epochs, M)."""
        goes_on: NDArray[np.bool_] = np.zeros((len(notes), notes.shape[2]), dtype=bool)
        goes_on[:, trained] = np.logical_and.accumulate(notes[:, 2, trained] != 0)
        n_epochs = (1 + goes_on[:-1].sum(axis=0)).tolist()  # the last one of a model is that in which it ends
        by_model = notes.transpose(2, 1, 0).tolist()  # plain lists: operations on short arrays cost more
        for i in trained:
            train_loss, val_loss, _, *metric = by_model[i]
            history, n = self.histories[self.alive[i]], n_epochs[i]
            history.train_loss += train_loss[:n]
            if validated:
                history.val_loss += val_loss[:n]
            for values in metric:
                history.val_metric += values[:n]
        return goes_on

    def _report(
        self, epoch: int, trained: NDArray[np.bool_], notes: NDArray[Any], lockstep: Lockstep
    ) -> list[bool | None]:
        """Tell those who look on about an epoch; gives their answers."""
        train_loss, val_loss, _, *metric = notes[:, trained].tolist()
        report = EpochReport(
            epoch,
            [self.alive[i] for i in trained.nonzero()[0].tolist()],
            train_loss,
            val_loss if lockstep.validation is not None else [],
            metric[0] if metric else [],
        )
        return [hook.on_epoch_end(report) for hook in self.hooks]

    def _leave(self, lockstep: Lockstep) -> None:
        """Put away the models that are done, and go on with the others."""
        self._put_away(lockstep, (~self._trained).nonzero()[0].tolist())
        keep = self._trained.nonzero()[0]
        lockstep.select(torch.from_numpy(keep))
        self.alive = [self.alive[i] for i in keep.tolist()]
        self._trained = np.ones(len(keep), dtype=bool)

    def _put_away(self, lockstep: Lockstep, rows: list[int]) -> None:
        weights = lockstep.final_weights(rows)
        best, diverged, active = (getattr(lockstep, n).tolist() for n in ("best_epoch", "diverged", "active"))
        for own_weights, row in zip(weights, rows, strict=True):
            position = self.alive[row]
            history = self.histories[position]
            history.best_epoch = best[row]
            if diverged[row]:
                history.status = "diverged"
                _log.warning("model %d diverged in epoch %d: its loss is no longer finite", position, history.n_epochs)
            elif history.n_epochs < self.settings.max_epochs:
                history.status = "interrupted" if active[row] else "stopped_early"
            self.done[position] = own_weights, history
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
        self._n_asked = snapshot.n_epochs
        return snapshot.n_epochs
