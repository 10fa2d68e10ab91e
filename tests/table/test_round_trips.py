"""The same content in any form, and in any order of its columns, is the same table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tabgnm.table import read_table
from tests.table.examples import FORMS, NAMES, NUMERIC_SETTINGS, ROWS, encoded, fitted


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_bit_equal_numbers(form: str) -> None:
    expected = encoded(ROWS, numeric_embedding="piecewise", max_one_hot=5)
    np.testing.assert_array_equal(encoded(FORMS[form](), numeric_embedding="piecewise", max_one_hot=5), expected)


@pytest.mark.parametrize("form", FORMS)
def test_a_model_of_one_form_reads_every_other(form: str) -> None:
    encoder = fitted(FORMS["polars"]())
    expected = encoder.encode(read_table(FORMS["polars"]()))
    np.testing.assert_array_equal(encoder.encode(read_table(FORMS[form]())), expected)


@pytest.mark.parametrize("form", FORMS)
def test_kinds_are_inferred_alike(form: str) -> None:
    kinds = [info.kind for info in fitted(FORMS[form]()).columns]
    assert kinds == ["number", "number", "boolean", "category", "category", "datetime", "datetime"]


@pytest.mark.parametrize("form", FORMS)
def test_some_rows_encode_as_they_do_among_all(form: str) -> None:
    raw = read_table(FORMS[form]())
    encoder = fitted(ROWS)
    everything = encoder.encode(raw)
    for rows in (slice(3, 17), slice(None, None, -1), slice(50, 2, -7), slice(5, 5), np.array([4, 4, 0, 59, 20])):
        np.testing.assert_array_equal(encoder.encode(raw.take(rows)), everything[rows])
        np.testing.assert_array_equal(
            encoder.encode(raw.take(slice(1, None)).take(slice(2, None)).take([0, 1])), everything[3:5]
        )


@pytest.mark.parametrize("form", [form for form in FORMS if "numpy" not in form and "list" not in form])
def test_columns_may_be_selected_in_any_order(form: str) -> None:
    raw = read_table(FORMS[form]())
    turned = raw.select(NAMES[::-1])
    assert turned.names == NAMES[::-1] and turned.has_names
    encoder = fitted(FORMS[form]())
    np.testing.assert_array_equal(encoder.encode(turned.select(NAMES)), encoder.encode(raw))


@pytest.mark.parametrize("settings", NUMERIC_SETTINGS, ids=str)
def test_frames_and_arrays_of_numbers_agree_to_the_bit(settings: dict[str, Any]) -> None:
    X = np.random.default_rng(0).normal(size=(70, 4)).round(2)
    X[3, 1] = X[5, 1] = np.nan
    expected = encoded(X, **settings)
    for form in (
        np.asfortranarray(X),
        X.tolist(),
        X.astype(object),
        pd.DataFrame(X),
        pl.DataFrame(X, nan_to_null=True),
    ):
        np.testing.assert_array_equal(encoded(form, **settings), expected)


def test_numbers_of_every_width_are_numbers() -> None:
    X = np.arange(12).reshape(6, 2)
    for dtype in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "g"):
        np.testing.assert_array_equal(encoded(X.astype(dtype)), encoded(X))


def test_frames_with_names_that_are_no_strings_count_as_having_none() -> None:
    for names in ([0, 1], [("a", "b"), ("a", "c")]):
        raw = read_table(
            pd.DataFrame(
                [[1, 2.5], [3, 4.5]], columns=pd.Index(names) if names == [0, 1] else pd.MultiIndex.from_tuples(names)
            )
        )
        assert raw.names == ["x0", "x1"] and not raw.has_names
