"""What a column is: by its type, by its cells, or because the user says so."""

from __future__ import annotations

import datetime
import decimal
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tabgnm import MLPClassifier
from tabgnm.table import TableEncoder, TableError, TableSettings, read_table
from tests.table.examples import NAN, column, encoded, fitted

DAY = datetime.date(2024, 2, 29)
MOMENT = datetime.datetime(2024, 2, 29, 13, 30)
PARIS = datetime.timezone(datetime.timedelta(hours=1))

KINDS: list[tuple[Any, str]] = [
    (pd.Series([1, 2]), "number"),
    (pd.Series([1, None], dtype="Int64"), "number"),
    (pd.Series([1.5, 2]), "number"),
    (pd.Series([decimal.Decimal("1.5"), None]), "number"),
    (pd.Series([1, 2.5, None], dtype=object), "number"),
    (pd.Series([np.float32(1), np.int8(2), pd.NA], dtype=object), "number"),
    (pd.Series([Fraction(1, 2), 1], dtype=object), "number"),
    (pd.Series([True, 2], dtype=object), "number"),
    (pd.arrays.SparseArray([0.0, 0.0, 1.0]), "number"),
    (pd.Series([True, False]), "boolean"),
    (pd.Series([True, None], dtype="boolean"), "boolean"),
    (pd.Series([True, None, np.bool_(False)], dtype=object), "boolean"),
    (pd.Series(["a", "b"]), "category"),
    (pd.Series(["1", "2"]), "category"),
    (pd.Series(["a", 1], dtype=object), "category"),
    (pd.Series([1, 2], dtype="category"), "category"),
    (pd.Series([DAY, "a"], dtype=object), "category"),
    (pd.Series([None, None], dtype=object), "category"),
    (pd.period_range("2024", periods=2), "category"),
    (pd.interval_range(0, 2), "category"),
    (pd.Series([MOMENT]), "datetime"),
    (pd.Series([MOMENT, pd.NaT]).dt.tz_localize("Europe/Paris"), "datetime"),
    (pd.Series([DAY, MOMENT, pd.NaT, None], dtype=object), "datetime"),
    (pd.Series([np.datetime64("2024-02-29")], dtype=object), "datetime"),
    (pd.Series([datetime.timedelta(1)]), "duration"),
    (pd.Series([np.timedelta64(1, "D"), None], dtype=object), "duration"),
    (pd.Series([datetime.time(3), None], dtype=object), "time"),
]


@pytest.mark.parametrize(("cells", "kind"), KINDS, ids=str)
def test_the_kind_of_a_column_comes_from_its_type_or_its_cells(cells: Any, kind: str) -> None:
    assert fitted(pd.DataFrame({"a": cells})).columns[0].kind == kind


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (np.array([["3"], ["4"]]), "category"),
        (np.array([[b"3"], [b"4"]]), "category"),
        (np.array([["2024-02-29"], ["NaT"]], dtype="M8[D]"), "datetime"),
        (np.array([[1], [2]], dtype="M8[ns]"), "datetime"),
        (np.array([[1], [2]], dtype="m8[s]"), "duration"),
        (np.array([[True], [False]]), "boolean"),
        (np.array([[1], [2]], dtype=np.uint8), "number"),
    ],
)
def test_numpy_arrays_of_every_type_are_tables(array: Any, kind: str) -> None:
    assert fitted(array).columns[0].kind == kind


def test_decimals_are_numbers_in_every_frame() -> None:
    cells = [decimal.Decimal("1.50"), None, decimal.Decimal(2)]
    for X in (
        pl.DataFrame({"a": cells}),
        pa.table({"a": cells}),
        pd.DataFrame({"a": pd.array(cells, dtype=pd.ArrowDtype(pa.decimal128(5, 2)))}),
        column(cells),
    ):
        np.testing.assert_array_equal(encoded(X, scaling="none"), [[1.5, 0], [1.75, 1], [2, 0]])


@pytest.mark.parametrize("dtype", [pl.Int128, pl.UInt128], ids=str)
def test_integers_wider_than_numpy_has_them_are_numbers(dtype: Any) -> None:
    frame = pl.DataFrame({"a": pl.Series([3, None, 2**80], dtype=dtype)})
    np.testing.assert_array_equal(encoded(frame, scaling="none")[::2, 0], [3.0, 2.0**80])
    assert fitted(frame, kinds={"a": "category"}).encoded_names[0] == f"a: {2**80} or 3"


