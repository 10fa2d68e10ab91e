from dataclasses import replace

import numpy as np
import pytest

from tabgnm.datasets import DatasetContentError
from tabgnm.datasets.content import check_content, content_checksum
from tabgnm.datasets.formats import Columns
from tabgnm.datasets.registry import REGISTRY

ABALONE = replace(
    REGISTRY["abalone"], columns=("Sex", "Length", "Rings"), n_samples=3, n_classes=2, n_missing=2, content_sha256=None
)


def table() -> Columns:
    return {
        "Sex": np.array(["M", np.nan, "F"], dtype=object),
        "Length": np.array([0.455, 0.1, np.nan]),
        "Rings": np.array([7, 7, 15]),
    }


def test_the_checksum_is_the_same_on_every_machine() -> None:
    assert content_checksum(table()) == "3beb1415d3bbaeaa350a66ab9ab7d31b7a8993f5f1f5e429c4bb2eee32cb38f6"


def test_a_table_written_with_fewer_digits_is_the_same_table() -> None:
    seventeen, fifteen = 610.2909999999998, 610.291
    one, other = ({"a": np.array([value])} for value in (seventeen, fifteen))
    assert seventeen != fifteen
    assert content_checksum(one) == content_checksum(other)
    assert content_checksum({"a": np.array([-0.0])}) == content_checksum({"a": np.array([0.0])})


@pytest.mark.parametrize(
    ("name", "row", "value"),
    [("Sex", 0, "I"), ("Sex", 1, "M"), ("Length", 0, 0.4551), ("Length", 2, 0.0), ("Rings", 2, 16)],
)
def test_any_other_value_is_another_table(name: str, row: int, value: object) -> None:
    changed = table()
    changed[name][row] = value
    assert content_checksum(changed) != content_checksum(table())


def test_the_order_of_rows_and_the_names_of_columns_count() -> None:
    swapped = {name: values[[1, 0, 2]] for name, values in table().items()}
    renamed = {name.lower(): values for name, values in table().items()}
    assert len({content_checksum(each) for each in (table(), swapped, renamed)}) == 3


def test_the_columns_are_left_as_they_were() -> None:
    columns = table()
    content_checksum(columns)
    for name, values in table().items():
        np.testing.assert_array_equal(columns[name].astype(str), values.astype(str))


def test_the_right_table_passes_by_counts_or_by_values() -> None:
    assert check_content(ABALONE, table(), "the file") == "counts"
    assert check_content(replace(ABALONE, content_sha256=content_checksum(table())), table(), "the file") == "values"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"n_samples": 4}, "the file has 3 rows, but Abalone has 4"),
        ({"n_classes": 3}, "the file has 2 classes, but Abalone has 3"),
        ({"n_missing": 0}, "the file has 2 missing values, but Abalone has 0"),
        (
            {"content_sha256": "0" * 64},
            "the same number of rows and classes as Abalone, but different values: their checksum is",
        ),
    ],
)
def test_another_table_is_refused_with_the_remedy(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(DatasetContentError, match=f"(?s){complaint}.*verify=False"):
        check_content(replace(ABALONE, **change), table(), "the file")
