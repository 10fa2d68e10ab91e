"""Estimators as schema and arrays, and back."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

import tabgnm
from tabgnm.estimators import GNMClassifier, GNMRegressor, MLPClassifier, MLPRegressor
from tabgnm.estimators.base import TabularEstimator
from tabgnm.estimators.fitting import FittedNetworks
from tabgnm.estimators.targets import ClassTargets, NumberTargets, Targets
from tabgnm.modelfile.container import Arrays, ModelFileError, read, write
from tabgnm.nn import EmbeddedShape, InputEmbedding
from tabgnm.nn.shapes import GNMShape, MLPShape, Shape
from tabgnm.table import TableEncoder

ESTIMATORS: dict[str, type[TabularEstimator]] = {
    cls.__name__: cls for cls in (GNMClassifier, GNMRegressor, MLPClassifier, MLPRegressor)
}
_BODIES: dict[str, type[GNMShape] | type[MLPShape]] = {"gnm": GNMShape, "mlp": MLPShape}
_DTYPES = (torch.float32, torch.float64)


def save(estimator: TabularEstimator, path: str | Path) -> None:
    """Write a fitted estimator to a file.

    Parameters
    ----------
    estimator : GNMClassifier, GNMRegressor, MLPClassifier or MLPRegressor
    path : str or Path
        An existing file is replaced.
    """
    if type(estimator).__name__ not in ESTIMATORS:
        raise ModelFileError(f"{type(estimator).__name__} cannot be saved; expected one of {', '.join(ESTIMATORS)}")
    check_is_fitted(estimator, "fitted_")
    fitted = estimator.fitted_
    encoder, encoder_arrays = fitted.encoder.state()
    targets, target_arrays = fitted.targets.state()
    schema = {
        "tabgnm": tabgnm.__version__,
        "estimator": type(estimator).__name__,
        "parameters": {name: _plain(name, value) for name, value in estimator.get_params(deep=False).items()},
        "names": estimator._names,
        "has_names": hasattr(estimator, "feature_names_in_"),
        "n_calls": estimator._n_calls,
        "encoder": encoder,
        "targets": targets,
        "shape": _shape_schema(fitted.shape),
        "seeds": fitted.seeds,
        "histories": _without_nan(fitted.histories),
    }
    arrays = {f"networks/{name}": value.numpy() for name, value in fitted.parameters.items()}
    arrays |= {f"encoder/{name}": value for name, value in encoder_arrays.items()}
    arrays |= {f"targets/{name}": value for name, value in target_arrays.items()}
    arrays["importances"] = fitted.importances
    write(Path(path), schema, arrays)


def load(path: str | Path) -> Any:
    """Read a model file that `save` wrote. Nothing in the file is executed.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    GNMClassifier, GNMRegressor, MLPClassifier or MLPRegressor
        Fitted; its predictions are those of the estimator that was saved, bit for bit.

    Raises
    ------
    ModelFileError
        If the file is missing, damaged, no model file, or written in a newer format.
    """
    path = Path(path)
    schema, arrays = read(path)
    try:
        return _estimator(schema, arrays)
    except Exception as error:  # the content is not trusted: any failure to make sense of it is a fault of the file
        raise ModelFileError(f"{str(path)!r} does not describe a model: {type(error).__name__}: {error}") from error


def _estimator(schema: Mapping[str, Any], arrays: Arrays) -> TabularEstimator:
    cls = ESTIMATORS[schema["estimator"]]
    parameters = {name: _value(name, value) for name, value in schema["parameters"].items()}
    estimator = cls(**parameters)
    names = _strings(schema["names"])
    encoder = TableEncoder.from_state(schema["encoder"], _under("encoder/", arrays))
    targets = _targets(issubclass(cls, GNMClassifier | MLPClassifier), schema["targets"], _under("targets/", arrays))
    shape = _shape(schema["shape"])
    _same("columns of the encoder", len(encoder.columns), len(names))
    _same("inputs of the networks", shape.n_inputs, encoder.n_encoded)
    _same("outputs of the networks", shape.n_outputs, targets.n_outputs)
    seeds = [int(seed) for seed in schema["seeds"]]
    parameters_of_members = _weights(shape, len(seeds), _under("networks/", arrays))
    histories = schema["histories"]
    if not isinstance(histories, list) or not all(isinstance(history, dict) for history in histories):
        raise ModelFileError("its histories are not a list of objects")
    _same("histories", len(histories), len(seeds))
    importances = arrays["importances"]
    _same("importances", importances.shape, (len(names),))
    fitted = FittedNetworks(
        encoder, targets, shape, parameters_of_members, seeds, _with_nan(histories), importances.astype(np.float64)
    )
    estimator._n_calls = int(schema["n_calls"])
    estimator._set_fitted(fitted, names, bool(schema["has_names"]))
    return estimator


def _same(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise ModelFileError(f"{what}: {found}; expected {expected}")


def _under(prefix: str, arrays: Arrays) -> Arrays:
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}


def _strings(values: Any) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values) or not values:
        raise ModelFileError("its column names are not a list of strings")
    return values


def _weights(shape: Shape, n_members: int, arrays: Arrays) -> dict[str, torch.Tensor]:
    sizes = shape.parameter_shapes()
    _same("weights", sorted(arrays), sorted(sizes))
    weights = {}
    for name, size in sizes.items():  # in the order of the shape, as fitting leaves them
        _same(f"size of {name}", arrays[name].shape, (n_members, *size))
        weights[name] = torch.from_numpy(arrays[name])
        if weights[name].dtype not in _DTYPES or not torch.isfinite(weights[name]).all():
            raise ModelFileError(f"{name} holds {weights[name].dtype} values; expected finite float32 or float64")
    _same("types of numbers", len({value.dtype for value in weights.values()}), 1)
    return weights


# Shapes


def _shape_schema(shape: Shape) -> dict[str, Any]:
    body = shape.body if isinstance(shape, EmbeddedShape) else shape
    return {
        "kind": "gnm" if isinstance(body, GNMShape) else "mlp",
        "settings": body.settings(),
        "embedding": asdict(shape.embedding) if isinstance(shape, EmbeddedShape) else None,
    }


def _shape(schema: Mapping[str, Any]) -> Shape:
    body = _BODIES[schema["kind"]](**schema["settings"])
    if schema["embedding"] is None:
        return body
    embedding = dict(schema["embedding"])
    return EmbeddedShape(InputEmbedding(**embedding | {"levels": tuple(embedding["levels"])}), body)


# Targets


def _targets(classifies: bool, schema: Mapping[str, Any], arrays: Arrays) -> Targets:
    return ClassTargets.from_state(schema) if classifies else NumberTargets.from_state(schema, arrays)


# Parameters of estimators, and histories, in JSON


def _plain(name: str, value: Any) -> Any:
    """Return a parameter as JSON has it; {"pairs": ...} stands for a dict, {"array": ...} for a tuple."""
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return None  # where a generator stands is not a setting; a model that is fitted again draws anew
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Mapping):
        return {"pairs": [[_plain(name, key), _plain(name, own)] for key, own in value.items()]}
    if isinstance(value, tuple | list | np.ndarray):
        return {"array": [_plain(name, own) for own in value], "list": not isinstance(value, tuple)}
    if value is None or isinstance(value, bool | str | int) or (isinstance(value, float) and np.isfinite(value)):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    raise ModelFileError(f"{name}={value!r} of type {type(value).__name__} cannot be written; use plain values")


def _value(name: str, value: Any) -> Any:
    """Read what `_plain` gave."""
    if isinstance(value, dict) and set(value) == {"pairs"}:
        return {_value(name, key): _value(name, own) for key, own in value["pairs"]}
    if isinstance(value, dict) and set(value) == {"array", "list"}:
        values = [_value(name, own) for own in value["array"]]
        return values if value["list"] else tuple(values)
    if value is None or isinstance(value, bool | str | int | float):
        return value
    raise ModelFileError(f"parameter {name} is {value!r}; expected a plain value")


def _without_nan(histories: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            name: [None if own is None or not np.isfinite(own) else own for own in value]
            if isinstance(value, list)
            else value
            for name, value in history.items()
        }
        for history in histories
    ]


def _with_nan(histories: list[dict[str, Any]]) -> list[dict[str, Any]]:
    metric = ("val_accuracy", "val_r2")  # losses keep None, which is what History.as_dict gives
    return [
        {
            name: [float("nan") if own is None else own for own in value] if name in metric else value
            for name, value in history.items()
        }
        for history in histories
    ]
