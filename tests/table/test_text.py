"""Numbers and dates that come as text: what is taken for what, in which format, and what is missing."""

from __future__ import annotations

import datetime
import json
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabgnm.table import TableEncoder, TableError, TableSettings, read_table
from tabgnm.table.text import USUAL_READING, TextReading
from tabgnm.table.values import Values, as_numbers, date_parts
from tests.table.examples import NAN, column, encoded, fitted

N = 60
NUMBERS = np.random.default_rng(0).normal(scale=900, size=N).round(2)
DAYS = [datetime.datetime(2023, 1, 31) + datetime.timedelta(days=7 * day) for day in range(N)]


def quietly(X: Any, **settings: Any) -> TableEncoder:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fitted(X, **settings)


def warned(X: Any, **settings: Any) -> tuple[TableEncoder, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        encoder = fitted(X, **settings)
    return encoder, [str(warning.message) for warning in caught]


def read(cells: Any, **settings: Any) -> Any:
    """What the cells of one column are read as, without scaling."""
    frame = column(cells, object)
    return quietly(frame, scaling="none", **settings).encode(read_table(frame), dtype=np.float64)[:, 0]


TYPES: dict[str, Callable[[list[Any]], Any]] = {
    "objects": lambda cells: column(cells, object),
    "pandas strings": lambda cells: column(cells, "string"),
    "pandas arrow": lambda cells: column(cells, "string[pyarrow]"),
    "polars": lambda cells: pl.DataFrame({"a": cells}),
    "pyarrow": lambda cells: pa.table({"a": cells}),
    "list of rows": lambda cells: [[cell] for cell in cells],
    "numpy objects": lambda cells: np.array(cells, dtype=object)[:, None],
}


CATEGORIES: dict[str, Callable[[list[Any]], Any]] = {
    "pandas": lambda cells: column(cells, "category"),
    "polars": lambda cells: pl.DataFrame({"a": pl.Series(cells, dtype=pl.Categorical)}),
    "pyarrow": lambda cells: pa.table({"a": pa.array(cells).dictionary_encode()}),
}


@pytest.mark.parametrize("form", CATEGORIES)
def test_a_type_that_says_category_is_believed_whatever_its_text_looks_like(form: str) -> None:
    for cells in ([str(number) for number in NUMBERS], [f"{day:%Y-%m-%d}" for day in DAYS]):
        encoder, messages = warned(CATEGORIES[form](cells))
        assert encoder.columns[0].kind == "category"
        assert not any("read as" in message for message in messages)


@pytest.mark.parametrize("form", TYPES)
def test_text_of_numbers_is_encoded_as_the_numbers_are(form: str) -> None:
    cells: list[Any] = [str(number) for number in NUMBERS]
    cells[3] = None
    X = TYPES[form](cells)
    encoder = quietly(X)
    expected = encoded(column([None if cell is None else float(cell) for cell in cells]))
    np.testing.assert_array_equal(encoder.encode(read_table(X), dtype=np.float64), expected)
    assert (encoder.columns[0].kind, encoder.columns[0].note) == ("number", "text read as numbers")


@pytest.mark.parametrize("form", TYPES)
def test_text_of_dates_is_encoded_as_the_dates_are(form: str) -> None:
    X = TYPES[form]([None, *(f"{day:%Y-%m-%d}" for day in DAYS)])
    encoder = quietly(X)
    expected = encoded(column([None, *DAYS]))
    np.testing.assert_array_equal(encoder.encode(read_table(X), dtype=np.float64), expected)
    assert (encoder.columns[0].kind, encoder.columns[0].note) == ("datetime", "text read as dates")


def test_one_warning_names_all_columns_of_text_and_how_to_decide_otherwise() -> None:
    frame = pd.DataFrame(
        {
            "price": [f"{number:.2f}" for number in NUMBERS],
            "day": [f"{day:%Y-%m-%d}" for day in DAYS],
            "share": [f"{number % 100:.0f} %" for number in NUMBERS],
            "town": ["Bern", "Chur"] * 30,
        }
    )
    _, messages = warned(frame)
    assert messages == [
        "columns of text are read as numbers: 'price', 'share' (written like 12.5%); as dates: 'day'. Convert them "
        "before fit or confirm with column_kinds={'price': 'number', 'share': 'number', 'day': 'datetime'}; to keep a "
        "column as a category, use the kind 'category'"
    ]
    kinds = {"price": "number", "share": "category", "day": "datetime"}
    encoder, messages = warned(frame, kinds=kinds)
    assert not messages
    assert [info.kind for info in encoder.columns] == ["number", "datetime", "category", "category"]


@pytest.mark.parametrize(
    "nothing", ["", "  ", "NA", "n/a", "N/A", "?", "-", "null", "None", "nan", "#N/A", "<NA>", "."]
)
def test_texts_for_nothing_are_missing_in_numbers_and_dates(nothing: str) -> None:
    for kinds in (None, {"a": "number"}):
        cells = [*map(str, NUMBERS), nothing]
        numbers = quietly(column(cells), kinds=kinds).encode(read_table(column(cells)))
        assert numbers[-1].tolist() == [0, 1] and not numbers[:-1, 1].any()
    for kinds in (None, {"a": "datetime"}):
        cells = [*map(str, DAYS), nothing]
        assert quietly(column(cells), kinds=kinds).columns[0].n_missing == 1
    # Also later, and where numbers were fitted as numbers.
    for encoder in (fitted(column(NUMBERS)), fitted(column([1.0, 2.0, NAN]))):
        np.testing.assert_array_equal(
            encoder.encode(read_table(column([nothing, "1"]))), encoder.encode(read_table(column([None, 1.0])))
        )


FORMATS: dict[str, tuple[list[str], list[float]]] = {
    "spaces around": ([" 1.5", "2.5 ", "\t-3.25"], [1.5, 2.5, -3.25]),
    "exponents": (["1e5", "1.5E-3", "+2e+2"], [1e5, 1.5e-3, 200]),
    "points without digits": (["1.", ".5", "-.25"], [1, 0.5, -0.25]),
    "thousands": (["1,234.5", "12", "1,234,567"], [1234.5, 12, 1234567]),
    "decimal commas": (["12,5", "0,25", "-3"], [12.5, 0.25, -3]),
    "decimal commas and points": (["1.234,5", "1.234.567", "0,5"], [1234.5, 1234567, 0.5]),
    "spaces for thousands": (["1 234.5", "12", "-1 234 567"], [1234.5, 12, -1234567]),
    "narrow spaces and decimal commas": (["1\u202f234,5", "12\u00a0345", "0,5"], [1234.5, 12345, 0.5]),
    "apostrophes": (["1'234.5", "12", "1\u2019234\u2019567"], [1234.5, 12, 1234567]),
    "a minus that is none of ASCII": (["\u22121.5", "2.5", "3"], [-1.5, 2.5, 3]),
    "dollars": (["$1,234.50", "-$5", "$ 7", "$-2", "3"], [1234.5, -5, 7, -2, 3]),
    "euros": (["1.234,50 \u20ac", "\u20ac0,5", "\u22123 \u20ac"], [1234.5, 0.5, -3]),
    "percent": (["12.5%", "5 %", "-100%"], [0.125, 0.05, -1]),
    "percent with commas": (["12,5%", "5%", "-100%"], [0.125, 0.05, -1]),
}


@pytest.mark.parametrize("case", FORMATS)
def test_numbers_are_read_in_the_format_that_all_of_them_are_in(case: str) -> None:
    texts, numbers = FORMATS[case]
    np.testing.assert_allclose(read(texts), numbers)
    np.testing.assert_allclose(read(texts, kinds={"a": "number"}), numbers)


@pytest.mark.parametrize("cells", [["1,234", "5,678"], ["1,234", "5", "17"], ["1,234%", "5%"]], ids=str)
def test_commas_that_may_be_either_are_not_guessed(cells: list[str]) -> None:
    encoder, messages = warned(column(cells * 5))
    assert encoder.columns[0].kind == "category" and len(messages) == 1
    assert re.search(
        r"treated as categories.*'a' \(1,234.5%? or 1.*,5%?\)\. Convert them .*decimal of pandas", messages[0]
    )
    with pytest.raises(
        TableError, match=r"column 'a' are ambiguous: the text can be read as .* or .*; convert the column first"
    ):
        fitted(column(cells), kinds={"a": "number"})
    assert warned(column(cells * 5), kinds={"a": "category"})[1] == []


def test_amounts_in_two_currencies_are_not_mixed() -> None:
    cells = [f"{'$' if place % 2 else '€'}{abs(number):.2f}" for place, number in enumerate(NUMBERS)]
    assert quietly(column(cells)).columns[0].kind == "category"
    encoder = quietly(column(cells[1::2]))
    assert encoder.columns[0].note == "text read as numbers, written like $1234.5"
    with pytest.warns(UserWarning, match=r"cannot be read as a number written like \$1234.5, such as '€5'"):
        encoder.encode(read_table(column(["€5"])))


@pytest.mark.parametrize(
    "cells", [["1_000.5", "2.5"], ["\u0661.\u0665", "2.5"], ["0x1F", "2.5"], ["12 34", "2.5"], ["5.5 kg", "2.5"]]
)
def test_what_only_python_takes_for_a_number_is_none(cells: list[str]) -> None:
    assert warned(column(cells * 5))[0].columns[0].kind == "category"


CODES = {
    "leading zeros": ["01234", "8001", "12.5"],
    "equal lengths": [f"{10_000 + 7 * i}" for i in range(N)],
    "long identifiers": [f"{10**11 + 7 * i}" for i in range(N)],
    "few whole numbers": ["1", "2", "3", "-1"],
    "icd codes": [*map(str, NUMBERS), "V1", "V2", "V3", "V4"],
    "versions": ["1.2.3", "1.2.4", "2.0.0"],
    "times": ["12:30", "13:45", "01:00"],
    "many words": ["unknown"] * 10 + list(map(str, NUMBERS)),
}


@pytest.mark.parametrize("case", CODES)
def test_codes_that_look_like_numbers_stay_categories(case: str) -> None:
    encoder = quietly(column(CODES[case] * 3), min_level_count=1)
    assert encoder.columns[0].kind == "category"


NOT_CODES = {
    "years": ([str(year) for year in range(1980, 2020)], "number"),
    "many whole numbers": ([str(number) for number in range(11)], "number"),
    "few fractions": (["0.5", "1.0"], "number"),
    "negative numbers of equal length": ([f"-{10_000 + 7 * i}" for i in range(N)], "number"),
    "few dates": (["2024-01-01", "2024-02-01"], "datetime"),
    "beside numbers": ([*range(20), "5", "6"], "number"),
    "beside dates": ([*DAYS, "2024-02-29"], "datetime"),
}


@pytest.mark.parametrize("case", NOT_CODES)
def test_other_numbers_and_dates_are_read(case: str) -> None:
    cells, kind = NOT_CODES[case]
    assert quietly(column(cells, object)).columns[0].kind == kind


def test_a_column_of_codes_says_so() -> None:
    encoder, messages = warned(column(["1", "2", "3"] * 9))
    assert encoder.columns[0].note == "digits, taken as codes" and not messages


def test_a_few_words_among_numbers_are_missing_and_stay_so() -> None:
    cells = [*map(str, NUMBERS), "unknown", "too long"]
    encoder, (message,) = warned(column(cells))
    assert "'a' ('too long', 'unknown' are missing)" in message
    assert encoder.columns[0].note == "text read as numbers, 'too long', 'unknown' are missing"
    again = TableEncoder.from_state(json.loads(json.dumps(encoder.state()[0])), encoder.state()[1])
    for one in (encoder, again):
        assert one.encode(read_table(column(["unknown ", "?", None])))[:, 1].tolist() == [1, 1, 1]


def test_what_a_warning_advises_is_accepted_and_says_nothing_more() -> None:
    cells = [*map(str, NUMBERS), "TBD"]
    (message,) = warned(column(cells))[1]
    assert "column_kinds={'a': 'number'}" in message
    encoder, messages = warned(column(cells), kinds={"a": "number"})
    assert not messages and encoder.columns[0].note == "'TBD' is missing"
    assert encoder.encode(read_table(column(["TBD"])))[0].tolist() == [0, 1]
    with pytest.raises(TableError, match=r"column 'a' has 'TBD' in row 60, which is not a number; write it like 12\.5"):
        fitted(column([*cells, *["TBD"] * 9]), kinds={"a": "number"})


MIXTURES: dict[str, tuple[list[Any], str, str]] = {
    "integers and an empty text": ([*range(60), ""], "number", ""),
    "integers and a text for nothing": ([*range(60), " n/a", "?"], "number", ""),
    "integers and a word": ([*range(60), "TBD"], "number", "text read as numbers, 'TBD' is missing"),
    "floats and a frequent word": ([*NUMBERS.tolist(), *["unknown"] * 3], "number", "'unknown' is missing"),
    "dates and an empty text": ([*DAYS, ""], "datetime", ""),
    "dates and a word": ([*DAYS, "never"], "datetime", "text read as dates, 'never' is missing"),
}


@pytest.mark.parametrize("case", MIXTURES)
def test_a_few_texts_among_real_numbers_or_dates_are_missing(case: str) -> None:
    cells, kind, note = MIXTURES[case]
    encoder, messages = warned(column(cells, object))
    assert encoder.columns[0].kind == kind and encoder.columns[0].note.endswith(note)
    assert encoder.columns[0].n_missing == sum(isinstance(cell, str) for cell in cells)
    assert len(messages) == (1 if note else 0)  # gaps written as text need no warning
    real = [None if isinstance(cell, str) else cell for cell in cells]
    numbers = encoder.encode(read_table(column(cells, object)), dtype=np.float64)
    np.testing.assert_array_equal(numbers, encoded(column(real, object)))


def test_many_words_among_real_numbers_are_levels() -> None:
    assert quietly(column([*range(60), *["unknown"] * 10], object)).columns[0].kind == "category"
    assert quietly(column([1, 2, 3, "a", "b"] * 9, object)).columns[0].kind == "category"


@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("cells", [list(map(str, NUMBERS)), list(NUMBERS)], ids=["text", "numbers"])
def test_a_cell_that_cannot_be_read_after_fit_is_missing_with_a_warning(cells: list[Any], declared: bool) -> None:
    encoder = quietly(column([*cells, None], object), kinds={"a": "number"} if declared else None)
    with pytest.warns(UserWarning, match="cannot be read") as caught:
        numbers = encoder.encode(read_table(column(["1.5", "TBD", "2.5", "TBD"])))
    assert [str(warning.message) for warning in caught] == [
        "column 'a' has 2 cells that cannot be read as a number, such as 'TBD' in row 1; they are treated as missing"
    ]
    expected = encoder.encode(read_table(column([1.5, None, 2.5, None])))
    np.testing.assert_array_equal(numbers, expected)
    with pytest.raises(TableError, match="column 'a' has 'Bern' in row 0, which is not a number"):
        encoder.encode(read_table(column(["Bern", "Chur"] * 5)))  # another column


def test_dates_that_cannot_be_read_after_fit_are_missing_with_a_warning() -> None:
    encoder = quietly(column([f"{day:%d.%m.%Y}" for day in DAYS]))
    later = column(["31.12.2024", "soon"])
    with pytest.warns(UserWarning, match=r"1 cell that cannot be read as a date written like day/month/year, such as"):
        numbers = encoder.encode(read_table(later))
    expected = encoder.encode(read_table(column(["31.12.2024", None])))
    np.testing.assert_array_equal(numbers, expected)


def test_groups_of_thousands_are_read_after_fit_where_they_are_certain() -> None:
    encoder = quietly(column([f"{number % 1000:.2f}" for number in NUMBERS]), scaling="none")
    later = encoder.encode(read_table(column(["1,234.50", "1,234,567", "999.5"])))
    assert later[:, 0].tolist() == [1234.5, 1234567, 999.5]
    with pytest.warns(UserWarning, match="cannot be read as a number, such as '1,234' in row 0"):
        encoder.encode(read_table(column(["1,234"])))


def test_what_the_text_is_comes_from_the_training_rows_alone() -> None:
    frame = column([*map(str, NUMBERS), *["word", "other", "third", "fourth"] * 20])
    with pytest.warns(UserWarning, match="read as numbers: 'a'"):
        encoder = fitted(frame, rows=np.arange(N))
    with pytest.raises(TableError, match="column 'a' has 'word' in row 60, which is not a number"):
        encoder.encode(read_table(frame))
    assert quietly(frame).columns[0].kind == "category"


def test_numbers_of_a_text_column_may_come_as_numbers_later() -> None:
    encoder = quietly(column([f"{number:.2f}".replace(".", ",") for number in NUMBERS]))
    for now in (column(NUMBERS), pl.DataFrame({"a": NUMBERS}), NUMBERS[:, None]):
        np.testing.assert_array_equal(encoder.encode(read_table(now)), fitted(column(NUMBERS)).encode(read_table(now)))
    with pytest.raises(
        TableError, match=r"column 'a' has '1\.5e3' in row 0, which is not a number written like 1\.234,5"
    ):
        encoder.encode(read_table(column(["1.5e3"] * 4)))


def test_infinity_as_text_is_refused_as_infinity_is() -> None:
    for text in ("inf", "-Infinity", "1e999"):
        with pytest.raises(TableError, match=r"infinity.*column 'a' has -?inf in row 60"):
            quietly(column([*map(str, NUMBERS), text]))


DATES = {
    "ISO with time and zone": "%Y-%m-%dT%H:%M:%S+00:00",
    "ISO with space": "%Y-%m-%d %H:%M",
    "ISO with Z": "%Y-%m-%dT%H:%M:%S.%fZ",
    "slashes, year first": "%Y/%m/%d",
    "German": "%d.%m.%Y",
    "French, with time": "%d/%m/%Y %H:%M:%S",
    "American": "%m/%d/%Y",
}


@pytest.mark.parametrize("case", DATES)
def test_dates_are_read_in_the_order_that_all_of_them_have(case: str) -> None:
    cells = [day.strftime(DATES[case]) for day in DAYS]
    expected = encoded(column(DAYS), scaling="none")[:, 0]
    np.testing.assert_array_equal(read(cells), expected)
    np.testing.assert_array_equal(read(cells, kinds={"a": "datetime"}), expected)


def test_an_offset_from_utc_is_taken_into_account() -> None:
    hours = read(["2024-01-01T02:00+02:00", "2023-12-31T19:00:00-0500", "2024-01-01T00:00Z", "2024-01-02"])
    np.testing.assert_array_equal(hours, [19723, 19723, 19723, 19724])


def test_days_and_months_that_may_be_either_are_not_guessed() -> None:
    cells = ["01/02/2024", "03.04.2024", "05-06-2024"] * 5
    encoder, messages = warned(column(cells))
    assert encoder.columns[0].kind == "category"
    assert len(messages) == 1 and "'a' (day/month/year or month/day/year)" in messages[0]
    with pytest.raises(
        TableError, match=r"dates in column 'a'.*day/month/year or month/day/year; .*pandas\.to_datetime"
    ):
        fitted(column(cells), kinds={"a": "datetime"})
    # One date that has only one order decides, and both orders may say the same.
    assert quietly(column([*cells, "31/12/2024"])).columns[0].note == "text read as dates, written like day/month/year"
    assert quietly(column([*cells, "12/31/2024"])).columns[0].note == "text read as dates, written like month/day/year"
    assert quietly(column(["01/01/2024", "02/02/2024"])).columns[0].kind == "datetime"


def test_a_day_that_does_not_exist_is_no_date() -> None:
    assert quietly(column(["2024-02-30", "2023-02-29"] * 9)).columns[0].kind == "category"
    encoder, (message,) = warned(column([*(f"{day:%Y-%m-%d}" for day in DAYS), "0000-00-00"]))
    assert encoder.columns[0].kind == "datetime" and "('0000-00-00' is missing)" in message


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=12, max_size=40, unique=True),
    st.sampled_from(["{!r}", " {!r} ", "{:.17e}"]),
)
def test_any_number_that_is_written_is_read_again(numbers: list[float], how: str) -> None:
    texts = [how.format(number) for number in numbers]
    raw = read_table([[text] for text in texts])
    encoder = TableEncoder(TableSettings(scaling="none", kinds={0: "number"})).fit(raw)
    if encoder.columns[0].note:  # constant, or as good as that
        return
    np.testing.assert_array_equal(encoder.encode(raw, dtype=np.float64)[:, 0], numbers)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.datetimes(datetime.datetime(1000, 1, 1)), min_size=2, max_size=20, unique=True))
