"""Restoring an estimator from the content of a model file; every value is checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from tabgnm._files.tensors import Arrays
from tabgnm._printable import shown
from tabgnm.estimators import first_version
from tabgnm.estimators.base import TabularEstimator
from tabgnm.estimators.candidates import BASE
from tabgnm.estimators.classifier import TabularClassifier
from tabgnm.estimators.fitting import FittedPack, NetworkGroup, full_shape
from tabgnm.estimators.gnm_classifier import GNMClassifier
from tabgnm.estimators.gnm_regressor import GNMRegressor
from tabgnm.estimators.mlp_classifier import MLPClassifier
from tabgnm.estimators.mlp_regressor import MLPRegressor
from tabgnm.estimators.model_description import FITTED_WITH, NOT_STORED, PATH, TARGET_NAME, TARGET_NAMES, WEIGHTED
from tabgnm.estimators.model_limits import (
    MAX_GROUPS,
    MAX_LAYERS,
    MAX_NETWORKS,
    check_encoders,
    check_names,
    check_outputs,
    check_work,
)
from tabgnm.estimators.model_path import checked_importances, read_path
from tabgnm.estimators.parameters import GNMParameters
from tabgnm.estimators.targets import ClassTargets, NumberTargets, Targets
from tabgnm.modelfile import plain_values
from tabgnm.modelfile.checks import check_count, check_keys, check_list, check_positive, check_same
from tabgnm.modelfile.container import Container
from tabgnm.modelfile.errors import ModelFileError
from tabgnm.nn.network import dropout_rate
from tabgnm.nn.shapes import GNMShape, MLPShape, Shape, body_of
from tabgnm.table import TableEncoder

ESTIMATORS: dict[str, type[TabularEstimator]] = {
    cls.__name__: cls for cls in (GNMClassifier, GNMRegressor, MLPClassifier, MLPRegressor)
}
_KEYS = {
    "tabgnm",
    "estimator",
    "parameters",
    "has_names",
    "n_calls",
    "encoders",
    "targets",
    "groups",
    "candidates",
    "scores",
    "temperature",
    "n_left_out",
    "fold_seed",
}
_GROUP_KEYS = {"settings", "weight", "encoder", "targets", "shape", "seeds", "folds", "histories"}
# Settings of a group that are required to continue training its networks.
_TRAINED_WITH = {"learning_rate", "weight_decay", "dropout"}


def estimator_of(container: Container) -> TabularEstimator:
    """Return the estimator that a model file describes; any exception means that the file is invalid."""
    if container.version == 1:
        container = first_version.converted(container)
    schema = container.schema
    check_keys(
        "entries of its schema", schema, _KEYS, optional={FITTED_WITH, PATH, TARGET_NAME, TARGET_NAMES, WEIGHTED}
    )
    name = schema["estimator"]
    if not isinstance(name, str) or name not in ESTIMATORS:
        raise ModelFileError(f"its estimator is {shown(name)}; expected one of {', '.join(ESTIMATORS)}")
    if not isinstance(schema["tabgnm"], str) or len(schema["tabgnm"]) > 100:
        raise ModelFileError(f"it was written by tabgnm {shown(schema['tabgnm'])}; expected a version number")
    estimator = _unfitted(ESTIMATORS[name], schema["parameters"])
    reader = _Reader(container.arrays)
    n_weights = sum(array.size for array_name, array in container.arrays.items() if "/networks/" in array_name)
    encoders = _encoders(schema["encoders"], reader, n_weights)
    names = [plan.name for plan in encoders[0].plans]
    targets = _targets(estimator, schema["targets"], reader.arrays("targets"))
    check_same("transform of its targets", targets.transform, "none")
    check_outputs(targets.n_outputs, n_weights)
    groups = _groups(estimator, schema["groups"], encoders, targets, reader)
    fitted = FittedPack(
        groups,
        targets,
        _importances(reader, encoders[0].n_columns),
        _candidates(schema["candidates"]),
        _scores(schema["scores"], targets),
        check_positive("its temperature", schema["temperature"], 0.01, 100.0),
        _residuals(reader, groups, targets),
        check_count("its number of left-out rows", schema["n_left_out"], 0),
        check_count("the seed of its folds", schema["fold_seed"], 0),
        schema.get(WEIGHTED, False),
    )
    if type(fitted.weighted) is not bool:
        raise ModelFileError(f"weighted is {shown(fitted.weighted)}; expected true or false")
    if fitted.residuals and not fitted.n_left_out:
        raise ModelFileError("it has absolute errors on left-out rows, but its number of left-out rows is 0")
    path = read_path(schema[PATH], reader.arrays, fitted) if PATH in schema else None
    reader.check_all_used()
    check_work(fitted, n_weights)
    if type(schema["has_names"]) is not bool:
        raise ModelFileError(f"has_names is {shown(schema['has_names'])}; expected true or false")
    estimator._n_calls = check_count("its number of calls", schema["n_calls"], 1)
    estimator._oof_values = None
    if path is not None:
        estimator._path, estimator._path_fitted = path
    estimator._set_fitted(fitted, names, schema["has_names"])
    if TARGET_NAME in schema:
        estimator.target_name_ = _target_name(schema[TARGET_NAME])
    if TARGET_NAMES in schema:
        estimator.target_names_ = _target_names(schema[TARGET_NAMES], targets)
    estimator._fixed |= _fitted_with(estimator, schema.get(FITTED_WITH, {}))
    return estimator


def _target_name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise ModelFileError(f"the name of its target is {shown(name)}; expected a non-empty string")
    return name


def _target_names(names: Any, targets: Targets) -> list[str]:
    n_targets = len(targets.classes) if isinstance(targets, ClassTargets) else targets.n_targets
    if not isinstance(names, list) or len(names) != n_targets or n_targets < 2:
        raise ModelFileError(f"the names of its targets are {shown(names)}; expected a list with a name for each")
    return [_target_name(name) for name in names]


class _Reader:
    """Returns arrays by the folder in their names, and keeps track of folders that were not requested."""

    def __init__(self, arrays: Arrays) -> None:
        self._folders: dict[str, Arrays] = {}
        for name, array in arrays.items():
            folder, _, own = name.rpartition("/")
            if own in self._folders.setdefault(folder, {}):  # "a" and "/a"
                raise ModelFileError(f"it has two arrays with the name {shown(name)}")
            self._folders[folder][own] = array

    def arrays(self, folder: str) -> Arrays:
        """Return the arrays in a folder, by the rest of their names."""
        return self._folders.pop(folder, {})

    def check_all_used(self) -> None:
        """Raise if the file has unused arrays."""
        unused = [f"{folder}/{name}" for folder, arrays in self._folders.items() for name in arrays]
        check_same("unused arrays", sorted(unused), [])


def _encoders(schema: Any, reader: _Reader, n_weights: int) -> list[TableEncoder]:
    encoders: list[TableEncoder] = []
    n_characters = 0
    for place, own in enumerate(check_list("encoders", schema, MAX_GROUPS)):
        encoder = TableEncoder.from_state(own, reader.arrays(f"encoders/{place}"))
        encoders.append(encoder)
        n_characters += sum(map(len, encoder.encoded_names))
        check_names(n_characters)
        names = [plan.name for plan in encoder.plans]
        check_same("columns of its encoders", names, [plan.name for plan in encoders[0].plans])
        ways = [[(plan.kind, plan.reading) for plan in own.plans] for own in (encoder, encoders[0])]
        if ways[0] != ways[1]:  # reading a column in many ways would make predictions slow
            raise ModelFileError(
                "its encoders read a column in different ways; expected the same kind and text format in all of them"
            )
    check_encoders(encoders, n_weights)
    return encoders


def _targets(estimator: TabularEstimator, schema: Any, arrays: Arrays) -> Targets:
    if isinstance(estimator, TabularClassifier):
        check_same("arrays of its targets", sorted(arrays), [])
        return ClassTargets.from_state(schema)
    return NumberTargets.from_state(schema, arrays)


def _groups(
    estimator: TabularEstimator, schema: Any, encoders: list[TableEncoder], targets: Targets, reader: _Reader
) -> list[NetworkGroup]:
    groups: list[NetworkGroup] = []
    n_layers = 0
    for place, own in enumerate(check_list("groups", schema, MAX_GROUPS)):
        groups.append(_group(estimator, own, f"groups/{place}", encoders, targets, reader))
        n_layers += body_of(groups[-1].shape).n_layers
        if n_layers > MAX_LAYERS:
            raise ModelFileError(f"its groups have {n_layers} layers or more; expected at most {MAX_LAYERS}")
    check_same("number types of its groups", len({group.dtype for group in groups}), 1)
    check_same("encoders that no group uses", len(encoders) - len({id(group.encoder) for group in groups}), 0)
    return groups


def _group(
    estimator: TabularEstimator,
    schema: Any,
    folder: str,
    encoders: list[TableEncoder],
    targets: Targets,
    reader: _Reader,
) -> NetworkGroup:
    check_keys("entries of a group", schema, _GROUP_KEYS)
    encoder = encoders[check_count("the encoder of a group", schema["encoder"], 0, len(encoders) - 1)]
    own_targets = _group_targets(estimator, schema["targets"], reader.arrays(f"{folder}/targets"), targets)
    shape = _shape(isinstance(estimator, GNMParameters), schema["shape"], encoder, targets.n_outputs)
    seeds = [check_count("a seed", seed, 0) for seed in check_list("seeds", schema["seeds"], MAX_NETWORKS)]
    folds = [
        check_count("a fold", fold, 0, MAX_NETWORKS) for fold in check_list("folds", schema["folds"], MAX_NETWORKS)
    ]
    histories = check_list("histories", schema["histories"], MAX_NETWORKS)
    check_same("numbers of folds and histories", [len(folds), len(histories)], [len(seeds)] * 2)
    networks = reader.arrays(f"{folder}/networks")
    _check_weights(shape, len(seeds), networks)
    return NetworkGroup(
        _settings(schema["settings"]),
        check_positive("the weight of a group", schema["weight"], 1e-12, 1.0),
        encoder,
        own_targets,
        shape,
        {name: _weights(name, networks[name]) for name in shape.parameter_shapes()},
        seeds,
        folds,
        [plain_values.history(history, targets.metric_name) for history in histories],
    )


def _group_targets(estimator: TabularEstimator, schema: Any, arrays: Arrays, base: Targets) -> Targets:
    """Return the targets that a group learns: those of the pack, or a transform of them."""
    if schema is None:
        check_same("arrays of the targets of a group", sorted(arrays), [])
        return base
    own = _targets(estimator, schema, arrays)
    if not isinstance(own, NumberTargets) or not isinstance(base, NumberTargets) or own.transform == base.transform:
        raise ModelFileError(f"the targets of a group are {shown(schema)}; expected null, or a transform of numbers")
    alike = ("n_outputs", "one_dimensional", "loss")
    check_same("targets of a group", [getattr(own, name) for name in alike], [getattr(base, name) for name in alike])
    return own


def _settings(values: Any) -> dict[str, Any]:
    """Return the settings of a candidate. They are used to continue training, not to predict."""
    if not isinstance(values, dict) or not _TRAINED_WITH <= set(values) <= set(BASE):
        raise ModelFileError(f"the settings of a group are {shown(values)}; expected some of {', '.join(BASE)}")
    settings = {name: plain_values.parameter(name, value) for name, value in values.items()}
    dropout_rate(settings["dropout"])  # the only setting that `members_` uses
    return settings


def _candidates(values: Any) -> list[dict[str, Any]]:
    records = [plain_values.record(own) for own in check_list("candidates", values, 10 * MAX_GROUPS, smallest=0)]
    for record in records:  # records with different keys could make the table `pack_` huge
        check_same("entries of its candidates", list(record), list(records[0]))
    return records


def _scores(values: Any, targets: Targets) -> dict[str, float]:
    scores = plain_values.scores(values)
    if targets.metric_name == "d2" and "r2" in scores:
        return {}  # of an early file: R² is not defined for quantiles
    if scores and targets.metric_name not in scores:
        raise ModelFileError(f"its scores are {shown(values)}; expected {targets.metric_name} among them")
    return scores


def _residuals(reader: _Reader, groups: list[NetworkGroup], targets: Targets) -> list[Any]:
    """Return the absolute errors on left-out rows, by fold."""
    arrays = reader.arrays("residuals")
    if not arrays:
        return []
    if not isinstance(targets, NumberTargets):
        raise ModelFileError("it has absolute errors, but is not a regressor")
    check_same("folds with absolute errors", sorted(arrays), sorted(str(fold) for fold in range(len(arrays))))
    kept = {fold for group in groups for fold in group.folds}
    kept = {0} if len(arrays) == 1 else kept  # all folds left out the same rows
    if max(kept) >= len(arrays) or not any(len(arrays[str(fold)]) for fold in kept):
        raise ModelFileError(f"it has absolute errors of {len(arrays)} folds; expected those of its networks")
    found = [arrays[str(fold)] for fold in range(len(arrays))]
    for own in found:
        fits = own.dtype == np.float64 and own.ndim == 2 and own.shape[1] == targets.n_outputs
        if not fits or not np.isfinite(own).all() or (own < 0).any() or (np.diff(own, axis=0) < 0).any():
            raise ModelFileError("its absolute errors are invalid; expected sorted finite float64 numbers >= 0")
    return found


def _fitted_with(estimator: TabularEstimator, values: Any) -> dict[str, Any]:
    """Return the values that parameters had in the fit, if they have changed since."""
    if not isinstance(values, dict) or not set(values) <= set(estimator._fixed):
        raise ModelFileError(f"it was fitted with {shown(values)}; expected parameters that cannot change after fit")
    return {name: plain_values.parameter(name, value) for name, value in values.items()}


def _unfitted(cls: type[TabularEstimator], values: Any) -> TabularEstimator:
    """Return an unfitted estimator with these parameters, and defaults for those that are not in the file."""
    known = set(cls._get_param_names()) - NOT_STORED
    if not isinstance(values, dict) or not set(values) <= known:
        unknown = sorted(set(values) - known) if isinstance(values, dict) else values
        raise ModelFileError(f"{cls.__name__} does not have the parameters {shown(unknown)}; install a newer tabgnm")
    parameters = {name: plain_values.parameter(name, value) for name, value in values.items()}
    estimator = cls(**parameters)
    device = estimator.device
    try:
        if not isinstance(device, str) or (device != "auto" and torch.device(device) is None):
            raise RuntimeError
    except RuntimeError:  # checked here, as it is the only stored parameter that predictions use
        raise ModelFileError(f"device={shown(device)} is not known; use 'auto', 'cpu' or 'cuda'") from None
    return estimator


def _shape(is_gnm: bool, settings: Any, encoder: TableEncoder, n_outputs: int) -> Shape:
    """Return the shape of the networks, with the embedding of the encoder."""
    if not isinstance(settings, Mapping):
        raise ModelFileError(f"its shape is {shown(settings)}; expected an object")
    depth = settings.get("n_layers") if is_gnm else settings.get("hidden")
    n_layers = len(depth) + 1 if isinstance(depth, list) else depth
    if type(n_layers) is not int or not 1 <= n_layers <= MAX_LAYERS:
        raise ModelFileError(f"its networks have {shown(n_layers)} layers; expected 1 to {MAX_LAYERS}")
    body = GNMShape(**settings) if is_gnm else MLPShape(**settings)
    check_same("outputs of its networks", body.n_outputs, n_outputs)
    shape = full_shape(encoder, lambda *_: body, n_outputs)
    check_same("inputs of its networks", shape.n_inputs, encoder.n_encoded)
    return shape


def _check_weights(shape: Shape, n_networks: int, found: Arrays) -> None:
    """Check the sizes of the weights against the shape."""
    sizes = shape.parameter_shapes()
    check_same("weights", sorted(found), sorted(sizes))
    for name, size in sizes.items():
        check_same(f"shape of {name}", found[name].shape, (n_networks, *size))
    types = sorted({array.dtype.name for array in found.values()})
    if types not in (["float32"], ["float64"]):
        raise ModelFileError(f"its weights are of type {', '.join(types)}; expected float32 or float64")


def _weights(name: str, array: Any) -> torch.Tensor:
    weights = torch.from_numpy(array)
    if not torch.isfinite(weights).all():
        raise ModelFileError(f"the weights {name} are not finite numbers; fit again with a smaller learning_rate")
    return weights


def _importances(reader: _Reader, n_columns: int) -> Any:
    arrays = reader.arrays("")
    check_same("arrays outside of folders", sorted(arrays), ["importances"])
    return checked_importances(arrays["importances"], n_columns)
