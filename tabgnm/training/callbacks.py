"""Hooks into training: a base class whose methods do nothing."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class EpochReport:
    """The report that callbacks receive after an epoch, about the models that were trained in it.

    Attributes
    ----------
    epoch : int
        The epoch, counted from 1.
    models : list of int
        Positions in the fleet's list of members.
    train_loss, val_loss : list of float
        One per model; `val_loss` is empty without validation rows.
    val_metric : list of float
        One per model; empty unless `FleetSettings.metric` is True and there are validation rows.
    """

    epoch: int
    models: list[int]
    train_loss: list[float]
    val_loss: list[float]
    val_metric: list[float] = field(default_factory=list)


class Callback:
    """Base class of callbacks, whose hooks do nothing.

    Override the hooks that you need. An exception raised in a hook stops training and is passed to the caller, except
    KeyboardInterrupt in `on_epoch_end`, which ends training like Ctrl-C: the fit returns the models so far.

    If a fleet is trained in several chunks, all epochs of a chunk are reported before those of the next.

    `on_epoch_end` and `on_model_end` run in torch's inference mode and, on a CPU, with denormal numbers flushed to 0
    and usually with a single thread for torch and NumPy. Tensors created in them cannot be used in autograd later. A
    hook that needs gradients or several threads has to use `torch.inference_mode(False)`, `torch.enable_grad()` and
    `torch.set_num_threads`, and has to restore the number of threads. Training waits until a hook returns.

    Attributes
    ----------
    every_epoch : bool, default=True
        Whether `on_epoch_end` must be called before the next epoch starts, as is required to stop training. If False,
        it may be called for several epochs at once, which is faster on a GPU.

    Examples
    --------
    Stop all models once one of them is good enough:

    >>> import torch
    >>> from tabgnm.nn import GNMShape
    >>> from tabgnm.training import Callback, Fleet, FleetSettings, Member, Table
    >>> class StopAt(Callback):
    ...     def __init__(self, loss):
    ...         self.loss = loss
    ...
    ...     def on_epoch_end(self, report):
    ...         return min(report.train_loss) < self.loss
    >>> x = torch.linspace(-1, 1, 64).unsqueeze(1)
    >>> members = [Member(seed=seed, learning_rate=0.01) for seed in range(3)]
    >>> settings = FleetSettings(loss="squared_error", max_epochs=500)
    >>> fleet = Fleet(GNMShape(1, 1, n_nodes=20, n_layers=2), members, settings)
    >>> result = fleet.fit(Table(x, x**2), callbacks=[StopAt(0.01)])
    >>> min(model.history.train_loss[-1] for model in result.models) < 0.01
    True
    >>> max(model.history.n_epochs for model in result.models) < 500
    True
    """

    every_epoch: bool = True

    def on_train_begin(self, n_models: int, max_epochs: int) -> None:
        """Called when training starts."""

    def on_epoch_end(self, report: EpochReport) -> bool | None:
        """Called at the end of an epoch; return True to stop the models of the report."""

    def on_model_end(self, model: int, n_epochs: int, status: str) -> None:
        """Called when a model is done."""

    def on_train_end(self) -> None:
        """Called when all models are done, or training was interrupted."""
