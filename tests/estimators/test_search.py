"""FleetSearchCV returns what the searches of scikit-learn return, trained as fleets."""

import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import sklearn
import torch
from scipy.stats import ks_2samp, loguniform
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_iris, make_classification, make_regression
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    RandomizedSearchCV,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from tabgnm import FleetSearchCV, GNMClassifier, GNMRegressor, MLPClassifier
from tabgnm.training import FleetPlan

GRID = {"learning_rate": [0.02, 0.002], "dropout": [0.0, 0.2], "n_nodes": [40, 44]}


def small(**changes: Any) -> GNMClassifier:
    settings: dict[str, Any] = {
        "n_candidates": 1,
        "n_folds": 2,
        "n_nodes": 40,
        "n_layers": 2,
        "max_epochs": 4,
        "random_state": 0,
    }
    return GNMClassifier(**(settings | changes))


@pytest.fixture
def rows() -> tuple[np.ndarray, np.ndarray]:
    x, y = make_classification(120, n_features=6, n_informative=4, n_classes=3, random_state=0)
    return x, y


@contextmanager
def failing() -> Iterator[None]:
    """Expect the warnings about failed fits and about scores that are not finite."""
    with pytest.warns(FitFailedWarning, match="fits failed"), pytest.warns(UserWarning, match="non-finite"):
        yield


def same_results(ours: Any, theirs: Any, tolerance: float) -> None:
    assert set(ours.cv_results_) == set(theirs.cv_results_)
    scores = [name for name in theirs.cv_results_ if re.search("_(test|train)_", name) and not name.startswith("rank")]
    assert scores
    for name, values in theirs.cv_results_.items():
        if name in scores:
            np.testing.assert_allclose(ours.cv_results_[name], values, atol=tolerance, err_msg=name)
        elif name.startswith(("param", "rank")):
            assert list(ours.cv_results_[name]) == list(values), name
        else:
            assert name in ("mean_fit_time", "std_fit_time", "mean_score_time", "std_score_time")


@pytest.mark.portable
def test_results_are_those_of_grid_search_to_1e8_in_float64(rows: Any) -> None:
    scoring = ["accuracy", "neg_log_loss"]  # a loss shows differences that labels hide
    arguments: dict[str, Any] = {"cv": 3, "scoring": scoring, "refit": "neg_log_loss", "return_train_score": True}
    estimator = small(precision="float64")
    theirs = GridSearchCV(estimator, GRID, **arguments).fit(*rows)
    ours = FleetSearchCV(estimator, GRID, **arguments).fit(*rows)
    same_results(ours, theirs, 1e-8)
    assert ours.best_params_ == theirs.best_params_ and ours.best_index_ == theirs.best_index_
    assert ours.best_score_ == pytest.approx(theirs.best_score_, abs=1e-8)
    np.testing.assert_allclose(ours.predict_proba(rows[0]), theirs.predict_proba(rows[0]), atol=1e-8)


LONG: dict[str, Any] = {
    "paper": GNMClassifier.paper(n_nodes=50, max_epochs=200),
    "perceptron": MLPClassifier(n_candidates=1, n_folds=1, hidden=(16,), max_epochs=200, numeric_embedding=None),
    "defaults": GNMClassifier(n_candidates=1, n_folds=2, max_epochs=60),
    "combined": GNMClassifier(n_candidates=1, n_folds=1, n_nodes=60, combine="gated", persistent_outputs=True, l0=1e-4),
    "regression": GNMRegressor(n_candidates=1, n_folds=2, persistent_outputs=True, max_epochs=60),
}


