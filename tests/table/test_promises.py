"""Small promises: nothing of the caller's is written to, nothing heavy is imported."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from tabgnm.table import ColumnInfo, TableEncoder, TableSettings, read_table
from tests.table.examples import FORMS, NAN, NUMERIC_SETTINGS, column, fitted


@pytest.mark.parametrize("form", [form for form in FORMS if form.startswith("pandas")])
def test_frames_are_not_written_to(form: str) -> None:
    frame = FORMS[form]()
    before = frame.copy(deep=True)
    fitted(frame, numeric_embedding="piecewise").encode(read_table(frame))
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize("settings", NUMERIC_SETTINGS, ids=str)
def test_read_only_arrays_are_enough_and_stay_as_they_are(settings: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    arrays = [
        rng.normal(size=(50, 3)),
        rng.normal(size=(50, 3)).astype(np.float32),
        rng.integers(0, 9, (50, 3)),
        rng.random((50, 3)) < 0.5,
    ]
    arrays += [
        np.asfortranarray(arrays[0]),
        arrays[0].astype(object),
        rng.choice(["a", "b", "c"], (50, 3)),
        arrays[2].astype("M8[D]"),
        arrays[2].astype("m8[D]"),
    ]
    arrays[0][3, 1] = NAN
    for X in arrays:
        before = X.copy()
        X.flags.writeable = False
        fitted(X, **settings).encode(read_table(X), dtype=np.float64)
        np.testing.assert_array_equal(X, before)


def test_sparse_matrices_are_not_written_to_even_if_their_entries_are_in_disorder() -> None:
    entries = (np.array([1.0, 2.0, 3.0, 4.0]), np.array([2, 0, 2, 1]), np.array([0, 3, 3, 4]))
    matrix = sparse.csr_matrix(entries, shape=(3, 3))  # unsorted, with a duplicate
    for array in (matrix.data, matrix.indices, matrix.indptr):
        array.flags.writeable = False
    dense = np.array([[2.0, 0, 4.0], [0, 0, 0], [0, 4.0, 0]])
    np.testing.assert_array_equal(fitted(matrix).encode(read_table(matrix)), fitted(dense).encode(read_table(dense)))
    np.testing.assert_array_equal(matrix.indices, [2, 0, 2, 1])


def test_the_result_is_never_a_view_of_the_input() -> None:
    X = np.random.default_rng(0).normal(size=(5, 2))
    for dtype, source in ((np.float64, X), (np.float32, X.astype(np.float32))):
        out = fitted(source, scaling="none").encode(read_table(source), dtype=dtype)
        out[:] = 0
        assert source.any()


def test_neither_torch_nor_a_frame_library_is_imported() -> None:
    code = (
        "import sys, numpy as np; from tabgnm.table import TableEncoder, read_table;"
        "X = [[1.0, 'a'], [2.0, 'b'], [None, 'c']]; raw = read_table(X); TableEncoder().fit(raw).encode(raw);"
        "loaded = {'torch', 'pandas', 'polars', 'pyarrow', 'sklearn'} & set(sys.modules); assert not loaded, loaded"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_members_with_rows_of_their_own_read_a_frame_once(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = read_table(pd.DataFrame({"a": np.arange(100.0), "b": [f"level {i % 12}" for i in range(100)]}))
    TableEncoder().fit(raw)
    monkeypatch.setattr("tabgnm.table.sources.Column._read", None)
    monkeypatch.setattr("tabgnm.table.sources.Column._read_cells", None)
    rng = np.random.default_rng(0)
    for _ in range(3):
        TableEncoder().fit(raw, rng.permutation(100)[:80]).encode(raw.take(slice(5, 20)))


def test_the_columns_are_a_readable_table() -> None:
    frame = pd.DataFrame(
        {"age": [20.0, NAN, 40.0, 50.0], "colour": ["red", "blue", "red", "green"], "<b>": [1, 1, 1, 1]}
    )
    table = fitted(frame, numeric_embedding="periodic").columns
    assert (
        repr(table)
        == str(table)
        == (
            "column  kind      encoding                  levels  missing  encoded columns  note\n"
            "------  --------  ------------------------  ------  -------  ---------------  ------------------\n"
            "age     number    periodic, missing or not          1        0, 4\n"
            "colour  category  one-hot                   3                1-3\n"
            "<b>     number                                                                constant: not used"
        )
    )
    assert table[1] == ColumnInfo("colour", "category", "one-hot", 3, 0, (1, 2, 3), "")
    assert len(table) == 3 and [info.name for info in table[1:]] == ["colour", "<b>"]
    html = table._repr_html_()
    assert html.startswith("<table>") and "&lt;b&gt;" in html and "<b>" not in html
    assert table == fitted(frame, numeric_embedding="periodic").columns and table != [1]
    assert len({table, fitted(frame, numeric_embedding="periodic").columns}) == 1


def test_names_of_any_length_and_with_line_breaks_stay_on_one_line() -> None:
    table = fitted(pd.DataFrame({"a\nb": [1, 2], "x" * 500: [1, 2]})).columns
    assert len(repr(table).splitlines()) == 4 and max(map(len, repr(table).splitlines())) < 150


def test_the_encoding_says_how_each_kind_goes_in() -> None:
    days = pd.to_datetime(["2024-01-01", "2024-02-05", "2025-03-09"])
    for settings, expected in (
        ({}, "6 parts, quantile"),
        ({"scaling": "none"}, "6 parts, as it is"),
        ({"numeric_embedding": "periodic"}, "6 parts, periodic, quantile"),
    ):
        frame = column(days + pd.to_timedelta([0, 1, 2], unit="h"))
        assert fitted(frame, **settings).columns[0].encoding == expected
    assert fitted(column(days)).columns[0].encoding == "5 parts, quantile"  # all at the same hour
    assert fitted(column([True, False])).columns[0].encoding == "0 or 1"
    assert fitted(column(["a", None])).columns[0].encoding == "missing or not"


@pytest.mark.parametrize("dtype", [np.float16, np.longdouble, np.int32, bool, object], ids=str)
def test_numbers_are_encoded_in_float32_or_float64_only(dtype: Any) -> None:
    """In float16 what is too large would become infinite."""
    raw = read_table([[1e6], [2.0]])
    with pytest.raises(TypeError, match=r"dtype=.* is not supported; use numpy\.float32 or numpy\.float64"):
        fitted([[1.0], [2.0]], scaling="none").encode(raw, dtype=dtype)


def test_a_wrong_number_of_columns_is_refused() -> None:
    with pytest.raises(ValueError, match=r"X has 3 features, but TableEncoder is expecting 2 features as input\."):
        fitted(np.arange(4.0).reshape(2, 2)).encode(read_table(np.zeros((1, 3))))


def test_settings_are_shared_safely() -> None:
    kinds = {"a": "category"}
    settings = TableSettings(kinds=kinds)
    kinds["a"] = "nonsense"
    assert settings.kinds == {"a": "category"}
