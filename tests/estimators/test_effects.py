"""How predictions change with the value of a column."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tabgnm.estimators.effects import Effect, effects
from tests.estimators.examples import frame, gnmr, mlp, mlpr, numbers

TABLE = frame(80)
TARGET = TABLE["count"] + TABLE["size"].fillna(-3)


@cache
def fitted() -> Any:
    return mlpr().fit(TABLE, TARGET)


def by_column(found: list[Effect]) -> dict[str, Effect]:
    return {effect.column: effect for effect in found}


@pytest.mark.parametrize("column", list(TABLE.columns))
def test_the_mean_is_that_of_predictions_for_tables_with_the_value_in_all_rows(column: str) -> None:
    [effect] = effects(fitted(), TABLE, column, n_points=4)
    assert effect.column == column and effect.outputs == ("y",)
    curves = []
    for value in effect.grid:
        changed = TABLE.copy()
        changed[column] = pd.Series([value == "True" if column == "flag" else value] * len(TABLE)).astype(
            TABLE[column].dtype
        )
        curves.append(fitted().predict(changed))
    np.testing.assert_allclose(effect.mean[:, 0], np.mean(curves, axis=1), rtol=1e-5)
    centers = np.average(curves, axis=0, weights=effect.share)
    moved = np.array(curves) - centers + centers.mean()
    np.testing.assert_allclose(effect.lower[:, 0], np.quantile(moved, 0.1, axis=1), rtol=1e-4)
    np.testing.assert_allclose(effect.upper[:, 0], np.quantile(moved, 0.9, axis=1), rtol=1e-4)


def test_grids_are_values_of_the_table_as_people_read_them() -> None:
    found = by_column(effects(fitted(), TABLE, n_points=5))
    assert list(found) == list(TABLE.columns)
    assert {name: effect.kind for name, effect in found.items()} == {
        "size": "number",
        "count": "number",
        "colour": "category",
        "town": "category",
        "flag": "category",
        "when": "date",
    }
    size = found["size"]
    assert len(size.grid) == 6 and size.has_missing and size.labels[-1] == "missing" and np.isnan(size.grid[-1])
    assert set(size.grid[:-1]) <= set(TABLE["size"]) and (np.diff(size.grid[:-1]) > 0).all()
    assert size.share[-1] == pytest.approx(TABLE["size"].isna().mean()) and size.share.sum() == pytest.approx(1)
    counts = TABLE["colour"].value_counts()
    assert list(found["colour"].grid) == list(counts.index)
    np.testing.assert_allclose(found["colour"].share, counts / len(TABLE))
    assert len(found["town"].grid) == 5 and found["town"].share.sum() < 1
    assert list(found["flag"].grid) == ["False", "True"] and not found["flag"].has_missing
    assert set(found["when"].grid) <= set(TABLE["when"].to_numpy()) and found["when"].labels[0].startswith("2024-")


def test_missing_levels_and_the_order_of_levels_are_kept() -> None:
    table = pd.DataFrame(
        {
            "grade": pd.Categorical(["low", "high", "high", "middle"] * 10, ["low", "middle", "high"], ordered=True),
            "colour": pd.Series(["red", None, "blue", "blue"] * 10, dtype=object),
            "day": pd.to_datetime(["2024-01-01", None, "2024-03-01", "2024-02-01"] * 10),
        }
    )
    found = by_column(effects(mlpr().fit(table, np.arange(40.0)), table))
    assert list(found["grade"].grid) == ["low", "middle", "high"]
    assert list(found["colour"].grid) == ["blue", "red", None]
    assert found["colour"].labels == ["blue", "red", "missing"]
    assert found["day"].labels == ["2024-01-01", "2024-02-01", "2024-03-01", "missing"]


def test_the_table_is_not_modified_and_its_library_does_not_matter() -> None:
    before = TABLE.copy(deep=True)
    of_pandas = effects(fitted(), TABLE, n_points=3)
    pd.testing.assert_frame_equal(TABLE, before)
    turned = pl.from_pandas(TABLE[TABLE.columns[::-1].to_list()], nan_to_null=True)
    for one, other in zip(of_pandas, effects(fitted(), turned, n_points=3), strict=True):
        assert one.labels == other.labels
        np.testing.assert_allclose(one.mean, other.mean, rtol=1e-6)


def test_arrays_have_numbered_columns() -> None:
    X, _, target = numbers(60)
    model = gnmr().fit(X, np.column_stack([target, -target]))
    X = X.copy()
    X.setflags(write=False)
    found = effects(model, X, [0, "x2"], n_points=3)
    assert [effect.column for effect in found] == ["x0", "x2"]
    assert found[0].outputs == ("y0", "y1") and found[0].mean.shape == found[0].lower.shape == (3, 2)


@pytest.mark.parametrize(
    ("labels", "outputs"),
    [
        (np.array(["no", "yes"] * 30), ("yes",)),
        (np.array(["a", "b", "c"] * 20), ("a", "b", "c")),
        (np.tile([[0, 1], [1, 1], [0, 0]], (20, 1)), ("y0", "y1")),
        (np.array([["a", "u"], ["b", "v"]] * 30), ("y0=a", "y0=b", "y1=u", "y1=v")),
        (np.zeros(60, int), (0,)),
    ],
)
def test_effects_on_classes_are_probabilities_with_the_names_of_labels(labels: Any, outputs: tuple[Any, ...]) -> None:
    X = numbers(60)[0]
    model = mlp(n_folds=0, max_epochs=1).fit(X, labels)
    [effect] = effects(model, X, 1, n_points=3)
    assert effect.outputs == outputs
    probabilities = []
    for value in effect.grid:
        changed = X.copy()
        changed[:, 1] = value
        own = model.predict_proba(changed)
        own = np.concatenate(own, axis=1) if isinstance(own, list) else own
        probabilities.append(own[:, -1:].mean(axis=0) if len(outputs) == 1 else own.mean(axis=0))
    np.testing.assert_allclose(effect.mean, probabilities, atol=1e-6)
    assert (effect.lower >= 0).all() and (effect.upper <= 1).all()


def test_quantiles_have_an_effect_each() -> None:
    X, _, target = numbers(60)
    model = mlpr(loss="quantile", quantile=[0.1, 0.9]).fit(X, target)
    [effect] = effects(model, X, 0, n_points=3)
    assert effect.outputs == ("quantile 0.1", "quantile 0.9") and (effect.mean[:, 0] <= effect.mean[:, 1]).all()


def test_few_rows_are_drawn_reproducibly() -> None:
    first, again, other = (effects(fitted(), TABLE, "size", n_rows=10, random_state=seed)[0] for seed in (0, 0, 1))
    assert (first.mean == again.mean).all() and (first.mean != other.mean).any()
    assert (first.share == other.share).all()  # of all rows


def test_small_blocks_return_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = effects(fitted(), TABLE, n_points=3)
    monkeypatch.setattr("tabgnm.estimators.effects._BLOCK_ELEMENTS", 1)
    for one, other in zip(at_once, effects(fitted(), TABLE, n_points=3), strict=True):
        np.testing.assert_allclose(one.mean, other.mean, rtol=1e-6)


def test_a_column_that_is_not_used_has_a_flat_effect_if_it_is_asked_for() -> None:
    X = pd.DataFrame({"used": numbers()[0][:, 0], "constant": 1.0, "ignored": ["a", "b"] * 60})
    model = mlp(column_kinds={"ignored": "ignore"}).fit(X, numbers()[1])
    assert [effect.column for effect in effects(model, X, n_points=2)] == ["used"]
    ignored, constant = effects(model, X, ["ignored", "constant"])
    assert list(ignored.grid) == ["a", "b"] and np.ptp(ignored.mean) < 1e-9
    assert list(constant.grid) == [1.0]


@pytest.mark.filterwarnings("ignore:no column can be used")
def test_where_nothing_can_be_used_there_are_no_effects() -> None:
    assert effects(mlp().fit(np.ones((20, 2)), [0, 1] * 10), np.ones((20, 2))) == []


def test_the_method_returns_a_tidy_frame() -> None:
    tidy = fitted().effects(TABLE, ["colour", "flag"])
    assert list(tidy.columns) == ["column", "value", "output", "mean", "lower", "upper", "share"]
    assert len(tidy) == 5 and set(tidy["column"]) == {"colour", "flag"} and set(tidy["output"]) == {"y"}


def test_columns_that_do_not_exist_are_named() -> None:
    for column in ("no such", 6, True):
        with pytest.raises(ValueError, match=rf"there is no column {column!r}; expected one of 'size', 'count'"):
            effects(fitted(), TABLE, [column])
    with pytest.raises(ValueError, match="n_points=1"):
        effects(fitted(), TABLE, n_points=1)


def test_the_spread_of_counts_is_never_below_0() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(150, 2))
    # The effect of one column depends on the other: moved to the same mean, curves of some rows would be negative.
    model = mlpr(loss="poisson", max_epochs=30).fit(X, np.round(np.exp(1.5 * X[:, 0] * X[:, 1]).clip(0, 20)))
    assert min(effect.lower.min() for effect in effects(model, X)) >= 0
