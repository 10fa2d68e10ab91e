"""Conversion of an estimator to JSON values and arrays for its model file."""

from __future__ import annotations

from typing import Any

import numpy as np

import tabgnm
from tabgnm._files.tensors import Arrays
from tabgnm.estimators.base import TabularEstimator
from tabgnm.estimators.fitting import NetworkGroup
from tabgnm.estimators.fixed_parameters import changed_since
from tabgnm.estimators.targets import Targets
from tabgnm.modelfile import plain_values
from tabgnm.modelfile.errors import ModelFileError
from tabgnm.nn.shapes import body_of

# Parameters that have changed since the fit, with their values at that time. Left out if there are none.
FITTED_WITH = "fitted_with"
# Name of the target, or names of several. Left out if the targets had none.
TARGET_NAME, TARGET_NAMES = "target_name", "target_names"
# Whether the rows had sample weights. Left out if they had none.
WEIGHTED = "weighted"
# The path of sizes that a small machine was chosen from. Left out if there is none.
PATH = "path"
# The number of threads depends on the machine, not on the model, and folds refer to rows of the training data.
NOT_STORED = {"n_jobs", "cv"}


def described(estimator: TabularEstimator) -> tuple[dict[str, Any], Arrays]:
    """Return the schema and the arrays of the model file of a fitted estimator."""
    fitted = estimator.fitted_
    parameters = {name: value for name, value in estimator.get_params(deep=False).items() if name not in NOT_STORED}
    arrays: Arrays = {"importances": fitted.importances}
    encoders = []
    for place, encoder in enumerate(fitted.encoders):
        own, own_arrays = encoder.state()
        encoders.append(own)
        arrays |= {f"encoders/{place}/{name}": value for name, value in own_arrays.items()}
    try:
        targets, target_arrays = fitted.targets.state()
    except ValueError as error:  # labels of a type that JSON cannot represent
        raise ModelFileError(str(error)) from None
    arrays |= {f"targets/{name}": value for name, value in target_arrays.items()}
    places = {id(encoder): place for place, encoder in enumerate(fitted.encoders)}
    groups = []
    for place, group in enumerate(fitted.groups):
        own, own_arrays = _described_group(group, places[id(group.encoder)], fitted.targets)
        groups.append(own)
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
    if hasattr(estimator, "target_name_"):
        schema[TARGET_NAME] = estimator.target_name_
    if hasattr(estimator, "target_names_"):
        schema[TARGET_NAMES] = estimator.target_names_
    if fitted.weighted:
        schema[WEIGHTED] = True
    changed = {name: value for name, value in changed_since(estimator).items() if name not in NOT_STORED}
    if changed:
        schema[FITTED_WITH] = {name: plain_values.plain(name, value) for name, value in changed.items()}
    if hasattr(estimator, "_path_fitted"):
        schema[PATH], path_arrays = _described_path(estimator)
        arrays |= path_arrays
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
        "shape": body_of(group.shape).settings(),
        "seeds": group.seeds,
        "folds": group.folds,
        "histories": [plain_values.plain_history(history) for history in group.histories],
    }, arrays


def _described_path(estimator: TabularEstimator) -> tuple[list[dict[str, Any]], Arrays]:
    """Return sizes and scores of a path as JSON values, and the arrays of all machines except the chosen one.

    Most weights of these machines are 0, so only nonzero weights are stored, with their positions.
    """
    arrays: Arrays = {}
    for place, (record, fitted) in enumerate(zip(estimator._path, estimator._path_fitted, strict=True)):
        if not record["chosen"]:
            values = np.concatenate([value.numpy().ravel() for value in fitted.groups[0].parameters.values()])
            places = np.flatnonzero(values)
            arrays[f"{PATH}/{place}/places"] = places.astype(np.int64)
            arrays[f"{PATH}/{place}/weights"] = values[places]
            arrays[f"{PATH}/{place}/importances"] = fitted.importances
    return [plain_values.plain_record(record) for record in estimator._path], arrays
