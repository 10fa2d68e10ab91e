"""What is loaded is what was saved, bit for bit."""

import math
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

import tabgnm
from tabgnm import FleetSearchCV, GNMClassifier, MLPClassifier, MLPRegressor
from tabgnm.estimators.model_file import from_bytes, to_bytes
from tests.modelfile.examples import (
    CASES,
    N_ROWS,
    QUICK,
    codes,
    content,
    fitted,
    frame,
    mlp_regressor,
    numbers,
    parts,
    table_for,
    target,
)


def assert_identical(a: Any, b: Any) -> None:
    """Equal in type and value, NaN and the sign of 0 included."""
    if isinstance(a, list | tuple):
        assert type(a) is type(b) and len(a) == len(b)
        for own, other in zip(a, b, strict=True):
            assert_identical(own, other)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for name in a:
            assert_identical(a[name], b[name])
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert a.tolist() == b.tolist() if a.dtype.kind == "O" else a.tobytes() == b.tobytes()
    elif isinstance(a, float) and math.isnan(a):
        assert isinstance(b, float) and math.isnan(b)
    else:
        assert type(a) is type(b) and a == b


def told(estimator: Any, X: Any) -> dict[str, Any]:
    """Everything that an estimator says."""
    said = {
        "predict": estimator.predict(X),
        "columns": str(estimator.columns_),
        "history": estimator.history_,
        "importances": estimator.feature_importances_,
        "n_features_in": estimator.n_features_in_,
        "names": getattr(estimator, "feature_names_in_", None),
        "encoded": estimator.encode(X),
    }
    if hasattr(estimator, "classes_"):
        said |= {
            name: getattr(estimator, name)(X) for name in ("predict_proba", "predict_log_proba", "decision_function")
        }
        said["classes"] = estimator.classes_
    elif estimator.fitted_.n_members > 1:
        said["std"] = estimator.predict(X, return_std=True)
    return said


@pytest.mark.parametrize("case", CASES)
def test_a_loaded_model_says_what_the_saved_one_said(case: str) -> None:
    model = fitted(case)
    loaded = from_bytes(content(case))
    check_is_fitted(loaded)
    assert type(loaded) is type(model)
    assert_identical(told(model, table_for(model)), told(loaded, table_for(model)))


@pytest.mark.parametrize("case", CASES)
def test_a_loaded_model_is_saved_to_the_same_bytes(case: str) -> None:
    assert to_bytes(from_bytes(content(case))) == content(case)


@pytest.mark.parametrize("case", [case for case in CASES if case != "numpy parameters"])
def test_a_loaded_model_has_the_parameters_of_the_saved_one(case: str) -> None:
    model, loaded = fitted(case), from_bytes(content(case))
    assert loaded.get_params() == model.get_params()
    assert repr(loaded) == repr(model)
    assert isinstance(clone(loaded), type(model))


def test_numpy_parameters_become_plain_ones_of_the_same_value() -> None:
    parameters = from_bytes(content("numpy parameters")).get_params()
    assert parameters["hidden"] == [4, 3] and type(parameters["hidden"][0]) is int
    assert parameters["dropout"] == 0.25 and type(parameters["dropout"]) is float


def test_where_a_generator_stands_is_not_saved() -> None:
    model = MLPRegressor(**QUICK | {"random_state": np.random.RandomState(3)}, hidden=(3,)).fit(numbers(), target())
    assert from_bytes(to_bytes(model)).random_state is None


@pytest.mark.parametrize("case", ["periodic", "labels: several targets", "variant: tied", "float64"])
def test_a_loaded_model_can_be_pickled(case: str) -> None:
    model = pickle.loads(pickle.dumps(from_bytes(content(case))))
    X = table_for(model)
    assert_identical(told(fitted(case), X), told(model, X))


@pytest.mark.parametrize("case", ["periodic", "float64", "variant: gated", "labels: two strings", "l0"])
def test_training_goes_on_from_a_file_as_it_would_have_without_one(case: str) -> None:
    loaded, same = from_bytes(content(case)), pickle.loads(pickle.dumps(fitted(case)))
    X = frame() if hasattr(same, "feature_names_in_") else numbers()
    y = same.predict(X)
    for model in (loaded, same):
        model.partial_fit(X, y)
        model.partial_fit(X, y)
        model.set_params(warm_start=True, max_epochs=2).fit(X, y)
    assert_identical(told(same, X), told(loaded, X))
    assert to_bytes(loaded) == to_bytes(same)
    assert len(loaded.history_[0]["train_loss"]) == 3 + 1 + 1 + 2


