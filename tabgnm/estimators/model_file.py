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
from tabgnm.estimators import first_version
from tabgnm.estimators.base import TabularEstimator
from tabgnm.estimators.candidates import BASE
from tabgnm.estimators.classifier import TabularClassifier
from tabgnm.estimators.fitting import FittedPack, NetworkGroup, full_shape
from tabgnm.estimators.fixed_parameters import changed_since
from tabgnm.estimators.gnm_classifier import GNMClassifier
from tabgnm.estimators.gnm_regressor import GNMRegressor
from tabgnm.estimators.mlp_classifier import MLPClassifier
from tabgnm.estimators.mlp_regressor import MLPRegressor
from tabgnm.estimators.parameters import GNMParameters
from tabgnm.estimators.targets import ClassTargets, NumberTargets, Targets
from tabgnm.modelfile import files, plain_values
from tabgnm.modelfile.container import Container, pack, unpack
from tabgnm.modelfile.errors import ModelFileError, cause, shown
from tabgnm.modelfile.tensors import Arrays, Tensor
from tabgnm.nn import EmbeddedShape
from tabgnm.nn.network import dropout_rate
from tabgnm.nn.shapes import GNMShape, MLPShape, Shape
from tabgnm.table import TableEncoder

ESTIMATORS: dict[str, type[TabularEstimator]] = {
    cls.__name__: cls for cls in (GNMClassifier, GNMRegressor, MLPClassifier, MLPRegressor)
}
# The layers of a tied machine share their weights, so the size of the file does not bound the time of a prediction.
MOST_LAYERS = 4096  # of all groups together
MOST_GROUPS = 1000
MOST_NETWORKS = 100_000  # of a group
LONGEST_NAMES = 2**24  # characters of the names of all encoded columns, each of which repeats that of a raw one
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
# Values at the time of the fit, of parameters that have changed since. Left out if there are none.
_FITTED_WITH = "fitted_with"
# How many threads to use is a matter of the machine, not of the model, and folds are rows of the training data.
_NOT_STORED = {"n_jobs", "cv"}
# Settings of a group that its networks cannot be trained further without.
_TRAINED_WITH = {"learning_rate", "weight_decay", "dropout"}


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
        Fitted; on the same machine its predictions are bit for bit those of the saved estimator. Its `n_jobs`
        and `cv` are None.

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
    parameters = {name: value for name, value in estimator.get_params(deep=False).items() if name not in _NOT_STORED}
    arrays: Arrays = {"importances": fitted.importances}
    encoders = []
    for place, encoder in enumerate(fitted.encoders):
        own, own_arrays = encoder.state()
        encoders.append(own)
        arrays |= {f"encoders/{place}/{name}": value for name, value in own_arrays.items()}
    try:
        targets, target_arrays = fitted.targets.state()
    except ValueError as error:  # labels of a type that JSON does not have
        raise ModelFileError(str(error)) from None
    arrays |= {f"targets/{name}": value for name, value in target_arrays.items()}
    places = {id(encoder): place for place, encoder in enumerate(fitted.encoders)}
    groups = []
    for place, group in enumerate(fitted.groups):
        described, own_arrays = _described_group(group, places[id(group.encoder)], fitted.targets)
        groups.append(described)
        arrays |= {f"groups/{place}/{name}": value for name, value in own_arrays.items()}
    arrays |= {f"residuals/{fold}": value for fold, value in enumerate(fitted.residuals)}
    schema = {
        "tabgnm": tabgnm.__version__,
        "estimator": type(estimator).__name__,
        "parameters": {name: plain_values.plain(name, value) for name, value in parameters.items()},
        "has_names": hasattr(estimator, "feature_names_in_"),
        "n_calls": estimator._n_calls,
        "encoders": encoders,
        "targets": targets,
        "groups": groups,
        "candidates": [plain_values.plain_record(record) for record in fitted.candidates],
        "scores": plain_values.plain_record(fitted.scores),
        "temperature": float(fitted.temperature),
        "n_left_out": fitted.n_left_out,
        "fold_seed": fitted.fold_seed,
    }
    changed = {name: value for name, value in changed_since(estimator).items() if name not in _NOT_STORED}
    if changed:
        schema[_FITTED_WITH] = {name: plain_values.plain(name, value) for name, value in changed.items()}
    return schema, arrays


