"""What a fit is made of: encoded rows, the members to train, and the networks that an estimator keeps.

`fit` trains the members of one estimator as a fleet; `FleetSearchCV` collects those of many and trains them together.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from tabgnm.estimators.splitting import check_fraction, validation_rows
from tabgnm.estimators.targets import Targets
from tabgnm.nn import EmbeddedShape, InputEmbedding
from tabgnm.nn.shapes import GNMShape, MLPShape, Shape
from tabgnm.table import RawTable, TableEncoder, TableSettings
from tabgnm.training import FleetSettings, Member, Table, TrainedModel

Array = NDArray[Any]


@dataclass
class FittedNetworks:
    """The result of a fit: everything that predictions need, and no rows of the training data.

    Attributes
    ----------
    encoder : TableEncoder
    targets : Targets
    shape : Shape
    parameters : dict of Tensor
        Weights of all members by name, each of shape (members, ...).
    seeds : list of int
    histories : list of dict
        Losses and metric per epoch of each member.
    importances : array of float
        One per column of the table.
    """

    encoder: TableEncoder
    targets: Targets
    shape: Shape
    parameters: dict[str, Tensor]
    seeds: list[int]
    histories: list[dict[str, Any]]
    importances: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def n_members(self) -> int:
        """Number of models that are averaged."""
        return len(self.seeds)

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """Type of the encoded rows that the members were trained on."""
        is_double = next(iter(self.parameters.values())).dtype == torch.float64
        return np.float64 if is_double else np.float32

    @cached_property
    def exact_parameters(self) -> dict[str, Tensor]:
        """Weights in float64, for predictions on the CPU.

        In float32 the prediction of a row would depend slightly on the other rows of the call, because the rounding of
        matrix products depends on their size.
        """
        return {name: value.to(torch.float64) for name, value in self.parameters.items()}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "exact_parameters"}

    def member(self, position: int) -> dict[str, Tensor]:
        """Return the weights of one member."""
        return {name: values[position] for name, values in self.parameters.items()}


@dataclass(frozen=True, eq=False)
class MemberRows:
    """Training and validation rows of one member; `val` is None without validation."""

    train: Tensor
    val: Tensor | None


@dataclass(frozen=True, eq=False)
class PreparedRows:
    """The data of a fit: the encoded table, the rows of each member, and how they were encoded."""

    encoder: TableEncoder
    targets: Targets
    table: Table
    members: list[MemberRows]
    seeds: list[int]
    weights: Tensor | None
    names: list[str]
    has_names: bool
    n_rows: int  # of the table, without the rows of X_val

    @property
    def validated(self) -> bool:
        """Whether members have validation rows."""
        return self.members[0].val is not None

    @cached_property  # shared by the candidates of a search
    def val_spreads(self) -> list[float]:
        """Spread of the validation targets of each member, the scale of its metric."""
        spreads = []
        for rows in (member.val for member in self.members):
            if rows is None:
                spreads.append(1.0)
            else:
                weights = None if self.weights is None else self.weights[rows]
                spreads.append(self.targets.spread(self.table.y[rows], weights))
        return spreads


@dataclass(frozen=True, eq=False)
class PreparedFit:
    """One estimator ready to train: its rows, and the shape, settings and members of its fleet."""

    rows: PreparedRows
    shape: Shape
    settings: FleetSettings
    members: list[Member]
    previous: FittedNetworks | None = None  # that training continues from

    def finish(self, trained: Sequence[TrainedModel]) -> FittedNetworks:
        """Collect the trained models, except for members that diverged in their first epoch."""
        rate = self.members[0].learning_rate
        kept = [i for i, model in enumerate(trained) if not _never_finite(model)]
        if not kept:
            raise ValueError(
                f"training diverged in the first epoch of all {len(trained)} members: the loss is not finite with "
                f"learning_rate={rate:g}; use a smaller one, or scaling='standard' if the numbers are large"
            )
        if len(kept) < len(trained):
            warnings.warn(
                f"training of {len(trained) - len(kept)} of {len(trained)} members diverged in the first epoch; they "
                f"are left out. A smaller learning_rate than {rate:g} may help",
                ConvergenceWarning,
                stacklevel=5,  # the caller of `fit`
            )
        models = [trained[i] for i in kept]
        parameters = {name: torch.stack([m.parameters[name] for m in models]) for name in models[0].parameters}
        rows = self.rows
        _make_unseen_levels_neutral(rows.encoder, parameters)
        histories = [self._history(trained[i], rows.val_spreads[i]) for i in kept]
        if self.previous is not None:
            histories = [_joined(self.previous.histories[i], new) for i, new in zip(kept, histories, strict=True)]
        seeds = [rows.seeds[i] for i in kept]  # not those of the members, which change with every call of partial_fit
        return FittedNetworks(rows.encoder, rows.targets, models[0].shape, parameters, seeds, histories)

    def _history(self, model: TrainedModel, spread: float) -> dict[str, Any]:
        values = model.history.as_dict()
        measured = [float("nan") if value is None else value for value in values.pop("val_metric", [])]
        targets = self.rows.targets
        values[f"val_{targets.metric_name}"] = targets.metric(measured, spread)
        return values


def _never_finite(model: TrainedModel) -> bool:
    return model.history.status == "diverged" and model.history.best_epoch == 0


def _joined(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Append the history of continued training, with gaps for epochs without validation."""
    n_before, n_new = len(old["train_loss"]), len(new["train_loss"])
    lists = {}
    for name, value in new.items():
        if isinstance(value, list):
            before = old.get(name, [])
            gap = None if name.endswith("loss") else float("nan")  # how losses and metrics mark a missing value
            if before or value:
                before, value = before + [gap] * (n_before - len(before)), value + [gap] * (n_new - len(value))
            lists[name] = before + value
    return lists | {"best_epoch": n_before + new["best_epoch"], "status": new["status"]}


