"""Copies of rows are in the same fold, so that networks are not validated on rows that they were trained on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from tabgnm import GNMClassifier
from tabgnm.estimators.copies import copies_of_rows
from tabgnm.table import read_table
from tests.estimators.examples import frame, mlp, numbers


def copied(X: Any, n_copies: int) -> Any:
    return pd.concat([X] * n_copies, ignore_index=True)


@pytest.mark.parametrize("as_table", [lambda X: X, lambda X: X.astype(object), lambda X: X[["number", "color"]]])
def test_all_copies_are_found(as_table: Any) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"number": rng.normal(size=120), "color": rng.choice(["red", "blue"], 120), "few": np.arange(120) % 3}
    )
    X.loc[3, "color"] = None
    y = np.tile(np.arange(120) % 2, 3)
    groups = copies_of_rows(read_table(as_table(copied(X, 3))), y)
    assert groups is not None
    np.testing.assert_array_equal(groups, np.tile(groups[:120], 3))
    assert len(set(groups)) == 120


def test_rows_that_differ_in_a_cell_or_in_the_target_are_no_copies() -> None:
    X = copied(pd.DataFrame({"number": np.arange(150) / 7, "word": list("ab") * 75}), 2)
    assert copies_of_rows(read_table(X), np.arange(300) // 150) is None
    X.loc[150:, "word"] = "c"
    assert copies_of_rows(read_table(X), np.zeros(300)) is None


@pytest.mark.parametrize(
    "make", [lambda a: a, sparse.csr_matrix, lambda a: pd.DataFrame(a).add_prefix("x").astype(str)]
)
def test_equal_rows_of_a_table_with_few_values_are_different_cases(make: Any) -> None:
    X = np.random.default_rng(0).integers(0, 2, size=(300, 5))
    assert copies_of_rows(read_table(make(X)), np.zeros(300)) is None


RNG = np.random.default_rng(0)
SITES = RNG.normal(size=(120, 3)).repeat(20, axis=0)


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.array([[0, 0], [0, 1], [1, 0], [1, 1]]).repeat(50, axis=0), np.array([0, 1, 1, 0]).repeat(50)),
        (RNG.integers(0, 2, (400, 1)), RNG.integers(0, 2, 400)),
        (RNG.choice([1.0, 2.5, 5.0, 10.0, 20.0], (2000, 1)), RNG.normal(size=2000)),
        (RNG.integers(0, 400, (3000, 1)), RNG.random(3000) < 0.1),
        (SITES, RNG.random(len(SITES)) < 0.05),
        (SITES, np.arange(len(SITES)) % 400 == 0),
        (SITES, np.stack([np.zeros(len(SITES)), np.arange(len(SITES)) % 400 == 0], axis=1)),
        (np.concatenate([np.zeros((300, 3)), SITES]), np.zeros(300 + len(SITES))),
    ],
    ids=[
        *("truth table", "one yes or no", "doses", "minutes", "repeated observations", "rare events"),
        *("rare events in the second target", "a very frequent row"),
    ],
)
def test_equal_rows_with_another_explanation_are_different_cases(X: Any, y: Any) -> None:
    assert copies_of_rows(read_table(X), y) is None


def counted(n_rows: int = 2000, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    """A table without a continuous column, in which a tenth of the rows is positive."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.integers(0, 20, size=(n_rows, 8))).add_prefix("x")
    X["city"] = rng.choice(["Bern", "Chur", "Genf"], n_rows)
    return X, (X["x0"] + X["x1"] + rng.normal(size=n_rows) > 31).astype(int).to_numpy()


@pytest.mark.parametrize("majority", [0, 60])
def test_copies_of_the_rows_of_one_class_are_found(majority: int) -> None:
    X, y = counted()
    rows = np.concatenate([np.arange(2000), np.repeat(np.flatnonzero(y), 4), np.flatnonzero(y == 0)[:majority]])
    groups = copies_of_rows(read_table(X.iloc[rows]), y[rows], classes=y[rows])
    assert groups is not None
    np.testing.assert_array_equal(groups, rows)
    folds = GNMClassifier(effort="fast")._prepare(X.iloc[rows], y[rows]).rows.folds
    for fold in folds:
        assert fold.val is not None
        assert not set(rows[fold.train.numpy()]) & set(rows[fold.val.numpy()])


