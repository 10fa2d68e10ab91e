"""Conversion of a fitted encoder to plain values and arrays, and back, with every value checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabgnm.table.categories import Levels
from tabgnm.table.numbers import METHODS, NumberMap, NumberMaps
from tabgnm.table.plans import CATEGORY_ENCODINGS, COLUMN_KINDS, RANK, ROLES, ColumnPlan, Feature
from tabgnm.table.settings import TableSettings
from tabgnm.table.text import TEXT_FORMATS, TextReading
from tabgnm.table.values import DATE_PARTS

FORMAT = 2
_LONGEST_NAMES = 2**24
_COLUMN_KEYS = {"name", "kind", "n_missing", "n_levels", "features", "indicator", "encoding", "levels", "rare", "note"}
_ADDED_KEYS: dict[str, Any] = {"text": None, "order": None, "span": None}  # in format 2
_ARRAY_TYPES = {
    "number_method": np.uint8,
    "number_centre": np.float64,
    "number_scale": np.float64,
    "number_fill": np.float64,
    "knot_counts": np.int64,
    "knots": np.float64,
    "targets": np.float64,
}


def written_state(
    settings: TableSettings, plans: Sequence[ColumnPlan]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return settings and plans as JSON values and arrays."""
    columns = [
        {
            "name": plan.name,
            "kind": plan.kind,
            "n_missing": plan.n_missing,
            "n_levels": plan.n_levels,
            "features": [[feature.part, feature.role] for feature in plan.features],
            "indicator": plan.indicator,
            "encoding": plan.encoding,
            "levels": None if plan.levels is None else list(plan.levels.names),
            "rare": plan.levels is not None and plan.levels.rare,
            "note": plan.note,
            "text": None if plan.reading is None else [plan.reading.format, list(plan.reading.missing)],
            "order": None if plan.order is None else list(plan.order),
            "span": None if plan.span is None else list(plan.span),
        }
        for plan in plans
    ]
    maps = [feature.map for plan in plans for feature in plan.features]
    schema = {"format": FORMAT, "settings": settings.as_dict(), "columns": columns}
    return schema, NumberMaps(maps).arrays()


