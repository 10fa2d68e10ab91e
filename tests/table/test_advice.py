"""Warnings about columns: which columns look like identifiers, how often is warned, and names that are no harm."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tabgnm.table import CellTypeError, TableError, match_columns, read_table
from tabgnm.table.advice import warned_once
from tests.table.examples import column, fitted

RNG = np.random.default_rng(0)


def messages(X: Any, **settings: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted(X, **settings)
    return [str(warning.message) for warning in caught]


IDENTIFIERS = {
    "customers with few rows each": [f"c{i}" for i in RNG.integers(0, 400, 1000)],
    "nearly unique text": [f"remark {i}" for i in range(950)] + ["none"] * 50,
    "digits of equal length": [f"{10_000_000 + i}" for i in RNG.integers(0, 400, 1000)],
}


@pytest.mark.parametrize("case", IDENTIFIERS)
def test_a_column_of_identifiers_is_told_once_with_what_to_do(case: str) -> None:
    (message,) = messages(column(IDENTIFIERS[case]))
    assert message.startswith("columns look like identifiers, because few rows share a level: 'a'. ")
    assert "drop them or use column_kinds={'a': 'ignore'}" in message
    for kind in ("ignore", "category"):
        assert messages(column(IDENTIFIERS[case]), kinds={"a": kind}) == []


ORDINARY = {
    "towns": [f"town {i}" for i in RNG.integers(0, 100, 1000)],
    "a long tail": [f"word {i}" for i in np.minimum(RNG.zipf(1.5, 3000), 10**6)],
    "few rows, few levels": [f"country {i}" for i in RNG.integers(0, 30, 90)],
    "half of them unknown": [f"person {i}" for i in range(500)] + ["unknown"] * 500,
}


@pytest.mark.parametrize("case", ORDINARY)
def test_ordinary_columns_of_many_levels_give_no_warning(case: str) -> None:
    assert messages(column(ORDINARY[case])) == []


def test_several_columns_are_in_one_warning() -> None:
    cells = IDENTIFIERS["customers with few rows each"]
    (message,) = messages(pd.DataFrame({"a": cells, "b": cells, "x": np.arange(1000.0)}))
    assert "share a level: 'a', 'b'. " in message


def test_each_fit_warns_and_fits_that_belong_together_once() -> None:
    frame = column([f"{number:.2f}" for number in RNG.normal(size=50)])
    assert [len(messages(frame)) for _ in range(3)] == [1, 1, 1]
    with warned_once():
        said = messages(frame)
        with warned_once():
            said += messages(frame)
        said += messages(frame.rename(columns={"a": "b"}))
    assert [message.partition(".")[0][-3:] for message in said] == ["'a'", "'b'"]


SIZES = RNG.integers(10, 500, 200)
MOMENTS = pd.date_range("2020-01-01", periods=200, freq="37h")
UNREAD = {
    "units": ([f"{size / 10} kg" for size in SIZES], "numbers", "str.replace"),
    "thousands": ([f"{size / 10}k" for size in SIZES], "numbers", "str.replace"),
    "limits": ([f"<{size / 10}" if size % 3 else f"{size / 10}" for size in SIZES], "numbers", "str.replace"),
    "negative ones in parentheses": ([f"({size}.50)" for size in SIZES], "numbers", "str.replace"),
    "many words": ([*SIZES.tolist(), *["unknown"] * 20, *["never"] * 10], "numbers", "errors='coerce'"),
    "names of months": ([f"{day:%d-%b-%Y}" for day in MOMENTS], "dates", "pandas.to_datetime(X['a'], format"),
    "long names of months": ([f"{day:%B %d, %Y}" for day in MOMENTS], "dates", "pandas.to_datetime"),
    "years of two digits": ([f"{day:%d/%m/%y}" for day in MOMENTS], "dates", "pandas.to_datetime"),
    "times of day": ([f"{day:%I:%M %p}" for day in pd.date_range("2020", periods=99, freq="7min")], "dates", "to_date"),
}


@pytest.mark.parametrize("case", UNREAD)
def test_text_that_looks_like_numbers_or_dates_is_told_how_to_convert_it(case: str) -> None:
    cells, what, remedy = UNREAD[case]
    (message,) = messages(column(cells, object))
    assert message.startswith(f"columns of text look like {what}") and "'a' (such as " in message
    assert remedy in message and "identifiers" not in message
    assert messages(column(cells * 3, object), kinds={"a": "category"}) == []


def test_what_is_advised_for_units_works() -> None:
    frame = column(UNREAD["units"][0])
    frame["a"] = frame["a"].str.replace("kg", "").str.strip()
    assert messages(frame, kinds={"a": "number"}) == []


CONTAINERS = [[1], {"x": 1}, {1}, (1, 2), frozenset({1}), np.zeros(2), b"x", bytearray(b"x")]


@pytest.mark.parametrize("cell", CONTAINERS, ids=lambda cell: type(cell).__name__)
def test_containers_and_bytes_are_refused_in_fit_and_later_wherever_they_stand(cell: Any) -> None:
    words = ["x", "y", "z"] * 60
    bad = pd.DataFrame({"a": pd.Series([*words, cell, "x"], dtype=object)})
    message = rf"column 'a' has a {type(cell).__name__} in row 180 \(.*must be a string or a number; split the column"
    for kinds in (None, {"a": "category"}):
        with pytest.raises(CellTypeError, match=message):
            fitted(bad, kinds=kinds)
        with pytest.raises(CellTypeError, match=message):
            fitted(column(words), kinds=kinds).encode(read_table(bad))
    with pytest.raises(CellTypeError, match=message):
        fitted(column(words)).out_of_range(read_table(bad))
    fitted(bad, rows=np.arange(180))  # other rows are not looked at


def test_numpy_strings_of_bytes_are_text() -> None:
    array = np.array([[b"x"], [b"y"], [b"z"]])
    np.testing.assert_array_equal(fitted(array).encode(read_table([["x"], ["y"], ["z"]])), np.eye(3))


RED = "\x1b[31mred\x07\u202e"


def test_control_characters_of_names_are_escaped_wherever_names_are_shown() -> None:
    frame = pd.DataFrame({RED: ["1.5", "2.5"] * 20, "b": [1.0, 2.0] * 20})
    with pytest.warns(UserWarning, match="read as numbers") as caught:
        encoder = fitted(frame)
    shown = [str(encoder.columns), encoder.columns._repr_html_(), str(caught[0].message), repr(read_table(frame))]
    for act in (
        lambda: encoder.encode(read_table(frame.assign(**{RED: "word"}))),
        lambda: fitted(frame, kinds={"c": "number"}),
        lambda: fitted(frame, kinds={RED + "2": "number"}),
        lambda: match_columns(read_table(frame), ["a", "b"], True, "Estimator"),
        lambda: match_columns(read_table(frame[["b"]]), [RED, "b"], True, "Estimator"),
        lambda: read_table(frame).select(["c"]),
        lambda: read_table(pd.concat([frame, frame], axis=1)),
    ):
        with pytest.raises(TableError) as refused:
            act()
        shown.append(str(refused.value))
    for text in shown:
        assert "\\x1b[31mred\\x07\\u202e" in text
        assert "\x1b" not in text and "\x07" not in text and "\u202e" not in text


def test_the_types_of_polars_that_hold_containers_are_refused_as_before() -> None:
    words = fitted(column(["x", "y", "z"]))
    for bad in (pl.DataFrame({"a": [[1]]}), pl.DataFrame({"a": [b"x"]}), pl.DataFrame({"a": [{"b": 1}]})):
        for act in (lambda bad=bad: fitted(bad), lambda bad=bad: words.encode(read_table(bad))):
            with pytest.raises(CellTypeError, match="column 'a' has the type"):
                act()


def test_a_category_of_which_no_level_is_known_is_warned_about() -> None:
    levels = ["red", "blue", "green"] * 5
    encoder = fitted(pd.DataFrame({"color": levels}))
    codes = pd.DataFrame({"color": pd.Series([0, 1, 2] * 5)})
    with pytest.warns(UserWarning, match=r"column 'color' has no level that occurred in fit: it has '0', for example"):
        encoder.encode(read_table(codes))
    days = fitted(pd.DataFrame({"day": np.repeat(np.arange(80), 5)}), kinds={"day": "category"})
    with pytest.warns(
        UserWarning, match=r"'80', for example, and fit had '0'.*fit with column_kinds={'day': 'number'}"
    ):
        days.encode(read_table(pd.DataFrame({"day": np.arange(80, 95)})))
    for harmless in (["red", *["pink"] * 14], ["pink"] * 9, [None] * 15, [None] * 10 + ["pink"] * 5):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            encoder.encode(read_table(pd.DataFrame({"color": harmless})))
