"""Hooks into training: a base class whose methods do nothing."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class EpochReport:
    """What callbacks are told after an epoch: numbers of the models that trained in it.

    Attributes
    ----------
    epoch : int
        From 1 on.
    models : list of int
        Positions in the fleet's list of members.
    train_loss, val_loss : list of float
        One per model; `val_loss` is empty without validation rows.
    val_metric : list of float
        One per model; empty unless `FleetSettings.metric` asks for it and there are validation rows.
    """

    epoch: int
    models: list[int]
    train_loss: list[float]
    val_loss: list[float]
    val_metric: list[float] = field(default_factory=list)


class Callback:
    """Override what you need. An exception raised in a hook ends training and reaches the caller.

    A fleet that is trained in several chunks reports the epochs of one chunk after those of another.

    Hooks run within training: in torch's inference mode, and on a CPU with one thread for torch and for NumPy's
    products, and with denormal numbers flushed to 0. So tensors that a hook creates cannot be used in autograd later;
    a hook that needs gradients, or several threads, sets them for itself with `torch.inference_mode(False)`,
    `torch.enable_grad()` and `torch.set_num_threads`, and puts the thread count back. Training waits for a hook.

    Attributes
    ----------
    every_epoch : bool, default=True
        Whether it has to hear of an epoch before the next one begins, as one that stops training does. With False it
        may hear of several at once, which is faster, as nobody waits for the device.

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
        """Training begins."""

    def on_epoch_end(self, report: EpochReport) -> bool | None:
        """An epoch ended; return True to stop the models of the report."""

    def on_model_end(self, model: int, n_epochs: int, status: str) -> None:
        """A model is done."""

    def on_train_end(self) -> None:
        """All models are done, or training was interrupted."""
