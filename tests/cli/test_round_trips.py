"""What is written to a file is read again, in every format, whole and in chunks."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from tabgnm.cli.tablefiles import TableFileError, open_table, open_writer, read_table

ENDINGS = [
    ".csv",
    ".txt",
    ".tsv",
    ".parquet",
    ".pq",
    ".feather",
    ".arrow",
    ".jsonl",
    ".ndjson",
    ".sqlite",
    ".sqlite3",
    ".db",
]
FRAME = pd.DataFrame(
    {
        "rooms": [1, 2, 3, 4, 5],
        "price": [1.5, None, 1e-300, -0.1, 123456789.25],
        "town": ["Bern", None, 'a "quoted", text', "line\nend;tab\t|", "Zürich 東京"],
        "zip": ["01234", "00001", "90210", "1", "7"],
    }
)


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_table_that_is_written_in_parts_is_read_again(tmp_path: Path, ending: str, packed: str) -> None:
    path = tmp_path / f"homes{ending}{packed}"
    with open_writer(path, list(FRAME.columns)) as writer:
        writer.write(FRAME.head(2))
        writer.write(FRAME.tail(3))
    pd.testing.assert_frame_equal(read_table(path), FRAME)
    with open_table(path, chunk_rows=2) as reader:
        assert reader.columns == list(FRAME.columns)
        chunks = list(reader)
    assert [len(chunk) for chunk in chunks] == [2, 2, 1]
    again = pd.concat(chunks, ignore_index=True)
    assert again["town"].isna().tolist() == FRAME["town"].isna().tolist()
    assert again["zip"].tolist() == FRAME["zip"].tolist()
    assert list(tmp_path.iterdir()) == [path]


def test_a_writer_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "homes.csv"
    path.write_text("as it was")
    with pytest.raises(ValueError, match="has the columns"), open_writer(path, list(FRAME.columns)) as writer:
        writer.write(FRAME[["zip", "town"]])
    assert path.read_text() == "as it was"
    assert list(tmp_path.iterdir()) == [path]


def test_a_database_that_exists_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "homes.db"
    path.write_text("as it was")
    with pytest.raises(TableFileError, match="exists already"):
        open_writer(path, ["a"])
