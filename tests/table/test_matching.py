"""Columns are matched by name; what does not match is told in scikit-learn's words."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

from tabgnm import MLPClassifier
from tabgnm.estimators.model_file import from_bytes, to_bytes
from tabgnm.table import RawTable, TableError, match_columns, read_table
from tests.table.examples import fitted


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


def numbered(*names: Any) -> pd.DataFrame:
    """A frame whose columns have integers for names; each cell says the name of its column."""
    return pd.DataFrame([[float(name) for name in names]] * 2, columns=list(names))


def cells(raw: RawTable) -> list[float]:
    return [float(raw.source.values(column, "").data[0]) for column in range(raw.n_columns)]


def test_integers_that_are_no_positions_are_names() -> None:
    raw = read_table(numbered(1, 2, 3))
    assert raw.names == ["1", "2", "3"] and not raw.has_names  # scikit-learn has no names here
    assert read_table(numbered(0, 1, 2)).names == ["x0", "x1", "x2"]
    assert fitted(numbered(1, 2, 3), kinds={"2": "category"}).columns[1].kind == "category"


def test_columns_named_by_integers_are_matched_by_them() -> None:
    assert cells(matched(numbered(3, 1, 2), numbered(1, 2, 3))) == [1.0, 2.0, 3.0]
    assert cells(matched(numbered(-7, 10**12), numbered(10**12, -7))) == [1e12, -7.0]
    for other in (numbered(1, 2, 4), numbered(1, 2), numbered(1, 2, 3, 4)):
        with pytest.raises(TableError, match="The feature names should match those that were passed during fit"):
            matched(other, numbered(1, 2, 3))


def test_a_table_without_names_is_matched_by_position_with_integers_that_are_none() -> None:
    for one, other in ((np.zeros((2, 3)), numbered(5, 7, 9)), (numbered(0, 1, 2), numbered(5, 7, 9))):
        assert matched(one, other).n_columns == matched(other, one).n_columns == 3
        with pytest.raises(TableError, match="X has 2 features, but StandardScaler is expecting 3 features"):
            matched(numbered(5, 7), np.zeros((2, 3)))


@pytest.mark.parametrize("plain", [np.zeros((2, 3)), numbered(0, 1, 2)], ids=["array", "frame"])
def test_positions_in_disorder_could_be_meant_either_way_and_are_refused(plain: Any) -> None:
    for X, fitted_on in ((numbered(2, 1, 0), plain), (plain, numbered(2, 1, 0))):
        with pytest.raises(TableError, match=r"names 2, 1, 0 .* by name or by position.*; .*astype\(str\).*to_numpy"):
            matched(X, fitted_on)
    assert cells(matched(numbered(1, 0, 2), numbered(2, 1, 0))) == [2.0, 1.0, 0.0]


def test_an_integer_in_kinds_that_may_be_a_name_or_a_position_is_refused() -> None:
    for key in (0, 1, 3):
        with pytest.raises(
            TableError, match=f"key {key} of the column kinds is ambiguous.* names 1, 2, 3.*; use '1', .*'3'"
        ):
            fitted(numbered(1, 2, 3), kinds={key: "category"})
    for frame in (numbered(0, 1, 2), numbered(0, 1, 2).to_numpy()):
        assert fitted(frame, kinds={1: "category"}).columns[1].kind == "category"


def test_a_model_file_keeps_integers_as_names() -> None:
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=[1, 2, 3])
    model = MLPClassifier(hidden=(4,), n_candidates=1, n_folds=1, max_epochs=2, random_state=0).fit(X, X[1] > 0)
    for one in (model, from_bytes(to_bytes(model))):
        assert not hasattr(one, "feature_names_in_")
        np.testing.assert_array_equal(one.predict_proba(X[[3, 1, 2]]), model.predict_proba(X))
        np.testing.assert_array_equal(one.predict_proba(X.to_numpy()), model.predict_proba(X))


def test_warnings_point_at_the_line_that_called() -> None:
    model = MLPClassifier(hidden=(4,), n_candidates=1, n_folds=1, max_epochs=2, random_state=0)
    model.fit(frame("a", "b").assign(a=[0.0, 1.0]), [0, 1])
    calls = [model.predict, model.predict_proba, model.encode, lambda X: matched(X, frame("a", "b"))]
    for call in calls:
        with pytest.warns(UserWarning, match="does not have valid feature names") as caught:
            call(np.zeros((2, 2)))
        assert [warning.filename for warning in caught] == [__file__]
