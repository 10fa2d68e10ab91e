"""The tables of installed packages that models are compared on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import accuracy, package_tables
from benchmarks.package_tables import MAX_ROWS, SOURCES, Source, prepared, read_keel


def test_every_table_has_a_name_of_its_own() -> None:
    assert len({source.slug for source in SOURCES}) == len(SOURCES) == 56


def test_missing_packages_are_named_with_the_command_that_installs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(package_tables, "VERSIONS", {"no_such_package": "1.0"})
    with pytest.raises(SystemExit):
        package_tables.main([str(tmp_path / "tables")])
    assert "pip install no-such-package==1.0" in capsys.readouterr().err
    assert not (tmp_path / "tables").exists()


def test_columns_and_rows_without_use_are_left_out() -> None:
    frame = pd.DataFrame(
        {
            "rownames": range(30),
            "number": np.arange(30.0),
            "gives it away": range(30),
            "flag": [True, False] * 15,
            "text": ["a", None, "b"] * 10,
            "class": ["x"] * 15 + ["y"] * 12 + ["rare"] * 2 + [None],
        }
    )
    source = Source("package/item", "class", "classification", ("gives it away",))
    kept, categories = prepared(frame, source)
    assert list(kept) == ["number", "flag", "text", "class"] and categories == ["flag", "text"]
    assert kept["class"].value_counts().to_dict() == {"x": 15, "y": 12}
    assert kept.index.tolist() == list(range(27))


def test_long_tables_are_sampled_the_same_way_each_time() -> None:
    frame = pd.DataFrame({"x": np.arange(MAX_ROWS + 5), "y": np.arange(MAX_ROWS + 5.0)})
    source = Source("package/item", "y", "regression")
    first, again = prepared(frame, source)[0], prepared(frame, source)[0]
    assert len(first) == MAX_ROWS
    pd.testing.assert_frame_equal(first, again)


def test_keel_files_have_numbers_text_and_missing_cells() -> None:
    frame = read_keel("1, a, 0.5, yes\n2, ?, <null>, no\n\n")
    assert list(frame) == ["a0", "a1", "a2", "target"]
    assert frame["a0"].tolist() == [1, 2] and frame["a1"].isna().tolist() == [False, True]
    assert frame["a2"].dtype == np.float64 and np.isnan(frame["a2"][1])
    assert frame["target"].tolist() == ["yes", "no"]


def test_the_written_folder_is_what_accuracy_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame({"x": np.arange(40.0), "c": ["a", "b"] * 20, "y": ["no", "yes"] * 20})
    monkeypatch.setattr(package_tables, "SOURCES", (Source("package/Item", "y", "classification"),))
    monkeypatch.setattr(package_tables, "VERSIONS", {})
    monkeypatch.setattr(package_tables, "found", lambda _: frame)
    package_tables.main([str(tmp_path)])
    assert json.loads((tmp_path / "datasets.json").read_text())["item"]["source"] == "package/Item"
    (table,) = accuracy.tables_of_folder(tmp_path, [])
    assert table.slug == "item" and table.y.tolist() == [0, 1] * 20
    assert list(table.x) == ["x", "c"] and str(table.x["c"].dtype) == "category"
