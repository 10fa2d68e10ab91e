"""Parameters of the estimators, in groups: the only place where their defaults and descriptions are written.

The groups are dataclasses, so an estimator that inherits from several of them gets one ordinary `__init__` that stores
their parameters and does nothing else, as scikit-learn requires. `make format` copies the descriptions into the
docstrings of the estimators, where editors and documentation tools find them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tabgnm._printable import shown
from tabgnm.estimators import parameter_checks
from tabgnm.estimators.checks import (
    check_class_weight,
    check_flag,
    check_flag_or_auto,
    check_hidden,
    check_integer,
    check_number,
    is_auto,
)
from tabgnm.estimators.effort import Effort
from tabgnm.estimators.regression_losses import regression_loss
from tabgnm.nn.losses import Huber, LogLinkLoss, Loss, Pinball, SquaredError, Tweedie
from tabgnm.nn.shapes import Combine, GNMShape, MLPShape
from tabgnm.table.settings import check_choice
from tabgnm.training import FleetSettings
from tabgnm.training.threads import thread_count

# All nodes except the bias are updated, so the number of nodes is the width of a layer.
AUTO_FREE_NODES = 32
MAX_AUTO_NODES = 8192  # with more, the edges of a single layer take a gigabyte in training

_MIN_NODES = 3  # an input, an output and the bias
_MAX_LAYERS = 1000  # far beyond what is useful

Auto = Literal["auto"]


class TooFewNodesError(ValueError):
    """A network has fewer nodes than inputs, outputs and the bias need."""


@dataclass(eq=False, repr=False, kw_only=True)
class GNMParameters:
    """The Graph Neural Machine. Candidates of a pack may differ in parameters that are "auto".

    n_nodes : int or "auto", default="auto"
        The number of nodes of the graph: one per encoded input, one per output, one bias node; the rest are hidden
        nodes. "auto" uses 128 nodes on a CPU and 256 on a GPU or with `effort="best"`, and more if fewer than 32 of
        them would be hidden nodes.
    n_layers : int or "auto", default="auto"
        The number of message passing layers.
    activation : str, default="auto"
        The activation function of all layers except the last. See `tabgnm.nn.activation_names()` for the valid names.
    init : {"kaiming", "paper"}, default="kaiming"
        The standard deviation of the initial weights: sqrt(2 / fan_in) in each layer with "kaiming", sqrt(2) / n_nodes
        as in the authors' code with "paper".
    combine : {"auto", "none", "residual", "gated"}, default="auto"
        How the new state of a node is combined with its previous state: the new state replaces it, is added to it, or
        is mixed with it by a learned gate.
    clamp_inputs : bool or "auto", default="auto"
        Whether to keep the states of the input nodes fixed in all layers.
    persistent_outputs : bool or "auto", default="auto"
        Whether the outputs are the sum of the messages of all layers, instead of those of the last layer.
    tied : bool or "auto", default="auto"
        Whether to use the same edge weights in all layers.
    learn_initial : bool, default=False
        Whether to learn the initial states of the hidden and output nodes. If False, they are 0.
    """

    n_nodes: int | Auto = "auto"
    n_layers: int | Auto = "auto"
    activation: str = "auto"
    init: str = "kaiming"
    combine: Combine | Auto = "auto"
    clamp_inputs: bool | Auto = "auto"
    persistent_outputs: bool | Auto = "auto"
    tied: bool | Auto = "auto"
    learn_initial: bool = False

    def _check_parameters(self) -> None:
        super()._check_parameters()  # type: ignore[misc] # of the estimator that this group is mixed into
        for name in ("clamp_inputs", "persistent_outputs", "tied"):
            check_flag_or_auto(name, getattr(self, name))
        check_flag("learn_initial", self.learn_initial)
        if not is_auto(self.n_layers):
            check_integer("n_layers", self.n_layers, largest=_MAX_LAYERS)
        if not is_auto(self.n_nodes):
            check_integer("n_nodes", self.n_nodes, smallest=_MIN_NODES)
        parameter_checks.check_network(self)  # type: ignore[arg-type] # likewise

    def _network_shape(self, n_inputs: int, n_outputs: int, settings: Mapping[str, Any], n_auto: int) -> GNMShape:
        smallest = n_inputs + n_outputs + 1
        if is_auto(self.n_nodes):
            n_nodes = max(n_auto, smallest + AUTO_FREE_NODES)
            if n_outputs > MAX_AUTO_NODES // 2:
                raise ValueError(
                    f"n_nodes='auto' would create {n_nodes} nodes for {n_outputs} outputs (classes or targets), with "
                    "edges between all of them; use an MLP, whose edges grow in proportion to the outputs, or merge "
                    "rare classes"
                )
            if n_nodes > MAX_AUTO_NODES and not settings["clamp_inputs"]:
                raise ValueError(
                    f"n_nodes='auto' would create {n_nodes} nodes for {n_inputs} encoded inputs, with edges between "
                    "all of them; use clamp_inputs=True or an MLP, whose edges grow in proportion to the inputs, or "
                    "fewer columns"
                )
        else:
            n_nodes = int(self.n_nodes)
        if n_nodes < smallest:
            raise TooFewNodesError(
                f"n_nodes={n_nodes} is too small: {n_inputs} encoded inputs + {n_outputs} outputs + 1 bias need at "
                f"least {smallest} nodes; use n_nodes>={smallest} or n_nodes='auto'"
            )
        return GNMShape(
            n_inputs,
            n_outputs,
            n_nodes,
            settings["n_layers"],
            settings["activation"],
            self.init,
            combine=settings["combine"],
            clamp_inputs=settings["clamp_inputs"],
            persistent_outputs=settings["persistent_outputs"],
            tied=settings["tied"],
            learn_initial=self.learn_initial,
        )


@dataclass(eq=False, repr=False, kw_only=True)
class MLPParameters:
    """The multi-layer perceptron. Candidates of a pack may differ in parameters that are "auto".

    hidden : sequence of int or "auto", default="auto"
        The widths of the hidden layers. "auto" uses two or three layers, with 128 units each on a CPU and 256 on a GPU
        or with `effort="best"`.
    activation : str, default="auto"
        The activation function of the hidden layers. See `tabgnm.nn.activation_names()` for the valid names.
    init : {"kaiming", "torch"}, default="kaiming"
        How to initialize the weights: from a normal distribution with standard deviation sqrt(2 / fan_in), or as
        `torch.nn.Linear` does.
    """

    hidden: tuple[int, ...] | Auto = "auto"
    activation: str = "auto"
    init: str = "kaiming"

    def _check_parameters(self) -> None:
        super()._check_parameters()  # type: ignore[misc] # of the estimator that this group is mixed into
        parameter_checks.check_network(self)  # type: ignore[arg-type] # likewise

    def _network_shape(self, n_inputs: int, n_outputs: int, settings: Mapping[str, Any], n_auto: int) -> MLPShape:
        if is_auto(self.hidden):
            hidden: tuple[int, ...] = (n_auto,) * (settings["n_layers"] - 1)
        else:
            hidden = check_hidden(self.hidden)
        return MLPShape(n_inputs, n_outputs, hidden, settings["activation"], self.init)


@dataclass(eq=False, repr=False, kw_only=True)
class TrainingParameters:
    """Training, encoding of the table, and execution.

    effort : {"default", "fast", "best"}, default="default"
        How much work `fit` does: the number of candidates, folds and epochs where these are "auto".
    time_limit : float or None, default=None
        The maximum duration of `fit` in seconds. The number of candidates, folds and epochs is reduced accordingly, and
        training stops in time with the best weights so far. Encoding the table and measuring the training speed cannot
        be shortened, so on large tables `fit` takes a few seconds at least. If None, there is no limit.
    n_candidates : int or "auto", default="auto"
        The number of different settings to try. Those that improve the predictions for held-out rows are kept, each
        with a weight. If 1, only the first setting is used.
    n_folds : int or "auto", default="auto"
        The number of networks per candidate, each validated on a different fold. If 1, a tenth of the rows is held out
        for validation. If 0, a single candidate is trained on all rows and keeps the weights of the last epoch.
    cv : splitter or iterable, default=None
        Custom folds: a scikit-learn splitter, or an iterable of (training rows, validation rows). If None, see
        `n_folds`. Not stored in model files.
    metric : str or callable, default="auto"
        The metric to select candidates by: "auto" for the loss, a name such as "accuracy", "roc_auc", "mae" or
        "poisson_deviance", or a scikit-learn scorer.
    max_epochs : int or "auto", default="auto"
        The maximum number of passes over the training rows. "auto" depends on `effort` and the table; on a CPU, it is
        reduced if the first networks soon stop improving.
    learning_rate : float or "auto", default="auto"
        The maximum learning rate of the schedule.
    batch_size : int or "auto", default="auto"
        The number of rows per training step. "auto" aims at 64 steps per epoch on a GPU or with `effort="best"`, and at
        32 steps otherwise, with at least 32 rows per step and at most 512 on a GPU or 128 on a CPU.
    dropout : float or "auto", default="auto"
        The dropout rate of all layers except the last.
    l1, l2, l0 : float, default=0.0
        The strengths of the penalties on the edge weights. `l0`, and `l1` with `optimizer="proximal_adam"`, set weights
        to exactly zero.
    weight_decay : float or "auto", default="auto"
        The weight decay of the edge weights: added to the gradient with `optimizer="adam"`, decoupled from it with the
        other optimizers.
    optimizer : {"adamw", "adam", "proximal_adam"}, default="adamw"
        The optimizer: AdamW, Adam, or AdamW with a proximal step for `l1`.
    schedule : {"cosine", "constant", "log_cosine"}, default="cosine"
        The schedule of the learning rate over `max_epochs`.
    warmup : float, default=0.1
        The fraction of the training steps during which the learning rate increases linearly from 0.
    patience : int, None or "auto", default="auto"
        The number of epochs without a lower validation loss after which training of a network stops. If None, training
        never stops early. In both cases the weights of the best epoch are kept. Ignored without validation rows. A
        ConvergenceWarning is issued if the loss is still falling at `max_epochs`, unless `patience` is None.
    scaling : {"auto", "quantile", "robust", "standard", "none"}, default="auto"
        How to scale numeric columns.
    numeric_embedding : {"auto", "periodic", "piecewise"} or None, default="auto"
        How to compute learned features of each numeric column: "periodic" is a linear layer on cosines with learned
        frequencies, "piecewise" a linear layer on a piecewise linear encoding with quantile bins. If None, the scaled
        numbers are used without an embedding.
    n_basis : int or "auto", default="auto"
        The number of cosines or bins per numeric column.
    numeric_dim : int or "auto", default="auto"
        The number of learned features per numeric column. "auto" uses fewer per column for tables with many numeric
        columns.
    frequency_scale : float or "auto", default="auto"
        The standard deviation of the initial frequencies. Larger values suit targets with jumps, smaller values smooth
        targets.
    screen_columns : bool or "auto", default="auto"
        Whether to leave out columns that a statistical test on the training rows of each network finds unrelated to the
        target. Columns with a learned embedding are never left out, so True also disables `numeric_embedding="auto"`.
        "auto" adds a candidate with screening for tables with more than 50 encoded columns, and screens all candidates
        for tables with more than 500, except for tables that are not too wide if the test finds no more than chance.
        "auto" does not screen tables with more than 20 million encoded numbers.
    integer_codes : bool or "auto", default="auto"
        Whether columns of whole numbers are encoded as categories if they have more than 32 and at most 2,000 different
        values, half of which have at least five rows (or `min_level_count`). "auto" does so if the target depends on
        the number, but hardly on the order of the numbers, as with numbers of shops, and if most numbers in validation
        rows also occur in training rows. Columns in `column_kinds` are left out, and "auto" does nothing in
        `partial_fit`.
    max_one_hot : int, default=8
        The maximum number of levels of a one-hot encoded category. Categories with more levels get a learned embedding.
    level_dim : int, default=8
        The number of learned features per category with an embedding.
    min_level_count : int, default=3
        The minimum number of rows for a level to have its own embedding. All rarer levels of a category share one
        embedding.
    column_kinds : dict or None, default=None
        The kinds of some columns, by name or position, such as {"zip": "category"}: "number", "category", "datetime" or
        "ignore". The kinds of all other columns are inferred from their values.
    precision : {"float32", "float64", "tf32", "bf16"}, default="float32"
        The floating-point precision of training. "tf32" and "bf16" require a GPU.
    device : str or torch.device, default="auto"
        The device for training and prediction: "cpu", "cuda", "cuda:1" and so on. "auto" uses a GPU if one is
        available. "auto" and "cuda" train on the current GPU and all others like it, and predict on the current one.
        Other devices, such as "mps", are not supported.
    n_jobs : int or None, default=None
        The number of threads for training and prediction on a CPU. If None, `torch.get_num_threads()`, which respects
        OMP_NUM_THREADS. -1 means all cores available to the process, within the limits of its container, and -2 all
        cores but one. Results with different numbers of threads are equal up to rounding. Not stored in model files.
    warm_start : bool, default=False
        Whether `fit` continues training from the current weights, with the columns and classes of the first call.
        Training parameters may change between calls; the networks, their folds and the encoding of the columns may not.
    random_state : int, RandomState or None, default=None
        The seed of the initial weights, folds, shuffling and dropout. Pass an int for reproducible results.
    verbose : int, default=0
        The verbosity level. If 1 or more, show the number of finished networks, the best validation score so far and
        the remaining time: as a progress bar in a terminal or notebook, elsewhere as messages of the logger "tabgnm",
        at most one every 10 seconds. They are written to stderr unless logging is configured.
    """

    effort: str = "default"
    time_limit: float | None = None
    n_candidates: int | Auto = "auto"
    n_folds: int | Auto = "auto"
    cv: Any = None
    metric: Any = "auto"
    max_epochs: int | Auto = "auto"
    learning_rate: float | Auto = "auto"
    batch_size: int | Auto = "auto"
    dropout: float | Auto = "auto"
    l1: float = 0.0
    l2: float = 0.0
    l0: float = 0.0
    weight_decay: float | Auto = "auto"
    optimizer: str = "adamw"
    schedule: str = "cosine"
    warmup: float = 0.1
    patience: int | Auto | None = "auto"
    scaling: str = "auto"
    numeric_embedding: str | None = "auto"
    n_basis: int | Auto = "auto"
    numeric_dim: int | Auto = "auto"
    frequency_scale: float | Auto = "auto"
    screen_columns: bool | Auto = "auto"
    integer_codes: bool | Auto = "auto"
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
        """Validate parameters before any data is read; raise if any is invalid."""
        parameter_checks.check_training(self)

    def _batch_size(self, n_rows: int, effort: Effort) -> int:
        return effort.batch_size(n_rows) if is_auto(self.batch_size) else int(self.batch_size)

    def _fleet_settings(
        self, loss: Loss, n_rows: int, effort: Effort, *, validated: bool, one_epoch: bool = False
    ) -> FleetSettings:
        patience = effort.patience if is_auto(self.patience) else self.patience
        max_epochs = effort.max_epochs if is_auto(self.max_epochs) else self.max_epochs
        return FleetSettings(
            loss=loss,
            max_epochs=1 if one_epoch else max_epochs,  # type: ignore[arg-type] # a number, not "auto"
            batch_size=self._batch_size(n_rows, effort),
            patience=patience if validated else None,  # type: ignore[arg-type] # likewise
            optimizer=self.optimizer,
            schedule="constant" if one_epoch else self.schedule,
            warmup=0.0 if one_epoch else self.warmup,
            precision=self.precision,
            device=self.device,
            n_threads=None if self.n_jobs is None else thread_count(self.n_jobs),
            metric=validated,
            held_out_outputs=validated,
        )


@dataclass(eq=False, repr=False, kw_only=True)
class ClassifierParameters:
    """Classification targets.

    class_weight : dict, "balanced", list or None, default=None
        The weights of the classes, as in scikit-learn: labels that do not occur are ignored if all others have one.
        "balanced" is not supported by `partial_fit`.
    label_smoothing : float, default=0.0
        The fraction of each label that is distributed evenly over all classes.
    calibrated : bool, default=True
        Whether to calibrate the probabilities by temperature scaling, with the temperature that has the lowest log-loss
        on held-out rows. Predicted labels do not change.
    """

    class_weight: Any = None
    label_smoothing: float = 0.0
    calibrated: bool = True

    def _check_parameters(self) -> None:
        super()._check_parameters()  # type: ignore[misc] # of the estimator that this group is mixed into
        check_class_weight(self.class_weight)
        check_number("label_smoothing", self.label_smoothing, 0, 1, "0.0 or 0.1", include_low=True)
        check_flag("calibrated", self.calibrated)


@dataclass(eq=False, repr=False, kw_only=True)
class RegressorParameters:
    """Regression targets.

    loss : str, default="squared_error"
        The loss: "squared_error", "absolute_error", "huber" or "quantile" (pinball loss). For targets >= 0, losses with
        a log link, whose predictions are positive: "poisson" for counts, "gamma" for positive amounts, and "tweedie"
        for amounts that may be 0. "mse" is an alias of "squared_error".
    quantile : float or list of float, default=0.5
        The quantile to predict with `loss="quantile"`. Pass a list in ascending order to predict several quantiles of a
        single target; they never cross.
    huber_delta : float, default=1.0
        The error at which the Huber loss becomes linear, in standard deviations of the target, or in units of the
        target if `scale_target=False`.
    tweedie_power : float, default=1.5
        The exponent of `loss="tweedie"`, which assumes that the variance is proportional to the mean raised to this
        power: from 1.01 (almost "poisson") to 1.99 (almost "gamma").
    scale_target : bool, default=True
        Whether to standardize the target for training, or to divide it by its mean with a log link. Predictions are in
        units of the target either way.
    target_transform : {"auto", "none", "log"}, default="auto"
        The transform of the target before training. "log" requires positive targets. "auto" adds candidates with
        "log" if the target is positive and right-skewed and the loss has no log link.
    """

    loss: str = SquaredError.name
    quantile: float | Sequence[float] = Pinball.quantile
    huber_delta: float = Huber.delta
    tweedie_power: float = Tweedie.power
    scale_target: bool = True
    target_transform: str = "auto"

    def _check_parameters(self) -> None:
        super()._check_parameters()  # type: ignore[misc] # of the estimator that this group is mixed into
        loss = self._own_loss()
        check_flag("scale_target", self.scale_target)
        check_choice("target_transform", self.target_transform, ("auto", "none", "log"))
        if isinstance(loss, LogLinkLoss) and self.target_transform == "log":
            raise ValueError(
                f"target_transform='log' cannot be combined with loss={shown(self.loss)}, which already has a log "
                "link; use target_transform='auto' or 'none', or another loss"
            )

    def _own_loss(self) -> Loss:
        return regression_loss(self.loss, self.quantile, self.huber_delta, self.tweedie_power)