def read_state(schema: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> tuple[TableSettings, list[ColumnPlan]]:
    """Return settings and plans; raise ValueError if the state is invalid."""
    _require(isinstance(schema, Mapping), "the schema is not a mapping")
    _require(
        set(schema) == {"format", "settings", "columns"}, "the keys of the schema are not format, settings, columns"
    )
    known = schema["format"] in (1, FORMAT) and type(schema["format"]) is int
    _require(known, f"format {schema['format']!r:.40} is not known; this version reads 1 to {FORMAT}")
    settings = TableSettings.from_dict(schema["settings"])
    columns = schema["columns"]
    _require(isinstance(columns, list) and len(columns) > 0, "there are no columns")
    if schema["format"] == 1:
        columns = [_ADDED_KEYS | column if isinstance(column, dict) else column for column in columns]
    for column in columns:
        _check_column(column)
    names = [column["name"] for column in columns]
    _require(len(set(names)) == len(names), "two columns have the same name")
    # Every encoded column repeats the name of the raw one.
    repeated = sum(len(column["name"]) * _n_names(column) for column in columns)
    problem = f"the names of its encoded columns have {repeated} characters; expected at most {_LONGEST_NAMES}"
    _require(repeated <= _LONGEST_NAMES, problem)
    n_features = sum(len(column["features"]) for column in columns)
    maps = iter(_read_maps(arrays, n_features))
    plans = [_plan(column, maps, settings) for column in columns]
    return settings, plans


def _n_names(column: Mapping[str, Any]) -> int:
    n_levels = len(column["levels"]) if column["encoding"] == "one-hot" else 1
    return n_levels + len(column["features"])


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise ValueError(f"the state of this table encoder is damaged: {problem}")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _check_column(column: Any) -> None:
    """Check the type of every value of a column."""
    if not isinstance(column, Mapping) or set(column) != _COLUMN_KEYS | set(_ADDED_KEYS):
        _require(False, f"a column does not have the expected keys: {column!r:.80}")
    name = column["name"]
    _require(isinstance(name, str), f"a column has the name {name!r:.40}")

    def require(condition: bool, key: str) -> None:
        if not condition:  # formatting many levels or features takes long, so only if needed
            _require(False, f"column {name!r:.40} has {key}={column[key]!r:.80}")

    require(isinstance(column["kind"], str) and column["kind"] in COLUMN_KINDS, "kind")
    require(_is_count(column["n_missing"]), "n_missing")
    require(column["n_levels"] is None or _is_count(column["n_levels"]), "n_levels")
    require(isinstance(column["indicator"], bool), "indicator")
    require(isinstance(column["rare"], bool), "rare")
    require(isinstance(column["note"], str), "note")
    require(isinstance(column["encoding"], str) and column["encoding"] in CATEGORY_ENCODINGS, "encoding")
    features = column["features"]
    require(isinstance(features, list), "features")
    for feature in features:
        require(isinstance(feature, list | tuple) and len(feature) == 2, "features")
        require(all(isinstance(word, str) for word in feature) and feature[1] in ROLES, "features")
    parts = [feature[0] for feature in features]
    roles = [feature[1] for feature in features]
    known = {"datetime": DATE_PARTS, "category": (RANK,)}.get(column["kind"], ("",))
    require(len(set(parts)) == len(parts) and set(parts) <= set(known), "features")
    require("indicator only" not in roles or (len(roles) == 1 and column["indicator"]), "features")
    levels = column["levels"]
    if levels is not None:
        require(isinstance(levels, list) and all(isinstance(level, str) for level in levels), "levels")
        require(len(set(levels)) == len(levels), "levels")
    _check_text(column, require)
    span = column["span"]
    if span is not None:
        require(isinstance(span, list) and len(span) == 2 and all(type(end) is float for end in span), "span")
        require(bool(np.isfinite(span).all()) and span[0] <= span[1] and len(features) > 0, "span")
    if column["kind"] == "category":
        _check_category(column, require)
    else:
        require(levels is None and not column["rare"], "levels")
        require(column["order"] is None, "order")
        require(column["encoding"] == "", "encoding")
        require(column["kind"] != "ignore" or not features, "features")
        require(len(features) > 0 or not column["indicator"], "indicator")


def _check_text(column: Mapping[str, Any], require: Any) -> None:
    text = column["text"]
    if text is None:
        return
    require(isinstance(text, list | tuple) and len(text) == 2 and isinstance(text[1], list), "text")
    require(all(isinstance(word, str) for word in (text[0], *text[1])), "text")
    names = [known.name for known in TEXT_FORMATS.get(column["kind"], ())]
    require(text[0] in names, "text")


def _check_category(column: Mapping[str, Any], require: Any) -> None:
    encoding, levels, order = column["encoding"], column["levels"], column["order"]
    require((order is None) == (not column["features"]), "features")
    if order is not None:
        require(encoding in ("one-hot", "embedding"), "encoding")
        require(isinstance(order, list) and all(isinstance(level, str) for level in order), "order")
        require(len(set(order)) == len(order), "order")
    require(column["span"] is None, "span")
    require((levels is None) == (encoding == ""), "levels")
    require(encoding != "indicator" or column["indicator"], "indicator")
    require(encoding not in ("", "embedding") or not column["indicator"], "indicator")
    require(not column["rare"] or encoding in ("indicator", "embedding"), "rare")
    require(encoding != "two-level" or len(levels) == 2, "levels")
    require(encoding not in ("one-hot", "embedding") or len(levels) > 0, "levels")


def _read_maps(arrays: Mapping[str, NDArray[Any]], n_features: int) -> list[NumberMap]:
    _require(isinstance(arrays, Mapping), "the arrays are not a mapping")
    _require(set(arrays) == set(_ARRAY_TYPES), f"the names of the arrays are not {sorted(_ARRAY_TYPES)}")
    for key, dtype in _ARRAY_TYPES.items():
        array = arrays[key]
        _require(isinstance(array, np.ndarray) and array.ndim == 1, f"{key} is not a 1-D array")
        _require(array.dtype == dtype, f"{key} has type {array.dtype}, not {np.dtype(dtype)}")
        _require(array.dtype.kind != "f" or bool(np.isfinite(array).all()), f"{key} has numbers that are not finite")
        if key not in ("knots", "targets"):
            _require(len(array) == n_features, f"{key} has {len(array)} entries for {n_features} features")
    counts, knots, targets = arrays["knot_counts"], arrays["knots"], arrays["targets"]
    # Each count is checked first: the sum of huge counts could overflow to the expected number.
    _require(bool(((counts >= 0) & (counts <= len(knots))).all()), "knot_counts are out of range")
    _require(int(counts.sum()) == len(knots) == len(targets), "knot_counts do not add up to the knots")
    _require(bool((arrays["number_method"] < len(METHODS)).all()), "number_method is out of range")
    _require(bool((arrays["number_scale"] > 0).all()), "number_scale is not positive everywhere")
    maps, end = [], 0
    for index in range(n_features):
        start, end = end, end + int(counts[index])
        method = METHODS[int(arrays["number_method"][index])]
        _require((method == "knots") == (end > start), f"feature {index} is {method} and has {end - start} knots")
        own = knots[start:end]
        _require(bool((own[1:] > own[:-1]).all()), f"the knots of feature {index} are not ascending")
        maps.append(
            NumberMap(
                method,
                centre=float(arrays["number_centre"][index]),
                scale=float(arrays["number_scale"][index]),
                fill=float(arrays["number_fill"][index]),
                knots=knots[start:end].copy(),
                targets=targets[start:end].copy(),
            )
        )
    return maps


def _plan(column: Mapping[str, Any], maps: Iterator[NumberMap], settings: TableSettings) -> ColumnPlan:
    features = tuple(Feature(part, role, next(maps)) for part, role in column["features"])
    for feature in features:
        if feature.role != "embedded":
            continue
        _require(
            settings.numeric_embedding is not None, f"column {column['name']!r:.40} is embedded without an embedding"
        )
        if settings.numeric_embedding == "piecewise":
            coordinates = np.append(feature.map.targets, feature.map.fill)
            fits = feature.map.method == "knots" and coordinates.min() >= 0 and coordinates.max() <= settings.n_basis
            _require(bool(fits), f"column {column['name']!r:.40} has bins outside of 0 to {settings.n_basis}")
    text = column["text"]
    return ColumnPlan(
        name=column["name"],
        kind=column["kind"],
        n_missing=column["n_missing"],
        n_levels=column["n_levels"],
        features=features,
        indicator=column["indicator"],
        encoding=column["encoding"],
        levels=None if column["levels"] is None else Levels(column["levels"], column["rare"]),
        note=column["note"],
        reading=None if text is None else TextReading(column["kind"], text[0], tuple(text[1])),
        order=None if column["order"] is None else tuple(column["order"]),
        span=None if column["span"] is None else (column["span"][0], column["span"][1]),
    )