def test_a_boolean_is_0_or_1_whatever_the_scaling() -> None:
    for scaling in ("none", "standard", "robust", "quantile"):
        np.testing.assert_array_equal(encoded([[True], [False], [True]], scaling=scaling), [[1], [0], [1]])


def test_a_boolean_column_reads_the_ways_in_which_booleans_are_written() -> None:
    encoder = fitted([[True], [False]])
    for cells in ([[1], [0]], [[1.0], [0.0]], [["True"], ["false"]], [["1"], ["0"]], [[np.bool_(True)], [False]]):
        np.testing.assert_array_equal(encoder.encode(read_table(cells)), [[1], [0]])
    for cells, shown in (([[2], [0]], "2"), ([["yes"], ["no"]], "'yes'"), (np.array([[1.0], [0.5]]), "0.5")):
        with pytest.raises(TableError, match=f"column 'x0' was boolean in fit, but has {shown}"):
            encoder.encode(read_table(cells))


def test_moments_become_days_year_month_day_weekday_and_hour() -> None:
    frame = column(
        [
            datetime.datetime(1970, 1, 1, 12),
            datetime.datetime(2024, 2, 29, 13, 30),
            datetime.datetime(1969, 12, 31, 0, 0),
        ]
    )
    encoder = fitted(frame, scaling="none")
    assert encoder.encoded_names == ["a.days", "a.year", "a.month", "a.day", "a.weekday", "a.hour"]
    expected = [[0.5, 1970, 1, 1, 3, 12], [19782 + 13.5 / 24, 2024, 2, 29, 3, 13.5], [-1, 1969, 12, 31, 2, 0]]
    np.testing.assert_array_equal(encoder.encode(read_table(frame), dtype=np.float64), expected)


def test_parts_that_do_not_vary_are_left_out() -> None:
    assert fitted(column([DAY, DAY + datetime.timedelta(1)], object), scaling="none").encoded_names == [
        "a.days",
        "a.month",
        "a.day",
        "a.weekday",
    ]


def test_moments_in_a_time_zone_are_read_in_utc() -> None:
    local = [MOMENT.replace(tzinfo=PARIS), MOMENT.replace(hour=20, tzinfo=PARIS), None]
    utc = [MOMENT - datetime.timedelta(hours=1), MOMENT.replace(hour=19), None]
    expected = encoded(column(utc), scaling="none")
    for X in (
        column(local),
        column(local, object),
        pl.DataFrame({"a": local}),
        pa.table({"a": local}),
        [[cell] for cell in local],
    ):
        np.testing.assert_array_equal(encoded(X, scaling="none"), expected)


def test_durations_and_times_become_seconds() -> None:
    durations, times = (
        [datetime.timedelta(seconds=90), None, datetime.timedelta(days=1)],
        [datetime.time(0, 1, 30), None, datetime.time(23, 0, 0, 500_000)],
    )
    for cells, last in ((durations, 86400), (times, 82800.5)):
        expected = [[90, 0], [(90 + last) / 2, 1], [last, 0]]
        for X in (
            column(cells, object),
            pl.DataFrame({"a": cells}),
            pa.table({"a": cells}),
            [[cell] for cell in cells],
        ):
            np.testing.assert_array_equal(encoded(X, scaling="none"), expected)
    np.testing.assert_array_equal(encoded(column(durations), scaling="none")[:, 0], [90, 43245, 86400])


def test_numbers_can_be_declared_categories_by_name_or_position() -> None:
    frame = pd.DataFrame({"zip": [1, 2, 3], "x": [1.0, 2.0, 4.0]})
    for kinds in ({"zip": "category"}, {0: "category"}, {np.int64(0): "category"}, {"zip": "category", 0: "category"}):
        assert fitted(frame, kinds=kinds).encoded_names == ["zip=1", "zip=2", "zip=3", "x"]


def test_strings_can_be_declared_numbers_and_the_first_that_is_none_is_named() -> None:
    np.testing.assert_array_equal(
        encoded(column(["12.5", " 3", None, "1e2"]), scaling="none", kinds={"a": "number"})[:, 0], [12.5, 3, 12.5, 100]
    )
    with pytest.raises(TableError, match="column 'a' has 'two' in row 3, which is not a number"):
        fitted(column(["1", "2", "n/a", "two"]), kinds={"a": "number"})
    assert fitted(column(["1", "2"], "category"), kinds={"a": "number"}).columns[0].kind == "number"


