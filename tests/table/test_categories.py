"""Levels: matched by value, one-hot if few, codes if many, rare ones together."""

from __future__ import annotations

import datetime
import decimal
import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tabgnm.table import TableEncoder, read_table
from tabgnm.table.cells import canonical
from tests.table.examples import NAN, column, encoded, fitted

LETTERS = "abcdefghijkl"


def letters(*counts: int) -> pd.DataFrame:
    """A column in which each of the first letters occurs so often."""
    return column([letter for letter, count in zip(LETTERS, counts, strict=False) for _ in range(count)])


def codes(X: Any, **settings: Any) -> list[int]:
    return [int(code) for code in encoded(X, **settings)[:, -1]]


def test_few_levels_are_one_column_each() -> None:
    encoder = fitted(column(["b", "a", "c", "a"]))
    assert encoder.encoded_names == ["a=a", "a=b", "a=c"] and encoder.embedding is None
    np.testing.assert_array_equal(encoder.encode(read_table(column(["c", "a"]))), [[0, 0, 1], [1, 0, 0]])


def test_an_unknown_level_is_all_zeros_where_nothing_was_missing_in_fit() -> None:
    encoder = fitted(column(["b", "a", "c"]))
    np.testing.assert_array_equal(encoder.encode(read_table(column(["d", None], object))), np.zeros((2, 3)))


def test_an_unknown_level_counts_as_missing_where_something_was_missing_in_fit() -> None:
    encoder = fitted(column(["b", "a", "c", None]))
    assert encoder.encoded_names[-1] == "a=(missing or unknown)"
    np.testing.assert_array_equal(encoder.encode(read_table(column(["d", None], object))), [[0, 0, 0, 1]] * 2)


def test_two_levels_are_one_column_of_minus_1_and_1_and_0_for_what_is_unknown() -> None:
    encoder = fitted(column(["no", "yes", "yes"]))
    assert encoder.encoded_names == ["a: no or yes"]
    np.testing.assert_array_equal(
        encoder.encode(read_table(column(["yes", "no", "maybe", None], object))), [[1], [-1], [0], [0]]
    )
    with_gaps = fitted(column(["no", "yes", None]))
    np.testing.assert_array_equal(with_gaps.encode(read_table(column(["yes", "no", None]))), [[1, 0], [-1, 0], [0, 1]])


def test_many_levels_are_codes_the_most_frequent_first_and_ties_in_alphabetical_order() -> None:
    frame = letters(3, 5, 3, 4)
    encoder = fitted(frame, max_one_hot=3)
    assert encoder.level_names == [["(missing or unknown)", "b", "d", "a", "c"]]
    assert codes(frame, max_one_hot=3) == [3] * 3 + [1] * 5 + [4] * 3 + [2] * 4
    embedding = encoder.embedding
    assert embedding is not None and vars(embedding) == {
        "n_plain": 0,
        "n_numeric": 0,
        "numeric": "periodic",
        "n_basis": 16,
        "numeric_dim": 4,
        "frequency_scale": 0.1,
        "levels": (5,),
        "level_dim": 8,
    }


def test_missing_and_unknown_levels_have_code_0() -> None:
    encoder = fitted(letters(3, 3, 3, 3), max_one_hot=3)
    np.testing.assert_array_equal(encoder.encode(read_table(column([None, "z", NAN], object))), [[0], [0], [0]])


def test_levels_with_few_rows_share_one() -> None:
    frame = letters(5, 4, 2, 1, 2)
    assert codes(frame, max_one_hot=3) == [1] * 5 + [2] * 4 + [3] * 5
    assert fitted(frame, max_one_hot=3).level_names == [["(missing or unknown)", "a", "b", "(rare)"]]
    assert fitted(frame, max_one_hot=3).columns[0].note == "3 rare levels share one"
    assert fitted(frame, max_one_hot=3, min_level_count=1).level_names == [
        ["(missing or unknown)", "a", "b", "c", "e", "d"]
    ]


