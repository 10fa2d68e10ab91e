"""What is a table, and what is not: each refusal in the words that scikit-learn's users know."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from tabgnm.table import CellTypeError, TableError, TableSettings, read_table
from tests.table.examples import encoded, fitted

NOT_A_TABLE: dict[str, tuple[Any, type[Exception], str]] = {
    "1-D array": (
        np.arange(3.0),
        ValueError,
        r"Expected 2D array, got 1D array instead:\narray=\[0. 1. 2.\].\nReshape your data",
    ),
    "1-D list": ([1, 2], ValueError, "Expected 2D array, got 1D array instead"),
    "empty list": ([], ValueError, "Expected 2D array, got 1D array instead"),
    "list of strings": (["a", "b"], ValueError, "Expected 2D array, got 1D array instead"),
    "scalar": (3.0, ValueError, "Expected 2D array, got scalar array instead"),
    "3-D array": (np.zeros((2, 2, 2)), ValueError, "Found array with dim 3, while dim <= 2 is required"),
    "3-D list": ([[[1.0], [2.0]]], ValueError, "Found array with dim 3"),
    "no rows": (
        np.zeros((0, 3)),
        ValueError,
        r"Found array with 0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1 is required\.",
    ),
    "no columns": (
        np.zeros((3, 0)),
        ValueError,
        r"Found array with 0 feature\(s\) \(shape=\(3, 0\)\) while a minimum of 1 is required\.",
    ),
    "no cells in rows": ([[], []], ValueError, r"0 feature\(s\) \(shape=\(2, 0\)\)"),
    "frame without rows": (pd.DataFrame({"a": [], "b": []}), ValueError, r"0 sample\(s\) \(shape=\(0, 2\)\)"),
    "frame without columns": (pl.DataFrame(), ValueError, "Found array with 0"),
    "sparse without rows": (sparse.csr_matrix((0, 3)), ValueError, r"0 sample\(s\)"),
    "complex": (np.ones((2, 2)) * 1j, ValueError, "Complex data not supported"),
    "complex objects": (np.array([[1j], [2.0]], dtype=object), ValueError, "Complex data not supported\ncolumn 'x0'"),
    "complex sparse": (sparse.csr_matrix([[1j]]), ValueError, "Complex data not supported"),
    "structured": (
        np.zeros(3, dtype=[("a", float), ("b", int)]),
        ValueError,
        "structured array with the fields 'a', 'b'; convert it to a DataFrame",
    ),
    "np.matrix": (np.array([[1.0]]).view(np.matrix), TypeError, "np.matrix is not supported"),
    "list of dicts": (
        [{"a": 1}],
        TypeError,
        r"list of dicts; convert it to a DataFrame, for instance with pandas.DataFrame\(X\)",
    ),
    "dict": ({"a": [1]}, TypeError, "X has type dict; expected a table"),
    "None": (None, TypeError, "X has type NoneType"),
    "string": ("abc", TypeError, "X has type str"),
    "set": ({1, 2}, TypeError, "X has type set"),
    "pandas Series": (
        pd.Series([1, 2]),
        ValueError,
        "Expected a 2-dimensional container but got <class 'pandas.*Series'> instead. Pass a DataFrame",
    ),
    "polars Series": (pl.Series([1, 2]), ValueError, "Expected a 2-dimensional container"),
    "rows of different lengths": (
        [[1, 2], [3, 4], [5]],
        ValueError,
        "row 0 has 2 cells, row 2 has 1; expected the same number of cells",
    ),
    "rows and scalars": ([[1, 2], 3], ValueError, "X of type list cannot be converted to a table"),
    "void": (np.zeros((2, 2), dtype="V4"), TypeError, "X has the type .*V4"),
    "duplicates, pandas": (
        pd.DataFrame([[1, 2, 3]], columns=["a", "b", "a"]),
        ValueError,
        "several columns with the same name: 'a'; rename",
    ),
    "duplicates, pyarrow": (
        pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]),
        ValueError,
        "same name: 'a'",
    ),
    "mixed names": (
        pd.DataFrame([[1, 2]], columns=["a", 1]),
        TypeError,
        r"Feature names are only supported if all input features have string names, but your input has \['int', 'str'\] as feature name / column name types",
    ),
    "dict in a cell": (
        np.array([[1.0, {"foo": "bar"}]], dtype=object),
        TypeError,
        "column 'x1' has a dict in row 0 .* argument must be a string or a number",
    ),
    "list in a cell": (
        [[1.0, "a"], [2.0, [1, 2]]],
        TypeError,
        "column 'x1' has a list in row 1 .* argument must be a string or a number",
    ),
    "set in a cell": (pd.DataFrame({"a": [{1}]}), TypeError, "column 'a' has a set in row 0"),
    "list column": (
        pl.DataFrame({"a": [[1], [2]]}),
        TypeError,
        r"column 'a' has the type List\(Int64\), .* use the kind 'ignore' in fit",
    ),
    "struct column": (pl.DataFrame({"a": [{"b": 1}]}), TypeError, "column 'a' has the type Struct"),
    "binary column": (pa.table({"a": [b"x"]}), TypeError, "column 'a' has the type Binary"),
    "struct in pyarrow": (pa.table({"a": [{"b": 1}]}), TypeError, "column 'a' has the type Struct"),
}


@pytest.mark.parametrize("case", NOT_A_TABLE)
def test_what_is_no_table_is_refused(case: str) -> None:
    X, error, message = NOT_A_TABLE[case]
    with pytest.raises(error, match=message):
        fitted(X)


def test_every_refusal_of_a_table_or_cell_is_a_table_error() -> None:
    for case, (X, _, _) in NOT_A_TABLE.items():
        if case not in ("np.matrix", "mixed names"):
            with pytest.raises(TableError):
                fitted(X)
    assert issubclass(TableError, ValueError) and issubclass(CellTypeError, TypeError)


SPARSE = [
    sparse.csr_matrix,
    sparse.csc_matrix,
    sparse.coo_matrix,
    sparse.lil_matrix,
    sparse.dok_matrix,
    sparse.bsr_matrix,
    sparse.dia_matrix,
]
SPARSE_ARRAYS = [
    sparse.csr_array,
    sparse.csc_array,
    sparse.coo_array,
    sparse.lil_array,
    sparse.dok_array,
    sparse.bsr_array,
    sparse.dia_array,
]


@pytest.mark.parametrize("container", SPARSE + SPARSE_ARRAYS, ids=lambda c: c.__name__)
def test_sparse_tables_give_the_numbers_of_dense_ones(container: Any) -> None:
    rng = np.random.default_rng(0)
    dense = rng.poisson(0.3, size=(40, 5)).astype(float)
    dense[3, 2] = np.nan
    matrix = container(dense)
    encoder = fitted(dense)
    np.testing.assert_array_equal(fitted(matrix).encode(read_table(matrix)), encoder.encode(read_table(dense)))
    rows = np.array([3, 3, 0, 39])
    np.testing.assert_array_equal(
        encoder.encode(read_table(matrix).take(rows)), encoder.encode(read_table(dense).take(rows))
    )
    np.testing.assert_array_equal(
        encoder.encode(read_table(matrix).take(slice(None, None, -2))), encoder.encode(read_table(dense[::-2]))
    )


def test_a_sparse_column_may_be_a_category() -> None:
    dense = np.array([[0.0, 1], [2, 1], [0, 3], [5, 1]])
    np.testing.assert_array_equal(
        encoded(sparse.csc_matrix(dense), kinds={0: "category"}), encoded(dense, kinds={0: "category"})
    )


def test_a_table_larger_than_a_block_is_encoded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"a": rng.normal(size=50), "b": rng.choice(list("xyz"), 50), "c": rng.choice([1.0, 2.0, np.nan], 50)}
    )
    for X in (frame, sparse.random(50, 4, 0.3, format="csr", random_state=0), rng.normal(size=(50, 3))):
        encoder = fitted(X)
        expected = encoder.encode(read_table(X))
        with monkeypatch.context() as patch:
            patch.setattr("tabgnm.table.encoder._BLOCK_SIZE", 21)
            np.testing.assert_array_equal(encoder.encode(read_table(X)), expected)


def test_the_row_of_an_infinite_number_is_told_across_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.arange(40.0).reshape(20, 2)
    encoder = fitted(X)
    X[17, 1] = -np.inf
    monkeypatch.setattr("tabgnm.table.encoder._BLOCK_SIZE", 10)
    with pytest.raises(ValueError, match=r"infinity.*column 'x1' has -inf in row 17; replace it"):
        encoder.encode(read_table(X))


def test_masked_cells_are_missing() -> None:
    numbers = np.ma.array([[1, 2], [3, 4], [5, 6]], mask=[[0, 1], [0, 0], [0, 0]])
    np.testing.assert_array_equal(encoded(numbers), encoded([[1, None], [3, 4], [5, 6]]))
    words = np.ma.array([["a", "b"], ["c", "d"]], mask=[[0, 1], [0, 0]])
    np.testing.assert_array_equal(encoded(words), encoded([["a", None], ["c", "d"]]))
    whole = np.ma.array([[1, 2], [3, 4]])
    np.testing.assert_array_equal(encoded(whole), encoded([[1, 2], [3, 4]]))


def test_what_numpy_can_make_an_array_of_is_a_table() -> None:
    class Wrapped:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
            return np.array([[1.0, 2.0], [3.0, 5.0]])

    expected = encoded(np.array([[1.0, 2.0], [3.0, 5.0]]))
    np.testing.assert_array_equal(encoded(Wrapped()), expected)
    np.testing.assert_array_equal(encoded([np.array([1.0, 2.0]), np.array([3.0, 5.0])]), expected)
    np.testing.assert_array_equal(encoded(((1.0, 2.0), (3.0, 5.0))), expected)
    np.testing.assert_array_equal(encoded(memoryview(np.array([[1.0, 2.0], [3.0, 5.0]]))), expected)
    np.testing.assert_array_equal(encoded(pa.record_batch({"a": [1.0, 3.0], "b": [2.0, 5.0]})), expected)


def test_cells_of_a_list_keep_their_types() -> None:
    assert [info.kind for info in fitted([["red", 1, True], ["blue", 2.5, False]]).columns] == [
        "category",
        "number",
        "boolean",
    ]


def test_rows_are_positions_or_a_slice() -> None:
    raw = read_table(np.zeros((3, 2)))
    for rows in (np.array([True, False, True]), np.array([[0, 1]]), [0.5]):
        with pytest.raises(TypeError, match=r"expected a slice or a 1-D array of integers \(use numpy\.flatnonzero"):
            raw.take(rows)
    with pytest.raises(IndexError):
        raw.take([7])
    assert raw.take([]).n_rows == 0


def test_a_table_of_no_rows_can_be_encoded_but_not_fitted() -> None:
    raw = read_table(np.arange(6.0).reshape(3, 2))
    none = np.array([], dtype=int)
    assert fitted(np.arange(6.0).reshape(3, 2)).encode(raw.take(none)).shape == (0, 2)
    with pytest.raises(TableError, match="no training rows"):
        fitted(np.zeros((3, 2)), rows=none)


def test_a_raw_table_says_what_it_is() -> None:
    assert repr(read_table(np.zeros((3, 2)))) == "RawTable(3 rows, 2 columns: 'x0', 'x1')"
    assert repr(read_table(np.zeros((1, 30)))).endswith("'x19', ... (30 in all))")
    with pytest.raises(TableError, match=r"there are no columns \['b'\]; expected names among 'a'"):
        read_table(pd.DataFrame({"a": [1]})).select(["b"])


BAD_SETTINGS: list[tuple[dict[str, Any], type[Exception], str]] = [
    (
        {"scaling": "minmax"},
        ValueError,
        "scaling='minmax' is not known; use one of 'none', 'standard', 'robust', 'quantile'",
    ),
    ({"scaling": 3}, ValueError, "scaling=3 is not known"),
    ({"scaling": None}, ValueError, "scaling=None is not known"),
    (
        {"numeric_embedding": "fourier"},
        ValueError,
        "numeric_embedding='fourier' is not known; use one of None, 'periodic', 'piecewise'",
    ),
    ({"n_basis": 0}, ValueError, "n_basis=0 is too small; expected an integer >= 1"),
    ({"n_basis": 2.5}, TypeError, "n_basis=2.5 has type float"),
    ({"numeric_dim": 0}, ValueError, "numeric_dim=0 is too small"),
    ({"max_one_hot": -1}, ValueError, "max_one_hot=-1 is too small; expected an integer >= 0"),
    ({"max_one_hot": True}, TypeError, "max_one_hot=True has type bool"),
    ({"level_dim": -1}, ValueError, "level_dim=-1"),
    ({"min_level_count": 0}, ValueError, "min_level_count=0"),
    ({"max_levels": 0}, ValueError, "max_levels=0"),
    ({"frequency_scale": 0}, ValueError, "frequency_scale=0 is out of range; expected a finite number > 0"),
    ({"frequency_scale": float("nan")}, ValueError, "frequency_scale=nan"),
    ({"frequency_scale": "1"}, ValueError, "frequency_scale='1'"),
    ({"kinds": ["a"]}, TypeError, "expected a dict such as {'zip': 'category'}"),
    (
        {"kinds": {"a": "text"}},
        ValueError,
        r"kinds\['a'\]='text' is not known; use one of 'number', 'category', 'datetime', 'ignore'",
    ),
    ({"kinds": {1.5: "number"}}, TypeError, "kinds has the key 1.5; expected the name of a column or its position"),
]


@pytest.mark.parametrize(("settings", "error", "message"), BAD_SETTINGS, ids=str)
def test_a_bad_setting_is_named_with_what_was_expected(
    settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        TableSettings(**settings)
