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
from tabgnm.estimators.checks import check_class_weight, check_flag, check_hidden, check_integer, check_number, is_auto
from tabgnm.estimators.effort import Effort
from tabgnm.estimators.regression_losses import regression_loss
from tabgnm.nn.losses import Huber, LogLinkLoss, Loss, Pinball, SquaredError, Tweedie
from tabgnm.nn.shapes import Combine, GNMShape, MLPShape
from tabgnm.table.settings import check_choice
from tabgnm.training import FleetSettings
from tabgnm.training.threads import thread_count

# All nodes except the bias are updated, so the number of nodes is the width of a layer.
AUTO_FREE_NODES = 32
MOST_AUTO_NODES = 8192  # with more, the edges of a single layer take a gigabyte in training

_FEWEST_NODES = 3  # an input, an output and the bias
_MOST_LAYERS = 1000  # far beyond what is useful

Auto = Literal["auto"]


class TooFewNodesError(ValueError):
    """A network has fewer nodes than inputs, outputs and the bias need."""


@dataclass(eq=False, repr=False, kw_only=True)
class GNMParameters:
    """The Graph Neural Machine. What is "auto" differs between the candidates of a pack.

    n_nodes : int or "auto", default="auto"
        Number of nodes of the graph: one per encoded input, one per output, one bias, and the rest hidden. "auto"
        means 128 on a CPU and 256 on a GPU or with `effort="best"`, or more if that would leave fewer than 32 hidden
        nodes.
    n_layers : int or "auto", default="auto"
        Number of message passing layers.
    activation : str, default="auto"
        Activation of the nodes in all layers but the last. See `tabgnm.nn.activation_names()`.
    init : {"kaiming", "paper"}, default="kaiming"
        Standard deviation of the initial weights: sqrt(2 / fan-in) in each layer, or sqrt(2) / nodes as in the
        authors' code.
    combine : {"auto", "none", "residual", "gated"}, default="auto"
        How the new state of a node is combined with its old state.
    clamp_inputs : bool or "auto", default="auto"
        Keep the states of the input nodes fixed in all layers.
    persistent_outputs : bool or "auto", default="auto"
        Output nodes accumulate the messages of all layers.
    tied : bool or "auto", default="auto"
        Use the same edge weights in all layers.
    learn_initial : bool, default=False
        Learn the initial states of hidden and output nodes instead of starting at 0.
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
            if not is_auto(getattr(self, name)):
                check_flag(name, getattr(self, name))
        check_flag("learn_initial", self.learn_initial)
        if not is_auto(self.n_layers):
            check_integer("n_layers", self.n_layers, largest=_MOST_LAYERS)
        if not is_auto(self.n_nodes):
            check_integer("n_nodes", self.n_nodes, smallest=_FEWEST_NODES)
        parameter_checks.check_network(self)  # type: ignore[arg-type] # likewise

    def _network_shape(self, n_inputs: int, n_outputs: int, settings: Mapping[str, Any], n_auto: int) -> GNMShape:
        smallest = n_inputs + n_outputs + 1
        if is_auto(self.n_nodes):
            n_nodes = max(n_auto, smallest + AUTO_FREE_NODES)
            if n_outputs > MOST_AUTO_NODES // 2:
                raise ValueError(
                    f"n_nodes='auto' would make {n_nodes} nodes of {n_outputs} outputs (classes or targets), and edges "
                    "between all of them; use an MLP, whose edges grow in proportion to the outputs, or merge rare "
                    "classes"
                )
            if n_nodes > MOST_AUTO_NODES and not settings["clamp_inputs"]:
                raise ValueError(
                    f"n_nodes='auto' would make {n_nodes} nodes of {n_inputs} encoded inputs, and edges between all of "
                    "them; use clamp_inputs=True, with which edges grow only in proportion to the inputs, an MLP, or "
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
    """The multi-layer perceptron. What is "auto" differs between the candidates of a pack.

    hidden : sequence of int or "auto", default="auto"
        Widths of the hidden layers. "auto" means two or three layers of 128 nodes on a CPU, and of 256 on a GPU or with
        `effort="best"`.
    activation : str, default="auto"
        Activation of the hidden layers. See `tabgnm.nn.activation_names()`.
    init : {"kaiming", "torch"}, default="kaiming"
        Initial weights: normal with standard deviation sqrt(2 / fan-in), or as in `torch.nn.Linear`.
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
        How many candidates, folds and epochs "auto" stands for.
    time_limit : float or None, default=None
        Seconds that `fit` may take. The number of candidates, folds and epochs is reduced to what fits in, and training
        ends in time with the best weights so far. Encoding the table and measuring the speed of training cannot be
        shortened, so that the shortest fit takes a few seconds for large tables.
    n_candidates : int or "auto", default="auto"
        Number of different settings to try; those that help to predict rows outside their training rows are kept and
        weighted. With 1, the first one is used.
    n_folds : int or "auto", default="auto"
        Number of networks per candidate, each validated on another part of the rows. With 1, a tenth of the rows is
        used for validation; with 0, a single candidate is trained on all rows and keeps the weights of the last epoch.
    cv : splitter or iterable, default=None
        Folds of your own: a splitter of scikit-learn, or pairs of training and validation rows. Not stored in model
        files.
    metric : str or callable, default="auto"
        What candidates are chosen by: "auto" for the loss, a name such as "accuracy", "roc_auc", "mae" or
        "poisson_deviance", or a scorer of scikit-learn.
    max_epochs : int or "auto", default="auto"
        Maximum number of passes over the training rows.
    learning_rate : float or "auto", default="auto"
        Largest learning rate of the schedule.
    batch_size : int or "auto", default="auto"
        Rows per step. "auto" makes about 64 steps per epoch on a GPU and 32 on a CPU, with 32 to 512 rows each (64 to
        512 on a CPU from 500 rows on).
    dropout : float or "auto", default="auto"
        Dropout rate in all layers but the last.
    l1, l2, l0 : float, default=0.0
        Strengths of the penalties on the edge weights. l1 with `optimizer="proximal_adam"`, and l0, yield exact zeros.
    weight_decay : float or "auto", default="auto"
        Decay of the edge weights: part of the gradient with `optimizer="adam"`, separate from it with the others.
    optimizer : {"adamw", "adam", "proximal_adam"}, default="adamw"
        AdamW, Adam, or AdamW with a proximal step for l1.
    schedule : {"cosine", "constant", "log_cosine"}, default="cosine"
        Schedule of the learning rate over all epochs.
    warmup : float, default=0.1
        Fraction of all steps in which the learning rate rises linearly to its schedule.
    patience : int, None or "auto", default="auto"
        Stop a network after this many epochs without a lower validation loss; None never stops early. In both cases the
        weights of the best epoch are kept. Ignored without validation rows. If the loss is still falling at
        `max_epochs`, this is a ConvergenceWarning, unless `patience` is None.
    scaling : {"auto", "quantile", "robust", "standard", "none"}, default="auto"
        Scaling of numeric columns.
    numeric_embedding : {"auto", "periodic", "piecewise"} or None, default="auto"
        Learned features of each numeric column: a linear map of cosines with learned frequencies, or of a piecewise
        linear encoding on quantile bins. None uses the scaled numbers.
    n_basis : int or "auto", default="auto"
        Number of cosines or bins per numeric column.
    numeric_dim : int or "auto", default="auto"
        Number of learned features per numeric column. "auto" gives fewer to each column of tables with many of them.
    frequency_scale : float or "auto", default="auto"
        Standard deviation of the initial frequencies: larger for targets that jump, smaller for smooth targets.
    screen_columns : bool or "auto", default="auto"
        Leave out columns that are not related to the target by a test on the training rows of each network; not for
        embedded columns. "auto" has a candidate that does for tables with more than 50 numbers.
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
        "cpu", "cuda", "cuda:1" and so on, or "auto" for a GPU if there is one. Others, such as "mps", are not
        supported.
    n_jobs : int or None, default=None
        Threads for training and prediction on a CPU; None uses as many as torch does (`torch.get_num_threads()`, which
        respects OMP_NUM_THREADS), -1 all cores this process may use, within the limits of its container, -2 all but
        one. Results with different numbers of threads are equal up to rounding. Not stored in model files.
    warm_start : bool, default=False
        Continue training from the current weights in `fit`, with the columns and classes of the first call. Training
        parameters may change between calls; the networks, their folds and the encoding of the columns may not.
    random_state : int, RandomState or None, default=None
        Seed of the initial weights, folds, shuffling and dropout. Pass an int for reproducible results.
    verbose : int, default=0
        0 shows nothing. 1 or more shows the networks that are done, the best validation score of any of them and the
        time left: as a bar in a terminal or notebook, elsewhere as lines of the logger "tabgnm", every 10 seconds at
        most. They go to stderr unless logging is configured.
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
        )


