"""Settings of a fleet: those that all its models share, and those of each model."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tabgnm._printable import shown
from tabgnm.nn.checks import check_choice, finite_number, positive_integer
from tabgnm.nn.losses import Loss, LossWithMetric, loss_by_name
from tabgnm.nn.network import dropout_rate
from tabgnm.training.threads import MAX_THREADS, thread_count

PRECISIONS = ("float32", "float64", "tf32", "bf16")
OPTIMIZERS = ("adam", "adamw", "proximal_adam")
SCHEDULES = ("constant", "cosine", "log_cosine")


def torch_device(wanted: str) -> torch.device:
    """Return the torch device for 'auto', 'cpu', 'cuda' or 'cuda:1'."""
    name = wanted
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device={shown(wanted)} is not known; use 'auto', 'cpu' or 'cuda'") from None
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"device={shown(wanted)} is not supported; use 'cpu', 'cuda' for an NVIDIA GPU, or 'auto'")
    if device.type == "cuda":
        n_devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if n_devices == 0:
            raise ValueError(
                f"device={shown(wanted)} is not available, because torch finds no CUDA device; use device='auto' or "
                "'cpu'"
            )
        if (device.index or 0) >= n_devices:
            raise ValueError(
                f"device={shown(wanted)} is not available, because torch finds {n_devices} CUDA devices; use 'cuda:0' "
                f"to 'cuda:{n_devices - 1}'"
            )
    return device


class _LossOrName:
    """A required field of a dataclass that accepts a loss or its name, and always returns the loss.

    It is a descriptor, because only a descriptor can have different types for setting and getting.
    """

    def __get__(self, settings: FleetSettings | None, owner: type) -> Loss:
        if settings is None:
            raise AttributeError("loss has no default")
        loss: Loss = vars(settings)["loss"]
        return loss

    def __set__(self, settings: FleetSettings, value: Loss | str) -> None:
        missing = [name for name in ("per_row", "gradient", "check") if not hasattr(value, name)]
        if not isinstance(value, str) and (isinstance(value, type) or missing):
            lacks = f", as it has no method {missing[0]}" if len(missing) in (1, 2) else ""
            raise TypeError(
                f"loss={shown(value)} is not a loss{lacks}; use an object such as CrossEntropy(), or a name such as "
                "'cross_entropy'"
            )
        vars(settings)["loss"] = loss_by_name(value) if isinstance(value, str) else value


@dataclass(frozen=True)
class FleetSettings:
    """The settings that all models of a fleet share.

    Parameters
    ----------
    loss : Loss or str
        The loss: an object of `tabgnm.nn` such as `CrossEntropy()`, or one of `tabgnm.nn.loss_names()`.
    max_epochs : int, default=300
        The maximum number of passes over the training rows.
    batch_size : int, default=64
        The number of rows per training step. If a model has fewer training rows, all of them are used.
    patience : int or None, default=None
        The number of epochs without a lower validation loss after which training of a model stops. If None, training
        never stops early. In both cases, the weights of the epoch with the lowest validation loss are kept, or those of
        the last epoch without validation rows.
    optimizer : {"adam", "adamw", "proximal_adam"}, default="adam"
        The optimizer. `weight_decay` is added to the gradient with "adam" and decoupled from it with the others.
        "proximal_adam" applies `l1` by soft thresholding after each step, which yields exact zeros; the others use its
        subgradient.
    schedule : {"constant", "cosine", "log_cosine"}, default="constant"
        The schedule of the learning rate over all steps: constant, a cosine that decreases to 0, or the four log-spaced
        waves of RealMLP.
    warmup : float, default=0.0
        The fraction of the training steps during which the learning rate increases linearly from 0.
    betas, eps : floats, default=(0.9, 0.999), 1e-8
        The parameters of Adam.
    precision : {"float32", "float64", "tf32", "bf16"}, default="float32"
        The floating-point precision. "tf32" and "bf16" allow faster matrix products on a GPU; weights and learned
        embeddings remain in float32. Networks that `CudaStep` does not support use float32 instead of "tf32".
    device : str, default="cpu"
        The device: "cpu", "cuda", "cuda:1" and so on. "auto" uses a GPU if one is available. A `FleetPlan` on "auto" or
        "cuda" uses all GPUs of the same model.
    n_threads : int or None, default=None
        The number of threads on a CPU. If None, `torch.get_num_threads()`.
    metric : bool, default=False
        Whether to record the validation metric of each model after every epoch in `History.val_metric`: the mean of
        `metric_per_row` of the loss, which is the accuracy for classes and the mean squared error for numbers.
    held_out_outputs : bool, default=False
        Whether to keep `TrainedModel.val_outputs`: the outputs for each half of the validation rows (see
        `Member.val_halves`) at the epoch with the lowest loss of the other half. They are only kept if models have at
        most 4,096 validation rows and 131,072 outputs for them. Not available with checkpoints.
    input_groups : tuple of int or None, default=None
        The group of each input of the network, counted from 0, for `Member.group_l1`.
    """

    loss: _LossOrName = _LossOrName()
    max_epochs: int = 300
    batch_size: int = 64
    patience: int | None = None
    optimizer: str = "adam"
    schedule: str = "constant"
    warmup: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    precision: str = "float32"
    device: str = "cpu"
    n_threads: int | None = None
    metric: bool = False
    held_out_outputs: bool = False
    input_groups: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("max_epochs", "batch_size", "patience", "n_threads"):
            if getattr(self, name) is not None or name in ("max_epochs", "batch_size"):
                object.__setattr__(self, name, positive_integer(name, getattr(self, name)))
        if (self.n_threads or 1) > MAX_THREADS:
            raise ValueError(f"n_threads={shown(self.n_threads)} is out of range; expected at most {MAX_THREADS}")
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_choice("schedule", self.schedule, SCHEDULES)
        check_choice("precision", self.precision, PRECISIONS)
        if not isinstance(self.warmup, numbers.Real) or not 0 <= self.warmup < 1:
            raise ValueError(f"warmup={shown(self.warmup)} is out of range; expected a fraction of the steps in [0, 1)")
        if (
            not isinstance(self.betas, Sequence)
            or len(self.betas) != 2
            or not all(0 <= beta < 1 for beta in self.betas)
        ):
            raise ValueError(f"betas={shown(self.betas)} are out of range; expected two numbers in [0, 1)")
        finite_number("eps", self.eps, positive=True)
        for name in ("metric", "held_out_outputs"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name}={shown(getattr(self, name))} is not a bool; use True or False")
        if self.metric and not isinstance(self.loss, LossWithMetric):
            raise ValueError(
                f"metric=True requires a loss with a metric, but {type(self.loss).__name__} has none; add a method "
                "metric_per_row(outputs, targets), or use metric=False"
            )
        if self.input_groups is not None:
            groups = tuple(positive_integer("input_groups", group, smallest=0) for group in self.input_groups)
            object.__setattr__(self, "input_groups", groups)
        object.__setattr__(self, "betas", tuple(self.betas))

    def torch_device(self) -> torch.device:
        """Return the device to train on."""
        device = torch_device(self.device)
        if device.type == "cpu" and self.precision in ("tf32", "bf16"):
            raise ValueError(f"precision={shown(self.precision)} requires a GPU; use 'float32' or 'float64' on a CPU")
        return device

    def thread_count(self) -> int:
        """Return the number of threads to use on a CPU."""
        return thread_count(self.n_threads)

    @property
    def dtype(self) -> torch.dtype:
        """The type of the weights."""
        return torch.float64 if self.precision == "float64" else torch.float32


@dataclass(frozen=True, eq=False)
class Member:
    """The settings of one model.

    Parameters
    ----------
    train : 1-D tensor of int64 or None, default=None
        The rows of its table to train on. If None, all rows.
    val : 1-D tensor of int64 or None, default=None
        The rows to validate on after every epoch. If None, there is no validation, and the weights of the last epoch
        are kept.
    val_halves : 1-D tensor of bool or None, default=None
        The half to which each row of `val` belongs, for `FleetSettings.held_out_outputs`. If None, rows at even and odd
        positions.
    seed : int, default=0
        The seed of the initial weights, shuffling, dropout and gates.
    learning_rate : float, default=1e-3
        The learning rate before the schedule and the warm-up.
    weight_decay : float, default=0.0
        See `FleetSettings.optimizer`.
    dropout : float, default=0.0
        The probability that a hidden node is dropped in a training step.
    l1, l2, l0 : float, default=0.0
        The strengths of the penalties on the edges. `l0` uses hard-concrete gates.
    l1_factors : mapping from str to Tensor or None, default=None
        Factors of `l1` for each edge, by the name of the parameter; for "proximal_adam" only. An edge with a factor
        of infinity is 0 after the first step, even without `l1`; one with a factor of 0 is not penalized.
    group_l1 : float, default=0.0
        The strength of a group lasso penalty on the edges from the inputs of each group, see
        `FleetSettings.input_groups`; for "proximal_adam" only.
    table : int, default=0
        The index of its table in the sequence passed to `Fleet.fit` (folds may be preprocessed differently).
    sample_weight : 1-D tensor of floats or None, default=None
        One weight per row of its table. Weights are scaled to a mean of 1 over the training (or validation) rows.
    frequency_scale : float or None, default=None
        The standard deviation of the initial frequencies of periodic embeddings. If None, that of the shape.
    start : mapping from str to Tensor or None, default=None
        The initial parameters by name, e.g. the `parameters` of a TrainedModel to continue training. If None, they are
        drawn at random. With an l0 penalty, these are the weights without their gates, which are initialized as usual.
    """

    train: Tensor | None = None
    val: Tensor | None = None
    val_halves: Tensor | None = None
    seed: int = 0
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    dropout: float = 0.0
    l1: float = 0.0
    l2: float = 0.0
    l0: float = 0.0
    l1_factors: Mapping[str, Tensor] | None = None
    group_l1: float = 0.0
    table: int = 0
    sample_weight: Tensor | None = None
    frequency_scale: float | None = None
    start: Mapping[str, Tensor] | None = None

    def __post_init__(self) -> None:
        for name in ("learning_rate", "weight_decay", "l1", "l2", "l0", "group_l1"):
            object.__setattr__(self, name, finite_number(name, getattr(self, name)))
        object.__setattr__(self, "dropout", dropout_rate(self.dropout))
        if self.frequency_scale is not None:
            finite_number("frequency_scale", self.frequency_scale, positive=True)
        object.__setattr__(self, "table", positive_integer("table", self.table, smallest=0))
        if isinstance(self.seed, bool) or not hasattr(self.seed, "__index__"):
            raise TypeError(f"seed={shown(self.seed)} has type {type(self.seed).__name__}; expected an integer")
        object.__setattr__(self, "seed", int(self.seed))
        for name in ("train", "val", "sample_weight"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, torch.as_tensor(getattr(self, name)))
        if self.val_halves is not None:
            is_second = torch.as_tensor(self.val_halves)
            if self.val is None or is_second.shape != self.val.shape or is_second.dtype != torch.bool:
                raise ValueError(
                    f"val_halves has dtype {is_second.dtype} and shape {tuple(is_second.shape)}; expected one boolean "
                    "per row of val"
                )
            object.__setattr__(self, "val_halves", is_second)
        if self.l1_factors is not None:
            own = {name: torch.as_tensor(factors) for name, factors in self.l1_factors.items()}
            object.__setattr__(self, "l1_factors", own)
        for name, factors in (self.l1_factors or {}).items():
            if bool((factors.isnan() | (factors < 0)).any()):
                raise ValueError(
                    f"l1_factors[{shown(name)}] has a factor that is negative or NaN; expected numbers >= 0"
                )
        if self.start is not None:
            if not isinstance(self.start, Mapping):
                raise TypeError(f"start is a {type(self.start).__name__}; expected a mapping from names to tensors")
            start = {name: torch.as_tensor(value).detach() for name, value in self.start.items()}
            for name, value in start.items():
                if not torch.isfinite(value).all():
                    raise ValueError(f"start[{shown(name)}] contains NaN or infinity; expected finite numbers")
            object.__setattr__(self, "start", start)
