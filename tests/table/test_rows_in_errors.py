"""An error names the row of the table that was read, whichever part of it was looked at."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from tabgnm.table import TableEncoder, TableError, TableSettings, read_table
from tests.table.examples import column, fitted

N_ROWS = 60
BAD_ROW = 50
TRAINING = [row for row in range(N_ROWS) if row % 5]  # BAD_ROW is not among them, BAD_ROW + 1 is


def with_bad_cell(good: list[Any], bad: Any, row: int = BAD_ROW) -> list[Any]:
    cells = [good[place % len(good)] for place in range(N_ROWS)]
    cells[row] = bad
    return cells


DAY = datetime.datetime(2024, 1, 1)
CELLS: dict[str, tuple[list[Any], Any, str | None]] = {
    "infinity": ([1.0, 2.0, 3.0], np.inf, None),
    "no number": (["1", "2", "3"], DAY, "number"),
    "too large": ([1, 2, 3], 10**400, None),
    "no date": (["2024-01-01", "2024-05-02"], 3.5, "datetime"),
    "container": (["a", "b"], [1], None),
}


@pytest.mark.parametrize("case", CELLS)
def test_an_error_in_fit_names_the_row_of_the_table_not_of_the_training_rows(case: str) -> None:
    good, bad, kind = CELLS[case]
    settings = TableSettings(kinds=None if kind is None else {"a": kind})
    raw = read_table(column(with_bad_cell(good, bad, BAD_ROW + 1), object))
    for rows in (None, TRAINING, slice(7, None)):
        with pytest.raises(TableError, match=f"in row {BAD_ROW + 1}"):
            TableEncoder(settings).fit(raw, rows)


LATER: dict[str, tuple[Any, Any, list[Any], Any]] = {
    "infinity": ([[1.0], [2.0]], None, [1.0, 2.0], np.inf),
    "no number": ([[1.0], [2.0]], object, ["1", "2"], DAY),
    "no boolean": ([[True], [False]], None, [1.0, 0.0], 0.5),
    "no word for a boolean": ([[True], [False]], object, ["true", "false"], "zz"),
    "no date": ([[DAY], [DAY.replace(year=2025)]], object, ["2024-01-01"], 3.5),
}


@pytest.mark.parametrize("case", LATER)
def test_an_error_in_encode_names_the_row_of_the_table_not_of_the_block(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    then, dtype, good, bad = LATER[case]
    encoder = fitted(then)
    raw = read_table(np.array(with_bad_cell(good, bad), dtype=dtype)[:, None])
    for block_size in (2_000_000, 16):
        monkeypatch.setattr("tabgnm.table.encoder._BLOCK_SIZE", block_size)
        for part in (raw, raw.take(slice(20, None)), raw.take(slice(10, None)).take(slice(10, 45))):
            with pytest.raises(TableError, match=f"in row {BAD_ROW}"):
                encoder.encode(part)
        with pytest.raises(TableError, match=f"in row {BAD_ROW}"):
            encoder.encode(raw.take([3, 4, BAD_ROW, 5]).take(slice(1, None)))


def test_rows_of_every_kind_of_table_are_named() -> None:
    numbers = np.array(with_bad_cell([1.0, 2.0], np.inf))[:, None]
    frame = pd.DataFrame({"a": numbers[:, 0], "b": "word"})
    for X in (numbers, numbers.tolist(), sparse.csr_matrix(numbers), frame, frame[["a"]], pl.from_pandas(frame)):
        raw = read_table(X)
        for act in (
            lambda raw=raw: TableEncoder().fit(raw, slice(2, None)),
            lambda raw=raw: TableEncoder().fit(raw, slice(0, 9)).encode(raw.take(slice(40, None))),
            lambda raw=raw: TableEncoder().fit(raw, slice(0, 9)).encode(raw.take(np.arange(N_ROWS)[::-1])),
        ):
            with pytest.raises(TableError, match=f"has inf in row {BAD_ROW};"):
                act()