@dataclass(eq=False, repr=False, kw_only=True)
class ClassifierParameters:
    """Classification targets.

    class_weight : dict, "balanced", list or None, default=None
        Weights of the classes, as in scikit-learn. "balanced" is not supported by `partial_fit`.
    label_smoothing : float, default=0.0
        Fraction of each label that is spread evenly over all classes.
    calibrated : bool, default=True
        Scale the logarithms of probabilities by a temperature with the lowest log-loss on rows that the networks were
        not trained on. Predicted labels do not change.
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
        One of "squared_error", "absolute_error", "huber" and "quantile" (pinball loss), or, for targets >= 0 with a log
        link, so that predictions are positive: "poisson" for counts, "gamma" for positive amounts, and "tweedie" for
        amounts of which some are 0. "mse" is an alias of "squared_error".
    quantile : float or list of float, default=0.5
        Quantile to predict with `loss="quantile"`. A list in ascending order predicts several, which never cross, for a
        single target.
    huber_delta : float, default=1.0
        Error at which the Huber loss becomes linear, in standard deviations of the target (in units of the target if
        `scale_target=False`).
    tweedie_power : float, default=1.5
        Power of the mean that the variance is proportional to with `loss="tweedie"`, from 1.01 (almost "poisson") to
        1.99 (almost "gamma").
    scale_target : bool, default=True
        Standardise the target for training, or divide it by its mean with a log link. Predictions are in units of the
        target either way.
    target_transform : {"auto", "none", "log"}, default="auto"
        Learn the logarithm of positive targets. "auto" has candidates that do if the target has a long tail and the
        loss has no log link.
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
                f"target_transform='log' was given with loss={shown(self.loss)}, whose networks predict logarithms "
                "already; use target_transform='auto' or 'none', or another loss"
            )

    def _own_loss(self) -> Loss:
        return regression_loss(self.loss, self.quantile, self.huber_delta, self.tweedie_power)
