"""Categories whose type says that their levels have an order: the network gets the rank as well."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tabgnm.table import TableEncoder, read_table
from tests.table.examples import fitted

ORDER = ["low", "middle", "high", "top"]
CELLS = ["low", "high", None, "middle", "low", "high"] * 5


def arrow_ordered(cells: list[Any]) -> pa.Table:
    codes = pa.array([None if cell is None else ORDER.index(cell) for cell in cells], pa.int8())
    return pa.table({"a": pa.DictionaryArray.from_arrays(codes, ORDER, ordered=True)})


ORDERED: dict[str, Any] = {
    "pandas": pd.DataFrame({"a": pd.Categorical(CELLS, ORDER, ordered=True)}),
    "polars": pl.DataFrame({"a": pl.Series(CELLS, dtype=pl.Enum(ORDER))}),
    "pyarrow": arrow_ordered(CELLS),
    "pyarrow, several chunks": pa.concat_tables([arrow_ordered(CELLS).slice(0, 7), arrow_ordered(CELLS).slice(7)]),
}


@pytest.mark.parametrize("form", ORDERED)
def test_an_ordered_category_has_its_rank_beside_its_levels(form: str) -> None:
    encoder = fitted(ORDERED[form], scaling="none")
    assert encoder.encoded_names == ["a.rank", "a=high", "a=low", "a=middle", "a=(missing or unknown)"]
    assert encoder.columns[0].encoding == "one-hot, rank, missing or not"
    numbers = encoder.encode(read_table(ORDERED[form]))
    # A missing cell has the median of the ranks.
    np.testing.assert_array_equal(numbers[:4], [[0, 0, 1, 0, 0], [2, 1, 0, 0, 0], [1, 0, 0, 0, 1], [1, 0, 0, 1, 0]])


@pytest.mark.parametrize("settings", [{}, {"numeric_embedding": "periodic"}, {"max_one_hot": 2}], ids=str)
def test_every_type_with_an_order_gives_the_same_numbers_in_fit_and_later(settings: dict[str, Any]) -> None:
    expected = fitted(ORDERED["pandas"], **settings).encode(read_table(ORDERED["pandas"]))
    for form in ORDERED.values():
        encoder = fitted(form, **settings)
        schema, arrays = encoder.state()
        again = TableEncoder.from_state(json.loads(json.dumps(schema)), arrays)
        for now in (*ORDERED.values(), pd.DataFrame({"a": CELLS}), pd.DataFrame({"a": CELLS}).astype("category")):
            np.testing.assert_array_equal(encoder.encode(read_table(now)), expected)
            np.testing.assert_array_equal(again.encode(read_table(now)), expected)


def test_a_level_that_no_training_row_had_still_has_its_rank() -> None:
    encoder = fitted(ORDERED["pandas"], scaling="none")
    numbers = encoder.encode(read_table([["top"], ["huge"], [None]]))
    assert numbers[:, 0].tolist() == [3, 1, 1] and numbers[:, -1].tolist() == [1, 1, 1]
    codes = fitted(ORDERED["pandas"], scaling="none", max_one_hot=2)
    assert codes.encoded_names == ["a.rank", "a"]
    assert codes.encode(read_table([["top"], ["huge"], ["low"]])).tolist() == [[3, 0], [1, 0], [0, 2]]


def test_numbers_as_ordered_levels_keep_the_given_order() -> None:
    sizes = pd.DataFrame({"a": pd.Categorical([44, 36, 38, 44, 38], [36, 38, 44], ordered=True)})
    assert fitted(sizes, scaling="none").encode(read_table(sizes))[:, 0].tolist() == [2, 0, 1, 2, 1]


def test_levels_that_are_the_same_as_text_have_one_rank() -> None:
    frame = pd.DataFrame({"a": pd.Categorical([1, "1", "b", "c"] * 3, [1, "1", "b", "c"], ordered=True)})
    encoder = fitted(frame, scaling="none")
    again = TableEncoder.from_state(*encoder.state())
    assert again.encode(read_table(frame))[:4, 0].tolist() == [0, 0, 1, 2]


def test_the_order_is_not_used_where_it_says_nothing_or_the_user_says_so() -> None:
    two = pd.DataFrame({"a": pd.Categorical(["x", "y"] * 5, ["y", "x"], ordered=True)})
    assert fitted(two).encoded_names == ["a: x or y"]
    constant = pd.DataFrame({"a": pd.Categorical(["x"] * 5, ["y", "x"], ordered=True)})
    assert fitted(constant).columns[0].encoded == ()
    assert "a.rank" not in fitted(ORDERED["pandas"], kinds={"a": "category"}).encoded_names
    assert "a.rank" not in fitted(ORDERED["pandas"].astype("str").astype("category")).encoded_names


def test_text_of_numbers_with_an_order_stays_a_category() -> None:
    sizes = [str(size) for size in range(30, 50)]
    frame = pd.DataFrame({"a": pd.Categorical(sizes * 3, sizes, ordered=True)})
    encoder = fitted(frame, scaling="none")  # a warning would be an error here
    assert encoder.columns[0].kind == "category" and encoder.encoded_names == ["a.rank", "a"]
