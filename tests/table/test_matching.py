"""Columns are matched by name; what does not match is told in scikit-learn's words."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

from tabgnm.table import RawTable, match_columns, read_table


def frame(*names: str) -> pd.DataFrame:
    return pd.DataFrame([[float(position) for position in range(len(names))]] * 2, columns=list(names))


def matched(X: Any, fitted_on: Any) -> RawTable:
    fitted = read_table(fitted_on)
    return match_columns(read_table(X), fitted.names, fitted.has_names, "StandardScaler")


def words_of_scikit_learn(X: Any, fitted_on: Any) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            StandardScaler().fit(fitted_on).transform(X)
        except (ValueError, UserWarning) as problem:
            return str(problem)
    return ""


def test_the_order_of_named_columns_does_not_matter() -> None:
    raw = matched(frame("c", "a", "b"), frame("a", "b", "c"))
    assert raw.names == ["a", "b", "c"]
    np.testing.assert_array_equal(
        raw.source.block([0, 1, 2])
        if raw.source.block([0]) is not None
        else [raw.source.values(i, "").data for i in range(3)],
        [[1, 1], [2, 2], [0, 0]],
    )


def test_a_table_that_already_matches_is_left_alone() -> None:
    raw = read_table(frame("a", "b"))
    assert match_columns(raw, ["a", "b"], True, "E") is raw


@pytest.mark.parametrize(
    ("X", "fitted_on"),
    [
        (frame("a", "d"), frame("a", "b")),
        (frame("a"), frame("a", "b")),
        (frame("a", "b", "c"), frame("a", "b")),
        (frame(*"abcdefgh"), frame(*"ijklmnop")),
        (np.zeros((2, 3)), np.zeros((2, 2))),
        (np.zeros((2, 1)), np.zeros((2, 2))),
    ],
    ids=["other name", "one missing", "one too many", "all different", "too wide", "too narrow"],
)
def test_what_does_not_match_is_said_exactly_as_scikit_learn_says_it(X: Any, fitted_on: Any) -> None:
    words = words_of_scikit_learn(X, fitted_on)
    assert words
    with pytest.raises(ValueError, match=f"^{re.escape(words)}$"):
        matched(X, fitted_on)


@pytest.mark.parametrize(
    ("X", "fitted_on"),
    [(np.zeros((2, 2)), frame("a", "b")), (frame("a", "b"), np.zeros((2, 2)))],
    ids=["now without names", "then without names"],
)
def test_names_on_one_side_only_are_a_warning_and_positions_count(X: Any, fitted_on: Any) -> None:
    words = words_of_scikit_learn(X, fitted_on)
    with pytest.warns(UserWarning, match=f"^{re.escape(words)}$"):
        assert matched(X, fitted_on).n_columns == 2
    with (
        pytest.warns(UserWarning, match="feature names"),
        pytest.raises(ValueError, match=r"X has 3 features, but StandardScaler is expecting 2 features as input\."),
    ):
        matched(np.zeros((1, 3)) if isinstance(X, np.ndarray) else frame("a", "b", "c"), fitted_on)
