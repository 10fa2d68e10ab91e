"""The path of sizes of a small machine, read from a model file.

The chosen machine of a path is the only group of the file. The others differ from it in their weights and in the
importances of columns. Most of their weights are 0, so only nonzero weights are stored, with their positions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from tabgnm._files.tensors import Arrays
from tabgnm._printable import shown
from tabgnm.estimators.fitting import FittedPack, NetworkGroup
from tabgnm.estimators.model_description import PATH
from tabgnm.estimators.model_limits import MAX_SIZES, check_path
from tabgnm.modelfile import plain_values
from tabgnm.modelfile.checks import check_list, check_same
from tabgnm.modelfile.errors import ModelFileError
from tabgnm.nn.shapes import GNMShape

_COUNTS = {"edges", "columns", "hidden"}
_MEASURES = {"loss", "loss_se", "score", "score_std"}
_JUDGES = ("target", "model")


def read_path(
    schema: Any, arrays: Callable[[str], Arrays], fitted: FittedPack
) -> tuple[list[dict[str, Any]], list[FittedPack]]:
    """Return the records and the machines of a path; `arrays` returns the arrays of a folder of the file."""
    records = [_record(own) for own in check_list("sizes of its path", schema, MAX_SIZES)]
    check_same("chosen sizes of its path", sum(record["chosen"] for record in records), 1)
    if len(fitted.groups) != 1 or fitted.n_networks != 1 or not isinstance(fitted.groups[0].shape, GNMShape):
        raise ModelFileError("it has a path of sizes, but is not a single small machine")
    group = fitted.groups[0]
    found = {place: arrays(f"{PATH}/{place}") for place, record in enumerate(records) if not record["chosen"]}
    n_stored = sum(array.size for own in found.values() for array in own.values())
    check_path(len(records), _n_weights(group), n_stored)
    machines = []
    for place, record in enumerate(records):
        own = fitted
        if not record["chosen"]:
            check_same("arrays of its path", sorted(found[place]), ["importances", "places", "weights"])
            importances = checked_importances(found[place]["importances"], len(fitted.importances))
            own_group = replace(group, parameters=_parameters(group, found[place]))
            own = replace(fitted, groups=[own_group], importances=importances)
        machines.append(own)
    return records, machines


def _record(values: Any) -> dict[str, Any]:
    record = plain_values.record(values)
    record.setdefault("judged_by", "target")  # early versions did not store it
    check_same("entries of its path", sorted(record), sorted(_COUNTS | _MEASURES | {"chosen", "judged_by"}))
    whole = all(type(record[name]) is int and 0 <= record[name] < 2**31 for name in _COUNTS)
    if not whole or not all(type(record[name]) is float for name in _MEASURES) or type(record["chosen"]) is not bool:
        raise ModelFileError(
            f"a size of its path is {shown(values)}; expected integers for {', '.join(sorted(_COUNTS))}, numbers for "
            f"{', '.join(sorted(_MEASURES))} and a boolean for chosen"
        )
    if record["judged_by"] not in _JUDGES:
        raise ModelFileError(f"judged_by of its path is {shown(record['judged_by'])}; expected one of {_JUDGES}")
    return record


def _n_weights(group: NetworkGroup) -> int:
    return sum(map(math.prod, group.shape.parameter_shapes().values()))


def _parameters(group: NetworkGroup, arrays: Arrays) -> dict[str, torch.Tensor]:
    """Return the weights of a network with the shape of the group; weights that are not in the file are 0."""
    places, weights, n_weights = arrays["places"], arrays["weights"], _n_weights(group)
    fits = places.dtype == np.int64 and places.ndim == 1 and weights.shape == places.shape
    if not fits or weights.dtype != group.dtype or not np.isfinite(weights).all() or not weights.all():
        raise ModelFileError(
            "the weights of its path are invalid; expected finite numbers other than 0, with a place each"
        )
    if len(places) and (places[0] < 0 or places[-1] >= n_weights or (np.diff(places) <= 0).any()):
        raise ModelFileError(
            f"the places of the weights of its path are invalid; expected ascending integers from 0 to {n_weights - 1}"
        )
    values = np.zeros(n_weights, dtype=group.dtype)
    values[places] = weights
    shapes = group.shape.parameter_shapes()
    split = torch.split(torch.from_numpy(values), [math.prod(shape) for shape in shapes.values()])
    return {name: own.reshape(1, *shape) for (name, shape), own in zip(shapes.items(), split, strict=True)}


def checked_importances(importances: Any, n_columns: int) -> Any:
    """Return importances, one for each column of the table."""
    if importances.dtype != np.float64 or importances.shape != (n_columns,):
        raise ModelFileError(
            f"the importances of its columns have type {importances.dtype} and shape {importances.shape}; expected "
            f"float64 and {(n_columns,)}"
        )
    if not np.isfinite(importances).all():
        raise ModelFileError("the importances of its columns are not finite numbers")
    return importances
