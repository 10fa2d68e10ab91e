"""Reading model files of version 1, which have one group of networks and other parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tabgnm._files.tensors import Arrays
from tabgnm._printable import shown
from tabgnm.estimators.candidates import BASE
from tabgnm.modelfile.container import Container
from tabgnm.modelfile.errors import ModelFileError

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
_FITTED_WITH = "fitted_with"
_REMOVED = ("n_members", "validation_fraction")
_NEW_NAMES = {"optimiser": "optimizer"}
_FOLDERS = {"networks": "groups/0/networks", "encoder": "encoders/0", "targets": "targets", "": ""}
# Parameters that were added later, with the values that version 1 implied.
_ADDED: dict[str, Any] = {"n_candidates": 1, "warmup": 0.0, "screen_columns": False}
_ADDED_FOR: dict[str, dict[str, Any]] = {"Classifier": {"calibrated": False}, "Regressor": {"target_transform": "none"}}
# Values in version 1, where "auto" did not exist or meant a single setting.
_DEFAULTS = {"activation": "relu", "learning_rate": 1e-3, "dropout": 0.1}


def converted(container: Container) -> Container:
    """Convert the content of a file of version 1 to version 2."""
    schema = container.schema
    found = sorted(set(schema) - {_FITTED_WITH})
    if found != sorted(_KEYS):
        raise ModelFileError(f"entries of its schema: {shown(found, 300)}; expected {shown(sorted(_KEYS), 300)}")
    parameters, seeds = schema["parameters"], schema["seeds"]
    if not isinstance(parameters, dict) or not isinstance(seeds, list) or not isinstance(schema["estimator"], str):
        raise ModelFileError(
            f"its parameters are {shown(parameters)} and its seeds {shown(seeds)}; expected an object and a list"
        )
    strange = sorted(set(_NEW_NAMES.values()) & set(parameters))
    if strange:
        raise ModelFileError(f"it has the parameters {shown(strange)}, which did not exist in version 1")
    kept = {str(name): value for name, value in parameters.items() if name not in _REMOVED}
    new: dict[str, Any] = {_NEW_NAMES.get(name, name): value for name, value in kept.items()}
    new["n_folds"] = _n_folds(parameters)
    new |= _ADDED | next((own for kind, own in _ADDED_FOR.items() if schema["estimator"].endswith(kind)), {})
    settings: dict[str, Any] = {
        name: value if (value := new.get(name, "auto")) != "auto" else _DEFAULTS.get(name, default)
        for name, default in BASE.items()
    }
    group = {
        "settings": settings,
        "weight": 1.0,
        "encoder": 0,
        "targets": None,
        "shape": schema["shape"],
        "seeds": seeds,
        "folds": list(range(len(seeds))),
        "histories": schema["histories"],
    }
    described = {name: schema[name] for name in ("tabgnm", "estimator", "has_names", "n_calls", "targets")}
    described |= {"parameters": new, "encoders": [schema["encoder"]], "groups": [group]}
    described |= {"candidates": [], "scores": {}, "temperature": 1.0, "n_left_out": 0}
    described["fold_seed"] = seeds[0] if seeds else 0
    if _FITTED_WITH in schema:
        described[_FITTED_WITH] = _fitted_with(schema[_FITTED_WITH], parameters)
    return replace(container, version=2, schema=described, arrays=_renamed(container.arrays))


def _n_folds(parameters: dict[str, Any]) -> Any:
    return 0 if parameters.get("validation_fraction") == 0 else parameters.get("n_members", 1)


def _fitted_with(values: Any, parameters: dict[str, Any]) -> Any:
    """Return the values that parameters had in the fit, if they had changed when the file was written."""
    if not isinstance(values, dict):
        return values  # refused by the reader of version 2
    before = {name: value for name, value in values.items() if name not in _REMOVED}
    n_folds = _n_folds(parameters | values)
    return before if n_folds == _n_folds(parameters) else before | {"n_folds": n_folds}


def _renamed(arrays: Arrays) -> Arrays:
    renamed = {}
    for name, array in arrays.items():
        folder, slash, own = name.rpartition("/")
        if folder not in _FOLDERS:
            raise ModelFileError(f"its array {shown(name)} is not used in version 1")
        renamed[_FOLDERS[folder] + slash + own] = array
    return renamed
