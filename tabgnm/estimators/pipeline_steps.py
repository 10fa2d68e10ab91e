"""The steps of a pipeline before its last step, in a search: their fit parameters, and fitting them on a fold."""

from __future__ import annotations

from typing import Any

from sklearn import get_config
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import get_routing_for_object, process_routing

from tabgnm.estimators.fitting import EncodedTables


def split_params(pipeline: Pipeline, params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split fit parameters into those of the last step and those of the steps before it, as a pipeline does.

    With metadata routing, steps get the parameters that they request, otherwise those with their prefix, such as
    "step__sample_weight".
    """
    names = [name for name, _ in pipeline.steps]
    last = names[-1]
    if pipeline.transform_input:
        raise ValueError(
            f"transform_input={pipeline.transform_input!r} of a pipeline is not supported by FleetSearchCV; omit it, "
            "or use GridSearchCV"
        )
    if get_config()["enable_metadata_routing"]:
        return _requested(pipeline, params) if params else ({}, {})
    unknown = sorted(name for name in params if "__" not in name or name.partition("__")[0] not in names)
    if unknown:
        raise ValueError(
            f"Unknown fit parameters: {unknown}; prefix each with a step name, one of {names}, e.g. "
            f"{last}__sample_weight"
        )
    own = {name: value for name, value in params.items() if name.partition("__")[0] == last}
    first = {name: value for name, value in params.items() if name not in own}
    return first, {name.removeprefix(f"{last}__"): value for name, value in own.items()}


def _requested(pipeline: Pipeline, params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    routed = process_routing(pipeline, "fit", **params)  # raises for parameters that no step requests
    requested: set[str] = set()
    if len(pipeline.steps) > 1:
        requested = get_routing_for_object(pipeline[:-1]).consumes("fit_transform", params.keys())
    return {name: params[name] for name in requested}, dict(routed[pipeline.steps[-1][0]].fit)


def fit_first_steps(
    pipeline: Pipeline, X: Any, y: Any, params: dict[str, Any]
) -> tuple[list[tuple[str, Any]], Any, EncodedTables]:
    """Fit the steps before the last; return them, the transformed table, and a cache for its encodings."""
    first = pipeline[:-1]
    return first.steps, (first.fit_transform(X, y, **params) if first.steps else X), EncodedTables()