def _make_unseen_levels_neutral(encoder: TableEncoder, parameters: dict[str, Tensor]) -> None:
    """Set the embedding of levels without training rows to the mean of the other levels of their column."""
    untrained = np.asarray(encoder.untrained_levels, dtype=np.int64)
    if not len(untrained):
        return
    table = parameters["embed_level"]  # (members, levels, dim)
    first = 0
    assert encoder.embedding is not None
    for n_levels in encoder.embedding.levels:
        own = np.arange(first, first + n_levels)
        unseen = np.intersect1d(own, untrained)
        seen = np.setdiff1d(own, untrained)
        if len(unseen) and len(seen):
            table[:, torch.as_tensor(unseen)] = table[:, torch.as_tensor(seen)].mean(dim=1, keepdim=True)
        first += n_levels


def full_shape(encoder: TableEncoder, network_shape: Any, n_outputs: int) -> Shape:
    """Return the shape of the whole network: the learned embedding of the inputs, if any, and the body."""
    if encoder.embedding is None:
        body: GNMShape | MLPShape = network_shape(encoder.n_encoded, n_outputs)
        return body
    embedding = InputEmbedding(**vars(encoder.embedding))
    return EmbeddedShape(embedding, network_shape(embedding.n_outputs, n_outputs))


def split_members(n_rows: int, strata: Array | None, fraction: float, seeds: Sequence[int]) -> list[MemberRows]:
    """Draw the validation rows of each member."""
    fraction = check_fraction(fraction)
    members = []
    for seed in seeds:
        val = validation_rows(n_rows, strata, fraction, seed)
        is_train = np.ones(n_rows, dtype=bool)
        is_train[val] = False
        train = torch.from_numpy(np.flatnonzero(is_train))
        members.append(MemberRows(train, torch.from_numpy(val) if len(val) else None))
    return members


class EncodedTables:
    """Encoded tables that fits to the same rows share, such as the candidates of a search.

    Fits whose encoded columns and targets are equal get the same `Table` object, so that a fleet holds it once.

    Attributes
    ----------
    rows : dict of PreparedRows
        By the parameters that they depend on.
    """

    def __init__(self) -> None:
        self.rows: dict[str, PreparedRows] = {}
        self._encoded: dict[Any, tuple[TableEncoder, Array]] = {}
        self._tables: dict[Any, Table] = {}

    def encode(
        self, raw: RawTable, kept: Array | None, settings: TableSettings, rows: Array | None, dtype: Any
    ) -> tuple[TableEncoder, Array]:
        """Fit an encoder on `rows` of a table and encode the whole table; `kept` are its rows within the fold."""
        key = (repr(settings), _digest(kept), _digest(rows), np.dtype(dtype).str)
        if key not in self._encoded:
            encoder = TableEncoder(settings).fit(raw, rows=rows)
            self._encoded[key] = encoder, encoder.encode(raw, dtype=dtype)
        return self._encoded[key]

    def table(self, x: Array, targets: Tensor) -> Table:
        """Return the table of these columns and targets."""
        key = (id(x), str(targets.dtype), _digest(targets.numpy()))
        if key not in self._tables:
            self._tables[key] = Table(torch.as_tensor(x), targets)
        return self._tables[key]


def _digest(values: Array | None) -> bytes | None:
    return None if values is None else hashlib.blake2b(np.ascontiguousarray(values).tobytes()).digest()
