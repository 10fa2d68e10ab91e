"""What was learned, as plain values: bit-equal after a round trip, and nothing damaged is believed."""

from __future__ import annotations

import copy
import json
import pickle
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tabgnm.table import TableEncoder, TableSettings, read_table
from tests.table.examples import FORMS, NAN, NUMERIC_SETTINGS, fitted

State = tuple[dict[str, Any], dict[str, Any]]


def example(**settings: Any) -> TableEncoder:
    return fitted(FORMS["pandas"](), **({"numeric_embedding": "piecewise", "max_one_hot": 5} | settings))


def through_json(encoder: TableEncoder) -> State:
    schema, arrays = encoder.state()
    return json.loads(json.dumps(schema)), arrays


@pytest.mark.parametrize("settings", NUMERIC_SETTINGS, ids=str)
def test_an_encoder_from_a_state_is_the_same(settings: dict[str, Any]) -> None:
    encoder = example(**settings, kinds={"age": "category", 1: "number"})
    again = TableEncoder.from_state(*through_json(encoder))
    raw = read_table(FORMS["polars"]())
    np.testing.assert_array_equal(again.encode(raw), encoder.encode(raw))
    assert again.settings == encoder.settings
    assert again.columns == encoder.columns and again.encoded_names == encoder.encoded_names
    assert again.embedding == encoder.embedding and again.owners == encoder.owners
    assert again.untrained_levels == encoder.untrained_levels and again.level_names == encoder.level_names
    assert json.dumps(again.state()[0]) == json.dumps(encoder.state()[0])


def test_an_encoder_can_be_pickled_and_copied() -> None:
    encoder = example()
    raw = read_table(FORMS["polars"]())
    for again in (pickle.loads(pickle.dumps(encoder)), copy.deepcopy(encoder)):
        np.testing.assert_array_equal(again.encode(raw), encoder.encode(raw))


def test_an_encoder_that_is_not_fitted_says_so() -> None:
    for use in (
        lambda e: e.n_encoded,
        lambda e: e.state(),
        lambda e: e.columns,
        lambda e: e.encode(read_table([[1.0]])),
    ):
        with pytest.raises(AttributeError, match="not fitted yet; call fit first"):
            use(TableEncoder())


def of_column(which: str, /, **values: Any) -> Callable[[State], None]:
    def damage(state: State) -> None:
        next(column for column in state[0]["columns"] if column["name"] == which).update(values)

    return damage


def of_schema(**values: Any) -> Callable[[State], None]:
    return lambda state: state[0].update(values)


def of_settings(**values: Any) -> Callable[[State], None]:
    return lambda state: state[0]["settings"].update(values)


def of_array(name: str, change: Callable[[Any], Any]) -> Callable[[State], None]:
    return lambda state: state[1].update({name: change(state[1][name].copy())})


def put(place: int, value: Any) -> Callable[[Any], Any]:
    def change(array: Any) -> Any:
        array[place] = value
        return array

    return change


