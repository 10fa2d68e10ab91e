"""A live progress bar: one line on a terminal or in a notebook, nothing anywhere else."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from tabgnm.training.callbacks import Callback, EpochReport

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


class ProgressLine:
    """The line: models done, epochs, model-epochs per second, the lowest loss and the time left. For any thread."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console
        self._bar: Progress | None = None
        self._best = math.inf
        self._lock = threading.Lock()

    @contextmanager
    def shown(self, n_models: int, n_model_epochs: int) -> Iterator[None]:
        """Show the line, if there is a terminal or notebook to show it in; take it away at the end."""
        # Only who wants to see something pays for loading rich.
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        console = self.console or Console(stderr=True)
        if not (console.is_terminal or console.is_jupyter):
            yield
            return
        bar = Progress(
            TextColumn("models {task.fields[done]}/{task.fields[models]}"),
            BarColumn(),
            TextColumn("{task.fields[epoch]}{task.fields[rate]:,.0f} model-epochs/s{task.fields[best]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._task = bar.add_task("", total=n_model_epochs, models=n_models, done=0, epoch="", rate=0.0, best="")
        with bar:
            self._bar = bar
            try:
                yield
            finally:
                self._bar = None

    def move(
        self, n_model_epochs: int, *, epoch: int | None = None, models_done: int = 0, loss: float = math.inf
    ) -> None:
        """Move on by epochs of models; some models may be done, and the validation loss may be lower than before."""
        with self._lock:
            self._best = min(self._best, loss)
            if self._bar is not None:
                task = self._bar.tasks[self._task]
                fields: dict[str, Any] = {"rate": task.speed or 0.0, "done": task.fields["done"] + models_done}
                if epoch is not None:
                    fields["epoch"] = f"epoch {epoch}  "
                if self._best < math.inf:
                    fields["best"] = f"  best loss {self._best:.4g}"
                self._bar.update(self._task, advance=n_model_epochs, **fields)


class ProgressBar(Callback):
    """Shows how far a fleet is.

    Parameters
    ----------
    console : rich.console.Console or None, default=None
        None writes to stderr.
    line : ProgressLine or None, default=None
        A line that several fleets share and that is shown already; None shows one for each fit.
    """

    every_epoch = False

    def __init__(self, console: Console | None = None, *, line: ProgressLine | None = None) -> None:
        self.line = line or ProgressLine(console)
        self._shared = line is not None
        self._ending = ExitStack()

    def on_train_begin(self, n_models: int, max_epochs: int) -> None:
        """Show the line."""
        self._max_epochs = max_epochs
        if not self._shared:
            self._ending.enter_context(self.line.shown(n_models, n_models * max_epochs))

    def on_epoch_end(self, report: EpochReport) -> None:
        """Move on by the models that trained in this epoch."""
        # Fleets that share a line are in different epochs.
        lowest = min((loss for loss in report.val_loss if math.isfinite(loss)), default=math.inf)
        self.line.move(len(report.models), epoch=None if self._shared else report.epoch, loss=lowest)

    def on_model_end(self, model: int, n_epochs: int, status: str) -> None:  # noqa: ARG002 - the hook's signature
        """Count the model, and the epochs it did not need."""
        self.line.move(max(0, self._max_epochs - n_epochs), models_done=1)

    def on_train_end(self) -> None:
        """Take the line away."""
        self._ending.close()