def test_a_level_that_was_never_seen_is_a_rare_one_where_there_are_such() -> None:
    encoder = fitted(letters(5, 4, 2, 1, 2), max_one_hot=3)
    np.testing.assert_array_equal(encoder.encode(read_table(column(["never", None], object))), [[3], [0]])


def test_one_hot_levels_are_never_rare() -> None:
    assert fitted(letters(5, 1, 1)).encoded_names == ["a=a", "a=b", "a=c"]


def test_no_more_levels_are_kept_than_asked() -> None:
    encoder = fitted(letters(3, 5, 4, 6, 3), max_one_hot=3, max_levels=2)
    assert encoder.level_names == [["(missing or unknown)", "d", "b", "(rare)"]]


def test_a_column_of_which_every_level_is_rare_is_not_used() -> None:
    ids = pd.DataFrame({"id": [f"id {i}" for i in range(20)], "x": np.arange(20.0)})
    with pytest.warns(UserWarning, match="category 'id' .*: not used"):
        encoder = fitted(ids)
    assert encoder.encoded_names == ["x"] and encoder.columns[0].note == "no level has 3 rows: not used"
    ids.loc[3, "id"] = None
    with pytest.warns(UserWarning, match="category 'id' .*: only whether it is missing is used"):
        encoder = fitted(ids)
    assert encoder.encoded_names == ["id=(missing or unknown)", "x"]
    np.testing.assert_array_equal(encoder.encode(read_table(ids))[:, 0], np.arange(20) == 3)
    assert encoder.encode(read_table(pd.DataFrame({"id": ["new"], "x": [1.0]})))[0, 0] == 0


def test_what_is_left_out_as_every_level_is_rare_is_told() -> None:
    texts = pd.DataFrame({"size": [f"size {i}" for i in range(20)], "x": np.arange(20.0)})
    message = r"no level of the category 'size' has min_level_count=3 training rows: not used; drop the column"
    with pytest.warns(UserWarning, match=message) as caught:
        fitted(texts)
    assert [warning.filename for warning in caught] == [fitted.__code__.co_filename]
    for settings in ({"min_level_count": 1}, {"max_one_hot": 20}):
        assert fitted(texts, **settings).columns[0].encoded  # a warning would be an error here
    fitted(texts, kinds={"size": "ignore"})


def test_untrained_levels_are_those_that_no_training_row_had() -> None:
    frame = pd.DataFrame({"a": letters(3, 3, 3, 3)["a"], "b": ["p", "q", "r", "s"] * 3, "c": ["p", "q", "r", None] * 3})
    encoder = fitted(frame, max_one_hot=2)
    assert encoder.embedding is not None and encoder.embedding.levels == (5, 5, 4)
    assert encoder.untrained_levels == [0, 5]  # of the stacked table; column c had missing cells to learn code 0 from


SAME: dict[str, Any] = {
    "int": column([3, 4, 5]),
    "int as float": column([3.0, 4.0, 5.0]),
    "nullable int": column([3, 4, 5], "Int64"),
    "string": column(["3", "4", "5"]),
    "object string": column(["3", "4", "5"], object),
    "object int": column([3, 4, 5], object),
    "numpy scalars": column([np.int8(3), np.float32(4), np.str_("5")], object),
    "category of int": column([3, 4, 5], "category"),
    "category of string": column(["3", "4", "5"], "category"),
    "polars int": pl.DataFrame({"a": [3, 4, 5]}),
    "polars string": pl.DataFrame({"a": ["3", "4", "5"]}),
    "numpy int": np.array([[3], [4], [5]]),
    "numpy float": np.array([[3.0], [4.0], [5.0]]),
    "numpy string": np.array([["3"], ["4"], ["5"]]),
    "numpy bytes": np.array([[b"3"], [b"4"], [b"5"]]),
}


