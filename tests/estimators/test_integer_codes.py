"""Whole numbers that are codes become categories."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import TimeSeriesSplit

from tabgnm import GNMClassifier, GNMRegressor, load
from tabgnm.estimators.integer_codes import integer_codes

N_ROWS, N_SHOPS = 1500, 80
EFFECTS = np.random.default_rng(1).normal(size=N_SHOPS)


def shops(n_rows: int = N_ROWS, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    """A table in which each shop has its own effect, and its number says nothing else."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n_rows, 4))).add_prefix("x")
    X["shop"], X["age"] = rng.integers(0, N_SHOPS, n_rows), rng.integers(20, 90, n_rows)
    return X, 2 * EFFECTS[X["shop"]] + X["x0"].to_numpy() + np.sin(X["age"] / 15) + 0.3 * rng.normal(size=n_rows)


def found(X: Any, y: Any, make: Any = GNMRegressor, **how: Any) -> list[str]:
    rows = make(effort="fast")._prepare(X, y).rows
    return [rows.raw.names[column] for column in integer_codes(rows, set(), 5, **({"tested": True} | how))]


@pytest.mark.parametrize("convert", [lambda X: X, lambda X: X.astype(float), lambda X: X.assign(shop=X["shop"] * 7)])
def test_columns_with_an_effect_for_each_number_are_found(convert: Any) -> None:
    X, y = shops()
    assert found(convert(X), y) == ["shop"]
    assert found(convert(X), y > np.median(y), GNMClassifier) == ["shop"]
    assert found(convert(X), np.column_stack([X["x1"], y])) == ["shop"]
    assert found(convert(X), y, tested=False) == ["shop", "age"]
    holes = convert(X).astype(float)
    holes.loc[::7, "shop"] = np.nan
    assert found(holes, y) == ["shop"]


@pytest.mark.parametrize(
    "y_of",
    [
        lambda shop, rng: rng.normal(size=len(shop)),
        lambda shop, rng: np.exp(shop / 10) * rng.lognormal(size=len(shop)),
        lambda shop, rng: np.sin(shop / 8) + 0.1 * rng.normal(size=len(shop)),
        lambda shop, rng: (shop > 40) + 0.1 * rng.normal(size=len(shop)),
        lambda shop, rng: rng.standard_cauchy(len(shop)),
        lambda shop, rng: np.zeros(len(shop)),
        lambda shop, rng: shop / 20 + 0.4 * EFFECTS[shop] + 0.3 * rng.normal(size=len(shop)),
    ],
    ids=["noise", "growth", "wave", "jump", "outliers", "constant", "mostly smooth"],
)
def test_smooth_effects_are_those_of_numbers(y_of: Any) -> None:
    for seed in range(5):
        X, _ = shops(seed=seed)
        assert found(X, y_of(X["shop"].to_numpy(), np.random.default_rng(seed))) == []


def test_outliers_and_frequent_classes_do_not_hide_codes() -> None:
    X, y = shops()
    rng = np.random.default_rng(2)
    assert found(X, y + np.where(rng.random(N_ROWS) < 0.005, 1e4, 0.0)) == ["shop"]
    assert found(X, np.where(rng.random(N_ROWS) < 0.5, 2, y > np.median(y)), GNMClassifier) == ["shop"]


@pytest.mark.parametrize("n_shops", [40, 45])
def test_codes_are_found_if_there_are_few_more_than_pieces(n_shops: int) -> None:
    """The share of their variance that a piecewise linear function explains varies most then."""
    n_found = n_smooth = 0
    for seed in range(50):
        rng = np.random.default_rng(seed)
        X = pd.DataFrame({"shop": rng.integers(0, n_shops, 1000), "x": rng.normal(size=1000)})
        noise = rng.normal(size=1000)
        n_found += found(X, 2 * rng.normal(size=n_shops)[X["shop"]] + noise) == ["shop"]
        n_smooth += found(X, 2 * np.sin(X["shop"] / 8) + noise) == []
    assert n_found >= 46 and n_smooth == 50


