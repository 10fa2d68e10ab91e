"""Bad and odd inputs of the estimators, as a table: what is done, and what has to come out.

Each row is `Row(name, what is done, what comes out)`. What comes out is one of

    error(kind, *pieces)       this error, whose message has all these pieces
    same(reference)            the numbers that a clean input gives, to 1e-9 unless a tolerance is given
    holds(claim)               a result of which the claim is true

Warnings are errors here, so a row that says nothing of a warning must not give one; `warns(...)` around what is done says
which one has to come.
"""

from __future__ import annotations

import datetime
import functools
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import torch
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score

from tests.estimators.examples import gnm, gnmr, mlp, mlpr

# --- what comes out


@dataclass(frozen=True)
class Error:
    kind: type[Exception]
    pieces: tuple[str, ...]


def error(kind: type[Exception], *pieces: str) -> Error:
    return Error(kind, pieces)


def same(reference: Callable[[], Any], tolerance: float = 1e-9) -> Callable[[Any], None]:
    def check(result: Any) -> None:
        np.testing.assert_allclose(np.asarray(result, dtype=float), reference(), rtol=tolerance, atol=tolerance)

    return check


def holds(claim: Callable[[Any], Any]) -> Callable[[Any], None]:
    def check(result: Any) -> None:
        assert claim(result), result

    return check


def warns(piece: str, do: Callable[[], Any]) -> Callable[[], Any]:
    def act() -> Any:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = do()
        assert [str(w.message) for w in caught if piece in str(w.message)], f"no warning with {piece!r}"
        assert all(piece in str(w.message) for w in caught), [str(w.message) for w in caught]
        return result

    return act


@dataclass(frozen=True)
class Row:
    name: str
    do: Callable[[], Any]
    out: Error | Callable[[Any], None]


# --- what it is done with: a plain table of numbers, and a frame of several types