def test_any_moment_in_iso_format_is_read_again(moments: list[datetime.datetime]) -> None:
    frame = pl.DataFrame({"a": moments})
    texts = pl.DataFrame({"a": [moment.isoformat() for moment in moments]})
    expected = encoded(frame, scaling="none")
    np.testing.assert_array_equal(encoded(texts, scaling="none", kinds={"a": "datetime"}), expected)


def test_a_text_is_read_once_for_all_encoders_of_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = read_table(column([f"{day:%Y-%m-%d}" for day in DAYS] * 2, object))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        encoders = [TableEncoder(TableSettings(scaling=scaling)).fit(raw) for scaling in ("standard", "quantile")]
    fresh = read_table(column([f"{day:%Y-%m-%d}" for day in DAYS] * 2, object))
    read: list[str] = []
    parse = TextReading.parse

    def recorded(self: TextReading, text: str) -> Any:
        read.append(text)
        return parse(self, text)

    monkeypatch.setattr(TextReading, "parse", recorded)
    for encoder in encoders:
        encoder.encode(fresh)
    assert sorted(read) == sorted(f"{day:%Y-%m-%d}" for day in DAYS)


@given(
    st.lists(
        st.one_of(
            st.none(),
            st.floats(allow_nan=False, allow_infinity=False).map(repr),
            st.integers().map(str),
            st.from_regex(r"[+-]?([0-9]{1,4}(\.[0-9]{0,3})?|\.[0-9]{1,3})([eE][+-]?[0-9]{1,2})?", fullmatch=True),
            st.sampled_from(["NA", "nan", "inf", "", " 7 ", "\N{MINUS SIGN}5", "1 000"]),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_columns_are_read_as_their_cells_are_one_by_one(cells: list[str | None]) -> None:
    usual = USUAL_READING["number"]
    array = np.array([*cells, "1"], dtype=object)[:-1]
    numbers = as_numbers(Values("text", array), "a")
    expected = [np.nan if cell is None or usual.parse(cell) is None else usual.parse(cell) for cell in cells]
    np.testing.assert_array_equal(numbers, expected)


@pytest.mark.parametrize("text", ["1_000", "\N{FULLWIDTH DIGIT ONE}", "1e", "e5", "--1", "1.2.3"])
def test_what_is_no_number_is_refused_among_plain_numbers(text: str) -> None:
    with pytest.raises(TableError, match="is not a number"):
        as_numbers(Values("text", np.array(["1", "2.5", text], dtype=object)), "a")


def test_a_column_is_read_once_for_all_encoders_of_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = read_table(column([f"{day:%Y-%m-%d}" for day in DAYS] * 2, object))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        encoders = [TableEncoder(TableSettings(scaling=scaling)).fit(raw) for scaling in ("standard", "quantile")]
    calls: list[int] = []

    def recorded(moments: Any) -> Any:
        calls.append(len(moments))
        return date_parts(moments)

    monkeypatch.setattr("tabgnm.table.plans.date_parts", recorded)
    fresh = read_table(column([f"{day:%Y-%m-%d}" for day in DAYS] * 2, object))
    for part in (fresh, fresh.take(slice(10)), fresh.take(np.array([0, 1]))):
        before = [encoder.encode(part) for encoder in encoders]
        for encoder, expected in zip(encoders, before, strict=True):
            np.testing.assert_array_equal(encoder.encode(part), expected)  # nobody has written to what is shared
    assert calls == [2 * len(DAYS), 10, 2]