def test_a_file_remembers_what_the_weights_were_made_for() -> None:
    model = pickle.loads(pickle.dumps(fitted("kinds by position")))
    model.set_params(hidden=(7,), n_candidates=1, n_folds=3, column_kinds={0: "number"}, max_epochs=2)
    loaded = from_bytes(to_bytes(model))
    assert loaded.get_params() == model.get_params() and to_bytes(loaded) == to_bytes(model)
    for changed in (model, loaded):
        with pytest.raises(ValueError, match=r"column_kinds=.* was \{0: 'ignore', 2: 'number'\} when training began"):
            changed.partial_fit(numbers(), target())
        changed.set_params(column_kinds={0: "ignore", 2: "number"}, n_candidates=1, n_folds=2)
        with pytest.raises(ValueError, match=r"hidden=\(7,\) was \(5,\) when training began"):
            changed.partial_fit(numbers(), target())
        changed.set_params(hidden=(5,)).partial_fit(numbers(), target())
    assert to_bytes(loaded) == to_bytes(model)


def test_the_number_of_threads_is_not_stored_as_another_machine_may_have_fewer_cores() -> None:
    model = mlp_regressor(numbers(), target(), n_jobs=2)
    file = to_bytes(model)
    assert "n_jobs" not in parts(file)[0]["parameters"]
    loaded = from_bytes(file)
    assert (model.n_jobs, loaded.n_jobs) == (2, None)
    assert loaded.get_params() == model.get_params() | {"n_jobs": None}
    assert to_bytes(loaded.set_params(n_jobs=1)) == file


def test_a_device_of_torch_is_written_by_its_name() -> None:
    model = mlp_regressor(numbers(), target(), device=torch.device("cpu"))
    loaded = from_bytes(to_bytes(model))
    assert loaded.device == "cpu" and (loaded.predict(numbers()) == model.predict(numbers())).all()


def test_a_loaded_model_can_be_fitted_to_another_table() -> None:
    loaded = from_bytes(content("periodic"))
    again = clone(fitted("periodic")).fit(numbers(), codes(2))
    assert_identical(loaded.fit(numbers(), codes(2)).predict(numbers()), again.predict(numbers()))


def test_a_member_that_diverged_later_keeps_its_history() -> None:
    """Losses that are not finite are None, metrics NaN or infinite: all come back as they were."""
    model = pickle.loads(pickle.dumps(fitted("loss: mse, 1 outputs")))
    history = model.fitted_.histories[0]
    history["train_loss"][1] = None
    history["val_r2"] = [math.nan, -math.inf, math.inf]
    assert_identical(from_bytes(to_bytes(model)).history_, model.history_)


def test_what_a_search_found_best_can_be_saved(tmp_path: Path) -> None:
    search = FleetSearchCV(MLPClassifier(**QUICK), {"hidden": [(4,), (3, 3)]}, cv=2).fit(numbers(), codes(2))
    search.best_estimator_.save(tmp_path / "best.tabgnm")
    loaded = tabgnm.load(tmp_path / "best.tabgnm")
    assert_identical(loaded.predict_proba(numbers()), search.predict_proba(numbers()))


@pytest.mark.parametrize("name", ["model.tabgnm", "größer als 3 – 模型", "x" * 255])
def test_any_name_of_a_file_works(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "модели"
    folder.mkdir()
    fitted("periodic").save(folder / name)
    assert [path.name for path in folder.iterdir()] == [name]
    loaded = tabgnm.load(str(folder / name))
    assert_identical(loaded.predict(frame()), fitted("periodic").predict(frame()))


def test_any_zip_program_and_safetensors_itself_can_read_a_file(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    fitted("float64").save(path)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert [(entry.filename, entry.compress_type) for entry in archive.infolist()] == [
            ("schema.json", zipfile.ZIP_DEFLATED),
            ("weights.safetensors", zipfile.ZIP_STORED),
        ]
        arrays = safetensors.numpy.load(archive.read("weights.safetensors"))
    for name, weights in fitted("float64").fitted_.parameters.items():
        assert_identical(arrays[f"networks/{name}"], weights.numpy())


def test_a_file_is_as_large_as_its_weights_and_a_few_kilobytes() -> None:
    models = [
        GNMClassifier(n_candidates=1, n_folds=2, max_epochs=2, random_state=0).fit(frame(), codes(3)),
        MLPRegressor(n_candidates=1, n_folds=8, max_epochs=100, patience=None, random_state=0).fit(numbers(), target()),
        fitted("periodic"),
    ]
    for model in models:
        n_bytes = sum(weights.nbytes for weights in model.fitted_.parameters.values())
        size = len(to_bytes(model))
        # A history of 100 epochs takes 100 x 3 numbers of 20 digits for each member, half of that once packed.
        n_epochs = sum(len(history["train_loss"]) for history in model.history_)
        assert n_bytes < size < n_bytes + 8_000 + 35 * n_epochs


def test_saving_does_not_change_the_model() -> None:
    model = pickle.loads(pickle.dumps(fitted("periodic")))
    before = pickle.dumps(model)
    to_bytes(model)
    assert pickle.dumps(model) == before
    assert len(model.predict(frame())) == N_ROWS