def test_strings_in_iso_format_can_be_declared_dates() -> None:
    cells = ["2024-02-29", "2024-02-29T13:30", "2024-02-29 12:30:00Z", "2024-02-29T13:30:00+01:00", None]
    numbers = encoded(column(cells), scaling="none", kinds={"a": "datetime"})
    np.testing.assert_array_equal(numbers[:4, 0], [19782, 19782 + 13.5 / 24, 19782 + 12.5 / 24, 19782 + 12.5 / 24])
    with pytest.raises(TableError, match=r"column 'a' has '29\.2\.2024' in row 1, which is not a date in ISO format"):
        fitted(column(["2024-02-29", "29.2.2024"]), kinds={"a": "datetime"})
    with pytest.raises(
        TableError, match=r"column 'a' has number values, but dates are expected; .*pandas\.to_datetime"
    ):
        fitted(column([1, 2]), kinds={"a": "datetime"})


def test_an_ignored_column_may_hold_anything() -> None:
    frame = pl.DataFrame({"a": [[1], [2]], "b": [1.0, 2.0]})
    encoder = fitted(frame, kinds={"a": "ignore"})
    assert encoder.encoded_names == ["b"]
    assert encoder.columns[0].note == "left out as asked" and encoder.columns[0].kind == "ignore"
    encoder.encode(read_table(pl.DataFrame({"a": ["x"], "b": [1.0]})))


BAD_KINDS: list[tuple[dict[Any, str], str]] = [
    ({"c": "number"}, "a kind is given for column 'c', which does not exist; expected one of 'a', 'b'"),
    ({2: "number"}, "a kind is given for column 2, which does not exist; expected a position from 0 to 1"),
    ({-1: "number"}, "a kind is given for column -1"),
    ({"a": "number", 0: "category"}, "two kinds are given for column 'a', 'number' and 'category'; remove one"),
]


@pytest.mark.parametrize(("kinds", "message"), BAD_KINDS, ids=str)
def test_kinds_for_columns_that_are_not_there_are_refused_with_a_list_of_those_that_are(
    kinds: Any, message: str
) -> None:
    with pytest.raises(TableError, match=message):
        fitted(pd.DataFrame({"a": [1, 2], "b": [1, 2]}), kinds=kinds)