@pytest.mark.parametrize("n_values", [4, 10])
@pytest.mark.parametrize("of_type", [int, float, str])
def test_bootstrap_samples_are_found(n_values: int, of_type: type) -> None:
    rng = np.random.default_rng(0)
    X, drawn = rng.integers(0, n_values, size=(1000, 12)), rng.choice(1000, 2000)
    targets = rng.normal(size=1000), rng.integers(0, 2, 1000)
    for y, classes in ((targets[0], None), (targets[1], targets[1][drawn])):
        groups = copies_of_rows(read_table(pd.DataFrame(X).astype(of_type).iloc[drawn]), y[drawn], classes=classes)
        assert groups is not None
        np.testing.assert_array_equal(groups, pd.factorize(drawn)[0])


@pytest.mark.parametrize(("n_distinct", "n_found"), [(99, None), (100, 100)])
def test_a_few_equal_rows_of_whole_numbers_are_no_copies(n_distinct: int, n_found: int | None) -> None:
    X = np.tile(np.random.default_rng(0).integers(0, 10**6, size=(n_distinct, 3)), (3, 1))
    groups = copies_of_rows(read_table(X), np.zeros(len(X)))
    assert (None if groups is None else len(set(groups))) == n_found


def test_copies_may_have_any_frequency_if_they_have_a_time_of_day() -> None:
    rng = np.random.default_rng(0)
    rows = np.arange(200).repeat(rng.integers(1, 30, 200))
    X = pd.DataFrame({"time": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.choice(10**7, 200, False), unit="s")})
    groups = copies_of_rows(read_table(X.iloc[rows]), np.zeros(len(rows)))
    np.testing.assert_array_equal(groups, rows)


def test_zeros_and_missing_numbers_are_equal_whatever_their_sign() -> None:
    X = np.random.default_rng(0).normal(size=(120, 3))
    X[::2, 1], X[1::2, 2] = 0.0, np.nan
    negative = X.copy()
    negative[::2, 1], negative[1::2, 2] = -0.0, -np.nan
    groups = copies_of_rows(read_table(np.concatenate([X, negative])), np.zeros(240))
    np.testing.assert_array_equal(groups, np.tile(np.arange(120), 2))


def test_copies_of_a_small_class_or_of_large_targets_are_found_in_numbers() -> None:
    X = RNG.normal(size=(600, 6))
    for rows, classes in (
        (np.r_[np.arange(600), RNG.choice(60, 480)], np.arange(600) < 60),  # random oversampling
        (np.r_[np.arange(600), np.arange(60).repeat(9)], None),  # a tenth of the numbers
    ):
        y = np.arange(600)[rows] if classes is None else classes[rows].astype(int)
        groups = copies_of_rows(read_table(X[rows]), y, classes=None if classes is None else y)
        np.testing.assert_array_equal(groups, rows)


def test_copies_are_the_same_for_any_order_and_type_of_columns() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 2, size=(150, 130))).add_prefix("x")
    X.insert(0, "number", rng.normal(size=150))
    X, y = X.iloc[np.arange(450) % 150], np.arange(450) % 150 % 2
    tables = [X, X[X.columns[::-1]], X.astype({"number": str}), X[["number"]], X[["number"]].astype(str)]
    for table in tables:
        groups = copies_of_rows(read_table(table), y, classes=y)
        assert groups is not None
        np.testing.assert_array_equal(groups, np.arange(450) % 150)


def frequent(share: float, pattern: Any, n_rows: int = 2000) -> Any:
    """A table of normal numbers in which some rows are equal."""
    X = np.random.default_rng(1).normal(size=(n_rows, 4))
    X[: int(share * n_rows)] = pattern
    return X


PATTERNS = np.random.default_rng(9).integers(0, 50, (60, 8))
FREQUENCIES = np.random.default_rng(5).dirichlet(0.3 * np.ones(60))