def test_small_effects_are_those_of_numbers() -> None:
    """They are significant if there are many rows, but explain little."""
    X, _ = shops(20_000)
    noise = 10 * np.random.default_rng(2).normal(size=20_000)
    assert found(X, EFFECTS[X["shop"]] + noise) == []
    assert found(X, 3 * EFFECTS[X["shop"]] + noise) == ["shop"]


def test_there_are_at_most_2000_codes() -> None:
    for n_codes, expected in ((2_000, ["code"]), (2_001, [])):
        code = np.arange(n_codes).repeat(5)
        X = pd.DataFrame({"code": code, "x": np.arange(len(code)) / 7})
        assert found(X, np.arange(len(code)) % 3, tested=False) == expected


def test_rows_that_no_network_is_trained_on_have_no_influence() -> None:
    X, y = shops()
    train, val = np.arange(750), np.arange(750, N_ROWS)
    y[train] = np.random.default_rng(2).normal(size=750)
    for own, expected in (((train, val), ()), ((val, train), (4,))):
        rows = GNMRegressor(effort="fast", cv=[own])._prepare(X, y).rows
        assert integer_codes(rows, set(), 5, tested=True) == expected


def test_codes_have_enough_rows_for_embeddings_and_are_not_sought_in_partial_fit() -> None:
    X, y = shops()
    for least, kind in ((3, "category"), (25, "number")):
        model = GNMRegressor(effort="fast", max_epochs=1, random_state=0, min_level_count=least).fit(X, y)
        assert model.columns_[4].kind == kind
    assert GNMRegressor(effort="fast").partial_fit(X, y).columns_[4].kind == "number"  # later rows may differ


def test_other_columns_are_not_tested() -> None:
    X, y = shops()
    X["amount"] = np.round(np.random.default_rng(2).lognormal(4, 2, N_ROWS))  # most values occur once
    X["few"], X["half"], X["text"] = X["shop"] % 32, X["shop"] + 0.5, "s" + X["shop"].astype(str)
    assert found(X, y, tested=False) == ["shop", "age"]
    rows = GNMRegressor(effort="fast")._prepare(X, y).rows
    assert integer_codes(rows, {"shop"}, 5, tested=True) == () == integer_codes(rows, {4}, 5, tested=True)


def test_a_table_with_codes_is_learned() -> None:
    X, y = shops(3000)
    train, test = (X[:N_ROWS], y[:N_ROWS]), (X[N_ROWS:], y[N_ROWS:])
    scores = {
        codes: GNMRegressor(effort="fast", random_state=0, integer_codes=codes).fit(*train) for codes in ("auto", False)
    }
    assert scores["auto"].score(*test) > 0.95
    assert scores[False].score(*test) < 0.9


def test_true_applies_to_all_candidates_and_false_to_none(tmp_path: Any) -> None:
    X, y = shops(400)
    for codes, kind in ((True, "category"), (False, "number")):
        model = GNMRegressor(effort="fast", max_epochs=2, random_state=0, integer_codes=codes).fit(X, y)
        assert [own.kind for own in model.columns_ if own.name == "shop"] == [kind]
        model.save(tmp_path / "model.tabgnm")
        np.testing.assert_allclose(load(tmp_path / "model.tabgnm").predict(X), model.predict(X), rtol=1e-5)
    assert GNMRegressor.paper().integer_codes is False
    with pytest.raises((TypeError, ValueError), match="integer_codes"):
        GNMRegressor(integer_codes="yes").fit(X, y)


@pytest.mark.parametrize("codes", ["auto", True])
def test_columns_may_be_named_by_integers(codes: Any) -> None:
    X, y = shops(500)
    X = pd.DataFrame(X[["shop", "x0"]].to_numpy(), columns=[1, 2])
    model = GNMRegressor(effort="fast", max_epochs=2, random_state=0, integer_codes=codes).fit(X, y)
    assert [own.kind for own in model.columns_] == ["category", "number"]


