"""Training of one chunk of a fleet, from its first to its last epoch, with reports, checkpoints and early stopping."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tabgnm.training.callbacks import Callback, EpochReport
from tabgnm.training.checkpoint import Saver, Snapshot, restore
from tabgnm.training.early_stopping import STATE
from tabgnm.training.epoch_loop import EpochLoop
from tabgnm.training.epoch_records import Fetched
from tabgnm.training.graph_capture import CapturedEpochs
from tabgnm.training.history import History
from tabgnm.training.interruption import Interruption
from tabgnm.training.settings import FleetSettings
from tabgnm.training.threads import single_threaded_math, torch_threads

_log = logging.getLogger("tabgnm.training")

# Fetching losses from the device costs as much as several steps, but progress should be visible. A GPU continues until
# the losses arrive, and should not continue for long if models may stop early.
_EPOCHS_BETWEEN_REQUESTS = 10
_EPOCHS_IF_MODELS_MAY_STOP = 5
_SECONDS_BETWEEN_REQUESTS = 0.2
_MOMENTS = ("exp_avg", "exp_avg_sq")


class ChunkTrainer:
    """Trains the models at `positions` of a fleet and adds them to `done`."""

    def __init__(
        self,
        positions: Sequence[int],
        settings: FleetSettings,
        hooks: Sequence[Callback],
        saver: Saver,
        done: dict[int, tuple[Tensor, History]],
        interruption: Interruption,
    ) -> None:
        self.alive = list(positions)
        self.settings, self.hooks, self.saver, self.done = settings, hooks, saver, done
        self.histories = {position: History() for position in positions}
        self.val_outputs: dict[int, Tensor] = {}  # see `HeldOutOutputs`
        self._interruption = interruption
        self._every_epoch = any(getattr(hook, "every_epoch", True) for hook in hooks)
        self._n_requested = 0  # epochs whose losses were requested
        self._pending: list[tuple[range, Callable[[], Fetched]]] = []
        self._active = np.ones(len(self.alive), dtype=bool)  # models that continue, by the losses received so far
        self._told_to_stop = self._interrupted_by_callback = False

    def run(self, loop: EpochLoop, snapshot: Snapshot | None, when_set_up: Callable[[], None]) -> None:
        """Train to the end, or until an interruption is requested.

        `when_set_up` is called as soon as the device can run epochs without the host.
        """
        on_gpu = loop.flat.device.type == "cuda"
        n_epochs = 0 if snapshot is None else self._resume(loop, snapshot)
        wait_for_each, between = self._every_epoch or not on_gpu, self._epochs_between_requests(on_gpu)
        # On a GPU, dropping models requires a new capture; on a CPU it costs next to nothing.
        worth_dropping = 0.25 if on_gpu else 1.0
        n_active, last_request, is_set_up = int(self._active.sum()), time.monotonic(), False
        with _step_in_use(loop):
            captured = CapturedEpochs(loop) if on_gpu else None
            while n_epochs < self.settings.max_epochs and n_active and not self._interruption.requested:
                with np.errstate(all="ignore"):  # diverging models are detected by their losses
                    loop.load_epoch(n_epochs)
                    (loop if captured is None else captured).run_epoch()
                if not is_set_up and (captured is None or captured.captured):
                    is_set_up = True
                    when_set_up()
                n_epochs += 1
                save, is_last = self.saver.wants(n_epochs), n_epochs == self.settings.max_epochs
                may_drop = n_epochs % between == 0  # not by the clock: the set of models may affect rounding
                is_due = may_drop or time.monotonic() - last_request > _SECONDS_BETWEEN_REQUESTS
                if not (is_due or save or is_last or self._interruption.requested):
                    continue
                last_request = time.monotonic()
                self._request(loop, n_epochs)
                n_active = self._receive(loop, everything=wait_for_each or save or is_last)
                if may_drop and 0 < n_active < len(self.alive) and n_active <= worth_dropping * len(self.alive):
                    n_active = self._receive(loop)  # pending losses refer to the current models, so receive them first
                    if n_active:
                        self._drop_finished(loop)
                        captured = CapturedEpochs(loop) if on_gpu else None
                if save and n_active and not is_last:
                    self.saver.save(self._snapshot(loop, n_epochs))
            if n_epochs > self._n_requested:
                self._request(loop, n_epochs)
            self._receive(loop)
            if self._interruption.requested and n_epochs < self.settings.max_epochs and self._active.any():
                self.saver.save(self._snapshot(loop, n_epochs))
        self._store(loop, list(range(len(self.alive))))

    def _epochs_between_requests(self, on_gpu: bool) -> int:
        if self._every_epoch or (self.settings.patience is not None and not on_gpu):
            return 1
        return _EPOCHS_BETWEEN_REQUESTS if self.settings.patience is None else _EPOCHS_IF_MODELS_MAY_STOP

    def _request(self, loop: EpochLoop, n_epochs: int) -> None:
        """Request the losses of the epochs since the last request."""
        epochs = range(self._n_requested + 1, n_epochs + 1)
        self._pending.append((epochs, loop.records.request(epochs)))
        self._n_requested = n_epochs

    def _receive(self, loop: EpochLoop, *, everything: bool = True) -> int:
        """Record and report the requested losses, all or all but the last; return how many models continue."""
        while len(self._pending) > (0 if everything else 1):
            epochs, wait = self._pending.pop(0)
            numbers = wait()
            before = self._active
            after = self._record(numbers, before.nonzero()[0].tolist(), validated=loop.validation is not None)
            self._active = after[-1]
            # All epochs are recorded by now: the weights are those after the last one, even if a callback stops
            # training at the first.
            for epoch, trained, own in zip(epochs, [before, *after[:-1]], numbers, strict=True):
                if self._interrupted_by_callback or not (self.hooks and trained.any()):
                    continue
                try:
                    stop = any(self._report(epoch, trained, own, loop))
                except KeyboardInterrupt:  # raised by a callback: ends training like Ctrl-C, after the recorded epochs
                    self._interrupted_by_callback = True
                    self._interruption.request()
                    continue
                if stop:
                    self._told_to_stop = True
                    loop.stopping.active.fill_(False)
        return 0 if self._told_to_stop else int(self._active.sum())

    def _record(self, numbers: NDArray[Any], trained: list[int], *, validated: bool) -> NDArray[np.bool_]:
        """Add numbers (epochs, what, M) to histories; return which models continue after each epoch, (epochs, M)."""
        goes_on: NDArray[np.bool_] = np.zeros((len(numbers), numbers.shape[2]), dtype=bool)
        goes_on[:, trained] = np.logical_and.accumulate(numbers[:, 2, trained] != 0)
        n_epochs = (1 + goes_on[:-1].sum(axis=0)).tolist()  # including the epoch in which a model ends
        by_model = numbers.transpose(2, 1, 0).tolist()  # plain lists, because operations on short arrays cost more
        for i in trained:
            train_loss, val_loss, _, *metric = by_model[i]
            history, n = self.histories[self.alive[i]], n_epochs[i]
            history.train_loss += train_loss[:n]
            if validated:
                history.val_loss += val_loss[:n]
            for values in metric:
                history.val_metric += values[:n]
        return goes_on

    def _report(self, epoch: int, trained: NDArray[np.bool_], own: NDArray[Any], loop: EpochLoop) -> list[bool | None]:
        """Report an epoch to callbacks; return their results."""
        train_loss, val_loss, _, *metric = own[:, trained].tolist()
        report = EpochReport(
            epoch,
            [self.alive[i] for i in trained.nonzero()[0].tolist()],
            train_loss,
            val_loss if loop.validation is not None else [],
            metric[0] if metric else [],
        )
        return [hook.on_epoch_end(report) for hook in self.hooks]

    def _drop_finished(self, loop: EpochLoop) -> None:
        """Store the models that are done, and continue with the others."""
        self._store(loop, (~self._active).nonzero()[0].tolist())
        keep = self._active.nonzero()[0]
        loop.select(torch.from_numpy(keep))
        self.alive = [self.alive[i] for i in keep.tolist()]
        self._active = np.ones(len(keep), dtype=bool)

    def _store(self, loop: EpochLoop, models: list[int]) -> None:
        weights, stopping = loop.final_weights(models), loop.stopping
        best, diverged, active = (getattr(stopping, n).tolist() for n in ("best_epoch", "diverged", "active"))
        for own_weights, model in zip(weights, models, strict=True):
            position = self.alive[model]
            history = self.histories[position]
            history.best_epoch = best[model]
            if diverged[model]:
                history.status = "diverged"
                _log.warning("model %d diverged in epoch %d: its loss is no longer finite", position, history.n_epochs)
            elif history.n_epochs < self.settings.max_epochs:
                history.status = "interrupted" if active[model] else "stopped_early"
            self.done[position] = own_weights, history
            if loop.held_out is not None and loop.validation is not None and best[model]:
                size = loop.validation.rows.sizes[model]
                self.val_outputs[position] = loop.held_out.outputs[model, :size].cpu().clone()
            for hook in self.hooks:
                hook.on_model_end(position, history.n_epochs, history.status)

    def _snapshot(self, loop: EpochLoop, n_epochs: int) -> Snapshot:
        state = {"flat": loop.flat}
        state |= {name: getattr(loop.stopping, name) for name in STATE}
        state |= {name: getattr(loop.adam, name) for name in _MOMENTS}
        return Snapshot(self.done, self.alive, n_epochs, [self.histories[i] for i in self.alive], state)

    def _resume(self, loop: EpochLoop, snapshot: Snapshot) -> int:
        loop.epoch.fill_(snapshot.n_epochs)
        restore(loop, ["flat"], snapshot.state)
        restore(loop.stopping, STATE, snapshot.state)
        restore(loop.adam, _MOMENTS, snapshot.state)
        self.histories = dict(zip(snapshot.alive, snapshot.histories, strict=True))
        self._active = loop.stopping.active.cpu().numpy().copy()  # some may have stopped already
        self._n_requested = snapshot.n_epochs
        return snapshot.n_epochs


@contextmanager
def _step_in_use(loop: EpochLoop) -> Iterator[None]:
    """Set the threads of torch and NumPy for the steps of a loop on a CPU within this context, then close the step."""
    n_threads = loop.step.n_math_threads
    on_gpu = loop.flat.device.type == "cuda"
    with nullcontext() if on_gpu else single_threaded_math() if n_threads == 1 else torch_threads(n_threads):
        try:
            yield
        finally:
            loop.step.close()
