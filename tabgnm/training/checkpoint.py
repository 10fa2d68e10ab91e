"""Saving a fleet during training, and resuming training with the identical result.

Random numbers are functions of counters, not drawn from a generator, so the state consists of weights, moments and the
bookkeeping of early stopping.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from tabgnm._files import paths
from tabgnm._files.errors import FileError, cause
from tabgnm._files.tensors import Arrays
from tabgnm.nn.checks import positive_integer
from tabgnm.nn.losses import loss_settings
from tabgnm.nn.shapes import Shape
from tabgnm.training import checkpoint_file
from tabgnm.training.data import Table
from tabgnm.training.flat_weights import FlatLayout
from tabgnm.training.history import HISTORY_LISTS, History, Status
from tabgnm.training.settings import FleetSettings, Member

_STATUSES: tuple[Status, ...] = get_args(Status)
_STATE = "state."  # the prefix of the names of these arrays


class CheckpointError(RuntimeError):
    """A checkpoint cannot be read or written; the message names the reason."""


@dataclass
class Snapshot:
    """The state of a fleet during training.

    Attributes
    ----------
    done : dict from int to (Tensor, History)
        The final weights and history of each model that is done, by its position in the fleet.
    alive : list of int
        The positions of the models in training, in the order of the rows of `state`.
    n_epochs : int
        The number of epochs that these models have trained.
    histories : list of History
        The histories of these models.
    state : dict from str to Tensor
        Weights, moments and bookkeeping by name.
    """

    done: dict[int, tuple[Tensor, History]]
    alive: list[int]
    n_epochs: int
    histories: list[History]
    state: dict[str, Tensor]


def fingerprint(shape: Shape, settings: FleetSettings, members: Sequence[Member], tables: Sequence[Table]) -> str:
    """Hash everything that determines the result, so that a checkpoint is only resumed by the same fleet."""
    digest = hashlib.sha256()
    # The repr of a user-defined loss may not identify it, so its class and attributes are used.
    loss = type(settings.loss).__qualname__
    options = vars(settings) | {"device": settings.torch_device().type, "loss": loss, "n_threads": None}
    digest.update(repr((shape, sorted(options.items(), key=lambda item: item[0]))).encode())
    _update(digest, loss_settings(settings.loss))
    for member in members:
        for field in fields(member):
            _update(digest, getattr(member, field.name))
    for table in tables:
        _update(digest, table.x)
        _update(digest, table.y)
    return digest.hexdigest()


def _update(digest: Any, value: object) -> None:
    if isinstance(value, np.ndarray) and value.dtype != object:
        value = torch.from_numpy(value)
    if isinstance(value, Tensor):
        digest.update(repr((tuple(value.shape), value.dtype)).encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    elif isinstance(value, Mapping):
        for name, own in sorted(value.items()):
            digest.update(f"{name!r}:".encode())
            _update(digest, own)
    else:
        digest.update(f"{value!r};".encode())


class Saver:
    """Writes and reads the checkpoint of one fit.

    Parameters
    ----------
    path : str, Path or None
        The file. If None, nothing is saved.
    every : int
        The number of epochs between two saves.
    shape, settings, members, tables
        Those of the fleet that the checkpoint belongs to.
    """

    def __init__(
        self,
        path: str | Path | None,
        every: int,
        shape: Shape,
        settings: FleetSettings,
        members: Sequence[Member],
        tables: Sequence[Table],
    ) -> None:
        self._path = None if path is None else Path(path)
        self._every = positive_integer("checkpoint_every", every)
        if self._path is not None:
            if not self._path.parent.is_dir():
                raise ValueError(f"checkpoint={str(path)!r}: the folder does not exist; create it first")
            self._identity = fingerprint(shape, settings, members, tables)
            self._layout, self._settings = FlatLayout(shape), settings

    def load(self) -> Snapshot | None:
        """Read the snapshot; None if there is no file."""
        path = self._path
        if path is None:
            return None
        try:
            if not path.exists():
                return None
            values, arrays = checkpoint_file.read(path)
            snapshot = _snapshot(values["n_epochs"], arrays)
        except Exception as error:  # the content may be anything, so any failure means that the file is invalid
            raise _unusable(path, error) from error
        if values["identity"] != self._identity:
            raise CheckpointError(
                f"{path} belongs to a different fleet: the shape, the settings, the members or the data differ; use "
                "another file, or delete this one to start over"
            )
        return snapshot

    def wants(self, n_epochs: int) -> bool:
        """Whether to save after this epoch."""
        return self._path is not None and n_epochs % self._every == 0

    def save(self, snapshot: Snapshot) -> None:
        """Write a snapshot; the file is replaced completely or not at all."""
        if self._path is None:
            return
        done, alive = snapshot.done, np.array(snapshot.alive, dtype=np.int64)
        arrays: Arrays = {"alive": alive, "done": np.array(list(done), dtype=np.int64)}
        weights = [own.numpy() for own, _ in done.values()]
        empty = np.empty((0, self._layout.n_weights), dtype=torch.empty(0, dtype=self._settings.dtype).numpy().dtype)
        arrays["done_weights"] = np.stack(weights) if weights else empty
        arrays |= _history_arrays([*snapshot.histories, *(history for _, history in done.values())])
        for name, value in snapshot.state.items():
            array = value.detach().cpu().numpy()
            arrays[f"{_STATE}{name}"] = array.astype(np.uint8) if array.dtype == np.bool_ else array
        try:
            values = {"identity": self._identity, "n_epochs": snapshot.n_epochs}
            checkpoint_file.write(self._path, values, arrays)
        except FileError as error:
            raise CheckpointError(f"the checkpoint was not saved: {error}") from error

    def remove(self) -> None:
        """Delete the file; called when all models are done."""
        if self._path is not None:
            try:
                paths.remove(self._path)
            except FileError as error:
                raise CheckpointError(f"the checkpoint is no longer needed, but {error}") from error


def _unusable(path: Path, error: Exception) -> CheckpointError:
    said = cause(error) if isinstance(error, FileError) else f"{type(error).__name__}: {cause(error)}"
    return CheckpointError(f"{path} is not a usable checkpoint ({said}); delete it to start over")


def _snapshot(n_epochs: int, arrays: Arrays) -> Snapshot:
    alive, done = arrays["alive"].tolist(), arrays["done"].tolist()
    weights, histories = torch.from_numpy(arrays["done_weights"]), _read_histories(arrays)
    state = {name.removeprefix(_STATE): own for name, own in arrays.items() if name.startswith(_STATE)}
    return Snapshot(
        done=dict(zip(done, zip(weights, histories[len(alive) :], strict=True), strict=True)),
        alive=alive,
        n_epochs=n_epochs,
        histories=histories[: len(alive)],
        state={name: torch.from_numpy(array) for name, array in state.items()},
    )


def _history_arrays(histories: Sequence[History]) -> Arrays:
    """Return histories as arrays, whose number does not depend on the number of histories."""
    lists = [getattr(history, name) for history in histories for name in HISTORY_LISTS]
    return {
        "history_lengths": np.array([len(own) for own in lists], dtype=np.int64),
        "history_numbers": np.array(list(itertools.chain(*lists)), dtype=np.float64),
        "history_best_epoch": np.array([history.best_epoch for history in histories], dtype=np.int64),
        "history_status": np.array([_STATUSES.index(history.status) for history in histories], dtype=np.uint8),
    }


def _read_histories(arrays: Arrays) -> list[History]:
    ends = np.cumsum(arrays["history_lengths"])[:-1]
    lists = iter([own.tolist() for own in np.split(arrays["history_numbers"], ends)])
    numbers = zip(arrays["history_best_epoch"].tolist(), arrays["history_status"].tolist(), strict=True)
    return [
        History(**{name: next(lists) for name in HISTORY_LISTS}, best_epoch=epoch, status=_STATUSES[code])
        for epoch, code in numbers
    ]


def restore(target: Any, names: Sequence[str], state: Mapping[str, Tensor]) -> None:
    """Copy saved tensors into the attributes of `target`."""
    for name in names:
        getattr(target, name).copy_(state[name])
