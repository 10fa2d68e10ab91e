from pathlib import Path

import numpy as np
import pytest
import torch

from tabgnm.paper import Setting, data_sets, plan
from tabgnm.paper import data as paper_data
from tabgnm.paper.data import PaperData
from tabgnm.paper.protocol import Fold, Source, folds
from tests.paper.examples import made_up


def small(task: str = "regression", variant: str = "paper", name: str = "made_up") -> PaperData:
    numbers = np.array([[1.0, 5.0], [3.0, np.nan], [5.0, 7.0], [100.0, 9.0]])
    one_hots = np.eye(4, 3, dtype=np.float32)
    targets = np.array([10.0, 20.0, 30.0, 400.0]) if task == "regression" else np.array([0, 1, 0, 1])
    source = Source(name, variant, "digest", task, 4, 5, 1)  # type: ignore[arg-type]
    return PaperData(source, numbers, one_hots, targets)


FOLD = Fold(np.array([0, 1, 2]), np.array([3]), np.array([3]))


def test_published_means_numbers_as_they_are_and_categories_one_hot() -> None:
    [encoded] = small().encoded([FOLD], Setting())
    expected = [[1, 5, 1, 0, 0], [3, 6, 0, 1, 0], [5, 7, 0, 0, 1], [100, 9, 0, 0, 0]]  # 6: mean of the training rows
    assert encoded.table.x.tolist() == expected
    assert encoded.table.y[:, 0].tolist() == [10, 20, 30, 400] and encoded.scale == 1


def test_standard_scaling_learns_from_training_rows_only() -> None:
    [encoded] = small().encoded([FOLD], Setting(scaling="standard"))
    x, y = encoded.table.x, encoded.table.y
    torch.testing.assert_close(x[:3, 0].mean(), torch.tensor(0.0))
    torch.testing.assert_close(x[:3, 0].std(correction=0), torch.tensor(1.0))
    assert x[3, 0] > 50 and x[:, 2:].tolist() == small().one_hots.tolist()
    torch.testing.assert_close(y * encoded.scale + encoded.offset, torch.tensor([[10.0], [20.0], [30.0], [400.0]]))


def test_folds_share_one_table_where_it_is_the_same() -> None:
    data = paper_data.load("noisy_moons", "paper", None)
    every = list(folds(1000, Setting()))
    assert len({id(own.table) for own in data.encoded(every, Setting())}) == 1
    assert len({id(own.table) for own in data.encoded(every, Setting(scaling="standard"))}) == 10


def test_two_classes_have_one_output_and_more_have_one_each() -> None:
    moons = paper_data.load("noisy_moons", "paper", None)
    assert (moons.source.n_inputs, moons.source.n_outputs) == (2, 1)
    assert type(moons.loss).__name__ == "BinaryCrossEntropy"
    assert type(paper_data.load("diabetes", "paper", None).loss).__name__ == "SquaredError"


def test_all_data_sets_of_the_tables_are_there_and_leaky_ones_in_both_variants(tmp_path: Path) -> None:
    pairs = data_sets(data_home=str(tmp_path))
    assert len(pairs) == 23 and len({name for name, _ in pairs}) == 21
    assert {name for name, variant in pairs if variant == "clean"} == {"electrical_grid", "bike_sharing"}


def test_names_that_are_no_data_set_of_the_tables_are_refused() -> None:
    with pytest.raises(ValueError, match="'xor' is not in the paper's tables; use some of noisy_moons"):
        data_sets(["xor"])
    with pytest.raises(ValueError, match="did you mean 'wireless'"):
        data_sets(["wirless"])


def test_a_sample_is_used_only_where_the_folder_has_no_more_and_is_called_a_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert data_sets(["year"], str(tmp_path)) == [("year", "paper")]  # to be downloaded
    (tmp_path / "year_sample.csv.gz").touch()
    assert data_sets(["year"], str(tmp_path)) == [("year", "sample")]
    monkeypatch.setattr(paper_data, "load_dataset", lambda name, variant, data_home: made_up(name, variant, 40))
    [source] = plan([("year", "sample")], Setting(), data_home=str(tmp_path)).sources
    assert source.note == "a sample: 40 of 515,345 rows"


def test_what_leaks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper_data, "load_dataset", lambda name, variant, data_home: made_up(name, variant, 17379))
    leaky, clean = (paper_data.load("bike_sharing", variant, str(tmp_path)).source for variant in ("paper", "clean"))
    assert leaky.note == "leaky: with casual and registered; target standardised"
    assert clean.note == "clean: without casual and registered"
    assert clean.n_inputs == leaky.n_inputs - 2


def test_errors_of_the_leaky_bike_sharing_are_those_of_a_standardised_target_as_in_the_paper() -> None:
    for name, scale in (("bike_sharing", 1.0), ("made_up", pytest.approx(8.165, abs=1e-3))):
        [encoded] = small(name=name).encoded([FOLD], Setting(scaling="standard"))
        assert encoded.table.y[:3].std(correction=0).item() == pytest.approx(1.0)
        assert encoded.scale == scale


def test_a_missing_category_is_a_level_of_its_own() -> None:
    values = np.array(["b", np.nan, "a", "b"], dtype=object)
    assert paper_data._one_hot(values).tolist() == [[0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]]


def test_data_sets_that_cannot_be_had_are_named_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offline(*_: object, **__: object) -> None:
        raise OSError("no network; put car+evaluation.zip into the folder")

    monkeypatch.setattr(paper_data, "load_dataset", offline)
    found = plan([("car", "clean")], Setting(), data_home=str(tmp_path))
    assert found.units == [] and found.missing == {"car (clean)": "no network; put car+evaluation.zip into the folder"}
