"""The same small table in every form that a user may have it, and shortcuts that the tests share."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from tabgnm.table import TableEncoder, TableSettings, read_table

NAN = float("nan")

N_ROWS = 60
NAMES = ["age", "income", "member", "colour", "city", "joined", "visit"]


def _columns() -> dict[str, list[Any]]:
    rng = np.random.default_rng(0)
    day = datetime.datetime(2020, 1, 1)
    columns: dict[str, list[Any]] = {
        "age": rng.integers(18, 80, N_ROWS).tolist(),
        "income": rng.lognormal(size=N_ROWS).tolist(),
        "member": (rng.random(N_ROWS) < 0.5).tolist(),
        "colour": rng.choice(["red", "green", "blue"], N_ROWS).tolist(),
        "city": [f"city {number}" for number in rng.integers(0, 15, N_ROWS)],
        "joined": [(day + datetime.timedelta(days=int(d))).date() for d in rng.integers(0, 900, N_ROWS)],
        "visit": [day + datetime.timedelta(minutes=int(m)) for m in rng.integers(0, 10**6, N_ROWS)],
    }
    for place, name in enumerate(columns):
        columns[name][place + 1] = None
        columns[name][20] = None
    return columns


COLUMNS = _columns()
ROWS = [list(row) for row in zip(*COLUMNS.values(), strict=True)]


def as_objects() -> np.ndarray[Any, Any]:
    array = np.empty((N_ROWS, len(COLUMNS)), dtype=object)
    for place, cells in enumerate(COLUMNS.values()):
        array[:, place] = cells
    return array


def pandas_of(**dtypes: Any) -> pd.DataFrame:
    """A frame with these dtypes; columns that none is given for are what pandas makes of the lists."""
    series = {}
    for name, cells in COLUMNS.items():
        frame_cells = [pd.Timestamp(c) if isinstance(c, datetime.date) else c for c in cells]
        series[name] = pd.Series(frame_cells if name in ("joined", "visit") else cells, dtype=dtypes.get(name))
    return pd.DataFrame(series)


def polars_of(text: Any = pl.String) -> pl.DataFrame:
    return pl.DataFrame(COLUMNS).with_columns(pl.col("colour", "city").cast(text))


def arrow_of(*, dictionary: bool = False) -> pa.Table:
    table = pa.table(COLUMNS)
    if dictionary:
        for name in ("colour", "city"):
            table = table.set_column(table.column_names.index(name), name, table[name].dictionary_encode())
    return table


def pandas_arrow() -> pd.DataFrame:
    table = pa.table(COLUMNS)
    return pd.DataFrame(
        {name: pd.array(table[name].combine_chunks(), dtype=pd.ArrowDtype(table[name].type)) for name in NAMES}
    )


FORMS: dict[str, Callable[[], Any]] = {
    "pandas": pandas_of,
    "pandas, objects": lambda: pandas_of(**dict.fromkeys(NAMES[:5], object)),
    "pandas, nullable": lambda: pandas_of(
        age="Int64", income="Float64", member="boolean", colour="string", city="string"
    ),
    "pandas, categories": lambda: pandas_of(member="boolean", colour="category", city="category"),
    "pandas, arrow": pandas_arrow,
    "polars": polars_of,
    "polars, lazy": lambda: polars_of().lazy(),
    "polars, Categorical": lambda: polars_of(pl.Categorical),
    "pyarrow": arrow_of,
    "pyarrow, dictionary": lambda: arrow_of(dictionary=True),
    "pyarrow, several chunks": lambda: pa.concat_tables([arrow_of().slice(0, 7), arrow_of().slice(7)]),
    "numpy, objects": as_objects,
    "list of rows": lambda: ROWS,
    "list of tuples": lambda: [tuple(row) for row in ROWS],
}

# Every way in which numbers are encoded.
NUMERIC_SETTINGS = [
    {"scaling": scaling, "numeric_embedding": embedding}
    for scaling in ("none", "standard", "robust", "quantile")
    for embedding in (None, "periodic", "piecewise")
]


def fitted(X: Any, rows: Any = None, **settings: Any) -> TableEncoder:
    return TableEncoder(TableSettings(**settings)).fit(read_table(X), rows)


def encoded(X: Any, **settings: Any) -> np.ndarray[Any, Any]:
    """What becomes of a table that the encoder was fitted on."""
    return fitted(X, **settings).encode(read_table(X), dtype=np.float64)


def column(cells: Any, dtype: Any = None) -> pd.DataFrame:
    """A frame of one column, "a"."""
    return pd.DataFrame({"a": pd.Series(cells, dtype=dtype)})
