"""Parameters of the estimators, in groups: the only place where their defaults and descriptions are written.

The groups are dataclasses, so an estimator that inherits from several of them gets one ordinary `__init__` that stores
their parameters and does nothing else, as scikit-learn requires.
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
from tabgnm.training.threads import thread_count

# All nodes except the bias are updated, so the number of nodes is the width of a layer.
AUTO_NODES = 256
AUTO_FREE_NODES = 32
MOST_AUTO_NODES = 8192  # with more, the edges of a single layer take a gigabyte in training
AUTO_EMBEDDED_COLUMNS = 100
AUTO_BATCHES = 64
AUTO_BATCH_SIZES = (32, 512)


@dataclass(eq=False, repr=False, kw_only=True)
class GNMParameters:
    """The Graph Neural Machine.

    n_nodes : int or "auto", default="auto"
        Number of nodes of the graph: one per encoded input, one per output, one bias, and the rest hidden. "auto"
        means 256, or more if that would leave fewer than 32 hidden nodes.
    n_layers : int, default=3
        Number of message passing layers.
    activation : str, default="relu"
        Activation of the nodes in all layers but the last. See `tabgnm.nn.activation_names()`.
    init : {"kaiming", "paper"}, default="kaiming"
        Standard deviation of the initial weights: sqrt(2 / fan-in) in each layer, or sqrt(2) / nodes as in the
        authors' code.
    combine : {"none", "residual", "gated"}, default="none"
        How the new state of a node is combined with its old state.
    clamp_inputs : bool, default=False
        Keep the states of the input nodes fixed in all layers.
    persistent_outputs : bool, default=False
        Output nodes accumulate the messages of all layers.
    tied : bool, default=False
        Use the same edge weights in all layers.
    learn_initial : bool, default=False
        Learn the initial states of hidden and output nodes instead of starting at 0.
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
    """The multi-layer perceptron.

    hidden : sequence of int, default=(256, 256)
        Widths of the hidden layers.
    activation : str, default="relu"
        Activation of the hidden layers. See `tabgnm.nn.activation_names()`.
    init : {"kaiming", "torch"}, default="kaiming"
        Initial weights: normal with standard deviation sqrt(2 / fan-in), or as in `torch.nn.Linear`.
    """

    hidden: tuple[int, ...] = (256, 256)
    activation: str = "relu"
    init: str = "kaiming"

    def _network_shape(self, n_inputs: int, n_outputs: int) -> MLPShape:
        return MLPShape(n_inputs, n_outputs, check_hidden(self.hidden), self.activation, self.init)


