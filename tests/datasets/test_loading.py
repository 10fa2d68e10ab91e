import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes
from sklearn.utils import Bunch

from tabgnm._extras import MissingExtraError
from tabgnm.datasets import DatasetContentError, DatasetUnavailableError, fetch_dataset, load_dataset
from tabgnm.datasets.registry import REGISTRY
from tests.datasets.originals import ORIGINALS, small_spec

ATTRIBUTES = {
    "data", "target", "frame", "feature_names", "target_names", "categorical_features", "name", "title", "task",
    "variant", "leaking_features", "is_sample", "n_samples_original", "n_samples_paper", "checked", "filename", "DESCR",
    "license", "citation",
}  # fmt: skip


@pytest.fixture
def originals(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with the archives of a few rows, as if the user had put them there."""
    (cache / "archives").mkdir(parents=True)
    for name, original in ORIGINALS.items():
        spec = small_spec(name, "http://127.0.0.1:9/nobody-listens")
        monkeypatch.setitem(REGISTRY, name, spec)
        (cache / "archives" / spec.source.file).write_bytes(original.archive())  # type: ignore[union-attr]
    return cache


def put_sample(cache: Path, name: str, n_rows: int, key: str | None = None, **entry: object) -> Path:
    """Write a sample of a data set as a prepared folder has it."""
    spec = REGISTRY[name]
    file = f"{key or name}.csv.gz"
    lines = [
        ",".join(spec.columns),
        *(",".join([str(row)] * (len(spec.columns) - 1) + [str(row % 2)]) for row in range(n_rows)),
    ]
    cache.mkdir(exist_ok=True)
    (cache / file).write_bytes(gzip.compress("\n".join(lines).encode()))
    (cache / "datasets.json").write_text(json.dumps({key or name: {"file": file, "n_samples": n_rows, **entry}}))
    return cache / file


@pytest.mark.usefixtures("originals")
@pytest.mark.parametrize("name", REGISTRY)
def test_every_data_set_comes_as_a_bunch_with_all_attributes(name: str) -> None:
    bunch = load_dataset(name)
    spec = REGISTRY[name]
    assert isinstance(bunch, Bunch) and set(bunch) == ATTRIBUTES
    assert bunch.data.shape == (spec.n_samples, spec.n_features) == (len(bunch.target), len(bunch.feature_names))
    assert bunch.frame is None
    assert (bunch.data.dtype == object) == bool(bunch.categorical_features)
    if spec.task == "classification":
        assert bunch.target_names == sorted(set(bunch.target.tolist()))
        assert len(bunch.target_names) == spec.n_classes
    else:
        assert bunch.target_names == [spec.target] and bunch.target.dtype == np.float64
    for text in (spec.title, spec.description, spec.license, spec.citation, spec.notes):
        assert text in bunch.DESCR


@pytest.mark.usefixtures("originals")
@pytest.mark.parametrize("name", REGISTRY)
def test_a_frame_has_the_same_cells_with_categories_as_such(name: str) -> None:
    arrays, frames = load_dataset(name), load_dataset(name, as_frame=True)
    assert isinstance(frames.data, pd.DataFrame) and isinstance(frames.target, pd.Series)
    assert list(frames.data.columns) == arrays.feature_names and frames.target.name == REGISTRY[name].target
    assert list(frames.frame.columns) == [*arrays.feature_names, REGISTRY[name].target]
    for column in frames.data:
        kind = "category" if column in arrays.categorical_features else "float64"
        assert str(frames.data[column].dtype) == kind
    if frames.task == "classification":
        assert frames.target.cat.categories.tolist() == arrays.target_names
    assert frames.target.tolist() == arrays.target.tolist()
    gone = pd.isna(arrays.data)
    np.testing.assert_array_equal(frames.data.isna().to_numpy(), gone)
    assert frames.data.astype(object).to_numpy()[~gone].tolist() == arrays.data[~gone].tolist()


@pytest.mark.usefixtures("originals")
@pytest.mark.parametrize("as_frame", [False, True])
def test_return_x_y_gives_the_data_and_the_target_of_the_bunch(as_frame: bool) -> None:
    X, y = load_dataset("adult", as_frame=as_frame, return_X_y=True)
    bunch = load_dataset("adult", as_frame=as_frame)
    assert type(X) is type(bunch.data) and X.shape == bunch.data.shape
    assert y.tolist() == bunch.target.tolist()


@pytest.mark.usefixtures("originals")
@pytest.mark.parametrize(
    ("name", "leaking"), [("electrical_grid", ["stab"]), ("bike_sharing", ["casual", "registered"])]
)
def test_a_leak_is_in_the_papers_variant_only_and_is_called_one(name: str, leaking: list[str]) -> None:
    clean, paper = load_dataset(name), load_dataset(name, "paper")
    assert clean.leaking_features == [] and not set(leaking) & set(clean.feature_names)
    assert paper.leaking_features == leaking and set(leaking) <= set(paper.feature_names)
    assert "LEAKY" in paper.DESCR and "LEAKY" not in clean.DESCR
    assert (clean.variant, paper.variant) == ("clean", "paper")
    if name == "bike_sharing":
        columns = [paper.feature_names.index(column) for column in leaking]
        np.testing.assert_array_equal(paper.data[:, columns].sum(axis=1), paper.target)
        assert "instant" not in paper.feature_names


@pytest.mark.usefixtures("originals")
@pytest.mark.parametrize("name", sorted(set(REGISTRY) - {"electrical_grid", "bike_sharing", "diabetes"}))
def test_all_other_data_sets_are_the_same_in_both_variants(name: str) -> None:
    clean, paper = load_dataset(name), load_dataset(name, variant="paper")
    assert clean.feature_names == paper.feature_names
    np.testing.assert_array_equal(clean.data.astype(str), paper.data.astype(str))


def test_diabetes_is_as_measured_or_as_scikit_learn_scales_it() -> None:
    np.testing.assert_array_equal(load_dataset("diabetes").data, load_diabetes(scaled=False).data)
    np.testing.assert_array_equal(load_dataset("diabetes", "paper").data, load_diabetes().data)
    assert load_dataset("diabetes").feature_names == load_diabetes().feature_names


@pytest.mark.usefixtures("originals")
def test_susy_is_the_first_rows_of_many_more_and_says_so() -> None:
    bunch = load_dataset("susy")
    assert bunch.is_sample and bunch.n_samples_original == 5_000_000
    assert "NOT ALL ROWS: 2 of the 5,000,000" in bunch.DESCR


@pytest.mark.usefixtures("originals")
def test_a_complete_data_set_is_no_sample() -> None:
    for name in ("car", "year", "noisy_moons"):
        bunch = load_dataset(name)
        assert not bunch.is_sample and bunch.n_samples_original == len(bunch.target)
        assert "NOT ALL ROWS" not in bunch.DESCR


@pytest.mark.parametrize(("name", "key", "n_original"), [("susy", "susy", 5_000_000), ("year", "year_sample", 515_345)])
def test_a_sample_is_loaded_by_its_name_and_says_what_it_is(name: str, key: str, n_original: int, cache: Path) -> None:
    path = put_sample(cache, name, 4, key)
    bunch = load_dataset(name, "sample")
    assert bunch.is_sample and (bunch.n_samples_original, bunch.variant) == (n_original, "sample")
    assert bunch.n_samples_paper == REGISTRY[name].n_samples
    assert f"NOT ALL ROWS: 4 of the {n_original:,}" in bunch.DESCR
    assert (bunch.filename, bunch.data.shape, bunch.checked) == (path, (4, REGISTRY[name].n_features), "counts")


def test_a_sample_never_stands_in_for_the_whole(cache: Path) -> None:
    put_sample(cache, "susy", 4)
    for load in (load_dataset, fetch_dataset):
        with pytest.raises(
            DatasetContentError, match=r'has 4 rows, a sample of the 25,000 of SUSY; .*variant="sample"'
        ):
            load("susy")


def test_a_sample_with_other_rows_than_its_manifest_says_is_refused(cache: Path) -> None:
    put_sample(cache, "year", 4, "year_sample", n_samples=5)
    with pytest.raises(DatasetContentError, match=r"has 4 rows, but .*datasets\.json states 5"):
        load_dataset("year", "sample")


def test_a_missing_sample_is_told_with_the_place_to_put_it(cache: Path) -> None:
    with pytest.raises(
        DatasetUnavailableError, match=rf"there is no sample of SUSY in {cache}; put one .* susy_sample\.csv\.gz"
    ):
        load_dataset("susy", "sample")


@pytest.mark.parametrize("variant", ["leaky", "sample", None])
def test_a_variant_that_a_data_set_does_not_have_is_told(variant: str) -> None:
    with pytest.raises(ValueError, match=rf"variant={variant!r} is not a variant of car; use one of 'clean', 'paper'"):
        load_dataset("car", variant)  # type: ignore[arg-type]


def test_without_pandas_a_frame_names_the_extra_before_any_download(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r'needs pandas, .*pip install "tabgnm\[pandas\]"'):
        load_dataset("car", as_frame=True)
    assert not cache.exists()
    assert load_dataset("xor").data.shape == (200, 2)


def test_arrays_need_neither_pandas_nor_torch_and_importing_needs_no_scikit_learn() -> None:
    program = """
import sys
sys.modules["pandas"] = None
import tabgnm.datasets
assert not {"sklearn", "pooch", "requests"} & set(sys.modules)
tabgnm.datasets.load_dataset("diabetes")
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
