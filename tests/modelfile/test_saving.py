"""Saving writes a complete file or none, and errors say what to do."""

import json
import os
import pickle
import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.metrics import make_scorer, r2_score

import tabgnm
from tabgnm import GNMClassifier, MLPClassifier, MLPRegressor
from tabgnm._files import paths, strict_json
from tabgnm.estimators.model_file import from_bytes, to_bytes
from tabgnm.modelfile import ModelFileError, container
from tests.modelfile.examples import QUICK, codes, content, fitted, frame, mlp_regressor, numbers, parts, target


def test_an_estimator_that_is_not_fitted_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        GNMClassifier().save(tmp_path / "model.tabgnm")
    assert not list(tmp_path.iterdir())


class Own(MLPClassifier):
    pass


def test_a_subclass_of_an_estimator_cannot_be_saved(tmp_path: Path) -> None:
    namesake = type("MLPClassifier", (MLPClassifier,), {})
    for cls in (Own, namesake):
        with pytest.raises(ModelFileError, match=rf"{cls.__name__} cannot be saved; expected one of GNMClassifier, "):
            cls().save(tmp_path / "model.tabgnm")


PARAMETERS: dict[str, tuple[dict[str, Any], str]] = {
    "an object": (
        {"verbose": object()},
        r"verbose=<object .*> of type object cannot be stored; use set_params\(verbose",
    ),
    "a function": ({"activation": print}, r"activation=<built-in function print> of type builtin_function"),
    "a scorer": ({"metric": make_scorer(r2_score)}, r"metric=make_scorer.* cannot be stored; use set_params\(metric="),
    "NaN": ({"l1": float("nan")}, r"l1=nan of type float cannot be stored; .* finite numbers"),
    "infinity": ({"dropout": np.inf}, r"dropout=inf"),
    "bytes": ({"device": b"cpu"}, r"device=b'cpu' of type bytes"),
    "a device that is none": ({"device": "laptop"}, r"cannot be saved: .*device='laptop' is not known; use 'auto'"),
    "a long number": ({"verbose": 10**500}, r"a number of 501 digits is too long"),
    "an object in a dict": ({"column_kinds": {"a": {1, 2}}}, r"column_kinds=\{1, 2\} of type set"),
}


@pytest.mark.parametrize("case", PARAMETERS)
def test_parameters_that_cannot_be_written_are_named(case: str, tmp_path: Path) -> None:
    parameters, message = PARAMETERS[case]
    model = mlp_regressor(numbers(), target()).set_params(**parameters)
    with pytest.raises(ModelFileError, match=message):
        model.save(tmp_path / "model.tabgnm")
    assert not list(tmp_path.iterdir())


def test_a_parameter_that_contains_itself_is_refused(tmp_path: Path) -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ModelFileError, match=r"hidden=.* is nested too deeply"):
        mlp_regressor(numbers(), target()).set_params(hidden=loop).save(tmp_path / "model.tabgnm")


def test_labels_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    import datetime

    model = MLPClassifier(**QUICK, hidden=(3,)).fit(numbers(), codes(2))
    days = np.array([datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)], dtype=object)
    model.fitted_.targets.classes[0] = days
    with pytest.raises(
        ModelFileError, match=r"labels of type object such as datetime.date\(2024, 1, 1\) .*use str or int"
    ):
        model.save(tmp_path / "model.tabgnm")


def test_weights_that_are_not_finite_are_not_written(tmp_path: Path) -> None:
    model = mlp_regressor(numbers(), target())
    model.fitted_.groups[0].parameters["bias_1"][0, 0] = np.nan
    with pytest.raises(ModelFileError, match=r"cannot be saved: .*weights bias_1 are not finite numbers; fit .*again"):
        model.save(tmp_path / "model.tabgnm")


def test_a_description_that_is_too_long_says_what_makes_it_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "LARGEST_SCHEMA", 1000)
    with pytest.raises(ModelFileError, match=r"expected at most 1000: use a larger min_level_count"):
        fitted("periodic").save(tmp_path / "model.tabgnm")


