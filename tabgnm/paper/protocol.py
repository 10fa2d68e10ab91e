"""The paper's protocol (section 6): data, splits, grid and metrics, as plain values and pure functions.

Both models use 10-fold cross-validation on the same splits. A tenth of the training rows of a fold is used for
validation. In each fold, the configuration and epoch with the lowest validation loss are evaluated on the test rows.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold

from tabgnm.nn.shapes import GNMShape, MLPShape

Array = NDArray[Any]
Model = Literal["gnm", "mlp"]
MODELS: tuple[Model, ...] = ("gnm", "mlp")
Scaling = Literal["none", "standard"]
SCALINGS = ("none", "standard")

# Increased when a change of the code changes results. Stored results of earlier versions are no longer used.
PROTOCOL_VERSION = 1

N_FOLDS = 10
VALIDATION_SHARE = 0.1
BATCH_SIZE = 64
MAX_EPOCHS = 300
LAYERS = (2, 3, 4)
DROPOUTS = (0.0, 0.2)
LEARNING_RATES = (0.01, 0.001)
WIDTHS: dict[Model, tuple[int, ...]] = {"gnm": (50, 100, 200, 300), "mlp": (32, 64, 128, 256)}
WIDTHS_OF_ISOLET: dict[Model, tuple[int, ...]] = {"gnm": (800, 1000), "mlp": (512, 1024)}
BUDGET, BUDGET_OF_ISOLET = 500_000, 5_000_000
# The paper's budget is "about 500k", and the largest configuration of its grid is a little above.
BUDGET_SLACK = 1.05


@dataclass(frozen=True)
class Body:
    """The size of a network: nodes of a GNM, or hidden units per layer of an MLP, and the number of layers."""

    model: Model
    width: int
    n_layers: int

    def shape(self, n_inputs: int, n_outputs: int) -> GNMShape | MLPShape:
        """Return the shape for these numbers of encoded inputs and of outputs."""
        if self.model == "gnm":
            return GNMShape(n_inputs, n_outputs, self.width, self.n_layers, init="paper")
        return MLPShape(n_inputs, n_outputs, (self.width,) * (self.n_layers - 1), init="torch")

    def __str__(self) -> str:
        return f"{self.model} {self.width}x{self.n_layers}"


@dataclass(frozen=True)
class Training:
    """Hyperparameters that are tuned in addition to the network."""

    dropout: float
    learning_rate: float


@dataclass(frozen=True)
class Setting:
    """The settings of a whole run; part of the key of every result."""

    scaling: Scaling = "none"
    max_epochs: int = MAX_EPOCHS
    n_folds: int = N_FOLDS
    seed: int = 0

    def __post_init__(self) -> None:
        if self.scaling not in SCALINGS:
            raise ValueError(f"scaling={self.scaling!r} is not known; use 'none' (as published) or 'standard'")
        for name, smallest in (("max_epochs", 1), ("n_folds", 2)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < smallest:
                raise ValueError(f"{name}={value!r} is out of range; expected an integer >= {smallest}")


@dataclass(frozen=True)
class Source:
    """A data set: its name and variant, a digest of its content, and the sizes that a network depends on."""

    name: str
    variant: str
    digest: str
    task: Literal["classification", "regression"]
    n_rows: int
    n_inputs: int  # encoded
    n_outputs: int
    note: str = ""  # shown in every table: leaking columns, or a sample instead of all rows

    @property
    def label(self) -> str:
        """The name of the data set in tables."""
        return f"{self.name} ({self.note})" if self.note else self.name


def trainings() -> list[Training]:
    """Return the part of the grid that one fleet can train."""
    return [Training(*values) for values in itertools.product(DROPOUTS, LEARNING_RATES)]


@dataclass(frozen=True)
class Skipped:
    """A network of the grid that is left out, and the reason."""

    body: Body
    reason: str


def bodies(source: Source, model: Model) -> tuple[list[Body], list[Skipped]]:
    """Return the networks of the grid for a data set, and those that are left out."""
    isolet = source.name == "isolet"
    widths = (WIDTHS_OF_ISOLET if isolet else WIDTHS)[model]
    budget = BUDGET_OF_ISOLET if isolet else BUDGET
    kept, skipped = [], []
    for width, n_layers in itertools.product(widths, LAYERS):
        body = Body(model, width, n_layers)
        smallest = source.n_inputs + source.n_outputs + 1
        if model == "gnm" and width < smallest:
            skipped.append(Skipped(body, f"{width} nodes are fewer than inputs + outputs + bias = {smallest}"))
            continue
        n_parameters = body.shape(source.n_inputs, source.n_outputs).n_parameters()
        if n_parameters > BUDGET_SLACK * budget:
            skipped.append(Skipped(body, f"{n_parameters:,} parameters are more than the budget of {budget:,}"))
        else:
            kept.append(body)
    return kept, skipped


@dataclass(frozen=True)
class Fold:
    """The rows of one fold."""

    train: Array
    val: Array
    test: Array


def folds(n_rows: int, setting: Setting) -> Iterator[Fold]:
    """Split rows, in the same way for all models and configurations."""
    splitter = KFold(setting.n_folds, shuffle=True, random_state=setting.seed)
    for number, (rest, test) in enumerate(splitter.split(np.zeros(n_rows))):
        shuffled = np.random.default_rng([setting.seed, number]).permutation(rest)
        n_val = max(1, round(VALIDATION_SHARE * len(rest)))
        yield Fold(np.sort(shuffled[n_val:]), np.sort(shuffled[:n_val]), test)


@dataclass(frozen=True)
class Unit:
    """One fleet: one network on one data set, with all other hyperparameters and some folds."""

    source: Source
    setting: Setting
    body: Body
    folds: tuple[int, ...]

    @property
    def n_models(self) -> int:
        """The number of trainings in the fleet."""
        return len(self.folds) * len(trainings())

    @property
    def n_steps(self) -> int:
        """The number of optimizer steps of all models together."""
        rows = self.source.n_rows * (1 - 1 / self.setting.n_folds) * (1 - VALIDATION_SHARE)
        return max(1, math.ceil(rows / BATCH_SIZE)) * self.setting.max_epochs * self.n_models

    @property
    def cost(self) -> float:
        """The number of multiply-adds of the training, for ordering and estimates."""
        shape = self.body.shape(self.source.n_inputs, self.source.n_outputs)
        return 3.0 * shape.n_effective_parameters() * BATCH_SIZE * self.n_steps

    def members(self) -> list[tuple[Training, int]]:
        """Return the hyperparameters and the fold of each model of the fleet, in order."""
        return [(training, fold) for fold in self.folds for training in trainings()]

    def key(self, training: Training, fold: int) -> str:
        """Return a digest of everything that determines one result."""
        content = {
            "version": PROTOCOL_VERSION,
            "source": [self.source.name, self.source.variant, self.source.digest],
            "setting": asdict(self.setting),
            "body": asdict(self.body),
            "training": asdict(training),
            "fold": fold,
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def result_keys(self) -> list[str]:
        """Return the keys of all results of the fleet."""
        return [self.key(training, fold) for training, fold in self.members()]

    def first_key(self) -> str:
        """Return the key of the first result, which is unique among the units of a plan."""
        return self.key(*self.members()[0])

    def by_fold(self) -> list[Unit]:
        """Return the same work as one fleet per fold."""
        return [replace(self, folds=(fold,)) for fold in self.folds]

    def without(self, keys: Collection[str]) -> Unit | None:
        """Return the fleet of those folds that have results outside `keys`; None if there are none."""
        left = [fold for fold in self.folds if any(self.key(own, fold) not in keys for own in trainings())]
        return replace(self, folds=tuple(left)) if left else None

    def __str__(self) -> str:
        return f"{self.source.name} ({self.source.variant}) {self.body}, {len(self.folds)} folds"


def units(source: Source, setting: Setting, models: Sequence[Model], only_folds: tuple[int, ...]) -> list[Unit]:
    """Return all fleets of a data set."""
    return [Unit(source, setting, body, only_folds) for model in models for body in bodies(source, model)[0]]