def test_models_with_codes_are_exported(tmp_path: Any) -> None:
    X, y = shops(500)
    model = GNMRegressor(effort="fast", max_epochs=3, random_state=0).fit(X, y)
    assert [own.kind for own in model.columns_ if own.name == "shop"] == ["category"]
    model.export(tmp_path / "shops.py")
    source: dict[str, Any] = {}
    exec((tmp_path / "shops.py").read_text(), source)
    np.testing.assert_allclose(source["predict"](X.to_dict("list")), model.predict(X), rtol=1e-4, atol=1e-4)


def test_rows_of_a_group_are_one_row() -> None:
    """The age of a patient is not a code, although the targets of a patient are similar."""
    rng = np.random.default_rng(0)
    patient = np.arange(200).repeat(10)
    X = pd.DataFrame({"age": rng.integers(20, 75, 200)[patient], "x": rng.normal(size=2000)})
    y = rng.normal(size=200)[patient] + 0.3 * rng.normal(size=2000)
    model = GNMRegressor(effort="fast", max_epochs=1, random_state=0)
    assert [own.kind for own in model.fit(X, y, groups=patient).columns_] == ["number", "number"]
    assert [own.kind for own in model.fit(X, y).columns_] == ["category", "number"]


def days(n_rows: int = 1500) -> tuple[pd.DataFrame, Any]:
    """A table in the order of its days, each of which has its own effect."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"day": np.sort(rng.integers(0, 150, n_rows)), "x": rng.normal(size=n_rows)})
    return X, rng.normal(size=150)[X["day"]] + X["x"].to_numpy() + 0.3 * rng.normal(size=n_rows)


@pytest.mark.parametrize("n_train", [1200, 1500])
@pytest.mark.parametrize(("is_sorted", "expected"), [(True, ()), (False, (0,))])
def test_numbers_that_are_new_in_validation_rows_are_no_codes(n_train: int, is_sorted: bool, expected: Any) -> None:
    """A category says nothing about later days, whereas the number of a day shows that it is late."""
    X, y = days()
    order = np.arange(1500) if is_sorted else np.random.default_rng(1).permutation(1500)
    X, y = X.iloc[order], y[order]
    later = {} if n_train == 1500 else {"X_val": X[n_train:], "y_val": y[n_train:]}
    model = GNMRegressor(effort="fast", cv=None if later else TimeSeriesSplit(4))
    rows = model._prepare(X[:n_train], y[:n_train], **later).rows
    assert integer_codes(rows, set(), 5, tested=True) == expected
    assert integer_codes(rows, set(), 5, tested=False) == (0,)


@pytest.mark.filterwarnings("ignore:columns of text are read as numbers")
def test_codes_may_be_text() -> None:
    """The text of a category is not converted, so amounts with a currency sign remain numbers."""
    X, y = shops()
    assert found(X.assign(shop=X["shop"].astype(str)), y) == ["shop"]
    assert found(X.assign(shop=X["shop"].astype(str).where(X.index % 7 > 0, "?")), y) == ["shop"]
    assert found(X.assign(shop="$" + X["shop"].astype(str)), y) == []
    text = X[:400].assign(shop=X["shop"].astype(str))
    model = GNMRegressor(effort="fast", max_epochs=2, random_state=0).fit(text, y[:400])
    assert [own.kind for own in model.columns_ if own.name == "shop"] == ["category"]
    np.testing.assert_array_equal(model.predict(text), model.predict(X[:400]))


@pytest.mark.filterwarnings("ignore:columns of text are read as numbers")
def test_validation_rows_may_have_numbers_as_text() -> None:
    X, y = days()
    later = X.assign(day=X["day"] + 150)
    for own, own_val, expected in ((X, X.astype(str), (0,)), (X, later.astype(str), ()), (X.astype(str), later, ())):
        rows = GNMRegressor(effort="fast")._prepare(own, y, X_val=own_val, y_val=y).rows
        assert integer_codes(rows, set(), 5, tested=True) == expected
