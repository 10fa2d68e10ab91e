"""Training curves (figure 3 and appendix D of the paper): losses by epoch, for four sizes of both models."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch

from tabgnm.datasets import DatasetContentError
from tabgnm.paper import data as paper_data
from tabgnm.paper.claims import MAX_WAIT_SECONDS, WaitingForOthers
from tabgnm.paper.protocol import BATCH_SIZE, MODELS, PROTOCOL_VERSION, Body, Setting, Source, folds
from tabgnm.paper.sizes import TARGETS, body_of_size
from tabgnm.paper.store import ResultStore
from tabgnm.paper.store_file import StoreError
from tabgnm.training import Fleet, FleetSettings, History, Member
from tabgnm.training.concurrent_fleets import train_concurrently
from tabgnm.training.settings import torch_device

DATA_SETS = ("yeast", "car", "phishing", "wireless", "connect4")
LEARNING_RATE = 0.001
DROPOUT = 0.0
FOLD = 0  # the paper shows one split


@dataclass(frozen=True)
class CurveTask:
    """One network on one split of a data set."""

    source: Source
    setting: Setting
    body: Body
    size: str

    @property
    def n_parameters(self) -> int:
        """The number of parameters, as counted in the paper."""
        return self.body.shape(self.source.n_inputs, self.source.n_outputs).n_parameters()

    @property
    def key(self) -> str:
        """Digest of everything that determines the curve."""
        content = {
            "curve": [PROTOCOL_VERSION, LEARNING_RATE, DROPOUT, FOLD],
            "source": [self.source.name, self.source.variant, self.source.digest],
            "setting": asdict(self.setting),
            "body": asdict(self.body),
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Curve:
    """The result of a task."""

    task: CurveTask
    history: History

    @property
    def overfitting(self) -> float:
        """The increase of the validation loss from its lowest to its last value, relative to the lowest."""
        lowest = min(self.history.val_loss)
        return (self.history.val_loss[-1] - lowest) / lowest if lowest else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the curve as JSON values."""
        task = self.task
        return {
            "dataset": task.source.name,
            "note": task.source.note,
            "model": task.body.model,
            "size": task.size,
            "width": task.body.width,
            "n_parameters": task.n_parameters,
            "last_train_loss": self.history.train_loss[-1],
            "last_val_loss": self.history.val_loss[-1],
            "lowest_val_loss": min(self.history.val_loss),
            "best_epoch": self.history.best_epoch,
            "overfitting": self.overfitting,
            **self.history.as_dict(),
        }


def curve_tasks(
    setting: Setting, only: Sequence[str] = (), *, data_home: str | None = None
) -> tuple[list[CurveTask], dict[str, str]]:
    """List the curves of the figures, and the data sets that are not available, with the reason."""
    unknown = [name for name in only if name not in DATA_SETS]
    if unknown:
        raise ValueError(f"there are no curves for {unknown}; expected some of {', '.join(DATA_SETS)}")
    tasks, missing = [], {}
    for name in only or DATA_SETS:
        try:
            source = paper_data.load(name, "paper", data_home).source
        except (OSError, DatasetContentError) as error:
            missing[name] = str(error)
            continue
        for size, target in TARGETS.items():
            for model in MODELS:
                body = body_of_size(model, target, source.n_inputs, source.n_outputs)
                tasks.append(CurveTask(source, setting, body, size))
    return tasks, missing


def run_curves(
    tasks: Sequence[CurveTask],
    store: ResultStore,
    *,
    data_home: str | None = None,
    device: str = "auto",
    on_curve: Callable[[int], Any] | None = None,
    max_wait: float = MAX_WAIT_SECONDS,
) -> list[Curve]:
    """Train all curves that are not in the store; `on_curve` is called with the number of finished curves.

    Other processes may work on the same store. If this process has to wait for others, it logs their names, and raises
    `StoreError` if they store nothing new for `max_wait` seconds.
    """
    known = {task.key: store.record(task.key) for task in tasks}

    def report() -> None:
        if on_curve is not None:
            on_curve(sum(record is not None for record in known.values()))

    if any(record is not None for record in known.values()):
        report()
    waiting = WaitingForOthers(store.claims, max_wait)
    with store.claims.renewing():
        while missing := [task for task in tasks if known[task.key] is None]:
            begun: list[CurveTask] = []
            works = (partial(_train, task, data_home, device) for task in _claimed(store, missing, begun))
            try:
                for number, history in train_concurrently(works, torch_device(device)):
                    key = begun[number].key
                    store.keep(key, history.as_dict())
                    known[key] = history.as_dict()
                    report()
            finally:
                store.claims.release()
            if not begun:
                waiting.pause([task.key for task in missing])
            theirs = {key: store.record(key) for key, record in known.items() if record is None}
            known.update(theirs)
            if any(record is not None for record in theirs.values()):
                report()
    return [Curve(task, _history(task, known[task.key], store)) for task in tasks]


def _history(task: CurveTask, record: Any, store: ResultStore) -> History:
    try:
        history = History.from_dict(record)
        if len(history.train_loss) == len(history.val_loss) > 0:
            return history
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        pass
    raise StoreError(
        f"the record with the key {task.key[:12]} in the store {str(store.path)!r} is not a training curve; move the "
        "store away and start a new one"
    )


def _claimed(store: ResultStore, tasks: Sequence[CurveTask], begun: list[CurveTask]) -> Iterator[CurveTask]:
    """Claim each curve when its turn comes; yield those that were free, and append them to `begun`."""
    for task in tasks:
        if store.claims.take([task.key]):
            begun.append(task)
            yield task


def _train(task: CurveTask, data_home: str | None, device: str) -> History:
    data = paper_data.load(task.source.name, task.source.variant, data_home)
    if data.source != task.source:
        raise ValueError(f"data set {task.source.name!r} has changed since the work was planned; plan it again")
    fold = next(own for number, own in enumerate(folds(task.source.n_rows, task.setting)) if number == FOLD)
    [encoded] = data.encoded([fold], task.setting)
    member = Member(
        train=torch.as_tensor(fold.train),
        val=torch.as_tensor(fold.val),
        seed=int(task.key[:12], 16),
        learning_rate=LEARNING_RATE,
        dropout=DROPOUT,
    )
    settings = FleetSettings(loss=data.loss, max_epochs=task.setting.max_epochs, batch_size=BATCH_SIZE, device=device)
    shape = task.body.shape(task.source.n_inputs, task.source.n_outputs)
    [model] = Fleet(shape, [member], settings).fit(encoded.table).models
    if model.history.status == "interrupted":
        raise KeyboardInterrupt
    return model.history