@pytest.mark.portable
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("name", LONG)
def test_scores_in_float32_have_the_distribution_of_grid_search(name: str, device: str, rows: Any) -> None:
    """Long training amplifies rounding errors, so single fits may differ like two seeds do; their distribution may not."""
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    estimator = clone(LONG[name]).set_params(device=device)
    assert estimator.precision == "float32"
    scoring, seeds = "neg_log_loss" if is_classifier(estimator) else "r2", {"random_state": list(range(10))}
    searches = [kind(estimator, seeds, cv=2, scoring=scoring, refit=False) for kind in (FleetSearchCV, GridSearchCV)]
    ours, theirs = (search.fit(*rows).cv_results_["mean_test_score"] for search in searches)
    assert ks_2samp(ours, theirs).pvalue > 0.01
    assert abs(ours.mean() - theirs.mean()) < 4.5 * theirs.std() / len(theirs) ** 0.5


def test_a_regressor_is_searched_as_well() -> None:
    x, y = make_regression(90, n_features=4, noise=1.0, random_state=0)
    estimator = GNMRegressor(
        n_candidates=1, n_folds=1, n_nodes=40, n_layers=2, max_epochs=4, precision="float64", random_state=0
    )
    grid = {"loss": ["mse", "huber"], "scaling": ["standard", "quantile"], "numeric_embedding": [None, "piecewise"]}
    theirs = GridSearchCV(estimator, grid, cv=3).fit(x, y)
    ours = FleetSearchCV(estimator, grid, cv=3).fit(x, y)
    same_results(ours, theirs, 1e-8)


def test_candidates_that_differ_in_rows_targets_or_weights_do_not_share_them(rows: Any) -> None:
    x, y = rows[0], np.minimum(rows[1], 1)  # two classes, whose targets are what is smoothed
    grid = [
        {"label_smoothing": [0.0, 0.3]},
        {"n_folds": [1, 3]},
        # Rows of weight 0 are left out: other ones for each of the last two.
        {"n_folds": [0], "class_weight": [None, "balanced", {0: 0.0, 1: 1.0}, {0: 1.0, 1: 0.0}]},
    ]
    estimator = small(precision="float64", n_folds=1)
    theirs = GridSearchCV(estimator, grid, cv=2, scoring="neg_log_loss", refit=False).fit(x, y)
    ours = FleetSearchCV(estimator, grid, cv=2, scoring="neg_log_loss", refit=False).fit(x, y)
    same_results(ours, theirs, 1e-8)
    assert len(set(theirs.cv_results_["mean_test_score"].round(6))) == 7  # no smoothing, and one fold, twice


def test_candidates_whose_targets_differ_in_scale_do_not_share_them() -> None:
    x, y = make_regression(60, n_features=3, noise=1.0, random_state=0)
    estimator = GNMRegressor(
        n_candidates=1, n_folds=1, n_nodes=40, n_layers=2, max_epochs=3, precision="float64", random_state=0
    )
    grid = {"scale_target": [True, False], "n_folds": [0, 1, 2]}
    theirs = GridSearchCV(estimator, grid, cv=2, refit=False).fit(x, y)
    same_results(FleetSearchCV(estimator, grid, cv=2, refit=False).fit(x, y), theirs, 1e-8)


def test_estimators_with_several_candidates_of_their_own_are_searched_as_well(rows: Any) -> None:
    estimator = small(precision="float64", n_candidates=3, n_nodes=60, max_epochs=2, metric="accuracy")
    grid = [{"learning_rate": [0.02, 0.002]}, {"n_candidates": [2]}, {"n_folds": ["auto"], "cv": [KFold(2), KFold(3)]}]
    theirs = GridSearchCV(estimator, grid, cv=2, scoring="neg_log_loss").fit(*rows)
    ours = FleetSearchCV(estimator, grid, cv=2, scoring="neg_log_loss").fit(*rows)
    same_results(ours, theirs, 1e-8)
    np.testing.assert_allclose(ours.predict_proba(rows[0]), theirs.predict_proba(rows[0]), atol=1e-8)


