"""A live progress bar: one line on a terminal, nothing anywhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabgnm.training.callbacks import Callback, EpochReport

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


class ProgressBar(Callback):
    """Shows models done, epochs, model-epochs per second and the time left."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console
        self._bar: Progress | None = None

    def on_train_begin(self, n_models: int, max_epochs: int) -> None:
        """Show the bar, if there is a terminal to show it on."""
        # Only who wants to see something pays for loading rich.
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        console = self.console or Console(stderr=True)
        if not console.is_terminal:
            return
        self._bar = Progress(
            TextColumn("models {task.fields[done]}/{task.fields[models]}"),
            BarColumn(),
            TextColumn("epoch {task.fields[epoch]}  {task.fields[rate]:,.0f} model-epochs/s"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._max_epochs = max_epochs
        self._task = self._bar.add_task("", total=n_models * max_epochs, models=n_models, done=0, epoch=0, rate=0.0)
        self._bar.start()

    def on_epoch_end(self, report: EpochReport) -> None:
        """Move on by the models that trained in this epoch."""
        if self._bar is not None:
            speed = self._bar.tasks[self._task].speed or 0.0
            self._bar.update(self._task, advance=len(report.models), epoch=report.epoch, rate=speed)

    def on_model_end(self, model: int, n_epochs: int, status: str) -> None:  # noqa: ARG002 - the hook's signature
        """Count the model, and the epochs it did not need."""
        if self._bar is not None:
            done = self._bar.tasks[self._task].fields["done"]
            self._bar.update(self._task, advance=max(0, self._max_epochs - n_epochs), done=done + 1)

    def on_train_end(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
