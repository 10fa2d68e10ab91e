"""Progress of training: one bar for all fleets of a fit, in a terminal or notebook, or log messages."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from tabgnm.training.callbacks import Callback, EpochReport
from tabgnm.training.progress_display import ProgressDisplay, ProgressState, display

if TYPE_CHECKING:
    from rich.console import Console

# Returns the score of a model, given its position in the fleet and its validation metric; larger is better.
Score = Callable[[int, float], float]


class ProgressLine:
    """A line that shows finished networks, the best score so far, and the time left. It is thread-safe.

    Parameters
    ----------
    console : rich.console.Console or None, default=None
        The console. If None, progress is shown in the notebook, on stderr if it is a terminal, or in the log.
    score_name : str, default=""
        The name of the scores. If empty, the lowest loss is shown.
    shows_best : bool, default=True
        Whether to show the best score or loss at all.
    deadline : float or None, default=None
        The latest end of training, in the time of `time.monotonic`.
    """

    def __init__(
        self,
        console: Console | None = None,
        *,
        score_name: str = "",
        shows_best: bool = True,
        deadline: float | None = None,
    ) -> None:
        self.console, self.score_name, self.deadline = console, score_name, deadline
        self._shows_best = shows_best
        self._display: ProgressDisplay | None = None
        self._lock = threading.Lock()
        self._lowest, self._highest, self._loss_name = math.inf, -math.inf, "loss"
        self._n_models = self._n_done = self._n_steps = self._n_taken = 0

    @contextmanager
    def shown(self, n_models: int, n_model_epochs: int) -> Iterator[None]:
        """Show the line within this context, for the expected numbers of models and of their epochs in total."""
        self._n_models, self._n_steps, self._n_done, self._n_taken = n_models, n_model_epochs, 0, 0
        self._began = time.monotonic()
        with display(self.console) as self._display:
            try:
                yield
            finally:
                with self._lock:
                    self._display.close(self._state())
                    self._display = None

    def expect(self, n_models: int, n_model_epochs: int) -> None:
        """Set the remaining numbers of models and of their epochs."""
        with self._lock:
            self._n_models, self._n_steps = self._n_done + n_models, self._n_taken + n_model_epochs

    def move(
        self,
        n_model_epochs: int,
        *,
        models_done: int = 0,
        loss: float = math.inf,
        loss_name: str = "loss",
        score: float = -math.inf,
    ) -> None:
        """Advance by epochs of models; also count models that are done, and update the best loss and score."""
        with self._lock:
            self._n_taken += n_model_epochs
            self._n_done += models_done
            self._loss_name = loss_name if loss < math.inf else self._loss_name
            self._lowest, self._highest = min(self._lowest, loss), max(self._highest, score)
            if self._display is not None:
                self._display.update(self._state())

    def _state(self) -> ProgressState:
        seconds = time.monotonic() - self._began
        share = min(1.0, self._n_taken / max(1, self._n_steps))
        left = seconds * (1 - share) / share if share else math.nan
        if self.deadline is not None:
            left = min(max(0.0, self.deadline - time.monotonic()), math.inf if math.isnan(left) else left)
        best = ""
        if self._shows_best and self.score_name and self._highest > -math.inf:
            best = f"best network: {self.score_name} {self._highest:.4g}"
        elif self._shows_best and self._lowest < math.inf:
            best = f"best {self._loss_name} {self._lowest:.4g}"
        return ProgressState(share, self._n_done, self._n_models, best, seconds, left)


class ProgressBar(Callback):
    """Shows the progress of a fleet.

    Parameters
    ----------
    console : rich.console.Console or None, default=None
        The console. If None, progress is shown in the notebook, on stderr if it is a terminal, or in the log.
    line : ProgressLine or None, default=None
        A line that is already shown and that several fleets share. If None, each fit shows its own line.
    score : callable or None, default=None
        Returns the score of a model, given its position in the fleet and its validation metric; larger is better.
    """

    every_epoch = False

    def __init__(
        self, console: Console | None = None, *, line: ProgressLine | None = None, score: Score | None = None
    ) -> None:
        self.line = line or ProgressLine(console)
        self._shared, self._score = line is not None, score
        self._ending = ExitStack()

    def on_train_begin(self, n_models: int, max_epochs: int) -> None:
        """Show the line."""
        self._left = [max_epochs] * n_models  # epochs of each model that were not reported yet
        if not self._shared:
            self._ending.enter_context(self.line.shown(n_models, n_models * max_epochs))

    def on_epoch_end(self, report: EpochReport) -> None:
        """Advance by the models that were trained in this epoch."""
        for model in report.models:
            self._left[model] -= 1
        losses, name = (report.val_loss, "loss") if report.val_loss else (report.train_loss, "training loss")
        lowest = min((loss for loss in losses if math.isfinite(loss)), default=math.inf)
        highest = -math.inf
        if self._score is not None:
            scores = [self._score(*own) for own in zip(report.models, report.val_metric, strict=False)]
            highest = max((score for score in scores if math.isfinite(score)), default=-math.inf)
        self.line.move(len(report.models), loss=lowest, loss_name=name, score=highest)

    def on_model_end(self, model: int, n_epochs: int, status: str) -> None:  # noqa: ARG002 - the hook's signature
        """Count the model, and the epochs it did not need."""
        self.line.move(max(0, self._left[model]), models_done=1)

    def on_train_end(self) -> None:
        """Remove the line."""
        self._ending.close()