N = 48
_random = np.random.default_rng(0)
X = _random.normal(size=(N, 3)).round(3)
Y = (X[:, 0] > 0).astype(int)
T = 10 * X[:, 0] + 3
NAMES = ["a", "b", "c"]
F = pd.DataFrame(
    {
        "size": X[:, 0],
        "colour": pd.Series(["red", "green", "blue", "red"] * (N // 4), dtype=object),
        "flag": X[:, 1] > 0,
        "count": np.arange(N) % 7,
        "when": pd.date_range("2024-02-20 06:00", periods=N, freq="13h"),
    }
)


def proba(x: Any = X, y: Any = Y, **changed: Any) -> Any:
    """Fit a classifier and predict the same rows."""
    return mlp(**changed).fit(x, y).predict_proba(x)


def numbers(x: Any = X, y: Any = T, **changed: Any) -> Any:
    return mlpr(**changed).fit(x, y).predict(x)


def labels(y: Any, x: Any = X, **changed: Any) -> Any:
    return mlp(max_epochs=40, learning_rate=0.05, n_folds=0, **changed).fit(x, y).predict(x)


@functools.cache
def clean() -> Any:
    return proba()


@functools.cache
def clean_numbers() -> Any:
    return numbers()


@functools.cache
def clean_frame() -> Any:
    return proba(F)


@functools.cache
def fitted() -> Any:
    return mlp().fit(X, Y)


@functools.cache
def fitted_named() -> Any:
    return mlp().fit(pd.DataFrame(X, columns=NAMES), Y)


@functools.cache
def fitted_frame() -> Any:
    return mlp().fit(F, Y)


def with_cell(value: Any, row: int = 3, column: int = 1, x: Any = X) -> Any:
    changed = np.array(x, dtype=object if isinstance(value, dict | list | str | complex) else None)
    changed[row, column] = value
    return changed


def with_column(values: Any) -> Any:
    return pd.DataFrame(X, columns=NAMES).assign(extra=values)


def memmap(x: Any) -> Any:
    folder = Path(tempfile.mkdtemp())
    np.save(folder / "x.npy", x)
    return np.load(folder / "x.npy", mmap_mode="r")


def read_only(x: Any) -> Any:
    copy = x.copy()
    copy.flags.writeable = False
    return copy


def chunked(frame: Any) -> pa.Table:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    return pa.concat_tables([table.slice(0, 5), table.slice(5, 20), table.slice(25)])


def finite(result: Any) -> bool:
    return bool(np.isfinite(result).all())


def valid(result: Any) -> bool:
    return result.shape[0] == N and finite(result) and bool(np.allclose(result.sum(axis=1), 1))


# --- parameters: each wrong value is refused in `fit`, by name, with the value, and with a remedy after a semicolon

BAD_PARAMETERS: list[tuple[Any, str, list[Any]]] = [
    (gnm, "n_nodes", ["many", 0, -3, 2.5, None, True, 5, 2**40]),
    (gnm, "n_layers", [0, -1, 1.5, "two", None]),
    (gnm, "activation", ["rleu", None, 3, ["relu"]]),
    (mlp, "activation", ["rleu", ["relu"]]),
    (gnm, "init", ["zeros", None, 1]),
    (mlp, "init", ["paper", None]),
    (gnm, "combine", ["sum", None, 0]),
    (gnm, "clamp_inputs", ["yes", 1, None]),
    (gnm, "persistent_outputs", ["no", 0, None]),
    (gnm, "tied", ["no", 0]),
    (gnm, "learn_initial", [None, 0.5]),
    (mlp, "hidden", [64, "64", b"64", None, (0,), (8, -1), (2.5,), ("8",)]),
    (mlp, "effort", ["great", None, 2, ["fast"]]),
    (mlp, "time_limit", [0, -1, "60", float("nan"), float("inf"), True]),
    (mlp, "n_candidates", [0, -1, 1.5, "3", None, True, 2**40]),
    (mlp, "n_folds", [-1, 1.5, "3", None, True, 2**40]),
    (mlp, "metric", ["acuracy", None, 3, ["accuracy"]]),
    (mlp, "max_epochs", [0, -5, 2.5, "10", None, 2**40]),
    (mlp, "learning_rate", [-0.1, "fast", None, float("nan"), float("inf"), True]),
    (mlp, "batch_size", [0, -1, 2.5, "all", None]),
    (mlp, "dropout", [-0.1, 1, 1.5, "0.1", None, float("nan")]),
    (gnm, "l1", [-1, "a", None, float("nan")]),
    (gnm, "l2", [-1, "a", None]),
    (gnm, "l0", [-1, "a", None]),
    (mlp, "weight_decay", [-1, "a", None]),
    (mlp, "optimizer", ["sgd", None, 0]),
    (mlp, "schedule", ["linear", None]),
    (mlp, "warmup", [-0.1, 1, 1.5, "0.1", None, float("nan"), True]),
    (mlp, "patience", [0, -1, 2.5, "10", 10**30]),
    (mlp, "scaling", ["minmax", None, 1]),
    (mlp, "numeric_embedding", ["fourier", 0, False]),
    (mlp, "n_basis", [0, 1.5, None]),
    (mlp, "numeric_dim", [0, "4"]),
    (mlp, "frequency_scale", [0, -1, "a", None, float("inf")]),
    (mlp, "max_one_hot", [-1, 2.5, None]),
    (mlp, "level_dim", [0, None]),
    (mlp, "min_level_count", [0, None]),
    (mlp, "column_kinds", ["category", 3, ["number"]]),
    (mlp, "precision", ["float16", None, 32]),
    (mlp, "device", ["gpu", None, 1.5, 0]),
    (mlp, "n_jobs", [0, 10**6, 1.5, "all", True]),
    (mlp, "warm_start", ["yes", 1, None]),
    (mlp, "random_state", [-1, "seed", 1.5, True, 2**40]),
    (mlp, "verbose", ["loud", None, 1.5]),
    (mlp, "class_weight", ["equal", 3, [1, 2], (1, 2)]),
    (mlp, "label_smoothing", [-0.1, 1, 1.5, "a", None, True, float("nan")]),
    (mlp, "calibrated", ["yes", 1, None]),
    (mlpr, "loss", ["mae", None, 1]),
    (mlpr, "quantile", [0, 1, -0.5, "median", None, float("nan"), True, [], [0.5]]),
    (mlpr, "huber_delta", [0, -1, "a", None, float("inf"), float("nan"), True, 1e300]),
    (mlpr, "tweedie_power", [1, 2, -1, "a", None, float("nan"), True]),
    (mlpr, "scale_target", ["yes", 1, None]),
    (mlpr, "target_transform", ["sqrt", None, 0]),
]


def _parameter_rows() -> Iterator[Row]:
    for make, name, values in BAD_PARAMETERS:
        for value in values:
            shown = repr(value[0]) if name == "hidden" and isinstance(value, tuple) and len(value) == 1 else repr(value)
            shown = "-1" if value == (8, -1) else shown
            yield Row(
                f"{make.__name__} {name}={value!r}",
                functools.partial(_fit, make, {name: value}),
                error(Exception, name, shown, ";"),
            )


def _fit(make: Any, changed: dict[str, Any]) -> Any:
    return make(**changed).fit(X, T if make in (mlpr, gnmr) else Y)


PARAMETERS = [
    *_parameter_rows(),
    Row("a parameter that does not exist", lambda: mlp(n_estimators=3), error(TypeError, "n_estimators")),
    Row("quantile is checked although loss is squared_error", lambda: numbers(quantile=7), error(ValueError, "quantile=7")),
    Row("column_kinds of an unknown kind", lambda: proba(column_kinds={0: "ordinal"}), error(ValueError, "column_kinds[0]='ordinal'", "use one of")),
    Row("column_kinds of a column that is not there", lambda: proba(F, column_kinds={"sise": "number"}), error(ValueError, "'sise'", "does not exist", "'size'")),
    Row("column_kinds of a position that is not there", lambda: proba(column_kinds={7: "number"}), error(ValueError, "column 7", "0 to 2")),
    Row("column_kinds says number of text", lambda: proba(F, column_kinds={"colour": "number"}), error(ValueError, "'colour'", "'red'", "not a number", "write it like 12.5")),
    Row("column_kinds leaves a column out", lambda: proba(with_column(["x"] * 24 + ["y"] * 24), column_kinds={"extra": "ignore"}), same(clean)),
    Row("n_nodes smaller than inputs and outputs", lambda: gnm(n_nodes=10).fit(X, Y), error(ValueError, "n_nodes=10 is too small", "use n_nodes>=17")),
    Row("a CUDA device that is not there", lambda: _no_cuda(), error(ValueError, "device='cuda:99'")),
    Row("bf16 on a CPU", lambda: proba(precision="bf16"), error(ValueError, "precision='bf16'", "GPU")),
    Row("hidden as a list", lambda: proba(hidden=[8]), same(clean)),
    Row("hidden as an array of numpy integers", lambda: proba(hidden=np.array([8])), same(clean)),
    Row("no hidden layer at all", lambda: proba(hidden=()), holds(valid)),
    Row("numpy numbers as parameters", lambda: proba(n_candidates=np.int64(1), n_folds=np.int64(2), batch_size=np.int32(16), warmup=np.float64(0.1), warm_start=np.False_), same(clean)),
    Row("a learning rate of 0 keeps the first weights", lambda: proba(learning_rate=0.0), holds(valid)),
    Row("a learning rate so large that training diverges", lambda: proba(learning_rate=1e30), error(ValueError, "diverged", "learning_rate=1e+30", "use a smaller learning_rate")),
    Row("a batch larger than the table", lambda: proba(batch_size=10**6), holds(valid)),
    Row("a numpy Generator as random_state", lambda: proba(random_state=np.random.default_rng(0)), error(ValueError, "random_state=", "RandomState")),
    Row("a RandomState as random_state", lambda: proba(random_state=np.random.RandomState(0)), same(clean)),
]  # fmt: skip


def _no_cuda() -> Any:
    return mlp(device="cuda:99").fit(X, Y)


# --- tables

TABLES = [
    Row("X is None", lambda: proba(None), error(TypeError, "NoneType", "table")),
    Row("X is a string", lambda: proba("table"), error(TypeError, "str", "table")),
    Row("X is a dict of columns", lambda: proba({"a": [1, 2]}), error(TypeError, "dict", "DataFrame")),
    Row("X is a list of dicts", lambda: proba([{"a": 1}, {"a": 2}], [0, 1]), error(TypeError, "list of dicts", "DataFrame")),
    Row("X is a number", lambda: proba(3.0), error(ValueError, "Expected 2D array, got scalar array instead")),
    Row("X has one dimension", lambda: proba(X[:, 0]), error(ValueError, "Expected 2D array, got 1D array instead", "reshape(-1, 1)")),
    Row("X is a Series", lambda: proba(F["size"]), error(ValueError, "2-dimensional container")),
    Row("X has three dimensions", lambda: proba(X[:, :, None]), error(ValueError, "dim 3")),
    Row("X has no rows", lambda: proba(X[:0], Y[:0]), error(ValueError, "Found array with 0 sample(s)", "minimum of 1")),
    Row("X has no columns", lambda: proba(X[:, :0]), error(ValueError, "0 feature(s)", "minimum of 1")),
    Row("a frame without rows", lambda: proba(F.iloc[:0], Y[:0]), error(ValueError, "0 sample(s)")),
    Row("a frame without columns", lambda: proba(F[[]]), error(ValueError, "0 feature(s)")),
    Row("rows of different lengths", lambda: proba([[1, 2], [3]], [0, 1]), error(ValueError, "different lengths", "row 1 has 1")),
    Row("a structured array", lambda: proba(np.zeros(3, dtype=[("a", float), ("b", int)]), [0, 1, 0]), error(ValueError, "structured array", "DataFrame")),
    Row("complex numbers", lambda: proba(X + 1j), error(ValueError, "Complex data not supported")),
    Row("a complex number among objects", lambda: proba(with_cell(1j)), error(ValueError, "Complex data not supported")),
    Row("np.matrix", lambda: proba(_matrix()), error(TypeError, "np.matrix is not supported")),
    Row("one row", lambda: mlp().fit(X[:1], [1]).predict(X), holds(lambda p: (p == 1).all())),
    Row("one row, a regressor", lambda: mlpr().fit(X[:1], [7.5]).predict(X), holds(lambda p: np.allclose(p, 7.5))),
    Row("two rows of two classes", lambda: mlp().fit(X[:2], [0, 1]).predict_proba(X), holds(valid)),
    Row("one column", lambda: proba(X[:, :1]), holds(valid)),
    Row("a dict in a cell", lambda: proba(with_cell({"a": 1})), error(TypeError, "dict in row 3", "column 'x1'")),
    Row("a list in a cell", lambda: proba(with_cell([1, 2])), error(TypeError, "list in row 3", "column 'x1'")),
    Row("infinity", lambda: proba(with_cell(np.inf)), error(ValueError, "Input X contains infinity", "column 'x1'", "row 3", "NaN if the value is missing")),
    Row("minus infinity in a named column", lambda: proba(F.assign(size=with_cell(-np.inf, 3, 0)[:, 0])), error(ValueError, "infinity", "column 'size'", "-inf in row 3")),
    Row("infinity in predict only", lambda: fitted().predict(with_cell(np.inf)), error(ValueError, "infinity", "column 'x1'", "row 3")),
    Row("float32 numbers beyond float32, as float64", lambda: proba(with_cell(1e300)), holds(valid)),
    Row("1e300 with scaling=standard", lambda: proba(with_cell(1e300), scaling="standard"), holds(valid)),
    Row("1e300 with scaling=robust", lambda: proba(with_cell(1e300), scaling="robust"), holds(valid)),
    Row("all numbers times 1e300", lambda: proba(X * 1e300), same(clean, 1e-5)),
    Row("all numbers times 1e-280", lambda: proba(X * 1e-280), same(clean, 1e-5)),
    Row("all numbers times 1e-300", lambda: proba(X * 1e-300), same(clean, 1e-5)),
    Row("1e300 without scaling", lambda: proba(with_cell(1e300), scaling="none"), error(ValueError, "column 'x1'", "1e+300", "too large for float32", "use another scaling")),
    Row("1e-300 without scaling", lambda: proba(X * 1e-300, scaling="none"), error(ValueError, "column 'x0'", "too small for float32", "use another scaling")),
    Row("1e300 in predict only", lambda: fitted().predict_proba(with_cell(1e300)), holds(valid)),
    Row("1e300 in predict only, no scaling", lambda: mlp(scaling="none").fit(X, Y).predict_proba(with_cell(1e300)), holds(valid)),
    Row("the extremes of int64", lambda: proba(_extremes()), holds(valid)),
    Row("an integer beyond int64 in an object column", lambda: proba(with_column([10**25, 1] * 24)), holds(valid)),
    Row("an integer beyond float64", lambda: proba(with_column([10**400, 1] * 24)), error(ValueError, "'extra'", "too large")),
    Row("a column that is all missing", lambda: proba(with_column(np.nan)), same(clean)),
    Row("a column that is all None", lambda: proba(with_column(pd.Series([None] * N, dtype=object))), same(clean)),
    Row("a constant column", lambda: proba(with_column(5)), same(clean)),
    Row("a constant text column", lambda: proba(with_column("x")), same(clean)),
    Row("nothing but constant columns", lambda: proba(np.ones((N, 2))), holds(lambda p: valid(p) and np.ptp(p[:, 0]) == 0)),
    Row("nothing but missing values", lambda: proba(np.full((N, 2), np.nan)), holds(lambda p: valid(p) and np.ptp(p[:, 0]) == 0)),
    Row("missing values in numbers", lambda: proba(with_cell(np.nan)), holds(valid)),
    Row("columns of the same name", lambda: proba(pd.DataFrame(X, columns=["a", "b", "a"])), error(ValueError, "same name", "'a'", "rename")),
    Row("names that are numbers", lambda: proba(pd.DataFrame(X, columns=[0, 1, 2])), same(clean)),
    Row("names of which some are numbers", lambda: proba(pd.DataFrame(X, columns=["a", 1, 2])), error(TypeError, "string names", "['int', 'str']")),
    Row("MultiIndex columns", lambda: proba(pd.DataFrame(X, columns=pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)]))), same(clean)),
    Row("an index with duplicates", lambda: proba(F.set_axis([0] * N)), same(clean_frame)),
    Row("names that are empty or odd", lambda: proba(pd.DataFrame(X, columns=["", " ", "a\n'\"{}"])), same(clean)),
    Row("strings in a numpy array", lambda: proba(np.array([["x", "u"], ["y", "v"]] * 24)), holds(lambda p: valid(p) and p[0, 0] != p[1, 0])),
    Row("numbers as strings", warns("columns of text are read as numbers: 'x0', 'x1', 'x2'", lambda: proba(X.astype(str))), same(clean)),
    Row("numbers as strings, said to be numbers", lambda: proba(X.astype(str), column_kinds=dict.fromkeys(range(3), "number")), same(clean)),
    Row("booleans", lambda: proba(X > 0), same(lambda: proba((X > 0).astype(object)))),
    Row("mixed types in one column", lambda: proba(with_column([1, "a", 2.5, None] * 12)), holds(valid)),
    Row("numbers, some of them as strings", warns("read as numbers: 'extra'", lambda: proba(with_column([1, "1", 2.5, None] * 12))), same(lambda: proba(with_column([1, 1, 2.5, None] * 12)))),
    Row("bytes in a column", lambda: proba(with_column([b"x", b"y"] * 24)), error(TypeError, "column 'extra'", "bytes in row 0")),
    Row("a list in predict only", lambda: mlp().fit(F, Y).predict(F.assign(colour=[["red"], *F["colour"][1:]])), error(TypeError, "column 'colour'", "list in row 0")),
    Row("a masked array without a mask", lambda: proba(np.ma.array(X)), same(clean)),
    Row("a masked array with masked cells", lambda: proba(np.ma.array(X, mask=X > 2)), same(lambda: proba(np.where(X > 2, np.nan, X)))),
    Row("a memory map", lambda: proba(memmap(X)), same(clean)),
    Row("a read-only array", lambda: proba(read_only(X), read_only(Y)), same(clean)),
    Row("Fortran order", lambda: proba(np.asfortranarray(X)), same(clean)),
    Row("an array with gaps in memory", lambda: proba(np.repeat(np.repeat(X, 2, 0), 3, 1)[::2, ::3], np.repeat(Y, 2)[::2]), same(clean)),
    Row("an array that runs backwards", lambda: proba(X[::-1].copy()[::-1]), same(clean)),
    Row("big-endian numbers", lambda: proba(X.astype(">f8"), Y.astype(">i4")), same(clean)),
    Row("float16", lambda: proba(X.astype(np.float16)), same(lambda: proba(X.astype(np.float16).astype(float)))),
    Row("float32", lambda: proba(X.astype(np.float32)), same(clean, 1e-4)),
    Row("long double", lambda: proba(X.astype(np.longdouble)), same(clean)),
    *[
        Row(f"a sparse {kind}", lambda kind=kind: proba(getattr(sparse, kind)(X)), same(clean))
        for kind in ("csr_array", "csc_array", "coo_array", "lil_array", "dok_array", "bsr_array", "dia_array", "csr_matrix")
    ],
    Row("a sparse matrix with explicit NaN", lambda: proba(sparse.csr_array(with_cell(np.nan))), same(lambda: proba(with_cell(np.nan)))),
    Row("a sparse matrix with explicit zeros", lambda: proba(_explicit_zeros()), same(lambda: proba(_explicit_zeros().toarray()))),
    Row("a sparse matrix with infinity", lambda: proba(sparse.csr_array(with_cell(np.inf))), error(ValueError, "infinity", "'x1'")),
    Row("a sparse matrix of complex numbers", lambda: proba(sparse.csr_array(X + 1j)), error(ValueError, "Complex data not supported")),
    Row("a sparse vector", lambda: proba(sparse.coo_array(X[:, 0])), error(ValueError, "Expected 2D array")),
    Row("category dtype with unused categories", lambda: proba(F.assign(colour=pd.Categorical(F["colour"], ["red", "green", "blue", "pink"]))), same(clean_frame)),
    Row("an ordered category in another order", lambda: proba(F.assign(colour=pd.Categorical(F["colour"], ["green", "red", "blue"], ordered=True))), holds(valid)),
    Row("pandas' string type", lambda: proba(F.astype({"colour": "string"})), same(clean_frame)),
    Row("nullable types without gaps", lambda: proba(F.convert_dtypes()), same(clean_frame)),
    Row("nullable integers with gaps", lambda: proba(with_column(pd.array([1, None, 3, 4] * 12, dtype="Int64"))), same(lambda: proba(with_column([1, np.nan, 3, 4] * 12)))),
    Row("nullable booleans with gaps", lambda: proba(with_column(pd.array([True, None, False, True] * 12, dtype="boolean"))), same(lambda: proba(with_column(pd.Series([True, None, False, True] * 12, dtype=object))))),
    Row("pandas with pyarrow types", lambda: proba(F.convert_dtypes(dtype_backend="pyarrow")), same(clean_frame)),
    Row("a polars frame", lambda: proba(pl.from_pandas(F), pl.Series(Y)), same(clean_frame)),
    Row("a polars LazyFrame", lambda: proba(pl.from_pandas(F).lazy()), same(clean_frame)),
    Row("polars categories", lambda: proba(pl.from_pandas(F).with_columns(pl.col("colour").cast(pl.Categorical))), same(clean_frame)),
    Row("a pyarrow table", lambda: proba(pa.Table.from_pandas(F), pa.array(Y)), same(clean_frame)),
    Row("a pyarrow table in chunks", lambda: proba(chunked(F), pa.chunked_array([Y[:7], Y[7:]])), same(clean_frame)),
    Row("a pyarrow RecordBatch", lambda: proba(pa.RecordBatch.from_pandas(F)), same(clean_frame)),
    Row("lists in a polars column", lambda: proba(pl.DataFrame({"a": X[:, 0], "b": [[1, 2]] * N})), error(TypeError, "'b'", "List")),
    Row("a struct in a pyarrow column", lambda: proba(pa.table({"a": X[:, 0], "b": [{"k": 1}] * N})), error(TypeError, "'b'", "Struct")),
    Row("dates with a time zone", lambda: proba(F.assign(when=F["when"].dt.tz_localize("UTC"))), same(clean_frame)),
    Row("dates with a time zone that is not UTC", lambda: proba(F.assign(when=F["when"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"))), same(clean_frame)),
    Row("dates with gaps", lambda: proba(F.assign(when=F["when"].where(F["size"] > 0))), holds(valid)),
    Row("dates before 1970", lambda: proba(F.assign(when=F["when"] - pd.Timedelta(days=40000))), holds(valid)),
    Row("Python dates in an object column", lambda: proba(with_column([datetime.date(2024, 1, 1 + i % 28) for i in range(N)])), holds(valid)),
    Row("durations", lambda: proba(with_column(pd.to_timedelta(np.arange(N), unit="h"))), holds(valid)),
    Row("Decimal", lambda: proba(with_column([Decimal(i) / 4 for i in range(N)])), same(lambda: proba(with_column(np.arange(N) / 4)))),
    Row("a polars Decimal column", lambda: proba(pl.DataFrame({"a": [Decimal(i) / 4 for i in range(N)]})), same(lambda: proba(np.arange(N)[:, None] / 4))),
    Row("more columns than rows", lambda: proba(np.random.default_rng(1).normal(size=(N, 200))), holds(valid)),
    Row("a list of rows", lambda: proba(X.tolist(), Y.tolist()), same(clean)),
    Row("a list of tuples", lambda: proba(list(map(tuple, X)), tuple(Y)), same(clean)),
    Row("a list of arrays", lambda: proba(list(X)), same(clean)),
]  # fmt: skip


def _matrix() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        return np.matrix(X)


def _extremes() -> Any:
    limits = np.iinfo(np.int64)
    return np.column_stack([np.where(Y, limits.max, limits.min), np.arange(N) + limits.min])


def _explicit_zeros() -> Any:
    matrix = sparse.csr_array(X)
    matrix.data[::5] = 0
    return matrix


# --- targets

MULTILABEL = np.column_stack([Y, 1 - Y, np.zeros(N, dtype=int)])

TARGETS = [
    Row("y is None", lambda: proba(y=None), error(ValueError, "requires y to be passed", "target y is None")),
    Row("y is None, a regressor", lambda: numbers(y=None), error(ValueError, "requires y to be passed")),
    Row("y is too short", lambda: proba(y=Y[:-1]), error(ValueError, "inconsistent numbers of samples: [48, 47]")),
    Row("y is empty", lambda: proba(y=[]), error(ValueError, "0 sample(s)")),
    Row("y is one string", lambda: proba(y="label"), error(TypeError, "y='label' has type str", "array")),
    Row("y is one number", lambda: proba(y=5), error(TypeError, "y=5 has type int", "array or list with", "per row")),
    Row("y is a dict", lambda: numbers(y={"a": 1.0, "b": 2.0}), error(TypeError, "has type dict", "array or list")),
    Row("y is a set", lambda: proba(y={0, 1}), error(TypeError, "y={0, 1} has type set", "array or list")),
    Row("y with rows of different lengths", lambda: numbers(y=[[1, 2], [3]] * 24), error(ValueError, "y has rows of different lengths", "row 1", "the same number")),
    Row("y with numbers beside rows", lambda: numbers(y=[1, [3, 4]] * 24), error(ValueError, "y has rows of different lengths", "row 1", "the same number")),
    Row("y with three dimensions", lambda: proba(y=Y[:, None, None]), error(ValueError, "dim 3")),
    Row("y without columns", lambda: numbers(y=np.zeros((N, 0))), error(ValueError, "(48, 0)")),
    Row("dates with a time zone as the target", lambda: numbers(y=F["when"].dt.tz_localize("UTC")), error(ValueError, "y holds dates", "(y - y.min())")),
    Row("days as the target", lambda: numbers(y=[datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)] * 24), error(ValueError, "y holds dates", "(y - y.min())")),
    Row("durations as the target", lambda: numbers(y=F["when"] - F["when"].min()), error(ValueError, "y holds durations", "y / numpy.timedelta64(1, 'D')")),
    Row("dates as the target, made numbers as told", lambda: numbers(y=(F["when"] - F["when"].min()) / np.timedelta64(1, "D")), holds(finite)),
    Row("NaN in the target", lambda: numbers(y=np.where(T > 10, np.nan, T)), error(ValueError, "Input y contains NaN", "row", "drop")),
    Row("infinity in the target", lambda: numbers(y=np.where(np.arange(N) == 5, np.inf, T)), error(ValueError, "Input y contains infinity", "row 5")),
    Row("NaN among labels", lambda: proba(y=np.where(np.arange(N) == 5, np.nan, Y)), error(ValueError, "contains NaN in row 5")),
    Row("None among labels", lambda: proba(y=["a", None, "b"] * 16), error(ValueError, "contains NaN in row 1")),
    Row("pandas.NA among labels", lambda: proba(y=pd.Series([1, pd.NA, 0] * 16, dtype="Int64")), error(ValueError, "contains NaN in row 1")),
    Row("null among polars labels", lambda: proba(y=pl.Series([1, None, 0] * 16)), error(ValueError, "contains NaN in row 1")),
    Row("null among pyarrow labels", lambda: proba(y=pa.array(["a", None, "b"] * 16)), error(ValueError, "contains NaN in row 1")),
    Row("NaT among dates as labels", lambda: proba(y=np.array(["2024", "NaT", "2025"] * 16, dtype="datetime64[D]")), error(ValueError, "contains NaN in row 1")),
    Row("masked labels", lambda: proba(y=np.ma.array(Y, mask=np.arange(N) == 4)), error(ValueError, "contains NaN in row 4")),
    Row("one class", lambda: mlp().fit(X, ["only"] * N).predict(X), holds(lambda p: (p == "only").all())),
    Row("one class: probabilities", lambda: proba(y=np.zeros(N)), holds(lambda p: p.shape == (N, 1) and (p == 1).all())),
    Row("classes with a single row", lambda: proba(y=np.where(np.arange(N) < 3, np.arange(N) + 2, Y)), holds(lambda p: valid(p) and p.shape == (N, 5))),
    Row("labels that are whole floats", lambda: labels(Y.astype(float)), holds(lambda p: p.dtype == float and (p == Y).mean() > 0.9)),
    Row("labels with gaps and signs", lambda: labels(np.where(Y, 700, -3)), holds(lambda p: (p == np.where(Y, 700, -3)).mean() > 0.9)),
    Row("continuous numbers for a classifier", lambda: proba(y=T), error(ValueError, "Unknown label type: continuous", "regression target")),
    Row("labels that are booleans", lambda: labels(Y == 1), holds(lambda p: p.dtype == bool and (p == Y).mean() > 0.9)),
    Row("labels that are strings", lambda: labels(np.where(Y, "yes", "no")), holds(lambda p: (p == np.where(Y, "yes", "no")).mean() > 0.9)),
    Row("labels that are bytes", lambda: proba(y=np.where(Y, b"yes", b"no")), error(TypeError, "bytes")),
    Row("labels that are dates", lambda: labels(np.where(Y, np.datetime64("2024-01-01"), np.datetime64("2023-01-01"))), holds(lambda p: (p == np.where(Y, np.datetime64("2024-01-01"), np.datetime64("2023-01-01"))).mean() > 0.9)),
    Row("labels that are Python dates", lambda: labels([datetime.date(2024, 1, 1 + int(i)) for i in Y]), holds(lambda p: set(p) == {datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)})),
    Row("integer labels as objects", lambda: proba(y=Y.astype(object)), same(clean)),
    Row("labels of mixed types", lambda: proba(y=["a", 1] * 24), error(TypeError, "several types", "int", "str", "such as str")),
    Row("labels that are dicts", lambda: proba(y=np.array([{}, {"a": 1}] * 24, dtype=object)), error(TypeError, "y contains values of type dict", "expected one label")),
    Row("labels that are lists", lambda: proba(y=pl.Series([[1], [2]] * 24)), error(TypeError, "y contains values of type", "expected one label")),
    Row("labels that are booleans and numbers", lambda: proba(y=np.array([True, 0] * 24, dtype=object)), error(TypeError, "several types (bool, int)")),
    Row("labels as strings and numbers in two columns", lambda: mlp().fit(X, [["a", 1], ["b", 2]] * 24).classes_[1], holds(lambda c: c.tolist() == [1, 2])),
    Row("labels beyond int64", lambda: mlp().fit(X, np.array([10**30, 10**31], dtype=object)[Y]).classes_, holds(lambda c: c.tolist() == [10**30, 10**31])),
    Row("labels of uint64", lambda: mlp().fit(X, np.array([2**63, 2**64 - 1], dtype=np.uint64)[Y]).classes_, holds(lambda c: c.tolist() == [2**63, 2**64 - 1])),
    Row("labels as a lazy polars frame", lambda: proba(y=pl.DataFrame({"y": Y}).lazy()), same(clean)),
    Row("labels as a torch tensor", lambda: proba(y=torch.as_tensor(Y)), same(clean)),
    Row("labels in numpy's own strings", lambda: labels(np.where(Y, "yes", "no").astype(np.dtypes.StringDType())), holds(lambda p: (p == np.where(Y, "yes", "no")).mean() > 0.9)),
    Row("labels as intervals of pandas.cut", lambda: mlp().fit(X, pd.cut(pd.Series(T), 3)).classes_, holds(lambda c: len(c) == 3 and c[0] < c[1] < c[2])),
    Row("a generator as y", lambda: proba(y=(label for label in Y)), error(TypeError, "generator")),
    Row("a target beyond float64", lambda: numbers(y=T.astype(np.longdouble) * np.longdouble("1e320")), error(ValueError, "infinity or a value too large")),
    Row("labels as a column", lambda: proba(y=Y[:, None]), same(clean)),
    Row("labels as a frame of one column", lambda: proba(y=pd.DataFrame({"y": Y})), same(clean)),
    Row("labels as a pandas Series with an odd index", lambda: proba(y=pd.Series(Y, index=np.arange(N)[::-1])), same(clean)),
    Row("labels as a pandas categorical", lambda: labels(pd.Categorical.from_codes(Y, ["no", "yes"])), holds(lambda p: set(p) == {"no", "yes"})),
    Row("labels as pandas' nullable integers", lambda: proba(y=pd.Series(Y, dtype="Int64")), same(clean)),
    Row("labels as a polars categorical", lambda: labels(pl.Series(np.where(Y, "yes", "no")).cast(pl.Categorical)), holds(lambda p: set(p) == {"no", "yes"})),
    Row("labels as a pyarrow dictionary", lambda: labels(pa.array(np.where(Y, "yes", "no")).dictionary_encode()), holds(lambda p: set(p) == {"no", "yes"})),
    Row("multilabel with a column of zeros", lambda: mlp().fit(X, MULTILABEL).predict_proba(X), holds(lambda p: p.shape == (N, 3) and ((p >= 0) & (p <= 1)).all())),
    Row("multilabel as a sparse matrix", lambda: mlp().fit(X, sparse.csr_matrix(MULTILABEL)).predict_proba(X), same(lambda: mlp().fit(X, MULTILABEL).predict_proba(X))),
    Row("multilabel as booleans", lambda: mlp().fit(X, MULTILABEL == 1).predict_proba(X), same(lambda: mlp().fit(X, MULTILABEL).predict_proba(X))),
    Row("multilabel as a polars frame", lambda: mlp().fit(X, pl.DataFrame(MULTILABEL)).predict_proba(X), same(lambda: mlp().fit(X, MULTILABEL).predict_proba(X))),
    Row("multilabel as a pyarrow table", lambda: mlp().fit(X, pa.table(pd.DataFrame(MULTILABEL, columns=NAMES))).predict_proba(X), same(lambda: mlp().fit(X, MULTILABEL).predict_proba(X))),
    Row("a matrix of 1 and 2 is no multilabel target", lambda: mlp().fit(X, MULTILABEL[:, :2] + 1).classes_, holds(lambda c: [own.tolist() for own in c] == [[1, 2], [1, 2]])),
    Row("several targets of different types", lambda: labels(np.array([["a", 1], ["b", 2]], dtype=object)[Y]), holds(lambda p: (p == np.array([["a", 1], ["b", 2]], dtype=object)[Y]).mean() > 0.9)),
    Row("label smoothing of several targets", lambda: proba(y=MULTILABEL + 5, label_smoothing=0.1), error(ValueError, "label_smoothing=0.1", "several targets", "use label_smoothing=0.0")),
    Row("strings for a regressor", lambda: numbers(y=np.where(Y, "yes", "no")), error(ValueError, "not numbers", "convert")),
    Row("numbers in strings for a regressor", lambda: numbers(y=T.astype(str)), error(ValueError, "not numbers", "astype(float)")),
    Row("numbers in strings as objects for a regressor", lambda: numbers(y=T.astype(str).astype(object)), error(ValueError, "not numbers")),
    Row("dates for a regressor", lambda: numbers(y=F["when"]), error(ValueError, "y holds dates", "(y - y.min()) / numpy.timedelta64(1, 'D')")),
    Row("complex numbers for a regressor", lambda: numbers(y=T + 1j), error(ValueError, "Complex data not supported")),
    Row("booleans for a regressor", lambda: numbers(y=Y == 1), same(lambda: numbers(y=Y.astype(float)))),
    Row("Decimal for a regressor", lambda: numbers(y=[Decimal(i) / 4 for i in range(N)]), same(lambda: numbers(y=np.arange(N) / 4))),
    Row("a target as pandas' nullable floats", lambda: numbers(y=pd.Series(T, dtype="Float64")), same(clean_numbers)),
    Row("a target as a polars Series", lambda: numbers(y=pl.Series(T)), same(clean_numbers)),
    Row("a target as a pyarrow array in chunks", lambda: numbers(y=pa.chunked_array([T[:9], T[9:]])), same(clean_numbers)),
    Row("a target of one column keeps its shape", lambda: numbers(y=T[:, None]), same(lambda: clean_numbers()[:, None])),
    Row("a constant target", lambda: numbers(y=np.full(N, 2.5)), holds(lambda p: np.allclose(p, 2.5, rtol=1e-9))),
    Row("a constant target that is small", lambda: numbers(y=np.full(N, 1e-20)), holds(lambda p: np.allclose(p, 1e-20, rtol=1e-9, atol=0))),
    Row("a constant target of 0", lambda: numbers(y=np.zeros(N)), holds(lambda p: np.abs(p).max() < 1e-9)),
    Row("a target of 1e200", lambda: numbers(y=T * 1e200) / 1e200, same(clean_numbers, 1e-4)),
    Row("a target of 1e-200", lambda: numbers(y=T * 1e-200) / 1e-200, same(clean_numbers, 1e-4)),
    Row("a target from one end of float64 to the other", lambda: numbers(y=np.where(Y, 1e308, -1e308)), error(ValueError, "1e+308 in row 0", "too large", "other units")),
    Row("a target of 1e300", lambda: numbers(y=np.where(Y, 1e300, -1e300)), holds(finite)),
    Row("a target of 1e200, not scaled", lambda: numbers(y=T * 1e200, scale_target=False), error(ValueError, "too large", "scale_target=True")),
    Row("a target far from 0 with little variation", lambda: numbers(y=1e9 + T) - 1e9, same(clean_numbers, 1e-4)),
    Row("integers of uint8 as target", lambda: numbers(y=np.arange(N, dtype=np.uint8)), same(lambda: numbers(y=np.arange(N)))),
]  # fmt: skip

# --- weights

WEIGHTS = [
    Row("sample_weight is too short", lambda: mlp().fit(X, Y, np.ones(N - 1)), error(ValueError, "sample_weight.shape == (47,), expected (48,)")),
    Row("a complex sample_weight", lambda: mlp().fit(X, Y, np.ones(N, dtype=complex)), error(ValueError, "sample_weight has values that are not numbers (of type complex128)")),
    Row("sample_weight with two dimensions", lambda: mlp().fit(X, Y, np.ones((N, 2))), error(ValueError, "Sample weights must be 1D")),
    Row("a negative sample_weight", lambda: mlp().fit(X, Y, np.where(np.arange(N) == 2, -1.0, 1)), error(ValueError, "Negative values in data passed to `sample_weight`", "row 2")),
    Row("NaN in sample_weight", lambda: mlp().fit(X, Y, np.where(np.arange(N) == 2, np.nan, 1)), error(ValueError, "sample_weight contains NaN in row 2")),
    Row("infinity in sample_weight", lambda: mlp().fit(X, Y, np.where(np.arange(N) == 2, np.inf, 1)), error(ValueError, "sample_weight contains infinity in row 2")),
    Row("strings as sample_weight", lambda: mlp().fit(X, Y, ["1"] * N), error(ValueError, "sample_weight", "not numbers")),
    Row("all weights 0", lambda: mlp().fit(X, Y, np.zeros(N)), error(ValueError, "zero", "at least one positive")),
    Row("a scalar weight", lambda: mlp().fit(X, Y, 2.0).predict_proba(X), same(clean)),
    Row("weights as booleans", lambda: mlp().fit(X, Y, np.arange(N) < 30).predict_proba(X), same(lambda: mlp().fit(X[:30], Y[:30]).predict_proba(X))),
    Row("weights as a polars Series", lambda: mlp().fit(X, Y, pl.Series(np.ones(N))).predict_proba(X), same(clean)),
    Row("weights whose sum is beyond float64", lambda: mlp().fit(X, Y, np.full(N, 1e308)).predict_proba(X), same(clean)),
    Row("weights of 1e-308", lambda: mlp().fit(X, Y, np.full(N, 1e-308)).predict_proba(X), same(clean)),
    Row("one row with all the weight", lambda: mlp().fit(X, Y, np.eye(N)[0]).predict_proba(X), holds(lambda p: p.shape == (N, 2) and finite(p))),
    Row("a negative class_weight", lambda: proba(class_weight={0: -1, 1: 1}), error(ValueError, "class_weight[0]=-1", "expected")),
    Row("NaN in class_weight", lambda: proba(class_weight={0: np.nan, 1: 1}), error(ValueError, "class_weight[0]=nan")),
    Row("class_weight of unknown labels", lambda: proba(class_weight={"a": 1, "b": 2}), error(ValueError, "class_weight")),
    Row("class_weight 0 for one class", lambda: mlp().fit(X, Y, None).set_params(class_weight={0: 0.0, 1: 1.0}).fit(X, Y).classes_, holds(lambda c: c.tolist() == [0, 1])),
    Row("class_weight of equal numbers", lambda: proba(class_weight={0: 3.0, 1: 3.0}), same(clean)),
    Row("an empty class_weight", lambda: proba(class_weight={}), same(clean)),
    Row("a balanced class_weight in partial_fit", lambda: mlp(class_weight="balanced").partial_fit(X, Y, [0, 1]), error(ValueError, "class_weight='balanced'", "partial_fit", "dict")),
    Row("class_weight of an unknown label in partial_fit", lambda: mlp(class_weight={"posi": 5}).partial_fit(X, np.where(Y, "pos", "neg"), ["neg", "pos"]), error(ValueError, "class_weight", "'neg'", "'pos'")),
    Row("class_weight of an unknown label in a later partial_fit", lambda: mlp().partial_fit(X, Y, [0, 1]).set_params(class_weight={7: 5}).partial_fit(X, Y), error(ValueError, "class_weight", "0", "1")),
    Row("a dict of class weights for a multilabel target in partial_fit", lambda: mlp(class_weight={1: 5}).partial_fit(X, MULTILABEL), error(ValueError, "class_weight={1: 5}", "a list of 3 dicts")),
    Row("class weights of a multilabel target in partial_fit", lambda: mlp(class_weight=[{1: 5}, {0: 1, 1: 2}, {}]).partial_fit(X, MULTILABEL).predict(X).shape, holds(lambda shape: shape == (N, 3))),
    Row("weights of pandas.NA", lambda: mlp().fit(X, Y, pd.Series([1, pd.NA] * 24, dtype="Int64")), error(ValueError, "sample_weight contains NaN in row 1")),
    Row("a word as sample_weight", lambda: mlp().fit(X, Y, "balanced"), error(ValueError, "sample_weight", "not numbers")),
    Row("all weights 0 in score", lambda: fitted().score(X, Y, np.zeros(N)), error(ValueError, "zero", "at least one positive")),
    Row("a dict of class weights for several targets", lambda: proba(y=MULTILABEL + 1, class_weight={1: 2.0}), error(ValueError, "class_weight should be a list of dicts")),
    Row("sample_weight in score is too short", lambda: fitted().score(X, Y, np.ones(3)), error(ValueError, "expected (48,)")),
]  # fmt: skip

# --- rows to validate on, given by the user

VALIDATION = [
    Row("X_val without y_val", lambda: mlp().fit(X, Y, X_val=X), error(ValueError, "X_val was given without y_val", "both")),
    Row("y_val without X_val", lambda: mlp().fit(X, Y, y_val=Y), error(ValueError, "y_val was given without X_val", "both")),
    Row("X_val with another number of columns", lambda: mlp().fit(X, Y, X_val=X[:, :2], y_val=Y), error(ValueError, "X has 2 features", "expecting 3")),
    Row("X_val with other names", lambda: mlp().fit(F, Y, X_val=F.rename(columns={"size": "sise"}), y_val=Y), error(ValueError, "sise", "size")),
    Row("X_val with columns in another order", lambda: mlp().fit(F, Y, X_val=F[F.columns[::-1]], y_val=Y).predict_proba(F), same(lambda: mlp().fit(F, Y, X_val=F, y_val=Y).predict_proba(F))),
    Row("X_val and y_val of different lengths", lambda: mlp().fit(X, Y, X_val=X, y_val=Y[:5]), error(ValueError, "[48, 5]", "X_val")),
    Row("X_val without rows", lambda: mlp().fit(X, Y, X_val=X[:0], y_val=Y[:0]), error(ValueError, "0 sample(s)")),
    Row("y_val with a new label", lambda: mlp().fit(X, Y, X_val=X, y_val=Y + 1), error(ValueError, "y_val contains classes that were not seen before: 2", "expected classes among [0, 1]")),
    Row("y_val with another number of columns", lambda: mlpr().fit(X, T, X_val=X, y_val=np.column_stack([T, T])), error(ValueError, "y_val has", "(48, 2)")),
    Row("a constant y, but not y_val", lambda: mlpr().fit(X, np.zeros(N), X_val=X, y_val=T * 1e9).predict(X), holds(lambda p: np.abs(p).max() < 5)),
    Row("NaN in y_val", lambda: mlpr().fit(X, T, X_val=X, y_val=T * np.nan), error(ValueError, "Input y_val contains NaN")),
    Row("infinity in X_val", lambda: mlp().fit(X, Y, X_val=with_cell(np.inf), y_val=Y), error(ValueError, "infinity", "'x1'")),
    Row("groups and X_val", lambda: mlp().fit(X, Y, X_val=X, y_val=Y, groups=GROUPS), error(ValueError, "groups and X_val cannot both be given", "pass only one")),
    Row("cv and X_val", lambda: with_cv(HALVES).fit(X, Y, X_val=X, y_val=Y), error(ValueError, "cv and X_val cannot both be given", "pass only one")),
    Row("X_val has new categories", warns("no level that occurred in fit", lambda: mlp().fit(F, Y, X_val=F.assign(colour="mauve"), y_val=Y).predict_proba(F)), holds(valid)),
]  # fmt: skip

# --- folds, given by the user

GROUPS = np.arange(N) // 6
HALVES = [(np.arange(24), np.arange(24, N)), (np.arange(24, N), np.arange(24))]


def with_cv(cv: Any, **changed: Any) -> Any:
    return mlp(n_folds="auto", cv=cv, **changed)


FOLDS = [
    *[
        Row(f"cv={value!r}", functools.partial(lambda value: with_cv(value).fit(X, Y), value), error(TypeError, f"cv={value!r} is not a splitter", "use n_folds"))
        for value in (5, 2.5, "5", True)
    ],
    Row("cv and n_folds", lambda: mlp(cv=HALVES, n_folds=2).fit(X, Y), error(ValueError, "cv and n_folds=2 cannot both be given", "or cv=None")),
    Row("a cv without folds", lambda: with_cv([]).fit(X, Y), error(ValueError, "cv=[] yields no folds", "expected at least one pair")),
    Row("a cv of rows, not of pairs", lambda: with_cv([3]).fit(X, Y), error(ValueError, "cv=[3] yields 3", "expected pairs")),
    Row("a cv of three parts", lambda: with_cv([(range(9), range(9), range(9))]).fit(X, Y), error(ValueError, "yields (range(0, 9)", "expected pairs")),
    Row("a cv with a fold without validation rows", lambda: with_cv([(range(9), [])]).fit(X, Y), error(ValueError, "has a fold without rows", "training and validation rows")),
    Row("a cv that names a row beyond the table", lambda: with_cv([(range(9), [5, 48])]).fit(X, Y), error(ValueError, "yields row 48", "0 to 47")),
    Row("a cv that counts from the end", lambda: with_cv([(range(9), [-1])]).fit(X, Y), error(ValueError, "yields row -1", "0 to 47")),
    Row("a cv that names rows by fractions", lambda: with_cv([([0.5], [1.5])]).fit(X, Y), error(TypeError, "float64 values", "positions")),
    Row("a cv of masks", lambda: with_cv([(np.arange(N) < 24, np.arange(N) >= 24), (np.arange(N) >= 24, np.arange(N) < 24)]).fit(X, Y).predict_proba(X), same(lambda: with_cv(HALVES).fit(X, Y).predict_proba(X))),
    Row("groups that are too few", lambda: mlp().fit(X, Y, groups=GROUPS[:5]), error(ValueError, "groups has shape (5,)", "48 rows")),
    Row("groups that are too few, and weights", lambda: mlp().fit(X, Y, np.arange(N) % 2, groups=GROUPS[:5]), error(ValueError, "groups has shape (5,)", "48 rows")),
    Row("groups are one word", lambda: mlp().fit(X, Y, groups="patient"), error(ValueError, "groups has shape ()", "48 rows")),
    Row("groups that are all the same", lambda: mlp().fit(X, Y, groups=np.zeros(N)), error(ValueError, "groups has only one distinct label", "at least two")),
    Row("groups of mixed types", lambda: mlp().fit(X, Y, groups=[None, "a"] * 24), error(TypeError, "groups has labels that cannot be sorted", "such as str")),
    Row("groups without folds", lambda: mlp(n_folds=0).fit(X, Y, groups=GROUPS), error(ValueError, "groups", "n_folds=0", "use n_folds>=2")),
    Row("groups as strings", lambda: mlp().fit(X, Y, groups=GROUPS.astype(str)).predict_proba(X), same(lambda: mlp().fit(X, Y, groups=GROUPS).predict_proba(X))),
    Row("groups as a polars Series", lambda: mlp().fit(X, Y, groups=pl.Series(GROUPS)).predict_proba(X), same(lambda: mlp().fit(X, Y, groups=GROUPS).predict_proba(X))),
    Row("fewer groups than folds", lambda: len(mlp(n_folds=5).fit(X, Y, groups=np.arange(N) % 3).members_), holds(lambda n: n == 3)),
    Row("more folds than rows", lambda: len(mlpr(n_folds=20).fit(X[:6], T[:6]).members_), holds(lambda n: n == 6)),
]  # fmt: skip

# --- choosing candidates, and targets that are transformed

CHOOSING = [
    Row("a metric that is a function of labels", lambda: proba(metric=accuracy_score), error(ValueError, "metric=accuracy_score", "make_scorer(accuracy_score)")),
    Row("the logarithm of targets that are not positive", lambda: numbers(y=T, target_transform="log"), error(ValueError, "target_transform='log'", "use target_transform='none'")),
    Row("more candidates than there are", lambda: len(mlp(n_candidates=500, max_epochs=1, activation="relu", learning_rate=0.01, dropout=0.0, weight_decay=0.0, numeric_embedding=None).fit(X, Y).pack_), holds(lambda n: n == 2)),
    Row("oof_prediction_ without folds", lambda: mlp(n_folds=0).fit(X, Y).oof_prediction_, error(AttributeError, "oof_prediction_", "n_folds>=1")),
    Row("oof_score_ without folds", lambda: mlp(n_folds=0).fit(X, Y).oof_score_, error(AttributeError, "n_folds>=1")),
    Row("pack_ before fit", lambda: mlp().pack_, error(NotFittedError, "not fitted yet")),
    Row("intervals without folds", lambda: mlpr(n_folds=0).fit(X, T).predict_interval(X), error(ValueError, "predict_interval", "n_folds>=1")),
    Row("intervals that cover all", lambda: mlpr().fit(X, T).predict_interval(X, coverage=1), error(ValueError, "coverage=1", "0.9")),
    Row("intervals before fit", lambda: mlpr().predict_interval(X), error(NotFittedError, "not fitted yet")),
]  # fmt: skip

# --- predicting

PREDICTING = [
    Row("predict before fit", lambda: mlp().predict(X), error(NotFittedError, "not fitted yet")),
    Row("predict_proba before fit", lambda: mlp().predict_proba(X), error(NotFittedError, "not fitted yet")),
    Row("regressor: predict before fit", lambda: mlpr().predict(X), error(NotFittedError, "not fitted yet")),
    Row("columns_ before fit", lambda: mlp().columns_, error(NotFittedError, "not fitted yet")),
    Row("encode before fit", lambda: mlp().encode(X), error(NotFittedError, "not fitted yet")),
    Row("feature_importances_ before fit", lambda: mlp().feature_importances_, error(NotFittedError, "not fitted yet")),
    Row("permutation_importance before fit", lambda: mlp().permutation_importance(X, Y), error(NotFittedError, "not fitted yet")),
    Row("score before fit", lambda: mlp().score(X, Y), error(NotFittedError, "not fitted yet")),
    Row("predict no rows", lambda: fitted().predict(X[:0]), error(ValueError, "Found array with 0 sample(s)")),
    Row("predict one dimension", lambda: fitted().predict(X[0]), error(ValueError, "Expected 2D array, got 1D")),
    Row("a column too few", lambda: fitted().predict(X[:, :2]), error(ValueError, "X has 2 features, but MLPClassifier is expecting 3 features")),
    Row("a column too many", lambda: fitted().predict(X[:, [0, 1, 2, 2]]), error(ValueError, "X has 4 features")),
    Row("a named column is missing", lambda: fitted_frame().predict(F.drop(columns="size")), error(ValueError, "now missing", "- size")),
    Row("a named column too many", lambda: fitted_frame().predict(F.assign(more=1)), error(ValueError, "unseen at fit time", "- more")),
    Row("a renamed column", lambda: fitted_frame().predict(F.rename(columns={"size": "SIZE"})), error(ValueError, "- SIZE", "- size")),
    Row("columns in another order", lambda: fitted_frame().predict_proba(F[F.columns[::-1]]), same(clean_frame)),
    Row("no names in predict", warns("does not have valid feature names", lambda: fitted_named().predict_proba(X)), same(clean)),
    Row("names in predict only", warns("fitted without feature names", lambda: fitted().predict_proba(pd.DataFrame(X, columns=NAMES))), same(clean)),
    Row("category in predict, object in fit", lambda: fitted_frame().predict_proba(F.astype({"colour": "category"})), same(clean_frame)),
    Row("categories of the first rows only", lambda: fitted_frame().predict_proba(F.iloc[:2].astype({"colour": "category"})), same(lambda: clean_frame()[:2])),
    Row("polars in predict, pandas in fit", lambda: fitted_frame().predict_proba(pl.from_pandas(F)), same(clean_frame)),
    Row("integers as strings in predict", lambda: _as_category("count").predict_proba(F.astype({"count": str})), same(lambda: _as_category("count").predict_proba(F))),
    Row("integers that became floats beside a gap", lambda: _as_category("count").predict_proba(F.assign(count=F["count"].astype(float))), same(lambda: _as_category("count").predict_proba(F))),
    Row("integers as numbers, then floats", lambda: fitted_frame().predict_proba(F.astype({"count": float})), same(clean_frame)),
    Row("numbers as strings in predict are read", lambda: fitted_frame().predict_proba(F.astype({"size": str})), same(clean_frame)),
    Row("text where numbers were", lambda: fitted_frame().predict(F.assign(size="tall")), error(ValueError, "'size'", "'tall'", "not a number")),
    Row("dates where numbers were", lambda: fitted_frame().predict(F.assign(size=F["when"])), error(ValueError, "'size'", "has dates, but numbers")),
    Row("numbers where dates were", lambda: fitted_frame().predict(F.assign(when=1.5)), error(ValueError, "'when'", "dates are expected")),
    Row("dates as ISO strings in predict", lambda: fitted_frame().predict_proba(F.assign(when=F["when"].astype(str))), same(clean_frame)),
    Row("another number where booleans were", lambda: fitted_frame().predict(F.assign(flag=2)), error(ValueError, "'flag'", "boolean in fit", "2")),
    Row("booleans as 0 and 1", lambda: fitted_frame().predict_proba(F.assign(flag=F["flag"].astype(int))), same(clean_frame)),
    Row("booleans as strings", lambda: fitted_frame().predict_proba(F.assign(flag=F["flag"].astype(str))), same(clean_frame)),
    Row("a category that is new", warns("no level that occurred in fit", lambda: fitted_frame().predict_proba(F.assign(colour="mauve"))), same(lambda: fitted_frame().predict_proba(F.assign(colour=None)))),
    Row("a gap that is new in numbers", lambda: fitted_frame().predict_proba(F.assign(size=np.nan)), holds(valid)),
    Row("a gap that is new in dates", lambda: fitted_frame().predict_proba(F.assign(when=pd.NaT)), holds(valid)),
    Row("a gap that is new in booleans", lambda: fitted_frame().predict_proba(F.assign(flag=None)), holds(valid)),
    Row("return_std of one network", lambda: mlpr(n_folds=1).fit(X, T).predict(X, return_std=True), error(ValueError, "return_std=True", "n_folds>=2")),
    Row("score with one label for all rows", lambda: fitted().score(X, Y[:1]), error(ValueError, "[48, 1]")),
    Row("score with labels of another type", lambda: fitted().score(X, Y.astype(str)), error(ValueError, "strings such as", "numbers such as", "same type as in fit")),
    Row("importance with labels of another type", lambda: fitted().permutation_importance(X, Y.astype(str)), error(ValueError, "strings such as", "same type as in fit")),
    Row("importance with too many columns of labels", lambda: fitted().permutation_importance(X, np.c_[Y, Y]), error(ValueError, "y has shape", "the shape of the predictions")),
    Row("regressor: score with strings", lambda: mlpr().fit(X, T).score(X, T.astype(str)), error(ValueError, "y holds", "not numbers")),
    Row("regressor: score with NaN", lambda: mlpr().fit(X, T).score(X, T * np.nan), error(ValueError, "Input y contains NaN in row 0")),
    Row("regressor: score with a polars Series", lambda: mlpr().fit(X, T).score(X, pl.Series(T)), same(lambda: mlpr().fit(X, T).score(X, T))),
    Row("score with targets of two columns", lambda: fitted().score(X, MULTILABEL), error(ValueError, "(48, 3)")),
    Row("n_repeats of 0", lambda: fitted().permutation_importance(X, Y, n_repeats=0), error(ValueError, "n_repeats=0")),
]  # fmt: skip


@functools.cache
def _as_category(column: str) -> Any:
    return mlp(column_kinds={column: "category"}).fit(F, Y)


# --- going on

GOING_ON = [
    Row("partial_fit without classes", lambda: mlp().partial_fit(X, Y), error(ValueError, "classes must be passed on the first call to partial_fit")),
    Row("partial_fit with a number as classes", lambda: mlp().partial_fit(X, Y, classes=5), error(TypeError, "classes=5", "expected a list", "[0, 1]")),
    Row("partial_fit of several targets with a number as classes", lambda: mlp().partial_fit(X, MULTILABEL, classes=5), error(TypeError, "classes=5", "expected a list")),
    Row("a later partial_fit with a word as classes", lambda: mlp().partial_fit(X, Y, [0, 1]).partial_fit(X, Y, classes="01"), error(TypeError, "classes='01'", "expected a list")),
    Row("partial_fit with a label that classes has not", lambda: mlp().partial_fit(X, Y, classes=[0, 7]), error(ValueError, "not seen before: 1", "expected classes among [0, 7]")),
    Row("a later partial_fit with other classes", lambda: mlp().partial_fit(X, Y, [0, 1]).partial_fit(X, Y, classes=[0, 1, 2]), error(ValueError, "classes=[0, 1, 2]` is not the same as on last call to partial_fit", "[0, 1]")),
    Row("a later partial_fit with the same classes", lambda: mlp().partial_fit(X, Y, [0, 1]).partial_fit(X, Y, classes=[1, 0]).classes_, holds(lambda c: c.tolist() == [0, 1])),
    Row("partial_fit of a multilabel target with the numbers of its columns", lambda: mlp().partial_fit(X, MULTILABEL, [0, 1, 2]).partial_fit(X, MULTILABEL, [0, 1, 2]).predict(X).shape, holds(lambda shape: shape == (N, 3))),
    Row("a later partial_fit with a new label", lambda: mlp().partial_fit(X, Y, [0, 1]).partial_fit(X, Y + 1), error(ValueError, "not seen before: 2")),
    Row("a later partial_fit with labels of another type", lambda: mlp().partial_fit(X, Y, [0, 1]).partial_fit(X, Y.astype(str)), error(ValueError, "not seen before: '0', '1'")),
    Row("partial_fit with one class of several", lambda: mlp().partial_fit(X[:4], [1] * 4, [0, 1, 2]).predict_proba(X), holds(lambda p: valid(p) and p.shape == (N, 3))),
    Row("partial_fit that begins with one row", lambda: mlpr().partial_fit(X[:1], T[:1]), error(ValueError, "all columns are constant in the 1 rows", "more rows")),
    Row("partial_fit that begins with a constant target", lambda: mlpr(learning_rate=0.05).partial_fit(X, np.full(N, 3.0)).partial_fit(X, T).predict(X), holds(lambda p: finite(p) and np.ptp(p) > 0.1)),
    Row("a later partial_fit with other columns", lambda: mlp().partial_fit(X, Y, [0, 1]).partial_fit(X[:, :2], Y), error(ValueError, "X has 2 features")),
    Row("a later partial_fit with more targets", lambda: mlpr().partial_fit(X, T).partial_fit(X, np.column_stack([T, T])), error(ValueError, "2 columns; expected 1")),
    Row("partial_fit of several targets with their classes", lambda: mlp().partial_fit(X, MULTILABEL[:, :2], [[0, 1, 2], [0, 1]]).classes_, holds(lambda c: [own.tolist() for own in c] == [[0, 1, 2], [0, 1]])),
    Row("partial_fit of several targets with wrong classes", lambda: mlp().partial_fit(X, MULTILABEL, [[0, 1], [0, 1]]), error(ValueError, "classes=", "3 columns")),
    Row("warm_start with other columns", lambda: mlp(warm_start=True).fit(X, Y).fit(X[:, :2], Y), error(ValueError, "X has 2 features")),
    Row("warm_start with renamed columns", lambda: mlp(warm_start=True).fit(F, Y).fit(F.rename(columns={"size": "sise"}), Y), error(ValueError, "sise")),
    Row("warm_start with new labels", lambda: mlp(warm_start=True).fit(X, Y).fit(X, Y + 1), error(ValueError, "not seen before: 2")),
    Row("warm_start with another width", lambda: mlp(warm_start=True).fit(X, Y).set_params(hidden=(9,)).fit(X, Y), error(ValueError, "hidden=(9,) was (8,)", "warm_start=False")),
    Row("warm_start with more folds", lambda: mlp(warm_start=True).fit(X, Y).set_params(n_folds=3).fit(X, Y), error(ValueError, "n_folds=3 was 2", "restore the previous value")),
    Row("warm_start with another scaling", lambda: mlp(warm_start=True).fit(X, Y).set_params(scaling="none").fit(X, Y), error(ValueError, "scaling='none' was 'auto'")),
    Row("a new fit may change all that", lambda: mlp(n_folds=3).fit(X, 1 - Y).set_params(n_folds=2).fit(X, Y).predict_proba(X), same(clean)),
]  # fmt: skip


ROWS = [*PARAMETERS, *TABLES, *TARGETS, *WEIGHTS, *VALIDATION, *FOLDS, *CHOOSING, *PREDICTING, *GOING_ON]
