"""Warnings about training that ended too early, or that made networks worse; none where all is well."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn import datasets
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from tabgnm import FleetSearchCV, GNMClassifier, GNMRegressor
from tests.estimators.examples import gnm, mlp, mlpr, numbers

X, Y, T = numbers()


def said(fit: Callable[[], Any]) -> list[str]:
    """Return the warnings of a fit about its training."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    return [str(own.message) for own in caught if issubclass(own.category, ConvergenceWarning)]


def test_training_that_ended_while_the_loss_was_falling_is_a_warning_with_the_remedy() -> None:
    with pytest.warns(
        ConvergenceWarning, match=r"ended at max_epochs=3 .* \d+% of the prediction.* larger max_epochs"
    ) as caught:
        mlp(patience="auto").fit(X, Y)
    assert [own.filename for own in caught] == [__file__]  # where fit was called


@pytest.mark.parametrize(
    "fit",
    [
        pytest.param(lambda: mlp(patience=None).fit(X, Y), id="no patience"),
        pytest.param(lambda: GNMClassifier.paper(max_epochs=3, n_nodes=20).fit(X, Y), id="the paper's setting"),
        pytest.param(lambda: mlp(patience="auto", n_folds=0).fit(X, Y), id="no validation"),
        pytest.param(lambda: mlp(patience="auto", warm_start=True).fit(X, Y).fit(X, Y), id="more epochs to come"),
        pytest.param(lambda: mlp(patience="auto").partial_fit(X, Y, [0, 1]).partial_fit(X, Y), id="partial_fit"),
        pytest.param(
            lambda: mlp(patience="auto", max_epochs=10**6, time_limit=1, learning_rate=1e-6).fit(X, Y),
            id="a time limit",
        ),
        pytest.param(lambda: mlp(patience=3, max_epochs=500, learning_rate=0.02).fit(X, Y), id="stopped early"),
    ],
)
def test_a_number_of_epochs_that_is_meant_or_was_not_reached_is_no_warning(fit: Callable[[], Any]) -> None:
    assert said(fit) == []


TABLES: list[Callable[..., Any]] = [
    datasets.load_iris,
    datasets.load_wine,
    datasets.load_diabetes,
    datasets.load_breast_cancer,
]


def ordinary(load: Callable[..., Any], effort: str) -> list[str]:
    X, y = load(return_X_y=True)
    kind = GNMRegressor if y.dtype == float else GNMClassifier
    return said(lambda: kind(effort=effort, random_state=0).fit(X, y))


@pytest.mark.parametrize("load", TABLES[::2])
def test_the_fast_defaults_give_no_warning_on_ordinary_tables(load: Callable[..., Any]) -> None:
    assert ordinary(load, "fast") == []


@pytest.mark.slow
@pytest.mark.parametrize("load", TABLES)
def test_the_defaults_give_no_warning_on_ordinary_tables(load: Callable[..., Any]) -> None:
    assert ordinary(load, "default") == []


def test_networks_that_training_made_worse_are_a_warning_with_the_remedy() -> None:
    model = mlpr(max_epochs=20, learning_rate=0.01)
    with pytest.warns(
        ConvergenceWarning, match=r"make up 100% of the prediction.*Use a learning_rate smaller than 0.01"
    ):
        model.fit(X, T, X_val=X, y_val=100 - T)  # the opposite of what it learns
    assert {own["best_epoch"] for own in model.history_} == {1}


def test_the_losers_of_the_race_do_not_count() -> None:
    model = gnm(n_nodes=80, n_candidates=4, n_folds=3, max_epochs=60, patience=5, learning_rate="auto", batch_size=256)
    random = np.random.default_rng(0)
    X = random.normal(size=(2000, 3))
    assert said(lambda: model.fit(X, X[:, 0] + random.normal(size=2000) > 0)) == []
    assert model.pack_["stopped_by_race"].any()


@pytest.mark.parametrize("search", [GridSearchCV, FleetSearchCV])
def test_a_search_warns_once_and_the_fleet_search_at_the_line_that_called(search: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search(mlp(patience="auto"), {"dropout": [0.0, 0.1]}, cv=2).fit(X, Y)
    own = [warning for warning in caught if issubclass(warning.category, ConvergenceWarning)]
    assert len(own) == 1 and "max_epochs=3" in str(own[0].message)
    assert search is GridSearchCV or own[0].filename == __file__
