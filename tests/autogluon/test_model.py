"""AutoGluon's own checks of a model class, and what they leave out. `make test-autogluon` has AutoGluon."""

import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    import pandas as pd
    from autogluon.tabular import TabularPredictor

    from tabgnm.autogluon import TabGNMModel
else:
    pd = pytest.importorskip("pandas")
    TabularPredictor = pytest.importorskip("autogluon.tabular", reason="needs make test-autogluon").TabularPredictor
    from tabgnm.autogluon import TabGNMModel

QUICK = {"n_candidates": 2, "n_folds": 2, "max_epochs": 20, "patience": None}
PROBLEMS = ["binary", "multiclass", "regression", "quantile"]


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AutoGluon writes models and data sets into the current folder."""
    monkeypatch.chdir(tmp_path)


def table(n_rows: int = 200) -> "pd.DataFrame":
    """Columns of all kinds, with missing values; `number` and `label` depend on them."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n_rows).astype(float),
            "city": pd.Categorical(rng.choice(["Oslo", "Bergen", "Molde"], n_rows)),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 2000, n_rows), "D"),
            "member": rng.random(n_rows) < 0.5,
            "note": rng.choice(["a long walk in the rain", "a short one in the sun"], n_rows),
        }
    )
    frame["number"] = frame["age"] / 20 + 3.0 * (frame["city"] == "Oslo") + frame["member"]
    frame["label"] = np.where(frame["number"] > frame["number"].median(), "high", "low")
    frame.loc[::17, "age"] = np.nan
    frame.loc[::19, "city"] = None
    return frame


def fitted(train: "pd.DataFrame", label: str, hyperparameters: dict[str, Any] | None = None, **more: Any) -> Any:
    """Fit a predictor that has one model."""
    names = ("problem_type", "sample_weight", "quantile_levels")
    own = {name: more.pop(name) for name in names if name in more}
    return TabularPredictor(label, verbosity=0, **own).fit(
        train,
        hyperparameters={TabGNMModel: {**QUICK, **(hyperparameters or {})}},
        fit_weighted_ensemble=False,
        raise_on_model_failure=True,
        **more,
    )


def model_of(predictor: Any, position: int = 0) -> TabGNMModel:
    return predictor._trainer.load_model(predictor.model_names()[position])


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_model_passes_the_verification_of_autogluon(problem: str) -> None:
    from autogluon.tabular.testing import FitHelper

    FitHelper.verify_model(TabGNMModel, QUICK, problem_types=[problem], bag=True, refit_full=True, extra_metrics=True)


def test_all_problems_that_the_model_supports_are_verified() -> None:
    assert TabGNMModel.supported_problem_types() == PROBLEMS


def test_the_model_passes_the_verification_with_default_hyperparameters() -> None:
    from autogluon.tabular.testing import FitHelper

    FitHelper.verify_model(TabGNMModel, {}, problem_types=["binary"])


@pytest.mark.parametrize(("label", "least"), [("label", 0.8), ("number", 0.8)])
def test_a_table_with_columns_of_all_kinds_is_learned(label: str, least: float) -> None:
    frame = table(400).drop(columns="number" if label == "label" else "label")
    predictor = fitted(frame[:300], label, {"max_epochs": 60})
    score = predictor.evaluate(frame[300:])
    assert score["accuracy" if label == "label" else "r2"] > least


def test_categories_reach_the_estimator_as_categories() -> None:
    predictor = fitted(table().drop(columns="number"), "label")
    kinds = {column.name: column.kind for column in model_of(predictor).model.columns_}
    assert kinds["city"] == "category"
    assert kinds["age"] == "number"


def test_quantiles_of_a_row_are_in_order() -> None:
    frame = table().drop(columns="label")
    predictor = fitted(frame, "number", problem_type="quantile", quantile_levels=[0.1, 0.5, 0.9])
    assert (np.diff(predictor.predict(frame), axis=1) >= 0).all()


def test_the_estimator_gets_the_resources_the_seed_and_the_time_limit() -> None:
    frame = table().drop(columns="number")
    settings = {"random_state": 7, "ag_args_fit": {"num_cpus": 1, "num_gpus": 0}}
    model = model_of(fitted(frame, "label", settings, time_limit=30))
    estimator = model.model
    assert (estimator.n_jobs, estimator.device, estimator.random_state) == (1, "cpu", 7)
    assert 0 < estimator.time_limit < 30
    assert [model._estimator(1, n_gpus).device for n_gpus in (0.5, 1, 2)] == ["cuda:0", "cuda:0", "cuda"]


def test_the_shorter_of_two_time_limits_applies() -> None:
    frame = table().drop(columns="number")
    assert model_of(fitted(frame, "label", {"time_limit": 5}, time_limit=30)).model.time_limit == 5
    assert model_of(fitted(frame, "label", {"time_limit": 90}, time_limit=30)).model.time_limit < 30


def test_a_refit_takes_no_longer_than_the_fit_was_given() -> None:
    predictor = fitted(table().drop(columns="number"), "label", time_limit=30)
    predictor.refit_full()
    limits = [model_of(predictor, position).model.time_limit for position in (0, 1)]
    assert limits[0] == limits[1] < 30


def test_the_models_of_a_bag_get_the_seeds_that_autogluon_gives_them() -> None:
    of_bag = {"fold_fitting_strategy": "sequential_local", "model_random_seed": 3, "vary_seed_across_folds": True}
    settings = {f"ag.ens.{name}": value for name, value in of_bag.items()}
    bag = model_of(fitted(table().drop(columns="number"), "label", settings, num_bag_folds=2, num_bag_sets=1))
    assert [bag.load_child(child).model.random_state for child in bag.models] == [3, 4]


def test_sample_weights_change_the_model() -> None:
    frame = table().drop(columns="label")
    frame["weight"] = np.where(frame["number"] > frame["number"].median(), 20.0, 0.05)
    plain = fitted(frame.drop(columns="weight"), "number").predict(frame)
    weighted = fitted(frame, "number", sample_weight="weight").predict(frame)
    assert weighted.mean() > plain.mean() + 0.1


def test_validation_rows_do_not_change_the_model() -> None:
    frame = table().drop(columns="number")
    train, tuning = frame[:150], frame[150:]
    other = tuning.assign(label=tuning["label"].map({"high": "low", "low": "high"}))
    first, second = (fitted(train, "label", tuning_data=rows).predict_proba(tuning) for rows in (tuning, other))
    np.testing.assert_array_equal(first, second)


def test_the_refit_is_trained_on_validation_rows_too() -> None:
    frame = table().drop(columns="number")
    predictor = fitted(frame[:150], "label", tuning_data=frame[150:])
    predictor.refit_full()
    assert [len(model_of(predictor, position).model.oof_prediction_) for position in (0, 1)] == [150, 200]


def test_memory_is_estimated_by_the_estimator() -> None:
    small, large = (table(n_rows).drop(columns="number") for n_rows in (200, 20_000))
    model = model_of(fitted(small, "label"))
    estimates = [model.estimate_memory_usage(X=own.drop(columns="label"), y=own["label"]) for own in (small, large)]
    grown = [
        model.model.estimate_memory(own.drop(columns="label"), own["label"]).training.bytes for own in (small, large)
    ]
    assert estimates[1] - estimates[0] == grown[1] - grown[0] > 0


def test_a_copy_of_the_model_by_pickle_predicts_the_same() -> None:
    frame = table().drop(columns="number")
    predictor = fitted(frame, "label")
    model, rows = model_of(predictor), predictor.transform_features(frame)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(rows), model.predict_proba(rows))
