"""Which cells lie outside of what was seen in training; numbers of any magnitude."""

from __future__ import annotations

import datetime
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tabgnm.table import TableEncoder, TableError, read_table
from tests.table.examples import NAN, NUMERIC_SETTINGS, column, encoded, fitted

TRAINING = pd.DataFrame(
    {
        "number": [1.0, 5.0, NAN, 3.0],
        "day": pd.to_datetime(["2024-01-01", "2024-06-01", None, "2024-03-01"]),
        "took": pd.to_timedelta([1, 2, 3, 4], unit="h"),
        "colour": ["red", "blue", "green", None],
        "member": [True, False, True, True],
        "constant": [7, 7, 7, 7],
        "ignored": [1.0, 2.0, 3.0, 4.0],
    }
)
NEW = pd.DataFrame(
    {
        "number": [5.0, 5.1, 0.9, NAN],
        "day": pd.to_datetime(["2024-01-01", "2025-01-01", "2023-12-31", None]),
        "took": pd.to_timedelta([1, 5, 0, 2], unit="h"),
        "colour": ["red", "pink", "Red", None],
        "member": [True, False, True, False],
        "constant": [7, 8, 9, 7],
        "ignored": [1.0, 99.0, -99.0, NAN],
    }
)
OUTSIDE = [[True] * 4 + [False] * 3 if row in (1, 2) else [False] * 7 for row in range(4)]


@pytest.mark.parametrize("settings", NUMERIC_SETTINGS, ids=str)
def test_cells_outside_of_the_training_rows_are_found(settings: dict[str, Any]) -> None:
    encoder = fitted(TRAINING, kinds={"ignored": "ignore"}, **settings)
    again = TableEncoder.from_state(json.loads(json.dumps(encoder.state()[0])), encoder.state()[1])
    for one in (encoder, again):
        np.testing.assert_array_equal(one.out_of_range(read_table(NEW)), OUTSIDE)
        assert not one.out_of_range(read_table(TRAINING)).any()


def test_only_the_training_rows_count() -> None:
    encoder = fitted(np.arange(10.0)[:, None], rows=[2, 3, 4])
    assert np.flatnonzero(~encoder.out_of_range(read_table(np.arange(10.0)[:, None]))[:, 0]).tolist() == [2, 3, 4]


def test_an_unseen_level_among_rare_ones_is_not_told_apart_from_them() -> None:
    levels = ["a"] * 5 + ["b"] * 5 + ["c"] * 5
    assert fitted(column(levels), max_one_hot=2).out_of_range(read_table([["d"], ["a"]])).ravel().tolist() == [
        True,
        False,
    ]
    rare = fitted(column([*levels, "e"]), max_one_hot=2)
    assert not rare.out_of_range(read_table([["d"], ["a"]])).any()


def test_text_and_infinite_numbers_are_compared_as_numbers() -> None:
    encoder = fitted(column([f"{number}.5" for number in range(20)]), kinds={"a": "number"})
    assert encoder.out_of_range(read_table(column(["3.25", "?", "19.5", "19.6"]))).ravel().tolist() == [False] * 3 + [
        True
    ]
    assert encoder.out_of_range(read_table([[np.inf], [-np.inf], [NAN]])).ravel().tolist() == [True, True, False]


def test_a_state_of_the_first_format_is_read_and_only_ranges_are_missing() -> None:
    encoder = fitted(TRAINING)
    schema, arrays = encoder.state()
    for own in schema["columns"]:
        for key in ("text", "order", "span"):
            del own[key]
    old = TableEncoder.from_state(schema | {"format": 1}, arrays)
    np.testing.assert_array_equal(old.encode(read_table(NEW)), encoder.encode(read_table(NEW)))
    with pytest.raises(
        TableError, match=r"range of column 'number' is not known.*earlier version; fit the model again"
    ):
        old.out_of_range(read_table(NEW))


@pytest.mark.parametrize("factor", [1e-307, 1e-300, 1e-200, 1e200, 1e300])
@pytest.mark.parametrize("settings", [own for own in NUMERIC_SETTINGS if own["scaling"] != "none"], ids=str)
def test_numbers_of_any_magnitude_are_scaled_alike(settings: dict[str, Any], factor: float) -> None:
    X = np.random.default_rng(0).normal(size=(300, 1))
    np.testing.assert_allclose(encoded(X * factor, **settings), encoded(X, **settings), rtol=0, atol=1e-6)
    encoder = fitted(X * factor, **settings)
    again = TableEncoder.from_state(*encoder.state())
    probe = read_table([[0.0], [factor], [1.0], [-1e308], [NAN]])
    np.testing.assert_array_equal(again.encode(probe), encoder.encode(probe))
    assert np.isfinite(again.encode(probe)).all()


@pytest.mark.parametrize("numeric_embedding", [None, "periodic"])
def test_numbers_that_a_type_cannot_hold_without_scaling_are_refused_on_request(numeric_embedding: Any) -> None:
    X = np.random.default_rng(0).normal(size=(30, 1))
    for factor, what in ((1e300, "large"), (1e-300, "small")):
        encoder = fitted(X * factor, scaling="none", numeric_embedding=numeric_embedding)
        encoder.check_precision(np.float64)
        with pytest.raises(TableError, match=f"column 'x0' has numbers .*too {what} for float32.*another scaling"):
            encoder.check_precision(np.float32)
        fitted(X * factor, scaling="standard").check_precision(np.float32)
    fitted(X, scaling="none").check_precision(np.float32)


def test_a_date_of_today_is_outside_of_the_dates_of_yesterday() -> None:
    days = [datetime.date(2024, 1, day) for day in range(1, 20)]
    encoder = fitted(column(days, object))
    assert encoder.out_of_range(read_table([[datetime.date(2024, 1, 20)], [days[3]]])).ravel().tolist() == [True, False]