DAMAGES: dict[str, tuple[Callable[[State], Any], str]] = {
    "newer format": (of_schema(format=3), "format 3 is not known; this version reads 1 to 2"),
    "no columns": (of_schema(columns=[]), "there are no columns"),
    "columns no list": (of_schema(columns={"a": 1}), "there are no columns"),
    "other keys": (of_schema(extra=1), "the keys of the schema are not"),
    "column no mapping": (of_schema(columns=[3]), "a column does not have the expected keys: 3"),
    "settings missing": (of_schema(settings={}), "settings must be a mapping with the keys"),
    "settings wrong": (of_settings(scaling="other"), "scaling='other' is not known"),
    "settings of other type": (of_settings(n_basis="16"), "settings are damaged: n_basis='16'"),
    "kinds no pairs": (of_settings(kinds=[3]), "settings are damaged"),
    "kinds None": (of_settings(kinds=None), "settings are damaged"),
    "name": (of_column("age", name=3), "a column has the name 3"),
    "same names": (of_column("age", name="city"), "two columns have the same name"),
    "kind": (of_column("age", kind="other"), "column 'age' has kind='other'"),
    "kind of no type": (of_column("age", kind=[]), "has kind="),
    "negative count": (of_column("age", n_missing=-1), "n_missing=-1"),
    "count no integer": (of_column("city", n_levels=True), "n_levels=True"),
    "indicator": (of_column("age", indicator=1), "indicator=1"),
    "note": (of_column("age", note=None), "note=None"),
    "feature": (of_column("age", features=[["", "other"]]), "features="),
    "part of a number": (of_column("age", features=[["days", "plain"]]), "features="),
    "part twice": (of_column("visit", features=[["days", "plain"], ["days", "plain"]]), "features="),
    "feature no pair": (of_column("age", features=[[""]]), "features="),
    "number of levels": (of_column("age", levels=["a"]), "levels="),
    "category of numbers": (of_column("city", features=[["", "plain"]]), "features="),
    "levels twice": (of_column("city", levels=["a", "a"]), "levels="),
    "levels no strings": (of_column("city", levels=[1, 2]), "levels="),
    "levels gone": (of_column("city", levels=None), "levels=None"),
    "encoding": (of_column("city", encoding="other"), "encoding='other'"),
    "two of three": (of_column("colour", encoding="two-level"), "levels="),
    "rare in one-hot": (of_column("colour", rare=True), "rare=True"),
    "indicator without a feature": (of_column("age", features=[], span=None), "indicator=True"),
    "embedded without an embedding": (of_settings(numeric_embedding=None), "is embedded without an embedding"),
    "fewer bins": (of_settings(n_basis=2), "has bins outside of 0 to 2"),
    "text of a category": (of_column("city", text=["1234.5", []]), "text="),
    "text in an unknown format": (of_column("age", text=["12-5", []]), "text="),
    "text in a format of dates": (of_column("age", text=["year-month-day", []]), "text="),
    "missing texts no strings": (of_column("age", text=["1234.5", [3]]), "text="),
    "an order of numbers": (of_column("age", order=["a", "b"]), "order="),
    "an order without a rank": (of_column("city", order=["a", "b"]), "features="),
    "an order that repeats": (of_column("city", order=["a", "a"], features=[["rank", "plain"]]), "order="),
    "a range of a category": (of_column("city", span=[0.0, 1.0]), "span="),
    "a range that falls": (of_column("age", span=[1.0, 0.0]), "span="),
    "a range without an end": (of_column("age", span=[1.0]), "span="),
    "a range of integers": (of_column("age", span=[0, 1]), "span="),
    "an infinite range": (of_column("age", span=[0.0, np.inf]), "span="),
    "a format that is no number": (of_schema(format=True), "format True is not known"),
    "arrays missing": (lambda state: state[1].pop("knots"), "the names of the arrays are not"),
    "array of other type": (of_array("knots", lambda a: a.astype(np.float32)), "knots has type float32, not float64"),
    "array 2-D": (of_array("number_fill", lambda a: a[None]), "number_fill is not a 1-D array"),
    "array no array": (of_array("number_fill", lambda a: a.tolist()), "number_fill is not a 1-D array"),
    "array too short": (of_array("number_fill", lambda a: a[1:]), "number_fill has"),
    "NaN": (of_array("knots", put(0, NAN)), "knots has numbers that are not finite"),
    "infinite": (of_array("number_fill", put(0, np.inf)), "not finite"),
    "method": (of_array("number_method", put(0, 200)), "number_method is out of range"),
    "scale 0": (of_array("number_scale", put(0, 0.0)), "number_scale is not positive everywhere"),
    "counts negative": (of_array("knot_counts", put(0, -5)), "knot_counts are out of range"),
    "counts huge": (of_array("knot_counts", put(0, 2**62)), "knot_counts are out of range"),
    "counts do not add up": (of_array("knot_counts", put(0, 3)), "do not add up"),
    "knots fall": (of_array("knots", lambda a: a[::-1].copy()), "are not ascending"),
    "targets shorter": (of_array("targets", lambda a: a[1:]), "do not add up"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_state_is_refused_with_what_is_wrong(damage: str) -> None:
    state = through_json(example())
    act, message = DAMAGES[damage]
    act(state)
    with pytest.raises(ValueError, match=message):
        TableEncoder.from_state(*state)


def test_a_state_that_is_none_is_refused() -> None:
    schema, arrays = through_json(example())
    for bad in ((None, arrays), ([], arrays), (schema, None), ({}, {})):
        with pytest.raises(ValueError, match="the state of this table encoder is damaged"):
            TableEncoder.from_state(*bad)  # type: ignore[arg-type]


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in _places(item, (*path, key)))]


def test_random_damage_is_a_value_error_or_an_encoder_that_works() -> None:
    choose = random.Random(0)
    schema, arrays = through_json(example())
    raw = read_table(FORMS["polars"]())
    places = [place for place in _places(schema) if place]
    values = [
        None,
        True,
        0,
        -1,
        10**30,
        1.5,
        NAN,
        "",
        "x",
        [],
        {},
        [[]],
        ["", "plain"],
        "number",
        "category",
        "datetime",
    ]
    refused = 0
    for _ in range(600):
        damaged = copy.deepcopy(schema)
        *path, last = choose.choice(places)
        target: Any = damaged
        for key in path:
            target = target[key]
        if choose.random() < 0.2:
            del target[last]
        else:
            target[last] = choose.choice(values)
        try:
            encoder = TableEncoder.from_state(damaged, arrays)
        except ValueError:
            refused += 1
            continue
        try:
            out = encoder.encode(raw)
        except ValueError:  # a column of another kind, or fewer columns
            continue
        assert np.isfinite(out).all() and repr(encoder.columns)
    assert refused > 300


def test_settings_are_read_back_as_they_were() -> None:
    settings = TableSettings(scaling="robust", kinds={"a": "ignore", 3: "category"})
    assert TableSettings.from_dict(json.loads(json.dumps(settings.as_dict()))) == settings


def test_a_column_of_many_features_is_refused_without_writing_them_down() -> None:
    """Every check of a column once made the text of its values, which took quadratic time."""

    class Loud(list[Any]):
        def __repr__(self) -> str:
            raise AssertionError("it was written down")

    schema, arrays = TableEncoder().fit(read_table([[1.0], [2.0], [4.0]])).state()
    schema["columns"][0]["features"] = Loud(schema["columns"][0]["features"])
    TableEncoder.from_state(schema, arrays)
