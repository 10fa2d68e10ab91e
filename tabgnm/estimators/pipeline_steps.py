"""Steps of a pipeline before its last one, in a search: what they are given in `fit`, and what they make of a fold."""

from __future__ import annotations

from typing import Any

from sklearn import get_config
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import get_routing_for_object, process_routing

from tabgnm.estimators.fitting import EncodedTables


def split_params(pipeline: Pipeline, params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the steps before the last one are given in `fit`, and what the last one is, as a pipeline would.

    With metadata routing steps get what they request; without it, what is named after them: "step__sample_weight".
    """
    names = [name for name, _ in pipeline.steps]
    last = names[-1]
    if pipeline.transform_input:
        raise ValueError(
            f"transform_input={pipeline.transform_input!r} of a pipeline is not supported in a FleetSearchCV; leave it "
            "out, or use GridSearchCV"
        )
    if get_config()["enable_metadata_routing"]:
        return _requested(pipeline, params) if params else ({}, {})
    nobodys = sorted(name for name in params if "__" not in name or name.partition("__")[0] not in names)
    if nobodys:
        raise ValueError(
            f"fit parameters {nobodys} are of no step of the pipeline, which has the steps {names}; name them after "
            f"theirs, for instance {last}__sample_weight"
        )
    own = {name: value for name, value in params.items() if name.partition("__")[0] == last}
    first = {name: value for name, value in params.items() if name not in own}
    return first, {name.removeprefix(f"{last}__"): value for name, value in own.items()}


def _requested(pipeline: Pipeline, params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    routed = process_routing(pipeline, "fit", **params)  # which refuses what no step has asked for
    wanted: set[str] = set()
    if len(pipeline.steps) > 1:
        wanted = get_routing_for_object(pipeline[:-1]).consumes("fit_transform", params.keys())
    return {name: params[name] for name in wanted}, dict(routed[pipeline.steps[-1][0]].fit)


def fit_first_steps(
    pipeline: Pipeline, X: Any, y: Any, params: dict[str, Any]
) -> tuple[list[tuple[str, Any]], Any, EncodedTables]:
    """Fit the steps before the last one; gives them, the table that they make, and what fits to it share."""
    first = pipeline[:-1]
    return first.steps, (first.fit_transform(X, y, **params) if first.steps else X), EncodedTables()