def test_estimators_among_the_candidates_are_not_changed(rows: Any) -> None:
    scalers = [StandardScaler(), StandardScaler(with_mean=False)]
    search = FleetSearchCV(make_pipeline(StandardScaler(), small()), {"standardscaler": scalers}, cv=2).fit(*rows)
    assert not any(hasattr(scaler, "mean_") for scaler in scalers)
    assert hasattr(search.best_estimator_[0], "scale_")


def test_times_are_those_of_all_members_and_of_the_scores(rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run_fleets = FleetPlan.run_fleets

    def slow(self: Any, **arguments: Any) -> Iterator[Any]:
        for done in run_fleets(self, **arguments):
            time.sleep(0.2)
            yield done

    def score(estimator: Any, x: Any, y: Any) -> float:
        time.sleep(0.01)
        return float(estimator.score(x, y))

    monkeypatch.setattr(FleetPlan, "run_fleets", slow)
    began = time.time()
    search = FleetSearchCV(small(), {"dropout": [0.0, 0.2]}, cv=2, scoring=score, refit=False).fit(*rows)
    results = search.cv_results_
    assert 0.2 < 2 * results["mean_fit_time"].sum() < time.time() - began  # two folds
    assert (results["mean_score_time"] >= 0.01).all()


def test_candidates_drawn_at_random_are_those_of_randomized_search(rows: Any) -> None:
    distributions = {"learning_rate": loguniform(1e-3, 1e-1), "dropout": [0.0, 0.1, 0.2]}
    theirs = RandomizedSearchCV(small(precision="float64"), distributions, n_iter=5, cv=2, random_state=3).fit(*rows)
    ours = FleetSearchCV(small(precision="float64"), distributions, n_iter=5, cv=2, random_state=3).fit(*rows)
    same_results(ours, theirs, 1e-8)


def test_all_candidates_and_folds_of_a_shape_are_one_fleet(rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    run_fleet = FleetPlan.run_fleet

    def counted(self: Any, fleet: Any, *device: Any, **arguments: Any) -> Any:
        sizes.append(len(fleet.jobs))
        assert len({job.member.table for job in self.jobs}) == 3  # a table per fold, not per candidate
        return run_fleet(self, fleet, *device, **arguments)

    monkeypatch.setattr(FleetPlan, "run_fleet", counted)
    FleetSearchCV(small(), GRID, cv=3, refit=False).fit(*rows)
    assert sizes == [4 * 3 * 2, 4 * 3 * 2]  # candidates x folds x members for each number of nodes


def test_groups_and_sample_weights_reach_splitter_estimator_and_scorer(rows: Any) -> None:
    x, y = rows
    random = np.random.default_rng(0)
    groups, weights = random.integers(0, 6, len(y)), random.uniform(0.1, 2, len(y))
    arguments: dict[str, Any] = {"cv": GroupKFold(3)}
    grid = {"learning_rate": [0.02, 0.002]}
    theirs = GridSearchCV(small(precision="float64"), grid, **arguments)
    ours = FleetSearchCV(small(precision="float64"), grid, **arguments)
    for search in (theirs, ours):
        search.fit(x, y, groups=groups, sample_weight=weights)
    same_results(ours, theirs, 1e-8)


def test_metadata_is_routed(rows: Any) -> None:
    x, y = rows
    weights = np.random.default_rng(0).uniform(0.1, 2, len(y))
    with sklearn.config_context(enable_metadata_routing=True):
        estimator = small(precision="float64").set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        grid = {"dropout": [0.0, 0.2]}
        theirs = GridSearchCV(estimator, grid, cv=2).fit(x, y, sample_weight=weights)
        ours = FleetSearchCV(estimator, grid, cv=2).fit(x, y, sample_weight=weights)
    same_results(ours, theirs, 1e-8)


def test_a_pipeline_that_ends_with_an_estimator_is_searched(rows: Any) -> None:
    pipeline = make_pipeline(StandardScaler(), small(precision="float64", scaling="none"))
    grid = {"gnmclassifier__learning_rate": [0.02, 0.002], "standardscaler__with_mean": [True, False]}
    theirs = GridSearchCV(pipeline, grid, cv=2).fit(*rows)
    ours = FleetSearchCV(pipeline, grid, cv=2).fit(*rows)
    same_results(ours, theirs, 1e-8)
    np.testing.assert_allclose(ours.predict_proba(rows[0]), theirs.predict_proba(rows[0]), atol=1e-8)


@pytest.mark.parametrize("scaled_by_weight", [True, False])
def test_metadata_is_routed_to_the_steps_of_a_pipeline(rows: Any, scaled_by_weight: bool) -> None:
    x, y = rows
    weights = np.random.default_rng(0).uniform(0.1, 2, len(y))
    with sklearn.config_context(enable_metadata_routing=True):
        last = small(precision="float64").set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        pipeline = Pipeline(
            [("scale", StandardScaler().set_fit_request(sample_weight=scaled_by_weight)), ("net", last)]
        )
        arguments: dict[str, Any] = {"cv": 2, "error_score": "raise"}
        grid = {"net__learning_rate": [0.02, 0.002]}
        theirs = GridSearchCV(pipeline, grid, **arguments).fit(x, y, sample_weight=weights)
        ours = FleetSearchCV(pipeline, grid, **arguments).fit(x, y, sample_weight=weights)
        pipeline = Pipeline([("scale", StandardScaler()), ("net", last)])
        with pytest.raises(ValueError, match=r"sample_weight.* not explicitly set as requested or not"):
            FleetSearchCV(pipeline, grid, **arguments).fit(x, y, sample_weight=weights)
        pipeline.set_params(transform_input=["X_val"])
        with pytest.raises(ValueError, match=r"transform_input=\['X_val'\] .*use GridSearchCV"):
            FleetSearchCV(pipeline, grid, **arguments).fit(x, y)
    same_results(ours, theirs, 1e-8)


def test_parameters_of_fit_reach_the_steps_of_a_pipeline_by_name(rows: Any) -> None:
    x, y = rows
    weights = np.random.default_rng(0).uniform(0.1, 2, len(y))
    pipeline = Pipeline([("scale", StandardScaler()), ("net", small(precision="float64", scaling="none"))])
    grid = {"net__learning_rate": [0.02, 0.002]}
    for given in ({"scale__sample_weight": weights}, {"scale__sample_weight": weights, "net__sample_weight": weights}):
        theirs = GridSearchCV(pipeline, grid, cv=2, scoring="neg_log_loss").fit(x, y, **given)
        ours = FleetSearchCV(pipeline, grid, cv=2, scoring="neg_log_loss").fit(x, y, **given)
        same_results(ours, theirs, 1e-8)
    for name in ("sample_weight", "other__sample_weight"):
        search = FleetSearchCV(pipeline, grid, cv=2, error_score="raise")
        with pytest.raises(ValueError, match=rf"Unknown fit parameters: \['{name}'\]; .*e.g. net__sample_weight"):
            search.fit(x, y, **{name: weights})


def test_candidates_of_a_pipeline_share_the_steps_before_the_last(rows: Any) -> None:
    class Counted(StandardScaler):
        fits = 0

        def fit(self, *arguments: Any, **others: Any) -> Any:
            Counted.fits += 1
            return super().fit(*arguments, **others)

    pipeline = make_pipeline(Counted(), small())
    grid = {"gnmclassifier__learning_rate": [0.02, 0.01, 0.002], "counted__with_std": [True, False]}
    FleetSearchCV(pipeline, grid, cv=2, refit=False).fit(*rows)
    assert Counted.fits == 4  # two scalings, two folds


def test_another_kind_of_last_step_is_an_error_that_says_so(rows: Any) -> None:
    pipeline = make_pipeline(StandardScaler(), small())
    with pytest.raises(TypeError, match=r"LogisticRegression; expected a tabgnm estimator"):
        FleetSearchCV(pipeline, {"gnmclassifier": [LogisticRegression()]}, cv=2, error_score="raise").fit(*rows)


def test_a_candidate_that_cannot_be_fitted_gets_the_error_score(rows: Any) -> None:
    grid = {"n_nodes": [5, 40]}  # five nodes are fewer than there are inputs
    with pytest.warns(FitFailedWarning, match="n_nodes=5 is too small"):
        search = FleetSearchCV(small(), grid, cv=2, error_score=-1.0).fit(*rows)
    assert search.cv_results_["mean_test_score"][0] == -1 and search.best_params_ == {"n_nodes": 40}
    with failing():
        search = FleetSearchCV(small(), grid, cv=2, scoring=["accuracy", "f1_macro"], refit="accuracy").fit(*rows)
    assert np.isnan(search.cv_results_["mean_test_accuracy"][0])
    with pytest.raises(ValueError, match="n_nodes=5 is too small"):
        FleetSearchCV(small(), grid, cv=2, error_score="raise").fit(*rows)
    with pytest.raises(ValueError, match="All the 2 fits failed"):
        FleetSearchCV(small(), {"n_nodes": [5]}, cv=2).fit(*rows)


def test_a_candidate_that_diverges_gets_the_error_score(rows: Any) -> None:
    grid = {"learning_rate": [0.01, 1e30]}
    with failing():
        search = FleetSearchCV(small(schedule="constant"), grid, cv=2).fit(*rows)
    assert np.isnan(search.cv_results_["mean_test_score"][1]) and search.best_params_ == {"learning_rate": 0.01}


def test_refit_takes_a_name_a_callable_or_nothing(rows: Any) -> None:
    grid = {"learning_rate": [0.02, 0.002]}
    last = FleetSearchCV(small(), grid, cv=2, refit=lambda results: 1).fit(*rows)
    assert last.best_params_ == {"learning_rate": 0.002} and not hasattr(last, "best_score_")
    none = FleetSearchCV(small(), grid, cv=2, refit=False).fit(*rows)
    assert not hasattr(none, "best_estimator_") and none.best_index_ in (0, 1)
    with pytest.raises(ValueError, match="refit"):
        FleetSearchCV(small(), grid, cv=2, scoring=["accuracy", "f1_macro"]).fit(*rows)


def test_a_callable_may_return_several_scores(rows: Any) -> None:
    def scores(estimator: Any, x: Any, y: Any) -> dict[str, float]:
        return {"right": estimator.score(x, y), "wrong": 1 - estimator.score(x, y)}

    search = FleetSearchCV(small(), {"dropout": [0.0, 0.2]}, cv=2, scoring=scores, refit="right").fit(*rows)
    np.testing.assert_allclose(
        search.cv_results_["mean_test_right"] + search.cv_results_["mean_test_wrong"], [1.0, 1.0]
    )


@pytest.mark.parametrize(
    "cv", [2, StratifiedKFold(2, shuffle=True, random_state=0), ShuffleSplit(2, random_state=0)], ids=repr
)
def test_splitters_of_all_kinds(rows: Any, cv: Any) -> None:
    search = FleetSearchCV(small(), {"dropout": [0.0, 0.2]}, cv=cv, n_jobs=2).fit(*rows)
    assert search.n_splits_ == 2 and search.cv_results_["mean_test_score"].shape == (2,)


def test_tables_of_every_library_are_searched() -> None:
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    frame = load_iris(as_frame=True).frame
    frame["kind"] = np.where(frame["sepal width (cm)"] > 3, "wide", "narrow")
    x, y = frame.drop(columns="target"), frame["target"]
    scores = [
        FleetSearchCV(small(), {"dropout": [0.0, 0.2]}, cv=2).fit(table, y).cv_results_["mean_test_score"]
        for table in (x, pl.from_pandas(x))
    ]
    np.testing.assert_array_equal(*scores)
    assert isinstance(x, pd.DataFrame)


def test_a_search_is_an_estimator_itself(rows: Any) -> None:
    x, y = rows
    search = FleetSearchCV(small(), {"learning_rate": [0.02, 0.002]}, cv=2)
    assert cross_val_score(clone(search), x, y, cv=2).shape == (2,)
    fitted = search.fit(x, y)
    assert fitted.n_features_in_ == 6 and list(fitted.classes_) == [0, 1, 2]
    assert fitted.score(x, y) == accuracy_score(y, fitted.predict(x))
    assert fitted.predict_proba(x).shape == (120, 3) and fitted.decision_function(x).shape == (120, 3)


def test_what_cannot_be_searched_is_an_error(rows: Any) -> None:
    with pytest.raises(
        TypeError, match=r"estimator is a LogisticRegression; expected a tabgnm estimator.*GridSearchCV"
    ):
        FleetSearchCV(LogisticRegression(), {"C": [1]}).fit(*rows)
    with pytest.raises(ValueError, match="distribution for 'learning_rate', which requires n_iter"):
        FleetSearchCV(small(), {"learning_rate": loguniform(1e-3, 1e-1)}).fit(*rows)
    with pytest.raises(ValueError, match="warm_start=True"):
        FleetSearchCV(small(warm_start=True), {"dropout": [0.0]}).fit(*rows)
    with pytest.raises(ValueError, match="Invalid parameter 'nodes'"):
        FleetSearchCV(small(), {"nodes": [50]}, cv=2).fit(*rows)
    with pytest.raises(ValueError, match=r"param_grid.*does not define any candidates"):
        FleetSearchCV(small(), [], cv=2).fit(*rows)
    with pytest.raises(ValueError, match=r"cv=.* yields no folds; expected at least one pair"):
        FleetSearchCV(small(), {"dropout": [0.0]}, cv=[]).fit(*rows)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("param_grid", value) for value in (5, None, [5], "dropout", {"dropout"})],
        *[("n_iter", value) for value in (0, -1, 1.5, "a", True)],
        *[("refit", value) for value in (5, None, ["score"])],
        *[("error_score", value) for value in ("foo", None, True, [1.0])],
        *[("return_train_score", value) for value in ("yes", 1)],
        *[("verbose", value) for value in ("a", None)],
        *[("random_state", value) for value in (-1, "seed")],
    ],
    ids=str,
)
def test_an_invalid_parameter_of_the_search_is_named(rows: Any, name: str, value: Any) -> None:
    search = FleetSearchCV(small(), **({"param_grid": {"dropout": [0.0]}, "cv": 2} | {name: value}))
    with pytest.raises((TypeError, ValueError), match=rf"^{name}={re.escape(repr(value))} .*; .*"):
        search.fit(*rows)


@pytest.mark.parametrize("value", [0, 10**6, "a", 1.5, True])
def test_an_invalid_n_jobs_of_the_search_is_named(rows: Any, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"n_jobs must be None, .*; got {value!r}"):
        FleetSearchCV(small(), {"dropout": [0.0]}, cv=2, n_jobs=value).fit(*rows)


def test_a_scorer_object_is_kept(rows: Any) -> None:
    scorer = make_scorer(accuracy_score)
    search = FleetSearchCV(small(), {"dropout": [0.0]}, cv=2, scoring=scorer).fit(*rows)
    assert search.scorer_ is scorer


def test_the_progress_of_a_search_shows_no_losses(rows: Any, caplog: pytest.LogCaptureFixture) -> None:
    """They would be taken for the score that the user has asked for."""
    with caplog.at_level(logging.INFO, "tabgnm"):
        FleetSearchCV(small(), {"dropout": [0.0, 0.2]}, cv=2, scoring="accuracy", refit=False, verbose=1).fit(*rows)
    lines = [own.getMessage() for own in caplog.records]
    assert [line for line in lines if line.startswith("trained 8 of 8 networks")] == lines[-1:]
    assert "loss" not in " ".join(lines)
