"""Save a fleet in the middle of training, and go on from there to the identical result.

All randomness is counted, not drawn from a generator, so weights, moments and bookkeeping are the whole state.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from tabgnm.nn.losses import loss_settings
from tabgnm.nn.shapes import Shape
from tabgnm.training.data import Table
from tabgnm.training.history import History
from tabgnm.training.settings import FleetSettings, Member

_FORMAT = 3  # 1, 2: other random streams of dropout and gates


class CheckpointError(RuntimeError):
    """A checkpoint cannot be used; the message says why."""


@dataclass
class Snapshot:
    """A fleet in the middle of training.

    Attributes
    ----------
    done : dict from int to (Tensor, History)
        Final weights and history of the models that are done, by their position in the fleet.
    alive : list of int
        Positions of the models in training, in the order of the rows of `state`.
    n_epochs : int
        Epochs that those have trained.
    histories : list of History
        Theirs.
    state : dict from str to Tensor
        Weights, moments and bookkeeping by name.
    """

    done: dict[int, tuple[Tensor, History]]
    alive: list[int]
    n_epochs: int
    histories: list[History]
    state: dict[str, Tensor]


def fingerprint(shape: Shape, settings: FleetSettings, members: Sequence[Member], tables: Sequence[Table]) -> str:
    """Hash everything that determines the result, so that a checkpoint is never continued as something else."""
    digest = hashlib.sha256()
    # A loss of the user's own may have no telling repr: its class and its attributes say what it is.
    loss = (type(settings.loss).__qualname__, sorted(loss_settings(settings.loss).items()))
    options = vars(settings) | {"device": settings.torch_device().type, "loss": loss, "n_threads": None}
    digest.update(repr((shape, sorted(options.items(), key=lambda item: item[0]))).encode())
    for member in members:
        for field in fields(member):
            _update(digest, getattr(member, field.name))
    for table in tables:
        _update(digest, table.x)
        _update(digest, table.y)
    return digest.hexdigest()


def _update(digest: Any, value: object) -> None:
    if isinstance(value, Tensor):
        digest.update(repr((tuple(value.shape), value.dtype)).encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    elif isinstance(value, Mapping):
        for name, own in sorted(value.items()):
            digest.update(f"{name!r}:".encode())
            _update(digest, own)
    else:
        digest.update(f"{value!r};".encode())


def save_checkpoint(path: Path, identity: str, snapshot: Snapshot) -> None:
    """Write a snapshot; the file is replaced as a whole or not at all."""
    tensors = {f"state.{name}": value.detach().cpu().contiguous() for name, value in snapshot.state.items()}
    for position, (weights, _) in snapshot.done.items():
        tensors[f"done.{position}"] = weights.clone()  # models that were trained together share their memory
    meta = {
        "format": _FORMAT,
        "identity": identity,
        "alive": snapshot.alive,
        "n_epochs": snapshot.n_epochs,
        # Python's JSON writes and reads NaN and infinity, so nothing is lost here.
        "histories": [vars(history) for history in snapshot.histories],
        "done": {str(position): vars(history) for position, (_, history) in snapshot.done.items()},
    }
    unfinished = path.with_name(path.name + ".part")
    save_file(tensors, unfinished, metadata={"tabgnm": json.dumps(meta)})
    unfinished.replace(path)


def load_checkpoint(path: Path, identity: str) -> Snapshot | None:
    """Read a snapshot; None if there is no file."""
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            meta = json.loads((file.metadata() or {})["tabgnm"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        if meta["format"] != _FORMAT:
            raise CheckpointError(
                f"{path} has checkpoint format {meta['format']}; this version reads {_FORMAT}; delete it to start over"
            )
        if meta["identity"] != identity:
            raise CheckpointError(
                f"{path} belongs to another fleet: the shape, the settings, the members or the data differ; "
                "use another file, or delete this one to start over"
            )
        return Snapshot(
            done={
                int(position): (tensors[f"done.{position}"], History(**history))
                for position, history in meta["done"].items()
            },
            alive=meta["alive"],
            n_epochs=meta["n_epochs"],
            histories=[History(**history) for history in meta["histories"]],
            state={name.removeprefix("state."): t for name, t in tensors.items() if name.startswith("state.")},
        )
    except (SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
        raise CheckpointError(f"{path} is not a usable checkpoint ({error}); delete it to start over") from error


def restore(target: Any, names: Sequence[str], state: dict[str, Tensor]) -> None:
    """Copy saved tensors into the attributes of `target`."""
    with torch.no_grad():
        for name in names:
            getattr(target, name).copy_(state[name])
