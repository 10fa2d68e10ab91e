"""Columns as users have them: numbers as text, orders, ranges, and warnings that are not repeated."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score

import tabgnm
from tabgnm import FleetSearchCV
from tests.estimators.examples import mlp, mlpr

RNG = np.random.default_rng(0)
N = 120
TEXT = pd.DataFrame(
    {
        "size": [f"{number:.3f}" for number in RNG.normal(size=N)],
        "since": [f"{day:%d.%m.%Y}" for day in pd.date_range("2020-01-01", periods=N)],
        "colour": RNG.choice(["red", "blue", "green"], N),
    }
)
Y = (TEXT["size"].astype(float) + (TEXT["colour"] == "red") > 0).to_numpy()


def messages(act: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        act()
    return [str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)]


def test_a_model_of_numbers_as_text_is_that_of_the_numbers() -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X.iloc[:, :6].assign(days=pd.date_range("2001-01-01", periods=len(X)))
    text = X.astype(str)
    expected = mlp().fit(X[:400], y[:400])
    with pytest.warns(UserWarning, match="columns of text are read as numbers: 'mean radius', .*; as dates: 'days'"):
        model = mlp().fit(text[:400], y[:400])
    np.testing.assert_array_equal(model.predict_proba(text[400:]), expected.predict_proba(X[400:]))
    assert [info.kind for info in model.columns_] == [info.kind for info in expected.columns_]


def test_a_fit_of_several_candidates_warns_once_and_each_fit_does() -> None:
    for _ in range(2):
        (message,) = messages(lambda: mlp(n_candidates=3).fit(TEXT, Y))
        assert "as numbers: 'size'; as dates: 'since' (written like day/month/year)" in message


GRID = {"learning_rate": [0.01, 0.001], "scaling": ["standard", "quantile"]}


@pytest.mark.parametrize(
    "act",
    [
        lambda: FleetSearchCV(mlp(), GRID, cv=3).fit(TEXT, Y),
        lambda: GridSearchCV(mlp(), GRID, cv=3).fit(TEXT, Y),
        lambda: cross_val_score(mlp(), TEXT, Y, cv=3),
    ],
    ids=["FleetSearchCV", "GridSearchCV", "cross_val_score"],
)
def test_a_search_warns_of_a_column_once(act: Callable[[], Any]) -> None:
    for _ in range(2):  # but each search
        assert len(messages(act)) == 1


def test_a_saved_model_reads_text_as_it_did(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="columns of text"):
        model = mlp().fit(TEXT, Y)
    model.save(tmp_path / "model.tabgnm")
    again = tabgnm.load(tmp_path / "model.tabgnm")
    new = TEXT[:5].assign(size=["1.5", "", "NA", "-0.25", "?"], since="01.02.2023")
    for frame in (new, pl.from_pandas(new)):
        np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
    np.testing.assert_array_equal(
        again.predict_proba(new), model.predict_proba(new.assign(size=[1.5, None, None, -0.25, None]))
    )
    assert again.columns_ == model.columns_
    with pytest.raises(ValueError, match="column 'size' has 'big' in row 0, which is not a number"):
        again.predict(new.assign(size="big"))


@pytest.mark.filterwarnings("ignore:column 'grade' has no level that occurred in fit")
def test_the_order_of_levels_helps_where_few_rows_have_each() -> None:
    """The target rises with the level: a rank tells of levels with few rows, or none, what others teach."""
    levels = [f"grade {letter}" for letter in "tqhzkxbwfdmc"]
    grades = np.arange(len(levels)).repeat(12)
    seen = ~np.isin(grades, [3, 8])

    def error(*, ordered: bool) -> float:
        X = pd.DataFrame({"grade": pd.Categorical.from_codes(grades, levels, ordered=ordered)})
        model = mlpr(max_epochs=60, learning_rate=0.02).fit(X[seen], grades[seen].astype(float))
        return float(np.abs(model.predict(X[~seen]) - grades[~seen]).mean())

    assert error(ordered=True) < 0.5 * error(ordered=False)


def test_out_of_range_says_which_cells_training_did_not_have(tmp_path: Path) -> None:
    X = pd.DataFrame({"x": np.linspace(0, 1, N), "colour": TEXT["colour"]})
    model = mlp().fit(X, Y)
    model.save(tmp_path / "model.tabgnm")
    new = pd.DataFrame({"colour": ["red", "pink", None], "x": [1.5, 0.5, -0.1]}, index=[7, 8, 9])
    expected = pd.DataFrame({"colour": [False, True, False], "x": [True, False, True]}, index=[7, 8, 9])
    for one in (model, tabgnm.load(tmp_path / "model.tabgnm")):
        pd.testing.assert_frame_equal(one.out_of_range(new), expected)
        polars = one.out_of_range(pl.from_pandas(new))
        assert isinstance(polars, pl.DataFrame) and polars.to_dict(as_series=False) == expected.to_dict("list")
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        array = model.out_of_range([[0.5, "red"], [2.0, "red"]])
    np.testing.assert_array_equal(array, [[False, False], [True, False]])
    with pytest.raises(NotFittedError):
        mlp().out_of_range(X)


def test_no_column_that_can_be_used_is_told_once() -> None:
    frame = pd.DataFrame({"constant": 1.0, "missing": [None] * 40, "ignored": range(40)})
    model = mlp(n_candidates=2, column_kinds={"ignored": "ignore"})
    (message,) = messages(lambda: model.fit(frame, [0, 1] * 20))
    assert message.startswith("no column can be used, so all predictions are the same")
    assert messages(lambda: mlp().fit(frame, [0, 1] * 20)) == []


@pytest.mark.parametrize("as_text", [True, False])
def test_cross_validation_works_where_a_column_of_numbers_has_a_stray_word(as_text: bool) -> None:
    sizes = TEXT["size"] if as_text else TEXT["size"].astype(float).astype(object)
    frame = pd.DataFrame({"size": sizes.where(TEXT.index != 7, "TBD"), "colour": TEXT["colour"]})
    for kinds in (None, {"size": "number"}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores = cross_val_score(mlp(column_kinds=kinds), frame, Y, cv=3, error_score="raise")
        assert np.isfinite(scores).all()


def test_columns_are_a_frame_with_the_names_of_their_attributes() -> None:
    model = mlp().fit(TEXT[["colour"]], Y)
    frame = model.columns_.to_frame()
    assert frame["kind"].tolist() == ["category"] and frame["n_levels"].tolist() == [3]
    assert list(frame) == list(vars(model.columns_[0]))
