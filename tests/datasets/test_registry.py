import re
from pathlib import Path

import pytest

from tabgnm.datasets import DatasetSpec, dataset_info, dataset_names
from tabgnm.datasets.registry import REGISTRY
from tabgnm.datasets.spec import Archive, Computed

SPECS = list(REGISTRY.values())
PAGE = Path(__file__).resolve().parents[2] / "docs" / "datasets.md"

# The table of appendix A of the paper: rows, attributes and classes.
PAPER = {
    "noisy_moons": (1000, 2, 2),
    "abalone": (4177, 8, 28),
    "adult": (48842, 14, 2),
    "car": (1728, 6, 4),
    "connect4": (67557, 42, 3),
    "phishing": (11055, 30, 2),
    "wireless": (2000, 7, 4),
    "yeast": (1484, 8, 10),
    "page_blocks": (5473, 10, 5),
    "dry_bean": (13611, 16, 7),
    "letter": (20000, 16, 26),
    "electrical_grid": (10000, 12, 2),
    "susy": (25000, 18, 2),
    "isolet": (7797, 617, 26),
    "waveform": (5000, 40, 3),
    "wine": (4898, 11, None),
    "auto_mpg": (398, 7, None),
    "bike_sharing": (17379, 13, None),  # 17,389 in the paper, as on the page of UCI; the file has ten fewer
    "diabetes": (442, 10, None),
    "california": (20640, 8, None),
    "year": (515345, 90, None),
}


def test_the_21_data_sets_of_the_paper_have_the_counts_of_its_table() -> None:
    found = {spec.name: (spec.n_samples, spec.n_features, spec.n_classes) for spec in SPECS if spec.in_tables}
    assert found == PAPER


def test_names_come_by_task_in_the_order_of_the_tables() -> None:
    assert [name for name in dataset_names() if name != "xor"] == list(PAPER)
    assert dataset_names("classification") + dataset_names("regression") == dataset_names()
    assert len(dataset_names("regression")) == 6
    with pytest.raises(ValueError, match="task='ranking' is not known; use one of 'classification', 'regression'"):
        dataset_names("ranking")  # type: ignore[arg-type]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_what_is_known_about_a_data_set_fits_together(spec: DatasetSpec) -> None:
    assert spec.columns[-1] == spec.target
    assert len(set(spec.columns)) == len(spec.columns)
    assert {*spec.categorical, *spec.leaking, *spec.identifiers} <= set(spec.columns[:-1])
    assert (spec.n_classes is not None) == (spec.task == "classification")
    assert spec.description.endswith((".", "?")) and spec.license and spec.citation
    if isinstance(spec.source, Computed):
        assert spec.uci_id is None
    elif spec.name != "california":
        assert spec.uci_id is not None
        assert spec.source.url.startswith(f"https://archive.ics.uci.edu/static/public/{spec.uci_id}/")
        assert re.search(r"https://doi\.org/10\.24432/C[0-9A-Z]{5}$", spec.citation)
        assert spec.license == "CC BY 4.0"


def test_numbers_and_dois_are_not_shared() -> None:
    uci = [spec for spec in SPECS if spec.uci_id is not None]
    assert len(uci) == 18
    assert len({spec.uci_id for spec in uci}) == len({spec.citation[-6:] for spec in uci}) == len(uci)


def test_only_a_published_checksum_of_an_archive_is_used() -> None:
    known = {spec.name for spec in SPECS if isinstance(spec.source, Archive) and spec.source.sha256 is not None}
    assert known == {"california"}  # scikit-learn publishes it; UCI publishes none


def test_the_values_of_all_downloads_are_known_but_of_two() -> None:
    unknown = {spec.name for spec in SPECS if isinstance(spec.source, Archive) and spec.content_sha256 is None}
    assert unknown == {"susy", "year"}


def test_every_url_is_secure_and_every_file_name_plain() -> None:
    for spec in SPECS:
        if isinstance(spec.source, Archive):
            assert spec.source.url.startswith("https://")
            assert re.fullmatch(r"[a-z0-9_+]+\.(zip|tgz)", spec.source.file)


def test_leaking_columns_are_features_of_the_papers_variant_only() -> None:
    leaking = {spec.name: spec.leaking for spec in SPECS if spec.leaking}
    assert leaking == {"electrical_grid": ("stab",), "bike_sharing": ("casual", "registered")}
    for name, columns in leaking.items():
        clean, paper = (set(REGISTRY[name].feature_names(variant)) for variant in ("clean", "paper"))
        assert paper - clean == set(columns)


@pytest.mark.parametrize(
    ("name", "hint"), [("wines", "did you mean 'wine'"), ("iris", "the names are"), (3, "the names are")]
)
def test_an_unknown_name_is_told_with_the_known_ones(name: str, hint: str) -> None:
    with pytest.raises(ValueError, match=rf"{name!r} is not a data set; {hint}.*noisy_moons, abalone"):
        dataset_info(name)


def test_the_page_lists_the_data_sets_as_they_are() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| (.+?) \| ([\d,]+) \| (\d+) \| (.+?) \| (.+?) \|$", PAGE.read_text(), re.MULTILINE
    )
    expected = [
        (
            spec.name,
            spec.title,
            f"{spec.n_samples:,}",
            str(spec.n_features),
            f"{spec.n_classes} classes" if spec.n_classes else "regression",
            f"[UCI {spec.uci_id}](https://archive.ics.uci.edu/dataset/{spec.uci_id})"
            if spec.uci_id
            else spec.source.origin
            if isinstance(spec.source, Computed)
            else "StatLib",
        )
        for spec in SPECS
    ]
    assert rows == expected