@pytest.mark.parametrize("now", SAME)
@pytest.mark.parametrize("then", ["int", "string", "category of int", "numpy string"])
def test_levels_match_by_value_whatever_their_types(then: str, now: str) -> None:
    encoder = fitted(SAME[then], kinds={0: "category"})
    np.testing.assert_array_equal(encoder.encode(read_table(SAME[now])), np.eye(3))


def test_large_integers_stay_exact() -> None:
    big = 2**60
    for X in (
        column([big, big + 1, big + 2, None], "Int64"),
        column([big, big + 1, big + 2, None], object),
        pl.DataFrame({"a": [big, big + 1, big + 2, None]}),
    ):
        assert fitted(X, kinds={"a": "category"}).encoded_names[:3] == [f"a={big}", f"a={big + 1}", f"a={big + 2}"]


def test_true_and_1_are_different_levels() -> None:
    assert fitted(column(["x", True, 1, 1.0], object)).encoded_names == ["a=1", "a=True", "a=x"]


def test_an_empty_string_is_a_level_not_a_missing_cell() -> None:
    assert fitted(column(["", "a", "b"])).encoded_names == ['a=""', "a=a", "a=b"]


def test_dates_as_categories_match_across_frames() -> None:
    days = ["2024-01-01", "2024-01-02", "2024-01-03 12:30"]
    stamps = pd.to_datetime(days, format="ISO8601")
    encoder = fitted(column(stamps), kinds={"a": "category"})
    assert encoder.encoded_names == ["a=2024-01-01", "a=2024-01-02", "a=2024-01-03 12:30:00"]
    for X in (
        pl.DataFrame({"a": stamps.to_pydatetime()}),
        stamps.to_numpy().reshape(-1, 1),
        column(stamps.tz_localize("UTC")),
        column(["2024-01-01", "2024-01-02", "2024-01-03 12:30:00"]),
    ):
        np.testing.assert_array_equal(encoder.encode(read_table(X)), np.eye(3))


STAMPS = pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03 12:30:00.000001"], format="ISO8601")
LENGTHS = pd.to_timedelta([-1, 36, 10**4 + 0.5], unit="h")
FRACTIONS = [0.1, -1e-4, 123.456]


def in_every_form(index: Any, unit: str) -> dict[str, Any]:
    """The same moments or durations in every type that a column may have."""
    arrow = {"M": "timestamp", "m": "duration"}[unit]
    array = index.to_numpy()
    return {
        "pandas": column(index),
        "pandas, arrow": column(index, f"{arrow}[us][pyarrow]"),
        "pandas, arrow, ns": column(index, f"{arrow}[ns][pyarrow]"),
        "pandas objects": column(list(index), object),
        "Python objects": column([cell.to_pytimedelta() if unit == "m" else cell.to_pydatetime() for cell in index]),
        "numpy objects, ns": column(list(array.astype(f"{unit}8[ns]")), object),
        "numpy objects, us": column(list(array.astype(f"{unit}8[us]")), object),
        "numpy objects, in a list": [[cell] for cell in array.astype(f"{unit}8[ns]")],
        "numpy": array.reshape(-1, 1),
        "polars": pl.DataFrame({"a": index.to_numpy().astype(f"{unit}8[us]")}),
        "a category of pandas": column(index).astype("category"),
    }


FORMS_OF_LEVELS = {
    "moments": in_every_form(STAMPS, "M"),
    "durations": in_every_form(LENGTHS, "m"),
    "numbers": {
        "float64": column(FRACTIONS),
        "float32": column(FRACTIONS, "float32"),
        "float32, made wider": column(FRACTIONS, "float32").astype("float64"),
        "numpy float32": np.array(FRACTIONS, dtype=np.float32)[:, None],
        "objects of float32": column(list(np.array(FRACTIONS, dtype=np.float32)), object),
        "polars float32": pl.DataFrame({"a": pl.Series(FRACTIONS, dtype=pl.Float32)}),
        "text": column(["0.1", "-0.0001", "123.456"]),
    },
}


