import gzip
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from tabgnm.datasets import DatasetContentError, DatasetUnavailableError, fetch_dataset, load_dataset
from tabgnm.datasets.cache import CachedFile, data_folder, read_cached, write_cached
from tabgnm.datasets.registry import REGISTRY
from tests.datasets.originals import small_spec

CAR = b"buying,maint,doors,persons,lug_boot,safety,class\nvhigh,vhigh,2,2,small,low,unacc\nlow,low,5more,more,big,high,vgood\n"


@pytest.fixture
def small_car(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REGISTRY, "car", small_spec("car", "http://127.0.0.1:9/nobody-listens"))


def put(folder: Path, name: str, content: bytes, **manifest: object) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_bytes(content)
    if manifest:
        (folder / "datasets.json").write_text(json.dumps(manifest))
    return path


def test_the_folder_is_the_argument_or_the_variable_or_the_users_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TABGNM_DATA", str(tmp_path / "variable"))
    assert data_folder(tmp_path / "argument") == tmp_path / "argument"
    assert data_folder() == tmp_path / "variable"
    monkeypatch.setenv("TABGNM_DATA", "~/data")
    assert data_folder() == Path.home() / "data"
    for unset in ("", None):
        monkeypatch.delenv("TABGNM_DATA") if unset is None else monkeypatch.setenv("TABGNM_DATA", unset)
        assert data_folder().name == "tabgnm"


@pytest.mark.usefixtures("small_car")
def test_a_folder_with_a_manifest_is_read(cache: Path) -> None:
    packed = gzip.compress(CAR, mtime=0)
    entry = {"file": "another-name.csv.gz", "sha256": hashlib.sha256(packed).hexdigest(), "n_samples": 2}
    path = put(cache, "another-name.csv.gz", packed, car=entry)
    bunch = load_dataset("car")
    assert bunch.filename == path and bunch.target.tolist() == ["unacc", "vgood"]
    assert fetch_dataset("car") == path


@pytest.mark.usefixtures("small_car")
def test_the_order_of_the_columns_of_a_cached_file_does_not_matter(cache: Path) -> None:
    rows = [line.split(b",") for line in CAR.splitlines()]
    put(cache, "car.csv.gz", gzip.compress(b"\n".join(b",".join(reversed(row)) for row in rows)))
    assert load_dataset("car").data[0].tolist() == ["vhigh", "vhigh", "2", "2", "small", "low"]


@pytest.mark.usefixtures("small_car")
def test_a_file_that_is_not_the_one_of_the_manifest_is_refused(cache: Path) -> None:
    put(cache, "car.csv.gz", gzip.compress(CAR, mtime=0), car={"file": "car.csv.gz", "sha256": "0" * 64})
    with pytest.raises(DatasetContentError, match=r"is not the file that .*datasets\.json describes: its SHA-256 is"):
        load_dataset("car")
    assert len(load_dataset("car", verify=False).target) == 2


@pytest.mark.usefixtures("small_car")
@pytest.mark.parametrize(
    "content",
    [b"", b"plain text", gzip.compress(CAR, mtime=0)[:-20], gzip.compress(b"\xff\xfe,\n", mtime=0)],
    ids=["empty", "text", "cut", "bytes"],
)
def test_a_damaged_file_is_told(content: bytes, cache: Path) -> None:
    put(cache, "car.csv.gz", content)
    with pytest.raises(DatasetContentError, match=r"car\.csv\.gz (is damaged|has no column)"):
        load_dataset("car")


@pytest.mark.usefixtures("small_car")
@pytest.mark.parametrize("manifest", ["{", "[]", '{"car": 1}', "\xff"])
def test_a_damaged_manifest_is_told(manifest: str, cache: Path) -> None:
    put(cache, "datasets.json", manifest.encode("latin-1"))
    with pytest.raises(
        DatasetContentError, match=r"datasets\.json is not a manifest of data sets: .*; correct or remove it"
    ):
        load_dataset("car")


@pytest.mark.usefixtures("small_car")
@pytest.mark.parametrize("file", ["../car.csv.gz", "/etc/passwd", "folder/car.csv.gz", 3, None])
def test_a_manifest_cannot_point_out_of_its_folder(file: object, cache: Path) -> None:
    put(cache, "car.csv.gz", gzip.compress(CAR, mtime=0), car={"file": file})
    with pytest.raises(DatasetContentError, match="expected the name of a file in the same folder"):
        load_dataset("car")


@pytest.mark.usefixtures("small_car")
@pytest.mark.parametrize("entry", [{"n_samples": "many"}, {"sha256": 7}])
def test_a_manifest_with_the_wrong_kind_of_value_is_told(entry: dict[str, object], cache: Path) -> None:
    put(cache, "car.csv.gz", gzip.compress(CAR, mtime=0), car=entry)
    with pytest.raises(DatasetContentError, match=r"datasets\.json has .* of car; expected (int|str)"):
        load_dataset("car")


def test_what_is_written_is_read_back_to_the_last_bit(tmp_path: Path) -> None:
    spec = REGISTRY["auto_mpg"]
    random = np.random.default_rng(0)
    columns = {name: random.standard_normal(50) * 10.0 ** random.integers(-20, 20, 50) for name in spec.columns}
    columns["horsepower"][3] = np.nan
    columns["origin"] = np.array([np.nan, "a,b", 'a "quoted" one', "two\nlines", " "] * 10, dtype=object)
    path = write_cached(spec, columns, tmp_path / "new" / "folder")
    again = read_cached(spec, CachedFile(path), verify=True)
    for name in spec.columns:
        if name != "origin":
            np.testing.assert_array_equal(again[name], columns[name])
    assert again["origin"][1:4].tolist() == ["a,b", 'a "quoted" one', "two\nlines"]
    assert [other.name for other in path.parent.iterdir()] == ["auto_mpg.csv.gz"]
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    columns = {name: np.zeros(1) for name in REGISTRY["wine"].columns}
    with pytest.raises(DatasetUnavailableError, match=r"cannot be stored as .*data_home=, or set .*TABGNM_DATA"):
        write_cached(REGISTRY["wine"], columns, tmp_path / "file")


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    columns = {name: np.zeros(1) for name in REGISTRY["wine"].columns}
    with pytest.raises(DatasetUnavailableError, match="No space left on device"):
        write_cached(REGISTRY["wine"], columns, tmp_path)
    assert list(tmp_path.iterdir()) == []
