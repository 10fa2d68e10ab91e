"""What is loaded is what was saved, bit for bit."""

import math
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
import torch
from sklearn.base import clone
from sklearn.model_selection import KFold
from sklearn.utils.validation import check_is_fitted

import tabgnm
from tabgnm import FleetSearchCV, GNMClassifier, GNMRegressor, MLPClassifier, MLPRegressor
from tabgnm.estimators.model_file import from_bytes, to_bytes
from tabgnm.modelfile import ModelFileError, plain_values
from tests.modelfile.examples import (
    CASES,
    N_ROWS,
    PACKS,
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

# Machines that were trained for a few steps may be constants.
pytestmark = pytest.mark.filterwarnings("ignore:the machine is a constant")


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


def without_seconds(estimator: Any) -> Any:
    """Forget how long each candidate took, which is all that two equal fits differ in."""
    for record in estimator.fitted_.candidates:
        record["seconds"] = 0.0
    return estimator


def told(estimator: Any, X: Any) -> dict[str, Any]:
    """Everything that an estimator says."""
    said = {
        "predict": estimator.predict(X),
        "columns": str(estimator.columns_),
        "history": estimator.history_,
        "importances": estimator.feature_importances_,
        "n_features_in": estimator.n_features_in_,
        "names": getattr(estimator, "feature_names_in_", None),
        "encoded": [estimator.encode(X, group) for group in range(len(estimator.fitted_.groups))],
        "pack": pd.DataFrame(estimator.pack_).to_dict("list"),
        "scores": estimator.fitted_.scores,
    }
    if hasattr(estimator, "_path"):
        said["path"] = estimator.sparsity_path_.to_dict("list")
        machines = [estimator.resized(n_edges) for n_edges in estimator.sparsity_path_["edges"]]
        said["machines"] = [(own.predict(X), own.feature_importances_, own.describe()) for own in machines]
    if hasattr(estimator, "classes_"):
        said |= {
            name: getattr(estimator, name)(X) for name in ("predict_proba", "predict_log_proba", "decision_function")
        }
        said["classes"] = estimator.classes_
    else:
        if estimator.fitted_.n_networks > 1:
            said["std"] = estimator.predict(X, return_std=True)
        if estimator.fitted_.residuals:
            said["interval"] = estimator.predict_interval(X, coverage=0.8)
    return said


@pytest.mark.filterwarnings("ignore:no column can be used")
@pytest.mark.parametrize("case", CASES)
def test_a_loaded_model_says_what_the_saved_one_said(case: str) -> None:
    model = fitted(case)
    loaded = from_bytes(content(case))
    check_is_fitted(loaded)
    assert type(loaded) is type(model)
    assert_identical(told(model, table_for(model)), told(loaded, table_for(model)))


@pytest.mark.filterwarnings("ignore:no column can be used")
@pytest.mark.parametrize("case", CASES)
def test_a_loaded_model_is_saved_to_the_same_bytes(case: str) -> None:
    assert to_bytes(from_bytes(content(case))) == content(case)


@pytest.mark.filterwarnings("ignore:no column can be used")
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


@pytest.mark.parametrize(
    "case", ["periodic", "labels: several targets", "variant: tied", "float64", "pack with logarithms"]
)
def test_a_loaded_model_can_be_pickled(case: str) -> None:
    model = pickle.loads(pickle.dumps(from_bytes(content(case))))
    X = table_for(model)
    assert_identical(told(fitted(case), X), told(model, X))


@pytest.mark.parametrize(
    "case",
    [
        "periodic",
        "float64",
        "variant: gated",
        "labels: two strings",
        "l0",
        "pack of classifiers",
        "pack of a table",
        "pack with logarithms",
    ],
)
def test_training_goes_on_from_a_file_as_it_would_have_without_one(case: str) -> None:
    loaded, same = from_bytes(content(case)), pickle.loads(pickle.dumps(fitted(case)))
    X = frame() if hasattr(same, "feature_names_in_") else numbers()
    y = same.predict(X)
    for model in (loaded, same):
        model.partial_fit(X, y)
        model.partial_fit(X, y)
        without_seconds(model.set_params(warm_start=True, max_epochs=2).fit(X, y))
    assert_identical(told(same, X), told(loaded, X))
    assert to_bytes(loaded) == to_bytes(same)
    assert len(loaded.history_[0]["train_loss"]) == 3 + 1 + 1 + 2


def test_a_file_remembers_what_the_weights_were_made_for() -> None:
    model = pickle.loads(pickle.dumps(fitted("kinds by position")))
    model.set_params(hidden=(7,), n_folds=3, column_kinds={0: "number"}, max_epochs=2)
    loaded = from_bytes(to_bytes(model))
    assert loaded.get_params() == model.get_params() and to_bytes(loaded) == to_bytes(model)
    for changed in (model, loaded):
        with pytest.raises(ValueError, match=r"column_kinds=.* was \{0: 'ignore', 2: 'number'\} when training started"):
            changed.partial_fit(numbers(), target())
        changed.set_params(column_kinds={0: "ignore", 2: "number"}, n_folds=2)
        with pytest.raises(ValueError, match=r"hidden=\(7,\) was \(5,\) when training started"):
            changed.partial_fit(numbers(), target())
        without_seconds(changed.set_params(hidden=(5,)).partial_fit(numbers(), target()))
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
    history = model.fitted_.groups[0].histories[0]
    history["train_loss"][1] = None
    history["val_r2"] = [math.nan, -math.inf, math.inf]
    assert_identical(from_bytes(to_bytes(model)).history_, model.history_)


def test_a_pack_comes_back_with_all_its_candidates() -> None:
    """Otherwise the cases above would not say anything about packs."""
    for case in PACKS:
        groups = from_bytes(content(case)).fitted_.groups
        assert len(groups) == len(fitted(case).fitted_.groups) >= (2 if case.startswith("pack") else 1)
        for own, other in zip(groups, fitted(case).fitted_.groups, strict=True):
            assert_identical(
                [own.settings, own.weight, own.seeds, own.folds],
                [other.settings, other.weight, other.seeds, other.folds],
            )
    assert len(from_bytes(content("pack of a table")).fitted_.encoders) == 2
    transforms = {group.targets.transform for group in from_bytes(content("pack with logarithms")).fitted_.groups}
    assert transforms == {"none", "log"}
    assert from_bytes(content("calibrated")).fitted_.temperature < 1


def test_a_small_machine_comes_back_with_its_path_of_sizes() -> None:
    model, loaded = fitted("path of a regressor"), from_bytes(content("path of a regressor"))
    pd.testing.assert_frame_equal(loaded.sparsity_path_, model.sparsity_path_)
    sizes = sorted(set(model.sparsity_path_["edges"]))
    assert len(sizes) > 2
    for n_edges in sizes:
        other = loaded.resized(n_edges)
        assert_identical(other.predict(numbers()), model.resized(n_edges).predict(numbers()))
        assert to_bytes(from_bytes(to_bytes(other))) == to_bytes(other), "each size can be saved with the path"
    for own, other in zip(model._path_fitted, loaded._path_fitted, strict=True):
        assert_identical(
            {name: value.numpy() for name, value in own.groups[0].parameters.items()},
            {name: value.numpy() for name, value in other.groups[0].parameters.items()},
        )


@pytest.mark.filterwarnings("ignore:fit replaces the small machine")
@pytest.mark.parametrize("change", ["fit", "partial_fit", "prune"])
def test_a_machine_that_is_trained_or_pruned_has_left_its_path(change: str) -> None:
    model = from_bytes(content("path of a regressor"))
    if change == "prune":
        model = model.prune(0.1)
    else:
        getattr(model.set_params(max_epochs=1), change)(numbers(), target())
    assert not hasattr(from_bytes(to_bytes(model)), "sparsity_path_")
    with pytest.raises(AttributeError, match=r"cannot be resized: .* or it has been fitted or pruned since"):
        model.resized(12)


def test_weights_of_0_on_a_path_take_no_place_in_a_file() -> None:
    schema, arrays = parts(content("path of a classifier"))
    path = fitted("path of a classifier")
    assert len(schema["path"]) == len(path._path_fitted)
    for place, own in enumerate(path._path_fitted):
        values = own.groups[0].parameters.values()
        if not path._path[place]["chosen"]:  # that one is the network of the file
            assert len(arrays[f"path/{place}/weights"]) == sum(int(value.count_nonzero()) for value in values)


def test_groups_that_share_an_encoder_share_it_after_loading() -> None:
    model, loaded = fitted("pack of a table"), from_bytes(content("pack of a table"))
    for own in (model, loaded):
        places = [own.fitted_.encoders.index(group.encoder) for group in own.fitted_.groups]
        assert len(set(places)) < len(places)
    assert len(parts(content("pack of a table"))[0]["encoders"]) == 2


def test_what_is_known_of_candidates_and_scores_comes_back() -> None:
    """Candidates that were not measured have a loss of NaN; settings may be None, and numbers of NumPy."""
    model = pickle.loads(pickle.dumps(fitted("pack of regressors")))
    model.fitted_.candidates[1] |= {"loss": math.nan, "loss_std": math.inf, "numeric_embedding": None}
    model.fitted_.candidates[2] |= {"n_basis": np.int64(2), "learning_rate": np.float32(0.5)}
    model.fitted_.scores["mse"] = math.nan
    loaded = from_bytes(to_bytes(model))
    assert_identical(loaded.oof_scores_, model.oof_scores_)
    assert loaded.oof_score_ == model.oof_score_
    assert list(loaded.pack_) == list(model.pack_) and len(loaded.pack_) == 3
    records = loaded.fitted_.candidates
    assert math.isnan(records[1]["loss"]) and records[1]["loss_std"] == math.inf
    assert records[1]["numeric_embedding"] is None and records[2]["learning_rate"] == 0.5
    assert to_bytes(loaded) == to_bytes(model)


def test_folds_without_errors_come_back() -> None:
    """Rows of a fold whose network diverged have no errors."""
    model = pickle.loads(pickle.dumps(fitted("loss: mse, 1 outputs")))
    model.fitted_.residuals[0] = model.fitted_.residuals[0][:0]
    loaded = from_bytes(to_bytes(model))
    assert_identical(loaded.fitted_.residuals, model.fitted_.residuals)
    assert_identical(loaded.predict_interval(numbers()), model.predict_interval(numbers()))


def test_a_loaded_model_has_no_predictions_of_the_rows_of_fit() -> None:
    model = fitted("pack of a table")
    assert len(model.oof_prediction_) == N_ROWS
    with pytest.raises(AttributeError, match=r"not stored in model files"):
        from_bytes(content("pack of a table")).oof_prediction_  # noqa: B018


def test_folds_of_your_own_are_not_stored_as_they_are_rows_of_the_training_data() -> None:
    folds = [(np.arange(0, 40), np.arange(40, 60)), (np.arange(20, 60), np.arange(0, 20))]
    for cv in (KFold(3), folds):
        model = mlp_regressor(numbers(), target(), n_folds="auto", cv=cv)
        file = to_bytes(model)
        assert "cv" not in parts(file)[0]["parameters"]
        loaded = from_bytes(file)
        assert loaded.get_params() == model.get_params() | {"cv": None}
        assert_identical(told(loaded, numbers()), told(model, numbers()))
        assert to_bytes(model.set_params(cv=None)) == file == to_bytes(loaded)
        loaded.partial_fit(numbers(), target())


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
    for name, weights in fitted("float64").fitted_.groups[0].parameters.items():
        assert_identical(arrays[f"groups/0/networks/{name}"], weights.numpy())


def test_a_file_is_as_large_as_its_weights_and_a_few_kilobytes() -> None:
    models = [
        GNMClassifier(n_candidates=1, n_folds=2, max_epochs=2, random_state=0).fit(frame(), codes(3)),
        MLPRegressor(n_candidates=1, n_folds=8, max_epochs=100, patience=None, random_state=0).fit(numbers(), target()),
        fitted("periodic"),
    ]
    for model in models:
        n_bytes = sum(weights.nbytes for group in model.fitted_.groups for weights in group.parameters.values())
        size = len(to_bytes(model))
        # A history of 100 epochs takes 100 x 3 numbers of 20 digits for each network, half of that once packed.
        n_epochs = sum(len(history["train_loss"]) for history in model.history_)
        assert n_bytes < size < n_bytes + 8_000 + 35 * n_epochs


def test_saving_does_not_change_the_model() -> None:
    model = pickle.loads(pickle.dumps(fitted("periodic")))
    before = pickle.dumps(model)
    to_bytes(model)
    assert pickle.dumps(model) == before
    assert len(model.predict(frame())) == N_ROWS


def test_parameters_are_nested_as_deeply_in_files_as_they_are_written() -> None:
    """A file that loads can be saved."""
    deepest: Any = 1
    for _ in range(6):
        deepest = {"list": [deepest]}
    assert plain_values.plain("a", plain_values.parameter("a", deepest)) == deepest
    with pytest.raises(ModelFileError):
        plain_values.parameter("a", {"list": [deepest]})


def test_the_name_of_the_target_is_kept_and_forgotten_by_a_fit_without_one(tmp_path: Path) -> None:
    prices = pd.DataFrame({"age": np.arange(20.0), "price": np.arange(20.0) ** 2})
    model = GNMRegressor(n_candidates=1, n_folds=0, max_epochs=1, random_state=0).fit(prices[["age"]], prices["price"])
    model.save(tmp_path / "model.tabgnm")
    loaded = tabgnm.load(tmp_path / "model.tabgnm")
    assert loaded.target_name_ == "price"
    small = loaded.distill(
        prices[["age"]], n_hidden=2, n_layers=2, n_folds=2, n_starts=1, n_augmented=0, random_state=0
    )
    assert small.target_name_ == "price"
    assert not hasattr(model.fit(prices[["age"]], prices["price"].to_numpy()), "target_name_")


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_the_names_of_several_targets_are_kept(library: str, tmp_path: Path) -> None:
    columns = {"low": [1.0, 2.0, 3.0, 4.0], "high": [2.0, 3.0, 4.0, 6.0]}
    module = pytest.importorskip(library)
    y = module.table(columns) if library == "pyarrow" else module.DataFrame(columns)
    model = GNMRegressor(n_candidates=1, n_folds=0, max_epochs=1, random_state=0).fit([[1], [2], [3], [4]], y)
    assert model.target_names_ == ["low", "high"]
    model.save(tmp_path / "model.tabgnm")
    assert tabgnm.load(tmp_path / "model.tabgnm").target_names_ == ["low", "high"]
    assert not hasattr(model.fit([[1], [2]], [1.0, 2.0]), "target_names_")
