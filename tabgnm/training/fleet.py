"""Fleets: many independent models of one shape, trained together."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from tabgnm.nn.checks import positive_integer
from tabgnm.nn.shapes import Shape, with_frequency_scale
from tabgnm.training import gpu_sharing
from tabgnm.training.callbacks import Callback
from tabgnm.training.checkpoint import Saver, Snapshot
from tabgnm.training.chunk_trainer import ChunkTrainer
from tabgnm.training.chunks import models_per_chunk
from tabgnm.training.data import Table, check_loss, member_rows, row_weights
from tabgnm.training.epoch_loop import EpochLoop
from tabgnm.training.flat_weights import FlatLayout
from tabgnm.training.history import History
from tabgnm.training.interruption import Interruption
from tabgnm.training.progress import ProgressBar
from tabgnm.training.result import FleetResult, TrainedModel
from tabgnm.training.row_batches import DeviceTables, RowSet
from tabgnm.training.settings import FleetSettings, Member
from tabgnm.training.threads import flushes_denormals, torch_threads
from tabgnm.training.thresholds import check_thresholds

_log = logging.getLogger("tabgnm.training")

_SIMILAR, _MANY_ROWS = 0.25, 2**20


class _MemberRows(NamedTuple):
    """The rows of one model in its table, and their weights (None if all are equal)."""

    train: Tensor
    val: Tensor
    train_weights: Tensor | None
    val_weights: Tensor | None


class Fleet:
    """M independent models of one shape, trained together.

    The same call on the same machine returns identical results. The random numbers of a model (initial weights, order
    of the rows, dropout masks, gates) depend only on its own seed. Its arithmetic is the same in any fleet up to
    rounding. Long training in float32 amplifies rounding, so the same model in two fleets may then differ as much as
    two seeds do.

    Parameters
    ----------
    shape : GNMShape, MLPShape or EmbeddedShape
        The shape of the models.
    members : sequence of Member
        The settings of each model.
    settings : FleetSettings
        The settings that all models share.
    chunk_size : int or None, default=None
        The maximum number of models to train at once. If None, it is chosen by memory and cache size.

    Examples
    --------
    >>> import torch
    >>> from tabgnm.nn import GNMShape
    >>> from tabgnm.nn.losses import SquaredError
    >>> from tabgnm.training import Fleet, FleetSettings, Member, Table
    >>> x = torch.linspace(-1, 1, 64).unsqueeze(1)
    >>> members = [Member(seed=seed, learning_rate=0.01) for seed in range(3)]
    >>> settings = FleetSettings(loss=SquaredError(), max_epochs=30)
    >>> result = Fleet(GNMShape(1, 1, n_nodes=20, n_layers=2), members, settings).fit(Table(x, x**2))
    >>> [model.history.n_epochs for model in result.models]
    [30, 30, 30]
    """

    def __init__(
        self, shape: Shape, members: Sequence[Member], settings: FleetSettings, *, chunk_size: int | None = None
    ) -> None:
        for name, value, expected in (
            ("shape", shape, Shape),
            ("settings", settings, FleetSettings),
            ("members", members, Iterable),
        ):
            if not isinstance(value, expected):
                raise TypeError(f"{name} is a {type(value).__name__}; expected Fleet(shape, members, settings)")
        members = list(members)
        if not all(isinstance(member, Member) for member in members):
            raise TypeError("members must be a sequence of Member, as in Fleet(shape, [Member(seed=0)], settings)")
        if not members:
            raise ValueError("members is empty; expected at least one Member to train")
        if chunk_size is not None:
            positive_integer("chunk_size", chunk_size)
        for what, have in (
            ("validation rows", [member.val is not None for member in members]),
            ("an l0 penalty", [member.l0 > 0 for member in members]),
        ):
            if any(have) != all(have):
                raise ValueError(
                    f"{sum(have)} of {len(have)} models have {what}; expected all models of a fleet or none; use "
                    "FleetPlan, which groups models accordingly"
                )
        if settings.patience is not None and members[0].val is None:
            raise ValueError(
                f"patience={settings.patience} requires validation rows; set `val` of the members, or use patience=None"
            )
        self.shape, self.members, self.settings, self.chunk_size = shape, members, settings, chunk_size
        self._layout = FlatLayout(shape)
        for member in members:
            if member.start is not None:
                self._layout.check_start(member.start)
            check_thresholds(self._layout, member, settings)

    def fit(
        self,
        tables: Table | Sequence[Table],
        *,
        callbacks: Sequence[Callback] = (),
        verbose: int = 0,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 50,
    ) -> FleetResult:
        """Train all models.

        Parameters
        ----------
        tables : Table or sequence of Table
            The data. `Member.table` is the position of the table of each model.
        callbacks : sequence of Callback
            Called after epochs and models; see `Callback`.
        verbose : int, default=0
            The verbosity level. If 1 or more, show a progress bar in a terminal or notebook, and messages of the logger
            "tabgnm" elsewhere.
        checkpoint : path or None, default=None
            The file to save the state of training to. If it already exists, training continues from it. It is removed
            when all models are done; if that fails, a RuntimeWarning is issued. A `CheckpointError` is raised if it
            cannot be read (it is damaged, belongs to another fleet, or is not a regular file) or written (the disk is
            full).
        checkpoint_every : int, default=50
            The number of epochs between two saves.

        Returns
        -------
        FleetResult
            The trained models in the order of the members. After Ctrl-C, they have the best weights so far, and the
            status of their histories is "interrupted".
        """
        given = [tables] if isinstance(tables, Table) else tables
        if not isinstance(given, Sequence) or not given or not all(isinstance(table, Table) for table in given):
            raise TypeError("tables must be a Table, as in fit(Table(x, y)), or a sequence of at least one Table")
        with gpu_sharing.setting_up():  # one thread at a time, because concurrent short calls are slow
            rows = self.checked_rows(given)
        hooks = [*callbacks, *([ProgressBar()] if verbose else [])]
        if checkpoint is not None and self.settings.held_out_outputs:
            raise ValueError("checkpoint cannot be used with held_out_outputs=True; use only one of the two")
        saver = Saver(checkpoint, checkpoint_every, self.shape, self.settings, self.members, given)
        with Interruption() as interruption, interruption.around(), ExitStack() as endings:
            for hook in hooks:
                hook.on_train_begin(len(self.members), self.settings.max_epochs)
                endings.callback(hook.on_train_end)
            with _arithmetic(self.settings.torch_device()), ExitStack() as set_up:
                set_up.enter_context(gpu_sharing.setting_up())
                val_outputs: dict[int, Tensor] = {}
                done = self._train(given, rows, hooks, saver, interruption, set_up, val_outputs)
        return FleetResult(
            self.shape, [self._trained(*done[i], i, val_outputs.get(i)) for i in range(len(self.members))]
        )

    def checked_rows(self, tables: Sequence[Table]) -> list[_MemberRows]:
        """Return the rows of each model; raise if models, tables and settings do not match.

        This is done before training, so that an error in the last model does not waste the training of the others.
        """
        for number, table in enumerate(tables):
            if table.x.shape[1] != self.shape.n_inputs:
                raise ValueError(
                    f"table {number} has {table.x.shape[1]} columns; expected {self.shape.n_inputs}, the n_inputs of "
                    "the shape"
                )
            for name in ("x", "y"):
                self._check_range(number, name, getattr(table, name))
            if self.shape.embedding is not None:
                self.shape.embedding.check_codes(table.x)
            check_loss(self.settings.loss, self.shape.n_outputs, table, self.settings.dtype)
        known: dict[tuple[object, ...], _MemberRows] = {}  # candidates of a search share the rows of a fold
        return [self._rows_of(member, tables, known) for member in self.members]

    def _check_range(self, number: int, name: str, values: Tensor) -> None:
        """Raise if numbers become infinite in the precision of the weights."""
        largest = torch.finfo(self.settings.dtype).max
        if values.dtype == torch.float64 and (values.abs() > largest).any():
            raise ValueError(
                f"{name} of table {number} has numbers of more than {largest:.3g}, which are infinite in "
                f'precision="{self.settings.precision}"; scale them, or use precision="float64"'
            )

    def _rows_of(
        self, member: Member, tables: Sequence[Table], known: dict[tuple[object, ...], _MemberRows]
    ) -> _MemberRows:
        if member.table >= len(tables):
            raise ValueError(
                f"a model has table={member.table}, but {len(tables)} tables were given; expected a position from 0 to "
                f"{len(tables) - 1}"
            )
        key = (member.table, *(id(getattr(member, name)) for name in ("train", "val", "sample_weight")))
        if key not in known:
            table = tables[member.table]
            train, val = (member_rows(member, table, which) for which in ("train", "val"))
            weights = [row_weights(member, table, rows) if len(rows) else None for rows in (train, val)]
            known[key] = _MemberRows(train, val, *weights)
        return known[key]

    def _train(
        self,
        tables: Sequence[Table],
        rows: Sequence[_MemberRows],
        hooks: Sequence[Callback],
        saver: Saver,
        interruption: Interruption,
        set_up: ExitStack,
        val_outputs: dict[int, Tensor],
    ) -> dict[int, tuple[Tensor, History]]:
        """Train chunk by chunk; `set_up` is closed as soon as the device can run epochs without the host."""
        device, dtype = self.settings.torch_device(), self.settings.dtype
        # Rounded codes would refer to other levels, so inputs of embeddings stay exact, and are rounded afterwards.
        low = self.settings.precision == "bf16" and self.shape.embedding is None
        on_device = DeviceTables(tables, device, dtype, torch.bfloat16 if low else dtype)
        snapshot = saver.load()
        done = dict(snapshot.done) if snapshot else {}
        resumed = snapshot.alive if snapshot else []
        for position, (_, history) in done.items():
            for hook in hooks:
                hook.on_model_end(position, history.n_epochs, history.status)
        waiting = [i for i in range(len(self.members)) if i not in done and i not in resumed]
        # Most rows first, so that the models that still have a batch are always the first ones.
        waiting.sort(key=lambda i: -len(rows[i].train))
        n_train, n_val = (max(len(own) for own in each) for each in list(zip(*rows, strict=True))[:2])
        limit = self.chunk_size or models_per_chunk(
            self.shape, self.settings, device, len(self.members), n_train, n_val
        )
        while resumed or (waiting and not interruption.requested):
            positions = resumed or self._similar(waiting[:limit], rows)
            trainer = ChunkTrainer(positions, self.settings, hooks, saver, done, interruption)
            try:
                with set_up:
                    set_up.enter_context(gpu_sharing.setting_up())  # again, for all chunks except the first
                    if interruption.requested and not resumed:  # while this fleet was waiting for others
                        break
                    loop = self._epoch_loop(positions, on_device, rows)
                    trainer.run(loop, snapshot if resumed else None, set_up.close)
                    val_outputs |= trainer.val_outputs
            except torch.cuda.OutOfMemoryError:
                if len(positions) == 1:
                    raise
                limit = max(1, len(positions) // 2)
                _log.warning("out of GPU memory with %d models at once; continuing with %d", len(positions), limit)
                waiting, resumed = [i for i in (*resumed, *waiting) if i not in done], []
                with gpu_sharing.whole_device:
                    torch.cuda.empty_cache()
                continue
            waiting = waiting if resumed else waiting[len(positions) :]
            resumed = []
            if waiting and all(history.status != "interrupted" for _, history in done.values()):
                saver.save(Snapshot(done, [], 0, [], {}))
        self._leave_untrained([i for i in [*resumed, *waiting] if i not in done], done, hooks)
        if all(history.status != "interrupted" for _, history in done.values()):
            saver.remove()
        return done

    @staticmethod
    def _similar(positions: list[int], rows: Sequence[_MemberRows]) -> list[int]:
        """Return the models to train at once: without those with far fewer rows than the first, if there are many rows.

        Row numbers and weights of all models have as many places as those of the first.
        """
        most = len(rows[positions[0]].train)
        fewest = _SIMILAR * most if len(positions) * most > _MANY_ROWS else 0
        return [i for i in positions if len(rows[i].train) >= fewest]

    def _epoch_loop(self, positions: Sequence[int], tables: DeviceTables, rows: Sequence[_MemberRows]) -> EpochLoop:
        members, own, dtype = [self.members[i] for i in positions], [rows[i] for i in positions], self.settings.dtype
        sources = [member.table for member in members]
        train = RowSet(tables, sources, [r.train for r in own], [r.train_weights for r in own], dtype)
        val = None
        if members[0].val is not None:
            val = RowSet(tables, sources, [r.val for r in own], [r.val_weights for r in own], dtype)
        return EpochLoop(self.shape, members, self.settings, train, val)

    def _leave_untrained(
        self, positions: Sequence[int], done: dict[int, tuple[Tensor, History]], hooks: Sequence[Callback]
    ) -> None:
        """Add models that were not trained, with their initial weights."""
        for position in positions:
            own, cpu = [self.members[position]], torch.device("cpu")
            weights = self._layout.first_weights(own, cpu, self.settings.dtype)[0]
            done[position] = weights, History(status="interrupted")
            for hook in hooks:
                hook.on_model_end(position, 0, "interrupted")

    def untrained(self) -> FleetResult:
        """Return the models with their initial weights, as after an interruption before the first epoch."""
        done: dict[int, tuple[Tensor, History]] = {}
        self._leave_untrained(range(len(self.members)), done, [])
        return FleetResult(self.shape, [self._trained(*done[i], i) for i in range(len(self.members))])

    def _trained(
        self, weights: Tensor, history: History, position: int, val_outputs: Tensor | None = None
    ) -> TrainedModel:
        parameters = {name: view.clone() for name, view in self._layout.views(weights).items()}
        member = self.members[position]
        shape = with_frequency_scale(self.shape, member.frequency_scale)
        return TrainedModel(shape, parameters, history, member.dropout, val_outputs)


@contextmanager
def _arithmetic(device: torch.device) -> Iterator[None]:
    """Within this context, disable autograd and autocast; on a CPU, flush denormal numbers and use one torch thread.

    Gradients of rows that are fitted well become smaller than the smallest normal number; processors are several times
    slower with such numbers, and they do not affect results. Operations outside training steps are so short that a
    second thread would cost more time than it saves.
    """
    with torch.inference_mode(), torch.autocast(device.type, enabled=False):
        if device.type == "cuda":
            # Streams and events belong to the current device, which may not be the device of this fit.
            with torch.cuda.device(device):
                yield
            return
        flushed_before = flushes_denormals()
        torch.set_flush_denormal(True)
        try:
            with torch_threads(1):  # steps may use more
                yield
        finally:
            torch.set_flush_denormal(flushed_before)
