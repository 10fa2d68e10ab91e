"""The estimators inside scikit-learn: pipelines, searches of others, routing, copies, representations."""

from __future__ import annotations

import copy
import pickle
from io import BytesIO
from typing import Any

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import BaggingClassifier, StackingRegressor, VotingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score, cross_validate
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.utils import get_tags

from tabgnm import FleetSearchCV
from tests.estimators.examples import LEARNS, frame, gnm, gnmr, mlp, mlpr, numbers

X, Y, T = numbers(160)
F = frame(160)
ALL = [mlp, gnm, mlpr, gnmr]


def test_in_a_pipeline() -> None:
    model = make_pipeline(StandardScaler(), mlp(**LEARNS)).fit(X, Y)
    assert model.score(X, Y) > 0.9 and (model.classes_ == [0, 1]).all() and model.n_features_in_ == 4


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_behind_a_column_transformer_that_returns_frames(library: str) -> None:
    transformer = ColumnTransformer(
        [("levels", OneHotEncoder(sparse_output=False), ["colour"]), ("rest", "passthrough", ["size", "count"])],
        verbose_feature_names_out=False,
    ).set_output(transform=library)
    table = F if library == "pandas" else pl.from_pandas(F)
    model = make_pipeline(transformer, gnm(n_nodes=40)).fit(table, Y)
    assert model[-1].feature_names_in_.tolist() == ["colour_blue", "colour_green", "colour_red", "size", "count"]
    assert model.predict(table).shape == (160,)


def test_in_cross_validation_and_grid_search() -> None:
    assert cross_val_score(mlp(**LEARNS), X, Y, cv=3).mean() > 0.9
    assert cross_val_score(mlpr(**LEARNS), X, T, cv=3, scoring="neg_root_mean_squared_error").mean() > -8
    search = GridSearchCV(mlp(), {"hidden": [(4,), (8,)], "dropout": [0.0]}, cv=2).fit(F, Y)
    assert search.best_params_["hidden"] in [(4,), (8,)] and search.n_features_in_ == 6


def test_calibrated() -> None:
    model = CalibratedClassifierCV(mlp(**LEARNS), cv=2).fit(F, Y)
    np.testing.assert_allclose(model.predict_proba(F).sum(axis=1), 1)


def test_voting_stacking_and_bagging() -> None:
    voting = VotingClassifier([("mlp", mlp(**LEARNS)), ("line", LogisticRegression())], voting="soft").fit(X, Y)
    assert voting.score(X, Y) > 0.9
    stacking = StackingRegressor([("mlp", mlpr(**LEARNS)), ("line", LinearRegression())], cv=2).fit(X, T)
    assert stacking.score(X, T) > 0.9
    assert BaggingClassifier(mlp(), n_estimators=2, random_state=0).fit(X, Y).predict(X).shape == (160,)


def test_with_a_transformed_target_and_one_model_per_output() -> None:
    model = TransformedTargetRegressor(mlpr(**LEARNS), func=np.log, inverse_func=np.exp).fit(X, np.exp(T / 40))
    assert model.score(X, np.exp(T / 40)) > 0.8
    several = MultiOutputRegressor(mlpr()).fit(X, np.column_stack([T, -T]))
    assert several.predict(X).shape == (160, 2)


def test_metadata_routing_brings_weights_to_fit_and_score() -> None:
    weights = np.where(Y, 30.0, 1.0)
    y = np.arange(160) % 2
    with sklearn.config_context(enable_metadata_routing=True):
        model = mlp(**LEARNS).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        found = cross_validate(model, X, y, cv=2, params={"sample_weight": weights}, return_estimator=True)
        plain = cross_validate(mlp(**LEARNS), X, y, cv=2, return_estimator=True)
        pipeline = make_pipeline(FunctionTransformer(), model).fit(X, y, sample_weight=weights)
        assert pipeline.predict(X).shape == (160,)
    assert not np.allclose(found["estimator"][0].predict_proba(X), plain["estimator"][0].predict_proba(X))
    for (_, test), fitted, score in zip(
        StratifiedKFold(2).split(X, y), found["estimator"], found["test_score"], strict=True
    ):
        assert score == fitted.score(X[test], y[test], weights[test]) != fitted.score(X[test], y[test])


@pytest.mark.parametrize("make", ALL)
def test_only_a_seed_makes_an_estimator_deterministic(make: Any) -> None:
    for seed, chance in ((0, False), (None, True)):
        estimator = make(random_state=seed)
        for own in (estimator, FleetSearchCV(estimator, {"dropout": [0.0]})):
            assert get_tags(own).non_deterministic is chance


@pytest.mark.parametrize("make", ALL)
def test_copies_predict_the_same_to_the_bit(make: Any) -> None:
    model = make(**({"n_nodes": 120} if make in (gnm, gnmr) else {})).fit(F, Y if make in (mlp, gnm) else T)
    expected = model.predict(F)
    file = BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    for twin in (pickle.loads(pickle.dumps(model)), joblib.load(file), copy.deepcopy(model)):
        assert (twin.predict(F) == expected).all() and twin.get_params() == model.get_params()
        assert (twin.feature_importances_ == model.feature_importances_).all() and twin.history_ == model.history_


def test_a_pickle_has_neither_training_rows_nor_weights_twice() -> None:
    small, large = (mlp(n_folds=0).fit(*numbers(n)[:2]) for n in (50, 5000))
    large.predict(X)  # makes weights in float64, which are not kept
    assert abs(len(pickle.dumps(small)) - len(pickle.dumps(large))) < 20_000


@pytest.mark.parametrize("make", ALL)
def test_parameters_are_got_set_cloned_and_shown(make: Any) -> None:
    model = make(dropout=0.3)
    assert model.get_params()["dropout"] == 0.3
    assert model.set_params(dropout=0.2) is model and model.dropout == 0.2
    with pytest.raises(ValueError, match="Invalid parameter 'no_such'"):
        model.set_params(no_such=1)
    twin = clone(model.fit(X, Y))
    assert twin.get_params() == model.get_params() and not hasattr(twin, "fitted_")
    assert repr(model).startswith(f"{type(model).__name__}(") and "dropout=0.2" in repr(model)
    assert "max_one_hot" not in repr(model)  # only what was changed
    assert type(model).__name__ in model._repr_html_()
    assert is_classifier(model) == (make in (mlp, gnm)) and is_regressor(model) == (make in (mlpr, gnmr))


@pytest.mark.parametrize("make", ALL)
def test_fitting_does_not_change_parameters(make: Any) -> None:
    model = make()
    before = copy.deepcopy(model.get_params())
    model.fit(X, Y)
    assert model.get_params() == before


def test_frames_of_predictions_line_up_with_classes() -> None:
    model = mlp().fit(F, np.where(Y, "yes", "no"))
    table = pd.DataFrame(model.predict_proba(F), columns=model.classes_, index=F.index)
    assert ((table["yes"] > 0.5) == (model.predict(F) == "yes")).all()