@pytest.mark.parametrize(
    "X",
    [
        frequent(0.5, 0.0),
        frequent(0.05, np.nan),
        np.concatenate([PATTERNS[RNG.choice(60, 1200, p=FREQUENCIES)], RNG.integers(0, 50, (800, 8))]),
        np.concatenate([PATTERNS[RNG.integers(0, 60, 1200)], RNG.integers(0, 50, (800, 8))]),
        RNG.integers(0, 300, (3000, 1)),
        pd.DataFrame({"day": pd.Timestamp("2024-01-01") + pd.to_timedelta(RNG.integers(0, 300, 3000), unit="D")}),
        np.repeat(RNG.integers(0, 10**6, size=(200, 3)), RNG.integers(1, 30, 200), axis=0),
        np.concatenate([(own := RNG.normal(size=(1600, 3))), own[:400]]),
        np.concatenate([np.full((1200, 3), 0.5), RNG.normal(size=(800, 3))]),
    ],
    ids=[
        *("zeros", "missing", "patterns", "even patterns", "identifiers", "days", "frequencies"),
        *("some equal rows", "a frequent number"),
    ],
)
@pytest.mark.parametrize("has_classes", [True, False])
def test_frequent_cases_are_no_copies(X: Any, has_classes: bool) -> None:
    # equal rows have equal targets
    y = np.unique(pd.DataFrame(X).astype(str).sum(axis=1), return_inverse=True)[1] % 2
    assert copies_of_rows(read_table(X), y, classes=y if has_classes else None) is None


def test_frequent_rows_of_one_class_are_no_copies() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(3000, 9))
    y = (X.sum(axis=1) > 7).astype(int)  # ten rare rows and their like are always positive
    assert copies_of_rows(read_table(X), y, classes=y) is None


def test_a_truth_table_is_learned() -> None:
    X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]).repeat(50, axis=0)
    y = (X[:, 0] != X[:, 1]).astype(int)
    model = GNMClassifier(effort="fast", random_state=0).fit(X, y)
    assert model.score(X, y) == 1.0
    assert model.oof_scores_["accuracy"] == 1.0


def test_ignored_columns_do_not_matter_and_others_may_be_unreadable() -> None:
    X, y = copied(frame(120), 3), np.tile(np.arange(120) % 2, 3)
    X["id"], X["lists"] = np.arange(360), [[1]] * 360
    kinds = {"id": "ignore", "lists": "ignore"}
    groups = copies_of_rows(read_table(X), y, kinds)
    assert groups is not None
    assert len(set(groups)) == 120
    assert copies_of_rows(read_table(X.drop(columns="lists")), y) is None
    assert copies_of_rows(read_table(X), y, ["id"]) is None
    mlp(n_candidates=1, max_epochs=1, column_kinds=kinds).fit(X, y)


def test_hardly_any_copies_are_ignored() -> None:
    X, y, _ = numbers(200)
    X[7] = X[5]
    y[7] = y[5]
    assert copies_of_rows(read_table(X), y) is None


@pytest.mark.parametrize("how", [{"n_folds": 4}, {"n_folds": 1}, {"n_folds": "auto"}])
def test_copies_are_in_the_same_fold(how: dict[str, Any]) -> None:
    X, y = copied(frame(120), 3), np.tile(np.arange(120) % 2, 3)
    model = mlp(n_candidates=1, max_epochs=1, **how).fit(X, y)
    left_out = np.isfinite(model.oof_prediction_).reshape(len(X), -1).all(axis=1)
    assert (left_out.reshape(3, 120) == left_out[:120]).all()
    if how["n_folds"] != 1:
        np.testing.assert_allclose(model.oof_prediction_[:120], model.oof_prediction_[120:240], rtol=1e-5)


def test_copies_do_not_make_a_model_worse() -> None:
    X_train, X_test, y_train, y_test = train_test_split(
        *load_breast_cancer(return_X_y=True, as_frame=True), random_state=0
    )
    once = GNMClassifier(effort="fast", random_state=0).fit(X_train, y_train)
    often = GNMClassifier(effort="fast", random_state=0).fit(copied(X_train, 4), copied(y_train, 4))
    losses = [log_loss(y_test, model.predict_proba(X_test)) for model in (once, often)]
    assert losses[1] < 1.5 * losses[0] + 0.05, losses  # 0.27 if copies are on both sides of the folds