@pytest.mark.parametrize("kinds", [["a"], {"a": "ordinal"}, {2.5: "number"}], ids=str)
def test_messages_about_kinds_name_the_parameter_that_was_given(kinds: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^kinds.*(expected|use) ") as caught:
        TableSettings(kinds=kinds)
    with pytest.raises(caught.type, match=f"^column_{re.escape(str(caught.value))}$"):
        MLPClassifier(column_kinds=kinds).fit([[1.0], [2.0]], [0, 1])


def test_an_unknown_embedding_is_refused_with_all_that_can_be_said_there() -> None:
    known = "None, 'periodic', 'piecewise'"
    with pytest.raises(ValueError, match=f"numeric_embedding='fourier' is not known; use one of {known}$"):
        TableSettings(numeric_embedding="fourier")
    with pytest.raises(ValueError, match=f"numeric_embedding='fourier' is not known; use one of 'auto', {known}$"):
        MLPClassifier(numeric_embedding="fourier").fit([[1.0], [2.0]], [0, 1])


def test_a_column_that_changes_its_kind_after_fit_is_refused_or_read() -> None:
    numbers, dates = fitted(column([1.0, 2.0, 3.0])), fitted(column([MOMENT, MOMENT.replace(year=2028)]))
    durations = fitted(column([datetime.timedelta(1), datetime.timedelta(2)]))
    np.testing.assert_array_equal(numbers.encode(read_table(column(["2"]))), numbers.encode(read_table(column([2]))))
    np.testing.assert_array_equal(numbers.encode(read_table(column([True]))), numbers.encode(read_table(column([1]))))
    np.testing.assert_array_equal(
        dates.encode(read_table(column(["2024-02-29 13:30"]))), dates.encode(read_table(column([MOMENT])))
    )
    for encoder, cells, message in (
        (numbers, [MOMENT], "column 'a' has dates, but numbers are expected; convert them to numbers, or fit"),
        (numbers, ["two"] * 4, "column 'a' has 'two' in row 0, which is not a number; write it like 12.5, or replace"),
        (dates, [3], "column 'a' has number values, but dates are expected; convert"),
        (durations, [3], "column 'a' has number values, but duration values are expected; convert"),
        (fitted([[True], [False]]), ["yes"], "was boolean in fit, but has 'yes' in row 0; convert"),
    ):
        with pytest.raises(TableError, match=message) as caught:
            encoder.encode(read_table(column(cells)))
        assert "kinds" not in str(caught.value)  # which would be of no use after fit
    for encoder in (numbers, dates, durations):
        assert np.isfinite(encoder.encode(read_table(column([None, NAN], object)))).all()


@pytest.mark.parametrize(("now", "kind"), [([datetime.timedelta(hours=1)], "duration"), ([datetime.time(3)], "time")])
def test_durations_and_times_are_no_numbers_as_nobody_knows_in_which_unit(now: list[Any], kind: str) -> None:
    columns: list[tuple[list[Any], str]] = [
        ([1.0, 2.0, 3.0], "numbers are expected; convert them to numbers in the unit of fit"),
        ([True, False], "booleans are expected; pass the column as it was in fit"),
    ]
    for then, message in columns:
        for X in (column(now), column(now, object), pl.DataFrame({"a": now})):
            with pytest.raises(TableError, match=f"column 'a' has {kind} values, but {message}"):
                fitted(column(then)).encode(read_table(X))


def test_durations_that_are_said_to_be_numbers_are_seconds() -> None:
    hours = column([datetime.timedelta(hours=1), datetime.timedelta(hours=3)])
    for kinds in ({"a": "number"}, {0: "number"}):
        encoder = fitted(hours, scaling="none", kinds=kinds)
        again = TableEncoder.from_state(*encoder.state())
        for one in (encoder, again):
            np.testing.assert_array_equal(one.encode(read_table(hours)), [[3600], [10800]])


DAYS_TOO_FAR = {
    "dates": np.array(["2024-01-01", "NaT", "600000-01-01", "2024-01-02"], dtype="M8[D]"),
    "dates before": np.array(["2024-01-01", "NaT", "-600000-01-01", "2024-01-02"], dtype="M8[s]"),
    "months": np.array(["2024-01", "NaT", "600000-01", "2024-02"], dtype="M8[M]"),
    "durations": np.array([1, "NaT", 10**15, 2], dtype="m8[D]"),
    "durations before": np.array([1, "NaT", -(2**62), 2], dtype="m8[s]"),
}


@pytest.mark.parametrize("case", DAYS_TOO_FAR)
def test_moments_and_durations_beyond_the_range_of_microseconds_are_refused(case: str) -> None:
    array = DAYS_TOO_FAR[case][:, None]
    objects = np.empty(array.shape, dtype=object)
    objects[:, 0] = list(array[:, 0])
    encoder = fitted(array, rows=[0, 3])  # the others are not looked at
    message = r"column 'x0' has .+ in row 2, which is out of range for 64-bit microseconds \(.*\); replace it"
    for X in (array, objects):
        for act in (lambda X=X: fitted(X), lambda X=X: encoder.encode(read_table(X))):
            with pytest.raises(TableError, match=message):
                act()
        levels = fitted(X, kinds={0: "category"})
        assert levels.columns[0].n_levels == 3
        for now in (array, objects):
            np.testing.assert_array_equal(levels.encode(read_table(now)), levels.encode(read_table(X)))
    assert np.isfinite(encoder.encode(read_table(array[:2]))).all()


def test_moments_of_pandas_beyond_the_range_of_microseconds_are_refused() -> None:
    far = [pd.Timestamp("2024-01-01"), pd.Timestamp(np.datetime64("600000-01-01", "s"))]
    for X in (column(far, object), column(np.array(far, dtype="M8[s]"))):
        with pytest.raises(TableError, match=r"column 'a' has .*600000.* in row 1, which is out of range"):
            fitted(X)


def test_integers_beyond_every_float_are_refused_by_name() -> None:
    with pytest.raises(TableError, match="column 'a' contains infinity or a value too large for float64 in row 1"):
        fitted(column([1, 10**400], object))
