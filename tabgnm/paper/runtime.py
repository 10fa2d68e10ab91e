"""Running times (appendix C of the paper): time per epoch by parameters for both models, and by nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch

from tabgnm.datasets import DatasetContentError
from tabgnm.nn.losses import Loss
from tabgnm.nn.shapes import Shape
from tabgnm.paper import data as paper_data
from tabgnm.paper.protocol import BATCH_SIZE, MODELS, Body, Setting, folds
from tabgnm.paper.sizes import TARGETS, body_of_size
from tabgnm.paper.timing import seconds_of_fit, seconds_per_epoch
from tabgnm.training import FleetSettings, Member, Table

COMPARED = ("car", "wireless", "letter", "connect4")
NODES = (50, 100, 200, 300, 400, 500)
N_LAYERS_OF_NODES = 2  # 500 nodes are 499,000 parameters in the paper


@dataclass(frozen=True)
class RuntimeTask:
    """One network on one data set: one of four sizes of both models, or one number of nodes."""

    dataset: str
    variant: str
    body: Body
    size: str  # "" if the number of nodes is varied

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"dataset": self.dataset, "size": self.size, **asdict(self.body)}


@dataclass(frozen=True)
class Runtime:
    """Seconds per epoch of a model that is trained alone."""

    task: RuntimeTask
    n_parameters: int
    n_effective_parameters: int
    n_rows: int
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        own = asdict(self)
        del own["task"]
        return self.task.as_dict() | own


def runtime_tasks(
    only: Sequence[str] = (), *, data_home: str | None = None
) -> tuple[list[RuntimeTask], dict[str, str]]:
    """List the networks that the figures compare, and the data sets that are not available, with the reason."""
    unknown = [name for name in only if name not in COMPARED]
    if unknown:
        raise ValueError(f"running times are not compared on {unknown}; expected some of {', '.join(COMPARED)}")
    tasks, missing = [], {}
    for name in only or COMPARED:
        try:
            source = paper_data.load(name, "paper", data_home).source
        except (OSError, DatasetContentError) as error:
            missing[name] = str(error)
            continue
        if name == "car":
            tasks += [RuntimeTask(name, "paper", Body("gnm", nodes, N_LAYERS_OF_NODES), "") for nodes in NODES]
        for size, target in TARGETS.items():
            for model in MODELS:
                body = body_of_size(model, target, source.n_inputs, source.n_outputs)
                tasks.append(RuntimeTask(name, "paper", body, size))
    return tasks, missing


def measure_runtimes(
    tasks: Sequence[RuntimeTask],
    *,
    n_epochs: int | None = None,
    data_home: str | None = None,
    device: str = "auto",
    on_task: Callable[[int], Any] | None = None,
) -> list[Runtime]:
    """Measure each task by training one model alone; `on_task` is called with the number of finished tasks.

    The time is the difference between two trainings, one of which is longer by `n_epochs`. If None, by as many epochs
    as fit into half a second.
    """
    found = []
    for number, task in enumerate(tasks, start=1):
        data = paper_data.load(task.dataset, task.variant, data_home)
        fold = next(iter(folds(data.source.n_rows, Setting())))
        [encoded] = data.encoded([fold], Setting())
        shape = task.body.shape(data.source.n_inputs, data.source.n_outputs)
        member = Member(train=torch.as_tensor(fold.train), val=torch.as_tensor(fold.val))

        train = partial(_seconds, shape, member, data.loss, encoded.table, device)
        seconds = seconds_per_epoch(train, device, n_epochs)
        found.append(Runtime(task, shape.n_parameters(), shape.n_effective_parameters(), len(fold.train), seconds))
        if on_task is not None:
            on_task(number)
    return found


def _seconds(shape: Shape, member: Member, loss: Loss, table: Table, device: str, epochs: int) -> float:
    """Return the time of a training."""
    settings = FleetSettings(loss=loss, max_epochs=epochs, batch_size=BATCH_SIZE, device=device)
    return seconds_of_fit(shape, [member], settings, table)