def _described_group(group: NetworkGroup, encoder: int, base: Targets) -> tuple[dict[str, Any], Arrays]:
    arrays = {f"networks/{name}": value.numpy() for name, value in group.parameters.items()}
    targets = None
    if group.targets.transform != base.transform:
        targets, target_arrays = group.targets.state()
        arrays |= {f"targets/{name}": value for name, value in target_arrays.items()}
    return {
        "settings": {name: plain_values.plain(name, value) for name, value in group.settings.items()},
        "weight": float(group.weight),
        "encoder": encoder,
        "targets": targets,
        "shape": _body(group.shape).settings(),
        "seeds": group.seeds,
        "folds": group.folds,
        "histories": [plain_values.plain_history(history) for history in group.histories],
    }, arrays


def _body(shape: Shape) -> GNMShape | MLPShape:
    """Return the network without the embedding, which follows from the encoder."""
    return shape.body if isinstance(shape, EmbeddedShape) else shape


# Reading


def _estimator(container: Container) -> TabularEstimator:
    if container.version == 1:
        container = first_version.converted(container)
    schema = container.schema
    _same("entries of its schema", sorted(set(schema) - {_FITTED_WITH}), sorted(_KEYS))
    name = schema["estimator"]
    if not isinstance(name, str) or name not in ESTIMATORS:
        raise ModelFileError(f"its estimator is {shown(name)}; expected one of {', '.join(ESTIMATORS)}")
    if not isinstance(schema["tabgnm"], str) or len(schema["tabgnm"]) > 100:
        raise ModelFileError(f"it was written by tabgnm {shown(schema['tabgnm'])}; expected a version")
    estimator = _unfitted(ESTIMATORS[name], schema["parameters"])
    reader = _Reader(container)
    encoders = _encoders(schema["encoders"], reader)
    names = [plan.name for plan in encoders[0].plans]
    targets = _targets(estimator, schema["targets"], reader.arrays("targets"))
    _same("transform of its targets", targets.transform, "none")
    groups = _groups(estimator, schema["groups"], encoders, targets, reader)
    fitted = FittedPack(
        groups,
        targets,
        _importances(reader, encoders[0].n_columns),
        _candidates(schema["candidates"]),
        _scores(schema["scores"], targets),
        _positive("its temperature", schema["temperature"], 0.01, 100.0),
        _residuals(reader, groups, targets),
        _count("its number of left-out rows", schema["n_left_out"], 0),
        _count("the seed of its folds", schema["fold_seed"], 0),
    )
    if fitted.residuals and not fitted.n_left_out:
        raise ModelFileError("it has sizes of errors of no rows; expected a number of left-out rows")
    reader.check_all_used()
    if type(schema["has_names"]) is not bool:
        raise ModelFileError(f"has_names is {shown(schema['has_names'])}; expected true or false")
    estimator._n_calls = _count("its number of calls", schema["n_calls"], 1)
    estimator._oof_values = None
    estimator._set_fitted(fitted, names, schema["has_names"])
    estimator._fixed |= _fitted_with(estimator, schema.get(_FITTED_WITH, {}))
    return estimator


