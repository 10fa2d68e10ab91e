"""Missing cells, columns that say nothing, numbers that are too large."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tabgnm.table import TableError, read_table
from tests.table.examples import NAN, NUMERIC_SETTINGS, column, encoded, fitted


@pytest.mark.parametrize(
    "nothing",
    [
        None,
        NAN,
        np.float32("nan"),
        pd.NA,
        pd.NaT,
        decimal.Decimal("nan"),
        decimal.Decimal("snan"),
        np.datetime64("NaT"),
    ],
    ids=repr,
)
def test_every_way_to_say_nothing_is_missing(nothing: Any) -> None:
    for cells, expected in (([1.0, 2.0, 4.0], [2.0, 1.0]), (["a", "b", "c"], [0, 0, 0, 1])):
        assert encoded(column([*cells, nothing], object), scaling="none")[-1].tolist() == expected


def test_a_missing_number_becomes_the_median_if_numbers_are_left_alone_and_0_if_they_are_scaled() -> None:
    X = [[1.0], [2.0], [30.0], [None]]
    assert encoded(X, scaling="none")[3].tolist() == [2.0, 1.0]
    for scaling in ("standard", "robust", "quantile"):
        assert encoded(X, scaling=scaling)[3].tolist() == [0.0, 1.0]


def test_a_missing_number_lies_in_the_bin_of_the_median() -> None:
    encoder = fitted([[float(x)] for x in range(9)], numeric_embedding="piecewise", n_basis=4)
    np.testing.assert_array_equal(encoder.encode(read_table([[None], [4.0]])), [[2], [2]])


def test_an_indicator_is_made_only_where_training_rows_had_something_missing() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0, NAN], "b": [1.0, 2.0, 4.0]})
    encoder = fitted(frame)
    assert encoder.encoded_names == ["a", "a is missing", "b"]
    # Missing later, in a column that had nothing missing: imputed without a word.
    later = encoder.encode(read_table(pd.DataFrame({"a": [1.0], "b": [NAN]})))
    np.testing.assert_array_equal(later[0, 1:], [0, 0])


def test_an_embedded_number_keeps_its_indicator_among_the_plain_columns() -> None:
    encoder = fitted([[1.0, 5.0], [2.0, 6.0], [3.0, 7.0], [None, 9.0]], numeric_embedding="periodic")
    assert encoder.encoded_names == ["x0 is missing", "x0", "x1"] and encoder.owners == [0, 0, 1]
    assert encoder.columns[0].encoded == (0, 1)
    np.testing.assert_array_equal(encoder.encode(read_table([[None, 5.0]]))[0, :2], [1, 0])


def test_a_date_has_one_indicator_for_all_its_parts() -> None:
    frame = column(pd.to_datetime(["2024-01-01", "2025-03-05", None]))
    names = fitted(frame).encoded_names
    assert [name for name in names if "missing" in name] == ["a is missing"]


def test_constant_and_all_missing_columns_give_no_encoded_column_and_say_so() -> None:
    frame = pd.DataFrame(
        {
            "x": [1.0, 2.0, 3.0],
            "constant": [7, 7, 7],
            "empty": [NAN] * 3,
            "nothing": pd.Series([None] * 3, dtype=object),
            "word": ["a"] * 3,
            "yes": [True] * 3,
            "day": pd.to_datetime(["2024-01-01"] * 3),
        }
    )
    encoder = fitted(frame)
    assert encoder.encoded_names == ["x"]
    assert [info.note for info in encoder.columns] == [
        "",
        "constant: not used",
        "all missing: not used",
        "all missing: not used",
        "constant: not used",
        "constant: not used",
        "constant: not used",
    ]
    # Whatever they hold later is not looked at.
    other = pd.DataFrame(
        {"x": [2.0], "constant": [np.inf], "empty": ["?"], "nothing": [3], "word": [{}], "yes": [5], "day": ["?"]}
    )
    np.testing.assert_array_equal(encoder.encode(read_table(other)), encoder.encode(read_table(frame))[1:2])


def test_a_constant_with_gaps_still_tells_where_the_gaps_are() -> None:
    day = pd.Timestamp("2024-01-01")
    frame = pd.DataFrame(
        {
            "n": [7.0, NAN, 7.0],
            "w": ["a", None, "a"],
            "b": pd.array([True, None, True], dtype="boolean"),
            "d": [day, pd.NaT, day],
        }
    )
    encoder = fitted(frame)
    assert encoder.encoded_names == ["n is missing", "w=(missing or unknown)", "b is missing", "d is missing"]
    assert {info.note for info in encoder.columns} == {"constant: only whether it is missing is used"}
    np.testing.assert_array_equal(encoder.encode(read_table(frame)), [[0] * 4, [1] * 4, [0] * 4])


def test_a_table_that_says_nothing_becomes_one_column_of_zeros() -> None:
    for X in (np.full((3, 2), 7.0), np.full((3, 2), NAN), [["a"], ["a"], ["a"]]):
        encoder = fitted(X, numeric_embedding="periodic")
        assert encoder.n_encoded == 1 and encoder.owners == [0] and encoder.embedding is None
        np.testing.assert_array_equal(encoder.encode(read_table(X)), np.zeros((3, 1)))
        assert all(info.encoded == () for info in encoder.columns)


@pytest.mark.parametrize("infinite", [np.inf, -np.inf])
def test_an_infinite_number_is_refused_with_its_column_and_row(infinite: float) -> None:
    good = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [1.0, 2.0, 3.0]})
    bad = good.copy()
    bad.loc[2, "b"] = infinite
    encoder = fitted(good)
    for act in (lambda: fitted(bad), lambda: encoder.encode(read_table(bad)), lambda: fitted(bad.to_numpy().tolist())):
        with pytest.raises(
            TableError,
            match=f"infinity.*column '(b|x1)' has {infinite} in row 2; replace it with a number, or with NaN",
        ):
            act()


@pytest.mark.parametrize("settings", NUMERIC_SETTINGS, ids=str)
def test_no_finite_number_is_too_large_or_too_small(settings: dict[str, Any]) -> None:
    largest, smallest = np.finfo(np.float64).max, 5e-324
    tables = (
        [largest, -largest, 0.0],
        [largest, largest / 2, -1.0],
        [smallest, 0.0, -smallest],
        [1e-300, 2e-300, 4e-300],
        [1e300, 1.0, -1e-300],
        [1, 1 + 2.3e-16, 3],
        [1e200, -1e200, 1e-200],
    )
    for cells in tables:
        X = np.array([*cells, 0.5])[:, None]
        encoder = fitted(X[:3], **settings)
        for dtype in (np.float32, np.float64):
            assert np.isfinite(encoder.encode(read_table(X), dtype=dtype)).all()
            assert np.isfinite(encoder.encode(read_table(np.array([[largest], [-largest], [NAN]])), dtype=dtype)).all()


def test_what_is_too_large_for_float32_becomes_its_largest_number() -> None:
    X = np.array([[1e300], [-1e300], [1.0]])
    largest = np.finfo(np.float32).max
    np.testing.assert_array_equal(
        fitted(X, scaling="none").encode(read_table(X)), np.array([[largest], [-largest], [1]], dtype=np.float32)
    )
    np.testing.assert_array_equal(encoded(X, scaling="none"), X)


def test_a_column_of_nothing_is_missing_whatever_type_a_frame_gives_it() -> None:
    nothing = [
        pl.Null,
        pl.String,
        pl.Float64,
        pl.Int8,
        pl.Boolean,
        pl.Datetime,
        pl.Date,
        pl.Duration,
        pl.Time,
        pl.Categorical,
    ]
    fits = [
        [1.0, 2.0, 3.0],
        [True, False, True],
        ["a", "b", "c"],
        [datetime.date(2024, 1, 1), datetime.date(2025, 2, 2)],
        [datetime.timedelta(1), datetime.timedelta(2)],
        [datetime.time(1), datetime.time(2)],
    ]
    for cells in fits:
        encoder = fitted(pl.DataFrame({"a": cells}))
        expected = encoder.encode(read_table([[None]]))
        for dtype in nothing:
            np.testing.assert_array_equal(
                encoder.encode(read_table(pl.DataFrame({"a": pl.Series([None], dtype=dtype)}))), expected
            )