@dataclass(eq=False, repr=False, kw_only=True)
class TrainingParameters:
    """Training, encoding of the table, and execution.

    n_members : int, default=4
        Number of models that are trained together and averaged. They differ in their seed and validation rows.
    max_epochs : int, default=100
        Maximum number of passes over the training rows.
    learning_rate : float, default=0.001
    batch_size : int or "auto", default="auto"
        Rows per step. "auto" makes about 64 steps per epoch with 32 to 512 rows each.
    dropout : float, default=0.1
        Dropout rate in all layers but the last.
    l1, l2, l0 : float, default=0.0
        Strengths of the penalties on the edge weights. l1 with `optimiser="proximal_adam"`, and l0, yield exact zeros.
    weight_decay : float, default=0.01
    optimiser : {"adamw", "adam", "proximal_adam"}, default="adamw"
    schedule : {"cosine", "constant", "log_cosine"}, default="cosine"
        Schedule of the learning rate over all epochs.
    validation_fraction : float, default=0.1
        Fraction of the rows that each member sets aside for validation, stratified by class for a single target. With
        0, members train on all rows and keep the weights of the last epoch. Ignored if `X_val` is passed to `fit`.
    patience : int or None, default=20
        Stop a member after this many epochs without a lower validation loss; None never stops early. In both cases the
        weights of the best epoch are kept. Ignored without validation rows.
    scaling : {"quantile", "robust", "standard", "none"}, default="quantile"
        Scaling of numeric columns.
    numeric_embedding : {"auto", "periodic", "piecewise"} or None, default="auto"
        Learned features of each numeric column: a linear map of cosines with learned frequencies, or of a piecewise
        linear encoding on quantile bins. None uses the scaled numbers. "auto" means "periodic" for tables with up to
        100 columns; for wider tables it means None, as embeddings would make the network several times wider.
    n_basis : int, default=16
        Number of cosines or bins per numeric column.
    numeric_dim : int, default=4
        Number of learned features per numeric column.
    frequency_scale : float, default=0.1
        Standard deviation of the initial frequencies: larger for targets that jump, smaller for smooth targets.
    max_one_hot : int, default=8
        Categories with more levels get a learned embedding instead of one input per level.
    level_dim : int, default=8
        Number of learned features per category with an embedding.
    min_level_count : int, default=3
        Levels of such categories with fewer rows share one embedding.
    column_kinds : dict or None, default=None
        Kinds of columns, instead of those inferred from their values: {"zip": "category"}. One of "number",
        "category", "datetime" and "ignore".
    precision : {"float32", "float64", "tf32", "bf16"}, default="float32"
        Arithmetic of training. "tf32" and "bf16" need a GPU.
    device : str or torch.device, default="auto"
        "cpu", "cuda", or "auto" for a GPU if there is one.
    n_jobs : int or None, default=None
        Threads for training and prediction on a CPU; None uses as many as torch does (`torch.get_num_threads()`, which
        respects OMP_NUM_THREADS), -1 all cores this process may use. Results with different numbers of threads are
        equal up to rounding. Not stored in model files.
    warm_start : bool, default=False
        Continue training from the current weights in `fit`, with the columns and classes of the first call. Training
        parameters may change between calls; the network, the members and the encoding of the columns may not.
    random_state : int, RandomState or None, default=None
        Seed of the initial weights, validation rows, shuffling and dropout. Pass an int for reproducible results.
    verbose : int, default=0
        1 shows a progress bar in a terminal.
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
    n_jobs: int | None = None
    warm_start: bool = False
    random_state: Any = None
    verbose: int = 0

    def _check_parameters(self) -> None:
        """Validate parameters before any data is read; raise if any is invalid.

        Parameters that are passed on to the fleet, the table or the networks are validated there.
        """
        check_integer("n_members", self.n_members)
        check_integer("max_epochs", self.max_epochs)
        if self.patience is not None:
            check_integer("patience", self.patience)
        check_fraction(self.validation_fraction)
        check_flag("warm_start", self.warm_start)
        check_device(self.device)
        thread_count(self.n_jobs)
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
            n_threads=None if self.n_jobs is None else thread_count(self.n_jobs),
            metric=validated,
        )


@dataclass(eq=False, repr=False, kw_only=True)
class ClassifierParameters:
    """Classification targets.

    class_weight : dict, "balanced", list or None, default=None
        Weights of the classes, as in scikit-learn. "balanced" is not supported by `partial_fit`.
    label_smoothing : float, default=0.0
        Fraction of each label that is spread evenly over all classes.
    """

    class_weight: Any = None
    label_smoothing: float = 0.0

    def _check_parameters(self) -> None:
        super()._check_parameters()  # type: ignore[misc] # of the estimator that this group is mixed into
        check_class_weight(self.class_weight)
        check_number("label_smoothing", self.label_smoothing, 0, 1, "0.0 or 0.1", include_low=True)


@dataclass(eq=False, repr=False, kw_only=True)
class RegressorParameters:
    """Regression targets.

    loss : {"mse", "huber", "quantile"}, default="mse"
        Squared error, Huber loss, or pinball loss for quantiles.
    quantile : float, default=0.5
        Quantile to predict with `loss="quantile"`.
    huber_delta : float, default=1.0
        Error at which the Huber loss becomes linear, in standard deviations of the target (in units of the target if
        `scale_target=False`).
    scale_target : bool, default=True
        Standardise the target for training. Predictions are in units of the target either way.
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


# The settings of the paper, for `.paper()`: raw features, one model, Adam with a constant learning rate, and the
# weights of the epoch with the lowest validation loss.
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
    # One-hot encode all categories, except for those with even more levels.
    "max_one_hot": 10_000,
}
PAPER_GNM = PAPER | {"n_nodes": 100, "n_layers": 2, "init": "paper"}
PAPER_MLP = PAPER | {"hidden": (128,), "init": "torch"}

# Neither the encoded rows of a fit nor the shape of its weights depend on these.
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
        "n_jobs",
        "verbose",
    ]
)
# Fits that differ only in these share their encoded rows.
NETWORK_ONLY = _HOW_TRAINED | {own.name for group in (GNMParameters, MLPParameters) for own in fields(group)}
# May change between fits with `warm_start` or calls of `partial_fit`; the weights depend on all others.
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
    """Replace {parameters} in the docstring of an estimator by the descriptions of all inherited parameters."""
    groups = [base for base in cls.__mro__ if base.__name__.endswith("Parameters") and "__init__" in vars(base)]
    texts = []
    for group in groups:
        _, _, text = inspect.cleandoc(group.__doc__ or "").partition("\n\n")
        texts.append(text)
    described = inspect.cleandoc(cls.__doc__ or "").replace("{parameters}", "\n".join(texts))
    cls.__doc__ = described
    return cls