class _Reader:
    """Reads arrays by the folder in their name, and knows which folders were not read."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self._names: dict[str, list[str]] = {}
        for name in container.tensors:
            self._names.setdefault(name.rpartition("/")[0], []).append(name)

    def tensors(self, folder: str) -> dict[str, Tensor]:
        """Return types and sizes of the arrays in a folder, by the rest of their names."""
        names = self._names.get(folder, [])
        return {name.rpartition("/")[2]: self._container.tensors[name] for name in names}

    def arrays(self, folder: str) -> Arrays:
        """Read the arrays in a folder, by the rest of their names."""
        read = {name: self._container.read(tensor) for name, tensor in self.tensors(folder).items()}
        self._names.pop(folder, None)
        return read

    def check_all_used(self) -> None:
        """Raise if the file has arrays that nothing needs."""
        _same("arrays of unknown use", sorted(name for names in self._names.values() for name in names), [])


def _encoders(schema: Any, reader: _Reader) -> list[TableEncoder]:
    encoders: list[TableEncoder] = []
    n_characters = 0
    for place, own in enumerate(_list("encoders", schema, MOST_GROUPS)):
        encoder = TableEncoder.from_state(own, reader.arrays(f"encoders/{place}"))
        names = [plan.name for plan in encoder.plans]
        encoders.append(encoder)
        _same("columns of its encoders", names, [plan.name for plan in encoders[0].plans])
        n_characters += sum(map(len, encoder.encoded_names))
        if n_characters > LONGEST_NAMES:
            raise ModelFileError(f"the names of its encoded columns have more than {LONGEST_NAMES} characters")
    return encoders


def _targets(estimator: TabularEstimator, schema: Any, arrays: Arrays) -> Targets:
    if isinstance(estimator, TabularClassifier):
        _same("arrays of its targets", sorted(arrays), [])
        return ClassTargets.from_state(schema)
    return NumberTargets.from_state(schema, arrays)


def _groups(
    estimator: TabularEstimator, schema: Any, encoders: list[TableEncoder], targets: Targets, reader: _Reader
) -> list[NetworkGroup]:
    groups: list[NetworkGroup] = []
    n_layers = 0
    for place, own in enumerate(_list("groups", schema, MOST_GROUPS)):
        groups.append(_group(estimator, own, f"groups/{place}", encoders, targets, reader))
        n_layers += _body(groups[-1].shape).n_layers
        if n_layers > MOST_LAYERS:
            raise ModelFileError(f"its groups have {n_layers} layers or more; expected at most {MOST_LAYERS}")
    _same("number types of its groups", len({group.dtype for group in groups}), 1)
    _same("encoders that no group uses", len(encoders) - len({id(group.encoder) for group in groups}), 0)
    return groups


def _group(
    estimator: TabularEstimator,
    schema: Any,
    folder: str,
    encoders: list[TableEncoder],
    targets: Targets,
    reader: _Reader,
) -> NetworkGroup:
    if not isinstance(schema, dict):
        raise ModelFileError(f"a group is {shown(schema)}; expected an object")
    _same("entries of a group", sorted(schema), sorted(_GROUP_KEYS))
    encoder = encoders[_count("the encoder of a group", schema["encoder"], 0, len(encoders) - 1)]
    own_targets = _group_targets(estimator, schema["targets"], reader.arrays(f"{folder}/targets"), targets)
    shape = _shape(isinstance(estimator, GNMParameters), schema["shape"], encoder, targets.n_outputs)
    seeds = [_count("a seed", seed, 0) for seed in _list("seeds", schema["seeds"], MOST_NETWORKS)]
    folds = [_count("a fold", fold, 0, MOST_NETWORKS) for fold in _list("folds", schema["folds"], MOST_NETWORKS)]
    histories = _list("histories", schema["histories"], MOST_NETWORKS)
    _same("numbers of folds and histories", [len(folds), len(histories)], [len(seeds)] * 2)
    _check_weights(shape, len(seeds), reader.tensors(f"{folder}/networks"))
    networks = reader.arrays(f"{folder}/networks")
    return NetworkGroup(
        _settings(schema["settings"]),
        _positive("the weight of a group", schema["weight"], 1e-12, 1.0),
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
        _same("arrays of the targets of a group", sorted(arrays), [])
        return base
    own = _targets(estimator, schema, arrays)
    if not isinstance(own, NumberTargets) or not isinstance(base, NumberTargets) or own.transform == base.transform:
        raise ModelFileError(f"the targets of a group are {shown(schema)}; expected null, or a transform of numbers")
    alike = ("n_outputs", "one_dimensional", "loss")
    _same("targets of a group", [getattr(own, name) for name in alike], [getattr(base, name) for name in alike])
    return own


def _settings(values: Any) -> dict[str, Any]:
    """Return the settings of a candidate; continued training looks at them, predictions do not."""
    if not isinstance(values, dict) or not _TRAINED_WITH <= set(values) <= set(BASE):
        raise ModelFileError(f"the settings of a group are {shown(values)}; expected some of {', '.join(BASE)}")
    settings = {name: plain_values.parameter(name, value) for name, value in values.items()}
    dropout_rate(settings["dropout"])  # the only one that `members_` uses
    return settings


def _candidates(values: Any) -> list[dict[str, Any]]:
    records = [plain_values.record(own) for own in _list("candidates", values, 10 * MOST_GROUPS, smallest=0)]
    for record in records:  # otherwise a few records could make a huge table of `pack_`
        _same("entries of its candidates", list(record), list(records[0]))
    return records


def _scores(values: Any, targets: Targets) -> dict[str, float]:
    scores = plain_values.scores(values)
    if scores and targets.metric_name not in scores:
        raise ModelFileError(f"its scores are {shown(values)}; expected {targets.metric_name} among them")
    return scores


def _residuals(reader: _Reader, groups: list[NetworkGroup], targets: Targets) -> list[Any]:
    """Return the sizes of errors on left-out rows, by fold."""
    arrays = reader.arrays("residuals")
    if not arrays:
        return []
    if not isinstance(targets, NumberTargets):
        raise ModelFileError("it has sizes of errors; expected these of a regressor only")
    _same("folds with sizes of errors", sorted(arrays), sorted(str(fold) for fold in range(len(arrays))))
    kept = {fold for group in groups for fold in group.folds}
    kept = {0} if len(arrays) == 1 else kept  # all folds left out the same rows
    if max(kept) >= len(arrays) or not any(len(arrays[str(fold)]) for fold in kept):
        raise ModelFileError(f"it has sizes of errors of {len(arrays)} folds; expected those of its networks")
    found = [arrays[str(fold)] for fold in range(len(arrays))]
    for own in found:
        fits = own.dtype == np.float64 and own.ndim == 2 and own.shape[1] == targets.n_outputs
        if not fits or not np.isfinite(own).all() or (own < 0).any() or (np.diff(own, axis=0) < 0).any():
            raise ModelFileError("its sizes of errors are not sorted finite numbers >= 0 of type float64")
    return found


def _list(what: str, values: Any, most: int, *, smallest: int = 1) -> list[Any]:
    if not isinstance(values, list) or not smallest <= len(values) <= most:
        raise ModelFileError(f"its {what} are {shown(values)}; expected a list of {smallest} to {most}")
    return values


def _positive(what: str, value: Any, smallest: float, largest: float) -> float:
    if type(value) is not float or not smallest <= value <= largest:
        raise ModelFileError(f"{what} is {shown(value)}; expected a number from {smallest:g} to {largest:g}")
    return value


def _fitted_with(estimator: TabularEstimator, values: Any) -> dict[str, Any]:
    """Return the values at the time of the fit, of parameters that have changed since."""
    if not isinstance(values, dict) or not set(values) <= set(estimator._fixed):
        raise ModelFileError(f"it was fitted with {shown(values)}; expected parameters that a fit fixes")
    return {name: plain_values.parameter(name, value) for name, value in values.items()}


def _same(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise ModelFileError(f"{what}: {shown(found, 300)}; expected {shown(expected, 300)}")


def _count(what: str, value: Any, smallest: int, largest: int = 2**31 - 1) -> int:
    if type(value) is not int or not smallest <= value <= largest:
        raise ModelFileError(f"{what} is {shown(value)}; expected an integer from {smallest} to {largest}")
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


def _check_weights(shape: Shape, n_networks: int, found: Mapping[str, Tensor]) -> None:
    """Check the sizes of the weights against the shape before they are read."""
    sizes = shape.parameter_shapes()
    _same("weights", sorted(found), sorted(sizes))
    for name, size in sizes.items():
        _same(f"shape of {name}", found[name].shape, (n_networks, *size))
    types = sorted({tensor.dtype.name for tensor in found.values()})
    if types not in (["float32"], ["float64"]):
        raise ModelFileError(f"its weights are of type {', '.join(types)}; expected float32 or float64")


def _weights(name: str, array: Any) -> torch.Tensor:
    weights = torch.from_numpy(array)
    if not torch.isfinite(weights).all():
        raise ModelFileError(f"the weights {name} are not finite numbers; fit again with a smaller learning_rate")
    return weights


def _importances(reader: _Reader, n_columns: int) -> Any:
    arrays = reader.arrays("")
    _same("arrays outside of folders", sorted(arrays), ["importances"])
    importances = arrays["importances"]
    if importances.dtype != np.float64 or importances.shape != (n_columns,):
        raise ModelFileError(f"the importances of its columns are not {n_columns} numbers of type float64")
    if not np.isfinite(importances).all():
        raise ModelFileError("the importances of its columns are not finite numbers")
    return importances
