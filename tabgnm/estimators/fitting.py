"""The parts of a fit: rows and folds, candidates to train, and the networks that an estimator keeps."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tabgnm.estimators.effort import Effort
from tabgnm.estimators.folds import Fold
from tabgnm.estimators.targets import Targets
from tabgnm.estimators.unseen_levels import with_neutral_levels
from tabgnm.nn import EmbeddedShape, InputEmbedding
from tabgnm.nn.shapes import GNMShape, MLPShape, Shape, body_of
from tabgnm.table import RawTable, TableEncoder, TableSettings
from tabgnm.training import FleetSettings, Member, Table, TrainedModel

Array = NDArray[Any]

UNRELATED = "no measurable relation to the target: not used"  # for columns that are left out, in `columns_`


@dataclass
class NetworkGroup:
    """The networks of one candidate: equal settings, different folds.

    Attributes
    ----------
    settings : dict
        The settings of the candidate; see `tabgnm.estimators.candidates`.
    weight : float
        The weight of the candidate in predictions, divided equally among its networks.
    encoder : TableEncoder
    targets : Targets
    shape : Shape
    parameters : dict of Tensor
        Weights of all networks by name, each of shape (networks, ...).
    seeds, folds : list of int
        The seed and the fold of each network.
    histories : list of dict
        The losses and the metric of each epoch, one dict per network.
    """

    settings: dict[str, Any]
    weight: float
    encoder: TableEncoder
    targets: Targets
    shape: Shape
    parameters: dict[str, Tensor]
    seeds: list[int]
    folds: list[int]
    histories: list[dict[str, Any]]

    @property
    def n_networks(self) -> int:
        """Number of networks."""
        return len(self.seeds)

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """Type of the encoded rows that the networks were trained on."""
        is_double = next(iter(self.parameters.values())).dtype == torch.float64
        return np.float64 if is_double else np.float32

    @cached_property
    def exact_parameters(self) -> dict[str, Tensor]:
        """Weights in float64, for predictions of few rows on the CPU.

        In float32 the prediction of a row would depend slightly on the other rows of the call, because the rounding of
        matrix products depends on their size.
        """
        return {name: value.to(torch.float64) for name, value in self.parameters.items()}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "exact_parameters"}

    def network(self, position: int) -> dict[str, Tensor]:
        """Return the weights of one network."""
        return {name: values[position] for name, values in self.parameters.items()}


@dataclass
class FittedPack:
    """The result of a fit: everything that predictions need, and no rows of the training data.

    Attributes
    ----------
    groups : list of NetworkGroup
        The candidates that were kept, by descending weight.
    targets : Targets
        The targets of the predictions; a group may learn a transform of them.
    importances : array of float
        The importance of each column of the table.
    candidates : list of dict
        The records of `pack_`, one for each candidate that was tried.
    scores : dict of float
        The scores of `oof_scores_`; empty if no rows were held out.
    temperature : float
        The temperature of calibration: logarithms of probabilities are divided by it.
    residuals : list of arrays
        For prediction intervals: sorted absolute errors on the held-out rows of each fold, (errors, outputs), or
        quantiles of them. A single array if all folds held out the same rows.
    n_left_out : int
        The number of different held-out rows.
    fold_seed : int
        The seed of the folds; continued training uses the same folds.
    weighted : bool
        Whether the rows had sample weights.
    """

    groups: list[NetworkGroup]
    targets: Targets
    importances: Array = field(default_factory=lambda: np.zeros(0))
    candidates: list[dict[str, Any]] = field(default_factory=list)
    scores: dict[str, float] = field(default_factory=dict)
    temperature: float = 1.0
    residuals: list[Array] = field(default_factory=list)
    n_left_out: int = 0
    fold_seed: int = 0
    weighted: bool = False

    @property
    def n_networks(self) -> int:
        """Number of networks that are averaged."""
        return sum(group.n_networks for group in self.groups)

    @property
    def encoders(self) -> list[TableEncoder]:
        """The distinct encoders of the groups, in the order of the groups."""
        return list({id(group.encoder): group.encoder for group in self.groups}.values())

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """Type of the encoded rows."""
        return self.groups[0].dtype

    @property
    def network_weights(self) -> Array:
        """The weight of each network in predictions, group by group."""
        own = [np.full(group.n_networks, group.weight / group.n_networks) for group in self.groups]
        weights = np.concatenate(own)
        return np.asarray(weights / weights.sum())


@dataclass(frozen=True)
class Narrowed:
    """The result of a test of the columns of a very wide table; see `tabgnm.estimators.narrowing`.

    Attributes
    ----------
    unused : tuple of int
        The positions of the raw columns that are not related to the target in any tested fold.
    n_folds : int
        The number of tested folds; held-out rows of others would influence their columns.
    is_informative : bool
        Whether more columns are related to the target than by chance, in at least half of the tested folds.
    """

    unused: tuple[int, ...]
    n_folds: int
    is_informative: bool


@dataclass(frozen=True, eq=False)
class PreparedRows:
    """The rows of a fit: the table, its targets and weights, and the folds."""

    raw: RawTable
    raw_val: RawTable | None
    y: Array
    y_val: Array | None
    kept: Array | None  # positions of the rows with positive weight in the given table; None for all
    n_given: int
    targets: Targets
    folds: list[Fold]
    seeds: list[int]  # one per fold
    strata: Array | None  # of all rows, those of X_val included
    units: Array | None  # the group of each row, or the distinct row that it is a copy of
    weights: Array | None  # sample weights x class weights
    score_weights: Array | None  # sample weights
    trained_on: Array | None  # training rows of any fold; None for all
    may_vary: bool  # whether targets that are constant here may vary in later rows
    encoded: dict[str, PreparedTable] = field(default_factory=dict)
    narrowed: dict[int, Narrowed] = field(default_factory=dict)  # raw columns to leave out, by id of the encoder
    codes: dict[bool, tuple[int, ...]] = field(default_factory=dict)  # columns to encode as categories, by `tested`
    left_out: dict[int, list[Array]] = field(default_factory=dict)  # encoded columns for each fold, by id of the table

    @property
    def n_rows(self) -> int:
        """Number of rows, without those of X_val."""
        return self.raw.n_rows

    def of_first_folds(self, n_folds: int) -> PreparedRows:
        """Return the same rows without further folds."""
        return replace(self, folds=self.folds[:n_folds], seeds=self.seeds[:n_folds])

    @property
    def validated(self) -> bool:
        """Whether folds have validation rows."""
        return self.folds[0].val is not None

    @cached_property
    def weight_tensor(self) -> Tensor | None:
        """Weights of the rows, those of X_val included."""
        return None if self.weights is None else torch.as_tensor(self.weights)

    @cached_property  # shared by the candidates of a search
    def val_spreads(self) -> list[float]:
        """The spread of the validation targets of each fold, which scales the metric."""
        numbers = self.target_tensor(self.targets, torch.float64)
        spreads = []
        for rows in (fold.val for fold in self.folds):
            if rows is None:
                spreads.append(1.0)
            else:
                weights = None if self.weight_tensor is None else self.weight_tensor[rows]
                spreads.append(self.targets.spread(numbers[rows], weights))
        return spreads

    def target_tensor(self, targets: Targets, dtype: torch.dtype) -> Tensor:
        """Return the targets of all rows as the loss expects them, those of y_val last."""
        numbers = targets.tensor(self.y, dtype)
        if self.y_val is not None:
            numbers = torch.cat([numbers, targets.tensor(self.y_val, dtype, "y_val")])
        return numbers


@dataclass(frozen=True, eq=False)
class PreparedTable:
    """A table in the encoding of a candidate; it is encoded on first use."""

    encoder: TableEncoder
    targets: Targets
    make: Callable[[], Table]

    @cached_property
    def table(self) -> Table:
        """Encoded rows and targets."""
        return self.make()


@dataclass(frozen=True, eq=False)
class PreparedCandidate:
    """One candidate ready to train."""

    settings: dict[str, Any]
    data: PreparedTable
    shape: Shape
    fleet: FleetSettings
    members: list[Member]  # one per fold
    seeds: list[int]
    folds: list[int]
    previous: NetworkGroup | None = None  # the networks to continue training from
    left_out: list[Array] | None = None  # encoded columns that each member does not use

    @property
    def n_folds(self) -> int:
        """Number of networks."""
        return len(self.members)

    def of_first_folds(self, n_folds: int) -> PreparedCandidate:
        """Return this candidate without the networks of further folds."""
        return replace(self, members=self.members[:n_folds], seeds=self.seeds[:n_folds], folds=self.folds[:n_folds])

    def with_epochs(self, max_epochs: int, min_patience: int = 3) -> PreparedCandidate:
        """Return this candidate with at most `max_epochs` epochs, and a patience that is reduced proportionally."""
        fleet = self.fleet
        if max_epochs >= fleet.max_epochs:
            return self
        patience = fleet.patience
        if patience is not None:
            patience = min(patience, max(min_patience, round(patience * max_epochs / fleet.max_epochs)))
        return replace(self, fleet=replace(fleet, max_epochs=max_epochs, patience=patience))

    def table(self, position: int) -> Table:
        """Return the table that a member is trained on, in which the columns it leaves out are 0."""
        table = self.data.table
        if self.left_out is None:
            return table
        x = table.x.clone()
        x[:, torch.from_numpy(self.left_out[position])] = 0.0
        return Table(x, table.y)

    def finished(self, position: int, model: TrainedModel) -> TrainedModel:
        """Return a trained member, prepared for rows that it was not trained on.

        The weights of columns that it leaves out are set to 0, and the embeddings of levels that it has not seen to the
        mean of those it has seen.
        """
        if self.previous is None:
            member = self.members[position]
            model = with_neutral_levels(model, self.data.table.x, member.train, member.val)
        if self.left_out is not None:
            body = body_of(model.shape)
            model.parameters[body.layer_names[0][0]][torch.from_numpy(self.left_out[position])] = 0.0
        return model


@dataclass(frozen=True, eq=False)
class PreparedFit:
    """One estimator ready to train: its rows and its candidates."""

    rows: PreparedRows
    candidates: list[PreparedCandidate]
    effort: Effort
    names: list[str]
    has_names: bool
    previous: FittedPack | None = None
    # With a short time limit:
    trial_epochs: int | None = None  # first train all candidates on one fold for this many epochs
    first_folds: int | None = None  # train only this many folds at first
    spare: tuple[PreparedCandidate, ...] = ()  # further candidates, in case that time is left

    def group(self, number: int, weight: float, trained: Mapping[int, TrainedModel]) -> NetworkGroup:
        """Collect the trained networks of a candidate, by their position among its members."""
        candidate = self.candidates[number]
        kept = sorted(trained)
        models = [trained[position] for position in kept]
        parameters = {name: torch.stack([m.parameters[name] for m in models]) for name in models[0].parameters}
        histories = []
        for position, model in zip(kept, models, strict=True):
            own = self._history(model, candidate, position)
            if candidate.previous is not None:
                own = _joined(candidate.previous.histories[position], own)
            histories.append(own)
        return NetworkGroup(
            candidate.settings,
            weight,
            candidate.data.encoder,
            candidate.data.targets,
            models[0].shape,
            parameters,
            [candidate.seeds[position] for position in kept],
            [candidate.folds[position] for position in kept],
            histories,
        )

    def _history(self, model: TrainedModel, candidate: PreparedCandidate, position: int) -> dict[str, Any]:
        values = model.history.as_dict()
        measured = [float("nan") if value is None else value for value in values.pop("val_metric", [])]
        values[f"val_{candidate.data.targets.metric_name}"] = self._scores(candidate, position, measured)
        return values

    def _scores(self, candidate: PreparedCandidate, position: int, measured: list[float]) -> list[float]:
        """Convert metrics that a fleet has measured to accuracies, R² or D²."""
        targets, val = candidate.data.targets, candidate.members[position].val
        spread = self.rows.val_spreads[candidate.folds[position]] if targets.transform == "none" else 1.0
        if targets.transform == "log" and targets.metric_name == "d2" and val is not None:
            weights = None if self.rows.weight_tensor is None else self.rows.weight_tensor[val]
            spread = targets.spread(candidate.data.table.y[val], weights)
        return targets.metric(measured, spread)

    def score(self, number: int, position: int, measured: float) -> float:
        """Convert a metric that a fleet has measured for a network to the accuracy, R² or D²."""
        return self._scores(self.candidates[number], position, [measured])[0]


def never_finite(model: TrainedModel) -> bool:
    """Whether training diverged before its first epoch was over."""
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


def full_shape(
    encoder: TableEncoder, network_shape: Callable[[int, int], GNMShape | MLPShape], n_outputs: int
) -> Shape:
    """Return the shape of the whole network: the learned embedding of the inputs, if any, and the body."""
    if encoder.embedding is None:
        return network_shape(encoder.n_encoded, n_outputs)
    embedding = InputEmbedding(**vars(encoder.embedding))
    return EmbeddedShape(embedding, network_shape(embedding.n_outputs, n_outputs))


class EncodedTables:
    """Encoded tables that fits to the same rows share, such as the candidates of a search.

    Fits whose encoded columns and targets are equal get the same `Table` object, so that a fleet holds it once.

    Attributes
    ----------
    rows : dict of PreparedRows
        The prepared rows, by the parameters that they depend on.
    """

    def __init__(self) -> None:
        self.rows: dict[str, PreparedRows] = {}
        self._encoders: dict[Any, tuple[TableEncoder, Callable[[], Array]]] = {}
        self._tables: dict[Any, Table] = {}

    def encoder(
        self,
        raw: RawTable,
        kept: Array | None,
        settings: TableSettings,
        rows: Array | None,
        dtype: Any,
        unused: tuple[int, ...] = (),
    ) -> tuple[TableEncoder, Callable[[], Array]]:
        """Fit an encoder on `rows` of a table, without the columns `unused`; `kept` identifies the rows of the table.

        Also returns a cached function that encodes the whole table.
        """
        key = (repr(settings), _digest(kept), _digest(rows), np.dtype(dtype).str, unused)
        if key not in self._encoders:
            if unused:
                encoder = self.encoder(raw, kept, settings, rows, dtype)[0].without(unused, UNRELATED)
            else:
                encoder = TableEncoder(settings).fit(raw, rows=rows)
            encoder.check_precision(dtype)
            self._encoders[key] = encoder, cache(partial(encoder.encode, raw, dtype=dtype))
        return self._encoders[key]

    def table(self, x: Array, targets: Tensor) -> Table:
        """Return the table of these columns and targets."""
        key = (id(x), str(targets.dtype), _digest(targets.numpy()))
        if key not in self._tables:
            self._tables[key] = Table(torch.as_tensor(x), targets)
        return self._tables[key]


def _digest(values: Array | None) -> bytes | None:
    return None if values is None else hashlib.blake2b(np.ascontiguousarray(values).tobytes()).digest()