def test_what_load_would_refuse_is_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.tabgnm"
    path.write_bytes(b"the old one")
    monkeypatch.setattr(strict_json, "LARGEST_COST", 1000)
    with pytest.raises(ModelFileError, match=r"this model cannot be saved: .* MiB of memory"):
        fitted("periodic").save(path)
    assert path.read_bytes() == b"the old one"


def test_the_same_model_always_has_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        fitted("periodic").save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == content("periodic")


# Folders and files


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"the folder '.*/missing' does not exist; create it first"):
        fitted("periodic").save(tmp_path / "missing" / "model.tabgnm")


def test_a_folder_is_not_a_valid_path(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"is a folder; expected a new name, or a file to replace"):
        fitted("periodic").save(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_a_clear_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(ModelFileError, match=r"model.tabgnm' cannot be written: Permission denied"):
            fitted("periodic").save(tmp_path / "model.tabgnm")
    finally:
        tmp_path.chmod(0o700)


def test_what_the_system_refuses_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "model.tabgnm"
    path.write_bytes(b"the old one")
    monkeypatch.setattr(paths.os, "fsync", full)
    with pytest.raises(ModelFileError, match=r"cannot be written: No space left on device"):
        fitted("periodic").save(path)
    assert [(path.name, path.read_bytes())] == [("model.tabgnm", b"the old one")]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["with\0zero", "x" * 300])
def test_an_invalid_name_is_a_clear_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="cannot be written"):
        fitted("periodic").save(tmp_path / name)
    with pytest.raises(ModelFileError, match="cannot be read"):
        tabgnm.load(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_an_interrupted_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.tabgnm"
    fitted("no names").save(path)
    before = path.read_bytes()

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(paths.os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fitted("periodic").save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


KILLED = """
import os, signal, sys
from pathlib import Path
from tabgnm._files import paths

os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)
paths.replace(Path(sys.argv[1]), [b"half of a new one"])
"""


def test_a_process_that_is_killed_while_saving_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "model.tabgnm"
    path.write_bytes(b"the old one")
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED), path], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"the old one"


def test_what_a_killed_process_left_behind_is_deleted_by_a_later_save(tmp_path: Path) -> None:
    path = tmp_path / "model.tabgnm"
    parts = []
    for killed in (path, path, tmp_path / "other.tabgnm"):
        before = set(tmp_path.iterdir())
        subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED), killed], check=False)
        parts += set(tmp_path.iterdir()) - before
    assert len(parts) == 3
    os.utime(parts[0], (0, 0))
    os.utime(parts[2], (0, 0))
    fitted("periodic").save(path)
    assert set(tmp_path.iterdir()) == {path, *parts[1:]}  # the second one may be of a process that is still writing


def test_a_link_stays_a_link_and_permissions_stay_as_they_were(tmp_path: Path) -> None:
    path, link = tmp_path / "model.tabgnm", tmp_path / "link"
    path.write_bytes(b"")
    path.chmod(0o600)
    link.symlink_to(path.name)
    fitted("no names").save(link)
    assert link.is_symlink()
    assert path.read_bytes() == content("no names")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_new_file_has_the_permissions_that_new_files_have(tmp_path: Path) -> None:
    fitted("no names").save(tmp_path / "model.tabgnm")
    (tmp_path / "other").write_bytes(b"")
    assert (tmp_path / "model.tabgnm").stat().st_mode == (tmp_path / "other").stat().st_mode


# What is in a file, and what is not


def holds(data: bytes, number: float) -> bool:
    return any(np.array(number, dtype=dtype).tobytes() in data for dtype in ("<f4", "<f8"))


def arrays_with(arrays: dict[str, np.ndarray], numbers: np.ndarray) -> set[str]:
    """Names of the arrays in which some of these numbers stand."""
    return {name for name, array in arrays.items() if any(holds(array.tobytes(), number) for number in numbers)}


def _without_spans(schema: dict[str, Any]) -> list[list[float]]:
    """Remove the smallest and largest numbers of the columns, which `out_of_range` needs, and return them."""
    return [column.pop("span") for encoder in schema["encoders"] for column in encoder["columns"]]


