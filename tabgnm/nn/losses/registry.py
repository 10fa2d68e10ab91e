"""The registry of losses by name."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from tabgnm._printable import shown
from tabgnm.nn.losses.classes import BinaryCrossEntropy, CrossEntropy, JointCrossEntropy
from tabgnm.nn.losses.deviances import Gamma, Poisson, Tweedie
from tabgnm.nn.losses.numbers import AbsoluteError, Huber, NumberLoss, Pinball, Quantiles, SquaredError
from tabgnm.nn.losses.protocol import Loss

# Losses with at most one parameter.
_BY_NAME: dict[str, type[Any]] = {
    loss.name: loss
    for loss in (
        SquaredError,
        AbsoluteError,
        Huber,
        Pinball,
        Poisson,
        Gamma,
        Tweedie,
        CrossEntropy,
        BinaryCrossEntropy,
    )
}
_OLD_NAMES = {"mse": SquaredError.name}  # used by earlier versions and their model files
_WITH_REQUIRED_ARGUMENTS = {loss.name: loss for loss in (JointCrossEntropy, Quantiles)}


def loss_names() -> tuple[str, ...]:
    """Return the names that `loss_by_name` accepts."""
    return tuple(_BY_NAME)


def number_loss_names() -> tuple[str, ...]:
    """Return the names of the losses for regression."""
    return tuple(name for name, loss in _BY_NAME.items() if issubclass(loss, NumberLoss))


def canonical_name(name: Any) -> Any:
    """Return the current name of a loss that was renamed; return any other value unchanged."""
    return _OLD_NAMES.get(name, name) if isinstance(name, str) else name


def loss_by_name(name: str, setting: float | None = None) -> Loss:
    """Return the loss with this name.

    Parameters
    ----------
    name : str
        One of `loss_names()`.
    setting : float or None, default=None
        The parameter of the loss, such as the quantile. If None, the default is used. Losses without a parameter ignore
        it.

    Examples
    --------
    >>> from tabgnm.nn import loss_by_name
    >>> loss_by_name("huber", 0.5)
    Huber(delta=0.5)
    """
    if name in _WITH_REQUIRED_ARGUMENTS:
        cls = _WITH_REQUIRED_ARGUMENTS[name]
        raise ValueError(f"loss={shown(name)} requires arguments; pass an instance of {cls.__name__} instead")
    loss = _BY_NAME.get(canonical_name(name))
    if loss is None:
        raise ValueError(f"loss={shown(name)} is not known; use one of {', '.join(map(repr, _BY_NAME))}")
    instance: Loss = loss() if setting is None or not fields(loss) else loss(setting)
    return instance


def loss_settings(loss: Loss) -> dict[str, Any]:
    """Return the instance attributes of a loss by name, from its `__dict__` and its `__slots__`."""
    found = dict(getattr(loss, "__dict__", {}))
    for cls in type(loss).__mro__:
        own = vars(cls).get("__slots__", ())
        for name in (own,) if isinstance(own, str) else own:
            # Python mangles names that start with two underscores.
            stored = f"_{cls.__name__.lstrip('_')}{name}" if name.startswith("__") and not name.endswith("__") else name
            if stored not in ("__dict__", "__weakref__") and hasattr(loss, stored):
                found[stored] = getattr(loss, stored)
    return found
