"""The real data sets, where there is a folder of them: ``TABGNM_DATA=folder python -m pytest tests/datasets``."""

import os
from pathlib import Path

import pytest

from tabgnm.datasets import dataset_info, dataset_names, load_dataset
from tabgnm.datasets.retrieval import availability
from tabgnm.datasets.spec import Archive

FOLDER = os.environ.get("TABGNM_DATA")
DOWNLOADED = [name for name in dataset_names() if isinstance(dataset_info(name).source, Archive)]


@pytest.mark.skipif(not FOLDER, reason="set TABGNM_DATA to a folder of data sets")
@pytest.mark.parametrize("name", DOWNLOADED)
def test_a_data_set_of_the_folder_has_the_published_counts_and_values(name: str) -> None:
    spec = dataset_info(name)
    here = availability(spec, Path(FOLDER or ""))
    if here not in ("cached", "archive") and not here.startswith("sample"):
        pytest.skip(f"{name} is not in {FOLDER}")
    bunch = load_dataset(name, "sample" if here.startswith("sample") else "clean", data_home=FOLDER)
    assert bunch.data.shape[1] == spec.n_features
    assert bunch.is_sample == (len(bunch.target) < bunch.n_samples_original)
    assert bunch.checked == ("values" if spec.content_sha256 else "counts")
    if spec.n_classes:
        assert len(bunch.target_names) == spec.n_classes
    if not here.startswith("sample"):
        assert len(bunch.target) == spec.n_samples