@pytest.mark.parametrize("what", FORMS_OF_LEVELS)
def test_levels_of_the_same_content_are_the_same_in_every_form(what: str) -> None:
    forms = FORMS_OF_LEVELS[what]
    expected = encoded(forms[next(iter(forms))], kinds={0: "category"})
    assert expected.sum() == 3
    for then in forms:
        encoder = fitted(forms[then], kinds={0: "category"})
        for now in forms:
            np.testing.assert_array_equal(encoder.encode(read_table(forms[now])), expected, f"{then}, then {now}")


def test_numbers_that_differ_are_different_levels() -> None:
    cells = [0.1, 0.1 + 1e-12, 1 / 3, 2 / 3, 2.0**-30, 1e300, 5e-324, 1e-300, 16777217.5]
    assert encoded(column(cells), kinds={"a": "category"}, max_one_hot=20).sum(axis=0).tolist() == [1.0] * len(cells)


OLD_TEXTS: dict[str, tuple[list[str], list[Any]]] = {
    "durations of pandas": (["1 days 00:00:00", "2 days 00:00:00"], list(pd.to_timedelta([1, 2], unit="D"))),
    "durations of numpy": (["1 days", "172800 seconds"], [np.timedelta64(1, "D"), np.timedelta64(172800, "s")]),
    "durations of Python": (["1 day, 0:00:00", "2 days, 0:00:00"], [datetime.timedelta(1), datetime.timedelta(2)]),
    "moments of numpy": (
        ["2024-01-01T00:00:00.000000000", "2024-01-02"],
        [np.datetime64("2024-01-01", "ns"), np.datetime64("2024-01-02", "D")],
    ),
    "nanoseconds": (
        ["2024-01-01 00:00:00.000000001", "2024-01-02"],
        [pd.Timestamp("2024-01-01 00:00:00.000000001"), pd.Timestamp("2024-01-02")],
    ),
    "float32": (["0.10000000149011612", "0.20000000298023224"], [np.float32(0.1), np.float32(0.2)]),
    "beside the number it is close to": (["0.1", "0.10000000149011612"], [0.1, 0.10000000149011612]),
}


@pytest.mark.parametrize("case", OLD_TEXTS)
def test_levels_of_files_that_were_written_before_are_still_known(case: str) -> None:
    texts, cells = OLD_TEXTS[case]
    encoder = fitted(column(["a", "b"]))
    schema, arrays = encoder.state()
    schema["columns"][0]["levels"] = texts
    again = TableEncoder.from_state(schema, arrays)
    np.testing.assert_array_equal(again.encode(read_table(column([*cells, None], object))), [[-1], [1], [0]])


def test_100_000_levels_in_200_000_rows_take_little_memory() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"id": [f"customer {i}" for i in np.concatenate([np.arange(100_000), rng.integers(0, 100_000, 100_000)])]}
    )
    with pytest.warns(UserWarning, match="look like identifiers"):
        encoder = fitted(frame)
    numbers = encoder.encode(read_table(frame))
    assert numbers.shape == (200_000, 1) and numbers.max() == 5001
    assert encoder.columns[0].n_levels == 100_000
    schema, arrays = encoder.state()
    assert len(schema["columns"][0]["levels"]) == 5000 and sum(array.nbytes for array in arrays.values()) < 1000
    tracemalloc.start()
    fitted(frame, kinds={"id": "category"}).encode(read_table(frame))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60e6


@pytest.mark.parametrize(
    "cell", [decimal.Decimal("1E+99999999"), decimal.Decimal("1E-99999999"), 10**5000], ids=["large", "small", "long"]
)
def test_a_number_of_very_many_digits_is_a_level_at_once(cell: Any) -> None:
    assert len(canonical(cell) or "") < 5000
    assert canonical(cell) == canonical(cell)
