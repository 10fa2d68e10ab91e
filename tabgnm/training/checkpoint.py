"""Saving a fleet during training, and resuming training with the identical result.

Random numbers are functions of counters, not drawn from a generator, so the state consists of weights, moments and the
bookkeeping of early stopping.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

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
from tabgnm.training.history import History
from tabgnm.training.settings import FleetSettings, Member

_BOOKKEEPING, _DONE = "bookkeeping", "done_weights"  # arrays besides the state


class CheckpointError(RuntimeError):
    """A checkpoint cannot be read or written; the message names the reason."""


@dataclass
class Snapshot:
    """The state of a fleet during training."""

    done: dict[int, tuple[Tensor, History]]  # final weights and histories, by the position of a model in the fleet
    alive: list[int]  # positions of the models in training, in the order of the rows of `state`
    n_epochs: int  # that these models have trained
    histories: list[History]  # of these models
    state: dict[str, Tensor]  # weights, moments and bookkeeping by name


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
        digest.update(repr((value.shape, value.dtype.str)).encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, Tensor):
        digest.update(repr((tuple(value.shape), value.dtype)).encode())
        digest.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    elif isinstance(value, Mapping):
        for name, own in sorted(value.items()):
            digest.update(f"{name!r}:".encode())
            _update(digest, own)
    else:
        digest.update(f"{value!r};".encode())


class Saver:
    """Writes and reads the checkpoint of one fit every few epochs; if `path` is None, nothing is saved."""

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

    def load(self) -> Snapshot | None:
        """Read the snapshot; None if there is no file."""
        path = self._path
        if path is None:
            return None
        try:
            if not path.exists():
                return None
            arrays = checkpoint_file.read(path)
            values = json.loads(arrays.pop(_BOOKKEEPING).tobytes())
            snapshot = _snapshot(values, arrays)
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
        histories = [*snapshot.histories, *(history for _, history in snapshot.done.values())]
        values = {
            "identity": self._identity,
            "n_epochs": snapshot.n_epochs,
            "alive": snapshot.alive,
            "done": list(snapshot.done),
            "histories": [vars(own) for own in histories],
        }
        arrays = {name: value.detach().cpu().numpy() for name, value in snapshot.state.items()}
        arrays = {name: array.view(np.uint8) if array.dtype == np.bool_ else array for name, array in arrays.items()}
        arrays[_BOOKKEEPING] = np.frombuffer(json.dumps(values).encode(), np.uint8)
        if snapshot.done:
            arrays[_DONE] = np.stack([own.numpy() for own, _ in snapshot.done.values()])
        try:
            checkpoint_file.write(self._path, arrays)
        except FileError as error:
            raise CheckpointError(f"the checkpoint was not saved: {error}") from error

    def remove(self) -> None:
        """Delete the file; called when all models are done, so a failure must not discard them."""
        if self._path is not None:
            try:
                paths.remove(self._path)
            except FileError as error:
                warnings.warn(f"the checkpoint is no longer needed, but {error}", RuntimeWarning, stacklevel=4)


def _unusable(path: Path, error: Exception) -> CheckpointError:
    said = cause(error) if isinstance(error, FileError) else f"{type(error).__name__}: {cause(error)}"
    remedy = "delete it to start over" if path.is_file() else "use another path"
    return CheckpointError(f"{path} is not a usable checkpoint ({said}); {remedy}")


def _snapshot(values: dict[str, Any], arrays: Arrays) -> Snapshot:
    histories, alive = [History(**own) for own in values["histories"]], values["alive"]
    state = {name: torch.from_numpy(array) for name, array in arrays.items()}
    ended = zip(state.pop(_DONE, []), histories[len(alive) :], strict=True)
    done = dict(zip(values["done"], ended, strict=True))
    return Snapshot(done, alive, values["n_epochs"], histories[: len(alive)], state)


def restore(target: Any, names: Sequence[str], state: Mapping[str, Tensor]) -> None:
    """Copy saved tensors into the attributes of `target`."""
    for name in names:
        getattr(target, name).copy_(state[name])
