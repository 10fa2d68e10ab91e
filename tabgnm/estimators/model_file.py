"""Saving estimators to model files and loading them, in the format of `tabgnm.modelfile`."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

import tabgnm
from tabgnm.estimators.base import TabularEstimator
from tabgnm.estimators.classifier import TabularClassifier
from tabgnm.estimators.fitting import FittedNetworks, full_shape
from tabgnm.estimators.fixed_parameters import changed_since
from tabgnm.estimators.models import GNMClassifier, GNMRegressor, MLPClassifier, MLPRegressor
from tabgnm.estimators.parameters import GNMParameters
from tabgnm.estimators.targets import ClassTargets, NumberTargets, Targets
from tabgnm.modelfile import files, plain_values
from tabgnm.modelfile.container import Container, pack, unpack
from tabgnm.modelfile.errors import ModelFileError, cause, shown
from tabgnm.modelfile.tensors import Arrays
from tabgnm.nn import EmbeddedShape
from tabgnm.nn.shapes import GNMShape, MLPShape, Shape
from tabgnm.table import TableEncoder

ESTIMATORS: dict[str, type[TabularEstimator]] = {
    cls.__name__: cls for cls in (GNMClassifier, GNMRegressor, MLPClassifier, MLPRegressor)
}
# The layers of a tied machine share their weights, so the size of the file does not bound the time of a prediction.
MOST_LAYERS = 4096
_PREFIXES = ("networks/", "encoder/", "targets/")
_KEYS = {
    "tabgnm",
    "estimator",
    "parameters",
    "has_names",
    "n_calls",
    "encoder",
    "targets",
    "shape",
    "seeds",
    "histories",
}
# Values at the time of the fit, of parameters that have changed since. Left out if there are none.
_FITTED_WITH = "fitted_with"
# How many threads to use is a matter of the machine, not of the model.
_NOT_STORED = {"n_jobs"}


def save(estimator: TabularEstimator, path: str | Path) -> None:
    """Write a fitted estimator to a file, see `TabularEstimator.save`."""
    files.replace(Path(path), to_bytes(estimator))


def load(path: str | Path) -> Any:
    """Load an estimator from a model file that its `save` wrote. Loading runs no code from the file.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    GNMClassifier, GNMRegressor, MLPClassifier or MLPRegressor
        Fitted; on the same machine its predictions are bit for bit those of the saved estimator. Its `n_jobs` is None.

    Raises
    ------
    ModelFileError
        If the file is missing, damaged, not a model file, or written in a newer format.

    Examples
    --------
    >>> import tabgnm
    >>> model = tabgnm.MLPRegressor(hidden=(4,), max_epochs=2).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    >>> model.save("small.tabgnm")
    >>> same = tabgnm.load("small.tabgnm")
    >>> bool((same.predict([[0.5]]) == model.predict([[0.5]])).all())
    True
    """
    path = Path(path)
    with files.opened(path) as (file, size):
        return _guarded(repr(str(path)), lambda: _estimator(unpack(file, size)))


def to_bytes(estimator: TabularEstimator) -> bytes:
    """Return the content of the model file of a fitted estimator."""
    if ESTIMATORS.get(type(estimator).__name__) is not type(estimator):
        raise ModelFileError(f"{type(estimator).__name__} cannot be saved; expected one of {', '.join(ESTIMATORS)}")
    check_is_fitted(estimator, "fitted_")
    content = pack(*_described(estimator))
    # Make sure that the file can be loaded before an existing file is replaced.
    _guarded("this model cannot be saved", lambda: from_bytes(content))
    return content


def from_bytes(content: bytes) -> TabularEstimator:
    """Return the estimator of a model file; raise ModelFileError if it is invalid."""
    return _guarded("the model file", lambda: _estimator(unpack(io.BytesIO(content), len(content))))


def _guarded(subject: str, read: Callable[[], TabularEstimator]) -> TabularEstimator:
    try:
        return read()
    except ModelFileError as error:
        raise ModelFileError(f"{subject}: {error}") from error.__cause__
    except Exception as error:  # the content is not trusted: any failure is a fault of the file
        raise ModelFileError(f"{subject} does not describe a model: {type(error).__name__}: {cause(error)}") from error


# Writing


def _described(estimator: TabularEstimator) -> tuple[dict[str, Any], Arrays]:
    fitted = estimator.fitted_
    encoder, encoder_arrays = fitted.encoder.state()
    try:
        targets, target_arrays = fitted.targets.state()
    except ValueError as error:  # labels of a type that JSON does not have
        raise ModelFileError(str(error)) from None
    body = fitted.shape.body if isinstance(fitted.shape, EmbeddedShape) else fitted.shape
    parameters = {name: value for name, value in estimator.get_params(deep=False).items() if name not in _NOT_STORED}
    schema = {
        "tabgnm": tabgnm.__version__,
        "estimator": type(estimator).__name__,
        "parameters": {name: plain_values.plain(name, value) for name, value in parameters.items()},
        "has_names": hasattr(estimator, "feature_names_in_"),
        "n_calls": estimator._n_calls,
        "encoder": encoder,
        "targets": targets,
        "shape": body.settings(),
        "seeds": fitted.seeds,
        "histories": [plain_values.plain_history(history) for history in fitted.histories],
    }
    changed = changed_since(estimator)
    if changed:
        schema[_FITTED_WITH] = {name: plain_values.plain(name, value) for name, value in changed.items()}
    arrays = {f"networks/{name}": value.numpy() for name, value in fitted.parameters.items()}
    arrays |= {f"encoder/{name}": value for name, value in encoder_arrays.items()}
    arrays |= {f"targets/{name}": value for name, value in target_arrays.items()}
    arrays["importances"] = fitted.importances
    return schema, arrays


# Reading


def _estimator(container: Container) -> TabularEstimator:
    schema = container.schema
    _same("entries of its schema", sorted(set(schema) - {_FITTED_WITH}), sorted(_KEYS))
    name = schema["estimator"]
    if not isinstance(name, str) or name not in ESTIMATORS:
        raise ModelFileError(f"its estimator is {shown(name)}; expected one of {', '.join(ESTIMATORS)}")
    if not isinstance(schema["tabgnm"], str) or len(schema["tabgnm"]) > 100:
        raise ModelFileError(f"it was written by tabgnm {shown(schema['tabgnm'])}; expected a version")
    strange = [name for name in container.tensors if not name.startswith(_PREFIXES) and name != "importances"]
    _same("arrays of unknown use", strange, [])
    estimator = _unfitted(ESTIMATORS[name], schema["parameters"])
    encoder_arrays, target_arrays = container.arrays("encoder/"), container.arrays("targets/")
    encoder = TableEncoder.from_state(schema["encoder"], encoder_arrays)
    targets: Targets
    if isinstance(estimator, TabularClassifier):
        _same("arrays of its targets", sorted(target_arrays), [])
        targets = ClassTargets.from_state(schema["targets"])
    else:
        targets = NumberTargets.from_state(schema["targets"], target_arrays)
    shape = _shape(isinstance(estimator, GNMParameters), schema["shape"], encoder, targets.n_outputs)
    seeds = _seeds(schema["seeds"])
    histories = schema["histories"]
    if not isinstance(histories, list) or len(histories) != len(seeds):
        raise ModelFileError(f"its histories are {shown(histories)}; expected one for each of {len(seeds)} members")
    _check_weights(shape, len(seeds), container)
    networks = container.arrays("networks/")
    fitted = FittedNetworks(
        encoder,
        targets,
        shape,
        {name: _weights(name, networks[name]) for name in shape.parameter_shapes()},
        seeds,
        [plain_values.history(history, targets.metric_name) for history in histories],
        _importances(container, encoder.n_columns),
    )
    if type(schema["has_names"]) is not bool:
        raise ModelFileError(f"has_names is {shown(schema['has_names'])}; expected true or false")
    estimator._n_calls = _count("its number of calls", schema["n_calls"], 1)
    estimator._set_fitted(fitted, [plan.name for plan in encoder.plans], schema["has_names"])
    estimator._fixed |= _fitted_with(estimator, schema.get(_FITTED_WITH, {}))
    return estimator


def _fitted_with(estimator: TabularEstimator, values: Any) -> dict[str, Any]:
    """Return the values at the time of the fit, of parameters that have changed since."""
    if not isinstance(values, dict) or not set(values) <= set(estimator._fixed):
        raise ModelFileError(f"it was fitted with {shown(values)}; expected parameters that a fit fixes")
    return {name: plain_values.parameter(name, value) for name, value in values.items()}


def _same(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise ModelFileError(f"{what}: {shown(found, 300)}; expected {shown(expected, 300)}")


def _count(what: str, value: Any, smallest: int) -> int:
    if type(value) is not int or not smallest <= value < 2**31:
        raise ModelFileError(f"{what} is {shown(value)}; expected an integer from {smallest} to 2**31 - 1")
    return value


def _unfitted(cls: type[TabularEstimator], values: Any) -> TabularEstimator:
    """Return an estimator with these parameters, and defaults for those that the file does not have."""
    known = set(cls._get_param_names()) - _NOT_STORED
    if not isinstance(values, dict) or not set(values) <= known:
        unknown = sorted(set(values) - known) if isinstance(values, dict) else values
        raise ModelFileError(f"{cls.__name__} has no such parameters: {shown(unknown)}; try a newer tabgnm")
    parameters = {name: plain_values.parameter(name, value) for name, value in values.items()}
    estimator = cls(**parameters)
    device = estimator.device
    try:
        if not isinstance(device, str) or (device != "auto" and torch.device(device) is None):
            raise RuntimeError
    except RuntimeError:  # the only stored parameter that predictions use
        raise ModelFileError(f"device={shown(device)} is not known; use 'auto', 'cpu' or 'cuda'") from None
    return estimator


def _shape(is_gnm: bool, settings: Any, encoder: TableEncoder, n_outputs: int) -> Shape:
    """Return the shape of the networks, with the embedding of the encoder."""
    if not isinstance(settings, Mapping):
        raise ModelFileError(f"its shape is {shown(settings)}; expected an object")
    depth = settings.get("n_layers") if is_gnm else settings.get("hidden")
    n_layers = len(depth) + 1 if isinstance(depth, list) else depth
    if type(n_layers) is not int or not 1 <= n_layers <= MOST_LAYERS:
        raise ModelFileError(f"its networks have {shown(n_layers)} layers; expected 1 to {MOST_LAYERS}")
    body = GNMShape(**settings) if is_gnm else MLPShape(**settings)
    _same("outputs of its networks", body.n_outputs, n_outputs)
    shape = full_shape(encoder, lambda *_: body, n_outputs)
    _same("inputs of its networks", shape.n_inputs, encoder.n_encoded)
    return shape


def _seeds(values: Any) -> list[int]:
    if not isinstance(values, list) or not values:
        raise ModelFileError(f"its seeds are {shown(values)}; expected one for each member")
    return [_count("a seed", seed, 0) for seed in values]


def _check_weights(shape: Shape, n_members: int, container: Container) -> None:
    """Check the sizes of the weights against the shape before they are read."""
    found = {
        name.removeprefix("networks/"): tensor
        for name, tensor in container.tensors.items()
        if name.startswith("networks/")
    }
    sizes = shape.parameter_shapes()
    _same("weights", sorted(found), sorted(sizes))
    for name, size in sizes.items():
        _same(f"shape of {name}", found[name].shape, (n_members, *size))
    types = sorted({tensor.dtype.name for tensor in found.values()})
    if types not in (["float32"], ["float64"]):
        raise ModelFileError(f"its weights are of type {', '.join(types)}; expected float32 or float64")


def _weights(name: str, array: Any) -> torch.Tensor:
    weights = torch.from_numpy(array)
    if not torch.isfinite(weights).all():
        raise ModelFileError(f"the weights {name} are not finite numbers; fit again with a smaller learning_rate")
    return weights


def _importances(container: Container, n_columns: int) -> Any:
    importances = container.arrays("importances").get("")
    if importances is None or importances.dtype != np.float64 or importances.shape != (n_columns,):
        raise ModelFileError(f"the importances of its columns are not {n_columns} numbers of type float64")
    if not np.isfinite(importances).all():
        raise ModelFileError("the importances of its columns are not finite numbers")
    return importances