@pytest.mark.parametrize("embedding", [None, "periodic", "piecewise"])
@pytest.mark.parametrize("scaling", ["standard", "robust", "quantile"])
def test_numbers_of_the_training_data_are_nowhere_but_among_ranges_and_quantiles(
    scaling: str, embedding: str | None
) -> None:
    rng = np.random.default_rng(0)
    X, y, weights = rng.normal(size=(400, 2)), rng.normal(size=400), rng.uniform(0.5, 1.5, size=400)
    model = MLPRegressor(**QUICK | {"numeric_embedding": embedding, "scaling": scaling}, hidden=(4,))
    schema, arrays = parts(to_bytes(model.fit(X, y, sample_weight=weights)))
    assert not arrays_with(arrays, np.concatenate([y, weights]))
    # The median, and the smallest, the largest and some in between; the number of all of them is limited.
    quantiles = {"encoders/0/number_centre": 2, "encoders/0/knots": 2 * 13}
    if scaling == "standard" and embedding != "piecewise":
        quantiles = {}
    for name in arrays_with(arrays, X.ravel()):
        assert len(arrays[name]) <= quantiles[name]
    assert _without_spans(schema) == [[X[:, column].min(), X[:, column].max()] for column in (0, 1)]
    text = json.dumps(schema)
    assert not [number for number in np.concatenate([X.ravel(), y, weights]) if repr(float(number)) in text]


def test_rare_levels_are_not_in_the_file_frequent_ones_are() -> None:
    X = frame(200)
    X["name"] = [f"person {i}" if i % 2 else "anonymous" for i in range(200)]
    text = str(parts(to_bytes(mlp_regressor(X, np.arange(200.0))))[0])
    assert "anonymous" in text and "person" not in text


def test_only_what_is_documented_is_in_the_schema() -> None:
    schema, arrays = parts(content("periodic"))
    assert list(schema) == [
        "format", "version", "weights_sha256", "tabgnm", "estimator", "parameters", "has_names", "n_calls", "encoders",
        "targets", "groups", "candidates", "scores", "temperature", "n_left_out", "fold_seed",
    ]  # fmt: skip
    assert (schema["format"], schema["version"]) == ("tabgnm model", container.VERSION)
    assert list(schema["groups"][0]) == [
        "settings", "weight", "encoder", "targets", "shape", "seeds", "folds", "histories",
    ]  # fmt: skip
    assert {name.partition("/")[0] for name in arrays} == {"groups", "encoders", "targets", "residuals", "importances"}


def numbers_in(value: Any) -> set[float]:
    """Return all numbers in a JSON value."""
    if isinstance(value, dict | list):
        return set().union(*map(numbers_in, value.values() if isinstance(value, dict) else value))
    return {value} if isinstance(value, float) else set()


@pytest.mark.parametrize("log", [False, True])
def test_no_row_of_the_training_data_is_in_the_file_of_a_pack(log: bool) -> None:
    """Not even its prediction: of the errors on left-out rows there are sorted sizes, without the rows."""
    X, y = numbers(400), np.random.default_rng(3).gamma(1.0, size=400) + 0.1
    transform = "log" if log else "none"
    model = MLPRegressor(**QUICK | {"n_candidates": 3}, hidden=(3,), target_transform=transform).fit(X, y)
    schema, arrays = parts(to_bytes(model))
    predicted = np.concatenate([model.oof_prediction_, model.predict(X)])
    assert not arrays_with(arrays, np.concatenate([y, np.log(y), predicted]))
    _without_spans(schema)
    assert not numbers_in(schema) & set(np.concatenate([X.ravel(), y, np.log(y), predicted]).tolist())
    for fold, sizes in enumerate(model.fitted_.residuals):
        assert (np.diff(arrays[f"residuals/{fold}"], axis=0) >= 0).all() and len(sizes) == 200


def test_a_pickle_keeps_out_of_fold_predictions_and_a_model_file_does_not() -> None:
    model = fitted("no names")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).oof_prediction_, model.oof_prediction_)
    with pytest.raises(AttributeError, match="not stored in model files"):
        _ = from_bytes(to_bytes(model)).oof_prediction_
