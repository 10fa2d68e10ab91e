"""What the estimators can be told: parameters in groups, each with its one default and its one description.

The groups are dataclasses, so an estimator that inherits several of them has one ordinary `__init__` with all their
parameters, which stores them and does nothing else, as scikit-learn wants it.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar

from tabgnm.estimators.checks import (
    check_class_weight,
    check_device,
    check_flag,
    check_hidden,
    check_integer,
    check_number,
    check_random,
    check_verbose,
)
from tabgnm.estimators.splitting import check_fraction
from tabgnm.nn.layout import positive_integer
from tabgnm.nn.losses import Loss
from tabgnm.nn.shapes import Combine, GNMShape, MLPShape
from tabgnm.training import FleetSettings

# Every node but the bias is updated, so the number of nodes is the width of a layer.
AUTO_NODES = 256
AUTO_FREE_NODES = 32
MOST_AUTO_NODES = 8192  # with more, the edges of a single round take a gigabyte in training
AUTO_EMBEDDED_COLUMNS = 100
AUTO_BATCHES = 64
AUTO_BATCH_SIZES = (32, 512)


@dataclass(eq=False, repr=False, kw_only=True)
class GNMParameters:
    """The machine.

    n_nodes : int or "auto", default="auto"
        Nodes of the graph: one per encoded input, one per output, one bias, the rest hidden. "auto" takes 256, and at
        least 32 hidden ones.
    n_layers : int, default=3
        Rounds of message passing.
    activation : str, default="relu"
        Of the nodes, in all rounds but the last; `tabgnm.nn.activation_names()` lists them.
    init : {"kaiming", "paper"}, default="kaiming"
        Standard deviation of the first weights: sqrt(2 / sources) in each round, or sqrt(2) / nodes as in the
        authors' code.
    combine : {"none", "residual", "gated"}, default="none"
        How a node's new value joins its old one.
    clamp_inputs : bool, default=False
        Input nodes keep their value in every round.
    persistent_outputs : bool, default=False
        Output nodes add up what they receive over the rounds.
    tied : bool, default=False
        One matrix of edges for all rounds.
    learn_initial : bool, default=False
        Hidden and output nodes start at learned values instead of 0.
    """

    n_nodes: int | Literal["auto"] = "auto"
    n_layers: int = 3
    activation: str = "relu"
    init: str = "kaiming"
    combine: Combine = "none"
    clamp_inputs: bool = False
    persistent_outputs: bool = False
    tied: bool = False
    learn_initial: bool = False

    def _network_shape(self, n_inputs: int, n_outputs: int) -> GNMShape:
        smallest = n_inputs + n_outputs + 1
        if self.n_nodes == "auto":
            n_nodes = max(AUTO_NODES, smallest + AUTO_FREE_NODES)
            if n_nodes > MOST_AUTO_NODES and not self.clamp_inputs:
                raise ValueError(
                    f"n_nodes='auto' would make {n_nodes} nodes of {n_inputs} encoded inputs, and edges between all of "
                    "them; use clamp_inputs=True, with which edges grow only in proportion to the inputs, an MLP, or "
                    "fewer columns"
                )
        elif isinstance(self.n_nodes, str):
            raise ValueError(f"n_nodes={self.n_nodes!r} is not known; use a number of nodes, or 'auto'")
        else:
            n_nodes = check_integer("n_nodes", self.n_nodes)
        if n_nodes < smallest:
            raise ValueError(
                f"n_nodes={n_nodes} is too small: {n_inputs} encoded inputs + {n_outputs} outputs + 1 bias need at "
                f"least {smallest} nodes; use n_nodes>={smallest} or n_nodes='auto'"
            )
        return GNMShape(
            n_inputs,
            n_outputs,
            n_nodes,
            self.n_layers,
            self.activation,
            self.init,
            self.combine,
            check_flag("clamp_inputs", self.clamp_inputs),
            check_flag("persistent_outputs", self.persistent_outputs),
            check_flag("tied", self.tied),
            check_flag("learn_initial", self.learn_initial),
        )


@dataclass(eq=False, repr=False, kw_only=True)
class MLPParameters:
    """The network.

    hidden : sequence of int, default=(256, 256)
        Widths of the hidden layers.
    activation : str, default="relu"
        Of the hidden layers; `tabgnm.nn.activation_names()` lists them.
    init : {"kaiming", "torch"}, default="kaiming"
        First weights: normal with standard deviation sqrt(2 / inputs of the layer), or as `torch.nn.Linear` draws them.
    """

    hidden: tuple[int, ...] = (256, 256)
    activation: str = "relu"
    init: str = "kaiming"

    def _network_shape(self, n_inputs: int, n_outputs: int) -> MLPShape:
        return MLPShape(n_inputs, n_outputs, check_hidden(self.hidden), self.activation, self.init)


@dataclass(eq=False, repr=False, kw_only=True)
class TrainingParameters:
    """How it is trained.

    n_members : int, default=4
        Models that are trained together and averaged. They differ in their seed and in their validation rows.
    max_epochs : int, default=100
        Passes over the training rows.
    learning_rate : float, default=0.001
    batch_size : int or "auto", default="auto"
        Rows per step; "auto" makes about 64 steps per epoch with 32 to 512 rows each.
    dropout : float, default=0.1
        Rate, in all rounds or layers but the last.
    l1, l2, l0 : float, default=0.0
        Factors of the penalties on the edges. l1 with `optimiser="proximal_adam"` and l0 give exact zeros.
    weight_decay : float, default=0.01
    optimiser : {"adamw", "adam", "proximal_adam"}, default="adamw"
    schedule : {"cosine", "constant", "log_cosine"}, default="cosine"
        Of the learning rate over all epochs.
    validation_fraction : float, default=0.1
        Share of the rows that each member keeps for validation, drawn by class if there is one target of classes; 0
        trains on all rows and keeps the weights of the last epoch. Not used if `fit` is given `X_val`.
    patience : int or None, default=20
        A member stops after so many epochs without a lower validation loss; None trains to the end. Either way the
        weights of its best epoch are kept. Without validation rows there is nothing to wait for.
    scaling : {"quantile", "robust", "standard", "none"}, default="quantile"
        Of numbers.
    numeric_embedding : {"auto", "periodic", "piecewise"} or None, default="auto"
        Learned features of each number: a linear map of cosines with learned frequencies, or of a piecewise linear
        encoding on quantile bins; None uses the scaled numbers themselves. "auto" takes "periodic" for tables of up
        to 100 columns, and None for wider ones, where it would make networks several times as wide as the table.
    n_basis : int, default=16
        Cosines, or bins, per number.
    numeric_dim : int, default=4
        Learned features per number.
    frequency_scale : float, default=0.1
        Standard deviation of the first frequencies: larger for targets that jump, smaller for smooth ones.
    max_one_hot : int, default=8
        Categories with more levels get a learned embedding instead of one input per level.
    level_dim : int, default=8
        Learned features per category with an embedding.
    min_level_count : int, default=3
        Levels of such categories with fewer rows share one.
    column_kinds : dict or None, default=None
        What a column is, where its type does not say it: {"zip": "category"}; "number", "category", "datetime" or
        "ignore".
    precision : {"float32", "float64", "tf32", "bf16"}, default="float32"
        Arithmetic; the last two are for GPUs.
    device : str or torch.device, default="auto"
        "cpu", "cuda", or "auto" for a GPU where there is one.
    warm_start : bool, default=False
        `fit` goes on from the weights it has, with the columns and classes of the first call. How it is trained may
        change; what the weights were made for (the network, the members, how columns are encoded) may not.
    random_state : int, RandomState or None, default=None
        Of first weights, validation rows, shuffling and dropout: an int gives the same model every time.
    verbose : int, default=0
        1 shows a progress bar, if there is a terminal.
    """

    n_members: int = 4
    max_epochs: int = 100
    learning_rate: float = 1e-3
    batch_size: int | Literal["auto"] = "auto"
    dropout: float = 0.1
    l1: float = 0.0
    l2: float = 0.0
    l0: float = 0.0
    weight_decay: float = 0.01
    optimiser: str = "adamw"
    schedule: str = "cosine"
    validation_fraction: float = 0.1
    patience: int | None = 20
    scaling: str = "quantile"
    numeric_embedding: str | None = "auto"
    n_basis: int = 16
    numeric_dim: int = 4
    frequency_scale: float = 0.1
    max_one_hot: int = 8
    level_dim: int = 8
    min_level_count: int = 3
    column_kinds: Mapping[str | int, str] | None = None
    precision: str = "float32"
    device: str = "auto"
    warm_start: bool = False
    random_state: Any = None
    verbose: int = 0

    def _check_parameters(self) -> None:
        """Raise where a parameter cannot be, before any data is looked at.

        What the fleet, the table and the networks are told, they check themselves.
        """
        check_integer("n_members", self.n_members)
        check_integer("max_epochs", self.max_epochs)
        if self.patience is not None:
            check_integer("patience", self.patience)
        check_fraction(self.validation_fraction)
        check_flag("warm_start", self.warm_start)
        check_device(self.device)
        check_random(self.random_state)
        check_verbose(self.verbose)

    def _batch_size(self, n_rows: int) -> int:
        if self.batch_size != "auto":
            if isinstance(self.batch_size, str):
                raise ValueError(f"batch_size={self.batch_size!r} is not known; use a number of rows, or 'auto'")
            return positive_integer("batch_size", self.batch_size)
        smallest, largest = AUTO_BATCH_SIZES
        power = 1 << max(0, (n_rows // AUTO_BATCHES).bit_length() - 1)
        return min(max(power, smallest), largest)

    def _fleet_settings(self, loss: Loss, n_rows: int, *, validated: bool, one_epoch: bool = False) -> FleetSettings:
        return FleetSettings(
            loss=loss,
            max_epochs=1 if one_epoch else self.max_epochs,
            batch_size=self._batch_size(n_rows),
            patience=self.patience if validated else None,
            optimiser=self.optimiser,
            schedule="constant" if one_epoch else self.schedule,
            precision=self.precision,
            device=self.device,
            metric=validated,
        )


@dataclass(eq=False, repr=False, kw_only=True)
class ClassifierParameters:
    """What it learns.

    class_weight : dict, "balanced", list or None, default=None
        Weights of the classes, as in scikit-learn; "balanced" is not for `partial_fit`.
    label_smoothing : float, default=0.0
        How much of a label is spread over all classes.
    """

    class_weight: Any = None
    label_smoothing: float = 0.0

    def _check_parameters(self) -> None:
        super()._check_parameters()  # type: ignore[misc] # of the estimator that this group is mixed into
        check_class_weight(self.class_weight)
        check_number("label_smoothing", self.label_smoothing, 0, 1, "0.0 or 0.1", include_low=True)


@dataclass(eq=False, repr=False, kw_only=True)
class RegressorParameters:
    """What it learns.

    loss : {"mse", "huber", "quantile"}, default="mse"
        Squared error; squared near 0 and linear beyond; or the pinball loss, for quantiles.
    quantile : float, default=0.5
        Which quantile to predict, with `loss="quantile"`.
    huber_delta : float, default=1.0
        Where the Huber loss turns linear, in standard deviations of the target (in its unit if `scale_target=False`).
    scale_target : bool, default=True
        Standardise the target for training; predictions are in its unit in any case.
    """

    loss: Literal["mse", "huber", "quantile"] = "mse"
    quantile: float = 0.5
    huber_delta: float = 1.0
    scale_target: bool = True

    def _check_parameters(self) -> None:
        super()._check_parameters()  # type: ignore[misc] # of the estimator that this group is mixed into
        check_number("quantile", self.quantile, 0, 1, "0.5 for the median")
        check_number("huber_delta", self.huber_delta, 0, math.inf, "1.0")
        check_flag("scale_target", self.scale_target)


# The setting of the paper, for `.paper()`: raw features, one model, Adam with a constant rate, and the weights of the
# epoch with the lowest validation loss.
PAPER = {
    "n_members": 1,
    "max_epochs": 300,
    "learning_rate": 1e-3,
    "batch_size": 64,
    "dropout": 0.0,
    "weight_decay": 0.0,
    "optimiser": "adam",
    "schedule": "constant",
    "validation_fraction": 0.1,
    "patience": None,
    "scaling": "none",
    "numeric_embedding": None,
    # Every category one-hot; one with even more levels gets an embedding all the same.
    "max_one_hot": 10_000,
}
PAPER_GNM = PAPER | {"n_nodes": 100, "n_layers": 2, "init": "paper"}
PAPER_MLP = PAPER | {"hidden": (128,), "init": "torch"}

# How networks are trained: neither the rows of a fit nor the shape of its weights depend on these.
_HOW_TRAINED = frozenset(
    [
        "max_epochs",
        "learning_rate",
        "batch_size",
        "dropout",
        "l1",
        "l2",
        "l0",
        "weight_decay",
        "optimiser",
        "schedule",
        "patience",
        "device",
        "verbose",
    ]
)
# Fits that differ in nothing but these share their encoded rows.
NETWORK_ONLY = _HOW_TRAINED | {own.name for group in (GNMParameters, MLPParameters) for own in fields(group)}
# What may change between two fits with `warm_start`, or two calls of `partial_fit`; all else is built into the weights.
FREE_PARAMETERS = _HOW_TRAINED | {
    "validation_fraction",
    "warm_start",
    "random_state",
    "class_weight",
    "label_smoothing",
    "loss",
    "quantile",
    "huber_delta",
}

Estimator = TypeVar("Estimator", bound=type)


def with_parameter_docs(cls: Estimator) -> Estimator:
    """Put the descriptions of all inherited parameters where the docstring of an estimator says {parameters}."""
    groups = [base for base in cls.__mro__ if base.__name__.endswith("Parameters") and "__init__" in vars(base)]
    texts = []
    for group in groups:
        _, _, text = inspect.cleandoc(group.__doc__ or "").partition("\n\n")
        texts.append(text)
    described = inspect.cleandoc(cls.__doc__ or "").replace("{parameters}", "\n".join(texts))
    cls.__doc__ = described
    return cls
